"""The grammar behind the built-in corpus: German and English said from one description, without end, from a seed.

A synchronous grammar: a clause is described once (who does what, when, how, where, in which tense) and put into words
twice, each language by its own rules of form and order. Cases, genders, adjective endings, separable verbs and
verb-final clauses all occur, and each pair says which: :data:`PHENOMENA` explains them.

``make corpus`` writes the file that the package ships; ``python -m tools.grammar --help`` says how to make another.
"""

from __future__ import annotations

from dataclasses import dataclass

from regard.errors import InputError
from tools.grammar.choices import Chooser
from tools.grammar.sentences import sentence

__all__ = ["PHENOMENA", "Pair", "generate"]

SHORTEST, LONGEST = 4, 16
PHENOMENA = {
    "accusative": "a masculine noun phrase in the accusative, the one that shows it: den Hund",
    "adjective ending": "an adjective before its noun, with its ending: ein kleiner Hund, dem kleinen Hund",
    "contraction": "preposition and article in one word: im, ins, am, zum",
    "dative": "an object or a place in the dative: dem Mann, mit der Frau, im Park",
    "experiencer": "the German subject is the English object: das Buch gefällt dem Mann, the man likes the book",
    "fronting": "something other than the subject before the verb: heute liest der Mann",
    "future": "werden with the infinitive at the end",
    "genitive": "an owner: das Auto des Lehrers, Annas Auto",
    "gern": "German adverb, English verb: er liest gern, he likes to read",
    "infinitive clause": "an infinitive with zu at the end: ... das Buch zu lesen, ... früh aufzustehen",
    "modal verb": "a modal verb second, the infinitive at the end",
    "negation": "nicht or kein",
    "object fronting": "an object before the verb, the subject behind it: den Hund sieht der Mann",
    "perfect": "haben or sein second, the participle at the end",
    "plural": "a noun in the plural",
    "predicate adjective": "an adjective after sein, without ending",
    "prepositional object": "a preposition that the verb chooses: er wartet auf den Bus, he waits for the bus",
    "pronoun": "a personal pronoun",
    "question": "the verb first, or after a question word",
    "relative clause": "a clause about a noun, its pronoun in the clause's case, its verb last",
    "separable verb": "a verb whose prefix leaves it: er steht auf, weil er aufsteht, aufzustehen, aufgestanden",
    "two-way preposition": "in, an, auf ...: with the dative where, with the accusative whither",
    "verb-final": "a subordinate clause, its finite verb last",
    "weak noun": "a noun with -n or -en in every case but the nominative: den Jungen, dem Studenten",
}


@dataclass(frozen=True, slots=True)
class Pair:
    """A sentence in both languages and the names of its phenomena."""

    german: str
    english: str
    labels: frozenset[str]


def generate(count: int, *, seed: int) -> list[Pair]:
    """``count`` different pairs of 4 to 16 words on each side; no German and no English sentence occurs twice.

    The same seed gives the same pairs in every process, and fewer of them are the beginning of more.

    >>> for pair in generate(2, seed=25):
    ...     print(pair.german, "|", pair.english)
    Auf dem Schrank liegt der große Affe. | The big monkey lies on the cupboard.
    Paul und Anna räumen das Haus nicht auf. | Paul and Anna do not tidy up the house.
    """
    if count < 0:
        raise InputError(f"count is the number of pairs, 0 or more, not {count}.")
    chooser = Chooser.from_seed(seed)
    pairs: list[Pair] = []
    seen: set[str] = set()
    wasted = 0
    while len(pairs) < count:
        german, english, labels = sentence(chooser)
        said = _written(german), _written(english)
        if not (_fits(german) and _fits(english)) or said[0] in seen or said[1] in seen:
            wasted += 1
            if wasted > 1000 + 100 * count:
                raise InputError(f"The grammar has fewer than {count} different pairs for this seed; ask for fewer.")
            continue
        seen.update(said)
        pairs.append(Pair(*said, frozenset(labels)))
    return pairs


def _fits(words: list[str]) -> bool:
    return SHORTEST <= sum(word[0].isalpha() for word in words) <= LONGEST


def _written(words: list[str]) -> str:
    text = " ".join(words)
    for mark in (",", ".", "?"):
        text = text.replace(f" {mark}", mark)
    text = text.replace(",.", ".").replace(",,", ",")
    return text[0].upper() + text[1:]
