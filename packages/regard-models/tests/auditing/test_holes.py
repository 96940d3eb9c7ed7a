"""What the audit once let through, or accused wrongly: each fault beside a healthy model that looks like it."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from typer.testing import CliRunner  # noqa: E402

from regard.cli import app  # noqa: E402
from regard.errors import InputError  # noqa: E402
from regard_models import assert_healthy, audit  # noqa: E402
from regard_models.auditing.reports import audit_page  # noqa: E402

WORDS, WIDTH, KINDS = 29, 14, 2


class Typed(nn.Module):
    """A small encoder that is told a type for every token, as BERT is; ``leaks``: it reads padding."""

    def __init__(self, *, leaks: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.words, self.kinds, self.leaks = nn.Embedding(WORDS, WIDTH), nn.Embedding(KINDS, WIDTH), leaks
        self.attention = nn.MultiheadAttention(WIDTH, 2, batch_first=True)

    def forward(self, ids, token_type_ids=None, attention_mask=None):
        x = self.words(ids)
        if token_type_ids is not None:
            x = x + self.kinds(token_type_ids)
        hidden = None if attention_mask is None or self.leaks else ~attention_mask.bool()
        return x + self.attention(x, x, x, key_padding_mask=hidden, need_weights=False)[0]


def typed_example(length: int = 17) -> dict[str, torch.Tensor]:
    """Types that change in the middle, and differently in each example."""
    ids = torch.randint(1, WORDS, (3, length), generator=torch.Generator().manual_seed(1))
    kinds = (torch.arange(length) > torch.tensor([[5], [7], [11]])).long()
    return {"ids": ids, "token_type_ids": kinds, "attention_mask": torch.ones_like(ids)}


def test_types_of_tokens_go_where_the_tokens_go() -> None:
    found = audit(Typed(), typed_example())
    assert found.answer, str(found)
    assert len(found.of("padding")) == 4
    assert all(f.status == "pass" for f in found.of("padding")), str(found)


def test_padding_is_asked_beside_types_of_tokens() -> None:
    found = audit(Typed(leaks=True), typed_example(), properties=["padding"])
    # More padding on the left is a note: it takes no position_ids.
    wanted = {"content on the left", "content on the right", "amount on the right"}
    assert {f.check for f in found.failures} == wanted, str(found)
    assert {f.culprit.module for f in found.failures} == {"attention"}


@pytest.mark.slow
def test_bert_with_what_its_tokenizer_returns() -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.BertConfig(
        vocab_size=61, hidden_size=24, num_hidden_layers=2, num_attention_heads=3, intermediate_size=37
    )
    torch.manual_seed(0)
    example = {"input_ids" if k == "ids" else k: v for k, v in typed_example(length=9).items()}
    found = audit(transformers.BertModel(config).eval(), example)
    assert found.answer, str(found)
    assert sum(f.status == "pass" for f in found.of("padding")) == 4


class Counted(nn.Module):
    """It wants to be told the places; ``blind``: and does nothing with them."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.words, self.table = nn.Embedding(WORDS, WIDTH), nn.Embedding(64, WIDTH)
        self.attention = nn.MultiheadAttention(WIDTH, 2, batch_first=True)

    def forward(self, ids, places):
        x = self.words(ids) + self.table(places)
        return x + self.attention(x, x, x, need_weights=False)[0]


def test_an_input_that_counts_places_stays_where_it_is() -> None:
    ids = typed_example()["ids"]
    found = audit(Counted(), (ids, torch.arange(17).repeat(3, 1)))
    assert found.answer, str(found)
    assert any("Order comes from table" in f.sentence for f in found.of("order")), str(found)


class Raising(nn.Module):
    """It raises where padding is hidden, and is healthy otherwise."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(WIDTH, WIDTH)

    def forward(self, x, attention_mask=None):
        if attention_mask is not None and not attention_mask.bool().all():
            raise ValueError("no padding here")
        return self.layer(x)


def test_a_check_that_raised_is_no_yes() -> None:
    x = torch.randn(3, 17, WIDTH, generator=torch.Generator().manual_seed(0))
    found = audit(Raising(), (x,))
    assert not found.failures
    assert [f.property for f in found.open_questions if f.property == "padding"]
    assert not found.answer
    assert "not all could be asked" in str(found).splitlines()[0]
    with pytest.raises(AssertionError, match=r"Raising could not be asked everything:\n.*no padding here"):
        assert_healthy(Raising(), (x,))
    known = [f.key() for f in found.open_questions]
    assert audit(Raising(), (x,), known=known).answer
    assert audit(Raising(), (x,), properties=["causality", "precision"]).answer


RAISING = """
import torch
from torch import nn

class Raising(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(14, 14)
    def forward(self, x, attention_mask=None):
        if attention_mask is not None and not attention_mask.bool().all():
            raise ValueError("no padding here")
        return self.layer(x)

def build():
    torch.manual_seed(0)
    return Raising(), torch.randn(3, 17, 14)
"""


def test_the_exit_code_of_what_could_not_be_asked(tmp_path) -> None:
    file = tmp_path / "raising.py"
    file.write_text(RAISING)
    junit = tmp_path / "found.xml"
    asked = ["model", "audit", f"{file}:build", "--property"]
    run = CliRunner().invoke(app, [*asked, "padding", "--junit", str(junit)])
    assert run.exit_code == 3, run.output
    assert "not all could be asked" in run.output
    assert '<error message="The check could not be made: the model raised' in junit.read_text()
    run = CliRunner().invoke(app, [*asked, "causality"])
    assert run.exit_code == 0, run.output


class Pictures(nn.Module):
    """A small vision Transformer that reads its answer from the first place."""

    def __init__(self, *, batch_first: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.patches = nn.Conv2d(3, WIDTH, 4, 4)
        self.first = nn.Parameter(torch.zeros(1, 1, WIDTH))
        layer = nn.TransformerEncoderLayer(WIDTH, 2, 23, batch_first=batch_first)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, 5)

    def forward(self, pixels):
        x = self.patches(pixels).flatten(2).transpose(1, 2)
        x = torch.cat([self.first.expand(len(x), -1, -1), x], 1)
        return self.head(self.encoder(x)[:, 0])


def test_a_picture_that_nobody_looks_at() -> None:
    pixels = torch.randn(2, 3, 12, 12, generator=torch.Generator().manual_seed(0))
    found = audit(Pictures(batch_first=False), pixels)
    first = found.findings[0]
    assert (first.property, first.check, first.status, first.size) == ("input", "read", "fail", 0.0)
    assert first.culprit.module.startswith("encoder.layers.0")
    assert "gives an example what belongs to its neighbours" in first.sentence
    assert audit(Pictures(batch_first=True), pixels).answer


class Ignoring(nn.Module):
    """``factor`` 0: the tokens are thrown away before the positions are added."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.words, self.places, self.factor = nn.Embedding(WORDS, WIDTH), nn.Embedding(64, WIDTH), factor
        self.block = nn.TransformerEncoderLayer(WIDTH, 2, 23, batch_first=True)

    def forward(self, ids):
        return self.block(self.words(ids) * self.factor + self.places(torch.arange(ids.shape[1])))


class Swallow(nn.Module):
    def forward(self, x):
        return torch.zeros_like(x)


@pytest.mark.parametrize("where", ["", "swallow"])
def test_tokens_that_nobody_reads(where: str) -> None:
    model = Ignoring(0.0)
    if where:
        model = Ignoring(1.0)
        model.block = nn.Sequential()
        model.block.add_module("swallow", Swallow())
        where = "block.swallow"
    found = audit(model, typed_example()["ids"], properties=["input"])
    assert [f.culprit.module for f in found.failures] == [where], str(found)
    assert "It reaches the output of words and goes no further" in found.failures[0].sentence or where


def test_tokens_that_are_read() -> None:
    found = audit(Ignoring(1.0), typed_example()["ids"], properties=["input"])
    assert found.answer, str(found)
    assert "tokens move places before and behind them" in found.of("input")[1].sentence


def test_a_fresh_last_layer_of_zeros_is_no_fault() -> None:
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 5))
    nn.init.zeros_(model[1].weight)
    found = audit(model, torch.randn(3, 17, WIDTH, generator=torch.Generator().manual_seed(0)), properties=["input"])
    assert found.answer, str(found)
    assert [f.status for f in found.of("input")] == ["note"]
    assert "because some weights are all 0" in found.of("input")[0].sentence


def test_places_that_move_nothing_are_named() -> None:
    class Cut(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.layer = nn.Linear(WIDTH, WIDTH)

        def forward(self, x):
            return torch.cat([self.layer(x[:, :-2]), x[:, -2:] * 0], 1)

    found = audit(Cut(), torch.randn(3, 17, WIDTH, generator=torch.Generator().manual_seed(0)), properties=["input"])
    assert "Changing the token at place 11, 12 moves no output." in [f.sentence for f in found.of("input")]


class WithExtra(nn.Linear):
    """Its state holds something that is no tensor."""

    def get_extra_state(self):
        return {"version": 3}

    def set_extra_state(self, state):
        pass


def test_a_state_that_is_no_tensor() -> None:
    x = torch.randn(3, 17, WIDTH, generator=torch.Generator().manual_seed(0))
    assert audit(WithExtra(WIDTH, 5), x, properties=["batch"]).answer
    spoilt = WithExtra(WIDTH, 5)
    nn.init.constant_(spoilt.weight, float("nan"))
    with pytest.raises(InputError, match="the weight weight holds NaN"):
        audit(spoilt, x, properties=["batch"])


class ByHand(nn.Module):
    """Attention without submodules; ``how`` makes weights of scores."""

    def __init__(self, how) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.weight, self.how = nn.Parameter(torch.randn(3, WIDTH, WIDTH) / WIDTH**0.5), how

    def forward(self, x):
        q, k, v = ((x @ w).unflatten(-1, (2, -1)).transpose(1, 2) for w in self.weight)
        return (self.how(q @ k.transpose(2, 3)) @ v).transpose(1, 2).flatten(2)


def over_heads(scores):
    raised = scores.exp()
    return raised / raised.sum(1, keepdim=True)


def test_a_softmax_over_heads_by_hand() -> None:
    x = torch.randn(3, 17, WIDTH, generator=torch.Generator().manual_seed(0))
    found = audit(ByHand(over_heads), x, properties=["weights"])
    assert [f.check for f in found.failures] == ["rows"], str(found)
    assert "in the model itself" in found.failures[0].sentence
    assert audit(ByHand(torch.sigmoid), x, properties=["weights"]).answer
    assert audit(ByHand(lambda scores: torch.softmax(scores, -1)), x, properties=["weights"]).answer


def test_a_length_beyond_the_example() -> None:
    x = torch.randn(3, 7, WIDTH, generator=torch.Generator().manual_seed(0))
    found = audit(nn.Linear(WIDTH, 5), x, length=31, properties=["batch"])
    assert (found.answer, found.lengths) == (True, (31,))
    ids = torch.randint(0, WORDS, (3, 7), generator=torch.Generator().manual_seed(0))
    with pytest.raises(InputError, match="runs on its example and not on 70 tokens"):
        audit(Ignoring(1.0), ids, length=70, properties=["batch"])


def test_the_answer_begins_with_the_culprit() -> None:
    found = audit(Typed(leaks=True), typed_example())
    assert len(found.failures) > 2
    first = str(found).splitlines()[0]
    assert first.startswith("One module, attention, a MultiheadAttention (")
    assert f"explains {len(found.failures)} of {len(found.failures)} failures. Likely cause: " in first
    page = audit_page(found)
    assert page.index("One module, attention") < page.index("<details>") < page.index('<section class="card')
    one = audit(ByHand(over_heads), typed_vectors(), properties=["weights"])
    assert one.headline() == ""
    assert "<details>" not in audit_page(one)


def typed_vectors() -> torch.Tensor:
    return torch.randn(3, 17, WIDTH, generator=torch.Generator().manual_seed(0))


class WritesPlaces(nn.Module):
    """It adds to the position_ids that it is given, in place."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.words, self.table = nn.Embedding(WORDS, WIDTH), nn.Embedding(64, WIDTH)
        self.attention = nn.MultiheadAttention(WIDTH, 2, batch_first=True)

    def forward(self, ids, attention_mask=None, position_ids=None):
        places = torch.arange(ids.shape[1]).repeat(len(ids), 1) if position_ids is None else position_ids
        places += 2
        x = self.words(ids) + self.table(places)
        hidden = None if attention_mask is None else attention_mask == 0
        return x + self.attention(x, x, x, key_padding_mask=hidden, need_weights=False)[0]


def test_positions_that_a_model_writes_into_are_not_given_twice() -> None:
    ids = torch.randint(1, WORDS, (3, 17), generator=torch.Generator().manual_seed(1))
    found = audit(WritesPlaces(), {"ids": ids}, properties=["batch", "padding"])
    assert found.of("batch")[-1].check == "padded, alone"
    assert found.answer, str(found)


class Ties(nn.Module):
    """All its choices tie: what it returns hangs on rounding more than on the tokens."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.words, self.out = nn.Embedding(WORDS, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, ids):
        x = self.words(ids)
        same = (x.sum(-1, keepdim=True).exp() * 0 + 1.1).expand(-1, -1, 4) * torch.tensor([3.0, 3.0, 3.0, 3.0])
        return 1e-6 * self.out(x) + same.argmax(-1, keepdim=True)


def test_where_choices_tie_nobody_says_that_the_input_is_ignored() -> None:
    ids = torch.randint(1, WORDS, (3, 17), generator=torch.Generator().manual_seed(1))
    found = audit(Ties(), ids, properties=["input"])
    assert [str(f.status) for f in found.findings] == ["note"], str(found)
    assert "its choices hang on ties" in found.findings[0].sentence
