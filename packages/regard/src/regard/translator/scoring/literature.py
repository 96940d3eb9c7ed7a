"""BLEU as papers on Multi30k give it, so that a score can be laid beside theirs.

Those papers split both the translations and the references with the Moses tokeniser after its clean-up of punctuation,
lower-case them, and count BLEU over those tokens without smoothing, as multi-bleu.perl does. sacrebleu's BLEU counts
over its own 13a tokens of the text as it was written. Lower case forgives, and hyphens and apostrophes are split
otherwise, so the two numbers of one translation differ by some points: compare only like with like (post2018).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from regard.extras import require
from regard.results import Result

WHY_THEY_DIFFER = (
    "It ignores case and splits words as Moses does; sacrebleu's BLEU keeps case and splits by its own rule (13a). "
    "Compare it with papers that score this way, and with nothing else."
)


@dataclass(frozen=True, kw_only=True)
class LiteratureBleu(Result):
    """BLEU over lower-cased Moses tokens; ``recipe`` says how it was counted."""

    bleu: float
    language: str
    recipe: str

    def __str__(self) -> str:
        return f"BLEU {self.bleu:.1f} as in the literature ({self.recipe}). {WHY_THEY_DIFFER}"


def literature_bleu(translations: Sequence[str], references: Sequence[str], *, language: str) -> LiteratureBleu:
    """BLEU of lower-cased Moses tokens; ``language`` is that of the references ("en", "de", ...), for its rules."""
    require("BLEU as in the literature", "sacremoses", "sacrebleu", extra="translator")
    import sacrebleu
    import sacremoses

    clean, split = sacremoses.MosesPunctNormalizer(lang=language), sacremoses.MosesTokenizer(lang=language)

    def tokens(sentence: str) -> str:
        return str(split.tokenize(clean.normalize(sentence), return_str=True, escape=False)).lower()

    # force: the text looks tokenised to sacrebleu, which warns about it unless told that this is meant
    metric = sacrebleu.BLEU(tokenize="none", smooth_method="none", force=True)
    counted = metric.corpus_score([tokens(said) for said in translations], [[tokens(meant) for meant in references]])
    return LiteratureBleu(
        bleu=float(counted.score),
        language=language,
        recipe=f"lower-cased, sacremoses {sacremoses.__version__} tokens of {language}, no smoothing",
    )
