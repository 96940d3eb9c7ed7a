"""The files of a run, written so that a stop at any moment loses nothing.

| file | what |
|---|---|
| ``run.json`` | versions, seed, data fingerprint, sizes: everything that makes the run what it is |
| ``settings.toml`` | every setting, commented |
| ``vocabulary.json`` | both vocabularies |
| ``last.safetensors`` | weights, their averages, optimiser, and how far the run is: what a resumed run continues from |
| ``best.safetensors`` | weights (averaged, if the run averages) with the lowest validation perplexity so far |
| ``log.jsonl`` | one JSON object a line: steps and epochs |

A file is written beside its place, forced to disk, then renamed: a reader sees the old one or the new one, never half.
Facts travel in the safetensors header, as JSON, so that weights and facts cannot come from different moments.
No random state is stored because none is needed: order and dropout are functions of the seed and the step.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.errors import InputError
from regard.translator.training.averaging import Average

RUN, SETTINGS, VOCABULARY = "run.json", "settings.toml", "vocabulary.json"
LAST, BEST, LOG = "last.safetensors", "best.safetensors", "log.jsonl"
_PARTIAL = ".partial"


def write_file(path: Path, data: bytes) -> None:
    """Put ``data`` at ``path`` whole or not at all; a full disk leaves what was there and says so."""
    partial = path.with_name(path.name + _PARTIAL)
    try:
        with open(partial, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(partial, path)
        _sync_folder(path.parent)
    except OSError as error:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)
        raise InputError(
            f"{path} could not be written: {error.strerror or error}; nothing was lost: make room, then give the same "
            "command again and it resumes."
        ) from error


def write_weights(path: Path, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
    """Tensors and the facts that belong to them, in one file."""
    from safetensors.torch import save

    whole = {name: tensor.detach().contiguous() for name, tensor in tensors.items()}
    write_file(path, save(whole, metadata={"facts": json.dumps(facts)}))


def read_weights(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """What :func:`write_weights` wrote."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as stream:
            facts = json.loads((stream.metadata() or {})["facts"])
            return {name: stream.get_tensor(name).clone() for name in stream.keys()}, facts  # noqa: SIM118
    except FileNotFoundError:
        raise InputError(f"There is no {path}; train the run first.") from None
    except (SafetensorError, OSError, KeyError, ValueError, TypeError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(
            f"{path} is damaged, cut short, or not ours ({reason}); restore it from a copy, or train the run again."
        ) from None


def read_json(path: Path) -> Any:
    """A JSON file of a run."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"There is no {path}: {path.parent} is not a run; give the folder that train wrote.") from None
    except (OSError, ValueError) as error:
        raise InputError(f"{path} is damaged ({error}); restore it from a copy, or train the run again.") from None


def append_log(path: Path, entry: Mapping[str, Any]) -> None:
    """One more line in the log."""
    try:
        with open(path, "ab") as stream:
            stream.write((json.dumps(entry) + "\n").encode())
            stream.flush()
            os.fsync(stream.fileno())
    except OSError as error:
        raise InputError(
            f"{path} could not be written: {error.strerror or error}; nothing was lost: make room, then give the same "
            "command again and it resumes."
        ) from error


def read_log(path: Path) -> list[dict[str, Any]]:
    """The lines of the log; one cut short by a stop is left out."""
    entries = []
    for line in path.read_text(encoding="utf-8", errors="replace").split("\n") if path.exists() else []:
        with contextlib.suppress(ValueError):
            entry = json.loads(line)
            if isinstance(entry, dict):
                entries.append(entry)
    return entries


def rewind_log(path: Path, *, step: int, epoch: int) -> None:
    """Forget what happened after ``step``, and the ends of ``epoch`` and later ones: it will all be written again."""
    kept = [
        entry
        for entry in read_log(path)
        if entry.get("step", 0) <= step and not (entry.get("event") == "epoch" and entry.get("epoch", 0) >= epoch)
    ]
    if path.exists():
        write_file(path, "".join(json.dumps(entry) + "\n" for entry in kept).encode())


def create_run(folder: Path, files: Mapping[str, bytes]) -> None:
    """A new run folder with ``files`` in it, all of them or no folder at all."""
    partial = folder.with_name(f".{folder.name}{_PARTIAL}")
    try:
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
    except OSError as error:
        raise InputError(f"{folder} cannot be made: {error.strerror or error}; give another --out.") from error
    try:
        for name, data in files.items():
            write_file(partial / name, data)
    except InputError:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    try:
        os.replace(partial, folder)  # an empty folder may be there already
    except OSError:
        shutil.rmtree(partial, ignore_errors=True)
        raise InputError(f"{folder} exists and is not a run of ours; give another --out.") from None
    _sync_folder(folder.parent)


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the run folder for this process; the system lets go when it ends, however it ends."""
    try:
        import fcntl
    except ImportError:  # no such locks on this system: go on without
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise InputError(
                f"Another process is training in {folder}; wait for it, stop it, or give another --out."
            ) from None
        yield
    finally:
        os.close(handle)


def model_tensors(model: torch.nn.Module) -> dict[str, Tensor]:
    """The weights under their names; weights that are shared once, under their first name."""
    seen: dict[int, str] = {}
    named = model.state_dict(keep_vars=True)  # shared weights are the same object there
    for name, tensor in named.items():
        seen.setdefault(id(tensor), name)
    return {f"model.{name}": named[name] for name in seen.values()}


def optimiser_tensors(model: torch.nn.Module, optimiser: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The optimiser's state under the names of the weights."""
    return {
        f"optimiser.{key}.{name}": value
        for name, parameter in model.named_parameters()
        for key, value in optimiser.state.get(parameter, {}).items()
    }


def restore(
    path: Path, model: torch.nn.Module, optimiser: torch.optim.Optimizer, average: Average | None = None
) -> dict[str, Any]:
    """Load weights, the optimiser's state and the averaged weights from ``path``; returns the facts."""
    tensors, facts = read_weights(path)
    put_weights(path, model, tensors)
    _restore_optimiser(path, model, optimiser, tensors)
    if average is not None:
        average.restore(path, tensors)
    return facts


def put_weights(path: Path, model: torch.nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Load the weights among ``tensors`` (read from ``path``) into the model, if they fit."""
    weights = {name.removeprefix("model."): t for name, t in tensors.items() if name.startswith("model.")}
    expected = {name.removeprefix("model."): tuple(t.shape) for name, t in model_tensors(model).items()}
    found = {name: tuple(t.shape) for name, t in weights.items()}
    if wrong := [n for n in sorted(expected.keys() | found.keys()) if expected.get(n) != found.get(n)]:
        raise InputError(
            f"{path} does not fit this run's settings and vocabulary: {wrong[0]} has shape {found.get(wrong[0])}, "
            f"not {expected.get(wrong[0])}; the folder mixes files of different runs."
        )
    model.load_state_dict(weights, strict=False)  # the other names of shared weights are left out


def _restore_optimiser(
    path: Path, model: torch.nn.Module, optimiser: torch.optim.Optimizer, tensors: Mapping[str, Tensor]
) -> None:
    states: dict[str, dict[str, Tensor]] = {}
    for key, tensor in tensors.items():
        if key.startswith("optimiser."):
            _, what, name = key.split(".", 2)
            states.setdefault(name, {})[what] = tensor
    for name, parameter in model.named_parameters():
        if parameter.requires_grad and name not in states:
            raise InputError(f"{path} has no optimiser state for {name}; the folder mixes files of different runs.")
        if name in states:
            optimiser.state[parameter] = states[name]


def _sync_folder(folder: Path) -> None:
    """Force a rename to disk, where the system can."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
