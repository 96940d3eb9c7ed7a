"""Every setting of a run, in one commented TOML file; all mistakes in it are reported at once.

A setting is declared once, below: its default, its rule and the comment that appears above it in the file.
The defaults are the coursework's. ``--set section.key=value`` overrides one; the section may be left out where
the key has only one.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from regard.declared_tables import Mistakes, check_value, commented_lines, entry, field_rule, suggest
from regard.errors import InputError
from regard.strict_json import parse_json
from regard.toml import parse_toml, read_toml

_RETIRED = {  # settings and sections that earlier versions wrote: ignored with a note, so that old files stay readable
    "training.both_directions": "a run has one direction",
    "vocabulary.piece_dropout": "words are cut into the same pieces in every epoch",
    "fast": 'what it switched on is always on, and batching = "mixed" in [training] is for batches of mixed lengths',
}
_RETIRED_KINDS = ("ctc",)  # of model.kind: their weights fit no model that there is now
_VECTORS = {
    "test": re.compile(r"learned|word2vec:train|(glove|word2vec|bert):.+").fullmatch,
    "form": "learned, glove:FILE, word2vec:FILE, word2vec:train or bert:DIR",
}
_ARGUMENTS = {"test": re.compile(r'(\{\s*(".*)?\})?').fullmatch, "form": 'JSON such as {"activation": "gelu"}'}
ARGUMENTS = "arguments."  # in a search space: what a constructor takes under names of its own
_LANGUAGE = {"test": re.compile(r"[A-Za-z_-]+").fullmatch, "form": "a language like de or en"}


@dataclass(frozen=True, kw_only=True)
class DataSettings:
    """What is translated into what."""

    path: str = entry(
        "builtin", "a folder of train.de, train.en, val.de, ... (.gz too), a .tsv file, hf:NAME, or builtin"
    )
    source: str = entry("de", "the language translated from: the ending of its files", **_LANGUAGE)
    target: str = entry("en", "the language translated into", **_LANGUAGE)
    test: str = entry("", "which test set, where the folder has several; empty = the only one")
    longest: int = entry(18, "pairs with more tokens on either side are dropped (two markers come on top)", least=1)
    remove_leaks: bool = entry(False, "drop training pairs whose source sentence is in another split")
    size: int = entry(20000, "training pairs to take (built-in corpus only, which has 20,000)", least=10, most=10**6)
    share: float = entry(
        1.0, "share of the training pairs to train on; words and pretrained vectors are of all", above=0.0, most=1.0
    )


@dataclass(frozen=True, kw_only=True)
class VocabularySettings:
    """How sentences become token ids. Perplexities compare only where all of this is equal."""

    kind: str = entry("words", "words, or bpe (byte-pair pieces)", choices=("words", "bpe"))
    lowercase: bool = entry(True, "lower-case both sides")
    minimum_frequency: int = entry(2, "rarer words become <unk>", least=1)
    size: int = entry(0, "the largest vocabulary, markers included; 0 = no limit for words, 4000 for bpe", least=0)
    joint: bool = entry(False, "one vocabulary for both languages")


@dataclass(frozen=True, kw_only=True)
class EmbeddingSettings:
    """Where word vectors come from: learned, glove:FILE, word2vec:FILE, word2vec:train, bert:DIR or bert:hf:NAME."""

    source: str = entry("learned", "vectors of the source words", **_VECTORS)
    target: str = entry("learned", "vectors of the target words (the output layer)", **_VECTORS)
    frozen: bool = entry(False, "keep pretrained vectors as they are; false = train them on")
    positions: str = entry(
        "learned",
        "learned (BERT-style), sinusoidal, rotary, or none",
        choices=("learned", "sinusoidal", "rotary", "none"),
    )
    start: str = entry(
        "short",
        "where learned rows start: short (words of length about 1, places shorter, padding 0), or normal (torch's "
        "default: standard normal numbers, padding too)",
        choices=("short", "normal"),
    )


@dataclass(frozen=True, kw_only=True)
class ModelSettings:
    """The network. Its kind names a class of regard.translator."""

    kind: str = entry(
        "encoder",
        "encoder (one layer, padding never read), reads-padding (as the coursework: padded to the longest, no mask), "
        "encoder-decoder, or own (train --model FILE.py:NAME)",
        choices=("encoder", "reads-padding", "encoder-decoder", "own"),
    )
    layers: int = entry(1, "encoder layers; encoder and reads-padding have one", least=1)
    decoder_layers: int = entry(0, "layers of the decoder; 0 for encoder and reads-padding", least=0)
    tied: bool = entry(False, "one matrix for source, target and output (encoder-decoder only; needs vocabulary.joint)")
    width: int = entry(128, "the hidden width", least=1)
    heads: int = entry(2, "attention heads", least=1)
    head_width: int = entry(96, "width of the keys, queries and values of one head", least=1)
    feed_forward: int = entry(2048, "width inside the feed-forward part", least=1)
    dropout: float = entry(0.0, "share of the states zeroed in training, in steps of 1/256", least=0.0, most=0.996)
    arguments: str = entry(
        "", 'more arguments of a class of your own, as JSON: {"activation": "gelu"}; empty = none', **_ARGUMENTS
    )


@dataclass(frozen=True, kw_only=True)
class TrainingSettings:
    """How it is trained."""

    epochs: int = entry(10, "passes over the training pairs", least=1)
    batch: int = entry(128, "sentence pairs in a batch", least=1)
    batch_tokens: int = entry(0, "target tokens in a batch, about; 0 = count sentence pairs instead", least=0)
    batching: str = entry(
        "mixed",
        "mixed (any sentences together), or equal-length (one source length per batch, as many tokens in each)",
        choices=("mixed", "equal-length"),
    )
    optimiser: str = entry(
        "adamw",
        "adamw, or muon (orthogonal steps for the matrices between states, adamw for the rest)",
        choices=("adamw", "muon"),
    )
    learning_rate: float = entry(1e-3, "the step size, at its highest", above=0.0)
    schedule: str = entry(
        "constant",
        "what the rate does after the warm-up: constant, linear (to 0) or cosine (to 0)",
        choices=("constant", "linear", "cosine"),
    )
    warmup: int = entry(0, "steps over which the rate rises from 0", least=0)
    beta2: float = entry(
        0.999, "how slowly Adam's second moment forgets (0.98: about the last 50 steps)", least=0.0, below=1.0
    )
    weight_decay: float = entry(0.0, "decoupled weight decay (AdamW)", least=0.0)
    clip: float = entry(0.0, "the longest gradient, as a norm over all weights; 0 = no limit", least=0.0)
    smoothing: float = entry(0.0, "label smoothing of the training loss; never of a perplexity", least=0.0, below=1.0)
    agreement: float = entry(
        0.0,
        "how strongly two passes over each batch, with different dropout, must agree (R-Drop's alpha; 5: strongly); "
        "0 = one pass",
        least=0.0,
        most=1000.0,
    )
    average: float = entry(
        0.0,
        "how slowly the averaged weights, the ones kept and used, follow the trained ones (0.995: about the last 200 "
        "steps); 0 = no average",
        least=0.0,
        below=1.0,
    )
    seed: int = entry(0, "the run is a function of the settings, the data and this", least=0, most=2**31 - 1)
    threads: int = entry(
        1, "CPU threads; the weights are bit-for-bit equal only for an equal number", least=1, most=1024
    )
    device: str = entry(
        "auto",
        "where it is computed: auto (a graphics card if there is one), cpu, cuda or mps; a run may go on on another",
        test=re.compile(r"auto|cpu|mps|cuda(:[0-9]+)?").fullmatch,
        form="auto, cpu, cuda, cuda:1 or mps",
    )
    save_every: int = entry(100, "steps between checkpoints (and one after every epoch)", least=1)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """All settings of a run; the defaults are the coursework's.

    >>> changed = Settings().with_changes(["width=64", "training.seed=3"])
    >>> changed.model.width, changed.training.seed, changed.training.batch
    (64, 3, 128)
    """

    data: DataSettings = DataSettings()
    vocabulary: VocabularySettings = VocabularySettings()
    embedding: EmbeddingSettings = EmbeddingSettings()
    model: ModelSettings = ModelSettings()
    training: TrainingSettings = TrainingSettings()

    def with_changes(self, changes: Sequence[str]) -> Settings:
        """A copy with every ``key=value`` of ``changes`` applied; raises InputError naming every mistake."""
        return _build(self.to_dict(), changes, "The settings")

    def to_dict(self) -> dict[str, dict[str, Any]]:
        """Sections of plain values."""
        return dataclasses.asdict(self)

    def to_toml(self) -> str:
        """The commented file that reads back as these settings."""
        parts = []
        for name, section in ((f.name, getattr(self, f.name)) for f in dataclasses.fields(self)):
            parts.append(f"[{name}]  # {section.__doc__.splitlines()[0]}")
            parts += [*commented_lines(section), ""]
        return "\n".join(parts)

    def unequal_values(self, other: Settings) -> dict[str, tuple[Any, Any]]:
        """What differs, by ``section.key``: ours and theirs; a run may go on on another device."""
        ours, theirs = _flat(self.to_dict()), _flat(other.to_dict())
        both = {key: (value, theirs[key]) for key, value in ours.items() if key != "training.device"}
        return {key: values for key, values in both.items() if values[0] != values[1]}

    def differences(self, other: Settings) -> list[str]:
        """The same, each as ``section.key: ours, theirs``."""
        return [f"{key}: {ours!r}, {theirs!r}" for key, (ours, theirs) in self.unequal_values(other).items()]


def load_settings(
    config: str | Path | None = None, *, changes: Sequence[str] = (), notes: list[str] | None = None
) -> Settings:
    """Settings from a TOML file, a built-in configuration by its name, or (None) the defaults, then ``changes``.

    What the file leaves out keeps its default. A setting that is retired is passed over; ``notes`` gets a sentence.

    >>> load_settings("coursework") == Settings()
    True
    >>> load_settings(changes=["widht=7", "training.batch=many"])
    Traceback (most recent call last):
        ...
    regard.errors.InputError: The settings have 2 mistakes:
    - there is no setting 'widht'; did you mean 'width'?
    - training.batch must be a whole number of 1 or more, not 'many'.
    """
    if config is None:
        return _build({}, changes, "The settings", notes)
    return _build(read_config(config), changes, str(config), notes)


def own_arguments(settings: Settings) -> dict[str, Any]:
    """What ``model.arguments`` says, by the constructor's own names."""
    try:
        given = parse_json(settings.model.arguments or "{}")
    except ValueError:
        given = None
    if not isinstance(given, dict):
        raise InputError(f'model.arguments must be JSON such as {{"bias": false}}, not {settings.model.arguments!r}.')
    return given


def saved_settings(values: Mapping[str, Any]) -> Settings:
    """Settings that were saved, perhaps by an earlier version: what it lacked was at its default then.

    >>> saved = saved_settings({"training": {"epochs": 3, "both_directions": 0}}).training  # the second is retired
    >>> saved.epochs, saved.optimiser
    (3, 'adamw')
    """
    return _build(values, (), "The saved file of settings")


def builtin_configs(folder: str = "configs") -> dict[str, str]:
    """The configurations that come with the package: name and text."""
    items = [item for item in resources.files("regard").joinpath(folder).iterdir() if item.name.endswith(".toml")]
    return {
        item.name.removesuffix(".toml"): item.read_text(encoding="utf-8")
        for item in sorted(items, key=lambda item: item.name)
    }


def read_config(config: str | Path, *, folder: str = "configs", what: str = "settings file") -> dict[str, Any]:
    """The table of a TOML file, or of the one in a folder of the package that has this name."""
    known = builtin_configs(folder)
    if not Path(config).exists() and str(config) in known:
        return parse_toml(known[str(config)])
    try:
        return read_toml(config, like=f"{folder}/coursework.toml")
    except FileNotFoundError:
        raise InputError(f"There is no {what} {config}; give a .toml file or one of: {', '.join(known)}.") from None


def _build(values: Mapping[str, Any], changes: Sequence[str], thing: str, notes: list[str] | None = None) -> Settings:
    """Check everything, complain once."""
    mistakes = Mistakes(thing, verb="has" if thing != "The settings" else "have")
    flat = _flatten_sections(values, mistakes)
    for change in changes:
        _apply(change, flat, mistakes)
    for key in [key for key in flat if _retired_name(key)]:
        del flat[key]
        if notes is not None:
            name = _retired_name(key)
            notes.append(f"{thing}: {name} is of an earlier version and is ignored: {_RETIRED[name]}.")
    checked = {key: _check_value(key, value, mistakes) for key, value in flat.items()}
    mistakes.raise_if_any()
    settings = _settings_from_flat(checked)
    for conflict in _conflicts(settings):
        mistakes.add(conflict)
    mistakes.raise_if_any()
    return settings


def _flatten_sections(values: Mapping[str, Any], mistakes: Mistakes) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for section, content in values.items():
        if section in _RETIRED:
            flat[section] = content
        elif section not in _SECTIONS:
            mistakes.add(f"there is no section [{section}]{suggest(section, list(_SECTIONS))}")
        elif not isinstance(content, Mapping):
            mistakes.add(f"{section} must be a section: write [{section}] on a line of its own.")
        else:
            flat |= {f"{section}.{key}": value for key, value in content.items()}
    return flat


def _retired_name(key: str) -> str:
    """The name in the table of what is retired, with or without its section, that a key belongs to; else nothing."""
    return next((name for name in _RETIRED if key.startswith(f"{name}.") or f".{name}".endswith(f".{key}")), "")


def _apply(change: str, flat: dict[str, Any], mistakes: Mistakes) -> None:
    key, equals, text = change.partition("=")
    key = key.strip()
    matches = [name for name in _FIELDS if name == key or name.endswith(f".{key}")]
    if not equals:
        mistakes.add(f"--set takes key=value, not {change!r}.")
    elif len(matches) > 1 and key not in matches:
        mistakes.add(f"{key!r} could be {' or '.join(matches)}; write the section too.")
    elif matches:
        flat[key if key in matches else matches[0]] = _value(text.strip())
    else:
        flat[key] = _value(text.strip())  # reported as unknown, with the nearest name


def _value(text: str) -> Any:
    """A TOML value where it is one (3, 1e-3, true, "x"), else the text itself."""
    try:
        value = parse_toml(f"value = {text}")["value"]
    except ValueError:
        return text
    return text if isinstance(value, int | float) and "_" in text else value  # 1_0 is hardly ever meant for ten


def _check_value(key: str, value: Any, mistakes: Mistakes) -> Any:
    section, dot, name = key.rpartition(".")
    if key not in _FIELDS:
        known = suggest(key, _FIELDS) if dot else suggest(name, [field.rpartition(".")[2] for field in _FIELDS])
        mistakes.add(f"there is no setting {key!r}{known}")
        return value
    checked, problem = check_value(value, *field_rule(_SECTIONS[section], name))
    if problem:
        old = " (version 0.2.0 had that kind and still opens its runs)" if value in _RETIRED_KINDS else ""
        mistakes.add(f"{key} {problem}{old}.")
    return checked


def _conflicts(settings: Settings) -> list[str]:
    """Settings that are each fine and do not fit together."""
    s, model = settings, settings.model
    rules = {
        f"data.source and data.target are both {s.data.source!r}; give two languages.": s.data.source == s.data.target,
        f"rotary positions need an even model.head_width, not {model.head_width}.": (
            s.embedding.positions == "rotary" and model.head_width % 2
        ),
        "vocabulary.size must leave room for 4 markers and a word: 0 (no limit) or 5 and more.": (
            s.vocabulary.kind == "words" and 0 < s.vocabulary.size < 5
        ),
        "training.agreement compares two passes that dropout makes differ; set model.dropout too.": (
            s.training.agreement and not model.dropout and model.kind != "own"
        ),
        **(_own_conflicts(s) if model.kind == "own" else _model_conflicts(s)),
    }
    return [sentence for sentence, broken in rules.items() if broken]


def _own_conflicts(settings: Settings) -> dict[str, object]:
    """What cannot be asked of somebody's own model, which says and does everything itself."""
    end = "which is not for a model of your own (model.kind own): leave it out."
    target, model = settings.embedding.target, settings.model
    return {
        f"embedding.target is {target!r}, {end}": target != "learned",
        f"model.tied is {model.tied!r}, {end}": model.tied,
        f"model.decoder_layers is {model.decoder_layers!r}, {end}": model.decoder_layers,
    }


def _model_conflicts(settings: Settings) -> dict[str, object]:
    model, source, target = settings.model, settings.embedding.source, settings.embedding.target
    one_layer = model.kind in ("encoder", "reads-padding")
    return {
        f"model.kind {model.kind} has one layer and no decoder, not model.layers {model.layers} and "
        f"model.decoder_layers {model.decoder_layers}; use model.kind encoder-decoder.": (
            one_layer and (model.layers != 1 or model.decoder_layers)
        ),
        f"model.kind {model.kind} cannot be tied; use encoder-decoder, or model.tied=false.": one_layer and model.tied,
        f"model.kind {model.kind} needs model.decoder_layers of 1 or more, not 0.": (
            not one_layer and not model.decoder_layers
        ),
        f"embedding.start normal is for the one-layer kinds; model.kind {model.kind} starts short.": (
            not one_layer and settings.embedding.start == "normal"
        ),
        "model.tied needs one vocabulary for both languages; set vocabulary.joint=true.": (
            model.tied and not settings.vocabulary.joint
        ),
        f"model.tied has one matrix, but embedding.source is {source!r} and embedding.target {target!r}; make them "
        "equal.": model.tied and source != target,
    }


def _settings_from_flat(flat: Mapping[str, Any]) -> Settings:
    sections: dict[str, dict[str, Any]] = {name: {} for name in _SECTIONS}
    for key, value in flat.items():
        section, _, name = key.partition(".")
        sections[section][name] = value
    return Settings(**{name: _SECTIONS[name](**content) for name, content in sections.items()})


def _flat(values: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    return {f"{section}.{key}": value for section, content in values.items() for key, value in content.items()}


_SECTIONS: dict[str, Any] = {f.name: type(f.default) for f in dataclasses.fields(Settings)}
_FIELDS = [f"{name}.{f.name}" for name, kind in _SECTIONS.items() for f in dataclasses.fields(kind)]
