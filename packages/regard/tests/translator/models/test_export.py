"""Exports: the engine against the run itself, token by token and sentence by sentence, and every refusal."""

from __future__ import annotations

import json
import random
import shutil
import sys

import numpy as np
import pytest
import torch

from regard.errors import InputError
from regard.files import create_folder
from regard.translator.data.batches import Batch
from regard.translator.data.sources import Pairs
from regard.translator.data.vocabulary import EOS, PAD, SOS, UNK
from regard.translator.models.encoder import VectorOutput, build_model
from regard.translator.models.export import ABOUT, Engine, export, fingerprint, open_engine
from regard.translator.models.run import Run, load_run
from regard.translator.models.translation import translate_ids
from regard.translator.models.weights import model_tensors, write_weights
from regard.translator.runs.files import read_json
from regard.translator.scoring.scores import score
from regard.translator.training.loop import train
from regard.translator.training.preparation import first_files, prepare
from toy_translator import WORDS, tiny, write_corpus

pytest.importorskip("ctranslate2", reason="ctranslate2 is not installed: pip install 'regard[engine]'")
torch.set_num_threads(1)

SMALL = [
    "model.kind=encoder-decoder", "model.layers=2", "decoder_layers=3", "width=8", "heads=2", "head_width=4",
    "feed_forward=13", "longest=7", "positions=sinusoidal",
]  # fmt: skip
VARIANTS = {
    "sinusoidal, tied": ["joint=true", "tied=true"],
    "learned": ["positions=learned"],
    "no positions": ["positions=none"],
    "rotary": ["positions=rotary"],
    "rotary, wide heads": ["positions=rotary", "head_width=6"],
    "narrow heads": ["head_width=3", "heads=3"],
    "wide heads": ["head_width=10"],
    "vectors of another width": ['embedding.source="glove:VECTORS"', 'embedding.target="glove:VECTORS"'],
    "pieces": ["vocabulary.kind=bpe", "vocabulary.size=48", "joint=true", "tied=true"],
}  # fmt: skip


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    folder = write_corpus(tmp_path_factory.mktemp("export") / "toy")
    words = [*WORDS.keys(), *WORDS.values()]
    (folder / "vectors.txt").write_text(
        "".join(f"{w} {i % 3 / 9} {i % 5 / 9} {-i % 7 / 9} 0.1 0\n" for i, w in enumerate(words))
    )
    return folder


def noisy_run(toy, folder, *changes: str, end: float = 1.0, never: float = -30.0, noise: float = 0.3) -> Run:
    """An untrained run, its weights mostly noise: every matrix matters, and many sentences are nearly the best.

    ``end`` is added to the score of <eos>, ``never`` to the markers that are not written.
    """
    settings = tiny(toy, *SMALL, *(change.replace("VECTORS", str(toy / "vectors.txt")) for change in changes))
    data = prepare(settings)
    vectors = {"source_vectors": data.source_vectors, "target_vectors": data.target_vectors}
    model = build_model(settings, len(data.source), len(data.target), **vectors)
    torch.manual_seed(5)
    for parameter in model.parameters():
        parameter.data += noise * torch.randn(parameter.shape)
    for block in model.decoder.blocks:
        block.source_attention.mix.weight.data *= 4  # the source has its say
    output = model.output
    bias = (output.bias if isinstance(output, VectorOutput) else output.linear.bias).data
    bias[EOS] += end
    bias[[PAD, SOS, UNK]] += never
    create_folder(folder, first_files(settings, data, model, ""))
    write_weights(folder / "best.safetensors", model_tensors(model), {"epoch": 1})
    return load_run(folder)


def sources(run: Run, count: int = 40) -> list[list[int]]:
    draw = np.random.default_rng(2)
    return [[SOS, *draw.integers(4, len(run.source), draw.integers(1, 7)).tolist(), EOS] for _ in range(count)]


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_engine_is_the_model(toy, tmp_path, variant):
    """-log p of arbitrary targets to 1e-4, and the same translations greedily and with beams."""
    run = noisy_run(toy, tmp_path / "run", *VARIANTS[variant])
    export(run.folder)
    engine = open_engine(run, "ctranslate2")
    given = sources(run)
    draw = np.random.default_rng(3)
    targets = [draw.integers(4, len(run.target), draw.integers(1, 7)).tolist() for _ in given]
    with torch.no_grad():
        wanted = run.model.token_losses(Batch.of(given, [[SOS, *ids, EOS] for ids in targets])).numpy()
    scored = engine._translator.score_batch(
        [[run.source.words[i] for i in ids] for ids in given], [[run.target.words[i] for i in ids] for ids in targets]
    )
    np.testing.assert_allclose(
        np.concatenate([[0, *(-np.array(s.log_probs))] for s in scored]), wanted, atol=1e-4, rtol=1e-4
    )
    for beam in (1, 2, 5):
        ours, theirs = translate_ids(run.model, given, beam=beam), engine.translate(given, beam=beam, batch=7)
        assert [ids for ids, _ in theirs] == [ids for ids, _ in ours]
        np.testing.assert_allclose([p for _, p in theirs], [p for _, p in ours], atol=1e-3)
    assert len({round(p, 3) for _, p in ours}) > 20  # the sources matter


def test_sentences_without_an_end_are_the_runs_own(toy, tmp_path):
    run = noisy_run(toy, tmp_path / "run", end=-3.0)
    export(run.folder)
    engine, given = open_engine(run, "ctranslate2"), sources(run)
    for beam in (1, 3):
        ours = translate_ids(run.model, given, beam=beam)
        assert np.mean([len(ids) == 7 for ids, _ in ours]) > 0.5
        theirs = engine.translate(given, beam=beam)
        assert [ids for ids, _ in theirs] == [ids for ids, _ in ours]
        np.testing.assert_allclose([p for _, p in theirs], [p for _, p in ours], atol=1e-3)


def test_where_unknown_words_are_probable_greedy_is_the_same_and_probabilities_are_higher(toy, tmp_path):
    run = noisy_run(toy, tmp_path / "run", never=1.0)
    export(run.folder)
    given = sources(run)
    ours, theirs = translate_ids(run.model, given), open_engine(run, "ctranslate2").translate(given)
    assert [ids for ids, _ in theirs] == [ids for ids, _ in ours]
    ended = [k for k, (ids, _) in enumerate(ours) if len(ids) < 7]
    gaps = [theirs[k][1] - ours[k][1] for k in ended]
    assert min(gaps) > -1e-4
    assert max(gaps) > 0.1


@pytest.fixture(scope="module")
def run(toy):
    return noisy_run(toy, toy.parent / "run", "width=16", "head_width=8", noise=0.03)


@pytest.fixture(scope="module")
def exported(run):
    return {q: export(run.folder, quantization=q) for q in ("float32", "int8")}


def test_from_python_with_a_name_a_folder_or_an_open_engine(run, exported):
    sentences = [" ".join(list(WORDS)[i : i + 3]) for i in range(5)]
    for beam in (1, 4):
        ours = run.translate(sentences, beam=beam)
        for engine in ("ctranslate2", exported["float32"].folder, open_engine(run, "ctranslate2")):
            theirs = run.translate(sentences, beam=beam, engine=engine)
            assert theirs.target == ours.target
            assert theirs.log_probability == pytest.approx(ours.log_probability, abs=1e-3)
    with pytest.raises(InputError, match="beam must be 1"):
        run.translate(sentences, beam=0, engine="ctranslate2")
    with pytest.raises(InputError, match="Sentence 1 has 8 tokens and this run reads at most 7"):
        run.translate(["ein " * 8], engine="ctranslate2")
    assert run.translate(["ein " * 8], cut=True, engine="ctranslate2").cut == [0]


def test_int8_is_smaller_and_nearly_the_same(run, exported):
    small, large = exported["int8"], exported["float32"]
    assert small.size < large.size
    assert "Use it: regard translator translate" in str(small)
    assert str(small).endswith("--engine ctranslate2-int8")
    assert str(large).endswith("--engine ctranslate2")
    given = sources(run, 30)
    losses = []
    for name in ("ctranslate2", "ctranslate2-int8"):
        engine = open_engine(run, name)
        words = [[run.source.words[i] for i in ids] for ids in given]
        losses.append(np.concatenate([s.log_probs for s in engine._translator.score_batch(words, [["dog"]] * 30)]))
        assert len(engine.translate(given, beam=2)) == 30
    assert not np.array_equal(*losses)
    assert np.corrcoef(*losses)[0, 1] > 0.9  # rows of 16 numbers are short for int8


def test_scores_with_an_engine(run, exported):
    pairs = Pairs(["ein hund", "der mann sieht"], ["a dog", "the man sees"])
    ours, theirs = score(run, pairs, beam=2), score(run, pairs, beam=2, engine="ctranslate2")
    assert theirs.all == ours.all
    assert theirs.perplexity == ours.perplexity
    assert (theirs.engine, theirs.beam) == ("ctranslate2", 2)
    assert "translated by ctranslate2 with a beam of 2" in str(theirs)


def test_what_an_export_holds(run, exported):
    found = exported["float32"]
    names = {path.name for path in (run.folder / "ctranslate2-float32").iterdir()}
    assert names == {
        "model.bin", "config.json", "source_vocabulary.json", "target_vocabulary.json", "vocabulary.json", ABOUT,
    }  # fmt: skip
    assert json.loads((run.folder / "ctranslate2-float32" / ABOUT).read_text())["fingerprint"] == fingerprint(run)
    assert json.loads(found.to_json())["epoch"] == run.facts["epoch"]
    assert not [path for path in run.folder.iterdir() if path.name.startswith(".")]


def copy_of(run: Run, folder) -> Run:
    shutil.copytree(run.folder, folder)
    return load_run(folder)


def test_an_export_of_other_weights_is_refused(run, exported, tmp_path):
    other = copy_of(run, tmp_path / "run")
    Engine(other, tmp_path / "run" / "ctranslate2-float32")
    write_weights(tmp_path / "run" / "last.safetensors", model_tensors(other.model), other.facts)
    next(other.model.parameters()).data[0, 0] += 1e-3
    with pytest.raises(
        InputError, match=r"was exported from other weights than .*run has now \(best, epoch \d+\); exp"
    ):
        open_engine(other, "ctranslate2")
    write_weights(tmp_path / "run" / "best.safetensors", model_tensors(other.model), other.facts)
    export(other.folder)
    open_engine(load_run(other.folder), "ctranslate2")
    with pytest.raises(InputError, match="was exported from other weights"):
        open_engine(load_run(other.folder, weights="last"), "ctranslate2")


def test_what_is_no_export_is_refused(run, exported, toy, tmp_path):
    other = copy_of(run, tmp_path / "run")
    place = tmp_path / "run" / "ctranslate2-float32"
    (place / "model.bin").write_bytes((place / "model.bin").read_bytes()[:200])
    with pytest.raises(InputError, match=r"has other files than were exported, or damaged ones; export the run again"):
        open_engine(other, "ctranslate2")
    about = read_json(place / "export.json")
    del about["files"]
    (place / "export.json").write_text(json.dumps(about))  # as earlier versions wrote it
    with pytest.raises(InputError, match=r"The engine cannot open .*ctranslate2-float32 \(.+\); export the run again"):
        open_engine(other, "ctranslate2")
    (place / ABOUT).write_text("{}")
    with pytest.raises(InputError, match="does not describe an export"):
        open_engine(other, "ctranslate2")
    with pytest.raises(InputError, match=r"is not an export: it has no export\.json"):
        open_engine(other, str(toy))
    with pytest.raises(
        InputError, match="There is no engine 'onnx': give eager, ctranslate2, ctranslate2-int8, or the"
    ):
        other.translate(["ein"], engine="onnx")
    shutil.rmtree(place)
    with pytest.raises(
        InputError, match=r"is not exported yet; first: regard translator export .*run --to ctranslate2$"
    ):
        open_engine(other, "ctranslate2")
    shutil.rmtree(tmp_path / "run" / "ctranslate2-int8")
    with pytest.raises(InputError, match=r"--quantization int8$"):
        open_engine(other, "ctranslate2-int8")


@pytest.mark.parametrize("kind", ["encoder", "reads-padding"])
def test_what_the_engine_cannot_hold(toy, tmp_path, kind):
    train(tiny(toy, "epochs=1", "batch=60", f"model.kind={kind}", "decoder_layers=0"), tmp_path / "run")
    with pytest.raises(InputError, match=f"holds models of kind encoder-decoder, and .* is of kind {kind}; use it"):
        export(tmp_path / "run")
    with pytest.raises(InputError, match="use it as it is, without --engine"):
        load_run(tmp_path / "run").translate(["ein hund"], engine="ctranslate2")
    assert not (tmp_path / "run" / "ctranslate2-float32").exists()


def test_bad_requests(run, tmp_path, monkeypatch):
    with pytest.raises(InputError, match="There is no engine 'onnx' to export to; there is ctranslate2"):
        export(run.folder, to="onnx")
    with pytest.raises(InputError, match="quantization must be one of float32, int8, not 'int4'"):
        export(run.folder, quantization="int4")
    with pytest.raises(InputError, match="There is no run folder"):
        export(tmp_path / "none")
    (tmp_path / "file").write_text("mine")
    with pytest.raises(InputError, match="is a file; give another --out"):
        export(run.folder, out=tmp_path / "file")
    with pytest.raises(InputError, match="exists and is not an export of ours"):
        export(run.folder, out=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    with pytest.raises(
        InputError, match=r"The engine needs ctranslate2, which is not installed: pip install 'regard\[engine\]'"
    ):
        export(run.folder)


def test_a_write_that_fails_leaves_the_old_export(run, tmp_path, monkeypatch):
    from ctranslate2.specs import TransformerSpec

    first = export(run.folder, out=tmp_path / "there")
    before = (tmp_path / "there" / "model.bin").read_bytes()

    def full(self, folder):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(TransformerSpec, "save", full)
        with pytest.raises(InputError, match="there could not be written: No space left on device"):
            export(run.folder, quantization="int8", out=tmp_path / "there")
    assert (tmp_path / "there" / "model.bin").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["there"]
    assert str(first).endswith(f"--engine {tmp_path / 'there'}")
    assert export(run.folder, quantization="int8", out=tmp_path / "there").size < first.size
    assert run.translate(["ein hund"], engine=str(tmp_path / "there")).target


def test_the_command_line(run, toy, tmp_path, monkeypatch, regard):
    shutil.copytree(run.folder, tmp_path / "run", ignore=shutil.ignore_patterns("ctranslate2*"))
    monkeypatch.chdir(tmp_path)
    code, _, err = regard("translator", "translate", "run", toy / "test.de", "--engine", "ctranslate2")
    assert code == 2
    assert err == "regard: run is not exported yet; first: regard translator export run --to ctranslate2\n"
    code, out, _ = regard("translator", "export", "run", "--to", "ctranslate2")
    assert code == 0
    assert "Use it: regard translator translate run --engine ctranslate2" in out
    _, eager, _ = regard("translator", "translate", "run", toy / "test.de", "--beam", 3)
    code, engine, _ = regard("translator", "translate", "run", toy / "test.de", "--beam", 3, "--engine", "ctranslate2")
    assert (code, engine) == (0, eager)
    code, out, _ = regard("translator", "score", "run", "--engine", "ctranslate2", "--json")
    assert code == 0
    assert json.loads(out)["engine"] == "ctranslate2"
    code, out, _ = regard("translator", "export", "run", "--quantization", "int8", "--out", "int8", "--json")
    assert json.loads(out)["quantization"] == "int8"
    code, _, err = regard("translator", "export", "run", "--quantization", "int3")
    assert (code, err) == (2, "regard: quantization must be one of float32, int8, not 'int3'.\n")


@pytest.mark.parametrize("name", ["model.bin", "config.json", "vocabulary.json", "export.json"])
def test_no_flipped_bit_of_an_export_is_silent(run, exported, tmp_path, name):
    other = copy_of(run, tmp_path / "run")
    path, draw = tmp_path / "run" / "ctranslate2-float32" / name, random.Random(13)
    good = path.read_bytes()
    for _ in range(200):
        bent, bit = bytearray(good), draw.randrange(8 * len(good))
        bent[bit // 8] ^= 1 << bit % 8
        path.write_bytes(bytes(bent))
        with pytest.raises(InputError, match="export the run again"):
            open_engine(other, "ctranslate2")
    path.write_bytes(good)
    open_engine(other, "ctranslate2")


def test_a_run_of_somebodys_own_model_is_not_exported(tmp_path):
    (tmp_path / "settings.toml").write_text('[model]\nkind = "own"\n')
    with pytest.raises(InputError, match=r"is a run of a model of your own, .* translate and score take --model FILE"):
        export(tmp_path)
