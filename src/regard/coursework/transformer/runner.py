"""Running a person's model in a process of its own, for a limited time, and reading the recording it leaves.

It keeps mistakes from doing harm here (endless loops, floods, exits). It is no prison: the code runs with your rights.
Kept small on purpose: the claims' runner of other people's code is the place where a jail belongs.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from regard.coursework.answers.runner import parted, told
from regard.errors import InputError
from regard.models.diagnosis.recording import Recording, unpacked

STARTING = 60.0  # seconds that importing torch may take on a busy machine
MEMORY = 8 * 2**30
MOST_BYTES = 400_000_000  # of a recording
KEPT = 2_000  # bytes printed that are shown


def run(spec: str, *, default: str, seed: int, limit: float) -> tuple[Recording, dict[str, Any], str]:
    """The recording of ``my.py:NAME``, what its file declares, and what it printed; whatever fails is refused."""
    path, name = parted(spec, default)
    with tempfile.TemporaryDirectory(prefix="regard-") as folder:
        target, prints = Path(folder, "recording"), Path(folder, "prints")
        code = _ran(path, name, seed, limit, target, prints)
        printed = prints.read_bytes()[:KEPT].decode("utf-8", errors="replace").strip()
        if not target.is_file() or target.stat().st_size > MOST_BYTES:
            how = f"was killed by signal {-code}" if code < 0 else f"left the process with code {code}"
            raise InputError(f"{path}:{name} {how} before it was recorded; let the process live, with smaller sizes.")
        line, _, data = target.read_bytes().partition(b"\n")
    outcome = _read(line)
    _refuse(outcome, path, name)
    return unpacked(data), outcome, printed


def _ran(path: str, name: str, seed: int, limit: float, target: Path, prints: Path) -> int:
    seconds = STARTING + limit
    words = [path, name, str(seed), str(MEMORY), str(int(seconds) + 5), str(target)]
    with open(prints, "wb") as stream:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "regard.coursework.transformer.child", *words],
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=stream,
            env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
            start_new_session=os.name == "posix",
        )
        try:
            return process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            raise InputError(
                f"{path}:{name} was stopped: it took more than {seconds:.3g} s; end the loop, make it quicker, or give "
                "it more time with --limit SECONDS."
            ) from None
        finally:
            _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the process, and those that it has started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if os.name == "posix":
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    process.wait()


def _read(line: bytes) -> dict[str, Any]:
    try:
        return dict(json.loads(line))
    except ValueError:
        raise InputError("The recording of the model is damaged; run the check again.") from None


def _refuse(outcome: dict[str, Any], path: str, name: str) -> None:
    """One sentence for whatever kept the file from being recorded."""
    if "no_torch" in outcome:
        raise InputError("Checking a Transformer runs it, which needs torch: pip install 'regard[torch]'.")
    if "importing" in outcome:
        raise InputError(f"{path} cannot be imported: {told(outcome['importing'])}; fix it first.")
    if "missing" in outcome:
        known = ", ".join(map(str, outcome["missing"])) or "no class and no function"
        raise InputError(f"{path} has no {name!r}; it has {known}.")
    if "refused" in outcome:
        raise InputError(str(outcome["refused"]))
    if "raised" in outcome:
        raise InputError(f"{path}:{name} failed: {told(outcome['raised'])}; fix it first.")
