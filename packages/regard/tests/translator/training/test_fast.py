"""The fast loop against the slow, obvious versions in tests/plain_translator.py."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from plain_translator import plain_adamw, plain_dropout, plain_loss
from regard.errors import InputError
from regard.translator.data.batches import Batch, EncodedPairs, epoch_plan, plan, table
from regard.translator.models.encoder import Dropout, build_model, seed_dropout
from regard.translator.models.encoder_decoder import EncoderDecoder
from regard.translator.models.translation import TranslationModel
from regard.translator.runs.settings import Settings
from regard.translator.training.loop import train, training_loss
from regard.translator.training.optimisers import build_optimiser
from toy_translator import same, tiny, weights, write_corpus

torch.set_num_threads(1)  # tiny tensors: a second thread only costs

WORDS = 19
SIZES = ["width=12", "heads=3", "head_width=10", "feed_forward=17", "longest=15"]
KINDS = {
    "encoder": [],
    "reads-padding": [],
    "encoder-decoder": ["layers=2", "decoder_layers=2"],
    "tied": ["model.kind=encoder-decoder", "layers=1", "decoder_layers=1", "tied=true", "joint=true"],
}


def settings_of(kind: str, *changes: str) -> Settings:
    named = [] if kind == "tied" else [f"model.kind={kind}"]
    return Settings().with_changes([*SIZES, *named, *KINDS[kind], *changes])


def lists(draw: np.random.Generator, count: int) -> list[list[int]]:
    return [[2, *draw.integers(4, WORDS, size=n).tolist(), 3] for n in draw.integers(1, 12, size=count)]


def some_pairs(count: int, seed: int = 0) -> EncodedPairs:
    draw = np.random.default_rng(seed)
    source, target = lists(draw, count), lists(draw, count)
    lengths = [np.array([len(s) for s in side]) for side in (source, target)]
    return EncodedPairs(
        source=table(source).int(), target=table(target).int(), source_lengths=lengths[0], target_lengths=lengths[1],
        kept=list(range(count)),
    )  # fmt: skip


def loss_and_gradients(settings: Settings, batches: list[Batch], loss=None) -> tuple[float, dict[str, torch.Tensor]]:
    """Summed over all target tokens of the batches, so that company does not matter."""
    model, total = build_model(settings, WORDS, WORDS), 0.0
    for batch in batches:
        mean = (model.loss if loss is None else loss.__get__(model))(batch, smoothing=0.1)
        whole = mean * model.token_count(batch)
        whole.backward()
        total += float(whole.detach())
    return total, {name: p.grad for name, p in model.named_parameters()}


def assert_equal(fast: tuple[float, dict[str, torch.Tensor]], plain: tuple[float, dict[str, torch.Tensor]]) -> None:
    assert fast[0] == pytest.approx(plain[0], rel=1e-5)
    for name, gradient in plain[1].items():
        torch.testing.assert_close(fast[1][name], gradient, rtol=1e-3, atol=2e-4, msg=name)


@pytest.mark.parametrize("kind", KINDS)
def test_loss_and_gradients_are_those_of_all_scores(kind):
    batch = Batch.of(lists(np.random.default_rng(1), 7), lists(np.random.default_rng(2), 7))
    settings = settings_of(kind)
    plain = loss_and_gradients(settings, [batch], plain_loss)
    assert_equal(loss_and_gradients(settings, [batch]), plain)


@pytest.mark.parametrize("kind", KINDS)
def test_an_epoch_of_equal_lengths_is_an_epoch_of_mixed_ones(kind):
    """The weights held still: same losses, same sum of gradients."""
    data, found = some_pairs(60), []
    for batching in ("equal-length", "mixed"):
        settings = settings_of(kind, "batch_tokens=50", f"batching={batching}")
        batches = [data.batch(rows) for rows in epoch_plan(data, settings, 1)]
        masked = np.mean([bool((b.source == 0).any()) for b in batches])
        assert masked < 0.3 if batching == "equal-length" else masked > 0.7
        found.append(loss_and_gradients(settings, batches))
    assert_equal(*found)


class OwnModel(TranslationModel):
    """As a user may write it: scores, and nothing else."""

    def __init__(self, ours: TranslationModel) -> None:
        super().__init__()
        self.ours, self.says_sos = ours, ours.says_sos

    def scores(self, batch: Batch) -> torch.Tensor:
        return self.ours.scores(batch)


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_that_only_gives_scores_is_trained_and_scored_from_all_of_them(kind):
    batch = Batch.of(lists(np.random.default_rng(1), 7), lists(np.random.default_rng(2), 7))
    ours = build_model(settings_of(kind), WORDS, WORDS)
    own = OwnModel(ours)
    assert own.token_count(batch) == ours.token_count(batch)
    torch.testing.assert_close(own.loss(batch, smoothing=0.1), ours.loss(batch, smoothing=0.1))
    torch.testing.assert_close(own.token_losses(batch), ours.token_losses(batch), rtol=1e-5, atol=1e-6)
    own.loss(batch).backward()
    assert all(p.grad is not None for p in ours.parameters())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_two_passes_that_must_agree_cost_what_all_their_scores_do(kind, smoothing, monkeypatch):
    """Dropout in a form that both ways of computing meet alike: the second pass lacks its first numbers."""

    def halved(self, states):
        kept = torch.ones_like(states)
        kept[len(states) // 2 :, ..., :5] = 0
        return states * kept

    monkeypatch.setattr(Dropout, "forward", halved)
    batch = Batch.of(lists(np.random.default_rng(1), 7), lists(np.random.default_rng(2), 7))
    found = []
    for base in (False, True):
        model = build_model(settings_of(kind), WORDS, WORDS)
        loss = (OwnModel(model) if base else model).agreeing_loss(batch, agreement=5.0, smoothing=smoothing)
        loss.backward()
        found.append((float(loss.detach()), {name: p.grad for name, p in model.named_parameters()}))
    assert_equal(*found)
    plain = build_model(settings_of(kind), WORDS, WORDS).agreeing_loss(batch, agreement=0.0, smoothing=smoothing)
    assert found[0][0] > float(plain.detach()) + 1e-3  # they do differ


@pytest.mark.parametrize("kind", KINDS)
def test_without_dropout_two_passes_are_one(kind):
    batch = Batch.of(lists(np.random.default_rng(1), 7), lists(np.random.default_rng(2), 7))
    model = build_model(settings_of(kind), WORDS, WORDS)
    once, twice = model.loss(batch, smoothing=0.1), model.agreeing_loss(batch, agreement=5.0, smoothing=0.1)
    torch.testing.assert_close(once, twice)


@pytest.mark.slow
@pytest.mark.nightly
def test_an_agreement_keeps_two_passes_together():
    """Trained with it, the probabilities of two passes with other dropout are nearer to each other."""
    batch, apart = Batch.of(lists(np.random.default_rng(1), 7), lists(np.random.default_rng(2), 7)), []
    for agreement in (0, 20):
        settings = settings_of("encoder-decoder", "dropout=0.3", "learning_rate=0.01", f"agreement={agreement}")
        model = build_model(settings, WORDS, WORDS).train()
        optimiser = build_optimiser(settings, model, words=WORDS)
        for step in range(80):
            seed_dropout(model, 0, step)
            optimiser.zero_grad()
            training_loss(model, batch, settings.training).backward()
            optimiser.step()
        losses = []
        for weight in (0.0, 1.0):
            seed_dropout(model, 1, 0)
            losses.append(float(model.agreeing_loss(batch, agreement=weight).detach()))
        apart.append(losses[1] - losses[0])
    assert 0 < apart[1] < apart[0] / 2


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["agreement=5"], "agreement compares two passes that dropout makes differ; set model.dropout too"),
        (["agreement=-1", "dropout=0.1"], "training.agreement must be a number from 0 to 1000"),
    ],
)
def test_an_agreement_that_makes_no_sense_is_refused(changes, message):
    with pytest.raises(InputError, match=message):
        Settings().with_changes(changes)


def test_a_model_without_scores_says_so():
    with pytest.raises(NotImplementedError):
        TranslationModel().loss(Batch.of([[2, 3]], [[2, 3]]))


@pytest.mark.parametrize("tokens", [30, 100, 400])
@pytest.mark.parametrize("batching", ["mixed", "equal-length"])
def test_batches_of_so_many_target_tokens(batching, tokens):
    data = some_pairs(3001)
    batches = plan(data, size=1, tokens=tokens, batching=batching, seed=3, epoch=2)
    assert sorted(np.concatenate(batches).tolist()) == list(range(3001))
    sizes = np.array([data.target_lengths[rows].sum() for rows in batches])
    assert abs(np.median(sizes) / tokens - 1) < 0.15
    assert sizes.max() < 2 * tokens
    other = plan(data, size=1, tokens=tokens, batching=batching, seed=3, epoch=3)
    assert len(other) == len(batches)  # so that the number of steps is known beforehand
    assert not np.array_equal(np.concatenate(other), np.concatenate(batches))
    if batching == "equal-length":
        assert not any(bool((data.batch(rows).source == 0).any()) for rows in batches)


def test_rare_lengths_share_batches():
    """Nine lengths of two pairs each: far too few for a batch of one length."""
    ids = [[2, *[5] * n, 3] for n in range(1, 10) for _ in range(2)]
    lengths = np.array([len(s) for s in ids])
    data = EncodedPairs(
        source=table(ids).int(), target=table(ids).int(), source_lengths=lengths, target_lengths=lengths, kept=[]
    )
    batches = plan(data, size=1, tokens=60, batching="equal-length", seed=0, epoch=1)
    assert sorted(np.concatenate(batches).tolist()) == list(range(18))
    assert len(batches) <= 4
    assert all(np.ptp(lengths[rows]) <= 5 for rows in batches)


@pytest.mark.parametrize("share", [0.125, 0.25, 0.5])
def test_dropout_drops_the_share_independently(share):
    states = torch.ones(997, 503)
    drop = Dropout(share, torch.Generator().manual_seed(7))
    out = drop(states)
    assert set(out.unique().tolist()) == {0.0, float(torch.tensor(1 / (1 - share)))}
    gone = (out == 0).double().numpy()
    error = (share * (1 - share) / gone.size) ** 0.5
    assert abs(gone.mean() - share) < 4.5 * error
    for axis in (0, 1):  # neighbours are dropped independently
        pairs = np.take(gone, range(1, gone.shape[axis]), axis) * np.take(gone, range(gone.shape[axis] - 1), axis)
        assert abs(pairs.mean() - share**2) < 6 * error
    drop.eval()
    assert drop(states) is states


def test_dropout_from_bytes_is_dropout_from_the_same_numbers():
    """The rule is one: a state stays where its number is not below the share."""
    states = torch.randn(11, 13)
    drop = Dropout(0.3, torch.Generator().manual_seed(1))
    eight = torch.empty(18, dtype=torch.int64).random_(-(2**63), None, generator=torch.Generator().manual_seed(1))
    drawn = (eight.view(torch.uint8)[:143].view(11, 13)).float() / 256
    assert drop.share == 77 / 256  # 0.3, rounded
    torch.testing.assert_close(drop(states), plain_dropout(states, 77 / 256, drawn))


def test_one_pass_over_the_weights_is_adamw():
    settings = settings_of("tied", "weight_decay=0.1", "beta2=0.9", "learning_rate=0.01")
    model, draw = build_model(settings, WORDS, WORDS), torch.Generator().manual_seed(0)
    optimiser, weights = build_optimiser(settings, model, words=WORDS), list(model.parameters())
    before = [w.detach().clone() for w in weights]
    gradients = [[torch.randn(w.shape, generator=draw) for _ in range(5)] for w in weights]
    for step in range(5):
        for w, series in zip(weights, gradients, strict=True):
            w.grad = series[step]
        optimiser.step()
    for w, expected in zip(
        weights, plain_adamw(before, gradients, 5, rate=0.01, betas=(0.9, 0.9), decay=0.1), strict=True
    ):
        torch.testing.assert_close(w.detach().double(), expected, rtol=1e-4, atol=1e-6)


@pytest.mark.slow
@pytest.mark.nightly
def test_a_whole_run_is_the_run_with_the_plain_loss(tmp_path, monkeypatch):
    """No dropout and the same batches: the same run up to rounding."""
    data = write_corpus(tmp_path / "toy", 40)
    deep = ["model.kind=encoder-decoder", "layers=2", "decoder_layers=1", "average=0.9", "learning_rate=0.003"]
    fast = train(tiny(data, *deep), tmp_path / "fast")
    monkeypatch.setattr(EncoderDecoder, "loss", plain_loss)
    plain = train(tiny(data, *deep), tmp_path / "plain")
    assert [e.perplexity for e in fast.epochs] == pytest.approx([e.perplexity for e in plain.epochs], rel=1e-3)
    assert not same(weights(tmp_path / "fast"), weights(tmp_path / "plain"))  # the other loss was taken
