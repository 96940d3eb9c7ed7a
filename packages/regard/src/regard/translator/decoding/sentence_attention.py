"""What a trained model reads of a sentence while it says its translation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from regard.results import Result
from regard.translator.data.vocabulary import Vocabulary

if TYPE_CHECKING:
    from regard.translator.decoding.translation import TranslationModel


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


def sentence_attention(
    model: TranslationModel, ids: list[int], *, sentence: str, words: tuple[Vocabulary, Vocabulary], cut: bool
) -> SentenceAttention:
    """The greedy translation of one sentence, given as ids with markers, and what each token of it read.

    ``words`` are the source's and the target's vocabulary.
    """
    import torch

    source = torch.tensor([ids]).to(next(model.parameters()).device)
    model.eval()
    with torch.no_grad():
        ((written, log_probability),) = model.translate(source)
        weights = model.attention(source)[0]
    # Where a model has no place left for <eos>, the table ends with its last word.
    rows = ["<sos>", *(words[1].words[i] for i in written), "<eos>"][: weights.shape[2]]
    return SentenceAttention(
        source=sentence,
        target=words[1].decode(written),
        log_probability=log_probability,
        cut=cut,
        columns=[words[0].words[i] for i in ids],
        rows=rows,
        weights=weights[:, :, : len(rows), : len(ids)].cpu().numpy(),
    )
