"""Where things are, from wherever a test stands."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[3]
TESTS = Path(__file__).parent
SOURCE = ROOT / "packages" / "regard" / "src" / "regard"
DOCS = ROOT / "docs"
DATA = ROOT.parent / "shared" / "data"  # real corpora and vectors; tests that need them skip where they are missing
