"""What a search may try: choices and ranges of settings, in TOML, with the settings' own sections and keys.

Some settings stay as they are, because changing them would change what perplexity means or what it costs: the data,
the vocabulary and tokenisation, the epochs, the seed, and that a model of one layer has one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from regard.errors import InputError
from regard.toml import parse_toml, read_toml
from regard.translator.runs.settings import Settings
from regard.written_numbers import is_finite_number

_ONE_LAYER = ("encoder", "reads-padding")
_FIXED = {
    "data": "the data stays the same, or perplexities would not compare",
    "vocabulary": "vocabulary and tokenisation stay the same: a smaller vocabulary alone lowers perplexity",
    "training.epochs": "epochs stay the same: more epochs alone do not count as tuning",
    "training.seed": "the seed is not a setting to tune; --confirm trains the winner with seeds of its own",
    "training.threads": "threads change how long it takes, not what is learnt",
    "training.save_every": "checkpoints do not change what is learnt",
}
_BUILT_IN = {"encoder-decoder": "good", "ctc": "ctc"}  # the space of a kind; of the others, coursework


@dataclass(frozen=True, kw_only=True)
class Range:
    """Numbers from ``low`` to ``high``, both included; evenly in the logarithm if ``log``."""

    low: float
    high: float
    step: float | None = None
    log: bool = False


@dataclass(frozen=True, kw_only=True)
class Space:
    """What may be tried for each ``section.key``."""

    name: str
    entries: Mapping[str, list[Any] | Range]

    def to_dict(self) -> dict[str, Any]:
        """As JSON values, to tell two spaces apart; the name does not count."""
        return {
            key: entry if isinstance(entry, list) else {k: v for k, v in vars(entry).items() if v is not None}
            for key, entry in self.entries.items()
        }

    def defaults(self, settings: Settings) -> dict[str, Any] | None:
        """The settings' own values, if this space has them all."""
        values = {key: value_of(settings, key) for key in self.entries}
        return values if self.holds(values) else None

    def holds(self, values: Mapping[str, Any]) -> bool:
        """Whether these are values of this space, one for each of its settings."""
        return values.keys() == self.entries.keys() and all(_holds(self.entries[k], v) for k, v in values.items())


def load_space(space: str | Path | None, settings: Settings) -> Space:
    """A search space from a TOML file, or a built-in one by its name (coursework, quick, good, ctc).

    None: the built-in one for the settings' kind of model. Raises InputError naming every mistake at once.
    """
    name = _BUILT_IN.get(settings.model.kind, "coursework") if space is None else str(space)
    values = _read(name)
    mistakes: list[str] = []
    entries = {
        key: entry for key, given in _flat(values, mistakes) if (entry := _entry(key, given, settings, mistakes))
    }
    if not entries and not mistakes:
        mistakes.append("it has nothing to try.")
    if mistakes:
        count = "a mistake" if len(mistakes) == 1 else f"{len(mistakes)} mistakes"
        raise InputError("\n- ".join([f"The search space {name} has {count}:", *mistakes]))
    return Space(name=name, entries=entries)


def change(key: str, value: Any) -> str:
    """``key=value`` as :meth:`Settings.with_changes` reads it.

    >>> change("model.width", 64), change("training.schedule", "cosine")
    ('model.width=64', 'training.schedule="cosine"')
    """
    return f"{key}={json.dumps(value, ensure_ascii=False)}"  # TOML writes these values as JSON does


def value_of(settings: Settings, key: str) -> Any:
    """The value of ``section.key``."""
    section, _, name = key.partition(".")
    return getattr(getattr(settings, section), name)


def _read(name: str) -> dict[str, Any]:
    known = {
        item.name.removesuffix(".toml"): item
        for item in (resources.files("regard") / "configs" / "spaces").iterdir()
        if item.name.endswith(".toml")
    }
    try:
        if not Path(name).exists() and name in known:
            return parse_toml(known[name].read_text(encoding="utf-8"))
        return read_toml(name, like="configs/spaces/coursework.toml")
    except FileNotFoundError:
        raise InputError(
            f"There is no search space {name}; give a .toml file or one of: {', '.join(sorted(known))}."
        ) from None


def _flat(values: Mapping[str, Any], mistakes: list[str]) -> Iterator[tuple[str, Any]]:
    for section, content in values.items():
        if isinstance(content, Mapping):
            yield from ((f"{section}.{key}", given) for key, given in content.items())
        else:
            mistakes.append(f"{section} must be a section: write [{section}] on a line of its own.")


def _entry(key: str, given: Any, settings: Settings, mistakes: list[str]) -> list[Any] | Range | None:
    fixed = _FIXED.get(key) or _FIXED.get(key.partition(".")[0])
    if key in ("model.layers", "model.decoder_layers") and settings.model.kind in _ONE_LAYER:
        fixed = "one layer stays one layer"
    if fixed:
        mistakes.append(f"{key} cannot be searched: {fixed}.")
        return None
    section, _, name = key.partition(".")
    if not hasattr(settings, section) or not hasattr(getattr(settings, section), name):
        mistakes.append(f"there is no setting {key!r}.")
        return None
    if isinstance(given, list):
        return _choices(key, given, settings, mistakes)
    if isinstance(given, Mapping):
        return _range(key, given, settings, mistakes)
    mistakes.append(f"{key} must be a list of choices or a range {{low = ..., high = ...}}, not {given!r}.")
    return None


def _choices(key: str, given: list[Any], settings: Settings, mistakes: list[str]) -> list[Any] | None:
    before = len(mistakes)
    if not given or len({json.dumps(v) for v in given}) < len(given):
        mistakes.append(f"{key} needs one choice or more, each once.")
    if key == "model.kind":
        mistakes.extend(_unlike_kinds(given, settings))
    mistakes.extend(problem for value in given if (problem := _refusal(key, value, settings)))
    if len(mistakes) > before:
        return None
    kind = type(value_of(settings, key))
    return [kind(value) for value in given]


def _unlike_kinds(given: list[Any], settings: Settings) -> Iterator[str]:
    """Kinds that have one layer where the settings' has several, or the other way round."""
    one_layer = settings.model.kind in _ONE_LAYER
    rule = "one layer stays one layer" if one_layer else f"it has one layer, and {settings.model.kind} has several"
    yield from (f"model.kind cannot be {kind!r}: {rule}." for kind in given if (kind in _ONE_LAYER) != one_layer)


def _range(key: str, given: Mapping[str, Any], settings: Settings, mistakes: list[str]) -> Range | None:
    before = len(mistakes)
    unknown = sorted(given.keys() - {"low", "high", "step", "log"})
    if unknown or not {"low", "high"} <= given.keys():
        mistakes.append(f"{key} needs low and high, and may have step or log; it has {', '.join(given)}.")
        return None
    numbers = [given[k] for k in ("low", "high", "step") if k in given]
    if not all(map(is_finite_number, numbers)):
        mistakes.append(f"{key}: low, high and step must be numbers, and they are {str(numbers)[:200]}.")
        return None
    if type(value_of(settings, key)) not in (int, float):
        mistakes.append(f"{key} is not a number, so it needs a list of choices.")
        return None
    wanted = Range(low=given["low"], high=given["high"], step=given.get("step"), log=bool(given.get("log", False)))
    if wanted.low >= wanted.high:
        mistakes.append(f"{key}: low must be below high, and they are {wanted.low} and {wanted.high}.")
    if wanted.log and (wanted.low <= 0 or wanted.step is not None):
        mistakes.append(f"{key}: a logarithmic range needs low above 0 and no step.")
    if wanted.step is not None and wanted.step <= 0:
        mistakes.append(f"{key}: step must be above 0, not {wanted.step}.")
    mistakes.extend(problem for value in (wanted.low, wanted.high) if (problem := _refusal(key, value, settings)))
    return wanted if len(mistakes) == before else None


def _refusal(key: str, value: Any, settings: Settings) -> str:
    """What the settings say against one value; conflicts with other settings are the search's business."""
    try:
        settings.with_changes([change(key, value)])
    except InputError as error:
        lines = [line.removeprefix("- ") for line in str(error).splitlines()[1:]]
        return next((line for line in lines if line.startswith(key)), "")
    return ""


def _holds(entry: list[Any] | Range, value: Any) -> bool:
    if isinstance(entry, list):
        return value in entry
    number = float(value)
    steps = (number - entry.low) / (entry.step or 1)
    # 0.1 + 0.2 is not 0.3: a value on a step is one up to rounding
    on_a_step = entry.step is None or abs(steps - round(steps)) < 1e-9
    return entry.low <= number <= entry.high and on_a_step
