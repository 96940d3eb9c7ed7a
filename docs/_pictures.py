"""Draw the pictures of the guides anew: ``python docs/_pictures.py``, part of ``make docs``."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

PICTURES = Path(__file__).parent / "pictures"
ANSWERED = sorted(path.stem for path in (Path(__file__).parent / "answers").glob("*.md"))
COMMANDS = (
    'regard design copy --keys "1,0; 0,1; 1,1" 2 --eps 0.01 --plot design-copy.svg',
    "regard design share example:hexagon 0 1 --eps 0.01 --plot tutorial-share.svg",
    'regard design ceiling --keys "-1.2,-0.8; 1.4,-0.8; 0,1.4; 0,0" 3 --plot tutorial-ceiling.svg',
    'regard subspace extract "1; 0" "2; 1" --plot extract.svg',
    "regard positions --dim 4 --length 1000000 --plot positions.svg",
    "regard model look example:textbook --layers 0 --heads 5 --figure look-induction.svg",
    "regard noise compare --keys 10 --spread 0.5 --iso 0.01 --scale 20"
    " --plot noise-swing.svg --plot-keys noise-keys.svg",
)
CLAIMS = """
import sys, regard
for name in sys.argv[1:]:
    regard.claims[name].plot(f"claim-{name}.svg")
"""  # as regard claims NAME --plot does, all in one process
STORY = """
import json, subprocess, sys, tempfile
from pathlib import Path
import numpy as np
from regard.examples import example
from regard_models.capturing.capture_file import read_capture
left, values, right = np.linalg.svd(example("weights"), full_matrices=False)
rank = {"left": left.round(6).tolist(), "values": values.round(6).tolist(), "right": right.round(6).tolist()}
with tempfile.TemporaryDirectory() as folder:
    file = str(Path(folder) / "story.safetensors")
    words = ["model", "capture", "example", "--text", "der Hund sieht die Katze", "--out", file]
    subprocess.run([sys.executable, "-m", "regard", *words], check=True, capture_output=True)
    seen = read_capture(file)
    across = [one for one in seen.records if one.module.endswith("source_attention")]
    weights = np.concatenate([np.asarray(one.weights)[0] for one in across]).round(4).tolist()
    heads = {"rows": seen.target_tokens[0], "columns": seen.tokens[0], "weights": weights}
Path("story.json").write_text(json.dumps({"rank": rank, "heads": heads}, ensure_ascii=False), encoding="utf-8")
"""  # what the figures of the first page do not compute themselves


def main() -> None:
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        steady = Path(folder) / "matplotlibrc"  # the same picture, byte for byte, every time
        steady.write_text("svg.hashsalt: regard\n", encoding="utf-8")
        environment = {**os.environ, "MATPLOTLIBRC": str(steady), "SOURCE_DATE_EPOCH": "0"}
        for words in (
            *(["-m", *shlex.split(command)] for command in COMMANDS),
            ["-c", CLAIMS, *ANSWERED],
            ["-c", STORY],
        ):
            done = subprocess.run(
                [sys.executable, *words], cwd=PICTURES, env=environment, capture_output=True, text=True
            )
            if done.returncode not in (0, 1) or "Traceback" in done.stderr:
                sys.exit(f"{' '.join(words)}: {done.stderr}")


if __name__ == "__main__":
    main()
