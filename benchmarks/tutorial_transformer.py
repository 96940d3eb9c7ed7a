"""The encoder-decoder of configs/good.toml as tutorials build it from torch.nn.Transformer, for bench_training.

The same network with the same number of weights: pre-norm, one matrix for source, target and output. What differs is
how it is used: masks for padding and future, scores at every place, torch's own cross-entropy, no care for lengths.
torch's layers also drop attention weights and the inner states of the feed-forward part, which ours do not.
"""

from __future__ import annotations

import math
import warnings

import torch
from torch import Tensor, nn

from regard.translator.data.batches import Batch
from regard.translator.data.vocabulary import PAD
from regard.translator.models.embeddings import sinusoidal_table
from regard.translator.models.encoder import Attention, Dropout, FeedForward
from regard.translator.models.encoder_decoder import EncoderDecoder
from regard.translator.runs.settings import Settings


class TutorialTransformer(nn.Module):
    """Tokens are (length, batch) inside, torch's default."""

    def __init__(self, settings: Settings, words: int) -> None:
        super().__init__()
        size = settings.model
        self.embedding, self.bias = nn.Embedding(words, size.width), nn.Parameter(torch.zeros(words))
        self.register_buffer("positions", sinusoidal_table(settings.data.longest + 2, size.width)[:, None])
        self.share = size.dropout
        self.dropout: nn.Module = nn.Dropout(size.dropout)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # nested tensors are for evaluation only
            self.transformer = nn.Transformer(
                size.width,
                size.heads,
                size.layers,
                size.decoder_layers,
                size.feed_forward,
                size.dropout,
                norm_first=True,
            )
        self.criterion = nn.CrossEntropyLoss(ignore_index=PAD, label_smoothing=settings.training.smoothing)

    def loss(self, batch: Batch) -> Tensor:
        """Mean smoothed cross-entropy of the target tokens after <sos>."""
        source, target, labels = batch.source.T, batch.target.T[:-1], batch.target.T[1:]
        future = torch.ones(len(target), len(target), dtype=torch.bool).triu(1)
        padding = (source == PAD).T
        states = self.transformer(
            self.embedded(source),
            self.embedded(target),
            tgt_mask=future,
            src_key_padding_mask=padding,
            tgt_key_padding_mask=(target == PAD).T,
            memory_key_padding_mask=padding,
        )
        scores = nn.functional.linear(states, self.embedding.weight, self.bias)
        return self.criterion(scores.flatten(0, 1), labels.flatten())  # type: ignore[no-any-return]

    def loss_at_real_places(self, batch: Batch) -> Tensor:
        """The same loss by somebody who knows torch well: no mask where nothing is padded, scores only where asked."""
        source, target, labels = batch.source.T, batch.target.T[:-1], batch.target.T[1:]
        padding = (source == PAD).T if (source == PAD).any() else None
        future = nn.Transformer.generate_square_subsequent_mask(len(target))
        states = self.transformer(
            self.embedded(source),
            self.embedded(target),
            tgt_mask=future,
            tgt_is_causal=True,  # what is padded comes last, so that nothing real looks at it
            src_key_padding_mask=padding,
            memory_key_padding_mask=padding,
        )
        real = labels != PAD
        scores = nn.functional.linear(states[real], self.embedding.weight, self.bias)
        return self.criterion(scores, labels[real])  # type: ignore[no-any-return]

    def take_our_dropout(self) -> None:
        """Ours in the place of torch's, wherever states are dropped."""
        noise = torch.Generator()
        for layer in [*self.transformer.encoder.layers, *self.transformer.decoder.layers]:
            for name in ("dropout1", "dropout2", "dropout3"):
                if hasattr(layer, name):
                    setattr(layer, name, Dropout(getattr(layer, name).p, noise))
        self.dropout = Dropout(self.share, noise)

    def embedded(self, ids: Tensor) -> Tensor:
        vectors = self.embedding(ids) * math.sqrt(self.embedding.embedding_dim)
        return self.dropout(vectors + self.get_buffer("positions")[: len(ids)])  # type: ignore[no-any-return]

    def drop_only_states(self) -> None:
        """Keep attention weights and inner states, as our layers do."""
        for layer in [*self.transformer.encoder.layers, *self.transformer.decoder.layers]:
            layer.dropout.p = layer.self_attn.dropout = 0.0
            if isinstance(layer, nn.TransformerDecoderLayer):
                layer.multihead_attn.dropout = 0.0

    @torch.no_grad()
    def copy(self, ours: EncoderDecoder) -> None:
        """Take over the weights of our model."""
        encoder, decoder = self.transformer.encoder, self.transformer.decoder
        self.embedding.weight.copy_(ours.encoder.embedding.tokens.weight)
        self.bias.copy_(ours.output.bias)
        encoder.norm.load_state_dict(ours.encoder.norm.state_dict())
        decoder.norm.load_state_dict(ours.decoder.norm.state_dict())
        for layer, read in zip(encoder.layers, ours.encoder.blocks, strict=True):
            copy_attention(layer.self_attn, read.attention)
            copy_feed_forward(layer, read.feed_forward)
            copy_norms(layer, read.before_attention, read.before_feed_forward)
        for layer, written in zip(decoder.layers, ours.decoder.blocks, strict=True):
            copy_attention(layer.self_attn, written.own_attention)
            copy_attention(layer.multihead_attn, written.source_attention)
            copy_feed_forward(layer, written.feed_forward)
            copy_norms(layer, written.before_own, written.before_source, written.before_feed_forward)


def copy_attention(theirs: nn.MultiheadAttention, ours: Attention) -> None:
    parts = ours.queries, ours.keys, ours.values
    theirs.in_proj_weight.copy_(torch.cat([part.weight for part in parts]))
    theirs.in_proj_bias.copy_(torch.cat([part.bias for part in parts]))
    theirs.out_proj.load_state_dict(ours.mix.state_dict())


def copy_feed_forward(layer: nn.Module, ours: FeedForward) -> None:
    layer.linear1.load_state_dict(ours[0].state_dict())
    layer.linear2.load_state_dict(ours[2].state_dict())


def copy_norms(layer: nn.Module, *ours: nn.LayerNorm) -> None:
    for number, norm in enumerate(ours, 1):
        getattr(layer, f"norm{number}").load_state_dict(norm.state_dict())
