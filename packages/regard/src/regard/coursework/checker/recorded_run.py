"""Running a person's model in the one runner of other people's code, and reading the recording that comes back."""

from __future__ import annotations

from dataclasses import dataclass

from regard.sandbox.clock import Clock
from regard.sandbox.jail import Tier
from regard.sandbox.runner import Runner
from regard.sandbox.tool import Tool
from regard.tracing.recording import Recording
from regard.tracing.recording_reader import read_recording

RECORDING = 30.0  # seconds more than the limit: what recording a small model takes on a busy machine
MOST_BYTES = 100_000_000  # of a recording
RECORDER = Tool(module="regard.coursework.checker.recording_tool", doing="Checking a Transformer runs it, which")


@dataclass(frozen=True, kw_only=True, eq=False)
class RecordedRun:
    """A recording, what the code printed, and what kept it in."""

    recording: Recording
    printed: str
    tier: Tier
    confined: str


def record_in_sandbox(
    spec: str, *, default: str, seed: int, limit: float, jail: bool | Tier = False, code: bytes | None = None
) -> RecordedRun:
    """The recording of ``my.py:NAME``; whatever fails is refused. ``code``: the text of a file that lies nowhere."""
    runner = Runner(spec, function=default, clock=Clock(RECORDING + limit), jail=jail, code=code, tool=RECORDER)
    with runner:
        asked = {"name": runner.function, "seed": seed}
        data = runner.ask(asked, doing="recording it", most=MOST_BYTES)
    return RecordedRun(
        recording=read_recording(data), printed=runner.printed_text, tier=runner.tier, confined=runner.jail_description
    )
