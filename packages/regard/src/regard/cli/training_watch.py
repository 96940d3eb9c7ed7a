"""What a training run says while it lasts."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from regard.progress import STOPPING, duration
from regard.terminal import printable

if TYPE_CHECKING:
    from regard.translator.runs.log import Epoch
    from regard.translator.training.loop import Step


MEASURED = 10  # steps after which the time that is left is known well enough to be said


class TrainingWatch:
    """A line on standard error: every half second on a terminal, now and then elsewhere; every epoch always."""

    def __init__(self) -> None:
        self.terminal, self.shown = sys.stderr.isatty(), time.monotonic()
        self.steps = 0  # seen so far: the first few say how long the rest will take

    def __call__(self, event: Step | Epoch) -> None:
        from regard.translator.training.loop import Step

        if isinstance(event, Step):
            self._step(event)
        else:
            self._print_line(
                f"epoch {event.epoch}: validation perplexity {event.perplexity:.2f} counting <sos>, "
                f"{event.perplexity_without_sos:.2f} without; training loss {event.training_loss:.3f}; "
                f"{event.cpu_seconds:.0f} CPU-seconds so far",
                "\n",
            )

    def _step(self, event: Step) -> None:
        now = time.monotonic()
        self.steps += 1
        if self.steps == min(MEASURED, event.steps):
            self._print_line(f"about {duration(event.seconds_left)} to go here; {STOPPING}", "\n")
        if now - self.shown < (0.5 if self.terminal else 20):
            return
        self.shown = now
        self._print_line(
            f"epoch {event.epoch} of {event.epochs}, step {event.step:,} of {event.steps:,}, loss {event.loss:.3f}, "
            f"{event.rate:,.0f} target tokens per CPU-second, about {duration(event.seconds_left)} left",
            "\r" if self.terminal else "\n",
        )

    def _print_line(self, line: str, end: str) -> None:
        # padded, so that a shorter line leaves nothing of the one that it is written over
        print(f"{printable(line):<118}" if self.terminal else printable(line), end=end, file=sys.stderr, flush=True)
