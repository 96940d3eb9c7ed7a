"""CTC: the loss against the sum over all paths, the decoders against every sentence there is, the model as a whole."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from plain_translator import plain_ctc, plain_ctc_loss
from regard.errors import InputError
from regard.translator.data.batches import Batch, table
from regard.translator.data.sources import Pairs
from regard.translator.data.vocabulary import EOS, SOS, UNK
from regard.translator.engines.run import load_run
from regard.translator.models.ctc import CTCTranslator
from regard.translator.models.ctc_loss import BLANK, Labels, ctc_losses, fused_ctc
from regard.translator.models.ctc_search import best_paths, prefix_beams, without_markers
from regard.translator.models.embeddings import Vectors
from regard.translator.models.encoder import build_model
from regard.translator.reports import report
from regard.translator.runs.settings import Settings
from regard.translator.scoring.scores import score
from regard.translator.studies.comparison import compare_runs
from regard.translator.studies.summary import NLL
from regard.translator.training.loop import train
from regard.translator.training.preparation import load_data
from toy_translator import StopError, same, stop_at, tiny, weights, write_corpus

torch.set_num_threads(1)  # tiny tensors: a second thread only costs


def collapse(path: tuple[int, ...]) -> tuple[int, ...]:
    """Runs of one word written once, blanks left out."""
    return tuple(word for word, _ in itertools.groupby(path) if word != BLANK)


def all_sentences(p: np.ndarray) -> dict[tuple[int, ...], float]:
    """The probability of every sentence, by walking every path; ``p`` is (slots, words)."""
    found: dict[tuple[int, ...], float] = {}
    for path in itertools.product(range(p.shape[1]), repeat=len(p)):
        sentence = collapse(path)
        found[sentence] = found.get(sentence, 0.0) + math.prod(p[t, w] for t, w in enumerate(path))
    return found


def some_log_p(seed: int, slots: int, words: int, sentences: int = 1, spread: float = 1.5) -> torch.Tensor:
    draw = torch.Generator().manual_seed(seed)
    return torch.log_softmax(spread * torch.randn(sentences, slots, words, generator=draw, dtype=torch.float64), dim=-1)


def written_only(log_p: torch.Tensor) -> torch.Tensor:
    """The same with the markers' columns (1 to 3) in front of the words, as the model has them."""
    rows = torch.full((*log_p.shape[:2], log_p.shape[2] + 3), -torch.inf, dtype=log_p.dtype)
    rows[:, :, 0], rows[:, :, 4:] = log_p[:, :, 0], log_p[:, :, 1:]
    return rows


@pytest.mark.parametrize(("slots", "words", "seed"), [(1, 3, 0), (3, 4, 1), (5, 3, 2), (5, 4, 3), (7, 3, 4)])
def test_the_loss_is_the_sum_over_all_paths(slots, words, seed):
    log_p = some_log_p(seed, slots, words)
    everything = all_sentences(log_p[0].exp().numpy())
    assert math.fsum(everything.values()) == pytest.approx(1, abs=1e-12)
    for sentence, p in everything.items():
        loss = ctc_losses(log_p, Labels.from_lists([list(sentence)]), torch.tensor([slots]))
        assert float(loss) == pytest.approx(-math.log(p), abs=1e-10)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(1, 2), max_size=6), st.integers(1, 5))
def test_a_target_fits_where_some_path_says_it(sentence, slots):
    log_p = some_log_p(0, slots, 3)
    possible = tuple(sentence) in all_sentences(log_p[0].exp().numpy())
    labels = Labels.from_lists([sentence])
    assert bool(labels.slots_needed <= slots) == possible
    assert bool(ctc_losses(log_p, labels, torch.tensor([slots])).isfinite()) == possible


def test_slots_past_the_end_say_nothing():
    log_p = some_log_p(0, 7, 4, sentences=3)
    labels = Labels.from_lists([[1, 1], [2], [3, 1, 2]])
    losses = ctc_losses(log_p, labels, torch.tensor([7, 2, 5]))
    for row, slots in enumerate([7, 2, 5]):
        p = all_sentences(log_p[row, :slots].exp().numpy())
        assert float(losses[row]) == pytest.approx(-math.log(p[[(1, 1), (2,), (3, 1, 2)][row]]), abs=1e-10)


@pytest.mark.parametrize("smoothing", [0.0, 0.13])
@pytest.mark.parametrize("piece", [1, 300, 10**6])
def test_the_fused_loss_and_its_gradient_are_the_plain_ones(smoothing, piece):
    draw = torch.Generator().manual_seed(1)
    shapes = [(7, 11, 5), (13, 5), (13,)]
    leaves = [torch.randn(*s, generator=draw, dtype=torch.float64).requires_grad_() for s in shapes]
    sentences = [[5], [6, 6], [4, 5, 4], [4, 4, 4, 4, 4, 4, 4], [7, 8, 7, 7, 9], [4, 5, 6], [4, 5, 6, 7, 8, 9, 10, 11]]
    labels, slots = Labels.from_lists(sentences), torch.tensor([11, 11, 10, 11, 11, 3, 7])  # rows 3 and 6 do not fit
    plain = plain_ctc(*leaves, labels, slots, smoothing=smoothing)
    fused = fused_ctc(*leaves, labels, slots, smoothing=smoothing, piece=piece)
    assert fused.item() == pytest.approx(plain.item(), abs=1e-11)
    for ours, theirs in zip(
        torch.autograd.grad(3 * fused, leaves), torch.autograd.grad(3 * plain, leaves), strict=True
    ):
        torch.testing.assert_close(ours, theirs, atol=1e-11, rtol=0)


def test_the_fused_loss_of_pairs_that_never_fit_is_zero():
    leaves = [
        torch.randn(2, 3, 5).requires_grad_(),
        torch.randn(7, 5).requires_grad_(),
        torch.zeros(7).requires_grad_(),
    ]
    loss = fused_ctc(*leaves, Labels.from_lists([[4, 4, 4], [4, 5, 6, 4]]), torch.tensor([3, 3]), smoothing=0.1)
    assert loss.item() == 0
    assert all(bool((g == 0).all()) for g in torch.autograd.grad(loss, leaves))


@pytest.mark.parametrize("seed", range(11))
def test_the_best_path_is_the_best_of_all_paths(seed):
    log_p = written_only(some_log_p(seed, 5, 3))
    found, at = best_paths(log_p, torch.tensor([5]))
    words = [0, 4, 5]
    best = max(
        itertools.product(words, repeat=5), key=lambda path: sum(float(log_p[0, t, w]) for t, w in enumerate(path))
    )
    assert tuple(found[0][0]) == collapse(best)
    assert [best[t] for t in at[0]] == found[0][0]
    assert all(t == 0 or best[t - 1] != best[t] for t in at[0])  # the first slot of its run


@pytest.mark.parametrize(("slots", "words"), [(3, 4), (5, 3), (6, 3)])
@pytest.mark.parametrize("seed", range(7))
def test_a_wide_search_finds_the_most_probable_sentence(slots, words, seed):
    log_p = some_log_p(seed, slots, words, spread=0.7)
    everything = all_sentences(log_p[0].exp().numpy())
    best = max(everything, key=everything.__getitem__)
    ids, value = prefix_beams(written_only(log_p), torch.tensor([slots]), beam=10**4, candidates=None, worth=0)[0]
    assert tuple(w - 3 for w in ids) == best
    assert value == pytest.approx(math.log(everything[best]), abs=1e-10)


def test_searching_among_sentences_beats_the_best_path_where_paths_are_many():
    """p(blank) = .6, .6 and p(word) = .4, .4: the best path is empty (.36), the word has the other .64."""
    log_p = written_only(torch.tensor([[[0.6, 0.4], [0.6, 0.4]]], dtype=torch.float64).log())
    (empty, p_empty), (word, p_word) = (
        best_paths(log_p, torch.tensor([2]))[0][0],
        prefix_beams(log_p, torch.tensor([2]), beam=2)[0],
    )
    assert (empty, word) == ([], [4])
    assert math.exp(p_empty) == pytest.approx(0.36)
    assert math.exp(p_word) == pytest.approx(0.64)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 3), st.integers(1, 4))
def test_both_decoders_report_the_probability_of_what_they_say(seed, beam, slots):
    log_p = written_only(some_log_p(seed, slots, 3))
    everything = all_sentences(log_p[0, :, [0, 4, 5]].exp().numpy())
    for ids, value in (
        best_paths(log_p, torch.tensor([slots]))[0][0],
        prefix_beams(log_p, torch.tensor([slots]), beam=beam)[0],
    ):
        assert math.exp(value) == pytest.approx(everything[tuple(w - 3 for w in ids)], rel=1e-9)


@pytest.mark.slow
def test_a_long_search_does_not_underflow():
    log_p = written_only(some_log_p(0, 2000, 30)).float()
    ids, value = prefix_beams(log_p, torch.tensor([2000]), beam=3)[0]
    assert len(ids) > 500
    assert math.isfinite(value)


def test_markers_are_never_written():
    scores = torch.zeros(2, 5, 7)
    scores[:, :, [UNK, SOS, EOS]] = 200.0  # so sure that every word's probability is 0 in float32
    scores[:, :, 6] = 1.0
    log_p = without_markers(scores)
    for found in (best_paths(log_p, torch.tensor([5, 4]))[0], prefix_beams(log_p, torch.tensor([5, 4]), beam=4)):
        assert all(ids and set(ids) <= {4, 5, 6} for ids, _ in found)


def test_sentences_of_a_batch_are_searched_on_their_own():
    log_p = written_only(some_log_p(3, 7, 5, sentences=3))
    slots = torch.tensor([7, 4, 5])
    together = prefix_beams(log_p, slots, beam=5), best_paths(log_p, slots)[0]
    for row, n in enumerate(slots.tolist()):
        one = log_p[row : row + 1, :n]
        assert together[0][row][0] == prefix_beams(one, torch.tensor([n]), beam=5)[0][0]
        assert together[1][row][0] == best_paths(one, torch.tensor([n]))[0][0][0]


# The model


SOURCE, TARGET = 23, 29  # words
SMALL = ["width=12", "heads=3", "head_width=10", "feed_forward=37", "longest=15", "layers=2", "decoder_layers=1"]
PAIRS = ([[2, 7, 3], [2, 9, 8, 7, 3], [2, 6, 5, 3]], [[2, 5, 5, 3], [2, 4, 3], [2, 28, 6, 7, 28, 9, 3]])


def small(*changes: str, words: int = TARGET, seed: int = 0) -> CTCTranslator:
    chosen = Settings().with_changes(["model.kind=ctc", f"seed={seed}", *SMALL, *changes])
    model = build_model(chosen, SOURCE, words)
    assert isinstance(model, CTCTranslator)
    return model.eval()


@pytest.mark.parametrize("positions", ["learned", "sinusoidal", "rotary"])
def test_what_a_sentence_gets_does_not_depend_on_its_batch(positions):
    model = small(f"positions={positions}")
    together = model(table(PAIRS[0]))
    assert together.shape == (3, 10, TARGET)
    for row, ids in enumerate(PAIRS[0]):
        alone = model(torch.tensor([ids]))[0]
        torch.testing.assert_close(together[row, : len(alone)], alone, atol=1e-5, rtol=0)


def test_the_two_slots_of_a_place_differ():
    scores = small()(torch.tensor([[2, 7, 3]]))
    assert float((scores[:, 0::2] - scores[:, 1::2]).abs().max().detach()) > 0.01


def test_a_target_costs_its_words_and_its_end_the_same():
    model, batch = small(), Batch.of(*PAIRS)
    with torch.no_grad():
        shares = model.token_losses(batch).split([4, 3, 7])
        log_p = torch.log_softmax(model(batch.source), dim=-1)
    for row, part in enumerate(shares):
        loss = ctc_losses(
            log_p[row : row + 1], Labels.from_lists([PAIRS[1][row][1:-1]]), torch.tensor([2 * len(PAIRS[0][row])])
        )
        assert float(part[0]) == 0
        assert float(part.sum()) == pytest.approx(float(loss), rel=1e-5)
        assert float(part[1:].max() - part[1:].min()) == 0
    mean = torch.cat(shares).sum() / (len(batch.labels) - len(batch))
    assert float(model.loss(batch).detach()) == pytest.approx(float(mean), rel=1e-5)


@pytest.mark.parametrize("tied", ["false", "true"])
def test_the_loss_is_that_of_all_scores(tied):
    model = small(f"tied={tied}", "joint=true", "dropout=0", words=SOURCE if tied == "true" else TARGET)
    batch = Batch.of(PAIRS[0], [[min(w, SOURCE - 1) for w in ids] for ids in PAIRS[1]])
    found = []
    for loss in (model.loss(batch, smoothing=0.1), plain_ctc_loss(model, batch, smoothing=0.1)):
        found.append([loss.detach(), *torch.autograd.grad(loss, list(model.parameters()))])
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-4)


def test_word_vectors_on_the_target_side_are_scored_through_their_projection():
    draw = np.random.default_rng(0)
    known = np.arange(TARGET) > 11
    vectors = Vectors(
        spec="glove:x", width=7, types=25, types_covered=17, tokens=0, tokens_covered=0, missing=[],
        _matrix=draw.standard_normal((TARGET, 7)).astype(np.float32), _covered=known,
    )  # fmt: skip
    chosen = Settings().with_changes(["model.kind=ctc", *SMALL, "embedding.target=glove:x"])
    model = build_model(chosen, SOURCE, TARGET, target_vectors=vectors)
    batch = Batch.of(*PAIRS)
    with torch.no_grad():
        mean = model.token_losses(batch).sum() / (len(batch.labels) - len(batch))
        assert float(model.loss(batch)) == pytest.approx(float(mean), rel=1e-5)


def test_pairs_that_cannot_be_said_are_counted_and_take_no_part_in_training():
    model = small("dropout=0")
    long = ([[2, 7, 3], [2, 5, 3]], [[2, *range(4, 11), 3], [2, *[5] * 4, 3]])  # 7 words, or 4 and 3 blanks, in 6 slots
    mixed, only = Batch.of(PAIRS[0] + long[0], PAIRS[1] + long[1]), Batch.of(*long)
    assert model.token_losses(mixed)[-15:].isinf().sum() == 13  # all but <sos>
    assert float(model.loss(mixed).detach()) * (len(mixed.labels) - 5) == pytest.approx(
        float(model.loss(Batch.of(*PAIRS)).detach()) * (len(Batch.of(*PAIRS).labels) - 3), rel=1e-5
    )
    none = model.loss(only, smoothing=0.1)
    assert float(none.detach()) == 0
    assert all(
        bool((g == 0).all())
        for g in torch.autograd.grad(none, list(model.parameters()), allow_unused=True)
        if g is not None
    )


@pytest.mark.parametrize("seed", range(5))
def test_translating_finds_the_best_of_all_sentences(seed):
    model = small(words=7, seed=seed)
    model.output.linear.weight.data.mul_(3)  # surer of itself than an untrained model
    source = torch.tensor([[2, 7, 3]])
    with torch.no_grad():
        everything = all_sentences(torch.softmax(model(source), -1)[0][:, [0, 4, 5, 6]].double().numpy())
        (ids, value), (greedy, worth) = model.translate(source, beam=300)[0], model.translate(source)[0]
    best = max(everything, key=everything.__getitem__)
    assert tuple(w - 3 for w in ids) == best
    assert value == pytest.approx(math.log(everything[best]), abs=1e-4)
    assert worth == pytest.approx(math.log(everything[tuple(w - 3 for w in greedy)]), abs=1e-4)


def test_attention_has_a_row_for_every_written_word():
    model = small("decoder_layers=2", words=7)
    source = table(PAIRS[0])
    with torch.no_grad():
        weights, found = model.attention(source), model.translate(source)
    lengths = [len(ids) + 2 for ids, _ in found]
    assert weights.shape == (3, 2, 3, max(lengths), 5)
    for row, length in enumerate(lengths):
        sums = weights[row].sum(-1)
        torch.testing.assert_close(sums[:, :, :length], torch.ones(2, 3, length))
        assert float(sums[:, :, length:].abs().sum()) == 0
        assert float(weights[row, :, :, :, len(PAIRS[0][row]) :].abs().sum()) == 0  # padding is never read


def test_the_maps_are_what_the_slots_use():
    """The first block's output, rebuilt from its own map."""
    model = small()
    with torch.no_grad():
        x, allowed = model.slots._split(*model.encoder(table(PAIRS[0])))
        block = model.slots.blocks[0]
        read = block.weights(x, allowed) @ block.attention.remember(block.before_attention(x)).values
        after = x + block.attention.mix(read.transpose(1, 2).flatten(2))
        rebuilt = after + block.feed_forward(block.before_feed_forward(after))
        torch.testing.assert_close(rebuilt, block(x, allowed), atol=3e-6, rtol=1e-4)


def test_targets_of_any_length_are_learnt_by_heart():
    """A word becomes one, two or three words: what saying word t at place t cannot do."""
    model = small("dropout=0", "width=24")
    targets = [[2, 5, 3], [2, 6, 6, 3], [2, 9, 8, 7, 3], [2, 5, 6, 6, 9, 8, 7, 3]]
    batch = Batch.of([[2, 7, 3], [2, 8, 3], [2, 9, 3], [2, 7, 8, 9, 3]], targets)
    optimiser = torch.optim.AdamW(model.parameters(), lr=0.01)
    for _ in range(60):
        optimiser.zero_grad()
        model.loss(batch).backward()
        optimiser.step()
    with torch.no_grad():
        for beam in (1, 3):
            assert [ids for ids, _ in model.translate(batch.source, beam=beam)] == [ids[1:-1] for ids in targets]


def ctc_run(folder, *changes: str) -> Settings:
    data = write_corpus(folder / "data") if not (folder / "data").exists() else folder / "data"
    return tiny(data, "model.kind=ctc", "layers=2", "decoder_layers=1", "dropout=0.1", "average=0.9", *changes)


@pytest.mark.slow
def test_a_run_trains_resumes_scores_and_reports(tmp_path):
    chosen = ctc_run(tmp_path, "epochs=3", "joint=true", "tied=true", "learning_rate=0.01")
    result = train(chosen, tmp_path / "one")
    assert result.epochs[-1].perplexity < 0.8 * result.epochs[0].perplexity
    with pytest.raises(StopError):
        train(chosen, tmp_path / "two", watch=stop_at(11))
    train(chosen, tmp_path / "two")
    assert same(weights(tmp_path / "one"), weights(tmp_path / "two"))
    run = load_run(tmp_path / "one")
    found = score(run, load_data(chosen).test)
    assert found.perplexity.pairs == 13
    assert math.isfinite(found.perplexity.counting_sos)
    assert len(run.translate(["ein hund", "der rote mann sieht"], beam=4).target) == 2
    report([tmp_path / "one"], tmp_path / "page.html")
    assert "Attention" in (tmp_path / "page.html").read_text()


def test_pairs_that_cannot_be_said_are_told_of_everywhere(tmp_path):
    chosen = ctc_run(tmp_path, "epochs=1", "longest=20", "layers=1")
    for split, count in (("train", 2), ("val", 1), ("test", 3)):
        with (
            open(tmp_path / "data" / f"{split}.de", "a") as source,
            open(tmp_path / "data" / f"{split}.en", "a") as target,
        ):
            source.write("hund\n" * count)  # with its markers 3 places, 6 slots
            target.write("dog dog dog dog\n" * count)  # 4 words and 3 blanks
    result = train(chosen, tmp_path / "one")
    assert result.left_out == 2
    assert "2 training pairs were left out: the model cannot say their targets." in str(result)
    run = load_run(tmp_path / "one")
    assert run.about["cannot_say"] == {"train": 2, "validation": 1}
    assert math.isfinite(result.best.perplexity)
    test = load_data(chosen).test
    found = score(run, test)
    assert (found.perplexity.pairs, found.perplexity.left_out, found.likelihood.pairs) == (13, 3, 13)
    assert "13 pairs; 3 more have probability 0, which makes it infinite over all" in str(found)
    assert found.likelihood.nats[-3:] == [None] * 3
    with pytest.raises(InputError, match="can say none of the 3 targets: each is too long for its source"):
        score(run, Pairs(source=test.source[-3:], target=test.target[-3:]))
    train(chosen.with_changes(["model.kind=encoder-decoder"]), tmp_path / "two")
    compared = compare_runs([tmp_path / "one", tmp_path / "two"], samples=10)
    assert "Training pairs left out, because the model cannot say their targets: one 2, two 0." in compared.notes
    assert (
        "No perplexity is compared: it is of those validation pairs that a model can say, and they differ (one cannot "
        "say 1, two cannot say 0)."
    ) in compared.notes
    assert not compared.has("perplexity")
    assert compared.has(NLL)


def test_slots_without_a_block_are_refused():
    with pytest.raises(InputError, match=r"model.kind ctc needs model.decoder_layers of 1 or more, not 0"):
        Settings().with_changes(["model.kind=ctc"])
