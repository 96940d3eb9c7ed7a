"""The models of six strangers (blind.py to lodger.py): wrong ones are caught, odd ones not accused."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from typer.testing import CliRunner  # noqa: E402

from mutants import blind, lodger, newcomer, passerby, stranger, visitor  # noqa: E402
from regard.cli import app  # noqa: E402
from regard.errors import InputError  # noqa: E402
from regard_models import audit  # noqa: E402
from regard_models.inputs.model_input import model_input  # noqa: E402
from tiers import TABLE, sampled  # noqa: E402


@pytest.mark.parametrize(
    "case",
    sampled(
        blind.WRONG + stranger.WRONG + newcomer.WRONG + visitor.WRONG + passerby.WRONG + lodger.WRONG,
        every=5,
        others=TABLE,
        name=lambda case: case[0],
    ),
)
def test_a_wrong_model_is_caught(case) -> None:
    _, build, inputs, claims, name, culprits = case
    found = audit(build().eval(), inputs, properties=[name], **claims)
    assert found.failures, str(found)
    assert found.failures[0].culprit.module in culprits, str(found)


@pytest.mark.parametrize(
    "case",
    sampled(
        blind.HEALTHY + stranger.HEALTHY + newcomer.HEALTHY + visitor.HEALTHY + passerby.HEALTHY + lodger.HEALTHY,
        every=4,
        others=TABLE,
        name=lambda case: case[0],
    ),
)
def test_an_odd_model_is_not_accused(case) -> None:
    name, build, inputs, claims = case
    found = audit(build().eval(), inputs, **claims)
    # Thought to be healthy, and rightly accused: a row that may read nothing is 0 / 0, and spoils every gradient; a
    # gradient as of a softmax is not that of the largest.
    accused = {"the largest of all subtracted": {"gradients/padding"}, "the best alone": {"gradients/step"}}
    wanted = accused.get(name, set())
    assert {f"{f.property}/{f.check}" for f in found.failures} == wanted, str(found)
    assert not found.open_questions, str(found)


def test_a_table_that_is_asked_for_one_row_only() -> None:
    found = audit(blind.NoPlaces().eval(), blind.IDS, causal=False, properties=["order"])
    assert [(f.check, f.culprit.module) for f in found.failures] == [("permutation", "p")], str(found)
    assert audit(blind.Reader().eval(), blind.IDS, causal=False, properties=["order"]).answer


def test_padding_that_is_known_by_its_id() -> None:
    for build, healthy in ((blind.RightId, True), (blind.WrongId, False)):
        given = model_input(build().eval(), {"ids": blind.IDS}, causal=False, pad=0)
        stream = given.streams[0]
        assert (stream.pad, stream.masks != ()) == (0, True)  # it has a parameter for a mask, and ignores it
        found = audit(ByIdOnly(build()), blind.IDS, properties=["padding"])
        assert found.of("padding")[0].status == "not applicable"
        given = model_input(ByIdOnly(build()).eval(), blind.IDS, pad=0)
        assert audit(given, properties=["padding"]).answer is healthy
    with pytest.raises(InputError, match="the padding 37 must be an id from 0 to 36"):
        model_input(ByIdOnly(blind.RightId()), blind.IDS, pad=37)


class ByIdOnly(nn.Module):
    def __init__(self, inside) -> None:
        super().__init__()
        self.inside = inside

    def forward(self, ids):
        return self.inside(ids)


def test_the_option_for_it(tmp_path) -> None:
    file = tmp_path / "model.py"
    file.write_text("from mutants import blind\nfrom auditing_by_id import ByIdOnly\n\n\ndef build():\n"
                    "    return ByIdOnly(blind.WrongId()).eval(), blind.IDS\n")  # fmt: skip
    (tmp_path / "auditing_by_id.py").write_text(
        "from torch import nn\n\n\nclass ByIdOnly(nn.Module):\n    def __init__(self, inside):\n"
        "        super().__init__()\n        self.inside = inside\n\n    def forward(self, ids):\n"
        "        return self.inside(ids)\n"
    )
    command = ["model", "audit", f"{file}:build", "--property", "padding"]
    assert CliRunner().invoke(app, command).exit_code == 0
    assert CliRunner().invoke(app, [*command, "--pad", "0"]).exit_code == 1
    assert isinstance(CliRunner().invoke(app, [*command, "--pad", "99"]).exception, InputError)


class Square(nn.Module):
    """Two layers that are given a mask of places by places; ``leaks``: the second does without."""

    def __init__(self, *, leaks: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = (nn.MultiheadAttention(blind.WIDTH, 4, batch_first=True) for _ in range(2))
        self.leaks = leaks

    def forward(self, x, mask):
        x = x + self.first(x, x, x, attn_mask=mask, need_weights=False)[0]
        return x + self.second(x, x, x, attn_mask=None if self.leaks else mask, need_weights=False)[0]


@pytest.mark.parametrize("kind", ["hide", "add"])
def test_a_mask_of_blocks(kind: str) -> None:
    late = torch.arange(17) > 6
    mask = late != late[:, None]
    mask = mask if kind == "hide" else torch.zeros(17, 17).masked_fill(mask, -torch.inf)
    found = audit(Square(leaks=True), (blind.VECTORS, mask), properties=["packing"])
    assert [f.culprit.module for f in found.failures] == ["second"], str(found)
    assert audit(Square(leaks=False), (blind.VECTORS, mask), properties=["packing"]).answer
    causal = torch.ones(17, 17, dtype=torch.bool).triu(1)
    found = audit(Square(leaks=False), (blind.VECTORS, causal), properties=["packing"])
    assert [f.status for f in found.findings] == ["not applicable"]  # causality is asked elsewhere
    assert "Not asked at all: documents by cu_seqlens" in found.findings[0].sentence


def test_a_padded_example_alone() -> None:
    class Layer(blind.Layer):
        def forward(self, x, past, first, keep):
            conv = self.conv.forward
            raw = self.norms[0](x)
            if len(x) == 1:
                self.conv.forward = lambda inside, past: conv(raw, past)
            try:
                return super().forward(x, past, first, keep)
            finally:
                self.conv.forward = conv

    model = blind.Writer()
    model.layers[1] = Layer()
    found = audit(model.eval(), blind.IDS, causal=True, properties=["batch"])
    assert [f.check for f in found.failures] == ["padded, alone"], str(found)
    assert audit(blind.Writer().eval(), blind.IDS, causal=True, properties=["batch"]).answer


class Told(nn.Module):
    """Positions start again with every step, unless they are passed."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.words, self.places = nn.Embedding(29, 12), nn.Embedding(64, 12)
        self.k, self.v = nn.Linear(12, 12), nn.Linear(12, 12)

    def forward(self, ids, position_ids=None, past_key_values=None):
        place = torch.arange(ids.shape[1]).expand_as(ids) if position_ids is None else position_ids
        x = self.words(ids) + self.places(place)
        k, v = self.k(x), self.v(x)
        if past_key_values is not None:
            k, v = torch.cat([past_key_values[0], k], 1), torch.cat([past_key_values[1], v], 1)
        ahead = torch.ones(ids.shape[1], k.shape[1], dtype=torch.bool).triu(1 + k.shape[1] - ids.shape[1])
        read = torch.softmax((x @ k.transpose(1, 2)).masked_fill(ahead, -torch.inf), -1) @ v
        return {"logits": x + read, "past_key_values": (k, v)}


def test_positions_that_only_the_caller_knows() -> None:
    ids = torch.randint(0, 29, (3, 17), generator=torch.Generator().manual_seed(0))
    found = audit(Told(), ids, causal=True, properties=["cache"])
    assert {f.check: str(f.status) for f in found.findings} == {
        "positions": "fail",
        "steps of 1": "pass",
        "steps of 3": "pass",
    }
    assert "Told the positions, it gets the same" in found.failures[0].sentence


class Decays(nn.Module):
    """A decay by two tables, a power and its square, which agree up to float32; ``leaks``: and the future."""

    def __init__(self, *, leaks: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.words, self.leaks = nn.Embedding(29, 12), leaks
        self.register_buffer("by", torch.exp(-torch.linspace(0.1, 0.9, 12)))
        self.register_buffer("twice", torch.exp(-2 * torch.linspace(0.1, 0.9, 12)))

    def forward(self, ids, state=None):
        x, made = self.words(ids), []
        state = torch.zeros_like(x[:, 0]) if state is None else state
        for i in range(0, ids.shape[1], 2):
            made.append(state * self.by + x[:, i])
            if i + 1 < ids.shape[1]:
                made.append(state * self.twice + x[:, i] * self.by + x[:, i + 1])
            state = made[-1]
        logits = torch.stack(made, 1)
        return {"logits": logits + 1e-9 * x.mean(1, keepdim=True) if self.leaks else logits, "state": state}


def test_tables_that_agree_up_to_their_rounding() -> None:
    ids = torch.randint(0, 29, (3, 17), generator=torch.Generator().manual_seed(0))
    found = audit(Decays(), ids, causal=True, properties=["cache"])
    assert not found.failures, str(found)
    notes = [f.sentence for f in found.findings if f.status == "note"]
    assert len(notes) == 2, str(found)
    assert all("rounding of its tables" in note for note in notes)
    leaking = audit(Decays(leaks=True), ids, causal=True, properties=["causality"])  # small, and no rounding
    assert {f.check for f in leaking.failures} == {"intervention", "length", "gradient"}, str(leaking)


def test_tensors_with_a_graph_that_a_call_left_behind_are_copied() -> None:
    from regard_models.inputs.copies import copy_module

    module = nn.Linear(3, 3)
    module.register_buffer("kept", module(torch.ones(2, 3)))
    made = copy_module(module)
    assert torch.equal(made.kept, module.kept)
    assert made.kept.grad_fn is None
    assert made.kept.data_ptr() != module.kept.data_ptr()


class OtherTable(lodger.SaysTied):
    """Words are read by two tables; the head is tied to the second, as a translator's is to the target's."""

    def __init__(self) -> None:
        super().__init__(really=False)
        self.targets = nn.Embedding.from_pretrained(self.head.weight, freeze=False)
        self.targets.weight = self.head.weight

    def forward(self, ids):
        return super().forward(ids) + 0.1 * self.targets(ids).sum(-1, keepdim=True)


def test_a_head_that_is_tied_to_another_table_is_tied() -> None:
    ids = torch.randint(0, 29, (3, 13), generator=torch.Generator().manual_seed(0))
    found = audit(OtherTable(), ids, properties=["gradients"])
    assert [f.status.name for f in found.findings if f.check == "tied"] == ["PASSED"], str(found)


def test_a_claim_about_places_where_none_are_known() -> None:
    with pytest.raises(InputError, match="no input is known to be a row of tokens"):
        audit(lodger.Codebooks(), torch.zeros(3, 19, 3, dtype=torch.long), causal=True)


class Routed(nn.Module):
    """A healthy router that also returns its scores, experts x tokens of all examples; what follows it leaks."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.words, self.router, self.after = nn.Embedding(29, 12), Scores(), Leaks(12, 12)

    def forward(self, ids):
        return self.after(self.router(self.words(ids))[0])


class Scores(nn.Linear):
    def __init__(self) -> None:
        super().__init__(12, 4)

    def forward(self, x):
        scores = super().forward(x)
        return x * scores.amax(-1, keepdim=True), scores.flatten(0, 1).mT


class Leaks(nn.Linear):
    def forward(self, x):
        return super().forward(x) + 1e-6 * x.mean(0, keepdim=True)


def test_scores_of_all_tokens_do_not_make_a_router_guilty() -> None:
    ids = torch.randint(0, 29, (3, 17), generator=torch.Generator().manual_seed(0))
    found = audit(Routed().eval(), ids, properties=["batch"])
    assert {f.culprit.module for f in found.failures} == {"after"}, str(found)
