"""The built-in corpus: 22,000 German sentences with their English translations, each labelled with its phenomena.

``builtin.tsv.gz`` beside this module is a table with a header: ``part``, ``de``, ``en`` and ``phenomena`` (names with
commas between). The rows of the part ``corpus`` are in order: a corpus of n training pairs takes the first n, then the
validation pairs, then as many for the test, so every size is the beginning of the largest. The part ``fresh`` has
sentences that no corpus holds, for trying a trained model. A grammar outside the package made the file; it also makes
larger corpora and other ones (``python -m tools.grammar --help`` in a copy of the project).
"""

from __future__ import annotations

import gzip
import hashlib
import zlib
from functools import lru_cache
from importlib import resources

from regard.errors import InputError
from regard.translator.data.sources import TEST, TRAIN, VALIDATION, Pairs, SourceSplits

FILE = "builtin.tsv.gz"
COLUMNS = ("part", "de", "en", "phenomena")
SIZE = 20_000  # training pairs in the largest corpus on offer
SEED = 0  # of the grammar, for the corpus
# Of the text inside: a damaged file is noticed, and a change of the data is never an accident.
SHA256 = "8464acc229bc9d478f1b44ab32b8251213bc83162330af201c7c62f7be83328e"


def validation_size(size: int) -> int:
    """How many pairs validation and test have each, beside ``size`` training pairs.

    >>> validation_size(20_000), validation_size(300), validation_size(5)
    (1000, 30, 1)
    """
    return max(1, min(1000, size // 10))


def from_builtin(source: str, target: str, *, size: int = SIZE, seed: int = SEED) -> SourceSplits:
    """Splits of the built-in corpus with ``size`` training pairs, in either direction."""
    if {source, target} != {"de", "en"}:
        raise InputError(f"The built-in corpus is de to en or en to de, not {source} to {target}; use your own files.")
    if size < 1:
        raise InputError(f"size is the number of training pairs of the built-in corpus, 1 or more, not {size}.")
    if size > SIZE or seed != SEED:
        asked = f"{size:,} training pairs were" if size > SIZE else f"the seed {seed} was"
        raise InputError(
            f"The built-in corpus has {SIZE:,} training pairs of the seed {SEED}, and {asked} asked for; in a copy "
            f"of the project, python -m tools.grammar --size {size} --seed {seed} --out FILE.tsv makes that corpus, "
            "which "
            "--data FILE.tsv then takes."
        )
    held = validation_size(size)
    pairs = _read("corpus").keep(range(size + 2 * held))
    whole = pairs if source == "de" else Pairs(pairs.target, pairs.source, pairs.labels)
    ends = {TRAIN: range(size), VALIDATION: range(size, size + held), TEST: range(size + held, size + 2 * held)}
    return SourceSplits({name: whole.keep(rows) for name, rows in ends.items()})


def fresh_pairs(count: int) -> Pairs:
    """The first ``count`` pairs, German to English, of those that are in no split of any size.

    >>> print(fresh_pairs(1).source[0], "|", fresh_pairs(1).target[0])
    Ich kann in die Schule kommen. | I can come to the school.
    """
    return _read("fresh").keep(range(count))


@lru_cache(maxsize=2)
def _read(part: str) -> Pairs:
    """One part of the file, German to English."""
    # without the header, and without what follows the last line feed
    rows = [line.split("\t") for line in _text().split("\n")[1:-1]]
    chosen = [row for row in rows if row[0] == part]
    return Pairs(
        [german for _, german, _, _ in chosen],
        [english for _, _, english, _ in chosen],
        [frozenset(names.split(",")) if names else frozenset() for _, _, _, names in chosen],
    )


def _text() -> str:
    raw = (resources.files(__package__) / FILE).read_bytes()
    try:
        content = gzip.decompress(raw)
    except (EOFError, OSError, zlib.error):
        content = b""
    if hashlib.sha256(content).hexdigest() != SHA256:
        raise InputError(f"The built-in corpus, {FILE} in the package, is damaged; install Regard again.")
    return content.decode()
