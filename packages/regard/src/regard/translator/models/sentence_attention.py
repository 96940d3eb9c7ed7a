"""What a trained model reads of a sentence while it says its translation.

An encoder-decoder's sentence with the package's own attention, in NumPy float64: no torch, so it answers at once.

    x = sqrt(width) E[token] + Phi[place]
    encoder block   x <- x + attention(norm x);  x <- x + feed-forward(norm x)
    decoder block   x <- x + attention(norm x, itself and the past);  x <- x + attention(norm x, the source);
                    x <- x + feed-forward(norm x)

For the plain kind of run that comes with the package: learned vectors, sinusoidal places, nothing tied; written
greedily. torch's float32 (:mod:`regard.translator.models.encoder_decoder`) writes the same words, and its numbers agree
up to its rounding: a test holds the two together. Weak for large models: the past is computed anew for every token.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from regard.array_types import Float
from regard.attention import Heads, log_sum_exp
from regard.errors import InputError
from regard.layers import feed_forward, multi_head
from regard.positions import sinusoidal
from regard.results import Result
from regard.strict_json import parse_json
from regard.translator.data.vocabulary import EOS, PAD, SOS, UNK, Vocabulary, encode_sources, read_vocabularies
from regard.translator.runs.files import BEST, SETTINGS, read_checkpoint
from regard.translator.runs.settings import Settings, load_settings


@dataclass(frozen=True, kw_only=True, eq=False)
class SentenceAttention(Result):
    """What ``run.attention`` returns: for each written token, how much of it comes from each token of the source.

    A row of ``weights`` sums to 1; only the row of a <sos> that a model is given, and does not say, is 0.
    """

    source: str
    target: str
    log_probability: float  # of the written tokens and <eos>, as the model sees them
    cut: bool  # whether the sentence was too long and read only in part
    columns: list[str]  # the source tokens that are read, <sos> and <eos> among them
    rows: list[str]  # the target tokens that are written, <sos> and <eos> among them
    weights: npt.NDArray[np.float32]  # layers x heads x rows x columns

    def __str__(self) -> str:
        layers, heads = self.weights.shape[:2]
        mean = self.weights.mean((0, 1))
        most = [
            f"{row} reads {self.columns[int(read.argmax())]} ({read.max():.2f})"
            for row, read in zip(self.rows, mean, strict=True)
            if read.any()
        ]
        shape = f"{layers} layer{'s' * (layers > 1)} of {heads} head{'s' * (heads > 1)}"
        return f"{self.target}\nMost read, on average over {shape}: {', '.join(most)}."


NORM = 1e-5  # added to the variance, as torch does


@dataclass(frozen=True, kw_only=True, eq=False)
class NumpyRun:
    """A run folder's best weights, for one sentence at a time."""

    settings: Settings
    source: Vocabulary
    target: Vocabulary
    weights: dict[str, Float]  # matrices as torch stores them: they multiply from the left

    def attention(self, sentence: str, *, cut: bool = False) -> SentenceAttention:
        """The same as :meth:`regard.translator.models.run.Run.attention`."""
        longest = self.settings.data.longest
        (ids,), shortened = encode_sources([sentence], self.source, longest=longest, cut=cut)
        read = self._encode(ids)
        written, value = [SOS], 0.0
        for place in range(longest + 1):
            states, weights = self._decode(written, read)
            log_p = self._log_p(states[-1], last=place == longest)
            written.append(int(log_p.argmax()))
            value += float(log_p.max())
            if written[-1] == EOS:
                break
        words = written[1:-1]
        return SentenceAttention(
            source=sentence,
            target=self.target.decode(words),
            log_probability=value,
            cut=bool(shortened),
            columns=[self.source.words[i] for i in ids],
            rows=[self.target.words[i] for i in written],
            weights=np.pad(weights, ((0, 0), (0, 0), (1, 0), (0, 0))).astype(np.float32),  # <sos> is given, not said
        )

    def _encode(self, ids: Sequence[int]) -> Float:
        """What the encoder makes of the source: a row for each token."""
        states = self._embed("encoder", ids)
        for number in range(self.settings.model.layers):
            block = f"encoder.blocks.{number}"
            rows = self._layer_norm(f"{block}.before_attention", states)
            states = states + self._attention(f"{block}.attention", rows, rows).output
            states = states + self._feed_forward(block, states)
        return self._layer_norm("encoder.norm", states)

    def _decode(self, ids: Sequence[int], read: Float) -> tuple[Float, Float]:
        """What the decoder makes of the tokens so far, and what they read of the source: layers x heads x m x n."""
        states, weights = self._embed("decoder", ids), []
        past = np.tri(len(ids), dtype=bool)
        for number in range(self.settings.model.decoder_layers):
            block = f"decoder.blocks.{number}"
            rows = self._layer_norm(f"{block}.before_own", states)
            states = states + self._attention(f"{block}.own_attention", rows, rows, allowed=past).output
            rows = self._layer_norm(f"{block}.before_source", states)
            heads = self._attention(f"{block}.source_attention", rows, read)
            weights.append(heads.heads.weights)
            states = states + heads.output
            states = states + self._feed_forward(block, states)
        return self._layer_norm("decoder.norm", states), np.stack(weights)

    def _log_p(self, state: Float, *, last: bool) -> Float:
        """Of every word, minus infinity for what may not be written; at the ``last`` place that is all but <eos>."""
        scores = self.weights["output.linear.weight"] @ state + self.weights["output.linear.bias"]
        log_p = scores - log_sum_exp(scores)
        forbidden = np.ones(len(log_p), bool) if last else np.isin(np.arange(len(log_p)), (PAD, SOS, UNK))
        forbidden[EOS] = False
        return np.where(forbidden, -np.inf, log_p)

    def _embed(self, stack: str, ids: Sequence[int]) -> Float:
        width = self.settings.model.width
        rows = self.weights[f"{stack}.embedding.tokens.weight"][list(ids)]
        return math.sqrt(width) * rows + sinusoidal(len(ids), width)

    def _layer_norm(self, name: str, states: Float) -> Float:
        centred = states - states.mean(axis=-1, keepdims=True)
        scaled = centred / np.sqrt(np.mean(centred**2, axis=-1, keepdims=True) + NORM)
        return np.asarray(scaled * self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"])

    def _attention(self, name: str, asking: Float, read: Float, *, allowed: np.ndarray | None = None) -> Heads:
        parts = [f"{name}.{part}" for part in ("queries", "keys", "values", "mix")]
        matrices = [self.weights[f"{part}.weight"].T for part in parts]
        biases = tuple(self.weights[f"{part}.bias"] for part in parts)
        heads = self.settings.model.heads
        return multi_head(asking, read, read, *matrices, heads=heads, biases=biases, allowed=allowed)  # type: ignore[arg-type]

    def _feed_forward(self, block: str, states: Float) -> Float:
        first, second = (f"{block}.feed_forward.{number}" for number in (0, 2))
        rows = self._layer_norm(f"{block}.before_feed_forward", states)
        of = self.weights
        return feed_forward(
            rows, of[f"{first}.weight"].T, of[f"{first}.bias"], of[f"{second}.weight"].T, of[f"{second}.bias"]
        )


def load_numpy_run(folder: Path) -> NumpyRun:
    """Open a run folder of the plain kind."""
    settings = load_settings(folder / SETTINGS)
    embedding = settings.embedding
    learned = embedding.source == embedding.target == "learned" and embedding.positions == "sinusoidal"
    if settings.model.kind != "encoder-decoder" or settings.model.tied or not learned:
        raise InputError(f"The run in {folder} is of a kind that needs torch; open it with regard.translator.load_run.")
    source, target = read_vocabularies(folder)
    return NumpyRun(settings=settings, source=source, target=target, weights=_weights(folder / BEST))


def _weights(path: Path) -> dict[str, Float]:
    """The tensors of a checkpoint whose digest holds, in float64. Its format: a length, where what is, the numbers."""
    data, _ = read_checkpoint(path)
    start = 8 + int.from_bytes(data[:8], "little")
    weights = {}
    for name, entry in parse_json(data[8:start]).items():
        if name.startswith("model."):
            first, last = entry["data_offsets"]
            numbers = np.frombuffer(data, "<f4", (last - first) // 4, start + first)
            weights[name.removeprefix("model.")] = numbers.reshape(entry["shape"]).astype(np.float64)
    return weights
