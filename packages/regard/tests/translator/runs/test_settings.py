"""Settings: the file and the declarations agree, and every mistake is named at once."""

from __future__ import annotations

import dataclasses
import re
import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from regard.cli.translator import app
from regard.errors import InputError
from regard.translator.runs.settings import Settings, builtin_configs, load_settings


def test_the_coursework_file_is_the_defaults_with_every_key_commented():
    text = builtin_configs()["coursework"]
    assert text.endswith(Settings().to_toml())
    lines = text.splitlines()
    keys = [i for i, line in enumerate(lines) if " = " in line and not line.startswith("#")]
    assert len(keys) == sum(len(section) for section in Settings().to_dict().values())
    assert all(lines[i - 1].startswith("# ") for i in keys)


def test_the_defaults_are_the_courseworks_facts():
    s = Settings()
    assert (s.model.width, s.model.heads, s.model.head_width, s.model.feed_forward) == (128, 2, 96, 2048)
    assert (s.vocabulary.kind, s.vocabulary.lowercase, s.vocabulary.minimum_frequency) == ("words", True, 2)
    assert (s.data.longest, s.training.batch, s.training.epochs, s.training.learning_rate) == (18, 128, 10, 1e-3)
    assert (s.embedding.source, s.embedding.positions, s.training.schedule) == ("learned", "learned", "constant")


def test_as_described_differs_in_two_settings_and_its_head_names_them():
    described = load_settings("coursework-as-described")
    assert described.differences(Settings()) == [
        "embedding.start: 'normal', 'short'",
        "model.kind: 'reads-padding', 'encoder'",
    ]
    text = builtin_configs()["coursework-as-described"]
    assert text.endswith(described.to_toml())
    assert "embedding.start and\n# model.kind" in text[: text.index("[data]")]


@pytest.mark.parametrize("name", sorted(builtin_configs()))
def test_every_built_in_configuration_has_every_key_commented_and_is_named_in_the_help(name):
    assert load_settings(name).data.source == "de"
    assert builtin_configs()[name].endswith("\n\n" + load_settings(name).to_toml())
    said = CliRunner().invoke(app, ["train", "--help"], terminal_width=200).output
    assert re.search(rf"built-in one:[^.]*\b{name}\b[,.]", " ".join(said.replace("│", " ").split()))


@given(
    st.integers(1, 999),
    st.floats(0, 0.99, allow_nan=False),
    st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=20),
)
def test_settings_survive_the_file(width, dropout, path):
    base = Settings()
    settings = dataclasses.replace(
        base,
        model=dataclasses.replace(base.model, width=width, dropout=dropout),
        data=dataclasses.replace(base.data, path=path),
    )
    sections = tomllib.loads(settings.to_toml())
    assert sections == settings.to_dict()


def test_a_file_names_only_what_differs(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text("[model]\nwidth = 64\n[training]\nlearning_rate = 1\n")
    settings = load_settings(file, changes=["heads=4", "data.path=2016/x"])
    assert (settings.model.width, settings.model.heads, settings.model.feed_forward) == (64, 4, 2048)
    assert settings.data.path == "2016/x"
    assert settings.training.learning_rate == 1.0
    assert type(settings.training.learning_rate) is float


def test_all_mistakes_at_once(tmp_path):
    file = tmp_path / "bad.toml"
    file.write_text(
        '[modle]\nwidth = 1\n[model]\nwidth = "wide"\nheads = 0\ndropout = 1.0\nkind = "decoder"\nlayers = true\n'
        "[training]\nlearning_rate = 0\nseed = 2147483648\nclip = inf\nbatch = 1.5\n"
        '[embedding]\nsource = "fasttext"\n[data]\nsource = ""\n'
    )
    with pytest.raises(InputError) as caught:
        load_settings(file, changes=["epochs", "source=fr", "treads=2", "training.ephocs=3"])
    message = str(caught.value)
    assert message.startswith(f"{file} has 16 mistakes:")
    for part in [
        "there is no section [modle]; did you mean 'model'?",
        "model.width must be a whole number of 1 or more, not 'wide'.",
        "model.heads must be a whole number of 1 or more, not 0.",
        "model.dropout must be a number from 0 to 0.996, not 1.0.",
        "model.kind must be one of encoder, reads-padding, encoder-decoder, own, not 'decoder'.",
        "model.layers must be a whole number of 1 or more, not True.",
        "training.learning_rate must be a number above 0, not 0.0.",
        "training.seed must be a whole number from 0 to 2147483647, not 2147483648.",
        "training.clip must be a finite number, not inf.",
        "training.batch must be a whole number of 1 or more, not 1.5.",
        "embedding.source must be learned, glove:FILE, word2vec:FILE, word2vec:train or bert:DIR, not 'fasttext'.",
        "data.source must be a language like de or en, not ''.",
        "--set takes key=value, not 'epochs'.",
        "'source' could be data.source or embedding.source; write the section too.",
        "there is no setting 'treads'; did you mean 'threads'?",
    ]:
        assert part in message
    assert "'training.ephocs'; did you mean 'training.epochs'?" in message


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["data.target=de"], "data.source and data.target are both 'de'; give two languages."),
        (["positions=rotary", "head_width=5"], "rotary positions need an even model.head_width, not 5."),
        (["vocabulary.size=3"], "vocabulary.size must leave room for 4 markers and a word"),
        (["lowercase=1"], "vocabulary.lowercase must be true or false, not 1."),
        (["heads=true"], "model.heads must be a whole number of 1 or more, not True."),
        (
            ["layers=2"],
            "model.kind encoder has one layer and no decoder, not model.layers 2 and model.decoder_layers 0; "
            "use model.kind encoder-decoder.",
        ),
        (["model.kind=reads-padding", "decoder_layers=1"], "model.kind reads-padding has one layer and no decoder"),
        (["tied=true", "joint=true"], "model.kind encoder cannot be tied; use encoder-decoder, or model.tied=false"),
        (["model.kind=encoder-decoder"], "encoder-decoder needs model.decoder_layers of 1 or more, not 0."),
        (
            ["model.kind=encoder-decoder", "decoder_layers=1", "tied=true"],
            "model.tied needs one vocabulary for both languages; set vocabulary.joint=true.",
        ),
        (
            ["model.kind=encoder-decoder", "decoder_layers=1", "tied=true", "joint=true", "embedding.target=glove:x"],
            "model.tied has one matrix, but embedding.source is 'learned' and embedding.target 'glove:x'; make them",
        ),
        (
            ["model.kind=encoder-decoder", "decoder_layers=1", "embedding.start=normal"],
            "embedding.start normal is for the one-layer kinds; model.kind encoder-decoder starts short.",
        ),
        (["embedding.start=long"], "embedding.start must be one of short, normal, not 'long'."),
        (["average=1"], "training.average must be a number of at least 0 and below 1, not 1.0."),
        (["model.kind=ctc"], "own, not 'ctc' (version 0.2.0 had that kind and still opens its runs)."),
    ],
)
def test_a_single_mistake(changes, message):
    with pytest.raises(InputError) as caught:
        load_settings(changes=changes)
    assert str(caught.value).startswith("The settings have a mistake:")
    assert message in str(caught.value)


def test_a_key_in_two_sections_needs_its_section():
    assert load_settings(changes=["vocabulary.size=100"]).vocabulary.size == 100
    with pytest.raises(InputError, match=r"'size' could be data\.size or vocabulary\.size; write the section too\."):
        load_settings(changes=["size=100"])


def test_files_that_are_none(tmp_path):
    with pytest.raises(InputError, match=r"There is no settings file nowhere\.toml; give a \.toml file or one of: "):
        load_settings("nowhere.toml")
    broken = tmp_path / "x.toml"
    broken.write_text("[model\n")
    with pytest.raises(InputError, match=r"x\.toml is not valid TOML"):
        load_settings(broken)
    broken.write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match=r"x\.toml is not valid TOML"):
        load_settings(broken)
    broken.write_text("model = 3\n")
    with pytest.raises(InputError, match=r"model must be a section: write \[model\] on a line of its own\."):
        load_settings(broken)
    with pytest.raises(InputError, match=r"is a folder, not a file; give a file"):
        load_settings(tmp_path)


def test_differences_name_both_values():
    theirs = Settings().with_changes(["width=64"])
    assert Settings().differences(theirs) == ["model.width: 128, 64"]
    assert Settings().differences(Settings()) == []


@pytest.mark.parametrize(
    ("text", "changes", "name"),
    [
        ("[training]\nboth_directions = 3\nseed = 7\n", [], "training.both_directions"),
        ("[training]\nseed = 7\n", ["both_directions=1"], "training.both_directions"),
        ("[training]\nseed = 7\n", ["training.both_directions=many"], "training.both_directions"),
        ("[fast]\nfused_loss = true\nreal_places = false\n[training]\nseed = 7\n", [], "fast"),
        ("fast = 3\n[training]\nseed = 7\n", [], "fast"),
        ("[training]\nseed = 7\n", ["fast.byte_dropout=false"], "fast"),
    ],
)
def test_what_is_retired_is_passed_over_with_a_note(tmp_path, text, changes, name):
    (tmp_path / "old.toml").write_text(text)
    notes = []
    settings = load_settings(tmp_path / "old.toml", changes=changes, notes=notes)
    assert settings == Settings().with_changes(["seed=7"])
    assert len(notes) == 1
    assert f"old.toml: {name} is of an earlier version and is ignored: " in notes[0]
    assert load_settings(tmp_path / "old.toml", changes=changes) == settings  # nobody asks for notes


def test_what_was_never_there_is_still_a_mistake(tmp_path):
    (tmp_path / "wrong.toml").write_text("[training]\nboth_direction = 3\n[faster]\nx = 1\n")
    with pytest.raises(InputError, match="has 2 mistakes"):
        load_settings(tmp_path / "wrong.toml")


@pytest.mark.parametrize("text", ["[training]\nseed = " + "9" * 5000, "[data]\npath = " + "[" * 5000, "\x00", "\udcff"])
def test_files_that_lie_are_one_sentence(tmp_path, text):
    file = tmp_path / "bad.toml"
    file.write_text(text, errors="surrogateescape")
    with pytest.raises(InputError, match=r"bad\.toml is not valid TOML: ") as caught:
        load_settings(file)
    assert len(str(caught.value)) < 400
    (tmp_path / "folder.toml").mkdir()
    with pytest.raises(InputError, match="is a folder, not a file"):
        load_settings(tmp_path / "folder.toml")


def test_a_change_of_thousands_of_digits_is_one_sentence():
    with pytest.raises(InputError, match=r"training\.seed must be a whole number"):
        load_settings(changes=["seed=" + "9" * 5000])


def test_an_underscore_makes_no_number() -> None:
    with pytest.raises(InputError, match="width"):
        Settings().with_changes(["width=1_0"])
