"""A translator that says a sentence of any length at once: an encoder whose places are doubled, read by CTC.

    h_i = encoder(source)_i                         one state for each source place
    x_(2i+k) = h_i + W_k h_i + b_k,  k = 0, 1       each place becomes two slots
    z = more encoder blocks (x)
    p_t(word or blank) = softmax(W z_t + b)         at every slot t
    p(target) = sum over paths that collapse to it of prod over t of p_t(path_t)

The one-layer encoder must say word t of the target at place t, so a word too many early on makes all that follow wrong,
and a target longer than its source is read off places that know nothing. Here a slot may stay silent (blank) and a
place may say two words, and all ways of lining up source and target count (libovicky2018). Slots still choose
independently: there is no telling which of two good translations the other slots chose.

What remains impossible is a target that needs more slots than twice its source's places: its probability is 0. Such
pairs take no part in training, and :meth:`CTCTranslator.cannot_say` counts them.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from regard.translator.data.batches import Batch, EncodedPairs
from regard.translator.data.vocabulary import PAD
from regard.translator.decoding.translation import TranslationModel
from regard.translator.models.ctc_loss import Labels, ctc_losses, fused_ctc
from regard.translator.models.ctc_search import best_paths, prefix_beams, without_markers
from regard.translator.models.encoder import Output, VectorOutput, Words, build_dropout, build_output, build_tokens
from regard.translator.models.layers import (
    Encoder,
    EncoderBlock,
    build_encoder_blocks,
    build_encoder_stack,
    draw_weights,
)
from regard.translator.runs.settings import Settings

SLOTS = 2  # of a source place


class CTCTranslator(TranslationModel):
    """An encoder, a split of its places into slots, blocks among the slots, and an output layer, all handed in."""

    says_sos = False  # a path has no slot for it

    def __init__(self, encoder: Encoder, slots: Slots, output: Output) -> None:
        super().__init__()
        self.encoder, self.slots, self.output = encoder, slots, output

    def forward(self, source: Tensor) -> Tensor:
        """Scores (batch, slots, words) from source ids (batch, length), <pad> past each end; <pad> is the blank."""
        return self.output(self.slots(*self.encoder(source)))  # type: ignore[no-any-return]

    def loss(self, batch: Batch, *, smoothing: float = 0.0) -> Tensor:
        """-log p of the targets that fit, over the number of the batch's target tokens after <sos>."""
        states, weight, bias = self.output.factors(self.slots(*self.encoder(batch.source)))
        labels, count = Labels.of(batch.target), self._slot_counts(batch.source)
        # over all tokens, also of targets that do not fit: a batch's size does not depend on what the model can say
        return fused_ctc(states, weight, bias, labels, count, smoothing=smoothing) / self.token_count(batch)

    def token_losses(self, batch: Batch) -> Tensor:
        """-log p of each target, in equal shares for its words and its <eos>; <sos> is free.

        What a word alone costs is not defined, since the paths of a sentence share it out differently. Sums over whole
        sentences, and so perplexities, mean the same as any other model's. A target that cannot be said costs infinity.
        """
        log_p = torch.log_softmax(self(batch.source), dim=-1)
        losses = ctc_losses(log_p, Labels.of(batch.target), self._slot_counts(batch.source))
        lengths = (batch.target != PAD).sum(1)
        shares = (losses / (lengths - 1)).repeat_interleave(lengths)
        shares[lengths.cumsum(0) - lengths] = 0  # <sos>
        return shares

    def translate(self, source: Tensor, *, beam: int = 1) -> list[tuple[list[int], float]]:
        """Target ids without markers, and their log-probability: of the best path's sentence, or by prefix search."""
        log_p, count = without_markers(self(source)), self._slot_counts(source)
        return best_paths(log_p, count)[0] if beam == 1 else prefix_beams(log_p, count, beam=beam)

    def attention(self, source: Tensor) -> Tensor:
        """What the slots of the best path read: (batch, layers, heads, target places, source length).

        A word's row is its first slot's; <sos> and <eos> have the first and the last slot. The two slots of a source
        place are read together. Past a sentence's end rows are 0.
        """
        states, allowed = self.encoder(source)
        count = self._slot_counts(source)
        starts = best_paths(without_markers(self(source)), count)[1]
        rows = [[0, *at, last - 1] for at, last in zip(starts, count.tolist(), strict=True)]
        weights = self.slots.weights(states, allowed)
        padded = weights.new_zeros(*weights.shape[:3], max(map(len, rows)), weights.shape[4])
        for sentence, at in enumerate(rows):
            padded[sentence, :, :, : len(at)] = weights[sentence, :, :, at]
        return padded

    def cannot_say(self, encoded: EncodedPairs) -> int:
        """How many of the pairs have a target that needs more slots than there are."""
        labels = Labels.of(encoded.target.long())
        return int((labels.slots_needed > torch.from_numpy(encoded.source_lengths) * self.slots.each).sum())

    def _slot_counts(self, source: Tensor) -> Tensor:
        """How many slots of each sentence are real."""
        return (source != PAD).sum(1) * self.slots.each


class Slots(nn.Module):
    """Each place becomes ``each`` slots; then blocks in which every slot reads every slot, and a last norm."""

    def __init__(self, blocks: Sequence[EncoderBlock], *, width: int, each: int = SLOTS) -> None:
        super().__init__()
        self.each, self.split = each, nn.Linear(width, each * width)
        self.blocks, self.norm = nn.ModuleList(blocks), nn.LayerNorm(width)

    def forward(self, places: Tensor, allowed: Tensor | None) -> Tensor:
        """States (batch, slots, width) from states (batch, places, width) and which of these may be read."""
        states, allowed = self._split(places, allowed)
        for block in self.blocks:
            states = block(states, allowed)
        return self.norm(states)  # type: ignore[no-any-return]

    def weights(self, places: Tensor, allowed: Tensor | None) -> Tensor:
        """What each slot reads of each place, in each block: (batch, layers, heads, slots, places)."""
        states, allowed = self._split(places, allowed)
        weights_of_layers = []
        for block in self.blocks:
            weights_of_layers.append(block.weights(states, allowed).unflatten(3, (-1, self.each)).sum(4))  # type: ignore[operator]
            states = block(states, allowed)
        return torch.stack(weights_of_layers, dim=1)

    def _split(self, places: Tensor, allowed: Tensor | None) -> tuple[Tensor, Tensor | None]:
        states = places[:, :, None] + self.split(places).unflatten(2, (self.each, -1))
        return states.flatten(1, 2), None if allowed is None else allowed.repeat_interleave(self.each, dim=3)


def build_ctc(settings: Settings, source: Words, target: Words) -> CTCTranslator:
    """``model.layers`` blocks before the places are split and ``model.decoder_layers`` after."""
    size, dropout = settings.model, build_dropout(settings)
    tokens = build_tokens(settings, source)
    encoder = build_encoder_stack(settings, tokens, dropout)
    slots = Slots(build_encoder_blocks(settings, size.decoder_layers, dropout), width=size.width)
    output = VectorOutput(tokens) if size.tied else build_output(settings, target)
    for stack in (encoder, slots):
        draw_weights(stack)
    return CTCTranslator(encoder, slots, output)
