"""The encoder-decoder: reads the source as a whole, then writes the target token by token.

    m_1, ..., m_n = encoder(s_1, ..., s_n)
    z_t = decoder(w_0, ..., w_t; m)              w_0 = <sos>; z_t knows the tokens up to t, and the source
    p(w_(t+1) = w) = softmax(E z_t + b)_w        tied: E is the matrix of the source and target embedding too

In training all places are said at once, each given the true tokens before it. <sos> is given, so it costs nothing:
the loss of its place is 0. Writing a sentence is a search, one step for each token, with the keys and values of the
past remembered. Greedy takes the best token at every place. A beam keeps the ``beam`` best beginnings of every sentence
and gives

    argmax over sentences found of  log p(sentence) / (tokens with <eos>) ** power

since log-probabilities alone favour short sentences. Padding, <sos> and <unk> are never written, and a sentence has at
most ``longest`` tokens: where it has so many, <eos> follows. A sentence that has ended leaves the batch. Greedy is
exact only for the first token; a beam is exact when it is as wide as there are beginnings. The tests compare both with
trying every sentence.

Both stacks are of layers made from the parts of the one-layer model:

    encoder block   x <- x + attention(norm x);  x <- x + feed-forward(norm x)
    decoder block   x <- x + attention(norm x, past and present only);  x <- x + attention(norm x, the source);
                    x <- x + feed-forward(norm x)

The norm comes before each part (pre-norm), so that what enters a stack also leaves it, with something added by every
block; a last norm follows the stack. That trains without the care that the 2017 order needs in deeper stacks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from regard.translator.data.batches import Batch, table
from regard.translator.data.vocabulary import EOS, PAD, SOS
from regard.translator.models.embeddings import Embedding, TokenEmbedding, positions_module
from regard.translator.models.encoder import (
    Attention,
    Dropout,
    FeedForward,
    Memory,
    Output,
    StateTranslator,
    VectorOutput,
    Words,
    build_attention,
    build_dropout,
    build_output,
    build_tokens,
    source_mask,
)
from regard.translator.models.translation import Written
from regard.translator.runs.settings import Settings


class EncoderBlock(nn.Module):
    """Every place reads every place of its sentence, then thinks for itself."""

    def __init__(self, attention: Attention, feed_forward: FeedForward, *, width: int, dropout: Dropout) -> None:
        super().__init__()
        self.attention, self.feed_forward, self.dropout = attention, feed_forward, dropout
        self.before_attention, self.before_feed_forward = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, states: Tensor, allowed: Tensor | None = None) -> Tensor:
        """New states (batch, length, width); ``allowed`` is True where a place may be read, None = everywhere."""
        words = self.before_attention(states)
        states = states + self.dropout(self.attention(words, words, allowed))
        return states + self.dropout(self.feed_forward(self.before_feed_forward(states)))  # type: ignore[no-any-return]


class Encoder(nn.Module):
    """Embedding, blocks, a last norm."""

    def __init__(self, embedding: Embedding, blocks: Sequence[EncoderBlock], *, width: int, dropout: Dropout) -> None:
        super().__init__()
        self.embedding, self.norm, self.dropout = embedding, nn.LayerNorm(width), dropout
        self.blocks: Sequence[EncoderBlock] = nn.ModuleList(blocks)  # type: ignore[assignment]

    def forward(self, source: Tensor) -> tuple[Tensor, Tensor | None]:
        """States (batch, length, width) of source ids (batch, length), and which of them may be read."""
        allowed = source_mask(source)
        states = self.dropout(self.embedding(source))
        for block in self.blocks:
            states = block(states, allowed)
        return self.norm(states), allowed


class BlockMemory(NamedTuple):
    """What a decoder block need not work out again: its own past (one row for each hypothesis), and the source."""

    past: Memory | None
    source: Memory


class DecoderBlock(nn.Module):
    """Every place reads itself and the places before it, then the source, then thinks for itself.

    :meth:`forward` takes all places of known targets at once; :meth:`step` takes the next place of targets that are
    being written and gives the same states, with a memory instead of the places before.
    """

    def __init__(
        self, own: Attention, source: Attention, feed_forward: FeedForward, *, width: int, dropout: Dropout
    ) -> None:
        super().__init__()
        self.own_attention, self.source_attention, self.feed_forward = own, source, feed_forward
        self.before_own, self.before_source, self.before_feed_forward = (nn.LayerNorm(width) for _ in range(3))
        self.dropout = dropout

    def forward(
        self, states: Tensor, source: Tensor, allowed: Tensor | None = None, *, wanted: Tensor | None = None
    ) -> Tensor:
        """New states (batch, places, width), reading source states (batch, length, width) where ``allowed``.

        Places that are not ``wanted`` (flat indices) skip the feed-forward part; no wanted place reads them.
        """
        states = self._after_own(states)
        states = states + self.dropout(self.source_attention(self.before_source(states), source, allowed))
        if wanted is None:
            return self._after_feed_forward(states)
        flat = states.flatten(0, 1)
        # the unwanted keep their old states: they are padding, behind every wanted place, and nobody reads them
        return flat.index_copy(0, wanted, self._after_feed_forward(flat.index_select(0, wanted))).view_as(states)

    def step(
        self, states: Tensor, memory: BlockMemory, place: int, allowed: Tensor | None = None
    ) -> tuple[Tensor, BlockMemory]:
        """New states (batch, hypotheses, width) of the hypotheses' tokens at ``place``, and the memory with them in it.

        All hypotheses of a sentence read the same memory of its source.
        """
        # hypotheses differ in their past, so each is a row of its own there; the source they share
        own, words = self.own_attention, self.before_own(states).flatten(0, 1)[:, None]
        past = own.remember(words, first=place)
        if memory.past is not None:
            past = Memory(*(torch.cat(both, dim=2) for both in zip(memory.past, past, strict=True)))
        states = states + own.mix(own.read(own.ask(words, first=place), past)).view_as(states)
        queries = self.source_attention.ask(self.before_source(states))
        states = states + self.source_attention.mix(self.source_attention.read(queries, memory.source, allowed))
        return self._after_feed_forward(states), BlockMemory(past, memory.source)

    def source_weights(self, states: Tensor, source: Tensor, allowed: Tensor | None = None) -> Tensor:
        """What each place reads of the source, given the states that enter: (batch, heads, places, length)."""
        return self.source_attention.weights(self.before_source(self._after_own(states)), source, allowed)

    def _after_own(self, states: Tensor) -> Tensor:
        own, words = self.own_attention, self.before_own(states)
        read = own.read(own.ask(words), own.remember(words), causal=True)
        return states + self.dropout(own.mix(read))  # type: ignore[no-any-return]

    def _after_feed_forward(self, states: Tensor) -> Tensor:
        return states + self.dropout(self.feed_forward(self.before_feed_forward(states)))  # type: ignore[no-any-return]


class Decoder(nn.Module):
    """Embedding, blocks, a last norm; all places at once, or one after the other with a memory."""

    def __init__(self, embedding: Embedding, blocks: Sequence[DecoderBlock], *, width: int, dropout: Dropout) -> None:
        super().__init__()
        self.embedding, self.norm, self.dropout = embedding, nn.LayerNorm(width), dropout
        self.blocks: Sequence[DecoderBlock] = nn.ModuleList(blocks)  # type: ignore[assignment]

    def forward(
        self, target: Tensor, source: Tensor, allowed: Tensor | None = None, *, wanted: Tensor | None = None
    ) -> Tensor:
        """States (batch, places, width) that know the target ids (batch, places) up to their own place.

        Given the flat indices of the ``wanted`` places, which have only wanted ones before them: their states alone.
        """
        states = self.dropout(self.embedding(target))
        for block in self.blocks:
            states = block(states, source, allowed, wanted=wanted)
        if wanted is not None:
            states = states.flatten(0, 1).index_select(0, wanted)
        return self.norm(states)  # type: ignore[no-any-return]

    def begin(self, source: Tensor) -> list[BlockMemory]:
        """The memory before the first place, from the source states."""
        return [BlockMemory(None, block.source_attention.remember(source)) for block in self.blocks]

    def step(
        self, tokens: Tensor, memory: list[BlockMemory], place: int, allowed: Tensor | None = None
    ) -> tuple[Tensor, list[BlockMemory]]:
        """States (batch, hypotheses, width) of the ids (batch, hypotheses) at ``place``, and the memory with them."""
        states = self.embedding(tokens.flatten()[:, None], place).view(*tokens.shape, -1)
        grown = []
        for block, old in zip(self.blocks, memory, strict=True):
            states, new = block.step(states, old, place, allowed)
            grown.append(new)
        return self.norm(states), grown

    def source_weights(self, target: Tensor, source: Tensor, allowed: Tensor | None = None) -> Tensor:
        """What each place reads of the source in each block: (batch, layers, heads, places, length)."""
        states, weights = self.dropout(self.embedding(target)), []
        for block in self.blocks:
            weights.append(block.source_weights(states, source, allowed))
            states = block(states, source, allowed)
        return torch.stack(weights, dim=1)


def build_embedding(settings: Settings, tokens: TokenEmbedding) -> Embedding:
    """Tokens and the settings' positions. Learned rows have length 1 for the output's sake; here each number has it."""
    width, places = settings.model.width, settings.data.longest + 2
    # pretrained vectors come in a size of their own
    scale = math.sqrt(width) if settings.embedding.source == "learned" else 1.0
    return Embedding(tokens, positions_module(settings.embedding.positions, places, width), scale=scale)


def build_encoder_stack(settings: Settings, tokens: TokenEmbedding, dropout: Dropout) -> Encoder:
    """An encoder of ``model.layers`` blocks."""
    size = settings.model
    blocks = [
        EncoderBlock(
            build_attention(settings), FeedForward(size.width, size.feed_forward), width=size.width, dropout=dropout
        )
        for _ in range(size.layers)
    ]
    return Encoder(build_embedding(settings, tokens), blocks, width=size.width, dropout=dropout)


def build_decoder_stack(settings: Settings, tokens: TokenEmbedding, dropout: Dropout) -> Decoder:
    """A decoder of ``model.decoder_layers`` blocks; rotary positions turn its own past, not the source."""
    size = settings.model
    blocks = [
        DecoderBlock(
            build_attention(settings),
            Attention(size.width, heads=size.heads, head_width=size.head_width),
            FeedForward(size.width, size.feed_forward),
            width=size.width,
            dropout=dropout,
        )
        for _ in range(size.decoder_layers)
    ]
    return Decoder(build_embedding(settings, tokens), blocks, width=size.width, dropout=dropout)


def draw_weights(model: nn.Module) -> None:
    """Matrices as in the 2017 paper (Xavier: as loud going out as coming in), biases 0; embeddings stay."""
    for module in model.modules():
        if isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
            if module.bias is not None:
                nn.init.zeros_(module.bias)


class EncoderDecoder(StateTranslator):
    """Encoder, decoder and output layer, handed in; ``places`` is the longest sentence with its markers.

    :meth:`forward` gives a score to every word at every place.
    """

    says_sos = False  # it is given, not said

    def __init__(self, encoder: Encoder, decoder: Decoder, output: Output, *, places: int) -> None:
        super().__init__()
        self.encoder, self.decoder, self.output, self.places = encoder, decoder, output, places

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Scores (batch, places, words) of the token after each target id, which knows the ids up to there."""
        return self.output(self.decoder(target, *self.encoder(source)))  # type: ignore[no-any-return]

    def states(self, batch: Batch) -> Tensor:
        """The decoder's output where a real token is to be said, one row each, sentence after sentence."""
        # the decoder gets the target without its last place and says it without its first
        wanted = (batch.target[:, 1:] != PAD).flatten().nonzero().flatten()
        return self.decoder(batch.target[:, :-1], *self.encoder(batch.source), wanted=wanted)  # type: ignore[no-any-return]

    def scores(self, batch: Batch) -> Tensor:
        return self(batch.source, batch.target[:, :-1])  # type: ignore[no-any-return]

    def translate(self, source: Tensor, *, beam: int = 1) -> list[tuple[list[int], float]]:
        """Target ids without markers, and their log-probability with <eos>, for every row of ``source``."""
        writing = PartialTranslations(self, source)
        if beam == 1:
            return greedy(writing, longest=self.places - 2)
        return beam_search(writing, beam=beam, longest=self.places - 2)

    def attention(self, source: Tensor, target: Tensor | None = None) -> Tensor:
        """What was read of the source when each target token was said: (batch, layers, heads, places, length).

        ``target`` has its markers and <pad> past each end; None = the model's own translation. The row of <sos>, which
        is given and not said, is 0.
        """
        if target is None:
            target = table([[SOS, *ids, EOS] for ids, _ in self.translate(source)]).to(source.device)
        read = self.decoder.source_weights(target[:, :-1], *self.encoder(source))
        return F.pad(read, (0, 0, 1, 0))


class PartialTranslations:
    """Translations of a batch being written: one row for each sentence, several hypotheses in it, all equally long."""

    def __init__(self, model: EncoderDecoder, source: Tensor) -> None:
        self.decoder, self.output = model.decoder, model.output
        states, self.allowed = model.encoder(source)
        self.memory, self.place = model.decoder.begin(states), 0
        self.sentences, self.device = len(source), source.device

    def next(self, tokens: Tensor) -> Tensor:
        """Scores (sentences, hypotheses, words) of what may follow the newest tokens (sentences, hypotheses)."""
        states, self.memory = self.decoder.step(tokens, self.memory, self.place, self.allowed)
        self.place += 1
        return self.output(states)  # type: ignore[no-any-return]

    def keep(self, sentences: Tensor, hypotheses: Tensor) -> None:
        """Go on with these sentences and these hypotheses, counted through all sentences."""
        self.memory = [
            BlockMemory(None if past is None else _select_rows(past, hypotheses), _select_rows(source, sentences))
            for past, source in self.memory
        ]
        if self.allowed is not None:
            self.allowed = self.allowed.index_select(0, sentences)


def build_encoder_decoder(settings: Settings, source: Words, target: Words) -> EncoderDecoder:
    """The encoder-decoder of the settings; called with the random numbers already seeded."""
    dropout = build_dropout(settings)
    read = build_tokens(settings, source)
    written = read if settings.model.tied else build_tokens(settings, target)
    encoder = build_encoder_stack(settings, read, dropout)
    decoder = build_decoder_stack(settings, written, dropout)
    for stack in (encoder, decoder):
        draw_weights(stack)
    output = VectorOutput(read) if settings.model.tied else build_output(settings, target)
    return EncoderDecoder(encoder, decoder, output, places=settings.data.longest + 2)


def _select_rows(memory: Memory, rows: Tensor) -> Memory:
    return Memory(*(part.index_select(0, rows) for part in memory))


# Of the length; 0 = the most probable sentence found, which is often too short. By 1, too, models trained with smoothed
# labels write 3 to 9 % too little: on Multi30k's validation sentences 1.4 was 0.3 BLEU better, 1.8 less, 2.2 worse.
POWER = 1.4


def greedy(writing: PartialTranslations, *, longest: int) -> Written:
    """The best token at every place, up to <eos>."""
    count, device = writing.sentences, writing.device
    written = torch.full((count, longest + 1), EOS, device=device)
    values = torch.zeros(count, device=device)
    alive, tokens = torch.arange(count, device=device), torch.full((count, 1), SOS, device=device)
    for place in range(longest + 1):
        value, tokens = _log_p(writing.next(tokens), last=place == longest).max(dim=2)
        values[alive] += value.squeeze(1)
        written[alive, place] = tokens.squeeze(1)
        going = (tokens.squeeze(1) != EOS).nonzero().flatten()
        if not len(going):
            break
        if len(going) < len(alive):
            writing.keep(going, going)
            alive, tokens = alive[going], tokens[going]
    return [(ids[: ids.index(EOS)], value) for ids, value in zip(written.tolist(), values.tolist(), strict=True)]


def beam_search(writing: PartialTranslations, *, beam: int, longest: int, power: float = POWER) -> Written:
    """The best finished sentence of a beam; a sentence is done when ``beam`` hypotheses of it are."""
    count, device = writing.sentences, writing.device
    best = [_BestHypothesis() for _ in range(count)]
    alive = list(range(count))
    tokens = torch.full((count, beam), SOS, device=device)
    written = torch.empty(count, beam, 0, dtype=torch.long, device=device)
    values = torch.full((count, beam), -torch.inf, device=device)
    values[:, 0] = 0  # all hypotheses are equal at first: one is enough
    for place in range(longest + 1):
        log_p = _log_p(writing.next(tokens), last=place == longest)
        # twice as many as are kept: each hypothesis may end in one way only, so at least ``beam`` of them go on
        values, parents, tokens = _candidates(values, log_p, 2 * beam)
        # an end counts only among the ``beam`` best: one that is worse than all beginnings kept is no finding
        _collect(best, alive, values[:, :beam], tokens[:, :beam], parents, written, power)
        values, parents, tokens = _unfinished_candidates(values, parents, tokens, beam)
        going = [i for i, row in enumerate(alive) if best[row].count < beam and bool(values[i, 0] > -torch.inf)]
        if not going:
            break
        rows = torch.tensor(going).to(device)
        alive = [alive[i] for i in going]
        values, parents, tokens, written = (t.index_select(0, rows) for t in (values, parents, tokens, written))
        # hypothesis h of sentence s is row s * beam + h of the memory
        writing.keep(rows, (rows[:, None] * beam + parents).flatten())
        written = torch.cat([written.gather(1, parents[..., None].expand(-1, -1, place)), tokens[..., None]], dim=2)
    return [(hypothesis.ids, hypothesis.value) for hypothesis in best]


class _BestHypothesis:
    """The best finished hypothesis of a sentence, and how many there were."""

    def __init__(self) -> None:
        self.count, self.score, self.value, self.ids = 0, float("-inf"), float("-inf"), list[int]()

    def add(self, ids: list[int], value: float, power: float) -> None:
        self.count += 1
        score = value / (len(ids) + 1) ** power
        if score > self.score:
            self.score, self.value, self.ids = score, value, ids


def _log_p(scores: Tensor, *, last: bool) -> Tensor:
    """Log-probabilities, minus infinity for what may not be written; at the ``last`` place that is all but <eos>."""
    log_p = torch.log_softmax(scores, dim=-1)
    if last:
        # its probability stays as it was: at the last place <eos> is forced, not certain
        end = log_p[..., EOS].clone()
        log_p.fill_(-torch.inf)
        log_p[..., EOS] = end
    log_p[..., :EOS] = -torch.inf  # the other markers come before <eos>
    return log_p


def _candidates(values: Tensor, log_p: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """The ``count`` best continuations of each sentence, best first: value, which hypothesis, which token."""
    words = log_p.shape[2]
    values, places = (values[..., None] + log_p).flatten(1).topk(count, dim=1)
    return values, places // words, places % words


def _collect(
    best: list[_BestHypothesis],
    alive: list[int],
    values: Tensor,
    tokens: Tensor,
    parents: Tensor,
    written: Tensor,
    power: float,
) -> None:
    """Note the candidates that end here."""
    ended = (tokens == EOS) & (values > -torch.inf)
    for row, rank in ended.nonzero().tolist():
        ids = written[row, parents[row, rank]].tolist()
        best[alive[row]].add(ids, float(values[row, rank]), power)


def _unfinished_candidates(values: Tensor, parents: Tensor, tokens: Tensor, beam: int) -> tuple[Tensor, Tensor, Tensor]:
    """The ``beam`` best candidates that do not end here, best first."""
    values = values.masked_fill(tokens == EOS, -torch.inf)
    values, order = values.topk(beam, dim=1)
    return values, parents.gather(1, order), tokens.gather(1, order)
