"""Every way to load a corpus, what cleaning does to it, and one clear sentence for everything that can be wrong."""

from __future__ import annotations

import gzip
import sys
import types
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from places import DATA
from regard.errors import InputError
from regard.translator.data.corpus import Pairs, clean, fingerprint, load_corpus, read_pairs

MULTI30K = DATA / "multi30k"
needs_multi30k = pytest.mark.skipif(not MULTI30K.is_dir(), reason="Multi30k is not at ../shared/data/multi30k")
LINES = {
    "train": (["Ein Hund.", "Eine Katze schläft."], ["A dog.", "A cat is sleeping."]),
    "val": (["Ein Mann."], ["A man."]),
    "test_2016": (["Eine Frau."], ["A woman."]),
}


def write_folder(folder: Path, lines: dict[str, tuple[list[str], list[str]]] = LINES) -> Path:
    for stem, sides in lines.items():
        for language, side in zip(("de", "en"), sides, strict=True):
            (folder / f"{stem}.{language}").write_text("".join(f"{line}\n" for line in side), "utf-8")
    return folder


def test_a_folder(tmp_path: Path) -> None:
    corpus = load_corpus(write_folder(tmp_path))
    assert corpus.train == Pairs(*LINES["train"])
    assert corpus.validation == Pairs(*LINES["val"])
    assert corpus.test == Pairs(*LINES["test_2016"])
    assert list(corpus.splits) == ["train", "validation", "test"]
    assert load_corpus(tmp_path, source="en", target="de").train.source == LINES["train"][1]


@pytest.mark.parametrize("name", ["val", "valid", "validation", "dev"])
def test_names_of_the_validation_set(tmp_path: Path, name: str) -> None:
    write_folder(tmp_path, {"train": LINES["train"], name: LINES["val"]})
    corpus = load_corpus(tmp_path)
    assert corpus.validation == Pairs(*LINES["val"])
    assert corpus.test is None


def test_gzip_is_the_same_corpus(tmp_path: Path) -> None:
    plain = load_corpus(write_folder(tmp_path)).fingerprint
    for file in list(tmp_path.iterdir()):
        (tmp_path / f"{file.name}.gz").write_bytes(gzip.compress(file.read_bytes()))
        file.unlink()
    assert load_corpus(tmp_path).fingerprint == plain


def test_explicit_files_and_tables_are_the_same_corpus(tmp_path: Path) -> None:
    folder = write_folder(tmp_path)
    files = {name: (folder / f"{stem}.de", folder / f"{stem}.en") for name, stem in
             (("train", "train"), ("validation", "val"), ("test", "test_2016"))}  # fmt: skip
    rows = [f"{name}\t{t}\t{s}" for name, stem in (("train", "train"), ("dev", "val"), ("test", "test_2016"))
            for s, t in zip(*LINES[stem], strict=True)]  # fmt: skip
    (tmp_path / "all.tsv").write_text("\n".join(["split\ten\tde", *rows]), "utf-8")
    prints = {load_corpus(data).fingerprint for data in (folder, files, tmp_path / "all.tsv")}
    assert len(prints) == 1


def test_a_folder_of_tables(tmp_path: Path) -> None:
    for stem, sides in LINES.items():
        (tmp_path / f"{stem}.tsv").write_text("\n".join("\t".join(row) for row in zip(*sides, strict=True)), "utf-8")
    assert load_corpus(tmp_path).train == Pairs(*LINES["train"])


def test_a_table_without_splits_is_split_by_source(tmp_path: Path) -> None:
    rows = [f"satz {i // 2}\tsentence {i}" for i in range(200)]  # every source twice
    (tmp_path / "all.tsv").write_text("\n".join(rows), "utf-8")
    corpus = load_corpus(tmp_path / "all.tsv", seed=3)
    assert [len(pairs) for pairs in corpus.splits.values()] == [180, 10, 10]
    assert corpus.report.answer
    assert "held out" in str(corpus.report)
    assert load_corpus(tmp_path / "all.tsv", seed=3).fingerprint == corpus.fingerprint
    assert load_corpus(tmp_path / "all.tsv", seed=4).fingerprint != corpus.fingerprint


def test_one_of_several_test_sets(tmp_path: Path) -> None:
    write_folder(tmp_path, {**LINES, "test_2017": (["Ein Kind."], ["A child."])})
    assert "2 test sets are there (test_2016, test_2017); test_2016 is used." in str(load_corpus(tmp_path).report)
    chosen = load_corpus(tmp_path, test="test_2017")
    assert chosen.test == Pairs(["Ein Kind."], ["A child."])
    with pytest.raises(InputError, match="no test set 'test_2018'; it has test_2016, test_2017"):
        load_corpus(tmp_path, test="test_2018")


def test_a_line_ends_at_a_line_feed_only(tmp_path: Path) -> None:
    odd = ["Ein\u2028Hund.\r", "Eine\x0bKatze\x85schläft."]
    write_folder(tmp_path, {"train": (odd, LINES["train"][1]), "val": LINES["val"]})
    assert load_corpus(tmp_path).train.source == ["Ein Hund.", "Eine Katze schläft."]


@given(st.text(max_size=40))
def test_cleaning_is_idempotent_and_tidy(text: str) -> None:
    tidy = clean(text)
    assert clean(tidy) == tidy
    assert tidy == " ".join(tidy.split())
    assert "\n" not in tidy
    assert "\t" not in tidy


def test_empty_and_long_pairs_are_dropped_with_their_labels(tmp_path: Path) -> None:
    train = (["a b c", " ", "d", "e f"], ["A", "B", "\u200b", "E F"])
    write_folder(tmp_path, {"train": train, "val": (["a b c", "b"], ["A", "B"]), "test": (["a b c"], ["A"])})
    corpus = load_corpus(tmp_path, maximum_tokens=2)
    assert corpus.train == Pairs(["e f"], ["E F"])
    assert corpus.validation == Pairs(["b"], ["B"])
    assert corpus.test == Pairs(["a b c"], ["A"])
    statistics = corpus.report.splits["train"]
    assert (statistics.dropped_empty, statistics.dropped_long) == (2, 1)
    assert "dropped 2 empty and 1 of more than 2 tokens" in str(corpus.report)


def test_statistics_by_hand(tmp_path: Path) -> None:
    write_folder(tmp_path, {"train": (["a a b .", "c", "c"], ["x y", "z", "z"]), "val": LINES["val"]})
    s = load_corpus(tmp_path).report.splits["train"]
    assert (s.pairs, s.source_tokens, s.target_tokens, s.source_types, s.target_types) == (3, 6, 4, 4, 3)
    assert (s.source_mean_length, s.source_longest, s.target_longest, s.duplicates) == (2.0, 4, 2, 1)
    assert s.equal_length_share == pytest.approx(2 / 3)


def test_leaks_are_found_and_can_be_removed(tmp_path: Path) -> None:
    train = (["a", "b", "c", "d"], ["A", "B", "C", "D"])
    write_folder(tmp_path, {"train": train, "val": (["a", "b"], ["A", "other"]), "test": (["e", "a"], ["E", "A"])})
    corpus = load_corpus(tmp_path)
    found = {(leak.first, leak.second): (leak.pairs, leak.sources, leak.examples) for leak in corpus.report.leaks}
    assert found == {
        ("train", "validation"): (1, 2, ["a", "b"]),
        ("train", "test"): (1, 1, ["a"]),
        ("validation", "test"): (1, 1, ["a"]),
    }
    assert not corpus.report.answer
    assert "Leak: 1 pairs and 2 source sentences of validation are in train too" in str(corpus.report)
    cleaned = load_corpus(tmp_path, remove_leaks=True)
    assert cleaned.train == Pairs(["c", "d"], ["C", "D"])
    assert [(leak.first, leak.second) for leak in cleaned.report.leaks] == [("validation", "test")]


def test_the_fingerprint_sees_every_change() -> None:
    splits = {"train": Pairs(["a", "b"], ["A", "B"]), "validation": Pairs(["c"], ["C"])}
    others = [
        {"train": Pairs(["b", "a"], ["B", "A"]), "validation": Pairs(["c"], ["C"])},
        {"train": Pairs(["a", "b"], ["A", "B."]), "validation": Pairs(["c"], ["C"])},
        {"train": Pairs(["a"], ["A"]), "validation": Pairs(["b", "c"], ["B", "C"])},
        {"train": Pairs(["A", "B"], ["a", "b"]), "validation": Pairs(["c"], ["C"])},
    ]
    assert fingerprint(splits) not in {fingerprint(other) for other in others}
    assert fingerprint(splits) == fingerprint(dict(splits))


def test_the_built_in_corpus_both_ways() -> None:
    forth = load_corpus("builtin", size=500)
    back = load_corpus("builtin", source="en", target="de", size=500)
    assert (forth.train.source, forth.train.target) == (back.train.target, back.train.source)
    assert [len(pairs) for pairs in forth.splits.values()] == [500, 50, 50]
    for corpus in (forth, back):
        assert corpus.report.answer
        assert all(pairs.labels is not None and len(pairs.labels) == len(pairs) for pairs in corpus.splits.values())
    short = load_corpus("builtin", size=500, maximum_tokens=6).train
    kept = [i for i, s in enumerate(forth.train.source) if s in set(short.source)]
    assert short == forth.train.keep(kept)


@pytest.mark.slow
@needs_multi30k
def test_multi30k_with_the_courseworks_filter() -> None:
    report = load_corpus(MULTI30K, maximum_tokens=18).report
    train = report.splits["train"]
    assert (train.pairs + train.dropped_long, report.splits["test"].pairs) == (29_000, 1000)
    assert f"{train.equal_length_share:.1%}" == "21.8%"
    assert [(leak.pairs, leak.examples) for leak in report.leaks] == [(0, ["Drei Hunde spielen im Schnee."])]


# --- what can be wrong with files


def test_files_of_different_length(tmp_path: Path) -> None:
    write_folder(tmp_path)
    (tmp_path / "train.en").write_text("A dog.\n")
    with pytest.raises(InputError, match=r"train\.de has 2 lines and .*train\.en has 1"):
        load_corpus(tmp_path)


def test_wrong_encoding(tmp_path: Path) -> None:
    write_folder(tmp_path)
    (tmp_path / "train.de").write_bytes("Ein Hund.\nEin Bär.\n".encode("latin1"))
    with pytest.raises(InputError, match=r"train\.de is not UTF-8: byte 0xe4 at offset 15"):
        load_corpus(tmp_path)


def test_a_byte_order_mark_is_no_word(tmp_path: Path) -> None:
    write_folder(tmp_path)
    (tmp_path / "train.de").write_bytes("\ufeffEin Hund.\nEine Katze schläft.\n".encode())
    assert load_corpus(tmp_path).train.source[0] == "Ein Hund."


@pytest.mark.parametrize("content", [b"", b"\n\n", b" \r\n"])
def test_an_empty_file(tmp_path: Path, content: bytes) -> None:
    write_folder(tmp_path)
    (tmp_path / "val.de").write_bytes(content)
    with pytest.raises(InputError, match=r"val\.de has no text in it"):
        load_corpus(tmp_path)


@pytest.mark.parametrize("cut", [5, 12, 30, -1])
def test_a_truncated_gzip(tmp_path: Path, cut: int) -> None:
    whole = gzip.compress("Ein Hund.\nEine Katze schläft.\n".encode())
    write_folder(tmp_path)
    (tmp_path / "train.de").unlink()
    (tmp_path / "train.de.gz").write_bytes(whole[:cut])
    with pytest.raises(InputError, match=r"train\.de\.gz is not a whole gzip file"):
        load_corpus(tmp_path)


def test_a_missing_language_lists_those_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no files ending in \.fr; the languages there are de, en"):
        load_corpus(write_folder(tmp_path), target="fr")


def test_two_validation_sets(tmp_path: Path) -> None:
    write_folder(tmp_path, {**LINES, "dev": LINES["val"]})
    with pytest.raises(InputError, match=r"under several names \(dev, val\)"):
        load_corpus(tmp_path)


def test_a_missing_split_lists_those_there(tmp_path: Path) -> None:
    write_folder(tmp_path, {"train": LINES["train"], "test": LINES["val"]})
    for remove_leaks in (False, True):
        with pytest.raises(InputError, match="no validation split; it has train, test"):
            load_corpus(tmp_path, remove_leaks=remove_leaks)
    (tmp_path / "train.de").unlink()
    with pytest.raises(InputError, match="no train split; it has test"):
        load_corpus(tmp_path, remove_leaks=True)


def test_a_folder_is_never_split_behind_ones_back(tmp_path: Path) -> None:
    write_folder(tmp_path, {"train": ([f"a {i}" for i in range(50)], ["b"] * 50)})
    with pytest.raises(InputError, match="no validation split; it has train"):
        load_corpus(tmp_path)


def test_a_folder_without_a_corpus(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no paired files such as train\.de .* it has nothing in it"):
        load_corpus(tmp_path)
    (tmp_path / "notes.md").write_text("x")
    with pytest.raises(InputError, match=r"it has notes\.md\."):
        load_corpus(tmp_path)
    with pytest.raises(InputError, match="There is no corpus"):
        load_corpus(tmp_path / "elsewhere")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("eins zwei\n", "no tab in its first line"),
        ("a\tb\nc\n", "line 2 has 1 columns where line 1 has 2"),
        ("a\tb\tc\n", "3 columns; name them in a first row with de and en"),
        ("de\ten\n", "a header and no rows"),
        ("de\ten\tsplit\na\tA\tpractice\n", "must say train, validation or test, not 'practice'"),
        ("a\tA\na\tB\n", "3 different source sentences or more to be split, not 1"),
    ],
)
def test_a_bad_table(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "x.tsv").write_text(content)
    with pytest.raises(InputError, match=message):
        load_corpus(tmp_path / "x.tsv")


def test_other_mistakes(tmp_path: Path) -> None:
    write_folder(tmp_path)
    for arguments, message in (
        ({"source": "en"}, "both 'en'"),
        ({"maximum_tokens": 0}, "maximum_tokens must be 1 or more, not 0"),
        ({"maximum_tokens": 1}, "no pair of the train split is left after cleaning and the limit of 1 tokens"),
    ):
        with pytest.raises(InputError, match=message):
            load_corpus(tmp_path, **arguments)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="two files, not train as 'x'"):
        load_corpus({"train": "x"})
    with pytest.raises(InputError, match="cannot be read: No such file"):
        read_pairs(tmp_path / "a.de", tmp_path / "a.en")
    with pytest.raises(InputError, match="not 2 and 1"):
        Pairs(["a", "b"], ["A"])


# --- Hugging Face datasets, on local ones


@pytest.mark.slow
@pytest.mark.parametrize("shape", ["columns", "translation"])
def test_a_saved_dataset(tmp_path: Path, shape: str) -> None:
    datasets = pytest.importorskip("datasets", reason="the datasets package is not installed")
    parts = {}
    for name, stem in (("train", "train"), ("validation", "val"), ("test", "test_2016")):
        rows = [{"de": s, "en": t} for s, t in zip(*LINES[stem], strict=True)]
        parts[name] = datasets.Dataset.from_list(rows if shape == "columns" else [{"translation": r} for r in rows])
    datasets.DatasetDict(parts).save_to_disk(str(tmp_path / "saved"))
    corpus = load_corpus(f"hf:{tmp_path / 'saved'}")
    assert corpus.train == Pairs(*LINES["train"])
    assert corpus.fingerprint == load_corpus(write_folder(tmp_path)).fingerprint
    with pytest.raises(InputError, match="no columns de and fr: its columns are"):
        load_corpus(f"hf:{tmp_path / 'saved'}", target="fr")


def test_a_dataset_of_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    datasets = pytest.importorskip("datasets", reason="the datasets package is not installed")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(tmp_path / "cache"))
    rows = [f'{{"de": "Satz {i}.", "en": "Sentence {i}."}}\n' for i in range(60)]
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "train.jsonl").write_text("".join(rows))
    corpus = load_corpus(f"hf:{tmp_path / 'data'}")
    assert [len(pairs) for pairs in corpus.splits.values()] == [54, 3, 3]


def test_a_dataset_that_cannot_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    datasets = pytest.importorskip("datasets", reason="the datasets package is not installed")

    def offline(*_: object, **__: object) -> None:
        raise ConnectionError("no network\nand more")

    monkeypatch.setattr(datasets, "load_dataset", offline)
    with pytest.raises(
        InputError, match=r"'nobody/none' could not be loaded \(ConnectionError: no network\); check its"
    ):
        load_corpus("hf:nobody/none")
    with pytest.raises(InputError, match="hf: needs the name of a dataset after it"):
        load_corpus("hf:")


class Rows(dict[str, list[str]]):
    @property
    def column_names(self) -> list[str]:
        return list(self)


class StandIn(types.ModuleType):
    """As much of the datasets library as is called, without a network."""

    def load_dataset(self, name: str, configuration: str | None, *, revision: str | None) -> dict[str, object]:
        self.asked = (name, configuration, revision)
        rows = Rows(de=[f"de {revision}"], en=["en"])
        return {"train": rows, "validation": rows}


@pytest.mark.parametrize(
    ("given", "asked", "note"),
    [
        ("hf:a/b", ("a/b", None, None), "taken as it is today; hf:a/b@REVISION"),
        ("hf:a/b:c", ("a/b", "c", None), "taken as it is today"),
        ("hf:a/b@0123abc", ("a/b", None, "0123abc"), "taken at its revision 0123abc"),
        ("hf:a/b:c@refs/pr/1", ("a/b", "c", "refs/pr/1"), "taken at its revision refs/pr/1"),
    ],
)
def test_a_dataset_takes_a_revision(
    monkeypatch: pytest.MonkeyPatch, given: str, asked: tuple[str, str | None, str | None], note: str
) -> None:
    library = StandIn("datasets")
    library.__spec__ = ModuleSpec("datasets", None)
    monkeypatch.setitem(sys.modules, "datasets", library)
    corpus = load_corpus(given)
    assert library.asked == asked
    assert corpus.name == given
    assert any(note in line for line in corpus.report.notes)
    assert corpus.train.source == [f"de {asked[2]}"]


@pytest.mark.parametrize("given", ["hf:a@", "hf:a:@x", "hf:a:", "hf:a: "])
def test_a_dataset_that_is_half_named(given: str) -> None:
    with pytest.raises(InputError, match="ends too soon: write hf:NAME"):
        load_corpus(given)


def test_a_saved_dataset_has_no_revisions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library = StandIn("datasets")
    library.__spec__ = ModuleSpec("datasets", None)
    monkeypatch.setitem(sys.modules, "datasets", library)
    (tmp_path / "dataset_dict.json").write_text("{}")
    with pytest.raises(InputError, match="has no revisions; leave @v1 out"):
        load_corpus(f"hf:{tmp_path}@v1")


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "datasets", None)
    with pytest.raises(InputError, match=r"pip install 'regard\[huggingface\]'"):
        load_corpus("hf:nobody/none")
