"""Noun phrases and prepositional phrases, said in both languages from one description."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tools.grammar import english, german
from tools.grammar.lexicon import Adjective, Noun

if TYPE_CHECKING:
    from tools.grammar.clauses import Relative

_ENGLISH_DETERMINERS = {
    "der": "the", "jed": "every", "mein": "my", "dein": "your", "sein": "his", "ihr": "her", "unser": "our",
    "viel": "many", "zwei": "two", "drei": "three", "": "",
}  # fmt: skip
TWO_WAY = frozenset({"in", "an", "auf", "unter", "neben", "hinter", "vor", "über"})


@dataclass(frozen=True, slots=True)
class NounPhrase:
    """A pronoun, one or two names, or a noun with what stands around it.

    ``determiner`` is a key of :func:`german.determiner`, a name in the genitive ("Annas"), or empty.
    """

    noun: Noun | None = None
    determiner: str = ""
    adjective: Adjective | None = None
    plural: bool = False
    possessor: NounPhrase | None = None
    relative: Relative | None = None
    names: tuple[tuple[str, str], ...] = ()
    pronoun: str = ""

    @property
    def column(self) -> str:
        """m, f, n or p: the column of the tables of endings."""
        if self.pronoun:
            return self.pronoun[1] if self.pronoun[0] == "3" else "p" if self.pronoun[1] == "p" else "m"
        if self.names:
            return self.names[0][1] if len(self.names) == 1 else "p"
        return "p" if self.plural or self.noun is None else self.noun.gender

    @property
    def person(self) -> str:
        """What the verb agrees with: 1s ... 3p."""
        if self.pronoun:
            return "3s" if self.pronoun in ("3m", "3f", "3n") else self.pronoun
        return "3p" if self.column == "p" else "3s"

    @property
    def is_person(self) -> bool:
        """Whether English says who rather than that."""
        return self.noun is None or self.noun.kind in ("person", "girl")

    @property
    def definite(self) -> bool:
        """Whether negation leaves it alone: what is indefinite takes kein instead of nicht."""
        return self.noun is None or self.determiner not in ("", "ein", "kein")


def in_german(phrase: NounPhrase, case: str) -> list[str]:
    """The words of a noun phrase in a case, its relative clause set between commas."""
    if phrase.pronoun:
        return [german.PRONOUNS[phrase.pronoun][("nom", "acc", "dat").index(case)]]
    if phrase.noun is None:
        return " und ".join(name for name, _ in phrase.names).split()
    column = phrase.column
    words = [german.determiner(phrase.determiner, column, case)] if phrase.determiner else []
    if phrase.adjective:
        words.append(german.adjective(phrase.adjective, phrase.determiner, column, case))
    words.append(german.noun(phrase.noun, column, case))
    if phrase.possessor:
        words += in_german(phrase.possessor, "gen")
    if phrase.relative:
        words += [",", *phrase.relative.in_german(column), ","]
    return words


def in_english(phrase: NounPhrase, *, subject: bool, negated: bool = False) -> list[str]:
    """The words of a noun phrase; ``negated`` when the verb says "not" for German "kein"."""
    if phrase.pronoun:
        return [english.PRONOUNS[phrase.pronoun][0 if subject else 1]]
    if phrase.noun is None:
        return " and ".join(name for name, _ in phrase.names).split()
    rest = [phrase.adjective.english] if phrase.adjective else []
    rest.append(phrase.noun.english_plural if phrase.plural else phrase.noun.english)
    words = [*_determiner(phrase, rest[0], negated), *rest]
    if phrase.relative:
        words += phrase.relative.in_english(phrase)
    return words


def _determiner(phrase: NounPhrase, following: str, negated: bool) -> list[str]:
    word = phrase.determiner
    if phrase.possessor:
        *most, last = in_english(phrase.possessor, subject=True)
        return [*most, f"{last}'s"]
    if word == "ein" or (word == "kein" and negated and not phrase.plural and phrase.noun and phrase.noun.plural):
        return [english.article(following)]
    if word == "kein":
        return ["any" if negated else "no"]
    if word == "dies":
        return ["these" if phrase.plural else "this"]
    if word not in _ENGLISH_DETERMINERS:
        return [f"{word[:-1]}'s"]  # Annas: Anna's
    return [_ENGLISH_DETERMINERS[word]] if word else []


def phenomena(phrase: NounPhrase, case: str) -> set[str]:
    """What there is to get right in a noun phrase of this case."""
    found = {"dative"} if case == "dat" else set()
    if phrase.pronoun:
        return found | {"pronoun"}
    if phrase.noun is None:
        return found
    checks = {
        "accusative": case == "acc" and phrase.column == "m" and phrase.determiner != "",
        "adjective ending": phrase.adjective is not None,
        "plural": phrase.plural,
        "genitive": phrase.possessor is not None or phrase.determiner[:1].isupper(),
        "weak noun": bool(phrase.noun.oblique) and not phrase.plural and case != "nom",
        "negation": phrase.determiner == "kein",
        "relative clause": phrase.relative is not None,
    }
    found |= {name for name, holds in checks.items() if holds}
    if phrase.possessor:
        found |= phenomena(phrase.possessor, "gen")
    if phrase.relative:
        found |= phrase.relative.phenomena()
    return found


def marked(phrase: NounPhrase, case: str) -> bool:
    """Whether the phrase shows by its form that it is not the subject; only then may it be moved in front of one."""
    return in_german(phrase, case) != in_german(phrase, "nom")


@dataclass(frozen=True, slots=True)
class Prepositional:
    """A preposition and its noun phrase; ``case`` is what the German preposition asks for here."""

    german: str
    case: str
    english: str
    phrase: NounPhrase

    def in_german(self) -> list[str]:
        """auf dem Tisch; im Park."""
        return german.preposition(self.german, in_german(self.phrase, self.case), self.phrase.determiner == "der")

    def in_english(self) -> list[str]:
        """on the table; in the park."""
        return [*self.english.split(), *in_english(self.phrase, subject=False)]

    def phenomena(self) -> set[str]:
        """The case of the phrase, and whether the preposition could take two."""
        found = phenomena(self.phrase, self.case)
        if self.german in TWO_WAY:
            found.add("two-way preposition")
        if self.in_german()[0] != self.german:
            found.add("contraction")
        return found
