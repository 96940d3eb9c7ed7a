"""Somebody's own translator: trained with our loop, scored on our tokens, refused in one sentence."""

from __future__ import annotations

import textwrap

import pytest
import torch

from regard.coursework.checker.template import TEXT
from regard.errors import InputError
from regard.translator.models.own_translator import build_own, load_code, own_sizes
from regard.translator.models.run import load_run
from regard.translator.reports import report
from regard.translator.runs.files import read_json
from regard.translator.scoring.scores import score
from regard.translator.studies.comparison import compare_runs
from regard.translator.training.loop import train
from regard.translator.training.preparation import load_data, own_run, own_settings, tokens_of
from toy_translator import FILLED, StopError, same, stop_at, tiny, weights, write_corpus

torch.set_num_threads(1)

NAME = "TransformerTranslator"


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_corpus(tmp_path_factory.mktemp("corpus") / "toy")


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """The template that we hand out, filled in."""
    text = TEXT.format(check="...", name=NAME)
    for blank, answer in FILLED.items():
        assert blank in text
        text = text.replace(blank, answer)
    path = tmp_path_factory.mktemp("student") / "my.py"
    path.write_text(text)
    return path


def written(folder, body):
    path = folder / "own.py"
    path.write_text("import torch\nfrom torch import nn\n" + textwrap.dedent(body))
    return path


def own(data, *changes):
    return tiny(data, "model.kind=own", *changes)


@pytest.mark.slow
def test_the_filled_template_trains_and_its_run_opens_only_with_its_code(data, filled, tmp_path):
    code = load_code(f"{filled}:{NAME}")
    settings = own(data, "epochs=25", "learning_rate=0.01")
    result = train(settings, tmp_path / "run", own=code)
    assert result.best.perplexity < 2
    assert f"score {tmp_path / 'run'} --model {filled}:{NAME}" in str(result)
    about = read_json(tmp_path / "run" / "run.json")
    assert about["code"] == {"name": f"{filled}:{NAME}", "sha256": code.digest}
    run = load_run(tmp_path / "run", own=code)
    assert len(run.translate(["der rote hund"]).target) == 1
    with pytest.raises(InputError, match=r"opening it runs their code: say --model .*my\.py:TransformerTranslator if"):
        load_run(tmp_path / "run")


def test_a_stopped_run_ends_with_the_same_bits_dropout_included(data, filled, tmp_path):
    code, settings = load_code(f"{filled}:{NAME}"), own(data)
    before = torch.get_rng_state()
    train(settings, tmp_path / "whole", own=code)
    assert torch.equal(before, torch.get_rng_state())  # torch's generator is lent, not used up
    with pytest.raises(StopError):
        train(settings, tmp_path / "stopped", own=code, watch=stop_at(7))
    train(settings, tmp_path / "stopped", own=code)
    assert same(weights(tmp_path / "whole"), weights(tmp_path / "stopped"))


def test_a_stopped_run_does_not_go_on_with_another_file(data, filled, tmp_path):
    path = tmp_path / "my.py"
    path.write_text(filled.read_text())
    with pytest.raises(StopError):
        train(own(data), tmp_path / "run", own=load_code(f"{path}:{NAME}"), watch=stop_at(7))
    path.write_text(filled.read_text() + "# another thought\n")
    with pytest.raises(InputError, match=r"was begun with another .*my\.py; give another --out, or put the file back"):
        train(own(data), tmp_path / "run", own=load_code(f"{path}:{NAME}"))
    run = load_run(tmp_path / "run", weights="last", own=load_code(f"{path}:{NAME}"))
    assert any("has changed since" in line for line in run.notes)


def test_our_weights_in_their_class_get_our_scores(data, filled, tmp_path):
    """The model as described is the template filled in: the same weights must give the same numbers."""
    train(tiny(data, "model.kind=reads-padding", "embedding.start=normal", "epochs=4"), tmp_path / "run")
    ours = load_run(tmp_path / "run")
    layer, embedding = ours.model.layer, ours.model.embedding
    theirs = load_code(f"{filled}:{NAME}")

    def make(sizes):
        made = theirs.make(sizes)
        pairs = [
            (made.tokens, embedding.tokens), (made.places, embedding.positions),
            (made.queries, layer.attention.queries), (made.keys, layer.attention.keys),
            (made.values, layer.attention.values), (made.mix, layer.attention.mix),
            (made.norms[0], layer.after_attention), (made.norms[1], layer.after_feed_forward),
            (made.inside, layer.feed_forward[0]), (made.outside, layer.feed_forward[2]),
            (made.words, ours.model.output.linear),
        ]  # fmt: skip
        for mine, other in pairs:
            mine.load_state_dict({k: v for k, v in other.state_dict().items() if k in ("weight", "bias")})
        return made

    pairs = load_data(ours.settings).test
    code = type(theirs)(name="theirs", path="", digest="", make=make)
    found, wanted = (
        score(own_run(code, own_settings(ours.settings), (ours.source, ours.target)), pairs),
        score(ours, pairs),
    )
    # float32: the two multiply in other orders; a loss differs by some 1e-6 of itself
    assert found.perplexity.counting_sos == pytest.approx(wanted.perplexity.counting_sos, rel=1e-4)
    assert found.perplexity.without_sos == pytest.approx(wanted.perplexity.without_sos, rel=1e-4)
    assert found.perplexity.tokens == wanted.perplexity.tokens
    assert str(found).startswith("Perplexity ")
    assert "Scored: theirs." in str(found)


def test_the_report_and_the_comparison_take_own_runs_beside_ours(data, filled, tmp_path):
    code = load_code(f"{filled}:{NAME}")
    train(own(data), tmp_path / "mine", own=code)
    train(tiny(data), tmp_path / "ours")
    made = report([tmp_path / "mine", tmp_path / "ours"], tmp_path / "page.html", own=code)
    page = (tmp_path / "page.html").read_text()
    assert len(made.runs) == 2
    assert "does not tell what it read" in page
    assert f"--model {filled}:{NAME}" in page
    both = compare_runs([tmp_path / "mine", tmp_path / "ours"], samples=20, own=code)
    assert len(both.entries) == 2
    with pytest.raises(InputError, match="opening it runs their code"):
        compare_runs([tmp_path / "mine", tmp_path / "ours"], samples=20)
    assert "is of a model of ours" in load_run(tmp_path / "ours", own=code).notes[0]


def test_sizes_go_by_the_names_of_a_class_and_a_functions_defaults_stay(data, tmp_path):
    path = written(
        tmp_path,
        """
        REGARD = {"arguments": {"breadth": "width"}}
        class Own(nn.Module):
            def __init__(self, n_src_vocab, trg_vocab, breadth, max_len=3):
                super().__init__()
                self.given = breadth, max_len
                self.table, self.out = nn.Embedding(n_src_vocab, breadth), nn.Linear(breadth, trg_vocab)
            def forward(self, x):
                return self.out(self.table(x))
        def load(src_vocab, tgt_vocab, breadth=5):
            return Own(src_vocab, tgt_vocab, breadth)
        def kind():
            return Own
        """,
    )
    sizes = own_sizes(own(data), 11, 12)
    assert load_code(f"{path}:Own").make(sizes).given == (16, 8)
    assert load_code(f"{path}:load").make(sizes).given[0] == 16  # declared, so given
    assert load_code(f"{path}:kind").make(sizes).given == (16, 8)
    path.write_text(
        path.read_text().replace("breadth=5", "n_embd=5").replace("tgt_vocab, breadth)", "tgt_vocab, n_embd)")
    )
    assert load_code(f"{path}:load").make(sizes).given[0] == 5


HEAD = "def __init__(self, source_words, target_words, longest):\n        super().__init__()\n        "
TABLE = HEAD + "self.table = nn.Embedding(source_words, target_words)\n    "


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            TABLE + "def forward(self, x):\n        return self.table(x)[:, 1:]",
            r"into \(3, 7, 11\); scores \(3, 8, 11\)",
        ),
        (
            TABLE + "def forward(self, x):\n        return self.table(x)[..., :-1]",
            "one for each of the 11 target words",
        ),
        (TABLE + "def forward(self, x):\n        return self.table(x) * torch.nan", "scores that are NaN or infinite"),
        (TABLE + "def forward(self, x):\n        return self.table(x) + torch.inf", "scores that are NaN or infinite"),
        (TABLE + "def forward(self, x):\n        return self.table(x).argmax(-1)", r"into \(3, 8\)"),
        (TABLE + "def forward(self, x):\n        return self.table(x).long()", "returned int64; scores must be floats"),
        (TABLE + "def forward(self, x):\n        return [1]", r"returned list; it must return scores \(N, T, target"),
        (TABLE + "def forward(self, x):\n        return self.table(x + 99)", r"IndexError: .* \(line 8\) for ids of"),
        (TABLE + "def forward(self, x):\n        raise ValueError('not yet')", r"ValueError: not yet \(line 8\)"),
        (TABLE + "def forward(self, x):\n        return self.table(x).softmax(-1)", "gives probabilities .* sum to 1"),
        (
            TABLE + "def forward(self, x):\n        return torch.dropout(self.table(x), 0.5, True)",
            r"other scores for the same ids in eval\(\)",
        ),
        (
            TABLE + "def forward(self, x):\n        return self.table(x) - self.table(x).mean((0, 1))",
            "let no sentence read another one",
        ),
        (
            HEAD + "self.rows = [nn.Embedding(source_words, target_words)]\n        self.one = nn.Linear(1, 1)\n    "
            "def forward(self, x):\n        return self.rows[0](x)",
            "weights that its state_dict does not hold",
        ),
        (
            HEAD + "self.rows = torch.randn(source_words, target_words)\n    def forward(self, x):\n"
            "        return self.rows[x]",
            "has no weights to train; make its layers attributes",
        ),
        (
            TABLE + "def get_extra_state(self):\n        return 1\n    def set_extra_state(self, x): pass\n    "
            "def forward(self, x):\n        return self.table(x)",
            "keeps '_extra_state', which is no tensor",
        ),
        (
            HEAD
            + "self.table = nn.Embedding(source_words, target_words)\n        Own.count = getattr(Own, 'count', 2) + 1"
            "\n        self.odd = nn.Linear(1, Own.count)\n    def forward(self, x):\n        return self.table(x)",
            "is another model every time it is made",
        ),
        ("def __init__(self, gain):\n        super().__init__()", "argument 'gain' has no default and no name"),
        (
            "def __init__(self, longest):\n        raise RuntimeError('half')",
            r"RuntimeError: half \(line 5\) when called",
        ),
        ("def __init__(self):\n        raise SystemExit", r"raised SystemExit \(line 5\) when called with nothing"),
    ],
)
def test_what_is_wrong_is_one_sentence(data, tmp_path, body, message):
    path = written(tmp_path, f"class Own(nn.Module):\n    {body}\n")
    words, _, _ = tokens_of(tiny(data), "test")
    assert (len(words[0]), len(words[1])) == (11, 11)
    with pytest.raises(InputError, match=message) as caught:
        build_own(load_code(f"{path}:Own"), own(data), 11, 11)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "name", "message"),
    [
        ("x = 3\n", "x", r"own.py:x is a int; name a class, a function that returns a module"),
        ("def x():\n    return 3\n", "x", "own.py:x gave a int; it must give a torch module"),
        ("def x():\n    return x\n", "x", "own.py:x gave a function; it must give a torch module"),
        ("REGARD = 3\nclass x: pass\n", "x", "REGARD must look like"),
        ("1 / 0\n", "x", "own.py could not be imported: ZeroDivisionError"),
        ("y = 1\n", "x", "has no 'x'"),
    ],
)
def test_a_file_that_gives_no_model(data, tmp_path, text, name, message):
    path = tmp_path / "own.py"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        build_own(load_code(f"{path}:{name}"), own(data), 11, 11)


def test_a_weight_that_is_never_used_keeps_nobody_from_going_on(data, tmp_path):
    path = written(
        tmp_path,
        """
        class Own(nn.Module):
            def __init__(self, source_words, target_words):
                super().__init__()
                self.table, self.idle = nn.Embedding(source_words, target_words), nn.Linear(3, 5)
                self.register_buffer("whole", torch.zeros(4))
                self.register_buffer("part", self.whole[:2])
            def forward(self, x):
                return self.table(x)
        """,
    )
    code = load_code(f"{path}:Own")
    with pytest.raises(StopError):
        train(own(data), tmp_path / "run", own=code, watch=stop_at(7))
    train(own(data), tmp_path / "run", own=code)
    assert load_run(tmp_path / "run", own=code).epoch == 2


def test_a_module_that_is_there_already_is_scored_and_one_without_weights_too(data, tmp_path, capsys):
    path = written(
        tmp_path, "model = nn.Embedding(11, 11)\nnothing = nn.Embedding(11, 11)\nnothing.weight.data[:, 5] = -torch.inf"
    )
    path.write_text(
        path.read_text()
        + """
def rule(source_words, target_words):
    class Rule(nn.Module):
        def forward(self, ids):
            print("a word")
            return nn.functional.one_hot(ids, target_words) * 3.0
    return Rule()
"""
    )
    words, pairs, said = tokens_of(tiny(data), "validation")
    assert score(own_run(load_code(f"{path}:rule"), own(data), words), pairs).perplexity.pairs == len(pairs)
    assert capsys.readouterr().out == ""
    assert said == "the validation pairs of toy"
    found = score(own_run(load_code(f"{path}:model"), own(data), words), pairs)
    assert found.perplexity.tokens == sum(len(t.split()) + 2 for t in pairs.target)
    with pytest.raises(InputError, match="gives probability 0 to a target token"):
        score(own_run(load_code(f"{path}:nothing"), own(data), words), pairs)
