"""A translator's perplexity on sentences that nobody has seen: the next word's scores, asked for one word at a
time.

The hidden file is JSON: {"words": how many there are, "pairs": [[source numbers, target numbers], ...]}. The
student's function gets a source and the target's words so far, and returns one score per word. The probability is
their softmax, computed here from the scores of all words: a function that does not sum to 1, or that has not been told
the word yet, cannot do better for it. The sentences stay outside; what is to come is never sent.

With ``weights`` in the assignment the student hands in a .safetensors file beside the code. Then torch is there, and
the function gets the weights as a third argument, tensors by name.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.attention import log_sum_exp
from regard.coursework.question import Instance, Question, Ruling, format_distinctly
from regard.errors import InputError
from regard.files import read_file
from regard.sandbox import child
from regard.sandbox.runner import Runner, SandboxStartError, TimeLimitError, checked_reply, format_error
from regard.sandbox.tool import Tool
from regard.strict_json import parse_json

if TYPE_CHECKING:
    from regard.grading.questions.assignment import Task
    from regard.grading.questions.examination import Outcome

MOST_WORDS, MOST_TOKENS = 100_000, 100_000  # each target word is one call of the student's function
SCORER = Tool(
    module="regard.grading.questions.sandbox_scorer",
    doing="A model with weights",
)


@dataclass(frozen=True, kw_only=True)
class HiddenSentences:
    """The sentences."""

    words: int
    pairs: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]

    @property
    def tokens(self) -> int:
        return sum(len(target) for _, target in self.pairs)


def read_hidden_sentences(path: Path) -> HiddenSentences:
    """The hidden file, checked."""
    form = 'write {"words": 100, "pairs": [[[1, 2], [3, 4]], ...]}'
    try:
        data = parse_json(read_file(path, most=50_000_000))
        words = data["words"]
        pairs = tuple((tuple(source), tuple(target)) for source, target in data["pairs"])
    except FileNotFoundError:
        raise InputError(f"{path}: there is no such file; name it relative to the assignment.") from None
    except (ValueError, KeyError, TypeError):
        raise InputError(f"{path} is not a hidden test set; {form}.") from None
    if type(words) is not int or not 1 <= words <= MOST_WORDS or not pairs:
        raise InputError(f"{path}: words must be a whole number from 1 to {MOST_WORDS}, and pairs not empty; {form}.")
    for pair in pairs:
        for sentence in pair:
            if not sentence or not all(type(word) is int and 0 <= word < words for word in sentence):
                raise InputError(f"{path}: every sentence is a list of whole numbers from 0 to {words - 1}; {form}.")
    hidden = HiddenSentences(words=words, pairs=pairs)
    if hidden.tokens > MOST_TOKENS:
        raise InputError(f"{path} has {hidden.tokens:,} target words, and at most {MOST_TOKENS:,} are asked for.")
    return hidden


def perplexity_of(hidden: HiddenSentences, scores: Callable[[Any, Any], Any]) -> float:
    """exp of the mean of -log p over all target words; ``scores`` is the student's function, its answers checked."""
    lost = 0.0
    for source, target in hidden.pairs:
        for place, word in enumerate(target):
            answer = scores(np.array(source), np.array(target[:place], dtype=np.int64))
            below = answer - answer.max()  # first: beside scores of 1e6 a logarithm would lose its digits
            lost += float(log_sum_exp(below) - below[word])
    return math.exp(min(lost / hidden.tokens, 700.0))  # e^710 is no float any more, and no points are left long before


def share(perplexity: float, *, good: float, bad: float) -> float:
    """The share of the points.

    >>> share(10, good=10, bad=1000), round(share(100, good=10, bad=1000), 6), share(2000, good=10, bad=1000)
    (1.0, 0.5, 0.0)
    """
    if not perplexity < bad:
        return 0.0
    # In nats, so that going from 100 to 50 is worth as much as going from 20 to 10.
    return min(1.0, (math.log(bad) - math.log(perplexity)) / (math.log(bad) - math.log(good)))


def question_of(path: Path, *, weights: bool = False) -> Question:
    """What the runner asks; instances are not drawn, the hidden sentences are."""
    hidden = read_hidden_sentences(path)
    third = {"weights": "the weights that you handed in, torch tensors by name"} if weights else {}
    return Question(
        function="scores",
        arguments={
            "source": "the source sentence, an array of word numbers",
            "prefix": "the words of the translation so far, an array of word numbers; empty at the beginning",
            **third,
        },
        task="One score for each word that could come next; its probability is the softmax of the scores.",
        returns=f"an array of {hidden.words} numbers",
        shape=lambda given: (hidden.words,),
        sizes=(),
        make=lambda latent: Instance(given={"source": np.array([0]), "prefix": np.array([], dtype=np.int64)}),
        judge=lambda instance, answer: Ruling(room=0.0, said=""),  # nobody asks it
        decided="The perplexity is computed from the scores that came back.",
    )


def _ask_with_weights(runner: Runner, given: dict[str, Any], hidden: HiddenSentences) -> dict[str, Any]:
    """One question to the tool that holds the weights; its reply, checked."""
    asked = {"wanted": "scores", **{name: child.pack_array(value) for name, value in given.items()}}
    data = runner.ask(asked, doing=f"one call of {runner.function}", most=32 * hidden.words + 1000)
    try:
        return checked_reply(data)
    except ValueError:
        raise InputError(f"{runner.name} must return {hidden.words} finite numbers, one score for each word.") from None


def judge_perplexity(task: Task, runner: Runner, weights: bytes | None = None) -> Outcome:
    """Ask for every word of the hidden sentences, and say what the perplexity is."""
    from regard.grading.questions.examination import Outcome, Status, failed_outcome

    if task.file is None:
        raise InputError(f"Question {task.id!r} names no hidden file.")
    hidden = read_hidden_sentences(task.file)
    if task.weights:
        sent = {"wanted": "weights", "data": base64.b64encode(weights or b"").decode("ascii")}
        runner.ask(sent, doing="reading its weights", most=100)

    def scores(source: Any, prefix: Any) -> Any:
        given = {"source": source, "prefix": prefix}
        reply = _ask_with_weights(runner, given, hidden) if task.weights else runner.call(given, most=16 * hidden.words)
        if "raised" in reply:
            raise InputError(f"{runner.name} failed: {format_error(reply['raised'])}; fix it first.")
        answer = reply.get("array")
        if answer is None or answer.shape != (hidden.words,) or not np.isfinite(answer).all():
            raise InputError(f"{runner.name} must return {hidden.words} finite numbers, one score for each word.")
        return answer

    try:
        reached = perplexity_of(hidden, scores)
    except (TimeLimitError, SandboxStartError):  # no fault of the answer, perhaps: the caller knows what follows
        raise
    except InputError as error:
        return failed_outcome(str(error))
    part = share(reached, good=task.good, bad=task.bad)
    has, asked = format_distinctly(reached, task.good, digits=4)
    reason = f"its perplexity on the hidden sentences is {has}; all points are for {asked} or less"
    if part == 1.0:
        return Outcome(status=Status.PASSED, share=1.0, instances=hidden.tokens)
    mistakes = ("the perplexity is above what is asked for",)
    return Outcome(status=Status.FAILED, share=part, reason=reason, mistakes=mistakes, instances=hidden.tokens)
