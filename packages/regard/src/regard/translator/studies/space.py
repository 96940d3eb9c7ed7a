"""What a search may try: choices and ranges of settings, in TOML, with the settings' own sections and keys.

Some settings stay as they are, because changing them would change what perplexity means or what it costs: the data,
the vocabulary and tokenisation, the epochs, the seed, and that a model of one layer has one.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.declared_tables import Mistakes, entry, read_table, suggest
from regard.errors import InputError
from regard.translator.runs.settings import ARGUMENTS, Settings, own_arguments, read_config

_ONE_LAYER = ("encoder", "reads-padding")
_FIXED = {
    "data": "the data stays the same, or perplexities would not compare",
    "vocabulary": "vocabulary and tokenisation stay the same: a smaller vocabulary alone lowers perplexity",
    "training.epochs": "epochs stay the same: more epochs alone do not count as tuning",
    "training.seed": "the seed is not a setting to tune; --confirm trains the winner with seeds of its own",
    "training.threads": "threads change how long it takes, not what is learnt",
    "training.device": "the device changes how long it takes, not what is learnt",
    "training.save_every": "checkpoints do not change what is learnt",
}


@dataclass(frozen=True, kw_only=True)
class Range:
    """Numbers from ``low`` to ``high``, both included; evenly in the logarithm if ``log``."""

    low: int | float = entry(about="the smallest value to try")
    high: int | float = entry(about="the largest value to try")
    step: int | float | None = entry(None, "try only low, low + step, ...", above=0)
    log: bool = entry(False, "evenly in the logarithm")


@dataclass(frozen=True, kw_only=True)
class Space:
    """What may be tried for each ``section.key``."""

    name: str
    entries: Mapping[str, list[Any] | Range]

    def to_dict(self) -> dict[str, Any]:
        """As JSON values, to tell two spaces apart; the name does not count."""
        return {
            key: tried if isinstance(tried, list) else {k: v for k, v in vars(tried).items() if v is not None}
            for key, tried in self.entries.items()
        }

    def defaults(self, settings: Settings) -> dict[str, Any] | None:
        """The settings' own values, if this space has them all."""
        values = {key: value_of(settings, key) for key in self.entries}
        return values if self.holds(values) else None

    def holds(self, values: Mapping[str, Any]) -> bool:
        """Whether these are values of this space, one for each of its settings."""
        return values.keys() == self.entries.keys() and all(_holds(self.entries[k], v) for k, v in values.items())


def load_space(space: str | Path | None, settings: Settings, *, taken: Collection[str] | None = None) -> Space:
    """A search space from a TOML file, or a built-in one by its name (coursework, quick, good).

    None: the built-in one for the settings' kind of model. Of somebody's own model only those settings of the sections
    model and embedding can be tried that are ``taken`` by its constructor: a built-in space leaves out the others.
    Raises InputError naming every mistake at once.
    """
    name = str(space if space is not None else "good" if settings.model.kind == "encoder-decoder" else "coursework")
    values = read_config(name, folder="configs/spaces", what="search space")
    mistakes = Mistakes(f"The search space {name}")
    entries: dict[str, list[Any] | Range] = {}
    for key, given in _flat(values, mistakes):
        if taken is not None and key.partition(".")[0] in ("model", "embedding", "arguments") and key not in taken:
            if Path(name).exists():
                mistakes.add(f"{key} cannot be searched: your model takes {', '.join(sorted(taken))}.")
        elif taken is not None and key.startswith(ARGUMENTS):
            if isinstance(given, list) and given:
                entries[key] = given
            else:
                mistakes.add(f"{key} needs a list of one choice or more, not {given!r}.")
        elif tried := _choices_or_range(key, given, settings, mistakes):
            entries[key] = tried
    if not entries and not mistakes.sentences:
        mistakes.add("it has nothing to try.")
    mistakes.raise_if_any()
    return Space(name=name, entries=entries)


def change(key: str, value: Any) -> str:
    """``key=value`` as :meth:`Settings.with_changes` reads it.

    >>> change("model.width", 64), change("training.schedule", "cosine")
    ('model.width=64', 'training.schedule="cosine"')
    """
    return f"{key}={json.dumps(value, ensure_ascii=False)}"  # TOML writes these values as JSON does


def with_values(settings: Settings, values: Mapping[str, Any]) -> Settings:
    """The settings with these values; those of ``arguments`` go into ``model.arguments``, together."""
    more = {k.removeprefix(ARGUMENTS): v for k, v in values.items() if k.startswith(ARGUMENTS)}
    plain = {k: v for k, v in values.items() if not k.startswith(ARGUMENTS)}
    if more:
        plain["model.arguments"] = json.dumps(own_arguments(settings) | more)
    return settings.with_changes([change(key, value) for key, value in plain.items()])


def value_of(settings: Settings, key: str) -> Any:
    """The value of ``section.key``; None of an argument that the settings do not give."""
    section, _, name = key.partition(".")
    if key.startswith(ARGUMENTS):
        return own_arguments(settings).get(name)
    return getattr(getattr(settings, section), name)


def _flat(values: Mapping[str, Any], mistakes: Mistakes) -> Iterator[tuple[str, Any]]:
    for section, content in values.items():
        if isinstance(content, Mapping):
            yield from ((f"{section}.{key}", given) for key, given in content.items())
        else:
            mistakes.add(f"{section} must be a section: write [{section}] on a line of its own.")


def _choices_or_range(key: str, given: Any, settings: Settings, mistakes: Mistakes) -> list[Any] | Range | None:
    fixed = _FIXED.get(key) or _FIXED.get(key.partition(".")[0])
    if key in ("model.layers", "model.decoder_layers") and settings.model.kind in _ONE_LAYER:
        fixed = "one layer stays one layer"
    if fixed:
        mistakes.add(f"{key} cannot be searched: {fixed}.")
        return None
    known = [f"{section}.{name}" for section, content in dataclasses.asdict(settings).items() for name in content]
    if key not in known:
        mistakes.add(f"there is no setting {key!r}{suggest(key, known)}")
        return None
    if isinstance(given, list):
        return _choices(key, given, settings, mistakes)
    if isinstance(given, Mapping):
        return _range(key, given, settings, mistakes)
    mistakes.add(f"{key} must be a list of choices or a range {{low = ..., high = ...}}, not {given!r}.")
    return None


def _choices(key: str, given: list[Any], settings: Settings, mistakes: Mistakes) -> list[Any] | None:
    before = len(mistakes.sentences)
    if not given or len({json.dumps(v) for v in given}) < len(given):
        mistakes.add(f"{key} needs one choice or more, each once.")
    if key == "model.kind":
        _add_unlike_kinds(given, settings, mistakes)
    for value in given:
        _add_refusal(key, value, settings, mistakes)
    if len(mistakes.sentences) > before:
        return None
    kind = type(value_of(settings, key))
    return [kind(value) for value in given]


def _add_unlike_kinds(given: list[Any], settings: Settings, mistakes: Mistakes) -> None:
    """Kinds that have one layer where the settings' has several, or the other way round."""
    one_layer = settings.model.kind in _ONE_LAYER
    rule = "one layer stays one layer" if one_layer else f"it has one layer, and {settings.model.kind} has several"
    for kind in given:
        if (kind in _ONE_LAYER) != one_layer:
            mistakes.add(f"model.kind cannot be {kind!r}: {rule}.")


def _range(key: str, given: Mapping[str, Any], settings: Settings, mistakes: Mistakes) -> Range | None:
    before = len(mistakes.sentences)
    if type(value_of(settings, key)) not in (int, float):
        mistakes.add(f"{key} is not a number, so it needs a list of choices.")
        return None
    wanted = read_table(Range, given, mistakes, where=f"{key}: ")
    if wanted is None:
        return None
    if wanted.low >= wanted.high:
        mistakes.add(f"{key}: low must be below high, and they are {wanted.low} and {wanted.high}.")
    if wanted.log and (wanted.low <= 0 or wanted.step is not None):
        mistakes.add(f"{key}: a logarithmic range needs low above 0 and no step.")
    for value in (wanted.low, wanted.high):
        _add_refusal(key, value, settings, mistakes)
    return wanted if len(mistakes.sentences) == before else None


def _add_refusal(key: str, value: Any, settings: Settings, mistakes: Mistakes) -> None:
    """What the settings say against one value; conflicts with other settings are the search's business."""
    try:
        settings.with_changes([change(key, value)])
    except InputError as error:
        lines = [line.removeprefix("- ") for line in str(error).splitlines()[1:]]
        for line in [line for line in lines if line.startswith(key)][:1]:
            mistakes.add(line)


def _holds(tried: list[Any] | Range, value: Any) -> bool:
    if isinstance(tried, list):
        return value in tried
    number = float(value)
    steps = (number - tried.low) / (tried.step or 1)
    # 0.1 + 0.2 is not 0.3: a value on a step is one up to rounding
    on_a_step = tried.step is None or abs(steps - round(steps)) < 1e-9
    return tried.low <= number <= tried.high and on_a_step
