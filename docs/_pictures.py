"""Draw the pictures of the guides anew: ``python docs/_pictures.py``, part of ``make docs``."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

PICTURES = Path(__file__).parent / "pictures"
COMMANDS = (
    'regard design copy --keys "1,0; 0,1; 1,1" 2 --eps 0.01 --plot design-copy.svg',
    'regard subspace extract "1; 0" "2; 1" --plot extract.svg',
    "regard positions --dim 4 --length 1000000 --plot positions.svg",
    "regard noise compare --keys 10 --spread 0.5 --iso 0.01 --scale 20 --plot noise.svg",
)


def main() -> None:
    PICTURES.mkdir(exist_ok=True)
    for command in COMMANDS:
        done = subprocess.run(
            [sys.executable, "-m", *shlex.split(command)], cwd=PICTURES, capture_output=True, text=True
        )
        if done.returncode not in (0, 1):
            sys.exit(f"{command}: {done.stderr}")


if __name__ == "__main__":
    main()
