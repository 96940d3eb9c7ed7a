"""The translator, top-down: a one-layer Transformer encoder that says a target token at every place.

    x_t = E[s_t] + P[t]                       places t = 0, 1, ...; s_t is the source token, <pad> past its end
    h_t = softmax(q_t K^T / sqrt(d)) V        several heads; keys and values are the source's own places
    y_t = norm(x_t + W_O h_t)
    z_t = norm(y_t + W_2 ReLU(W_1 y_t + b_1) + b_2)
    p(target_t = w) = softmax(W z_t + b)_w

Source and target both begin with <sos> and end with <eos>. All places are said at once and independently, so a
target longer than its source is read off blank places that know only where they are: that is the coursework's
model, and its limit. Padding is never read, so what a sentence gets does not depend on the batch it is in.

A variant is a class here, not a flag: see :class:`PaddingReader`, :class:`RotaryAttention`. Models with more layers
are made of the same parts, in :mod:`regard.translator.models.encoder_decoder`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from regard.errors import InputError
from regard.translator.data.batches import Batch
from regard.translator.data.vocabulary import PAD, SOS
from regard.translator.models.embeddings import (
    Embedding,
    FrozenEmbedding,
    TokenEmbedding,
    Vectors,
    positions_module,
    rotate_places,
)
from regard.translator.models.losses import fused_agreement, fused_cross_entropy
from regard.translator.models.translation import TranslationModel, best_tokens
from regard.translator.runs.settings import Settings


class StateTranslator(TranslationModel):
    """A model of ours: states, then an ``output`` layer, whose losses never hold all scores."""

    output: Output

    def states(self, batch: Batch) -> Tensor:
        """What comes before the scores where a token is to be said, one row each: all that training pays for."""
        raise NotImplementedError

    def labels(self, batch: Batch) -> Tensor:
        """The tokens to be said there, sentence after sentence."""
        return batch.labels if self.says_sos else batch.target[:, 1:][batch.target[:, 1:] != PAD]

    def loss(self, batch: Batch, *, smoothing: float = 0.0) -> Tensor:
        return self.output.loss(self.states(batch), self.labels(batch), smoothing=smoothing)

    def agreeing_loss(self, batch: Batch, *, agreement: float, smoothing: float = 0.0) -> Tensor:
        states = torch.stack(self.states(batch.twice()).chunk(2))
        return self.output.agreeing_loss(states, self.labels(batch), agreement=agreement, smoothing=smoothing)

    def token_losses(self, batch: Batch) -> Tensor:
        losses = F.cross_entropy(self.output(self.states(batch)), self.labels(batch), reduction="none")
        if self.says_sos:
            return losses
        # each sentence begins with a <sos>, which is given
        return losses.new_zeros(len(batch.labels)).masked_scatter(batch.labels != SOS, losses)


class EncoderTranslator(StateTranslator):
    """One encoder layer between an embedding and an output layer, both handed in.

    ``places`` is the longest sentence with its markers. :meth:`forward` gives a score to every word at every place.
    """

    def __init__(self, embedding: nn.Module, layer: EncoderLayer, output: Output, *, places: int) -> None:
        super().__init__()
        self.embedding, self.layer, self.output, self.places = embedding, layer, output, places

    def forward(self, source: Tensor, places: int | None = None) -> Tensor:
        """Scores (batch, places, words) from source ids (batch, length), <pad> past each end."""
        count = self.places if places is None else places
        return self.output(self.layer(*self._slots_and_words(source, count)))  # type: ignore[no-any-return]

    def states(self, batch: Batch) -> Tensor:
        """The layer's output at the batch's real target places, one row each, sentence after sentence."""
        slots, words, allowed = self._slots_and_words(batch.source, batch.target.shape[1])
        return self.layer(slots, words, allowed, wanted=batch.wanted)  # type: ignore[no-any-return]

    def scores(self, batch: Batch) -> Tensor:
        return self(batch.source, batch.target.shape[1])  # type: ignore[no-any-return]

    def translate(self, source: Tensor, *, beam: int = 1) -> list[tuple[list[int], float]]:
        """Target ids without markers, and their log-probability, for every row; nothing to search, so no beam."""
        return best_tokens(self(source))

    def attention(self, source: Tensor, places: int | None = None) -> Tensor:
        """Attention weights (batch, layers, heads, places, source length), for pictures and for reports."""
        slots, words, allowed = self._slots_and_words(source, self.places if places is None else places)
        # one layer: the axis that deeper models have
        return self.layer.attention.weights(slots, words, allowed)[:, None]

    def _slots_and_words(self, source: Tensor, places: int) -> tuple[Tensor, Tensor, Tensor | None]:
        """What asks (a vector for each target place), what is read (one for each source place), who may read what."""
        length = source.shape[1]
        # once for both: a slot and the word it stands on share their vector, and what dropout left of it
        vectors = self.layer.dropout(self.embedding(pad_to_length(source, max(length, places))))
        return vectors[:, :places], vectors[:, :length], source_mask(source)


class PaddingReader(EncoderTranslator):
    """As the coursework has it: every sentence is padded to the longest and the padding is read like words.

    The padding is the same for all sentences of one length, but what a sentence gets depends on ``places``.
    """

    def _slots_and_words(self, source: Tensor, places: int) -> tuple[Tensor, Tensor, Tensor | None]:
        vectors = self.layer.dropout(self.embedding(pad_to_length(source, self.places)))
        return vectors[:, :places], vectors, None


class EncoderLayer(nn.Module):
    """Attention, then feed-forward, each added to what came in and normalised (the order of the 2017 paper)."""

    def __init__(self, attention: Attention, feed_forward: FeedForward, *, width: int, dropout: Dropout) -> None:
        super().__init__()
        self.attention, self.feed_forward, self.dropout = attention, feed_forward, dropout
        self.after_attention, self.after_feed_forward = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(
        self, slots: Tensor, words: Tensor, allowed: Tensor | None = None, *, wanted: Tensor | None = None
    ) -> Tensor:
        """New states of ``slots``, which read ``words``; of the ``wanted`` ones only (their flat indices), if given.

        Attention is a small part of the work: everything after it runs on the wanted places alone.
        """
        heads = self.attention.heads(slots, words, allowed)
        if wanted is not None:
            slots, heads = (t.flatten(0, 1).index_select(0, wanted) for t in (slots, heads))
        states = self.after_attention(slots + self.dropout(self.attention.mix(heads)))
        return self.after_feed_forward(states + self.dropout(self.feed_forward(states)))  # type: ignore[no-any-return]


class Attention(nn.Module):
    """softmax(Q K^T / sqrt(d)) V in several heads; equal to :func:`regard.attention.attend` up to float32."""

    def __init__(self, width: int, *, heads: int, head_width: int) -> None:
        super().__init__()
        self.count, self.head_width = heads, head_width
        self.queries, self.keys, self.values = (nn.Linear(width, heads * head_width) for _ in range(3))
        self.mix = nn.Linear(heads * head_width, width)

    def forward(self, slots: Tensor, words: Tensor, allowed: Tensor | None = None) -> Tensor:
        """(batch, places, width) from slots that read words; ``allowed`` is True where a slot may read."""
        return self.mix(self.heads(slots, words, allowed))  # type: ignore[no-any-return]

    def heads(self, slots: Tensor, words: Tensor, allowed: Tensor | None = None) -> Tensor:
        """The heads' outputs side by side, not mixed yet."""
        return self.read(self.ask(slots), self.remember(words), allowed)

    def weights(self, slots: Tensor, words: Tensor, allowed: Tensor | None = None) -> Tensor:
        """What the softmax gave: (batch, heads, places, source length)."""
        q, (k, _) = self.ask(slots), self.remember(words)
        scores = q @ k.transpose(2, 3) / math.sqrt(self.head_width)
        return torch.softmax(scores if allowed is None else scores.masked_fill(~allowed, -torch.inf), dim=-1)

    def ask(self, slots: Tensor, *, first: int = 0) -> Tensor:
        """The queries (batch, heads, places, head width) of slots whose first stands at place ``first``."""
        return self._split(self.queries(slots))

    def remember(self, words: Tensor, *, first: int = 0) -> Memory:
        """The keys and values of words whose first stands at place ``first``."""
        return Memory(self._split(self.keys(words)), self._split(self.values(words)))

    def read(self, queries: Tensor, memory: Memory, allowed: Tensor | None = None, *, causal: bool = False) -> Tensor:
        """The heads' outputs side by side; ``causal``: place t reads places 0 to t."""
        mixed = F.scaled_dot_product_attention(queries, *memory, attn_mask=allowed, is_causal=causal)
        return mixed.transpose(1, 2).flatten(2)

    def _split(self, states: Tensor) -> Tensor:
        return states.view(*states.shape[:2], self.count, self.head_width).transpose(1, 2)


class Memory(NamedTuple):
    """What attention reads: (batch, heads, length, head width) each."""

    keys: Tensor
    values: Tensor


class RotaryAttention(Attention):
    """Queries and keys are turned by their place first, so that scores know how far apart two places are."""

    def ask(self, slots: Tensor, *, first: int = 0) -> Tensor:
        return rotate_places(super().ask(slots), first)

    def remember(self, words: Tensor, *, first: int = 0) -> Memory:
        keys, values = super().remember(words)
        return Memory(rotate_places(keys, first), values)


class FeedForward(nn.Sequential):
    """W_2 ReLU(W_1 x + b_1) + b_2."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__(nn.Linear(width, inner), nn.ReLU(), nn.Linear(inner, width))


class Output(nn.Module):
    """A score for every target word: W z + b."""

    def __init__(self, width: int, words: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, words)

    def forward(self, states: Tensor) -> Tensor:
        return F.linear(*self.factors(states))

    def loss(self, states: Tensor, labels: Tensor, *, smoothing: float = 0.0) -> Tensor:
        """Mean cross-entropy of the labels that are not <pad>, without ever holding all scores at once."""
        return fused_cross_entropy(*self.factors(states), labels, smoothing=smoothing)

    def agreeing_loss(self, states: Tensor, labels: Tensor, *, agreement: float, smoothing: float = 0.0) -> Tensor:
        """The loss of two passes' states (2, rows, width), and of how far apart they are, as :meth:`loss`."""
        return fused_agreement(*self.factors(states), labels, agreement=agreement, smoothing=smoothing)

    def factors(self, states: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """States, weight and bias whose product is the scores."""
        return states, self.linear.weight, self.linear.bias


class VectorOutput(Output):
    """A score for every target word through its word vector: (z A) . E[w] + b, E handed in."""

    def __init__(self, vectors: TokenEmbedding) -> None:
        nn.Module.__init__(self)
        self.vectors = vectors
        self.bias = nn.Parameter(torch.zeros(len(vectors.table())))

    def factors(self, states: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        if isinstance(self.vectors.projection, nn.Linear):
            # z . (W e) = (z W) . e: one small product instead of W times every word
            states = states @ self.vectors.projection.weight
        return states, self.vectors.table(), self.bias


class Dropout(nn.Module):
    """Zeroes a share of the states in training and stretches the others, so that the mean stays.

    A random byte decides about a state, so the share is rounded to 1/256: half the cost of random floats and a third of
    torch's own dropout. ``noise`` is seeded by the training loop before every step from the seed and the step, so that
    a resumed run drops the same states.
    """

    def __init__(self, share: float, noise: torch.Generator) -> None:
        super().__init__()
        self.share, self.noise = round(share * 256) / 256, noise

    def forward(self, states: Tensor) -> Tensor:
        if not self.training or not self.share:
            return states
        return states * (self._keep_mask(states).to(states.dtype) * (1 / (1 - self.share)))

    def _keep_mask(self, states: Tensor) -> Tensor:
        """True where a state stays: where its byte is not below the share of 256."""
        # eight bytes from each 64-bit number: drawing is what dropout costs
        eight = torch.empty(-(-states.numel() // 8), dtype=torch.int64, device=states.device)
        eight.random_(-(2**63), None, generator=self.noise)
        return eight.view(torch.uint8)[: states.numel()].view(states.shape) >= round(self.share * 256)


def source_mask(source: Tensor) -> Tensor | None:
    """True where a source id may be read (batch, 1, 1, length); None where nothing is padding: no mask is faster.

    >>> source_mask(torch.tensor([[2, 7, 3], [2, 3, 0]])).tolist()
    [[[[True, True, True]]], [[[True, True, False]]]]
    >>> source_mask(torch.tensor([[2, 7, 3]]))
    """
    real = source != PAD
    return None if bool(real.all()) else real[:, None, None, :]


def pad_to_length(source: Tensor, length: int) -> Tensor:
    """``source`` with <pad> up to ``length`` places."""
    return F.pad(source, (0, length - source.shape[1]), value=PAD)


def build_model(
    settings: Settings,
    source_words: int,
    target_words: int,
    *,
    source_vectors: Vectors | None = None,
    target_vectors: Vectors | None = None,
) -> TranslationModel:
    """The model that the settings describe, weights drawn from their seed; pretrained vectors are handed in."""
    # the caller's own random numbers go on as if nothing had been drawn
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.training.seed)
        words = Words(source_words, source_vectors), Words(target_words, target_vectors)
        if settings.model.kind == "encoder-decoder":  # made of the parts below, so it is imported here only
            from regard.translator.models.encoder_decoder import build_encoder_decoder

            return build_encoder_decoder(settings, *words)
        if settings.model.kind == "own":
            raise InputError("model.kind own is a model of yours: name it with --model FILE.py:NAME.")
        return build_encoder(settings, *words)


class Words(NamedTuple):
    """The words of one language: how many, and the vectors they start from, if any."""

    size: int
    vectors: Vectors | None


def build_encoder(settings: Settings, source: Words, target: Words) -> EncoderTranslator:
    """The coursework's model, or its variant that reads padding."""
    size, places = settings.model, settings.data.longest + 2
    variant = PaddingReader if size.kind == "reads-padding" else EncoderTranslator
    tokens = build_tokens(settings, source)
    start = settings.embedding.start
    embedding = Embedding(tokens, positions_module(settings.embedding.positions, places, size.width, start=start))
    layer = EncoderLayer(
        build_attention(settings),
        FeedForward(size.width, size.feed_forward),
        width=size.width,
        dropout=build_dropout(settings),
    )
    output = build_output(settings, target)
    return variant(embedding, layer, output, places=places)


def build_tokens(settings: Settings, words: Words) -> TokenEmbedding:
    """A vector for each word: learned, or started from the given ones and trained on or kept."""
    width = settings.model.width
    if words.vectors is not None:
        kind = FrozenEmbedding if settings.embedding.frozen else TokenEmbedding
        return kind(words.size, width, words.vectors)
    tokens = TokenEmbedding(words.size, width)
    if settings.embedding.start == "normal":
        tokens.weight.data[PAD] = torch.randn(width)  # torch's default knows no padding
    else:
        # Rows of length about 1. Standard normal ones (length 11) drown what attention adds, and learn far slower.
        tokens.weight.data.mul_(width**-0.5)
    return tokens


def build_attention(settings: Settings) -> Attention:
    """Attention among places, which turns by them if positions are rotary."""
    kind = RotaryAttention if settings.embedding.positions == "rotary" else Attention
    return kind(settings.model.width, heads=settings.model.heads, head_width=settings.model.head_width)


def build_dropout(settings: Settings) -> Dropout:
    """One for the whole model, so that one generator rules it."""
    return Dropout(settings.model.dropout, torch.Generator())


def build_output(settings: Settings, words: Words) -> Output:
    """The output layer, through word vectors where there are any."""
    if words.vectors is None:
        return Output(settings.model.width, words.size)
    return VectorOutput(build_tokens(settings, words))


def seed_dropout(model: nn.Module, seed: int, step: int, rank: int = 0) -> None:
    """Make the next step's dropout a function of the seed, the step and the process alone."""
    # torch's CPU generator looks at 32 bits of a seed only, so they are hashed together first.
    mixed = int(np.random.SeedSequence([seed, step, rank]).generate_state(1)[0])
    for module in model.modules():
        if isinstance(module, Dropout):
            module.noise.manual_seed(mixed)
            return  # all share one generator
    torch.manual_seed(mixed)  # somebody's own model draws from torch's
