"""A question that an answer can be given to: a function to write, instances to try it on, and a judge.

A claim that asks for something constructible carries one: its words stand in ``questions.toml``, its functions in the
claim's own file. An instance is made from a few sizes
(n, eps, ...) and a square of numbers, the latent: the identity gives the plainest instance, normal draws a random one,
and the adversary moves both without having to know what they mean.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np

from regard.array_types import Float
from regard.declared_tables import Bounds
from regard.errors import InputError
from regard.notation import without_marks
from regard.toml import package_table
from regard.written_numbers import real_number, rounded_integer_error

Setting = dict[str, float]

LARGEST = 400  # rows and columns of a latent
TRIES = 20  # to draw the other sizes so that they fit to an end
ROUNDING = 1e-14  # of a figure that takes a few operations, relatively: closer ones are not told apart by it
SLACK = 1e-9  # what an answer may miss by, relatively: it was computed in floats


@dataclass(frozen=True, kw_only=True)
class Parameter(Bounds):
    """A number that a claim depends on, and its range.

    >>> Parameter(name="eps", default=0.01, meaning="the slack", above=0, below=1).rule()
    'a number with $0 <$ eps $< 1$'
    """

    name: str
    default: float
    meaning: str
    whole: bool = False
    even: bool = False  # and whole

    def rule(self) -> str:
        """The range in words."""
        kind = "an even number" if self.even else "a whole number" if self.whole else "a number"
        least = ((self.least, "<="), (self.above, "<"))
        most = ((self.most, "<="), (self.below, "<"))
        left = next((f"${bound:g} {sign}$ " for bound, sign in least if bound is not None), "")
        right = next((f" ${sign} {bound:g}$" for bound, sign in most if bound is not None), "")
        return f"{kind} with {left}{self.name}{right}" if left or right else kind

    def parse_value(self, value: object, claim: str) -> float:
        """The value as an int or float inside the range, or an InputError."""
        if isinstance(value, bool):
            raise self._refusal(value, claim)
        try:
            number = real_number(value) if isinstance(value, str) else float(value)  # type: ignore[arg-type]
        except (TypeError, ValueError, OverflowError):
            raise self._refusal(value, claim) from None
        if isinstance(value, int) and number != value:
            raise rounded_integer_error(value, f"{self.name} of {claim}")
        if not math.isfinite(number) or not self.contains(number):
            raise self._refusal(value, claim)
        step = 2 if self.even else 1
        if (self.even or self.whole) and number % step:
            raise self._refusal(value, claim)
        return int(number) if self.even or self.whole else number

    def _refusal(self, value: object, claim: str) -> InputError:
        came = str(value)[:40] if isinstance(value, str) else repr(value)
        rule = without_marks(f"{self.meaning}, must be {self.rule()}")
        return InputError(f"{claim}: {self.name}, {rule}; {came} is not.")


def checked_parameters(known: tuple[Parameter, ...], given: dict[str, object], claim: str) -> dict[str, float]:
    """The defaults, replaced by what was given; unknown names are refused."""
    names = [parameter.name for parameter in known]
    for name in given:
        if name not in names:
            has = f"it has {', '.join(names)}" if names else "it has none"
            raise InputError(f"{claim} has no parameter {name!r}; {has}.")
    return {p.name: p.parse_value(given.get(p.name, p.default), claim) for p in known}


@dataclass(frozen=True, kw_only=True)
class Size:
    """A number that instances depend on, and its values from the simplest; ``--set`` may fix it at any other."""

    parameter: Parameter
    ladder: tuple[float, ...]
    reach: tuple[float, float] | None = None  # what is drawn at random, where most of what is allowed says little

    @property
    def name(self) -> str:
        return self.parameter.name

    @property
    def whole(self) -> bool:
        """Whether it counts something."""
        return self.parameter.whole or self.parameter.even

    @property
    def ends(self) -> tuple[float, float]:
        """The least and the largest value that is allowed; of a bound that is not reached, the rung next to it.

        >>> make_size("x", "a number", (0.5, 2.0), least=0.01, below=3).ends
        (0.01, 2.0)
        """
        low, high, rule = min(self.ladder), max(self.ladder), self.parameter
        # a ladder of one value was fixed by whoever asked: nothing beyond it
        if len(self.ladder) > 1:
            low = low if rule.least is None else rule.least
            high = high if rule.most is None else rule.most
        return low, high

    def draw_value(self, rng: np.random.Generator) -> float:
        """A value of the ladder, or one in between, whatever its size: its logarithm is uniform between the ends."""
        if rng.random() < 0.5:
            return self.ladder[rng.integers(len(self.ladder))]
        low, high = self.reach or self.ends
        if not low < high:
            return low
        # a whole number may be 0, which has no logarithm: one half stands for it, and rounds to it
        return self._nearest_value(
            float(np.exp(rng.uniform(np.log(max(low, 0.5) if self.whole else low), np.log(high))))
        )

    def draw_nearby(self, value: float, rng: np.random.Generator, step: float) -> float:
        """A value nearby, within what is drawn at random; a whole number moves now and then only."""
        low, high = self.reach or self.ends
        if self.whole and low <= value <= high and rng.random() < 0.6:
            return value
        return self._nearest_value(value * float(np.exp(step * rng.standard_normal())))

    def _nearest_value(self, value: float) -> float:
        """The nearest value that is drawn at random, with few digits unless that leaves the range."""
        low, high = self.reach or self.ends
        if not self.whole:
            return float(np.clip(float(f"{value:.3g}"), low, high))
        step = 2 if self.parameter.even else 1
        return int(np.clip(step * round(value / step), low, high))

    def fix_at(self, value: float) -> Size:
        """This size with one value only."""
        return replace(self, ladder=(value,), reach=None)


def make_size(
    name: str, meaning: str, ladder: Sequence[float], *, reach: tuple[float, float] | None = None, **rule: Any
) -> Size:
    """A size, by the rule that its values obey.

    >>> make_size("d", "the dimension", (2, 3, 5), whole=True, least=2).parameter.rule()
    'a whole number with $2 <=$ d'
    """
    parameter = Parameter(name=name, default=ladder[0], meaning=meaning, **rule)
    return Size(parameter=parameter, ladder=tuple(ladder), reach=reach and (reach[0], reach[1]))


@dataclass(frozen=True, kw_only=True, eq=False)
class Instance:
    """One case: the function's arguments by name, and what only the judge knows.

    ``again`` holds the arguments of a second call, where one call cannot decide.
    """

    given: Mapping[str, Any]
    hidden: Mapping[str, Any] = field(default_factory=dict)
    again: Mapping[str, Any] | None = None
    setting: Setting = field(default_factory=dict)
    latent: Float | None = None


@dataclass(frozen=True, kw_only=True)
class Ruling:
    """What the judge says of an answer: ``room`` is how far it is from failing (negative: it fails), and why.

    ``said`` has no marked formulas: it goes into tables, files and a course's system as it is.
    """

    room: float
    said: str

    @property
    def fails(self) -> bool:
        """Whether the answer is wrong; a room that is no number fails too."""
        return not self.room >= 0


@dataclass(frozen=True, kw_only=True)
class Best:
    """How good an answer is against the best: two numbers of the same kind, the smaller the better."""

    yours: float
    best: float


@dataclass(frozen=True, kw_only=True, eq=False)
class Question:
    """What a claim asks its reader to construct.

    ``make(latent, **setting)`` builds an instance, by default of the sizes alone; ``judge(instance, answer)`` rules on
    what came back (with a third argument where instances ask ``again``), ``best(instance, answer)`` measures it
    against the optimum, or is None.
    ``traps(**setting)`` are instances that are hard on purpose.
    """

    function: str
    arguments: Mapping[str, str]  # name: shape and meaning
    task: str  # what to return, in words; never how
    returns: str
    sizes: tuple[Size, ...]
    judge: Callable[..., Ruling]
    decided: str  # by what arithmetic a case is decided
    shape: Callable[[Mapping[str, Any]], tuple[int, ...]] = lambda given: ()  # of what is returned: one number
    make: Callable[..., Instance] = lambda latent, **setting: Instance(given=setting)  # of the sizes themselves
    measure: str = ""  # what `best` measures, and against what
    best: Callable[..., Best | None] | None = None
    statement: str = ""  # instead of the claim's, where that gives the answer away
    traps: Callable[..., Iterable[Instance]] = lambda **setting: ()
    fits: Callable[..., bool] = lambda **setting: True
    may_be_none: bool = False
    may_be_nan: bool = False  # where overflow is the mistake to be found, the judge sees it

    @property
    def signature(self) -> str:
        """The call, as in query(keys, eps)."""
        return f"{self.function}({', '.join(self.arguments)})"

    def chosen_sizes(self, given: Mapping[str, object], claim: str) -> tuple[Size, ...]:
        """The sizes, with those that were given fixed at their values."""
        known = {size.name: size for size in self.sizes}
        for name in given:
            if name not in known:
                raise InputError(f"An answer to {claim} has no parameter {name!r}; it has {', '.join(known)}.")
        sizes = tuple(
            size.fix_at(size.parameter.parse_value(given[size.name], claim)) if size.name in given else size
            for size in self.sizes
        )
        if next(self.settings(sizes), None) is None:
            came = ", ".join(f"{name} = {value}" for name, value in given.items())
            raise InputError(f"{claim}: no instance has {came}; choose numbers that fit together.")
        return sizes

    def settings(self, sizes: tuple[Size, ...]) -> Iterator[Setting]:
        """Every setting of the ladders, the smallest sizes and the simplest numbers first."""
        for values in itertools.product(*(size.ladder for size in sizes)):
            setting = {size.name: value for size, value in zip(sizes, values, strict=True)}
            if self.fits(**setting):
                yield setting

    def ends(self, sizes: tuple[Size, ...]) -> Iterator[Setting]:
        """Both ends of every size, with the other sizes small, where there are such instances."""
        for here in _sizes_at_ends(sizes):
            yield from itertools.islice(self.settings(here), 1)

    def extremes(self, sizes: tuple[Size, ...], rng: np.random.Generator) -> Iterator[Setting]:
        """Both ends of every size, with the other sizes small, where there are such instances, and then drawn."""
        for here in _sizes_at_ends(sizes):
            yield from itertools.islice(self.settings(here), 1)
            for _ in range(TRIES):
                setting = {one.name: one.draw_value(rng) for one in here}
                if self.fits(**setting):
                    yield setting
                    break

    def make_instance(self, latent: Float, setting: Setting) -> Instance:
        """The instance of this latent and setting."""
        return replace(self.make(latent, **setting), latent=latent, setting=setting)

    def trap_instances(self, setting: Setting) -> Iterator[Instance]:
        """The hard instances of this setting."""
        return (replace(trap, setting=setting) for trap in self.traps(**setting))


@cache
def _question_words() -> dict[str, dict[str, Any]]:
    return package_table("regard.coursework", "questions.toml")


def read_question(claim: str, **functions: Any) -> Question:
    """The question of a claim: its words and sizes from questions.toml, and the other fields as they are given."""
    words, shared = _question_words()[claim], _question_words()["sizes"]
    sizes = tuple(make_size(name, **{**shared.get(name, {}), **own}) for name, own in words["sizes"].items())
    return Question(**{**words, "sizes": sizes}, **functions)


def _sizes_at_ends(sizes: tuple[Size, ...]) -> Iterator[tuple[Size, ...]]:
    """The sizes with one of them fixed at an end, for each of them and both ends."""
    for size in sizes:
        for end in dict.fromkeys(size.ends):
            yield tuple(one.fix_at(end) if one is size else one for one in sizes)


def latent_side(setting: Setting) -> int:
    """How large a latent must be for the instances of this setting."""
    # 8 more than any size: instances take blocks from along the diagonal
    return max([8, *(int(value) for value in setting.values() if isinstance(value, int) and value <= LARGEST)]) + 8


def worst_ruling(*rulings: Ruling) -> Ruling:
    """The one with the least room.

    >>> worst_ruling(Ruling(room=0.5, said="fine"), Ruling(room=-1.0, said="too long")).said
    'too long'
    """
    return min(rulings, key=lambda ruling: ruling.room if ruling.room == ruling.room else -np.inf)


def format_distinctly(one: float, other: float, *, digits: int = 6) -> tuple[str, str]:
    """Two numbers with so many digits, or as many more as it takes to see that they differ.

    >>> format_distinctly(1 / 3, 0.5), format_distinctly(1 / 3, 0.3333333330001)
    (('0.333333', '0.5'), ('0.3333333333', '0.333333333'))
    """
    enough = next((k for k in range(digits, 17) if f"{one:.{k}g}" != f"{other:.{k}g}"), 17)
    enough = digits if one == other else enough
    return f"{one:.{enough}g}", f"{other:.{enough}g}"


def inequality(one: float, relation: str, other: float, *, digits: int = 6) -> str:
    """An inequality that was proved, < or >, of two numbers; in words where the figures cannot show it.

    >>> inequality(0.25, "<", 0.5), inequality(1.0, ">", 1.0)
    ('0.25 < 0.5', 'both about 1, the first more by less than the rounding of float64')
    """
    beyond = one - other if relation == ">" else other - one
    if beyond > ROUNDING * abs(other):
        return f" {relation} ".join(format_distinctly(one, other, digits=digits))
    more = "more" if relation == ">" else "less"
    return f"both about {one:.{digits}g}, the first {more} by less than the rounding of float64"


def equality_ruling(value: float, truth: float, what: str) -> Ruling:
    """A number that must be the truth, but for rounding.

    >>> equality_ruling(2.0, 2.5, "the variance").said
    'the variance is 2.5; yours is 2'
    """
    off = abs(value - truth) / max(abs(truth), 1e-300)
    right, yours = format_distinctly(truth, value)
    return Ruling(room=SLACK - off, said=f"{what} is {right}; yours is {yours}")


def bound_ruling(value: float, bound: float, said: str) -> Ruling:
    """A number that must not pass a bound, but for rounding; its room is relative.

    >>> bound_ruling(3.0, 2.0, "3 > 2").fails
    True
    """
    return Ruling(room=(bound * (1 + SLACK) - value) / max(abs(bound), 1e-300), said=said)
