"""BLEU as papers count it: against a count by hand, and what it ignores."""

from __future__ import annotations

import math
from collections import Counter

import pytest

pytest.importorskip("sacremoses")
from regard.translator.scoring.scores import literature_bleu


def bleu_by_hand(said: list[list[str]], meant: list[list[str]]) -> float:
    """100 times the brevity penalty times the geometric mean of four precisions, with no smoothing."""
    logs = 0.0
    for n in range(1, 5):
        hits = total = 0
        for a, b in zip(said, meant, strict=True):
            grams = [Counter(zip(*(words[k:] for k in range(n)), strict=False)) for words in (a, b)]
            hits += sum((grams[0] & grams[1]).values())
            total += sum(grams[0].values())
        logs += math.log(hits / total) / 4 if hits else -math.inf
    shorter = sum(map(len, meant)) / sum(map(len, said))
    return 100 * math.exp(min(0.0, 1 - shorter) + logs)


SAID = ["A man rides a red bicycle down the street .", "two dogs play with a ball ."]
MEANT = ["A man is riding a red bicycle down the street .", "Two dogs play with the ball in the snow ."]


def test_it_is_the_count_by_hand_over_lower_cased_words() -> None:
    words = [[sentence.lower().split() for sentence in text] for text in (SAID, MEANT)]
    assert literature_bleu(SAID, MEANT, language="en").bleu == pytest.approx(bleu_by_hand(*words), abs=1e-9)


def test_case_does_not_matter_and_punctuation_is_split_off() -> None:
    glued = [sentence.replace(" .", ".").upper() for sentence in SAID]
    assert literature_bleu(glued, MEANT, language="en").bleu == literature_bleu(SAID, MEANT, language="en").bleu


def test_apostrophes_are_split_by_the_rule_of_the_language() -> None:
    glued, apart = ["here is Peter's dog and there"], ["here is Peter ' s dog and there"]
    assert literature_bleu(glued, apart, language="de").bleu == pytest.approx(100)  # German: peter ' s
    assert literature_bleu(glued, apart, language="en").bleu < 100  # English: peter 's


def test_without_a_common_run_of_four_words_it_is_zero() -> None:
    assert literature_bleu(["a b c d"], ["d c b a"], language="en").bleu == 0.0


def test_it_says_how_it_was_counted_and_why_it_differs() -> None:
    said = str(literature_bleu(SAID, MEANT, language="en"))
    assert "as in the literature (lower-cased, sacremoses" in said
    assert "tokens of en, no smoothing" in said
    assert "Compare it with papers that score this way" in said
