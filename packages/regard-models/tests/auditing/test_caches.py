"""Caches: recurrent states, buffers that the module keeps, and models that only look as if they had one."""

from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from typer.testing import CliRunner  # noqa: E402

from healthy import tiny  # noqa: E402
from regard.cli import app  # noqa: E402
from regard.errors import InputError  # noqa: E402
from regard_models import audit  # noqa: E402

WORDS, WIDTH, PLACES = 29, 14, 31
IDS = torch.randint(0, WORDS, (3, 17), generator=torch.Generator().manual_seed(0))


class Recurrent(nn.Module):
    """``forgets``: three tokens at once start from an empty state, as in Jamba and Mamba."""

    def __init__(self, *, forgets: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.words, self.layer, self.forgets = (
            nn.Embedding(WORDS, WIDTH),
            nn.GRU(WIDTH, WIDTH, batch_first=True),
            forgets,
        )

    def forward(self, ids, cache_params=None):
        past = None if self.forgets and ids.shape[1] > 1 else cache_params
        out, state = self.layer(self.words(ids), past)
        return {"logits": out, "cache_params": state}


def test_a_recurrent_state_is_a_cache() -> None:
    found = audit(Recurrent(forgets=True), IDS, causal=True, properties=["cache"])
    assert {f.check: str(f.status) for f in found.of("cache")} == {"steps of 1": "pass", "steps of 3": "fail"}
    found = audit(Recurrent(forgets=False), IDS, causal=True, properties=["cache"])
    assert found.answer, str(found)
    assert {str(f.status) for f in found.of("cache")} == {"pass"}


class Kept(nn.Module):
    """Keys and values are kept in buffers, written at ``start_pos``; ``shift``: how far beside it."""

    def __init__(self, shift: int = 0) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(PLACES, WIDTH)
        self.q, self.k, self.v = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.register_buffer("keys", torch.zeros(PLACES, PLACES, WIDTH), persistent=False)
        self.register_buffer("values", torch.zeros(PLACES, PLACES, WIDTH), persistent=False)
        self.shift = shift

    def forward(self, ids, start_pos=0):
        batch, length = ids.shape
        end, at = start_pos + length, start_pos - self.shift * (start_pos > 0)
        x = self.words(ids) + self.places(torch.arange(start_pos, end))
        self.keys[:batch, at : at + length], self.values[:batch, at : at + length] = self.k(x), self.v(x)
        scores = self.q(x) @ self.keys[:batch, :end].transpose(1, 2) / math.sqrt(WIDTH)
        ahead = torch.arange(end) > torch.arange(start_pos, end)[:, None]
        return x + torch.softmax(scores.masked_fill(ahead, -math.inf), -1) @ self.values[:batch, :end]


def advance(module, inputs, past, start):
    """How to write with what the module keeps."""
    with torch.no_grad():
        return module(**inputs, start_pos=start), None


def test_a_cache_that_the_module_keeps() -> None:
    asked = {"causal": True, "properties": ["cache"]}
    assert [f.status for f in audit(Kept(), IDS, **asked).of("cache")] == ["not applicable"]
    healthy = audit(Kept(), IDS, advance=advance, **asked)
    assert healthy.answer, str(healthy)
    assert len([f for f in healthy.of("cache") if f.status == "pass"]) == 2, str(healthy)
    faulty = audit(Kept(shift=1), IDS, advance=advance, **asked)
    assert {f.check for f in faulty.failures} == {"steps of 1", "steps of 3"}, str(faulty)


FILE = """
import torch
from torch import nn

class Kept(nn.Module):
    def __init__(self, scale):
        super().__init__()
        torch.manual_seed(0)
        self.layer, self.scale = nn.Linear(14, 14), scale
        self.register_buffer("total", torch.zeros(64, 14), persistent=False)
    def forward(self, x, go_on=False):
        before = self.total[: len(x)].clone() if go_on else torch.zeros(len(x), 14, dtype=x.dtype)
        sums = self.scale * before[:, None] + self.layer(x).cumsum(1)
        self.total[: len(x)] = sums[:, -1]
        return sums

def advance(module, inputs, past, start):
    return module(**inputs, go_on=start > 0), None

def faulty():
    return Kept(0.5), torch.randn(3, 17, 14), advance

def healthy():
    return Kept(1.0), torch.randn(3, 17, 14)
"""


def test_the_builder_and_the_option_name_it(tmp_path) -> None:
    file = tmp_path / "kept.py"
    file.write_text(FILE)

    def run(name: str, *more: str):
        words = ["model", "audit", f"{file}:{name}", "--causal", "--property", "cache", "--details", *more]
        return CliRunner().invoke(app, words)

    assert run("faulty").exit_code == 1
    assert "Not applicable: cache" in run("healthy").output
    named = run("healthy", "--cache", f"{file}:advance")
    assert named.exit_code == 0, named.output
    assert "Pass (not refuted; no proof): cache, steps of 1; cache, steps of 3" in named.output
    assert isinstance(run("healthy", "--cache", f"{file}:nothing").exception, InputError)


class Encoder(tiny.Encoder):
    """Bidirectional, with the parameter that a common base class brings along."""

    def forward(self, ids, attention_mask=None, past_key_values=None):
        answer = super().forward(ids, attention_mask)
        return {"logits": answer[0] if isinstance(answer, tuple) else answer, "past_key_values": (ids,)}


def test_an_encoder_with_a_parameter_for_a_cache_is_not_accused() -> None:
    found = audit(Encoder(), tiny.ids(), properties=["cache"])
    assert found.answer, str(found)
    assert "It is not causal, so nothing can be cached" in found.of("cache")[0].sentence


class PrefillBlock(tiny.Block):
    """In a layer that fills a cache, the first tokens get something else than without one."""

    def forward(self, x, *args, **kwargs):
        out = super().forward(x, *args, **kwargs)
        if x.shape[1] in (PREFILL, 1) and x.shape[1] != 1:
            return (out[0] * 1.01, *out[1:])
        return out


PREFILL = 17  # of 23 tokens, six are written with a cache


def test_a_fault_while_the_cache_is_filled_is_laid_on_its_layer() -> None:
    torch.manual_seed(0)
    model = tiny.Gpt()
    model.blocks[0].__class__ = PrefillBlock
    found = audit(model, (tiny.ids(),), causal=True, properties=["cache"])
    assert found.failures, str(found)
    assert {f.culprit.module for f in found.failures} == {"blocks.0"}, str(found)


class TrimmedConvolution(nn.Module):
    """Causal: pads both sides and cuts off the end, as Mamba does."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(WIDTH, WIDTH, 4, padding=3, groups=WIDTH)

    def forward(self, x):
        return x + self.conv(x.transpose(1, 2))[..., :-3].transpose(1, 2)


class Mean(nn.Module):
    def forward(self, x):
        return x + x.mean(1, keepdim=True)


def test_a_causal_convolution_that_pads_and_trims_is_not_the_culprit() -> None:
    torch.manual_seed(0)
    x = torch.randn(3, 17, WIDTH)
    healthy = nn.Sequential(TrimmedConvolution(), TrimmedConvolution())
    assert audit(healthy, x, causal=True).answer
    found = audit(
        nn.Sequential(TrimmedConvolution(), Mean(), nn.Linear(WIDTH, 5)), x, causal=True, properties=["causality"]
    )
    assert next(f for f in found.failures if f.check == "intervention").culprit.module == "1", str(found)


@pytest.mark.slow
@pytest.mark.parametrize("family", ["Mamba", "FalconMamba"])
def test_mamba_starts_again_with_every_chunk(family: str) -> None:
    transformers = pytest.importorskip("transformers")
    config = getattr(transformers, f"{family}Config")(
        vocab_size=61, hidden_size=24, num_hidden_layers=2, state_size=7, time_step_rank=5
    )
    torch.manual_seed(0)
    found = audit(getattr(transformers, f"{family}ForCausalLM")(config).eval(), properties=["cache"])
    assert {f.check: str(f.status) for f in found.of("cache")} == {"steps of 1": "pass", "steps of 3": "fail"}, str(
        found
    )


class Trained(nn.Module):
    """Two layers that share keys; ``lost``: the second finds them in the cache, and without one has none."""

    def __init__(self, *, lost: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.words, self.k, self.lost = nn.Embedding(WORDS, WIDTH), nn.Linear(WIDTH, WIDTH), lost

    def forward(self, ids, past_key_values=None, use_cache=True):
        x = self.words(ids)
        k = self.k(x) if past_key_values is None else torch.cat([past_key_values[0], self.k(x)], 1)
        ahead = torch.ones(ids.shape[1], k.shape[1], dtype=torch.bool).triu(1 + k.shape[1] - ids.shape[1])
        for _ in range(2):
            x = x + torch.softmax((x @ k.transpose(1, 2)).masked_fill(ahead, -math.inf), -1) @ k
            k = k if use_cache or not self.lost else self.k(x)
        return {"logits": x, "past_key_values": (k,) if use_cache else None}


def test_a_cache_that_is_filled_changes_nothing() -> None:
    found = audit(Trained(lost=True), IDS, causal=True, properties=["cache"])
    assert [f.check for f in found.failures] == ["use_cache"], str(found)
    assert audit(Trained(lost=False), IDS, causal=True, properties=["cache"]).answer
