"""The lab's page of models: without a model it says how to name one, with one it shows its attention on a text."""

from __future__ import annotations

import threading

import pytest

from lab_browser import browser, opened, settled
from processes import PATIENCE
from regard.errors import InputError
from regard.lab.page import State, pages
from regard.lab.server import Lab, static_files
from regard_models import lab_page

torch = pytest.importorskip("torch", reason="models need torch")

__all__ = ["browser"]  # a fixture

MODEL = """
import torch
from torch import nn

def build():
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    return nn.TransformerEncoder(layer, 3, enable_nested_tensor=False), torch.randn(1, 5, 8)
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A translator of a moment's training."""
    from regard.translator import train
    from toy_translator import tiny, write_corpus

    home = tmp_path_factory.mktemp("models")
    train(tiny(write_corpus(home / "data"), 'model.kind="encoder-decoder"', "decoder_layers=1"), home / "runs" / "one")
    return home / "runs" / "one"


def asked(**words):
    where = {name: words.pop(name) for name in ("model", "runs") if name in words}
    page = pages()["models"]
    return page.answer(State(words, start=page.start, **where))


@pytest.mark.slow
def test_without_a_model_the_packages_own_run_is_looked_at(tmp_path):
    assert lab_page._newest_run(tmp_path) == "example"
    seen = lab_page.attention_page_data("example", "")
    assert seen["text"] == "Der Bruder hat gestern Abend Karl zugehört."
    assert seen["facts"]["title"] == "example"


def test_without_torch_it_says_how_to_name_one(tmp_path, monkeypatch):
    monkeypatch.setattr(lab_page, "find_spec", lambda name: None)
    said = asked(runs=tmp_path)
    assert said.picture == {"running": False, "model": None}
    assert "Start the lab with one: regard lab --model" in said.say[0]
    assert len(said.formulas) == 2


def test_the_newest_run_is_looked_at_where_no_model_is_named(run):
    assert lab_page._newest_run(run.parent) == str(run)
    seen = lab_page.attention_page_data(str(run), "der hund sieht")
    assert seen["facts"]["words"][0] == ["<sos>", "der", "hund", "sieht", "<eos>"]
    assert {layer["kind"] for layer in seen["facts"]["layers"]} == {"encoder", "decoder", "cross"}
    assert seen["facts"]["title"] == "runs/one"
    first = lab_page.attention_page_data(str(run), "")
    assert len(first["text"].split()) == 4  # words that it knows


def test_a_model_of_a_file_is_shown_on_its_own_example(tmp_path):
    (tmp_path / "my.py").write_text(MODEL)
    seen = lab_page.attention_page_data(f"{tmp_path / 'my.py'}:build", "")
    assert (seen["heads"], seen["tokens"], seen["text"]) == (6, 5, "")
    with pytest.raises(InputError, match="came without a tokenizer: it is shown on its own example"):
        lab_page.attention_page_data(f"{tmp_path / 'my.py'}:build", "words")


def test_a_text_may_not_be_endless():
    with pytest.raises(InputError, match="A text may have 4,000 letters here, not 4,001"):
        asked(text="x" * 4001, model="any")


def test_the_model_cannot_come_from_an_address():
    page = pages()["models"]
    with pytest.raises(InputError, match="The address has 'model', which this page does not know"):
        State({"model": "evil.py:build"}, start=page.start)


def test_the_scripts_of_the_page_are_served_and_nothing_else_of_it():
    served = {address for address in static_files() if address.startswith("/look/")}
    assert {"/look/look.js", "/look/streams.js", "/look/look.css"} <= served
    assert "/look/page.html" not in served


def test_in_a_browser_a_text_gives_its_words(run, browser):
    with Lab(port=0, model=str(run)) as lab:
        threading.Thread(target=lab.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        context = browser.new_context(viewport={"width": 1280, "height": 800})
        context.set_default_timeout(PATIENCE * 1000)
        tab, wrong = context.new_page(), []
        tab.on("pageerror", lambda error: wrong.append(str(error)))
        tab.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
        tab.goto(lab.opening_address)
        opened(tab, lab, "models?text=der%20hund")
        tab.wait_for_selector(".look[data-complete]")
        assert tab.input_value("#text") == "der hund"
        tab.fill("#text", "katze <b>")
        tab.keyboard.press("Enter")
        tab.wait_for_url("**/models?text=katze*")
        settled(tab)
        tab.wait_for_selector(".look[data-busy=no][data-complete]")
        assert tab.input_value("#look-columns-to") in ("6", str(int(tab.input_value("#look-rows-to"))))
        assert "--text 'katze <b>' --out look.html" in tab.text_content("#lines-shell")
        dark = tab.get_attribute(".look", "data-theme")
        tab.click("#theme")
        tab.wait_for_selector(f".look:not([data-theme={dark}])")
        tab.fill("#text", "der " * 9)  # longer than the run reads
        tab.keyboard.press("Enter")
        tab.wait_for_selector("#trouble:not([hidden])")
        assert "reads at most 6" in tab.text_content("#trouble")
        context.close()
        lab.shutdown()
    assert [one for one in wrong if "400" not in one] == []  # a refused question is told by its status too
