"""What models in the wild taught the audit: none of these is accused, and each is told what it should know."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from healthy import tiny  # noqa: E402
from regard_models import audit  # noqa: E402
from regard_models.inputs.huggingface import is_causal  # noqa: E402

IDS = (tiny.ids(),)


class PlacesByPadding(nn.Module):
    """Places are counted by the id of padding, not by the mask, as M2M100 does it."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(tiny.PLACES + 1, tiny.WIDTH)

    def forward(self, ids):
        real = ids != 0
        return self.table(real.cumsum(1) * real)


class CountsTokens(tiny.Encoder):
    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(tiny.WORDS, tiny.WIDTH, padding_idx=0)
        self.positions = PlacesByPadding()

    def forward(self, ids, attention_mask=None):
        x = self.tokens(ids) + self.positions(ids)
        for block in self.blocks:
            x, _ = block(x, self.allowed(ids, attention_mask))
        return self.head(self.norm(x))


def test_places_counted_by_the_id_of_padding_are_a_note() -> None:
    found = audit(CountsTokens(), IDS, properties=["padding"])
    assert found.answer, str(found)
    (note,) = [f for f in found.findings if f.status == "note"]
    assert note.check == "content on the left"
    assert "positions counts places by the id of padding, not by the mask" in note.sentence


class NeedsTraining(tiny.Gpt):
    def forward(self, ids, cache=None):
        if torch.is_grad_enabled() and not self.training:
            raise RuntimeError("call train() first")
        return super().forward(ids, cache)


def test_gradients_in_training_only_are_a_note() -> None:
    found = audit(NeedsTraining(), IDS, causal=True, properties=["gradients"])
    assert found.answer
    (reach,) = found.findings
    assert reach.sentence.startswith("It has gradients in train() only. Backward failed: RuntimeError: call train()")


class WritesItsState(tiny.Gpt):
    """A state that is written in place, unless told that nobody will go on from it."""

    def __init__(self) -> None:
        super().__init__()
        self.state = nn.Parameter(torch.zeros(1, 1, tiny.WIDTH))

    def forward(self, ids, use_cache=True):
        x = self.positions(self.tokens(ids)) + self.state
        if use_cache:
            kept = x.exp()
            x = x + kept
            kept.mul_(0)  # what backward needs is overwritten
        for block in self.blocks:
            x, _ = block(x, self.allowed(ids, 0), None, 0)
        return self.head(self.norm(x))


def test_gradients_are_asked_without_a_cache() -> None:
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        WritesItsState()(*IDS).sum().backward()
    found = audit(WritesItsState(), IDS, causal=True, properties=["gradients"])
    assert found.answer, str(found)


class Remembers(tiny.Gpt):
    """Returns what it has read so far beside its answer; padding on the right is part of that."""

    def forward(self, ids, attention_mask=None):
        logits, _ = super().forward(ids)
        return {"logits": logits, "state": logits.sum(1)}


def test_a_state_is_no_answer() -> None:
    found = audit(Remembers(), IDS, causal=True, properties=["padding"])
    right = [f for f in found.findings if "right" in f.check]
    assert right
    assert all(f.status == "pass" for f in right), str(found)


@pytest.mark.parametrize(
    ("words", "causal"),
    [
        ({"model_type": "xlm", "causal": True}, True),
        ({"model_type": "flaubert", "causal": False}, False),
        ({"model_type": "xlnet", "attn_type": "bi"}, False),
        ({"model_type": "xlnet", "attn_type": "uni"}, True),
        ({"model_type": "other"}, True),
    ],
)
def test_what_a_configuration_says_of_causality(words: dict[str, object], causal: bool) -> None:
    class SomeLMHeadModel(nn.Module):
        config = SimpleNamespace(**words)

    assert is_causal(SomeLMHeadModel()) is causal
