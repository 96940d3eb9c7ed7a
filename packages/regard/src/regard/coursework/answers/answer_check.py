"""Is your own answer right? Fresh instances, then the adversary; holds so far, or the smallest counterexample found."""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from regard.array_types import Float
from regard.coursework.adversary import Attempt, smallest_failing_attempt, walk_to_failure
from regard.coursework.answers.report import (
    AnswerReport,
    Counterexample,
    Distance,
    IncompleteCheckError,
    describe_instance,
)
from regard.coursework.question import Best, Instance, Question, Setting, Size, latent_side
from regard.errors import CouldNotFindOut, InputError
from regard.progress import Progress
from regard.sandbox import child
from regard.sandbox.clock import Clock
from regard.sandbox.jail import Tier
from regard.sandbox.runner import Runner, format_error, refuse_mismatch

Caller = Callable[..., dict[str, Any]]  # the arguments, and how many bytes an array may have

FRESH = 60  # instances
PRESSED = 3  # of them, the tightest, are handed to the adversary
MOVES = 40  # of the adversary from each
ASKED = FRESH + PRESSED * MOVES  # questions, if nothing fails
BEFORE_THE_ENDS = 10  # ordinary instances first, on which the answer is measured too
SMALLEST = 5  # plain instances of the smallest sizes come first where marks are given by steps
MOST_TRAPS, LEAST_DRAWN = 15, 20
MEASURED = 5  # instances on which the answer is measured against the best
CANDIDATES = 1500  # smaller instances to try once it has failed
SMALL = 1_000_000  # bytes of an array of the wrong shape, whose shape is still told


def check_answer(
    claim: str,
    question: Question,
    function: str | Callable[..., Any],
    *,
    seed: int,
    limit: float,
    given: dict[str, Any],
    jail: bool | Tier = False,
    progress: Progress | None = None,
) -> AnswerReport:
    """What :meth:`regard.coursework.claim.Claim.check_answer` does."""
    sizes, clock = question.chosen_sizes(given, claim), Clock(limit)
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0:
        raise InputError(f"seed must be a whole number from 0; {seed!r} is not.")
    if isinstance(function, str):
        arguments = tuple(question.arguments)
        runner = Runner(function, function=question.function, arguments=arguments, clock=clock, jail=jail)
        if progress is not None:
            progress(0, ASKED)  # everything that can be refused without running it has been
        with runner:
            check = Check(claim, question, runner.name, runner.call, sizes, clock, int(seed), progress)
            outcome = check.run()
        return outcome.with_run_details(runner.jail_description, tier=runner.tier.value, printed=runner.printed_text)
    if jail is not False:
        raise InputError("A function of this process cannot be put in a jail; name its file, as in my.py:query.")
    name = getattr(function, "__name__", type(function).__name__)
    refuse_mismatch(
        child.signature_mismatch(function, len(question.arguments)), name, question.function, tuple(question.arguments)
    )
    return Check(claim, question, name, caller(function, clock), sizes, clock, int(seed), progress).run()


def caller(function: Callable[..., Any], clock: Clock) -> Caller:
    """A function of this process, called with copies; it cannot be stopped from outside."""
    path = getattr(getattr(function, "__code__", None), "co_filename", "")

    def call(given: Any, *, most: int) -> dict[str, Any]:
        copies = [value.copy() if isinstance(value, np.ndarray) else value for value in given.values()]
        try:
            with clock.running():
                reply = child.encode_result(function(*copies), most=most)
        except Exception as error:
            return {"raised": child.describe_error(error, path)}
        return {"array": child.unpack_array(reply["array"])} if "array" in reply else reply

    return call


class Stage(StrEnum):
    """What kind of instance it is; from the plainest to those that somebody searched for."""

    PLAIN = "plain"  # unit vectors, numbers in order
    RANDOM = "random"
    TRAPS = "traps"  # hard on purpose: the claim knows what is often forgotten
    ENDS = "ends"  # both ends of what each size may be
    ADVERSARY = "adversary"


@dataclass(eq=False)
class Check:
    """One answer being checked: instances are made, the function is asked, the judge rules."""

    claim: str
    question: Question
    name: str
    call: Caller
    sizes: tuple[Size, ...]
    clock: Clock
    seed: int
    progress: Progress | None = None
    asked: int = 0

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.seed)

    def run(self) -> AnswerReport:
        """Fresh instances, the adversary, and then either a smaller counterexample or the distance from the best."""
        tried = self._try_fresh_instances()
        fresh, failed = len(tried), next((one for one in tried if one.ruling.fails), None)
        if failed is None:
            failed = self.adversary_failure(tried)
        pressed = self.asked - fresh
        if failed is not None:
            failed = self.shrink(failed)
        elif self.clock.stopped:
            raise self._incomplete_check(fresh, pressed)
        return AnswerReport(
            claim=self.claim,
            function=self.name,
            seed=self.seed,
            instances=fresh,
            pressed=pressed,
            limit=self.clock.limit,
            decided=self.question.decided,
            counterexample=None if failed is None else self.counterexample(failed),
            distance=self.distance(tried) if failed is None else None,
        )

    def _incomplete_check(self, fresh: int, pressed: int) -> IncompleteCheckError:
        return IncompleteCheckError(
            claim=self.claim,
            function=self.name,
            instances=(fresh, FRESH),
            moves=(pressed, PRESSED * MOVES),
            limit=self.clock.limit,
        )

    # asking

    def judge(self, instance: Instance) -> Attempt:
        """Ask the function, check the form of what it returns, and let the judge rule."""
        self.asked += 1
        if self.progress is not None and self.asked <= ASKED:
            self.progress(self.asked, ASKED)
        answers = [self._ask(instance, given) for given in (instance.given, instance.again) if given is not None]
        with np.errstate(all="ignore"):  # an answer of 1e300 is wrong, not an accident
            ruling = self.question.judge(instance, *answers)
        return Attempt(instance=instance, answer=answers[0], ruling=ruling)

    def _ask(self, instance: Instance, given: Any) -> Any:
        wanted = 8 * math.prod(self.question.shape(given))
        reply = self.call(given, most=max(2 * wanted, SMALL))
        if "raised" in reply:
            what = format_error(reply["raised"])
            raise InputError(f"{self.name} failed: {what} (for {describe_instance(instance)}); fix it first.")
        return self._validate_answer(reply, given, instance)

    def _validate_answer(self, reply: dict[str, Any], given: Any, instance: Instance) -> Any:
        question = self.question
        if "none" in reply and question.may_be_none:
            return None
        need = f"{question.signature} must return {question.returns}"
        if "array" not in reply:
            came = "nothing (None)" if "none" in reply else reply.get("strange", "an array too large to send")
            raise InputError(f"{self.name} returned {came} for {describe_instance(instance)}; {need}.")
        answer, shape = reply["array"], question.shape(given)
        if answer.shape != shape:
            wanted, where = f"shape {shape}" if shape else "one number", describe_instance(instance)
            raise InputError(f"{self.name} returned shape {answer.shape} for {where}, not {wanted}; {need}.")
        if not question.may_be_nan and not np.isfinite(answer).all():
            raise InputError(f"{self.name} returned NaN or infinity for {describe_instance(instance)}; {need}.")
        return answer if shape else float(answer)

    # looking for a failure

    def _try_fresh_instances(self) -> list[Attempt]:
        tried: list[Attempt] = []
        for _, instance in self.instances():
            tried.append(self.judge(instance))
            if tried[-1].ruling.fails or len(tried) >= FRESH or self.clock.has_used(0.6):
                break
        return tried

    def instances(self) -> Iterator[tuple[Stage, Instance]]:
        """The smallest first; then random settings; then both ends of every size; then random settings for ever."""
        first = next(self.question.settings(self.sizes))
        yield Stage.PLAIN, self._make_instance("plain", first)
        yield from ((Stage.TRAPS, trap) for trap in self.question.trap_instances(first))
        yield from itertools.islice(self._random_instances(), BEFORE_THE_ENDS)
        for setting in self.question.extremes(self.sizes, self.rng):
            yield Stage.ENDS, self._make_instance("normal", setting)
        yield from self._random_instances()

    def steps(self, count: int) -> dict[Stage, list[Instance]]:
        """Instances for marks by steps: whose sizes are the same for everybody, and at most ``count`` with random ones.

        The smallest, their traps and both ends of every size hang on no luck; whatever is drawn is one step of its own.
        """
        settings = list(itertools.islice(self.question.settings(self.sizes), SMALLEST))
        plain = [self._make_instance("plain", setting) for setting in settings]
        traps = [trap for setting in settings for trap in self.question.trap_instances(setting)][:MOST_TRAPS]
        ends = [self._make_instance(kind, at) for at in self.question.ends(self.sizes) for kind in ("plain", "normal")]
        left = max(count - len(plain) - len(traps) - len(ends), LEAST_DRAWN)
        return {
            Stage.PLAIN: plain,
            Stage.TRAPS: traps,
            Stage.ENDS: ends,
            Stage.RANDOM: list(itertools.islice(self._draw_random_step(), left)),
        }

    def _draw_random_step(self) -> Iterator[Instance]:
        """Random settings, then the ends with the other sizes drawn, then random settings for ever."""
        yield from (instance for _, instance in itertools.islice(self._random_instances(), BEFORE_THE_ENDS))
        yield from (self._make_instance("normal", setting) for setting in self.question.extremes(self.sizes, self.rng))
        yield from (instance for _, instance in self._random_instances())

    def _random_instances(self) -> Iterator[tuple[Stage, Instance]]:
        """Random settings, a third of them plain, each with its traps."""
        while True:
            setting = {size.name: size.draw_value(self.rng) for size in self.sizes}
            if not self.question.fits(**setting):
                continue
            plain = self.rng.random() < 1 / 3
            yield (Stage.PLAIN if plain else Stage.RANDOM), self._make_instance("plain" if plain else "normal", setting)
            yield from ((Stage.TRAPS, trap) for trap in self.question.trap_instances(setting))

    def _make_instance(self, kind: str, setting: Setting) -> Instance:
        return self.question.make_instance(self._latent(kind, latent_side(setting)), setting)

    def _latent(self, kind: str, side: int) -> Float:
        if kind in ("plain", "turned"):
            return np.eye(side) if kind == "plain" else -np.eye(side)
        if kind == "whole":
            return self.rng.integers(-2, 3, (side, side)).astype(np.float64)
        return np.round(self.rng.standard_normal((side, side)), 1 if kind == "short" else 3)

    def adversary_failure(self, tried: list[Attempt], *, moves: int | None = None) -> Attempt | None:
        """The first failure that the adversary finds from the tightest of these; None where it finds none."""
        tight = sorted((one for one in tried if one.instance.latent is not None), key=lambda one: one.ruling.room)
        for start in tight[:PRESSED]:
            hardest = walk_to_failure(
                start, self._trial, sizes=self.sizes, rng=self.rng, moves=MOVES if moves is None else moves
            )
            if hardest.ruling.fails:
                return hardest
        return None

    def _trial(self, latent: Float, setting: Setting) -> Attempt | None:
        if not self.question.fits(**setting) or self.clock.has_used(0.9):
            return None
        side = latent_side(setting)
        if len(latent) < side:  # it has moved to a larger instance: the rest is new
            grown = self._latent("normal", side)
            grown[: len(latent), : len(latent)] = latent
            latent = grown
        # what a smaller instance does not use would be moved, and drawn for, all the way
        return self.judge(self.question.make_instance(latent[:side, :side], setting))

    def shrink(self, failed: Attempt) -> Attempt:
        """The smallest instance found at which it fails too."""
        # A function that fails at one instance may raise at another: what has failed is reported then.
        with contextlib.suppress(InputError):
            failed = smallest_failing_attempt(failed, self._smaller_instances(failed), self.judge)
            for size in self.sizes:
                failed = self._bisect_size(size, failed)
        return failed

    def _bisect_size(self, size: Size, failed: Attempt) -> Attempt:
        """Down to between two rungs of a ladder, as far as it still fails there."""
        high, step = failed.instance.setting[size.name], 2 if size.parameter.even else 1
        low = max((value for value in size.ladder if value < high), default=high)
        while size.whole and high - low > step and not self.clock.is_late():
            middle = low + (high - low) // (2 * step) * step
            setting = {**failed.instance.setting, size.name: middle}
            closer = (
                smallest_failing_attempt(failed, self._instances_of(setting), self.judge)
                if self.question.fits(**setting)
                else failed
            )
            low, high = (middle, high) if closer is failed else (low, middle)
            failed = closer
        return failed

    def _smaller_instances(self, failed: Attempt) -> Iterator[Instance]:
        """Instances from the smallest sizes up, the plainest first, until those of the failure are reached."""
        last, made = self._rank(failed.instance.setting), 0
        for setting in self.question.settings(self.sizes):
            if self._rank(setting) > last or made > CANDIDATES or self.clock.is_late():
                return
            for instance in self._instances_of(setting):
                made += 1
                yield instance

    def _instances_of(self, setting: Setting) -> Iterator[Instance]:
        yield self._make_instance("plain", setting)
        yield from self.question.trap_instances(setting)
        for kind in ("turned", "whole", "short", "normal"):
            yield self._make_instance(kind, setting)

    def _rank(self, setting: Setting) -> tuple[float, ...]:
        """Where a setting stands among the ladders; a value that is on no rung comes after all of them."""
        return tuple(
            size.ladder.index(setting[size.name]) if setting[size.name] in size.ladder else len(size.ladder)
            for size in self.sizes
        )

    # saying what was found

    def counterexample(self, failed: Attempt) -> Counterexample:
        """The failure, told so that it can be pasted."""
        again = failed.instance.again is not None
        return Counterexample(
            said=failed.ruling.said,
            setting=failed.instance.setting,
            given=dict(failed.instance.given),
            hidden=dict(failed.instance.hidden),
            again=dict(failed.instance.again or {}) if again else None,
            returned=failed.answer,
            function=name if (name := self.name.rpartition(":")[2]).isidentifier() else self.question.function,
            file=self.name.rpartition(":")[0],
        )

    def distance(self, tried: list[Attempt]) -> Distance | None:
        """The answer against the best possible, on some of the instances."""
        if self.question.best is None:
            return None
        distances: list[tuple[Best, Setting]] = []
        for one in sorted(tried, key=lambda one: one.instance.latent is None):  # traps of one setting are much alike
            if len(distances) >= MEASURED or (distances and self.clock.is_late()):
                break
            with contextlib.suppress(CouldNotFindOut):
                best = self.question.best(one.instance, one.answer)
                if best is not None:
                    distances.append((best, one.instance.setting))
        if not distances:
            return None
        ratios = [best.yours / best.best for best, _ in distances]
        farthest, setting = distances[int(np.argmax(ratios))]
        return Distance(
            measure=self.question.measure,
            least=min(ratios),
            most=max(ratios),
            yours=farthest.yours,
            best=farthest.best,
            setting=setting,
            instances=len(distances),
        )
