"""From token ids to vectors: learned, or started from pretrained word vectors; and from places to vectors.

The input of the coursework's encoder is BERT-style, x_t = E[token_t] + P[t] with E and P learned. The rows of E may
start from word vectors of any width: a width other than the model's is met by a linear map, x_t = W E[token_t] + P[t].
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional

from regard.errors import InputError
from regard.positions import frequencies, sinusoidal
from regard.results import Result
from regard.translator.data.vectors import read_bert, read_glove, read_word2vec, train_word2vec
from regard.translator.data.vocabulary import FIRST_WORD, PAD, UNK, Vocabulary

SPECS = "learned, glove:FILE, word2vec:FILE, word2vec:train or bert:DIR"
POSITIONS = ("learned", "sinusoidal", "rotary", "none")


@dataclass(frozen=True, kw_only=True, eq=False)
class Vectors(Result):
    """Where the rows of an embedding start: one row for each word, and which of them the source knew.

    Words without a vector get normal numbers of the same spread as the known ones; padding is zero.
    Coverage counts word types (of the vocabulary, markers aside) and tokens (of the sentences, unknown words
    counting as not covered). ``answer`` is False when nothing was pretrained.
    """

    spec: str
    width: int
    types: int
    types_covered: int
    tokens: int
    tokens_covered: int
    missing: list[str]
    _matrix: npt.NDArray[np.float32]  # words x width
    _covered: npt.NDArray[np.bool_]  # one per word

    @property
    def matrix(self) -> npt.NDArray[np.float32]:
        """One row for each word of the vocabulary, ``width`` numbers each."""
        return self._matrix

    @property
    def known_rows(self) -> npt.NDArray[np.bool_]:
        """Which rows came from the source."""
        return self._covered

    @property
    def answer(self) -> bool:
        return bool(self._covered.any())

    def __str__(self) -> str:
        if not self.answer:
            return f"{self.spec}: {self.types} words start from random numbers, {self.width} each."
        missing = f"; the most frequent without one: {', '.join(self.missing[:5])}" if self.missing else ""
        return (
            f"{self.spec}: vectors of {self.width} numbers for {self.types_covered} of {self.types} words "
            f"({self.types_covered / self.types:.1%} of types, {self.tokens_covered / max(1, self.tokens):.1%} of the "
            f"{self.tokens} tokens){missing}."
        )


def initial_vectors(
    spec: str, vocabulary: Vocabulary, sentences: Iterable[str], *, seed: int, width: int = 128
) -> Vectors:
    """The vectors that ``spec`` names, for every word of ``vocabulary``; ``sentences`` are the training text.

    ``learned``: standard normal numbers, ``width`` of them. ``glove:FILE`` and ``word2vec:FILE``: from a file, by
    the word as written, else lower-cased. ``word2vec:train``: skip-gram trained by gensim on ``sentences``
    with ``width`` numbers. ``bert:DIR``: the mean of the rows of a word's WordPieces in the checkpoint's input
    embedding, before its positions and normalisation. The same seed gives the same numbers in every process.

    >>> from regard.translator.data.vocabulary import WordVocabulary
    >>> v = WordVocabulary.build(["ein hund", "ein hund"])
    >>> vectors = initial_vectors("learned", v, [], seed=0, width=3)
    >>> vectors.matrix.shape, vectors.matrix[0].tolist()
    ((6, 3), [0.0, 0.0, 0.0])
    >>> print(vectors)
    learned: 2 words start from random numbers, 3 each.
    """
    kind, _, where = spec.partition(":")
    if spec != "learned" and not (kind in ("glove", "word2vec", "bert") and where):
        raise InputError(f"There is no embedding {spec!r}; give {SPECS}.")
    texts = [vocabulary.tokens(sentence) for sentence in sentences]
    surface = [_surface(word, vocabulary.kind) for word in vocabulary.words]
    if kind == "learned":
        vectors: dict[str, npt.NDArray[np.float32]] = {}
    elif kind == "bert":
        vectors = read_bert(where, {form for forms in surface[FIRST_WORD:] for form in forms})
    elif where == "train":
        vectors = train_word2vec(texts, width=width, seed=seed)
        # trained on the very tokens, so no other form need be tried
        surface = [[word] for word in vocabulary.words]
    else:
        read = read_glove if kind == "glove" else read_word2vec
        vectors = read(where, {form for forms in surface[FIRST_WORD:] for form in forms if not form.startswith("##")})
    if kind != "learned" and not vectors:
        some = ", ".join(vocabulary.words[FIRST_WORD : FIRST_WORD + 5])
        raise InputError(
            f"{spec} has a vector for none of the {len(vocabulary) - FIRST_WORD} words ({some}, ...); wrong file?"
        )
    return _build_vectors(spec, vocabulary, texts, surface, vectors, seed=seed, width=width)


def _surface(word: str, kind: str) -> list[str]:
    """The forms a token is looked up by, best first.

    A byte-pair piece is looked up as a word when it starts one; when it continues one, only BERT knows it, as ##piece.
    """
    if kind == "bpe" and word[:1].isalnum():
        return [f"##{word}", f"##{word.lower()}"]
    bare = word.removeprefix("▁") if kind == "bpe" else word
    straight = bare.replace("’", "'")
    return [form for form in dict.fromkeys([bare, bare.lower(), straight, straight.lower()]) if form]


def _build_vectors(
    spec: str,
    vocabulary: Vocabulary,
    texts: list[list[str]],
    surface: list[list[str]],
    vectors: dict[str, npt.NDArray[np.float32]],
    *,
    seed: int,
    width: int,
) -> Vectors:
    rows = [next((vectors[form] for form in forms if form in vectors), None) for forms in surface]
    rows[:FIRST_WORD] = [None] * FIRST_WORD  # markers are ours, whatever a file calls by that name
    covered = np.array([row is not None for row in rows])
    known = np.array([row for row in rows if row is not None], dtype=np.float32)
    width = known.shape[1] if len(known) else width
    spread = float(known.std()) if len(known) else 1.0
    # for all rows, also the covered ones: a word's numbers do not depend on which others a file knows
    matrix = np.random.default_rng(seed).standard_normal((len(vocabulary), width), dtype=np.float32) * spread
    if len(known):
        matrix[covered] = known
    matrix[PAD] = 0
    ids = {word: i for i, word in enumerate(vocabulary.words)}
    counts = Counter(ids.get(token, UNK) for text in texts for token in text)
    missing = sorted((i for i in range(FIRST_WORD, len(rows)) if not covered[i]), key=lambda i: (-counts[i], i))
    return Vectors(
        spec=spec,
        width=width,
        types=len(vocabulary) - FIRST_WORD,
        types_covered=int(covered.sum()),
        tokens=sum(counts.values()),
        tokens_covered=sum(n for i, n in counts.items() if covered[i]),
        missing=[vocabulary.words[i] for i in missing[:20]],
        _matrix=matrix.astype(np.float32),
        _covered=covered,
    )


class TokenEmbedding(nn.Module):
    """E[token], every row trained: started from ``vectors``, or from standard normal numbers.

    With vectors of another width than the model's the result is W E[token], W trained too.

    >>> TokenEmbedding(7, 5)(torch.tensor([[0, 3, 6]])).shape
    torch.Size([1, 3, 5])
    """

    weight: Tensor

    def __init__(self, size: int, width: int, vectors: Vectors | None = None) -> None:
        super().__init__()
        if vectors is not None and len(vectors.matrix) != size:
            raise InputError(f"The vectors are for {len(vectors.matrix)} words and the vocabulary has {size}.")
        rows = torch.randn(size, width) if vectors is None else torch.from_numpy(vectors.matrix.copy())
        rows[PAD] = 0
        given = rows.shape[1]
        self.projection = nn.Identity() if given == width else nn.Linear(given, width, bias=False)
        self._hold(rows, vectors)

    def _hold(self, rows: Tensor, vectors: Vectors | None) -> None:
        self.weight = nn.Parameter(rows)

    def forward(self, ids: Tensor) -> Tensor:
        """Vectors of ``ids``, one more dimension than it has."""
        return self.projection(self._rows(ids))  # type: ignore[no-any-return]

    def _rows(self, ids: Tensor) -> Tensor:
        return functional.embedding(ids, self.weight)

    def table(self) -> Tensor:
        """E, one row for each word, before the projection."""
        return self.weight


class FrozenEmbedding(TokenEmbedding):
    """E[token] with the pretrained rows fixed; rows the source did not know (markers, unknown words) are trained.

    Fixed rows are a buffer, so neither gradients nor weight decay can move them.
    """

    def _hold(self, rows: Tensor, vectors: Vectors | None) -> None:
        covered = torch.from_numpy(vectors.known_rows if vectors is not None else np.zeros(len(rows), dtype=bool))
        free = torch.nonzero(~covered).flatten()
        # fixed rows look up trained row 0 as well, which is_free then multiplies by 0: no branch for every token
        place = torch.zeros(len(rows), dtype=torch.long)
        place[free] = torch.arange(len(free))
        self.register_buffer("fixed", rows * covered[:, None])
        self.register_buffer("place", place)
        self.register_buffer("is_free", (~covered)[:, None].to(rows.dtype))
        self.weight = nn.Parameter(rows[free])

    def _rows(self, ids: Tensor) -> Tensor:
        fixed, place, is_free = self.get_buffer("fixed"), self.get_buffer("place"), self.get_buffer("is_free")
        return functional.embedding(ids, fixed) + functional.embedding(place[ids], self.weight) * is_free[ids]

    def table(self) -> Tensor:
        fixed, place, is_free = self.get_buffer("fixed"), self.get_buffer("place"), self.get_buffer("is_free")
        return fixed + self.weight[place] * is_free


class NoPositions(nn.Module):
    """Nothing is added: the encoder sees a bag of words (or turns queries and keys with :func:`rotate_places`)."""

    def forward(self, x: Tensor, first: int = 0) -> Tensor:
        return x


class LearnedPositions(nn.Module):
    """x_t + P[t], P learned, as in BERT; started small, so that words come first."""

    def __init__(self, length: int, width: int, *, spread: float = 0.1) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(length, width) * spread)

    def forward(self, x: Tensor, first: int = 0) -> Tensor:
        return x + self.weight[first : _checked_end(x, first, len(self.weight))]


class SinusoidalPositions(nn.Module):
    """x_t + Phi[t], the fixed table of :func:`sinusoidal_table`."""

    def __init__(self, length: int, width: int) -> None:
        super().__init__()
        self.register_buffer("table", sinusoidal_table(length, width), persistent=False)

    def forward(self, x: Tensor, first: int = 0) -> Tensor:
        table = self.get_buffer("table")
        return x + table[first : _checked_end(x, first, len(table))].to(x.dtype)


class Embedding(nn.Module):
    """Tokens, then positions: (batch, length) ids to (batch, length, width) vectors, x_t = scale E[token_t] + P[t].

    ``first`` is the place of the first id, for a decoder that gets one at a time.

    >>> bert_style = Embedding(TokenEmbedding(11, 6), LearnedPositions(13, 6))
    >>> bert_style(torch.tensor([[4, 5, 4]])).shape
    torch.Size([1, 3, 6])
    """

    def __init__(self, tokens: TokenEmbedding, positions: nn.Module, *, scale: float = 1.0) -> None:
        super().__init__()
        self.tokens, self.positions, self.scale = tokens, positions, scale

    def forward(self, ids: Tensor, first: int = 0) -> Tensor:
        vectors = self.tokens(ids)
        return self.positions(vectors if self.scale == 1 else vectors * self.scale, first)  # type: ignore[no-any-return]


def positions_module(kind: str, length: int, width: int, *, start: str = "short") -> nn.Module:
    """What is added to the vectors for each kind of positions; nothing for rotary, which acts inside attention.

    Learned ones ``start`` short, so that words come first, or from standard normal numbers.
    """
    if kind not in POSITIONS:
        raise InputError(f"There are no positions {kind!r}; give one of {', '.join(POSITIONS)}.")
    if kind == "learned":
        return LearnedPositions(length, width, spread=1.0 if start == "normal" else 0.1)
    return SinusoidalPositions(length, width) if kind == "sinusoidal" else NoPositions()


def sinusoidal_table(length: int, width: int) -> Tensor:
    """Phi[t, 2i] = sin(t / 10000^(2i/width)), Phi[t, 2i+1] = cos(same), computed in float64, given in float32.

    >>> sinusoidal_table(2, 4).tolist()[0]
    [0.0, 1.0, 0.0, 1.0]
    """
    return torch.from_numpy(sinusoidal(length, width)).to(torch.float32)


def rotate_places(x: Tensor, first: int = 0) -> Tensor:
    """Rotary: each pair (x[2i], x[2i+1]) turned by t / 10000^(2i/width), for queries and keys inside attention.

    ``x`` is (..., length, width), its places t are first, first + 1, ... Scores then depend on t - s alone. The angles
    are worked out once, and kept.

    >>> rotate_places(torch.tensor([[1.0, 0.0]]), first=0).tolist()
    [[1.0, 0.0]]
    """
    # one complex product turns all pairs, faster than four real ones on slices
    pairs = torch.view_as_complex(x.view(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * _turns(first, x.shape[-2], x.shape[-1], x.dtype, x.device)).flatten(-2)


@functools.lru_cache(maxsize=1024)  # a few kB each
def _turns(first: int, length: int, width: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    # in float64: at place 500 a float32 angle is off by 3e-5
    angles = torch.arange(first, first + length, dtype=torch.float64)[:, None] * torch.from_numpy(frequencies(width))
    return torch.complex(angles.cos().to(dtype), angles.sin().to(dtype)).to(device)


def _checked_end(x: Tensor, first: int, longest: int) -> int:
    end = first + x.shape[-2]
    if end > longest:
        raise InputError(f"A sentence of {end} tokens is longer than the {longest} positions of this model.")
    return end
