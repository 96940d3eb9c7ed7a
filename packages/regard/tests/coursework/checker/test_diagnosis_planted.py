"""Correct models in many styles are not accused; a mistake planted in any of them is named, with its line."""

from __future__ import annotations

import types
from pathlib import Path

import pytest

from coursework.checker.plants import PLANTS
from regard.coursework.checker.diagnosis import Diagnosis, diagnose
from regard.mistakes.layer import LIBRARY
from regard.mistakes.mistake import Weight
from regard.tracing.model_recorder import record_model
from regard.tracing.recording import read_recording
from tiers import TABLE, sampled

STYLES = sorted((Path(__file__).parent / "styles").glob("*.py"))
ROWS = [(style, row[0], row[1:]) for style, rows in PLANTS.items() for row in rows]


def text_of(style: str) -> str:
    return (Path(__file__).parent / "styles" / f"{style}.py").read_text(encoding="utf-8")


def planted(style: str, pairs: tuple[str, ...]) -> str:
    text = text_of(style)
    for old, new in zip(pairs[::2], pairs[1::2], strict=True):
        assert old in text, f"{style} has no {old!r}"
        text = text.replace(old, new)
    return text


def diagnosed(text: str, **options: object) -> Diagnosis:
    module = types.ModuleType("student")
    exec(compile(text, "student.py", "exec"), module.__dict__)
    recording = record_model(module.Translator, declared=getattr(module, "REGARD", None))
    return diagnose(recording, **options)  # type: ignore[arg-type]


def assert_named(style: str, names: str, pairs: tuple[str, ...]) -> None:
    text = planted(style, pairs)
    found = diagnosed(text)
    assert [one.name for one in found.mistakes] == names.split()
    assert found.explained
    assert not found.answer
    before, after = text_of(style).splitlines(), text.splitlines()
    changed = {number for number, line in enumerate(after, 1) if line not in before}
    inside = ("scale-", "softmax-", "relu-", "output-softmax", "mask-")  # planted in forward, not in the constructor
    for one in found.mistakes:
        if one.line is not None and changed and one.name.startswith(inside):
            assert min(abs(one.line - number) for number in changed) <= 2, (one.line, changed)


@pytest.mark.parametrize("path", STYLES, ids=lambda path: path.stem)
def test_a_correct_model_is_not_accused(path: Path) -> None:
    module = types.ModuleType("student")
    exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), module.__dict__)
    recording = record_model(module.Translator, declared=getattr(module, "REGARD", None))
    found = diagnose(read_recording(recording.to_bytes()))
    assert found.mistakes == ()
    assert found.answer
    assert set(found.parts.values()) == {"right"}


def test_there_are_enough_styles_and_mistakes() -> None:
    assert len(STYLES) >= 12
    assert len({name for _, names, _ in ROWS for name in names.split()}) >= 90
    assert sum(one.weight is not Weight.VARIATION for one in LIBRARY) >= 100


@pytest.mark.parametrize("row", sampled(ROWS, every=23, others=TABLE, name=lambda row: f"{row[1]} in {row[0]}"))
def test_a_planted_mistake_is_named(row: tuple[str, str, tuple[str, ...]]) -> None:
    assert_named(*row)


# The listed mistakes that every way of writing a model can have.
EVERYWHERE = [
    "positions-missing", "positions-twice", "positions-by-sentence", "embedding-scaled", "scale-missing",
    "scale-by-width",
    "scale-by-all-heads", "scale-inverted", "softmax-over-queries", "softmax-missing", "softmax-twice",
    "weights-turned",
    "values-share-keys", "one-head-twice", "values-not-projected", "first-sum-no-residual", "first-sum-no-norm",
    "norm-shared", "relu-missing", "gelu", "second-sum-no-residual", "output-softmax", "output-log-softmax",
    "inner-bias-missing", "output-bias-missing", "gradient-wrong", "scale-by-batch", "scale-floored",
]  # fmt: skip


@pytest.mark.parametrize("name", EVERYWHERE)
def test_common_mistakes_are_planted_in_several_styles(name: str) -> None:
    styles = {style for style, names, _ in ROWS if name in names.split()}
    assert len(styles) >= (2 if name in ("output-log-softmax", "values-not-projected") else 3), styles


PAIRS = [
    ("scale-missing", "relu-missing"),
    ("positions-twice", "output-softmax"),
    ("softmax-over-queries", "first-sum-no-residual"),
    ("scale-by-width", "softmax-twice"),
    ("embedding-scaled", "weights-turned"),
    ("second-sum-no-residual", "scale-by-all-heads"),
    ("values-share-keys", "gelu"),
    ("heads-merged-without-transpose", "scale-missing"),
    ("first-sum-norm-then-sum", "output-log-softmax"),
    ("positions-missing", "norm-shared"),
]


def rows_of(style: str, name: str) -> tuple[str, ...]:
    return next(tuple(row[1:]) for row in PLANTS[style] if row[0] == name)


@pytest.mark.parametrize("pair", sampled(PAIRS, every=5, others=TABLE, name="+".join))
def test_two_mistakes_at_once(pair: tuple[str, str]) -> None:
    found = diagnosed(planted("plain", rows_of("plain", pair[0]) + rows_of("plain", pair[1])))
    assert {one.name for one in found.mistakes} == set(pair)
    assert found.explained


STRANGE = [
    ("attention", "scores = q @ k.transpose(2, 3)", "scores = 1.2345 * q @ k.transpose(2, 3)"),
    ("feed-forward", "torch.relu(self.linear1(y))", "torch.sin(self.linear1(y))"),
    (
        "second sum and norm",
        "self.norm_ff(y + self.linear2(hidden))",
        "self.norm_ff(torch.sinh(y) + self.linear2(hidden))",
    ),
    ("output", "self.final(z)", "self.final(z) ** 3"),
]


@pytest.mark.slow
@pytest.mark.parametrize("strange", sampled(STRANGE, every=4, others=TABLE, name=lambda row: row[0]))
def test_what_is_outside_the_library_gets_no_name(strange: tuple[str, str, str]) -> None:
    stage, old, new = strange
    found = diagnosed(planted("plain", (old, new)), tries=5_000)
    assert found.mistakes == ()
    assert not found.explained
    assert not found.answer
    assert found.first_difference == stage
    assert found.difference is None  # of roles that were guessed no number is told
    assert f"could not be read: what is done in the part {stage!r}" in str(found)


@pytest.mark.slow
def test_what_queries_and_keys_exchanged_would_explain_is_said() -> None:
    turned = diagnosed(planted("feature_first", rows_of("feature_first", "weights-turned")))
    assert any(note.startswith("the softmax over the queries") for note in turned.notes)
    over_queries = diagnosed(planted("plain", rows_of("plain", "softmax-over-queries")))
    assert any(note.startswith("the weights transposed") for note in over_queries.notes)
    masked = diagnosed(planted("einsums", rows_of("einsums", "softmax-over-queries")))  # a mask tells the two apart
    assert not any("same numbers" in note for note in masked.notes)


@pytest.mark.slow
def test_half_an_explanation_names_no_mistake_in_a_part_that_is_right() -> None:
    text = planted("plain", ("torch.relu(self.linear1(y))", "torch.relu(self.linear1(self.norm_mh(y)))"))
    found = diagnosed(text, tries=8_000)
    assert found.mistakes == ()
    assert found.first_difference == "feed-forward"


@pytest.mark.slow
def test_a_difference_below_float32_is_not_called_float32() -> None:
    found = diagnosed(planted("feature_first", ("torch.sqrt(v + 1e-5)", "torch.sqrt(v) + 1e-5")), tries=5_000)
    assert found.mistakes == ()
    assert not found.answer
    assert not any("float32" in note for note in found.notes)


@pytest.mark.slow
def test_padding_may_be_hidden_or_read_unless_the_model_asked_for_says() -> None:
    hides, reads = text_of("einsums"), text_of("plain")
    assert diagnosed(hides, padding="masked").answer
    assert diagnosed(reads, padding="read").answer
    assert [one.name for one in diagnosed(reads, padding="masked").mistakes] == ["padding-read"]
    assert [one.name for one in diagnosed(hides, padding="read").mistakes] == ["padding-hidden"]


def test_a_departure_can_be_accepted() -> None:
    row = rows_of("plain", "gelu")
    assert not diagnosed(planted("plain", row)).answer
    assert diagnosed(planted("plain", row), accepted=frozenset({"gelu"})).answer


DETOURS = [
    ("self.place(places)", "self.place(places) * 3.0 / 3.0"),
    (
        "x = self.embed(ids)",
        "x = self.embed(ids) * (0.0 * (ids != 0).to(self.word.weight) + 1.0).clamp(0, 1)[..., None]",
    ),
]


@pytest.mark.parametrize("detour", DETOURS, ids=["rounding", "clamped mask"])
def test_a_detour_is_no_mistake(detour: tuple[str, str]) -> None:
    found = diagnosed(planted("plain", detour))
    assert found.mistakes == ()
    assert found.answer


STRUCTURE = [
    ("unregistered", "head_loop", ("nn.ModuleList([Head(n_embd, n_embd // n_head) for _ in range(n_head)])",
                                   "[Head(n_embd, n_embd // n_head) for _ in range(n_head)]")),
    ("fails-on-a-shape", "plain", ("x = self.embed(ids)", "x = self.embed(ids.squeeze())")),
    ("parameters-unused", "plain", ("self.final = nn.Linear(hidden_dim, output_size)",
                                    "self.final, self.spare = nn.Linear(hidden_dim, output_size), nn.Linear(3, 3)")),
    ("full-length-only", "plain", ("torch.arange(ids.shape[1])", "torch.arange(self.place.num_embeddings)")),
    ("random-in-forward", "plain", ("self.final(z)", "nn.Linear(37, 37)(self.final(z))")),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("name", "style", "pairs"), STRUCTURE, ids=[row[0] for row in STRUCTURE])
def test_the_structure_is_looked_at(name: str, style: str, pairs: tuple[str, ...]) -> None:
    found = diagnosed(planted(style, pairs), tries=8_000)
    said = [one.name for one in found.mistakes]
    if name in ("parameters-unused", "full-length-only"):  # worth knowing, no mistake
        assert said == []
        assert any("never used" in note or "forward fails on" in note for note in found.notes)
    else:
        assert name in said


@pytest.mark.slow
def test_float32_inside_is_noticed_and_no_mistake() -> None:
    found = diagnosed(planted("plain", ("self.word(ids) +", "self.word(ids).float().to(self.word.weight.dtype) +")))
    assert found.answer
    assert any("float32" in note for note in found.notes)


@pytest.mark.parametrize(("scaled", "factor"), [("2 * ({})", 2), ("({}) * 0.5**0.5", 0.707)])
def test_a_norm_that_hides_a_factor_of_its_sum_is_told(scaled: str, factor: float) -> None:
    """A factor of the sum changes no more than the small number under the root does."""
    found = diagnosed(planted("plain", ("y + self.linear2(hidden)", scaled.format("y + self.linear2(hidden)"))))
    assert found.answer
    assert [note.partition(" times the sum")[0] for note in found.departures] == [f"{factor}"]
