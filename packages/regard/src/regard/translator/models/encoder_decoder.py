"""The encoder-decoder: reads the source as a whole, then writes the target token by token.

    m_1, ..., m_n = encoder(s_1, ..., s_n)
    z_t = decoder(w_0, ..., w_t; m)              w_0 = <sos>; z_t knows the tokens up to t, and the source
    p(w_(t+1) = w) = softmax(E z_t + b)_w        tied: E is the matrix of the source and target embedding too

In training all places are said at once, each given the true tokens before it. <sos> is given, so it costs nothing:
the loss of its place is 0. Writing a sentence is a search (:mod:`regard.translator.decoding.beam`), one step for each
token, with the keys and values of the past remembered.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from regard.translator.data.batches import Batch, table
from regard.translator.data.vocabulary import EOS, PAD, SOS
from regard.translator.decoding.beam import beam_search, greedy
from regard.translator.decoding.translation import TranslationModel
from regard.translator.models.encoder import (
    Memory,
    Output,
    VectorOutput,
    Words,
    build_dropout,
    build_output,
    build_tokens,
)
from regard.translator.models.layers import (
    BlockMemory,
    Decoder,
    Encoder,
    build_decoder_stack,
    build_encoder_stack,
    draw_weights,
)
from regard.translator.runs.settings import Settings


class EncoderDecoder(TranslationModel):
    """Encoder, decoder and output layer, handed in; ``places`` is the longest sentence with its markers.

    :meth:`forward` gives a score to every word at every place; :meth:`states` is what comes before the scores, at the
    real places only, which is all that training pays for.
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
        wanted = _target_mask(batch).flatten().nonzero().flatten()
        return self.decoder(batch.target[:, :-1], *self.encoder(batch.source), wanted=wanted)  # type: ignore[no-any-return]

    def loss(self, batch: Batch, *, smoothing: float = 0.0) -> Tensor:
        """Mean cross-entropy of the batch's target tokens after <sos>."""
        return self.output.loss(self.states(batch), batch.target[:, 1:][_target_mask(batch)], smoothing=smoothing)

    def agreeing_loss(self, batch: Batch, *, agreement: float, smoothing: float = 0.0) -> Tensor:
        states, labels = torch.stack(self.states(batch.twice()).chunk(2)), batch.target[:, 1:][_target_mask(batch)]
        return self.output.agreeing_loss(states, labels, agreement=agreement, smoothing=smoothing)

    def scores(self, batch: Batch) -> Tensor:
        return self(batch.source, batch.target[:, :-1])  # type: ignore[no-any-return]

    def token_losses(self, batch: Batch) -> Tensor:
        """-log p of each target token of the batch, sentence after sentence; 0 for <sos>; never smoothed."""
        said = _target_mask(batch)
        scores = self.output(self.states(batch))
        losses = scores.new_zeros(batch.target.shape)
        losses[:, 1:][said] = F.cross_entropy(scores, batch.target[:, 1:][said], reduction="none")
        return losses.flatten().index_select(0, batch.wanted)  # type: ignore[no-any-return]

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

    def keep(self, sentences: Tensor | None, hypotheses: Tensor) -> None:
        """Go on with these sentences (None: all) and these hypotheses, counted through all sentences."""
        self.memory = [
            BlockMemory(
                past=None if past is None else _select_rows(past, hypotheses),
                source=source if sentences is None else _select_rows(source, sentences),
            )
            for past, source in self.memory
        ]
        if sentences is not None and self.allowed is not None:
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


def _target_mask(batch: Batch) -> Tensor:
    """True where a token is to be said (batch, places - 1): every real one but <sos>."""
    return batch.target[:, 1:] != PAD


def _select_rows(memory: Memory, rows: Tensor) -> Memory:
    return Memory(*(part.index_select(0, rows) for part in memory))
