"""The journal of a grading: every answer's outcome, one sealed line each, on disk before the next is waited for.

Killed half-way, the same command goes on where it was: nothing is lost and nothing is run twice. A line carries a
seal that only the holder of the secret can make; a line that was edited, or that a crash cut in two, is run again.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from regard import __version__
from regard.errors import InputError
from regard.files import append_file, read_file
from regard.grading.gradebook.secret import Secret
from regard.grading.questions.examination import Outcome
from regard.strict_json import parse_json

NAME = "journal.jsonl"


class Journal:
    """Outcomes by key; ``damaged`` counts the lines that were not believed."""

    def __init__(self, folder: Path, secret: Secret) -> None:
        self.path, self.secret = folder / NAME, secret
        self.outcomes: dict[str, Outcome] = {}
        self.damaged, self.end = 0, 0
        try:
            data = read_file(self.path)
        except FileNotFoundError:
            return
        except OSError as error:
            raise InputError(f"{self.path} cannot be read: {error.strerror or error}; check the folder.") from None
        self.end = data.rfind(b"\n") + 1
        for line in data[: self.end].splitlines():
            self._read_line(line)
        self.damaged += self.end < len(data)

    def _read_line(self, line: bytes) -> None:
        try:
            entry = parse_json(line, constants=True)
            body = json.dumps(entry["body"], sort_keys=True).encode()
            if entry["seal"] != self.secret.seal(body):
                raise ValueError("not ours")
            self.outcomes[entry["body"]["key"]] = Outcome.from_dict(entry["body"]["outcome"])
        except (ValueError, KeyError, TypeError, RecursionError):
            self.damaged += 1

    def add(self, key: str, outcome: Outcome, *, about: str) -> None:
        """One more outcome, on disk when this returns."""
        body = parse_json(json.dumps({"key": key, "about": about, "outcome": outcome.to_dict()}), constants=True)
        seal = self.secret.seal(json.dumps(body, sort_keys=True).encode())
        line = json.dumps({"body": body, "seal": seal}).encode() + b"\n"
        append_file(self.path, line, at=self.end)
        self.end += len(line)
        self.outcomes[key] = outcome


def key_of(*words: str | bytes) -> str:
    """The name of one examination: everything that its outcome hangs on."""
    digest = hashlib.sha256()
    for word in (__version__, *words):
        data = word if isinstance(word, bytes) else word.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8) + data)
    return digest.hexdigest()[:40]
