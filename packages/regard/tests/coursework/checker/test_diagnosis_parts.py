"""Single functions and modules: right ones hold, wrong ones are named."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from regard.coursework.checker.comparison import Match
from regard.coursework.checker.findings import find_findings
from regard.coursework.checker.part_diagnosis import judge
from regard.errors import InputError
from regard.tracing.constructor_arguments import build
from regard.tracing.dataflow import Dataflow
from regard.tracing.parameter_roles import find_roles
from regard.tracing.part_recorder import kind_of, record


def names(thing, **declared) -> list[str]:
    found = judge(record(thing, declared=declared))
    assert found.explained, str(found)
    return [one.name for one in found.mistakes]


# attention(q, k, v)


def attention(q, k, v, mask=None):
    return torch.softmax(q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1]), dim=-1) @ v


def values_first(values, keys, query):
    return torch.einsum(
        "nqk,nkd->nqd", (torch.einsum("nqd,nkd->nqk", query, keys) / keys.shape[2] ** 0.5).softmax(2), values
    )


def two_axes(q, k, v):
    return torch.softmax(torch.mm(q, k.T) / len(q.T) ** 0.5, dim=1) @ v, "and the weights"


def four_axes(query, key, value):
    assert query.dim() == 4
    return F.scaled_dot_product_attention(query, key, value)


def test_a_declared_argument_makes_it_a_translator() -> None:
    class Mine(torch.nn.Module):
        def __init__(self, this, that, width=8):
            super().__init__()

    assert kind_of(Mine) == "layer"
    assert kind_of(Mine, {"this": "source_words", "that": "target_words"}) == "translator"


def test_a_class_with_fixed_sizes_is_a_translator() -> None:
    class Fixed(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.places = nn.Embedding(50, 24), nn.Embedding(9, 24)
            self.layer = nn.TransformerEncoderLayer(24, 3, 29, batch_first=True)
            self.out = nn.Linear(24, 41)

        def forward(self, ids):
            n, t = ids.shape
            return self.out(self.layer(self.words(ids) + self.places(torch.arange(t).expand(n, t))))

    assert record(Fixed).kind == "translator"
    assert names(Fixed) == []


class Stock(nn.Module):
    """A translator of torch's own layer; its forward is in the classes below."""

    def __init__(self, src_vocab, tgt_vocab, d_model=22, nhead=2, d_hid=29, max_len=7, batch_first=True):
        super().__init__()
        self.words, self.places = nn.Embedding(src_vocab, d_model), nn.Embedding(max_len, d_model)
        self.layer = nn.TransformerEncoderLayer(d_model, nhead, d_hid, batch_first=batch_first)
        self.out = nn.Linear(d_model, tgt_vocab)

    def states(self, ids):
        return self.words(ids) + self.places(torch.arange(ids.shape[1]))


class TimeFirst(Stock):
    def forward(self, ids):
        self.layer.self_attn.batch_first = False
        return self.out(self.layer(self.words(ids) + self.places(torch.arange(len(ids)))[:, None]))


class WithLengths(Stock):
    def forward(self, ids, lengths):
        return self.out(
            self.layer(self.states(ids), src_key_padding_mask=torch.arange(ids.shape[1]) >= lengths[:, None])
        )


class WithMask(Stock):
    def forward(self, ids, padding_mask):
        return self.out(self.layer(self.states(ids), src_key_padding_mask=padding_mask))


class WithTargets(Stock):
    def forward(self, ids, targets):
        return self.out(self.layer(self.states(ids)))


def test_another_order_of_axes_is_one_departure_and_not_two_mistakes() -> None:
    assert names(TimeFirst) == ["time-first"]


@pytest.mark.parametrize("kind", [WithLengths, WithMask])
def test_lengths_are_counted_and_a_mask_may_be_none(kind) -> None:
    assert names(kind) == []


def test_a_forward_that_must_have_something_else_is_refused() -> None:
    with pytest.raises(InputError, match="give it a default, as in targets=None"):
        record(WithTargets)


def loops(queries, keys, values):
    rows = torch.zeros(*queries.shape[:-1], values.shape[-1])
    for i in range(queries.shape[-2]):
        pairs = [(queries[..., i, :] * keys[..., j, :]).sum(-1) for j in range(keys.shape[-2])]
        shares = torch.softmax(torch.stack(pairs, -1) / math.sqrt(keys.shape[-1]), -1)
        rows[..., i, :] = sum(shares[..., j, None] * values[..., j, :] for j in range(keys.shape[-2]))
    return rows


@pytest.mark.parametrize("function", [attention, values_first, two_axes, four_axes, loops])
def test_a_right_attention_holds(function) -> None:
    assert kind_of(function) == "attention"
    assert names(function) == []


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("scale-missing", lambda q, k, v: torch.softmax(q @ k.mT, -1) @ v),
        ("scale-by-width", lambda q, k, v: torch.softmax(q @ k.mT / q.shape[-1], -1) @ v),
        ("softmax-over-queries", lambda q, k, v: torch.softmax(q @ k.mT / q.shape[-1] ** 0.5, 1) @ v),
        ("softmax-over-batch", lambda q, k, v: torch.softmax(q @ k.mT / q.shape[-1] ** 0.5, 0) @ v),
        ("softmax-missing", lambda q, k, v: q @ k.mT / q.shape[-1] ** 0.5 @ v),
        ("scale-by-length", lambda q, k, v: torch.softmax(q @ k.mT / q.shape[1] ** 0.5, -1) @ v),
        ("scale-inverted", lambda q, k, v: torch.softmax(q @ k.mT * q.shape[-1] ** 0.5, -1) @ v),
    ],
)
def test_a_wrong_attention_is_named(name: str, function) -> None:
    assert names(function) == [name]


def test_an_attention_of_the_wrong_shape_is_refused() -> None:
    with pytest.raises(ValueError, match=r"where an output of shape \(3, 7, 13\) is wanted"):
        record(lambda q, k, v: q @ k.mT)


# several heads, with and without a mask


class Heads(nn.Module):
    fill = -1e9

    def __init__(self, d_model, h, dropout=0.1):
        super().__init__()
        self.h, self.d_k = h, d_model // h
        self.linears = nn.ModuleList([nn.Linear(d_model, d_model) for _ in range(4)])
        self.dropout = nn.Dropout(dropout)

    def hide(self, scores, mask):
        return scores.masked_fill(mask == 0, self.fill)

    def forward(self, query, key, value, mask=None):
        n = query.size(0)
        pairs = zip(self.linears, (query, key, value), strict=False)
        q, k, v = (linear(x).view(n, -1, self.h, self.d_k).transpose(1, 2) for linear, x in pairs)
        scores = q @ k.transpose(2, 3) / math.sqrt(self.d_k)
        if mask is not None:
            scores = self.hide(scores, mask)
        out = self.dropout(scores.softmax(-1)) @ v
        return self.linears[3](out.transpose(1, 2).contiguous().view(n, -1, self.h * self.d_k))


class BlockedIsTrue(Heads):
    def hide(self, scores, mask):
        return scores.masked_fill(mask.bool(), float("-1e20"))


class WithResidual(Heads):
    def __init__(self, d_model, h):
        super().__init__(d_model, h)
        self.norm = nn.LayerNorm(d_model)

    def forward(self, x, mask=None):
        return self.norm(x + super().forward(x, x, x, mask))


class NoProjection(nn.Module):
    def forward(self, q, k, v, mask=None):
        scores = q @ k.mT / q.shape[-1] ** 0.5
        return (scores if mask is None else scores.masked_fill(mask == 0, -1e9)).softmax(-1) @ v, None


@pytest.mark.slow
@pytest.mark.parametrize("kind", [Heads, BlockedIsTrue, WithResidual, NoProjection])
def test_right_heads_hold(kind) -> None:
    assert names(kind) == []


class Slices(nn.Module):
    """Splits first and projects each slice with one small matrix: seen in much public code."""

    def __init__(self, embed_size, heads):
        super().__init__()
        self.heads, self.size = heads, embed_size // heads
        self.q, self.k, self.v = (nn.Linear(self.size, self.size, bias=False) for _ in range(3))
        self.out = nn.Linear(embed_size, embed_size)

    def forward(self, values, keys, query, mask):
        q, k, v = (x.reshape(*x.shape[:2], self.heads, self.size) for x in (query, keys, values))
        energy = torch.einsum("nqhd,nkhd->nhqk", [self.q(q), self.k(k)])
        if mask is not None:
            energy = energy.masked_fill(mask == 0, float("-1e20"))
        weights = torch.softmax(energy / (self.heads * self.size) ** 0.5, dim=3)
        return self.out(torch.einsum("nhql,nlhd->nqhd", [weights, self.v(v)]).flatten(2))


@pytest.mark.slow
def test_heads_that_see_a_slice_only_are_named() -> None:
    assert names(Slices) == ["scale-by-all-heads", "heads-see-a-slice"]


def hiding(**methods) -> type:
    return type("Changed", (Heads,), methods)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("mask-fill-near-0", hiding(fill=1e-9)),
        pytest.param("mask-fill-near-0", hiding(fill=0.0), marks=pytest.mark.slow),
        ("mask-on-queries", hiding(hide=lambda self, s, mask: s.masked_fill(mask.transpose(-1, -2) == 0, -1e9))),
        ("mask-without-effect", hiding(hide=lambda self, s, mask: s)),
        ("mask-added-as-numbers", hiding(hide=lambda self, s, mask: s + mask)),
    ],
)
def test_a_wrong_mask_is_named(name: str, kind: type) -> None:
    assert names(kind) == [name]


# a norm, a feed-forward part, a table of positions


class Norm(nn.Module):
    def __init__(self, features, eps=1e-6):
        super().__init__()
        self.gain, self.shift, self.eps = nn.Parameter(torch.ones(features)), nn.Parameter(torch.zeros(features)), eps

    def forward(self, x):
        mean, var = x.mean(-1, keepdim=True), x.var(-1, keepdim=True, unbiased=False)
        return self.gain * (x - mean) / torch.sqrt(var + self.eps) + self.shift


class Deviation(Norm):
    def forward(self, x):
        return self.gain * (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + self.eps) + self.shift


class OverPlaces(Norm):
    def forward(self, x):
        mean, var = x.mean(1, keepdim=True), x.var(1, keepdim=True, unbiased=False)
        return self.gain * (x - mean) / torch.sqrt(var + self.eps) + self.shift


class OneGain(Norm):
    def __init__(self, eps=1e-6):
        super().__init__(1, eps)


class Bare(nn.Module):
    def forward(self, x):
        return F.layer_norm(x, x.shape[-1:])


def test_norms() -> None:
    assert names(Norm) == []
    assert names(nn.LayerNorm(22)) == []
    assert names(Deviation) == ["norm-n-1"]
    assert names(OverPlaces) == ["norm-over-places"]
    assert names(Bare) == ["norm-unlearned"]
    assert names(OneGain) == ["norm-one-gain"]


class Forward(nn.Sequential):
    def __init__(self, d_model, d_ff):
        super().__init__(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))


class NoActivation(nn.Sequential):
    def __init__(self, d_model, d_ff):
        super().__init__(nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model))


def test_feed_forward() -> None:
    assert names(Forward) == []
    assert names(NoActivation) == ["relu-missing"]


def table(exponent, cosine=None):
    def positions(length, dim):
        made = torch.zeros(length, dim)
        for t in range(length):
            for i in range(dim // 2):
                made[t, 2 * i] = math.sin(t / 10000 ** exponent(i, dim))
                made[t, 2 * i + 1] = math.cos(t / 10000 ** (cosine or exponent)(i, dim))
        return made

    return positions


@pytest.mark.parametrize(
    ("expected", "function"),
    [
        ([], table(lambda i, d: 2 * i / d)),
        (["sinusoid-exponent-halved"], table(lambda i, d: i / d)),
        (["sinusoid-exponent-doubled"], table(lambda i, d: 4 * i / d)),
        (["sinusoid-exponent-by-column"], table(lambda i, d: 4 * i / d, lambda i, d: 2 * (2 * i + 1) / d)),
        (["sinusoid-exponent-column"], table(lambda i, d: 2 * i / d, lambda i, d: (2 * i + 1) / d)),
        (["sinusoid-floor-division"], table(lambda i, d: 2 * i // d)),
    ],
)
def test_a_table_is_compared_entry_by_entry(expected: list[str], function) -> None:
    assert names(function, kind="positions") == expected


class Added(nn.Module):
    """The table of torch's old tutorial: time first, and a plain attribute."""

    def __init__(self, d_model, max_len=50):
        super().__init__()
        where = torch.arange(max_len)[:, None] / 10000 ** (torch.arange(0, d_model, 2) / d_model)
        table = torch.stack([torch.sin(where), torch.cos(where)], -1).reshape(max_len, 1, d_model)
        self.keep(table)

    def keep(self, table):
        self.table = table

    def forward(self, x):
        return x + self.table[: x.size(0)]


class Registered(Added):
    def keep(self, table):
        self.register_buffer("table", table)


@pytest.mark.slow
def test_a_table_for_time_first_is_right_and_says_so() -> None:
    found = judge(record(Registered))
    assert found.answer
    assert any(note.startswith("the first axis is taken for time") for note in found.notes)
    assert names(Added) == ["unregistered"]


def test_a_table_that_counts_from_1_is_right_and_says_so() -> None:
    def positions(length, dim):
        where = torch.arange(1, length + 1)[:, None] / 10000 ** (torch.arange(0, dim, 2) / dim)
        return torch.stack([torch.sin(where), torch.cos(where)], -1).flatten(1)

    found = judge(record(positions))
    assert found.answer
    assert found.notes == ("sinusoidal positions, counted from 1",)


def test_an_unknown_table_is_shown_at_its_worst_entry() -> None:
    found = judge(record(table(lambda i, d: 3 * i / d), declared={"kind": "positions"}))
    assert not found.explained
    assert "at position" in str(found)


# a loss


def cross_entropy(scores, targets, **options):
    return F.cross_entropy(scores.reshape(-1, scores.shape[-1]), targets.reshape(-1), **options)


@pytest.mark.parametrize(
    ("expected", "function"),
    [
        ([], lambda scores, targets: cross_entropy(scores, targets, ignore_index=0)),
        ([], lambda scores, targets: -torch.log_softmax(scores, -1).gather(2, targets[..., None])[targets != 0].mean()),
        (["padding-scored"], lambda scores, targets: cross_entropy(scores, targets)),
        (["sum-for-mean"], lambda scores, targets: cross_entropy(scores, targets, ignore_index=0, reduction="sum")),
        (["softmax-first"], lambda scores, targets: cross_entropy(scores.softmax(-1), targets, ignore_index=0)),
        (["wrong-sign"], lambda scores, targets: -cross_entropy(scores, targets, ignore_index=0)),
        (["smoothing"], lambda scores, targets: cross_entropy(scores, targets, ignore_index=0, label_smoothing=0.1)),
        (["targets-next"], lambda scores, targets: cross_entropy(scores, targets.roll(-1, 1), ignore_index=0)),
        (["first-token-dropped"], lambda scores, targets: cross_entropy(scores[:, 1:], targets[:, 1:], ignore_index=0)),
        (
            ["mean-over-padding"],
            lambda scores, targets: cross_entropy(scores, targets, ignore_index=0, reduction="none").mean(),
        ),
    ],
)
def test_losses(expected: list[str], function) -> None:
    assert names(function) == expected


def test_a_mean_of_the_sentences_means_is_named() -> None:
    def loss(scores, targets):
        real = targets != 0
        nats = -torch.log_softmax(scores, -1).gather(2, targets[..., None])[..., 0] * real
        return (nats.sum(1) / real.sum(1)).mean()

    assert names(loss) == ["mean-of-sentence-means"]


def test_a_strange_loss_gets_no_name() -> None:
    found = judge(record(lambda scores, targets: (scores**2).mean()))
    assert not found.explained
    assert found.mistakes == ()


def test_what_hangs_on_a_class_and_is_never_read_is_no_mistake() -> None:
    class Patterned(nn.Linear):
        def __init__(self, d_model):
            super().__init__(d_model, d_model)
            self.acts = {"relu": nn.ReLU()}
            self.pattern = [nn.Linear(d_model, d_model, device="meta")]
            self.inside = [nn.Linear(d_model, d_model)]

        def forward(self, x):
            return super().forward(self.acts["relu"](x))

    class Hidden(Patterned):
        def forward(self, x):
            return super().forward(self.inside[0](x))

    assert record(Patterned).unregistered == ()
    assert record(Hidden).unregistered == ("inside",)


def test_a_function_that_makes_a_model_is_no_loss_and_even_heads_are_tried() -> None:
    def make_model(source_words, target_words, width=30, heads=3):
        class Pairs(nn.Module):
            def __init__(self):
                super().__init__()
                self.rows, self.out = nn.Embedding(source_words, width), nn.Linear(width, target_words)

            def forward(self, ids):
                return self.out(self.rows(ids).unflatten(-1, (heads, -1, 4)).flatten(2))

        return Pairs()

    assert kind_of(make_model) == "translator"
    assert record(make_model).sizes["width"] == 24
    with pytest.raises(InputError, match=r"make_rows\(width=22\) failed.*8"):
        build(make_rows)


def make_rows(width):
    raise ValueError(f"{width} is no multiple of 8 that I like")


def test_a_row_whose_number_was_made_plain_is_looked_up() -> None:
    class Loop(nn.Module):
        def __init__(self, source_words, target_words, width):
            super().__init__()
            self.rows, self.out = nn.Embedding(source_words, width), nn.Linear(width, target_words)

        def forward(self, ids):
            return self.out(torch.stack([torch.stack([self.rows.weight[word] for word in one]) for one in ids]))

    run = record(Loop).runs[0]
    assert [anchor.kind for anchor in Dataflow(run).anchors] == ["tokens", "linear"]


def test_half_precision_is_seen_without_a_role() -> None:
    class Half(nn.Module):
        def __init__(self, d_model, d_ff):
            super().__init__()
            self.up, self.down = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)

        def forward(self, x):
            return self.down(self.up(x).relu().half().to(x.dtype))

    found = judge(record(Half))
    assert not found.answer
    recording = record(Half)
    roles = find_roles(recording, whole=False)
    match = Match(complete=False, mistakes=(), switches={}, reached=0, roles=roles)
    assert "half-precision" in [one.mistake.name for one in find_findings(recording, match, stages=("feed-forward",))]


# what cannot be checked


def test_a_loss_of_many_numbers_is_refused() -> None:
    with pytest.raises(InputError, match="must return one number, a tensor"):
        record(lambda scores, targets: scores)


def test_an_unknown_argument_is_asked_for() -> None:
    class Odd(nn.Module):
        def __init__(self, src_vocab, wibble):
            super().__init__()

    with pytest.raises(InputError, match=r"argument 'wibble' has no default.*REGARD = \{\"arguments\": \{\"wibble\""):
        build(Odd)
    with pytest.raises(InputError, match="declares the argument 'wobble', which the constructor does not take"):
        build(Odd, {"arguments": {"wibble": 3, "wobble": 4}})


def test_declared_arguments_are_roles_or_values() -> None:
    class Odd(nn.Module):
        def __init__(self, src_vocab, wibble, wobble):
            super().__init__()
            self.given = (wibble, wobble)

    assert build(Odd, {"arguments": {"wibble": "width", "wobble": 99}}).model.given == (22, 99)


def test_something_else_is_refused() -> None:
    with pytest.raises(InputError, match="name a class, a module or a function"):
        record(3)
    with pytest.raises(InputError, match=r"kind is 'poem'; it must be one of translator, attention"):
        record(attention, declared={"kind": "poem"})
    with pytest.raises(InputError, match="does not say what arguments it takes"):
        record(dict, declared={"kind": "translator"})
    with pytest.raises(
        InputError, match=r"made something of type int; it must be a class.*derived from torch\.nn\.Module"
    ):
        record(lambda: 3, declared={"kind": "translator"})


def test_torch_is_left_as_it_was() -> None:
    before, state = torch.get_default_dtype(), torch.random.get_rng_state()
    record(attention)
    assert torch.get_default_dtype() is before
    assert np.array_equal(state.numpy(), torch.random.get_rng_state().numpy())


class TriangularHead(nn.Module):
    """One head of a decoder; none of its names says so."""

    lowest = 0

    def __init__(self, d_model: int, d_head: int) -> None:
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(d_model, d_head, bias=False) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.q(x), self.k(x), self.v(x)
        places = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).tril(self.lowest)
        scores = (q @ k.transpose(-2, -1) / k.shape[-1] ** 0.5).masked_fill(~places, -1e9)
        return torch.softmax(scores, dim=-1) @ v


class ShiftedHead(TriangularHead):
    """It reads one place too far into the future."""

    lowest = 1


def test_a_part_may_hide_the_future_by_exactly_the_triangular_mask() -> None:
    found = judge(record(TriangularHead))
    assert found.answer
    assert "the future is hidden, by a triangular mask" in found.notes
    assert not judge(record(ShiftedHead)).answer
