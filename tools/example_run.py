"""Put a trained run into the package as its example: ``make example`` trains it and then calls this.

The weights of a run are the same bit for bit only on a machine of the same kind with the same versions, so a second
``make example`` may write other bytes; what must hold of them is in
``packages/regard/tests/translator/runs/test_example.py``.
"""

from __future__ import annotations

import sys
from pathlib import Path

from regard.files import write_file
from regard.translator.models.weights import read_weights, write_weights
from regard.translator.runs.files import BEST, FOLDER, RUN, SETTINGS, USUAL, VOCABULARY
from regard.translator.runs.records import LOG, is_finished


def main() -> None:
    run = Path(sys.argv[1])
    if not is_finished(run):
        sys.exit(f"{run} is not finished; give its train command again")
    FOLDER.mkdir(exist_ok=True)
    for name in (RUN, SETTINGS, VOCABULARY, USUAL, LOG):
        write_file(FOLDER / name, (run / name).read_bytes())
    tensors, header = read_weights(run / BEST)
    write_weights(FOLDER / BEST, tensors, {**header.facts, "finished": True})
    size = sum(file.stat().st_size for file in FOLDER.iterdir())
    print(f"{FOLDER.name}: {size / 1e6:.1f} MB, best after epoch {header.facts['epoch']}")


if __name__ == "__main__":
    main()
