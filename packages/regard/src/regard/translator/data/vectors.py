"""Word vectors from files (GloVe text, word2vec text and binary, a BERT checkpoint), or trained by gensim.

Files are streamed, plain or gzip, and only the wanted words are kept, so a file of millions costs little memory.

| format | a record |
|---|---|
| GloVe text | a word and its numbers, separated by blanks; no header (one is accepted) |
| word2vec text | the same after a header line: how many words, how many numbers each |
| word2vec binary | the same header; then word, blank, float32 numbers, little-endian |
"""

from __future__ import annotations

import codecs
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open

from regard.array_types import Single
from regard.errors import InputError, describe_error
from regard.extras import require
from regard.strict_json import parse_json
from regard.translator.data.sources import BoundedReader, open_reader

WordVectors = dict[str, Single]
_LONGEST_WORD = 2000  # bytes; a "word" without an end is how a file of another kind shows itself
_LONGEST_LINE = 1 << 22  # bytes
_WIDEST = 100_000  # numbers for one word; models have some thousand
_WHERE = {  # where each kind can be had, for who named what is not there; docs/translator-good.md has the whole table
    "GloVe": "glove.6B.100d.txt is in glove.6B.zip of nlp.stanford.edu/projects/glove, and python -m gensim.downloader "
    "-d glove-wiki-gigaword-100 fetches the same",
    "word2vec": "python -m gensim.downloader -d word2vec-google-news-300 fetches English ones, fasttext.cc has "
    "cc.de.300.vec.gz for German, and word2vec:train makes them from the training pairs",
    "BERT": "bert:hf:google-bert/bert-base-multilingual-cased fetches one, or give the folder that "
    "hf download NAME --local-dir FOLDER wrote",
}
_OF_BERT = ["model.safetensors", "tokenizer.json", "tokenizer_config.json", "vocab.txt"]


def read_glove(path: str | Path, wanted: set[str]) -> WordVectors:
    """The vectors of the ``wanted`` words in a GloVe text file."""
    path = _existing_path(path, "GloVe")
    with open_reader(path) as stream:
        first = _first_line(stream)
        header = _header(first, stream)
        return _read_text(path, _lines(None if header else first, stream), wanted, header)


def read_word2vec(path: str | Path, wanted: set[str]) -> WordVectors:
    """The vectors of the ``wanted`` words in a word2vec file; text or binary is told from its first record."""
    path = _existing_path(path, "word2vec")
    with open_reader(path) as stream:
        header = _header(_first_line(stream), stream)
        if header is None:
            raise InputError(
                f"{path} does not start with a word2vec header (two whole numbers: words and width); "
                "a file without one is read with glove:FILE."
            )
        if _looks_like_text(stream.peek(_LONGEST_WORD + 64 * header[1])):
            return _read_text(path, _lines(None, stream), wanted, header)
        return _read_binary(path, stream, wanted, header)


def read_bert(folder: str | Path, words: Iterable[str]) -> WordVectors:
    """The mean of the input-embedding rows of each word's WordPieces; words that need [UNK] are left out.

    ``folder`` holds ``model.safetensors`` and ``tokenizer.json`` or ``vocab.txt``; ``hf:NAME`` or ``hf:NAME@REVISION``
    is a checkpoint of the Hugging Face hub, fetched once. A word that starts with ``##`` is taken for one piece that
    continues a word.
    """
    folder = _download_checkpoint(str(folder)) if str(folder).startswith("hf:") else _existing_path(folder, "BERT")
    table = _bert_table(folder)
    pieces, row = _wordpiece(folder)
    vectors: WordVectors = {}
    for word in sorted(set(words)):  # in order, so that a message is the same in every process
        rows = [row(word)] if word.startswith("##") else [row(piece) for piece in pieces(word)]
        known = [r for r in rows if r is not None]
        if rows and len(known) == len(rows):
            if max(known) >= len(table):
                raise InputError(
                    f"{folder}: the vocabulary numbers a piece {max(known)} but the embedding has {len(table)} rows; "
                    "they are not of the same checkpoint."
                )
            vectors[word] = table[known].mean(axis=0, dtype=np.float32)
    return vectors


def _existing_path(path: str | Path, kind: str) -> Path:
    """The path, if something is there; else where vectors of this kind can be had."""
    path = Path(path)
    try:
        there = path.exists()
    except (OSError, ValueError):  # longer than a name can be, or with a null character
        there = False
    if not there:
        what = "folder" if kind == "BERT" else "file"
        raise InputError(f"There is no {what} {str(path)!r} with {kind} vectors: {_WHERE[kind]}.")
    return path


def _download_checkpoint(spec: str) -> Path:
    """The folder of a checkpoint of the hub, from the cache of this machine or from the network."""
    require("A checkpoint of the Hugging Face hub", "huggingface_hub", extra="huggingface")
    import huggingface_hub

    name, _, revision = spec.removeprefix("hf:").partition("@")
    try:
        folder = huggingface_hub.snapshot_download(name, revision=revision or None, allow_patterns=_OF_BERT)
    except Exception as error:  # the library raises its own, and those of the network's libraries
        raise InputError(
            f"The checkpoint {name!r} of the Hugging Face hub could not be fetched ({describe_error(error)}); "
            "check its name and the network, or give the folder of one that is on this machine."
        ) from error
    return Path(folder)


def train_word2vec(texts: list[list[str]], *, width: int, seed: int, epochs: int = 10) -> WordVectors:
    """Skip-gram vectors (Mikolov et al., 2013) of every token of ``texts``, by gensim in one thread."""
    require("word2vec:train", "gensim")
    from gensim.models import Word2Vec

    if not any(texts):
        raise InputError("word2vec:train needs sentences to learn from, and there are none.")
    model = Word2Vec(
        texts,
        vector_size=width,
        window=5,
        min_count=1,
        sg=1,
        epochs=epochs,
        seed=seed,
        workers=1,  # two threads would race
        hashfxn=lambda word: zlib.crc32(str(word).encode()),  # Python's own hash differs between processes
    )
    return {word: model.wv[word].copy() for word in model.wv.index_to_key}


def _first_line(stream: BoundedReader) -> bytes:
    line = stream.line(longest=_LONGEST_LINE).removeprefix(codecs.BOM_UTF8)
    if not line:
        raise InputError(f"{stream.path} is empty; give a file of word vectors.")
    return line


def _lines(first: bytes | None, stream: BoundedReader) -> Iterator[bytes]:
    if first is not None:
        yield first
    while line := stream.line(longest=_LONGEST_LINE):
        yield line


def _header(line: bytes, stream: BoundedReader) -> tuple[int, int] | None:
    """How many words and numbers, if the line says so; what cannot be in the file is refused before it is sought."""
    fields = line.split()
    if len(fields) != 2 or not all(f.isdigit() for f in fields):
        return None
    # Python refuses to read numbers of thousands of digits: any that long is too large anyway
    count, width = (int(f) if len(f) < 16 else 10**16 for f in fields)
    if width > _WIDEST or count * (2 * width + 1) > stream.size:  # a number is at least a blank and a digit
        raise InputError(
            f"{stream.path}: its header says {_short(fields[0])} words of {_short(fields[1])} numbers, and so many are "
            "not in the file; it is cut, damaged, or no file of word vectors."
        )
    return count, width


def _short(field: bytes) -> str:
    return field.decode() if len(field) < 16 else f"{field[:12].decode()}..."


def _looks_like_text(first: bytes) -> bool:
    """Whether the beginning of a file is UTF-8 without control characters; float32 numbers hardly ever are."""
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(first)  # a last character may be cut
    except UnicodeDecodeError:
        return False
    return all(line.strip("\r\t").replace("\t", " ").isprintable() for line in text.split("\n"))


def _read_text(path: Path, lines: Iterable[bytes], wanted: set[str], header: tuple[int, int] | None) -> WordVectors:
    vectors: WordVectors = {}
    width = header[1] if header else None
    number, offset = 0, 1 + (header is not None)
    for line in lines:
        if not line.strip():
            continue
        word, values = _fields(path, line, number + offset, width, header is not None and number == 0)
        width = len(values)
        number += 1
        if word in wanted and word not in vectors:
            vectors[word] = _numbers(path, word, values, number + offset - 1)
    if not number:
        raise InputError(f"{path} has no word vectors in it.")
    if header and header[0] != number:
        raise InputError(f"{path}: its header says {header[0]} words, but {number} follow; the file is cut or damaged.")
    return vectors


def _fields(path: Path, line: bytes, number: int, width: int | None, promised: bool) -> tuple[str, list[bytes]]:
    """The word and its numbers; a word may contain blanks, as a few of GloVe's do, but no numbers after the first."""
    fields = line.rstrip(b"\r\n ").split(b" ")
    width = len(fields) - 1 if width is None else width
    # numbers are counted from the end, so what is left in front is the word, blanks included
    uneven = len(fields) - 1 < width or any(_is_number(f) for f in fields[1:-width]) if width else True
    if uneven:
        rule = f"its header says {width}" if promised else f"the lines before have {width}"
        reason = "no numbers after the word" if width == 0 else f"{len(fields) - 1} numbers where {rule}"
        raise InputError(f"{path}: line {number} has {reason}; every word needs as many numbers.")
    try:
        return b" ".join(fields[:-width]).decode("utf-8"), fields[-width:]
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: line {number} is not UTF-8 (byte {error.start} of the line); convert it.") from error


def _is_number(field: bytes) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return b"_" not in field  # Python would read 1_0 as ten


def _numbers(path: Path, word: str, values: list[bytes], number: int) -> Single:
    if (wrong := next((v for v in values if not _is_number(v)), None)) is not None:
        came = repr(wrong[:24].decode("utf-8", errors="replace"))
        raise InputError(f"{path}: line {number}: {came} among the numbers of {word!r} is not a number.")
    with np.errstate(over="ignore"):  # too large for float32 is found not finite below
        vector = np.array([float(v) for v in values], dtype=np.float32)
    return _check_finite(path, word, vector)


def _check_finite(path: Path, word: str, vector: Single) -> Single:
    if not np.isfinite(vector).all():
        raise InputError(f"{path}: the vector of {word!r} has a number that is not finite; repair or remove the word.")
    return vector


def _read_binary(path: Path, stream: BoundedReader, wanted: set[str], header: tuple[int, int]) -> WordVectors:
    count, width = header
    if not count or not width:
        raise InputError(f"{path}: its header says {count} words of {width} numbers; there is nothing to read.")
    vectors: WordVectors = {}
    for number in range(count):
        name = _binary_word(path, stream, number, count)
        raw = stream.read(4 * width)
        if len(raw) < 4 * width:
            raise InputError(f"{path} ends inside word {number + 1} of the {count} its header says; copy it again.")
        word = name.decode("utf-8", errors="replace")  # the original tool cuts long words mid-character
        if word in wanted and word not in vectors:
            vectors[word] = _check_finite(path, word, np.frombuffer(raw, dtype="<f4").astype(np.float32))
    if stream.read(64).strip():
        raise InputError(f"{path}: its header says {count} words of {width} numbers, but more bytes follow.")
    return vectors


def _binary_word(path: Path, stream: BoundedReader, number: int, count: int) -> bytes:
    name = bytearray()
    while (byte := stream.read(1)) != b" ":
        if not byte:
            raise InputError(f"{path} ends after {number} of the {count} words its header says; copy it again.")
        # some tools end a record with a line feed, which the next word must not begin with
        if byte != b"\n" or name:
            name += byte
        if len(name) > _LONGEST_WORD:
            raise InputError(f"{path}: no word ends where word {number + 1} should; the header's width is wrong.")
    return bytes(name)


def _bert_table(folder: Path) -> Single:
    file = folder / "model.safetensors"
    if not file.is_file():
        raise InputError(f"{folder} has no model.safetensors; give the folder of a BERT checkpoint.")
    try:
        with safe_open(str(file), framework="numpy") as tensors:
            names = [name for name in tensors.keys() if name.endswith("word_embeddings.weight")]  # noqa: SIM118
            if len(names) != 1:
                raise InputError(f"{file} needs one tensor named ...word_embeddings.weight; it has {len(names)}.")
            table = np.asarray(tensors.get_tensor(names[0]))
    except (SafetensorError, OSError, TypeError) as error:
        raise InputError(f"{file} cannot be read as safetensors ({error}); copy or download it again.") from error
    if table.ndim != 2 or not np.isfinite(table).all():
        raise InputError(f"{file}: {names[0]} must be a matrix of finite numbers; it is {table.dtype} {table.shape}.")
    return table.astype(np.float32)


def _wordpiece(folder: Path) -> tuple[Callable[[str], list[str]], Callable[[str], int | None]]:
    """How words are cut, and the row of a piece (None for [UNK]); the checkpoint's own normalisation is used."""
    require("A BERT checkpoint", "tokenizers")
    from tokenizers import Tokenizer

    if (folder / "tokenizer.json").is_file():
        tokenizer = _tokenizer_from(folder / "tokenizer.json", lambda file: Tokenizer.from_file(str(file)))
    elif (folder / "vocab.txt").is_file():
        tokenizer = _tokenizer_from(folder / "vocab.txt", _from_vocabulary)
    else:
        raise InputError(f"{folder} has neither tokenizer.json nor vocab.txt; words cannot be cut into pieces.")
    ids: dict[str, int] = tokenizer.get_vocab()

    def pieces(word: str) -> list[str]:
        return list(tokenizer.encode(word, add_special_tokens=False).tokens)

    return pieces, lambda piece: None if piece == "[UNK]" else ids.get(piece)


def _tokenizer_from(file: Path, read: Callable[[Path], Any]) -> Any:
    try:
        tokenizer = read(file)
    except Exception as error:  # the library raises bare Exception
        raise InputError(f"{file} cannot be read as a WordPiece tokenizer ({error}); copy it again.") from error
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def _from_vocabulary(file: Path) -> Any:
    from tokenizers import BertWordPieceTokenizer

    settings = file.parent / "tokenizer_config.json"
    known = parse_json(settings.read_bytes(), constants=True) if settings.is_file() else {}
    return BertWordPieceTokenizer(str(file), lowercase=bool(known.get("do_lower_case", True)))
