"""The encoder-decoder: blind to padding and to the future, the same step by step as at once, and saved whole."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch.nn import functional as F  # noqa: N812

from regard.errors import InputError
from regard.translator.data.batches import Batch, table
from regard.translator.models.encoder import VectorOutput, build_model, source_mask
from regard.translator.models.encoder_decoder import Encoder, EncoderDecoder, PartialTranslations
from regard.translator.models.run import load_run
from regard.translator.models.weights import Average, model_tensors, read_weights
from regard.translator.reports import report
from regard.translator.runs.settings import Settings, load_settings
from regard.translator.scoring.scores import perplexity, score
from regard.translator.studies.comparison import read_variants
from regard.translator.training.loop import prepare, train
from toy_translator import StopError, same, stop_at, tiny, weights, write_corpus

torch.set_num_threads(1)  # tiny tensors: a second thread only costs

WORDS = 23
DEEP = ["model.kind=encoder-decoder", "layers=3", "decoder_layers=2"]
SMALL = [*DEEP, "width=12", "heads=3", "head_width=10", "feed_forward=37", "longest=15", "positions=sinusoidal"]
TIED = ["joint=true", "tied=true"]
POSITIONS = ["learned", "sinusoidal", "rotary", "none"]


def small(*changes: str) -> EncoderDecoder:
    model = build_model(Settings().with_changes([*SMALL, *changes]), WORDS, WORDS)
    assert isinstance(model, EncoderDecoder)
    return model


def sentences(draw: np.random.Generator, count: int) -> list[list[int]]:
    return [[2, *draw.integers(4, WORDS, size=n).tolist(), 3] for n in draw.integers(1, 12, size=count)]


def some_batch(seed: int = 0, count: int = 7) -> Batch:
    draw = np.random.default_rng(seed)
    return Batch.of(sentences(draw, count), sentences(draw, count))


@pytest.mark.parametrize("positions", POSITIONS)
def test_company_and_padding_change_nothing(positions):
    model, batch = small(f"positions={positions}"), some_batch()
    together = model(batch.source, batch.target)
    for row in range(len(batch)):
        source, target = (ids[row][ids[row] != 0][None] for ids in (batch.source, batch.target))
        alone = model(source, target)
        torch.testing.assert_close(together[row : row + 1, : target.shape[1]], alone, atol=3e-6, rtol=1e-4)


@pytest.mark.parametrize("positions", POSITIONS)
def test_no_place_knows_what_comes_after_it_and_each_knows_what_came_before(positions):
    model, batch = small(f"positions={positions}"), some_batch(count=1)
    target = torch.tensor([[2, 5, 6, 7, 8, 9]])
    changed = torch.tensor([[2, 5, 6, 17, 8, 9]])
    before, after = model(batch.source, target)[0], model(batch.source, changed)[0]
    assert torch.equal(before[:3], after[:3])
    assert bool(((before[3:] - after[3:]).abs().amax(1) > 1e-4).all())


def test_the_order_of_the_source_matters_only_with_positions():
    source, turned, target = torch.tensor([[2, 7, 9, 3]]), torch.tensor([[2, 9, 7, 3]]), torch.tensor([[2, 5]])
    for positions in POSITIONS:
        model = small(f"positions={positions}")
        difference = float((model(source, target) - model(turned, target)).abs().max().detach())
        assert (difference < 1e-5) is (positions == "none")


@pytest.mark.parametrize("positions", POSITIONS)
def test_step_by_step_is_the_same_as_all_at_once(positions):
    """With the memory of keys and values, in hypotheses that are swapped on the way, and sentences that leave."""
    model, batch = small(f"positions={positions}"), some_batch(count=5)
    draw = torch.Generator().manual_seed(3)
    writing = PartialTranslations(model, batch.source)
    ids = torch.full((5, 3, 1), 2)
    rows = torch.arange(5)
    for place in range(9):
        found = writing.next(ids[..., -1])
        for hypothesis in range(3):
            at_once = model(batch.source[rows], ids[:, hypothesis])[:, -1]
            torch.testing.assert_close(found[:, hypothesis], at_once, atol=3e-6, rtol=1e-4)
        kept = torch.arange(len(rows)) if place != 4 else torch.tensor([3, 0])
        parents = torch.randint(3, (len(kept), 3), generator=draw)
        writing.keep(kept, (kept[:, None] * 3 + parents).flatten())
        ids, rows = ids[kept].gather(1, parents[..., None].expand(-1, -1, place + 1)), rows[kept]
        ids = torch.cat([ids, torch.randint(4, WORDS, (len(rows), 3, 1), generator=draw)], dim=2)


def test_token_losses_are_the_plain_ones_and_the_given_sos_costs_nothing():
    model, batch = small(), some_batch()
    log_p = torch.log_softmax(model(batch.source, batch.target), dim=-1)
    expected = [
        -log_p[row, place - 1, word] if place else torch.zeros(())
        for row, target in enumerate(batch.target.tolist())
        for place, word in enumerate(target)
        if word != 0
    ]
    found = model.token_losses(batch)
    torch.testing.assert_close(found, torch.stack(expected), atol=3e-6, rtol=1e-4)
    said = batch.labels != 2
    torch.testing.assert_close(found[said].mean(), model.loss(batch))
    assert not found[~said].any()


def test_tied_is_one_matrix_that_is_saved_once():
    tied, untied = small(*TIED), small()
    assert isinstance(tied.output, VectorOutput)
    matrix = tied.encoder.embedding.tokens.weight
    assert matrix is tied.decoder.embedding.tokens.weight is tied.output.vectors.weight
    names = model_tensors(tied).keys()
    assert [n for n in names if "tokens" in n or "vectors" in n] == ["model.encoder.embedding.tokens.weight"]
    count = [sum(p.numel() for p in m.parameters()) for m in (tied, untied)]
    assert count[1] - count[0] == 2 * WORDS * 12
    assert untied.encoder.embedding.tokens.weight is not untied.decoder.embedding.tokens.weight


def test_attention_maps_show_the_source_as_each_word_was_said():
    model, batch = small().eval(), some_batch()
    with torch.no_grad():
        maps = model.attention(batch.source, batch.target)
        assert maps.shape == (7, 2, 3, batch.target.shape[1], batch.source.shape[1])
        torch.testing.assert_close(maps[..., 1:, :].sum(-1), torch.ones_like(maps[..., 1:, 0]))
        assert not maps[..., 0, :].any()  # <sos> is given, not said
        assert not maps.permute(0, 4, 1, 2, 3)[batch.source == 0].any()
        own = model.attention(batch.source)
        said = table([[2, *ids, 3] for ids, _ in model.translate(batch.source)])
        torch.testing.assert_close(own, model.attention(batch.source, said))


def test_the_maps_are_what_the_layer_uses():
    """The first block's output, rebuilt from its own map."""
    model, batch = small().eval(), some_batch()
    states, allowed = model.encoder(batch.source)
    block, x = model.decoder.blocks[0], model.decoder.embedding(batch.target)
    read = block.source_weights(x, states, allowed) @ block.source_attention.remember(states).values
    x = block._after_own(x)
    x = x + block.source_attention.mix(read.transpose(1, 2).flatten(2))
    torch.testing.assert_close(
        block._after_feed_forward(x),
        block(model.decoder.embedding(batch.target), states, allowed),
        atol=3e-6,
        rtol=1e-4,
    )


def test_the_encoder_gives_no_mask_where_nothing_is_padding():
    model = small()
    assert isinstance(model.encoder, Encoder)
    states, allowed = model.encoder(torch.tensor([[2, 5, 3], [2, 6, 3]]))
    assert states.shape == (2, 3, 12)
    assert allowed is None
    assert source_mask(torch.tensor([[2, 5, 3], [2, 3, 0]])) is not None


def test_the_good_model_has_its_size():
    settings = load_settings("good")
    model = build_model(settings, 4000, 4000)
    width, inner = settings.model.width, settings.model.feed_forward
    attention = 4 * (width * width + width)
    feed_forward = 2 * width * inner + inner + width
    encoder = settings.model.layers * (attention + feed_forward + 4 * width)
    decoder = settings.model.decoder_layers * (2 * attention + feed_forward + 6 * width)
    expected = 4000 * width + 4000 + encoder + decoder + 4 * width
    assert sum(p.numel() for p in model.parameters()) == expected


def test_dropout_is_a_function_of_the_seed_and_the_seed_is_the_weights():
    first, again, other = small(), small(), small("seed=1")
    assert same(model_tensors(first), model_tensors(again))
    assert not same(model_tensors(first), model_tensors(other))


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_corpus(tmp_path_factory.mktemp("corpus") / "toy")


GOOD = [*DEEP, "layers=2", "decoder_layers=1", *TIED, "dropout=0.1", "smoothing=0.1", "average=0.9"]
GOOD += ["batching=equal-length", "batch_tokens=40", "warmup=5", "schedule=cosine", "learning_rate=0.01"]


@pytest.mark.slow
@pytest.mark.parametrize("step", [1, 6, 9, 13])
def test_a_run_stopped_anywhere_ends_with_the_same_bits(data, tmp_path, step):
    settings = tiny(data, *GOOD)
    train(settings, tmp_path / "whole")
    with pytest.raises(StopError):
        train(settings, tmp_path / "stopped", watch=stop_at(step))
    train(settings, tmp_path / "stopped")
    for name in ("last", "best"):
        assert same(weights(tmp_path / "whole", name), weights(tmp_path / "stopped", name))


@pytest.mark.slow
def test_it_learns_and_everything_else_works_for_it_unchanged(tmp_path, regard):
    data = write_corpus(tmp_path / "more", 400)
    settings = tiny(data, *GOOD, "epochs=8", "dropout=0.0", "smoothing=0.0", "average=0.95")
    result = train(settings, tmp_path / "run")
    assert result.best.perplexity_without_sos < 2
    run = load_run(tmp_path / "run")
    for beam in (1, 4):
        assert run.translate(["der rote hund"], beam=beam).target == ["the red dog"]
    prepared = prepare(settings)
    found = perplexity(run.model, prepared.validation)
    assert found.counting_sos == result.best.perplexity  # and so best.safetensors has the averaged weights
    assert found.counting_sos ** (found.tokens / (found.tokens - found.pairs)) == pytest.approx(found.without_sos)
    scored = score(run, prepared.corpus.test, beam=3)
    assert scored.all.bleu > 50
    report([tmp_path / "run"], tmp_path / "report.html")
    assert "Attention" in (tmp_path / "report.html").read_text()
    code, out, _ = regard("translator", "translate", tmp_path / "run", "ein hund", "--beam", 3)
    assert (code, out) == (0, "a dog\n")


def test_a_report_names_every_layer_and_says_what_its_numbers_count(data, tmp_path):
    settings = tiny(data, *GOOD, "decoder_layers=2", "epochs=1")
    train(settings, tmp_path / "run")
    report([tmp_path / "run"], tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert all(f"layer {layer}, head {head}" in page for layer in (0, 1) for head in range(settings.model.heads))
    assert "&lt;sos&gt; is given, not said, so its row is empty" in page
    assert "Perplexity without &lt;sos&gt;, on a logarithmic scale" in page  # as the training loss is


@pytest.mark.parametrize("batching", ["mixed", "equal-length"])
def test_the_training_loss_is_the_mean_over_the_tokens_that_are_said(tmp_path, batching):
    """With a rate of almost 0 it is the log-perplexity without <sos>, however lengths fall into batches."""
    data = write_corpus(tmp_path / "data", 60)
    changes = ["learning_rate=1e-12", "epochs=1", "dropout=0.0", "smoothing=0.0", f"batching={batching}", "batch=5"]
    settings = tiny(data, *GOOD, *changes)
    prepared = prepare(settings)
    model = build_model(settings, len(prepared.source), len(prepared.target))
    found = perplexity(model, prepared.train).without_sos
    assert train(settings, tmp_path / "run").epochs[0].training_loss == pytest.approx(math.log(found), rel=1e-6)


def test_one_matrix_starts_from_the_text_of_both_sides(data):
    settings = tiny(data, *GOOD, "vocabulary.joint=true", "tied=true")
    variants = read_variants(["learned", "word2vec:train"], settings, prepare(settings))
    assert variants[1].settings.embedding.source == variants[1].settings.embedding.target == "word2vec:train"
    found = prepare(variants[1].settings)
    assert found.source_vectors.types_covered == found.source_vectors.types  # the target's words too


def test_a_file_of_vectors_is_for_the_one_matrix_of_a_tied_model(data, tmp_path):
    (tmp_path / "english.txt").write_text("dog 1.0 2.0\nred 3.0 4.0\n")
    spec = f"glove:{tmp_path / 'english.txt'}"
    settings = tiny(data, *GOOD, "vocabulary.joint=true", "tied=true")
    (variant,) = read_variants([spec], settings, prepare(settings))
    assert variant.settings.embedding.source == variant.settings.embedding.target == spec


@pytest.mark.slow
def test_the_last_checkpoint_has_both_weights_and_opens_with_the_averaged_ones(data, tmp_path):
    settings = tiny(data, *GOOD)
    train(settings, tmp_path / "run")
    tensors, _ = read_weights(tmp_path / "run" / "last.safetensors")
    run = load_run(tmp_path / "run", weights="last")
    for name, tensor in model_tensors(run.model).items():
        average = tensors["average." + name.removeprefix("model.")]
        assert torch.equal(tensor, average)
        assert not torch.equal(average, tensors[name])


def test_an_average_is_the_recursion():
    torch.manual_seed(0)
    layer = torch.nn.Linear(3, 2)
    average = Average(layer, decay=0.8)
    expected = layer.weight.detach().double().numpy().copy()
    for step in range(30):
        layer.weight.data.normal_()
        decay = min(0.8, (1 + step) / (10 + step))
        expected = decay * expected + (1 - decay) * layer.weight.detach().double().numpy()
        average.follow(step=step)
    trained = layer.weight.detach().clone()
    with average.swap_in():
        np.testing.assert_allclose(layer.weight.detach(), expected, rtol=1e-5, atol=1e-6)
    assert torch.equal(layer.weight, trained)
    with pytest.raises(InputError, match=r"x has no average of weight; the folder mixes files of different runs\."):
        average.restore("x", {})


@pytest.mark.slow
def test_pretrained_vectors_on_both_sides_open_without_their_file(data, tmp_path):
    file = tmp_path / "vectors.txt"
    draw = np.random.default_rng(0)
    known = ["ein", "hund", "a", "dog"]
    file.write_text("".join(f"{w} {' '.join(f'{x:.4f}' for x in draw.standard_normal(9))}\n" for w in known))
    vectors = [f"embedding.source=glove:{file}", f"embedding.target=glove:{file}"]
    for name, changes in {"tied": TIED, "untied": [], "frozen": [*TIED, "frozen=true"]}.items():
        train(tiny(data, *DEEP, *vectors, *changes, "epochs=1"), tmp_path / name)
    file.unlink()
    for name in ("tied", "untied", "frozen"):
        assert len(load_run(tmp_path / name).translate(["ein hund"]).target) == 1


def test_beams_that_make_no_sense_are_told(data, tmp_path):
    train(tiny(data, "epochs=1"), tmp_path / "encoder")
    run = load_run(tmp_path / "encoder")
    with pytest.raises(InputError, match=r"beam must be 1 \(greedy\) or more, not 0\."):
        run.translate(["ein"], beam=0)
    with pytest.raises(InputError, match=r"of 3 is for the encoder-decoder, which searches; this encoder writes"):
        run.translate(["ein"], beam=3)


def test_cross_entropy_of_the_scores_is_the_loss():
    model, batch = small(), some_batch()
    scores = model(batch.source, batch.target[:, :-1])
    plain = F.cross_entropy(scores.flatten(0, 1), batch.target[:, 1:].flatten(), ignore_index=0, label_smoothing=0.1)
    torch.testing.assert_close(model.loss(batch, smoothing=0.1), plain)
