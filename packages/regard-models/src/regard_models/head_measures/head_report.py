"""What measuring the heads of a model gives: a table of every head, in words, as CSV, as a picture."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.array_types import Float
from regard.errors import InputError, suggest_name
from regard.results import Result, plain
from regard.terminal import plain_cell
from regard_models.capturing.records import format_ranges
from regard_models.head_measures.head_keys import ARITHMETIC, HeadCeilings, SwingNoise

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CAUTION = (
    "Attention is not explanation: a large weight may carry next to nothing, and a head that is not needed may still "
    "be used. Each effect is measured with all other heads at work."
)

NO_PATTERN = ("mixed", "broad")
NAMED = 5  # heads with a pattern, in the first line
# measures that are always taken, and shown by details() alone
FREE = ("entropy", "copying", "margin", "sharing", "swing", "evened", "elsewhere", "overlap")
MORE = "Attention is not explanation. Every measure of each head: details() shows them."


@dataclass(frozen=True)
class Column:
    """A measure: its name, what stands above it in the table, how its numbers are written, and what it is."""

    measure: str
    title: str
    form: str
    meaning: str


COLUMNS = (
    Column("entropy", "entropy", ".2f", "of a row of weights, in nats, on average"),
    Column("effective", "tokens", ".1f", "effective number of tokens, e^entropy"),
    Column("largest", "largest", ".2f", "the largest weight of a row, on average"),
    Column("copying", "copies", ".0%", "rows whose largest weight is {copy:.3f} = 1/(1 + {eps:g}) or more"),
    Column("margin", "margin", "+.1f", "lead of the largest weight over what copying needs, in nats; half of the rows"),
    Column("sharing", "shares", ".2f", "twice the second largest weight: 1 where two tokens have a half each"),
    Column("swing", "swing", ".2f", "sd / mean of the keys' lengths"),
    Column("evened", "evened", ".2f", "of the weights, the part that moves if every key had the mean length"),
    Column("adds", "adds", ".3g", "length of what the head adds to the stream of vectors, ||sum alpha v W_O||"),
    Column("elsewhere", "elsewh.", ".2f", "what moves if weights are counted by their influence, ||alpha v W_O||"),
    Column("overlap", "overlap", ".2f", "with the head whose weights are most alike (twin)"),
    Column("ablation", "without", "+.4f", "the model without the head: {effect}"),
    Column("direct", "direct", "+.4f", "the head's own word in the output, later layers held: {direct}"),
    Column("qk effective", "rank QK", ".1f", "effective rank of W_Q W_K^T"),
    Column("qk rank", "cut to", ".0f", "rank of its replacement"),
    Column("qk effect", "costs", "+.4f", "what that does: {effect}"),
    Column("ov effective", "rank OV", ".1f", "effective rank of W_V W_O"),
    Column("ov rank", "cut to", ".0f", "rank of its replacement"),
    Column("ov effect", "costs", "+.4f", "what that does: {effect}"),
    Column("noise", "noise", ".3f", "sd of the largest weight of the row that shares most, if the keys' lengths swing "
           "by as much again; exact"),
    Column("noise drawn", "drawn", ".3f", "the same, drawn through the head's own softmax"),
    Column("never win", "never", ".0f", "tokens that no query whatsoever makes the strict winner; proved"),
    Column("out of reach", "too far", ".0f", "tokens that no query as long as the head's longest copies; proved"),
)  # fmt: skip
MEASURES = (*(column.measure for column in COLUMNS), "previous", "same", "next", "first", "separator", "duplicate",
            "induction")  # fmt: skip
_SHOWN = 300  # heads that the table lists


@dataclass(frozen=True, kw_only=True, eq=False)
class Heads(Result):
    """One number for every head and measure: ``measures[name]`` is layers x heads, NaN where it is not applicable.

    ``numbers`` are the heads' numbers, row by row, and ``kinds`` what each is called: after the pattern it follows, or
    broad, or mixed. ``not_applicable`` says of a measure why it is missing.
    """

    name: str
    example: int
    eps: float
    layers: tuple[int, ...]
    modules: tuple[str, ...]
    numbers: tuple[tuple[int, ...], ...]
    shapes: tuple[tuple[int, ...], ...]
    measures: dict[str, Float]
    kinds: tuple[tuple[str, ...], ...]
    not_applicable: dict[str, str]
    tokens: list[str] | None = None
    notes: tuple[str, ...] = ()
    twins: dict[str, str] | None = None
    rollout: Float | None = None  # queries x keys
    ceilings: tuple[HeadCeilings, ...] = ()
    ranks: tuple[Result, ...] = ()
    noise: tuple[SwingNoise, ...] = ()
    effect: str = ""
    direct: str = ""

    def rows(self) -> Iterator[dict[str, Any]]:
        """One dictionary for every head: where it is, what it is called, and every measure there is of it."""
        for row, (layer, module, numbers) in enumerate(zip(self.layers, self.modules, self.numbers, strict=True)):
            for place, head in enumerate(numbers):
                fields: dict[str, Any] = {"layer": layer, "head": head, "module": module}
                fields["pattern"] = self.kinds[row][place]
                fields["twin"] = (self.twins or {}).get(f"{layer}.{head}")
                fields |= {name: float(table[row, place]) for name, table in self.measures.items()}
                yield fields

    def head(self, layer: int, number: int) -> dict[str, Any]:
        """All that is known of one head."""
        for row in self.rows():
            if (row["layer"], row["head"]) == (layer, number):
                return row
        raise InputError(
            f"There is no head {number} in layer {layer} here; there are layers {format_ranges(self.layers)}."
        )

    def to_dict(self) -> dict[str, Any]:
        facts = super().to_dict()
        facts["heads"] = [{k: plain(v) for k, v in row.items()} for row in self.rows()]
        for name in ("measures", "kinds", "numbers"):
            del facts[name]
        return facts

    def to_csv(self) -> str:
        """The table as text, a header first; an empty field where a measure is not applicable."""
        names = ["layer", "head", "module", "pattern", "twin", *self.measures]
        stream = io.StringIO()
        writer = csv.DictWriter(stream, names, lineterminator="\n")
        writer.writeheader()
        for row in self.rows():
            filled = {key: value for key, value in row.items() if not _empty(value)}
            writer.writerow({k: plain_cell(value) if isinstance(value, str) else value for k, value in filled.items()})
        return stream.getvalue()

    def figure(self) -> Figure:
        return self.picture()

    def picture(self, measure: str = "effective") -> Figure:
        """Layers down, heads across, one measure in colour: a matplotlib figure."""
        from regard_models.editing.head_pictures import sketch_measure

        if measure not in self.measures:
            why = self.not_applicable.get(measure)
            if why is not None:
                raise InputError(f"{measure} is not applicable here: {why}.")
            raise InputError(f"There is no measure {measure!r} here; {suggest_name(measure, sorted(self.measures))}")
        column = next((c for c in COLUMNS if c.measure == measure), None)
        title = f"mean weight of the pattern {measure!r}" if column is None else self._meaning(column)
        return sketch_measure(self, measure, title)

    # in words

    def __str__(self) -> str:
        shown = [column for column in self._filled_columns() if column.measure not in FREE]
        parts = [self._headline(), self._table(shown, twins=False), self._legend(shown), *self._costly_parts()]
        return "\n\n".join([*(part for part in parts if part), MORE])

    def details(self) -> str:
        """Every measure of every head, the rollout, what could not be measured, and a caution."""
        shown = self._filled_columns()
        parts = [self._table(shown, twins=bool(self.twins)), self._legend(shown), *self._more()]
        return "\n\n".join(part for part in parts if part)

    def _filled_columns(self) -> list[Column]:
        return [column for column in COLUMNS if np.isfinite(self.measures.get(column.measure, np.nan)).any()]

    def _headline(self) -> str:
        sizes = sorted(set(self.shapes))
        places = ", ".join(f"{q} x {k}" for q, k in sizes[:3]) + (" and others" if len(sizes) > 3 else "")
        kinds = Counter(row["pattern"] for row in self.rows())
        others = ", ".join(f"{kinds[kind]} {kind}" for kind in NO_PATTERN if kinds[kind])
        clear = [row for row in self.rows() if row["pattern"] not in NO_PATTERN]
        named = ", ".join(f"{row['layer']}.{row['head']} ({row['pattern']})" for row in clear[:NAMED])
        named = f": {named}{' ...' * (len(clear) > NAMED)}" if clear else ""
        said = (
            f"{self.name}: {len(clear) or 'none'} of {kinds.total()} head{'s' * (kinds.total() != 1)} "
            f"follow{'s' * (len(clear) < 2)} a pattern clearly{named}{'; ' * bool(others)}{others}. "
            f"Layers {format_ranges(self.layers)}, queries x keys {places}."
        )
        return said if self.tokens is None else f"{said}\nTokens: {_few_words(self.tokens)}"

    def _table(self, shown: list[Column], *, twins: bool) -> str:
        lines = [["layer", "head", "pattern", "score", *(column.title for column in shown), "twin"]]
        rows = list(self.rows())
        for row in rows[:_SHOWN]:
            kind = row["pattern"]
            cells = [str(row["layer"]), str(row["head"]), kind, _number(row.get(kind, np.nan), ".2f")]
            cells += [_number(row[column.measure], column.form) for column in shown]
            lines.append([*cells, row["twin"] or ""])
        if not twins:
            lines = [line[:-1] for line in lines]
        text = _right_aligned(lines)
        left = len(rows) - _SHOWN
        return f"{text}\nand {left} more heads (to_csv() and to_json() list all)" if left > 0 else text

    def _legend(self, shown: list[Column]) -> str:
        named = sorted({kind for kinds in self.kinds for kind in kinds})
        lines = [
            f"pattern, score: what most of the weight follows, far above chance ({', '.join(named)}), and how much"
        ]
        seen: set[str] = set()
        for column in shown:
            if column.title not in seen or column.title not in ("cut to", "costs"):
                lines.append(f"{column.title}: {self._meaning(column)}")
            seen.add(column.title)
        return "\n".join(lines)

    def _meaning(self, column: Column) -> str:
        return column.meaning.format(eps=self.eps, copy=1 / (1 + self.eps), effect=self.effect, direct=self.direct)

    def _costly_parts(self) -> Iterator[str]:
        if self.ceilings:
            yield self.ceiling_lines()
        if self.noise:
            yield self.noise_line()
        yield "\n".join(f"Note: {note}." for note in self.notes)

    def _more(self) -> Iterator[str]:
        if self.rollout is not None:
            yield self._rollout_line()
        missing = [f"Not applicable: {name}: {why}." for name, why in self.not_applicable.items()]
        yield "\n".join([*missing, CAUTION])

    def _rollout_line(self) -> str:
        reach = np.asarray(self.rollout)
        heard = reach.mean(axis=0)
        words = self.tokens if self.tokens is not None and len(self.tokens) == len(heard) else None
        top = [f"{'' if words is None else words[j] + ' '}at {j} ({heard[j]:.3f})" for j in np.argsort(-heard)[:3]]
        even = f"even would be {1 / len(heard):.3f}"
        return f"Rollout through all layers: the output depends most on {', '.join(top)}; {even}."

    def ceiling_lines(self) -> str:
        """What is proved of the keys, in words."""
        keys = sum(len(one.places) for one in self.ceilings)
        never, far = (sum(len(getattr(one, what)) for one in self.ceilings) for what in ("never", "out_of_reach"))
        open_ = sum(len(one.undecided) for one in self.ceilings)
        how = "proved, and proved again by separate code" if all(one.verified for one in self.ceilings) else "proved"
        lines = [
            f"Ceilings ({how}, in {ARITHMETIC}): of {keys} keys in {len(self.ceilings)} heads {never} can never win, "
            f"{far} are too far to be copied by a query as long as the head's longest"
            + (f", {open_} could not be decided." if open_ else ".")
        ]
        return "\n".join([*lines, *(f"  {one}" for one in self.ceilings if one.never or one.undecided)][:12])

    def noise_line(self) -> str:
        """How fragile the heads are, in words."""
        inside = sum(abs(one.sd - one.measured_sd) <= one.measured_sd_within + one.sd_accuracy for one in self.noise)
        worst = max(self.noise, key=lambda one: one.sd)
        return (
            f"Noise: exact and drawn agree within twice the draws' standard error in {inside} of {len(self.noise)} "
            f"heads. Most fragile: layer {worst.layer} head {worst.head}, query {worst.query}: its largest weight, "
            f"{worst.largest:.2f}, becomes {worst.mean:.2f} +- {worst.sd:.3f} "
            f"(drawn {worst.measured_mean:.2f} +- {worst.measured_sd:.3f})."
        )


def _empty(value: Any) -> bool:
    return value is None or (isinstance(value, float) and np.isnan(value))


def _number(value: float, form: str) -> str:
    return "" if np.isnan(value) else format(value, form)


def _few_words(words: list[str], most: int = 40) -> str:
    rest = f" ... ({len(words)} in all)" if len(words) > most else ""
    return " ".join(words[:most]) + rest


def _right_aligned(rows: list[list[str]]) -> str:
    """Columns two blanks apart: the pattern's name to the left, numbers to the right."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = [
        "  ".join(
            cell.ljust(w) if i == 2 else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]
    return "\n".join(line.rstrip() for line in lines)
