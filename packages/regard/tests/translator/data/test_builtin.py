"""The built-in corpus: the pairs that every recorded figure stands on, in every size, and what is refused."""

from __future__ import annotations

import gzip
import hashlib

import pytest

from regard.errors import InputError
from regard.translator.data import sources
from regard.translator.data.corpus import load_corpus
from regard.translator.data.sources import BUILTIN_SIZE, fresh_pairs, from_builtin
from tools.grammar import PHENOMENA
from tools.grammar.__main__ import FRESH, SHIPPED, corpus_text, packed, shipped_text

# Recorded when the pairs were still generated on every start: (size, source) and what Corpus.fingerprint was.
RECORDED = {
    (10, "de"): "2f26b31d6a013e2a27d1a898a543c851c36d423df1172b45a9e77803253f5d0c",
    (200, "en"): "8d15d61a9d624d4d97f8227d73d01f78637a5ad3573f3d9ef2c69e51d77b6939",
    (1999, "de"): "0ef94c2e49cc5da35dc210f38b6b8eef50159847a08d0b6df7d4c3878d288d58",
    (20_000, "de"): "b75bb393886a518ca90bbc9e3c01b3b4d39170120a49743855db9e164fa712ba",
    (20_000, "en"): "4ceb86ea79355ff8d8444be2b5e57c73f185fc05415f8a2df959beefd4955e4b",
}
# And of the labels of the training, validation and test pairs.
LABELS = {
    1999: [
        "ab8d0f10333be86463c1691e7a044cabad696aaf9a61c16b632de2ce46d218fd",
        "7574d44a0d6ff927f909b11f62e7078d56ac32bf9947a18db83179a466840514",
        "c546f7fd1b15fa9363f1d240bc1c18274728cb2262cece799fb6bdb9f56a0981",
    ],
    20_000: [
        "80281481c6e7330575e05a9e740dd1b2784cc9d59181cc21d1ed2bcb8a35ab31",
        "787936254ca00c8a083ae78064eb6930657686a88163dfdb9b729e26f23d0b46",
        "bfc29d62543c3322df677d5b655a267714da5cd7f71e0d915b77178e7eab179d",
    ],
}


@pytest.fixture(scope="module")
def written() -> str:
    return shipped_text()


@pytest.mark.parametrize(("size", "source"), RECORDED)
def test_the_pairs_are_those_of_the_recorded_figures(size, source):
    corpus = load_corpus("builtin", source=source, target="en" if source == "de" else "de", size=size)
    assert corpus.fingerprint == RECORDED[size, source]


@pytest.mark.parametrize("size", LABELS)
def test_the_labels_are_those_of_the_recorded_figures(size):
    found = [pairs.labels for pairs in from_builtin("de", "en", size=size).splits.values()]
    texts = ["\n".join(",".join(sorted(names)) for names in labels) for labels in found]
    assert [hashlib.sha256(text.encode()).hexdigest() for text in texts] == LABELS[size]


@pytest.mark.slow
def test_the_grammar_writes_the_shipped_file_byte_for_byte(written):
    raw = SHIPPED.read_bytes()
    assert gzip.decompress(raw) == written.encode()
    assert hashlib.sha256(written.encode()).hexdigest() == sources.BUILTIN_SHA256
    assert raw[4:8] == b"\0\0\0\0"  # no time inside, so nothing but the text decides about the bytes
    assert packed(written) == packed(written)
    assert gzip.decompress(packed(written)) == written.encode()


def test_every_row_has_known_labels_and_four_columns():
    rows = [line.split("\t") for line in gzip.decompress(SHIPPED.read_bytes()).decode().splitlines()]
    assert rows[0] == list(sources.BUILTIN_COLUMNS)
    assert {len(row) for row in rows} == {4}
    assert {name for row in rows[1:] for name in row[3].split(",") if name} == set(PHENOMENA)


def test_fresh_sentences_are_in_no_corpus():
    whole = from_builtin("de", "en")
    known = {text for pairs in whole.splits.values() for text in (*pairs.source, *pairs.target)}
    fresh = fresh_pairs(FRESH)
    assert len(fresh) == FRESH
    assert known.isdisjoint(fresh.source)
    assert known.isdisjoint(fresh.target)


def test_the_grammar_makes_the_same_corpus_as_a_table(tmp_path):
    path = tmp_path / "large.tsv"
    path.write_text(corpus_text(200, seed=0), encoding="utf-8")
    table, ours = (
        load_corpus(path, source="en", target="de"),
        load_corpus("builtin", source="en", target="de", size=200),
    )
    assert table.fingerprint == ours.fingerprint == RECORDED[200, "en"]
    assert {name: pairs.labels for name, pairs in table.splits.items()} == {
        name: pairs.labels for name, pairs in ours.splits.items()
    }


@pytest.mark.parametrize(
    ("size", "seed", "message"),
    [
        (
            30_000,
            0,
            "has 20,000 training pairs of the seed 0, and 30,000 training pairs were asked for; in a copy of the "
            "project, python -m tools.grammar --size 30000 --seed 0 --out FILE.tsv makes that corpus",
        ),
        (
            500,
            5,
            "and the seed 5 was asked for; in a copy .* python -m tools.grammar --size 500 --seed 5 --out FILE.tsv",
        ),
        (0, 0, "1 or more, not 0"),
    ],
)
def test_what_the_file_does_not_have_is_refused_with_the_way_to_it(size, seed, message):
    with pytest.raises(InputError, match=message):
        load_corpus("builtin", size=size, seed=seed)


def test_other_languages_are_refused():
    with pytest.raises(InputError, match="de to en or en to de, not de to fr"):
        load_corpus("builtin", target="fr")


@pytest.mark.parametrize("damage", [lambda raw: raw[:-9], lambda raw: gzip.compress(b"part\tde\ten\tphenomena\n")])
def test_a_damaged_file_is_named(damage, monkeypatch, tmp_path):
    (tmp_path / sources.BUILTIN).write_bytes(damage(SHIPPED.read_bytes()))
    monkeypatch.setattr("regard.translator.data.sources.resources.files", lambda _: tmp_path)
    sources._read_builtin.cache_clear()
    with pytest.raises(InputError, match=r"builtin\.tsv\.gz in the package, is damaged; install Regard again"):
        from_builtin("de", "en", size=BUILTIN_SIZE)


def test_labels_of_a_table_of_ones_own(tmp_path):
    rows = ["de\ten\tsplit\tphenomena", "eins\tone\ttrain\tnumber, short", "zwei\ttwo\tvalidation\t"]
    (tmp_path / "own.tsv").write_text("\n".join(rows), encoding="utf-8")
    corpus = load_corpus(tmp_path / "own.tsv")
    assert corpus.train.labels == [frozenset({"number", "short"})]
    assert corpus.validation.labels == [frozenset()]
