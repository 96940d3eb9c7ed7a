"""Write the corpus that the package ships, or another one for your own use.

python -m tools.grammar                                              the shipped file, byte for byte the same every time
python -m tools.grammar --size 100000 --seed 5 --out large.tsv  a labelled table; then translator train --data large.tsv
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import os
from collections.abc import Iterable
from pathlib import Path

from regard.errors import InputError
from regard.translator.data import sources
from tools.grammar import Pair, generate

FRESH, FRESH_SEED = 100, 2**20  # sentences to try a model with, from a seed far from any corpus
SHIPPED = Path(sources.__file__).parent / sources.BUILTIN


def shipped_text() -> str:
    """The text inside the shipped file: the corpus, then sentences of which neither side is in it."""
    pairs = generate(
        sources.BUILTIN_SIZE + 2 * sources.validation_size(sources.BUILTIN_SIZE), seed=sources.BUILTIN_SEED
    )
    known = {text for pair in pairs for text in (pair.german, pair.english)}
    others = [pair for pair in generate(2 * FRESH, seed=FRESH_SEED) if known.isdisjoint((pair.german, pair.english))]
    return _table(sources.BUILTIN_COLUMNS, [*(("corpus", p) for p in pairs), *(("fresh", p) for p in others[:FRESH])])


def corpus_text(size: int, *, seed: int) -> str:
    """A corpus as a table with the columns split, de, en and phenomena; ``data.size`` of old settings made the same."""
    held = sources.validation_size(size)
    splits = ["train"] * size + ["validation"] * held + ["test"] * held
    return _table(("split", *sources.BUILTIN_COLUMNS[1:]), zip(splits, generate(len(splits), seed=seed), strict=True))


def packed(text: str) -> bytes:
    """gzip without a name and a time, so that the same text gives the same bytes."""
    return gzip.compress(text.encode(), compresslevel=9, mtime=0)


def _table(header: Iterable[str], rows: Iterable[tuple[str, Pair]]) -> str:
    lines = [header, *((first, p.german, p.english, ",".join(sorted(p.labels))) for first, p in rows)]
    return "".join("\t".join(line) + "\n" for line in lines)


def write(path: Path, content: bytes) -> None:
    """The whole file or none of it."""
    new = path.with_name(path.name + ".new")
    new.write_bytes(content)
    os.replace(new, path)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tools.grammar", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--size", type=int, help="training pairs; validation and test pairs come on top")
    parser.add_argument("--seed", type=int, help="another seed, other sentences")
    parser.add_argument("--out", type=Path, help="the .tsv to write; without it the shipped file is written again")
    options = parser.parse_args()
    if options.out is None:
        if options.size is not None or options.seed is not None:
            parser.error("--size and --seed are for a corpus of your own: give --out FILE.tsv too.")
        text = shipped_text()
        write(SHIPPED, packed(text))
        print(f"{SHIPPED}: SHA-256 of the text inside {hashlib.sha256(text.encode()).hexdigest()}")
        return
    try:
        size = sources.BUILTIN_SIZE if options.size is None else options.size
        if size < 1:
            parser.error(f"--size is the number of training pairs, 1 or more, not {size}.")
        write(options.out, corpus_text(size, seed=options.seed or 0).encode())
        print(
            f"{options.out}: {size:,} training pairs and {sources.validation_size(size):,} each for validation and test"
        )
    except (InputError, OSError) as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
