"""Token files: our own model's log-probabilities, read back from a file, get our own model's scores."""

from __future__ import annotations

import json
import math

import pytest
import torch

from regard.errors import InputError
from regard.translator.engines.run import load_run
from regard.translator.scoring.scores import score, token_losses
from regard.translator.scoring.token_files import read_log_probabilities, score_file, write_tokens
from regard.translator.training.loop import train
from regard.translator.training.own_runs import encode_fitting, split_pairs, tokens_of, tokens_of_run
from regard.translator.training.preparation import load_data
from toy_translator import tiny, write_corpus

torch.set_num_threads(1)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A trained run, and the tokens of its test pairs that fit."""
    folder = tmp_path_factory.mktemp("tokens")
    train(tiny(write_corpus(folder / "toy")), folder / "run")
    settings, words, pairs, _ = tokens_of_run(folder / "run", "test")
    return folder, settings, words, pairs, encode_fitting(pairs, words, settings)


@pytest.fixture
def lines(made, tmp_path):
    """The lines of a right file, to be spoiled: our tokens with our log-probabilities and translations added."""
    folder, _, words, pairs, encoded = made
    write_tokens(tmp_path / "tokens.jsonl", encoded, pairs, words=words, split="test")
    rows = [json.loads(line) for line in (tmp_path / "tokens.jsonl").read_text().splitlines()]
    run = load_run(folder / "run")
    losses, _ = token_losses(run.model, encoded)
    said = run.translate([pairs.source[i] for i in encoded.kept]).target
    for row, part, text in zip(rows[1:], losses, said, strict=True):
        row |= {"log_probabilities": (-part).tolist(), "translation": text}
    return rows


def saved(tmp_path, rows):
    path = tmp_path / "mine.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_the_file_says_what_the_ids_mean(made, tmp_path):
    _, _, words, pairs, encoded = made
    found = write_tokens(tmp_path / "tokens.jsonl", encoded, pairs, words=words, split="test")
    head, *rows = [json.loads(line) for line in (tmp_path / "tokens.jsonl").read_text().splitlines()]
    assert (found.pairs, found.target_tokens) == (len(rows), sum(len(row["target"]) for row in rows))
    for row in rows:
        text = " ".join(head["target_words"][i] for i in row["target"])
        assert text == f"<sos> {row['reference']} <eos>"
        assert head["source_words"][row["source"][0]] == "<sos>"
    with pytest.raises(InputError, match=r"tokens\.jsonl is there already and is not overwritten; give another --out"):
        write_tokens(tmp_path / "tokens.jsonl", encoded, pairs, words=words, split="test")


@pytest.mark.parametrize("head", [True, False])
def test_our_own_log_probabilities_get_our_own_scores(made, lines, tmp_path, head):
    folder, _, _, pairs, encoded = made
    path = saved(tmp_path, lines if head else lines[1:])
    found = score_file(path, encoded, pairs, scored_on="the test pairs", lowercase=True)
    wanted = score(load_run(folder / "run"), pairs)
    assert found.perplexity.counting_sos == pytest.approx(wanted.perplexity.counting_sos, rel=1e-12)
    assert found.perplexity.without_sos == pytest.approx(wanted.perplexity.without_sos, rel=1e-12)
    assert found.fitting.bleu == wanted.fitting.bleu
    assert found.bleu_signature == wanted.bleu_signature
    assert "exactly the reference" in str(found)


def test_without_translations_there_is_no_bleu(made, lines, tmp_path):
    _, _, _, pairs, encoded = made
    for row in lines[1:]:
        del row["translation"]
    found = score_file(saved(tmp_path, lines), encoded, pairs, scored_on="the test pairs", lowercase=True)
    assert found.fitting is None
    assert "No BLEU: the file has no translations" in str(found)


def test_even_odds_have_the_perplexity_of_the_odds(made, lines, tmp_path):
    encoded = made[4]
    for row in lines[1:]:
        row["log_probabilities"] = [0] + [-math.log(7)] * (len(row["target"]) - 1)
    found = score_file(saved(tmp_path, lines), encoded, made[3], scored_on="", lowercase=True)
    assert found.perplexity.without_sos == pytest.approx(7, rel=1e-12)
    tokens, pairs = found.perplexity.tokens, found.perplexity.pairs
    assert found.perplexity.counting_sos == pytest.approx(7 ** ((tokens - pairs) / tokens), rel=1e-12)


def spoiled(change):
    def spoil(rows):
        change(rows)
        return rows

    return spoil


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda rows: rows[:-1], r"has 12 pairs, and there are 13 to score; regard translator tokens writes"),
        (lambda rows: [*rows, rows[-1]], "line 15 is one pair too many: there are 13"),
        (
            lambda rows: [rows[0], *rows[:1:-1], rows[1]],
            r"line 2: target is \[2, .*, and pair 0 \(counted from 0\) has",
        ),
        (lambda rows: [*rows[:3], 7, *rows[3:]], 'line 4 is 7; it must be an object with "target"'),
        (spoiled(lambda rows: rows[3].pop("target")), "line 4: target is missing"),
        (spoiled(lambda rows: rows[3].pop("log_probabilities")), "line 4: log_probabilities must be .* not missing"),
        (spoiled(lambda rows: rows[3]["log_probabilities"].pop()), r"must be (\d+) numbers, .* not \d+ values"),
        (spoiled(lambda rows: rows[3]["log_probabilities"].__setitem__(1, math.nan)), "token 1 .* is nan; it must be"),
        (spoiled(lambda rows: rows[3]["log_probabilities"].__setitem__(1, -math.inf)), "token 1 .* is -inf; it must"),
        (spoiled(lambda rows: rows[3]["log_probabilities"].__setitem__(0, 0.5)), "token 0 .* is 0.5; .* 0 or less"),
        (spoiled(lambda rows: rows[3]["log_probabilities"].__setitem__(0, True)), "log_probabilities must be"),
        (spoiled(lambda rows: rows[3].__setitem__("translation", 5)), "translation must be text, not 5"),
        (spoiled(lambda rows: rows[3].pop("translation")), "pair 2 .* has no translation, and others have"),
    ],
)
def test_a_spoiled_file_is_refused(made, lines, tmp_path, spoil, message):
    with pytest.raises(InputError, match=message):
        read_log_probabilities(saved(tmp_path, spoil(lines)), made[4])


def test_a_file_that_is_none(made, tmp_path):
    path = tmp_path / "mine.jsonl"
    with pytest.raises(InputError, match="There is no file"):
        read_log_probabilities(path, made[4])
    path.write_bytes(b"\xff")
    with pytest.raises(InputError, match="is not UTF-8: the byte at offset 0"):
        read_log_probabilities(path, made[4])
    path.write_text("{\n")
    with pytest.raises(InputError, match="line 1 is not JSON"):
        read_log_probabilities(path, made[4])
    path.write_text("[" * 100_000)
    with pytest.raises(InputError, match="line 1 is not JSON"):
        read_log_probabilities(path, made[4])


def test_a_runs_tokens_are_those_of_its_settings(made):
    folder, settings, words, pairs, _ = made
    again, others, said = tokens_of(settings, "test")
    assert [v.words for v in again] == [v.words for v in words]
    assert (others, said) == (pairs, "the test pairs of toy")
    with pytest.raises(InputError, match="There is no split 'tset'; give test, validation or train"):
        split_pairs(load_data(settings), "tset")
    for name in ("test.de", "test.en"):
        (folder / "toy" / name).rename(folder / name)
    try:
        with pytest.raises(InputError, match="toy has no test set; give --split validation"):
            split_pairs(load_data(settings), "test")
    finally:
        for name in ("test.de", "test.en"):
            (folder / name).rename(folder / "toy" / name)
