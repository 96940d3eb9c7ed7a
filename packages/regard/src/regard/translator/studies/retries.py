"""Trials that are tried again, because their worker was killed or stopped: by Optuna's own callback, as new trials.

A trial that failed for a reason of its own (its loss was not finite, say) has that reason written down: it is an
answer, and stays. One without a reason was interrupted. What takes its place has a new number, its parameters and, in
Optuna's books, the numbers it had before.
"""

from __future__ import annotations

import contextlib
import copy
import warnings
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import optuna

REASON = "reason"


def retry_callback() -> Any:
    """What puts a trial that was interrupted back into the queue, as often as it takes."""
    import optuna

    with silence_warnings():
        return optuna.storages.RetryHeartbeatStaleTrialCallback()


def retry_interrupted(study: optuna.Study) -> None:
    """Put every interrupted trial back into the queue, unless it is there already."""
    trials = study.get_trials(deepcopy=False)
    done, again = replaced_numbers(trials), retry_callback()
    for trial in trials:
        if is_interrupted(trial) and trial.number not in done:
            again(study, copy.deepcopy(trial))  # the callback adds to the list that it finds in the trial


def is_interrupted(trial: Any) -> bool:
    """Whether a trial ended without an answer."""
    return trial.state.name == "FAIL" and REASON not in trial.user_attrs


def earlier_numbers(trial: Any) -> list[int]:
    """The numbers that a trial had when it was interrupted, the first one first; none for one that never was."""
    import optuna

    with silence_warnings():
        return list(optuna.storages.RetryHeartbeatStaleTrialCallback.retry_history(trial))


def replaced_numbers(trials: Sequence[Any]) -> set[int]:
    """The numbers of trials that others have taken the place of."""
    return {number for trial in trials for number in earlier_numbers(trial)}


def ordinal(trials: Sequence[Any], number: int) -> int:
    """Which of the trials this would be, counted from 0, had no worker ever been stopped: what its draws depend on."""
    earlier = earlier_numbers(trials[number]) if number < len(trials) else []
    first = earlier[0] if earlier else number
    # a trial that takes another's place has a number but is no new try
    return first - sum(bool(earlier_numbers(trial)) for trial in trials[:first])


@contextlib.contextmanager
def silence_warnings() -> Iterator[None]:
    """Without Optuna's warnings that heartbeats and retries are experimental."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
