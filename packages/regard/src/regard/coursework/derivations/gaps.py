"""Fill the gap: a proof of ours with some of its lines left out, for practice. Not in the students' build."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from regard.errors import InputError
from regard.results import Result

FOLDER = Path(__file__).parent / "proofs"


@dataclass(frozen=True, kw_only=True, eq=False)
class ProofWithGaps(Result):
    """A proof; where a line is missing stands a blank."""

    claim: str
    text: str
    blank_lines: tuple[int, ...]

    def __str__(self) -> str:
        return self.text


def our_proof(claim: str) -> str:
    """The proof of ours that the checker finds complete."""
    path = FOLDER / f"{claim}.md"
    if not path.is_file():
        raise InputError(f"There is no proof of {claim} to leave gaps in; --template proof.md begins one of your own.")
    return path.read_text(encoding="utf-8")


def leave_gaps(claim: str, count: int) -> ProofWithGaps:
    """Our proof with ``count`` of its lines blank, spread over the whole."""
    lines = our_proof(claim).rstrip("\n").split("\n")
    if not 1 <= count < len(lines):
        raise InputError(
            f"--gaps must be from 1 to {len(lines) - 1}: the proof has {len(lines)} lines, and {count} came."
        )
    chosen = tuple(sorted({round((n + 0.5) * len(lines) / count) % len(lines) for n in range(count)}))
    shown = ["____" if n in chosen else line for n, line in enumerate(lines)]
    return ProofWithGaps(claim=claim, text="\n".join(shown), blank_lines=tuple(n + 1 for n in chosen))
