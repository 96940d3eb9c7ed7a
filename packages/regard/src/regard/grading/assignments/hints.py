"""One hint for each claim that asks for a function: where to look, never what to write."""

from __future__ import annotations

HINTS = {
    "weights-are-a-distribution": "What does the exponential do to a score of 1000? Which change of all scores "
    "leaves softmax as it is?",
    "copying-condition": "Each other key may be negligible alone. How much do all n - 1 of them have together?",
    "copying-output": "Write c - v_j with the weights of the others only, and ask how large those can be in sum.",
    "copying-within-budget": "Compare the score of key 0 with that of a key at distance at least 1, for a "
    "query along key 0.",
    "extract-from-sum": "Which matrix leaves every vector of span(A) as it is, and what does it do to the rest?",
    "average-of-two": "What scores do a and b need to be equal, and how large must they be so that all "
    "others together are small?",
    "never-exactly-the-average": "When can weights that are never 0 still give exactly the average? Try two keys "
    "first, then special values.",
    "average-within-budget": "The same scores for keys 0 and 1; then count how many other keys there are.",
    "the-bisector": "How unequal may the two weights be while both are still large enough?",
    "average-of-any-subset": "Each weight of the subset is compared with 1/(size + eps). What do the keys "
    "outside have in sum?",
    "small-noise-keeps-the-average": "A longer query makes the others smaller and the noise larger. Where is the "
    "balance?",
    "one-head-swings": "ln(alpha_a/alpha_b) is a difference of two scores. Which parts of the noise does "
    "it see, and with which factor?",
    "one-head-two-point-noise": "The ratio of two weights is the exponential of a difference of scores.",
    "two-heads-average": "Let each head look at one of the two; how sure must it be?",
    "two-heads-steady": "Let each head look at one of the two; the length of its key then matters less "
    "the longer the query is.",
    "two-heads-two-point-noise": "The shorter of the two lengths decides how long the query must be.",
    "order-blindness": "Along which axis does the softmax go, and what is the scale? Does a row see the rows after it?",
    "positions-restore-order": "What is added may depend on where a row stands, and on nothing else.",
    "positions-are-distinct": "Two positions differ if one of their coordinates does. What does rounding do to "
    "large angles?",
    "singular-energy": "The trace of A^T A can be read off in two ways.",
    "singular-tail": "The k largest singular values are all at least sigma_k.",
    "low-rank-error": "How many singular values may B have, and which ones should it keep?",
    "translator": "regard claims translator --answer your.py:TransformerTranslator --hint says which part to look at.",
}
