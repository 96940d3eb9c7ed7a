"""The tokens that we score, as a file; and somebody's log-probabilities of them, read back and judged like ours.

Both are JSON Lines. :func:`write_tokens` writes a head and one line for each pair:

    {"regard": "tokens", "split": "validation", "source_words": ["<pad>", "<unk>", ...], "target_words": [...]}
    {"pair": 0, "source": [2, 17, 41, 3], "target": [2, 9, 30, 3], "reference": "a dog ."}

A file of log-probabilities has the same pairs in the same order, one on each line, with what the model gave to each
target token, <sos> and <eos> included, as natural logarithms:

    {"target": [2, 9, 30, 3], "log_probabilities": [-0.0, -1.3, -2.2, -0.1], "translation": "a dog ."}

The ids of the targets say that both speak of the same tokens: a line with other ids is refused. ``translation`` may be
left out, in all lines; then there is no BLEU. Other keys, and a head, may be there: adding two keys to our lines will
do.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from regard.array_types import Float
from regard.errors import InputError
from regard.files import read_file, write_file
from regard.results import Result
from regard.strict_json import parse_json
from regard.translator.data.batches import EncodedPairs
from regard.translator.data.sources import Pairs
from regard.translator.data.vocabulary import Vocabulary
from regard.translator.scoring.literature import LiteratureBleu, literature_bleu
from regard.translator.scoring.scores import Group, Judge, Perplexity, perplexity_of_losses

HEAD = "tokens"
_ABOVE = 1e-6  # a log-probability may exceed 0 by rounding
_MAKE = "regard translator tokens writes the tokens to score"


@dataclass(frozen=True, kw_only=True)
class TokensWritten(Result):
    """What :func:`write_tokens` wrote."""

    path: str
    split: str
    pairs: int
    target_tokens: int
    source_words: int
    target_words: int

    def __str__(self) -> str:
        return (
            f"Wrote {self.path}: {self.pairs:,} {self.split} pairs, {self.target_tokens:,} target tokens, "
            f"{self.source_words:,} source and {self.target_words:,} target words.\n"
            "Score your log-probabilities of them with  regard translator score --log-probabilities FILE"
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class FileScore(Result):
    """What :func:`score_file` returns; ``fitting`` is None where the file has no translations."""

    file: str
    scored_on: str
    perplexity: Perplexity
    fitting: Group | None
    bleu_signature: str
    chrf_signature: str
    literature: LiteratureBleu | None = None

    def __str__(self) -> str:
        lines = [f"{self.file}, {self.scored_on}: {self.perplexity}"]
        if self.fitting is None:
            return "\n".join([*lines, 'No BLEU: the file has no translations (a key "translation" in each line).'])
        group = self.fitting
        said = f"BLEU {group.bleu:.1f}, chrF {group.chrf:.1f}; {group.exact:.1%} exactly the reference"
        lines.append(f"{group.name.capitalize()} ({group.pairs:,}): {said}.")
        lines += [f"BLEU {self.bleu_signature}", f"chrF {self.chrf_signature}"]
        return "\n".join([*lines, *([str(self.literature)] if self.literature else [])])


def write_tokens(
    path: str | Path, encoded: EncodedPairs, pairs: Pairs, *, words: tuple[Vocabulary, Vocabulary], split: str
) -> TokensWritten:
    """Write the pairs that fit, as ids, to a new file; ``words`` are the source's and the target's."""
    path = Path(path)
    if path.exists():
        raise InputError(f"{path} is there already and is not overwritten; give another --out.")
    head = {"regard": HEAD, "split": split, "source_words": words[0].words, "target_words": words[1].words}
    lines = [json.dumps(head, ensure_ascii=False)]
    for number, (source, target) in enumerate(_ids(encoded)):
        reference = pairs.target[encoded.kept[number]]
        row = {"pair": number, "source": source, "target": target, "reference": reference}
        lines.append(json.dumps(row, ensure_ascii=False))
    write_file(path, ("\n".join(lines) + "\n").encode())
    return TokensWritten(
        path=str(path),
        split=split,
        pairs=len(encoded),
        target_tokens=encoded.target_tokens,
        source_words=len(words[0]),
        target_words=len(words[1]),
    )


def score_file(
    path: str | Path,
    encoded: EncodedPairs,
    pairs: Pairs,
    *,
    scored_on: str,
    lowercase: bool,
    literature: str | None = None,
) -> FileScore:
    """Perplexity both ways of counting from a file of log-probabilities; BLEU and chrF if it has translations.

    ``literature`` names the target language if BLEU is also wanted as papers on Multi30k count it.
    """
    losses, translations = read_log_probabilities(path, encoded)
    fitting, signatures, as_in_papers = None, ("", ""), None
    if translations is not None:
        references = [pairs.target[i] for i in encoded.kept]
        judge = Judge(lowercase, references, translations, losses, {k: k for k in range(len(losses))})
        fitting = judge.group("pairs that fit", range(len(references)))
        signatures = judge.bleu_signature, judge.chrf_signature
        if literature is not None:
            as_in_papers = literature_bleu(translations, references, language=literature)
    return FileScore(
        file=str(path),
        scored_on=scored_on,
        perplexity=perplexity_of_losses(losses),
        fitting=fitting,
        bleu_signature=signatures[0],
        chrf_signature=signatures[1],
        literature=as_in_papers,
    )


def read_log_probabilities(path: str | Path, encoded: EncodedPairs) -> tuple[list[Float], list[str] | None]:
    """-log p of every target token, pair by pair, and the translations if there are any; all of it checked."""
    losses: list[Float] = []
    translations: list[str | None] = []
    wanted = [target for _, target in _ids(encoded)]
    for where, row in _rows(Path(path)):
        if len(losses) == len(wanted):
            raise InputError(f"{where} is one pair too many: there are {len(wanted):,} to score; {_MAKE}.")
        if row.get("target") != wanted[len(losses)]:
            raise InputError(
                f"{where}: target is {_short(row.get('target'))}, and pair {len(losses)} (counted from 0) has "
                f"{_short(wanted[len(losses)])}; {_MAKE}."
            )
        # len(losses) is the number of the pair that this line is about
        losses.append(_losses(row.get("log_probabilities"), len(wanted[len(losses)]), where))
        said = row.get("translation")
        if said is not None and not isinstance(said, str):
            raise InputError(f"{where}: translation must be text, not {_short(said)}.")
        translations.append(said)
    if len(losses) < len(wanted):
        raise InputError(f"{path} has {len(losses):,} pairs, and there are {len(wanted):,} to score; {_MAKE}.")
    given = [text for text in translations if text is not None]
    if given and len(given) < len(translations):
        first = translations.index(None)
        raise InputError(
            f"{path}: pair {first} (counted from 0) has no translation, and others have; give all or none."
        )
    return losses, given or None


def _ids(encoded: EncodedPairs) -> Iterator[tuple[list[int], list[int]]]:
    """Source and target ids of every pair, markers included, without padding."""
    for row in range(len(encoded)):
        source = encoded.source[row, : int(encoded.source_lengths[row])].tolist()
        yield source, encoded.target[row, : int(encoded.target_lengths[row])].tolist()


def _rows(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The pairs of a file, each with its name for a person; a head is passed over."""
    try:
        text = read_file(path).decode("utf-8-sig")
    except FileNotFoundError:
        raise InputError(f"There is no file {path}; give one line of JSON for each pair.") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8: the byte at offset {error.start} is wrong; save it as UTF-8.") from None
    for number, line in enumerate(text.split("\n"), 1):  # other line ends may stand inside a string
        where = f"{path}, line {number}"
        if not line.strip():
            continue
        try:
            row = parse_json(line, constants=True)
        except ValueError:
            raise InputError(f"{where} is not JSON; give one object for each pair, on a line of its own.") from None
        if not isinstance(row, dict):
            raise InputError(f'{where} is {_short(row)}; it must be an object with "target" and "log_probabilities".')
        if row.get("regard") != HEAD:
            yield where, row


def _losses(given: Any, count: int, where: str) -> Float:
    numbers = isinstance(given, list) and all(isinstance(v, int | float) and not isinstance(v, bool) for v in given)
    if not numbers or len(given) != count:
        what = f"{len(given)} values" if isinstance(given, list) else _short(given)
        raise InputError(
            f"{where}: log_probabilities must be {count} numbers, one for each target token with <sos> and <eos>, "
            f"not {what}."
        )
    for place, value in enumerate(given):
        if not math.isfinite(value) or value > _ABOVE:
            raise InputError(
                f"{where}: the log-probability of token {place} (counted from 0) is {value}; it must be a finite "
                "number, 0 or less (natural logarithm)."
            )
    # what rounding put above 0 counts as certain
    return -np.minimum(np.array(given, dtype=np.float64), 0.0)


def _short(value: Any) -> str:
    text = "missing" if value is None else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:57]}..."
