"""``look`` at models: torch's own, Hugging Face's with two sides, our translator; and the command line."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="models need torch")

from torch import nn  # noqa: E402
from typer.testing import CliRunner  # noqa: E402

from regard.cli import app  # noqa: E402
from regard.errors import InputError  # noqa: E402
from regard_models import Capture, capture, look  # noqa: E402
from small_model import MODEL  # noqa: E402


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "my.py").write_text(MODEL)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*words):
    done = CliRunner().invoke(app, ["model", "look", *words])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done


@pytest.mark.slow
def test_a_module_of_torch_has_influence_and_keeps_its_mode():
    torch.manual_seed(0)
    model = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, dropout=0.5), 2)
    words = torch.randn(2, 7, 16)
    found = look(model, words, example=1, tokens=None)
    assert model.training
    assert found.influence
    model.eval()
    with torch.no_grad():
        weights = capture(model, words).record(1).weights[1, 3]
    layer = found._layers[1]
    assert np.array_equal(layer.weights(3), weights)
    assert (found.heads, found.queries, found.keys) == (8, 7, 7)


def test_an_encoder_and_decoder_with_the_words_of_both():
    transformers = pytest.importorskip("transformers", reason="needs transformers")
    tokenizer = word_tokenizer(transformers)
    config = transformers.T5Config(
        vocab_size=len(tokenizer), d_model=16, d_kv=5, d_ff=23, num_layers=2, num_heads=3, decoder_start_token_id=0,
        pad_token_id=0, eos_token_id=1,
    )  # fmt: skip
    torch.manual_seed(0)
    model = transformers.T5ForConditionalGeneration(config).eval()
    found = look(model, text="the dog bit the man", target="der hund biss", tokenizer=tokenizer)
    kinds = [(str(layer.kind), layer.queries, layer.keys) for layer in found._layers]
    read, written = ("the", "dog", "bit", "the", "man"), ("<pad>", "der", "hund")
    assert kinds[:2] == [("encoder", read, read)] * 2
    assert kinds[2:4] == [("decoder", written, written), ("cross", written, read)]
    alone = look(model, text="the dog bit the man", tokenizer=tokenizer)
    assert "the decoder reads what the model itself writes for this text" in str(alone)
    with pytest.raises(InputError, match="The target is empty"):
        look(model, text="the dog", target=" ", tokenizer=tokenizer)


def word_tokenizer(transformers):
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace

    words = ["<pad>", "</s>", "<unk>", "the", "dog", "bit", "man", "der", "hund", "biss"]
    made = Tokenizer(WordLevel({word: n for n, word in enumerate(words)}, unk_token="<unk>"))
    made.pre_tokenizer = Whitespace()
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token="<pad>", eos_token="</s>", unk_token="<unk>"
    )


MORE = {"encoder": ["epochs=1"], "encoder-decoder": ["epochs=1", "decoder_layers=1"]}


@pytest.mark.parametrize("kind", MORE)
def test_our_translator_from_its_folder(kind, tmp_path):
    from regard.translator import load_run, train
    from toy_translator import tiny, write_corpus

    train(tiny(write_corpus(tmp_path / "data"), f'model.kind="{kind}"', *MORE[kind]), tmp_path / "run")
    done = run(str(tmp_path / "run"), "--text", "der hund sieht", "--out", str(tmp_path / "l.html"))
    assert done.exit_code == 0, done.output
    page = (tmp_path / "l.html").read_text(encoding="utf-8")
    words = json.loads(re.search(r'id="facts">(.*?)</script>', page, re.DOTALL)[1])["words"]
    read = ["<sos>", "der", "hund", "sieht", "<eos>"]
    assert words[0] == read  # without the padding that an encoder reads to its last place
    assert ("padding at the end is left out" in done.output) == (kind != "encoder-decoder")
    if kind == "encoder-decoder":
        said = load_run(tmp_path / "run").attention("der hund sieht")
        assert words[1] == [word for word in said.rows if word != "<eos>"]
    with pytest.raises(InputError, match="has 9 tokens and this run reads at most 6"):
        run(str(tmp_path / "run"), "--text", "der " * 9, "--out", str(tmp_path / "never.html"))
    assert not (tmp_path / "never.html").exists()


def test_the_command_writes_a_page_and_a_figure(folder):
    done = run("my.py:three", "--out", "a.html", "--figure", "a.svg", "--heads", "1", "--example", "2")
    assert done.exit_code == 0
    assert done.stdout.startswith("my.py:three: 1 layer, 1 head in all, up to 5 queries and 5 keys.\nStored in 8 bits")
    assert done.stdout.endswith("The page is in a.html: open it in a browser.\n")
    assert "put into eval mode" in done.stderr
    assert (folder / "a.svg").stat().st_size > 3000
    about = json.loads(run("my.py:three", "--out", "a.html", "--json").stdout)
    assert about["heads"] == 2
    assert about["influence"] is True
    assert "_drawn" not in about


def test_the_command_takes_weights_from_files(folder):
    weights = np.full((2, 3, 4, 4), 0.25, np.float32)
    np.save(folder / "w.npy", weights)
    done = run("w.npy", "--tokens", "a b c d", "--out", "w.html")
    assert done.exit_code == 0
    assert '["a", "b", "c", "d"]' in (folder / "w.html").read_text()
    Capture.from_arrays(weights, tokens=list("abcd")).to_safetensors(folder / "c.safetensors")
    assert run("c.safetensors", "--figure", "c.png", "--layers", "1", "--heads", "2").exit_code == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["my.py:three"], "Say where it should go: --out look.html for the page"),
        (["my.py:three", "--out", "a.txt"], "the name must end in .html or .htm"),
        (["my.py:three", "--out", "a.html", "--layers", "4"], "There is no layer 4: 1 attention layers ran"),
        (["my.py:three", "--out", "a.html", "--heads", "2"], "Layer 0 has no head 2; it has 2, counted from 0."),
        (["my.py:three", "--out", "a.html", "--example", "3"], "There is no example 3; the batch has 3"),
        (["my.py:three", "--out", "a.html", "--window", "3"], "--window '3' is not understood; write FROM:TO"),
        (["my.py:three", "--out", "a.html", "--window", "0:9"], "The window 0:9 does not fit"),
        (["my.py:three", "--out", "a.html", "--text", "a b"], "has no tokenizer that is known here"),
        (["my.py:three", "--out", "a.html", "--target", "a"], "A target is for a model with a decoder"),
        (["my.py:three", "--out", "a.html", "--tokens", "a"], "--tokens are for weights from a file"),
        (["my.py:nothing", "--out", "a.html"], "No attention ran inside"),
        (["my.py:spoiled", "--out", "a.html"], "the weight attn.in_proj_weight holds NaN or infinity"),
        (["my.py:overflowing", "--out", "a.html"], "holds nan at query 0, key 0; a page can only show weights"),
        (["none.npy", "--out", "a.html"], "'none.npy': there is no such file"),
        (["nan.npy", "--out", "a.html"], "is nan; every number must be finite"),
        (["nan.npy", "--out", "a.html", "--text", "a"], "--text is for a model, and nan.npy holds weights"),
    ],
)
def test_bad_input_is_one_sentence_and_leaves_no_file(folder, words, said):
    np.save(folder / "nan.npy", np.full((1, 1, 2, 2), np.nan))
    before = sorted(file.name for file in folder.iterdir())
    with pytest.raises(InputError, match=re.escape(said)) as refused:  # the command line prints it and leaves with 2
        run(*words)
    assert "\n" not in str(refused.value)
    assert sorted(file.name for file in folder.iterdir() if file.name != "__pycache__") == before
