"""What an audit finds: one finding for every check, with its size, its witness and its culprit."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Any


class Status(enum.StrEnum):
    """How a check ended."""

    PASSED = "pass"
    FAILED = "fail"
    NOTE = "note"
    NOT_ASKED = "could not be asked"  # the model raised: neither a yes nor a no
    NOT_APPLICABLE = "not applicable"


@dataclass(frozen=True, kw_only=True)
class Culprit:
    """The submodule that broke a property: its path in the model, its class, and where its forward is written."""

    module: str
    kind: str
    file: str | None = None
    line: int | None = None
    call: int = 0  # 0 for its first call in one forward
    doubt: str = ""  # what else it could be

    def __str__(self) -> str:
        where = f" ({self.file}:{self.line})" if self.file is not None else ""
        which = f", call {self.call + 1}" if self.call else ""
        return f"{self.module or 'the model itself'}, a {self.kind}{where}{which}{self.doubt}"


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One check of one property.

    size: how far the property is from holding; rounding: how much of that rounding explains (both in the output's
    units, in the arithmetic that the audit names). example: the smallest example that was found. cause, cure: one
    sentence on each, for what is usual.
    """

    property: str
    check: str
    status: Status
    sentence: str
    size: float | None = None
    rounding: float | None = None
    example: dict[str, Any] = field(default_factory=dict)
    culprit: Culprit | None = None
    cause: str = ""
    cure: str = ""

    def key(self) -> str:
        """What a baseline knows it by: property, check, and the culprit's path."""
        return f"{self.property}/{self.check}" + (f"@{self.culprit.module}" if self.culprit is not None else "")

    def __str__(self) -> str:
        lines = [f"{self.property}, {self.check}: {str(self.status).upper()}. {self.sentence}"]
        if self.culprit is not None:
            lines.append(f"  Where: {self.culprit}.")
        if self.example:
            lines.append(f"  Smallest example: {self.example.get('words', self.example)}.")
        if self.status is Status.FAILED and self.cause:
            lines.append(f"  Usual cause: {self.cause} {self.cure}".rstrip())
        return "\n".join(lines)
