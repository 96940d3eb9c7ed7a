"""Drawing noun phrases and clauses that make sense: the typed lexicon decides who can do what with what."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from tools.grammar.clauses import Clause, Relative, Time
from tools.grammar.lexicon import (
    NAMES,
    NEAR,
    PLACES,
    SUPPORTS,
    Adjective,
    Lexicon,
    Noun,
    Verb,
    read_lexicon,
)
from tools.grammar.phrases import NounPhrase, Prepositional, marked

T = TypeVar("T")

_POSSESSIVES = ("mein", "dein", "sein", "ihr", "unser")
_SUBJECT_PRONOUNS = ("1s", "2s", "3m", "3f", "1p", "2p", "3p")
_TIMES = {
    "present": (
        Time("heute", "today", "deictic"), Time("jeden Tag", "every day", "habit"), Time("oft", "often", "often"),
        Time("immer", "always", "often"), Time("manchmal", "sometimes", "often"), Time("jetzt", "now", "now"),
        Time("am Abend", "in the evening", "habit"), Time("am Morgen", "in the morning", "habit"),
        Time("gerade", "right now", "now"), Time("jeden Sonntag", "every Sunday", "habit"),
    ),
    "perfect": (
        Time("gestern", "yesterday", "deictic"), Time("letzte Woche", "last week", "deictic"),
        Time("am Montag", "on Monday", "deictic"), Time("gestern Abend", "yesterday evening", "deictic"),
        Time("schon", "already", "already"),
    ),
    "future": (
        Time("morgen", "tomorrow", "deictic"), Time("nächste Woche", "next week", "deictic"),
        Time("bald", "soon", "deictic"), Time("am Samstag", "on Saturday", "deictic"),
    ),
    "past": (Time("gestern", "yesterday", "deictic"), Time("letzte Woche", "last week", "deictic")),
}  # fmt: skip
_MODALS_PRESENT = ("können", "müssen", "wollen", "sollen", "dürfen", "möchten")
_MODALS_PAST = ("können", "müssen", "wollen", "dürfen")
_PASSING = frozenset({"müde", "hungrig", "krank", "glücklich"})  # states that come and go
_LASTING = frozenset({"berühmt", "klug", "teuer", "billig", "kaputt", "leer", "schwer"})
_KIN = frozenset({
    "Mutter", "Vater", "Schwester", "Bruder", "Tochter", "Sohn", "Tante", "Onkel", "Großvater", "Großmutter",
})  # fmt: skip
_CLASHES = frozenset({("jung", "Junge"), ("alt", "Junge"), ("jung", "Großvater"), ("jung", "Großmutter")})
_HOMES = frozenset({"Garten", "Haus", "Zimmer", "Küche"})
_NOBODYS = frozenset({"Mann", "Frau", "Junge", "Mädchen", "Polizist", "Bär", "Affe", "Elefant", "Maus", "Ente"})


class Draw:
    """Random choices from a seed; only ``random.Random.random`` is used, whose numbers Python promises to keep."""

    def __init__(self, seed: int) -> None:
        self._next = random.Random(seed).random

    def one(self, items: Sequence[T]) -> T:
        """Any of the items, each as likely."""
        return items[int(self._next() * len(items))]

    def weighted(self, **weights: float) -> str:
        """One of the names, by weight."""
        left = self._next() * sum(weights.values())
        for name, weight in weights.items():
            left -= weight
            if left < 0:
                return name
        return name

    def chance(self, probability: float) -> bool:
        """True this often."""
        return self._next() < probability


@dataclass
class Chooser:
    """Noun phrases and clauses from the lexicon, drawn with ``draw``."""

    draw: Draw
    lexicon: Lexicon

    @classmethod
    def from_seed(cls, seed: int) -> Chooser:
        """A chooser over the built-in lexicon."""
        return cls(Draw(seed), read_lexicon())

    # --- noun phrases

    def subject(self, kinds: tuple[str, ...]) -> NounPhrase:
        """A pronoun or a name where a person can be the subject, else a noun."""
        if "person" in kinds:
            form = self.draw.weighted(noun=58, pronoun=27, name=11, names=4)
            if form == "pronoun":
                return NounPhrase(pronoun=self.draw.one(_SUBJECT_PRONOUNS))
            if form != "noun":
                return self.names(1 if form == "name" else 2)
        noun = self.draw.one(self.lexicon.named(kinds))
        phrase = self.described(noun)
        if noun.singular in _KIN or phrase.possessor or not self.draw.chance(0.05):
            return phrase
        return replace(phrase, determiner="kein" if phrase.plural or self.draw.chance(0.4) else "jed")

    def names(self, count: int) -> NounPhrase:
        """One name, or two different ones."""
        first = self.draw.one(NAMES)
        others = [name for name in NAMES if name != first]
        return NounPhrase(names=(first,) if count == 1 else (first, self.draw.one(others)))

    def object(self, kinds: tuple[str, ...], subject: NounPhrase, case: str) -> NounPhrase:
        """Somebody or something else than the subject."""
        if "person" in kinds and self.draw.chance(0.3):
            return self._object_pronoun(subject, case) if self.draw.chance(0.7) else self._other_name(subject)
        nouns = [noun for noun in self.lexicon.named(kinds) if noun is not subject.noun]
        return _not_their_own(self.described(self.draw.one(nouns)), subject)

    def _other_name(self, subject: NounPhrase) -> NounPhrase:
        return NounPhrase(names=(self.draw.one([name for name in NAMES if name not in subject.names]),))

    def _object_pronoun(self, subject: NounPhrase, case: str) -> NounPhrase:
        # "sie" in the accusative is her or them; only her is used, so that every sentence has one translation
        pronouns = ("1s", "2s", "3m", "3f", "1p", "2p") if case == "acc" else ("1s", "2s", "3m", "3f", "1p", "2p", "3p")
        taken = subject.pronoun[:1] if subject.pronoun[:1] in ("1", "2") else "0"  # ich ... mich would be reflexive
        return NounPhrase(pronoun=self.draw.one([p for p in pronouns if p[0] != taken]))

    def described(self, noun: Noun, *, plain: bool = False) -> NounPhrase:
        """The noun with an article or the like, perhaps an adjective, a plural, an owner."""
        if not noun.plural:
            word = self.draw.weighted(none=60, der=25, own=15)
            determiner = "" if word == "none" else word if word == "der" else self.draw.one(_POSSESSIVES)
            return NounPhrase(noun, determiner, self._adjective(noun, 0.6 if word == "none" else 0.3))
        if not plain and self.draw.chance(0.22):
            return self._many(noun)
        kin, nobodys = noun.singular in _KIN, _nobodys(noun)
        word = self.draw.weighted(
            der=44,
            ein=0 if kin else 26,
            own=0 if nobodys else 50 if kin else 18,
            dies=0 if kin else 7,
            name=0 if nobodys else 5,
        )
        if word == "own":
            word = self.draw.one(_POSSESSIVES)
        if word == "name":
            word = self.draw.one(NAMES)[0] + "s"
        owner = self._owner(noun) if word == "der" and not plain and self.draw.chance(0.12) else None
        return NounPhrase(noun, word, self._adjective(noun, 0.42 if owner is None else 0.15), possessor=owner)

    def _many(self, noun: Noun) -> NounPhrase:
        if noun.singular in _KIN:
            word = self.draw.weighted(der=30, own=70)
        else:
            own = 0 if _nobodys(noun) else 14
            word = self.draw.weighted(der=40, none=20, own=own, dies=8, viel=8, zwei=6, drei=4)
        determiner = {"none": "", "own": self.draw.one(_POSSESSIVES)}.get(word, word)
        return NounPhrase(noun, determiner, self._adjective(noun, 0.45), plural=True)

    def _adjective(self, noun: Noun, probability: float) -> Adjective | None:
        if not self.draw.chance(probability):
            return None
        chosen = self.draw.one(self.lexicon.adjectives[noun.kind])
        return None if (chosen.german, noun.singular) in _CLASHES else chosen

    def _owner(self, noun: Noun) -> NounPhrase | None:
        if noun.kind in ("person", "girl", "place", "fruit", "food", "support", "opening") or noun.singular in _NOBODYS:
            return None
        owner = self.draw.one(self.lexicon.named(("person", "girl")))
        return NounPhrase(
            owner, self.draw.one(("der",) if owner.singular in _NOBODYS else ("der", "der", *_POSSESSIVES))
        )

    # --- places

    def place(self, kinds: tuple[str, ...], case: str) -> Prepositional:
        """Where (dative) or whither (accusative)."""
        noun = self.draw.one(self.lexicon.named(kinds))
        preposition, where, whither = PLACES[noun.singular]
        return Prepositional(preposition, case, where if case == "dat" else whither, self._somewhere(noun))

    def near(self, case: str) -> Prepositional:
        """On, under, next to ... a piece of furniture."""
        noun = self.draw.one(self.lexicon.named(("support",)))
        preposition = self.draw.one(SUPPORTS[noun.singular])
        return Prepositional(preposition, case, NEAR[preposition], self._somewhere(noun))

    def _somewhere(self, noun: Noun) -> NounPhrase:
        word = self.draw.weighted(der=78, ein=14, dies=8)
        return NounPhrase(noun, word, self._adjective(noun, 0.3))

    # --- clauses

    def clause(self, *, subject: NounPhrase | None = None, short: bool = False, tenses: str = "") -> Clause:
        """A clause with a verb that its subject can do.

        ``short`` leaves out time and manner; ``tenses`` keeps it in the "present" or in the "past".
        """
        if self.draw.chance(0.08):
            return self.state(subject, tenses=tenses, short=short)
        verbs = self.lexicon.verbs if subject is None else [v for v in self.lexicon.verbs if self._can(subject, v)]
        verb = self.draw.one(verbs)
        if subject is None and self.draw.chance(0.02):
            verb = self.draw.one([v for v in verbs if v.frame == "exp"])  # two verbs, one phenomenon
        clause = self.complete(verb, subject or self.subject(verb.subjects))
        clause = self._tensed(clause, tenses)
        return self._negated(clause if short else self._when_and_how(clause))

    def _can(self, subject: NounPhrase, verb: Verb) -> bool:
        return verb.frame != "exp" and (subject.noun.kind if subject.noun else "person") in verb.subjects

    def weather(self, *, tenses: str) -> Clause:
        """Es regnet. Es hat geschneit."""
        tense = "perfect" if tenses == "past" else "present"
        return Clause(NounPhrase(pronoun="3n"), self.draw.one(self.lexicon.weather), tense=tense)

    def state(self, subject: NounPhrase | None = None, *, tenses: str = "", short: bool = False) -> Clause:
        """Somebody or something is so, or was."""
        kinds = (("person",), ("girl",), ("animal",), ("vehicle",), ("case",))
        subject = subject or self.subject(self.draw.one(kinds))
        if subject.noun and subject.determiner in ("ein", ""):  # what is said to be so is known
            subject = replace(subject, determiner="der")
        kind = subject.noun.kind if subject.noun else "person"
        moods = _PASSING if short and kind in ("person", "girl", "animal") else _PASSING | _LASTING
        fits = [a for a in self.lexicon.adjectives[kind] if a.german in moods]
        tense = tenses or self.draw.weighted(present=65, past=35)
        predicate = self.draw.one(fits)
        if subject.adjective and (subject.adjective.german in moods or not subject.is_person):
            subject = replace(subject, adjective=None)  # not "the cheap suitcase is expensive"
        times = [t for t in _TIMES[tense] if t.use in ("deictic", "often")]
        passing = predicate.german in _PASSING and not short
        time = self.draw.one(times) if passing and self.draw.chance(0.5) else None
        negatable = subject.determiner not in ("kein", "jed", "viel") and (time is None or time.use == "deictic")
        negated = negatable and self.draw.chance(0.2)
        return Clause(subject, predicate=predicate, tense=tense, time=time, negated=negated)

    def complete(self, verb: Verb, subject: NounPhrase) -> Clause:
        """The subject and verb with the objects and the place that the verb asks for."""
        clause = Clause(subject, verb)
        match verb.frame:
            case "acc":
                return replace(clause, accusative=self.object(verb.objects, subject, "acc"))
            case "dat" | "exp":
                return replace(
                    clause, dative=self.object(verb.objects if verb.frame == "dat" else ("person",), subject, "dat")
                )
            case "ditr":
                dative = self.object(("person", "girl"), subject, "dat")
                thing = self.object(verb.objects, subject, "acc")
                return replace(clause, dative=dative, accusative=thing)
            case "rest" | "move":
                return replace(clause, place=self.place(verb.objects, "dat" if verb.frame == "rest" else "acc"))
            case "put":
                return replace(clause, accusative=self.object(verb.objects, subject, "acc"), place=self.near("acc"))
            case "lie":
                return replace(clause, place=self.near("dat"))
            case "prep":
                word, case, english = verb.preposition
                return replace(
                    clause, place=Prepositional(word, case, english, self.object(verb.objects, subject, case))
                )
        return clause

    def _tensed(self, clause: Clause, tenses: str) -> Clause:
        verb = clause.verb
        plain = verb is not None and (verb.stative or verb.sudden or verb.frame in ("exp", "lie"))
        modal = 0 if plain else 20
        if tenses == "past":
            tense = self.draw.weighted(perfect=30, past=modal)
        elif tenses == "present":
            tense = self.draw.weighted(present=50, modal=modal)
        else:
            tense = self.draw.weighted(present=46, perfect=26, future=8, modal=0.7 * modal, past=0.3 * modal)
        if tense == "past":
            return replace(clause, modal=self.draw.one(_MODALS_PAST), tense="past")
        return (
            replace(clause, modal=self.draw.one(_MODALS_PRESENT)) if tense == "modal" else replace(clause, tense=tense)
        )

    def _when_and_how(self, clause: Clause) -> Clause:
        verb = clause.verb
        if verb is None:
            return clause
        if verb.gern and clause.tense == "present" and not clause.modal and self.draw.chance(0.3):
            return replace(clause, gern=True)
        if not verb.stative and verb.frame != "exp" and self.draw.chance(0.45):
            clause = replace(clause, time=self._time(clause, verb))
        if verb.manners and self.draw.chance(0.3):
            clause = replace(clause, manner=self.draw.one(verb.manners))
        of_place = clause.accusative and clause.accusative.noun and clause.accusative.noun.kind == "place"
        if verb.places and clause.place is None and not of_place and self.draw.chance(0.35):
            clause = replace(clause, place=self.place(verb.places, "dat"))
        return clause

    def _time(self, clause: Clause, verb: Verb) -> Time:
        times = _TIMES["future" if clause.modal and clause.tense == "present" else clause.tense]
        if clause.subject.determiner == "kein":
            times = tuple(t for t in times if t.use != "already")
        if verb.sudden or verb.frame == "lie":
            times = tuple(t for t in times if t.use in ("deictic", "often"))
        return self.draw.one(times)

    def _negated(self, clause: Clause) -> Clause:
        """The clause with "nicht" or "kein", now and then, where its scope leaves one reading."""
        target, adjunct = clause.accusative, bool(clause.place and clause.verb and clause.verb.places)
        blocked = (
            clause.gern or adjunct or clause.verb is None
            or (clause.subject.determiner in ("kein", "jed", "viel", "", "ein") and clause.subject.noun is not None)
            or (clause.time is not None and clause.time.use != "deictic")
            or (target is not None and target.determiner in ("viel", "zwei", "drei", "jed"))
            or (clause.place is not None and not clause.place.phrase.definite)
            or (clause.dative is not None and not clause.dative.definite)
        )  # fmt: skip
        if blocked or not self.draw.chance(0.2):
            return clause
        if target is not None and not target.definite:
            return replace(clause, accusative=replace(target, determiner="kein"), negated=True)
        return replace(clause, negated=True)

    # --- relative clauses

    def relative(self, head: NounPhrase, tense: str) -> Relative | None:
        """A short clause about ``head``, unless every one drawn could be read two ways."""
        for _ in range(6):
            role = self.draw.weighted(subject=62, accusative=25, dative=13)
            clause = self._about(head, role)
            if clause is not None and self._one_reading(head, clause, role):
                return Relative(replace(clause, tense="perfect" if tense == "perfect" else "present"), role)
        return None

    def _about(self, head: NounPhrase, role: str) -> Clause | None:
        kind = head.noun.kind if head.noun else "person"
        bare = replace(head, relative=None, possessor=None, adjective=None)
        if role == "subject":
            fits = [v for v in self.lexicon.verbs if kind in v.subjects and v.frame not in ("exp", "ditr")]
            return self.complete(self.draw.one(fits), bare) if fits else None
        frame = {"accusative": "acc", "dative": "dat"}[role]
        fits = [v for v in self.lexicon.verbs if v.frame == frame and kind in v.objects and "person" in v.subjects]
        if not fits:
            return None
        verb = self.draw.one(fits)
        clause = Clause(self.subject(("person",)), verb)
        clause = replace(clause, accusative=bare) if role == "accusative" else replace(clause, dative=bare)
        return clause if clause.subject.noun != head.noun and clause.subject.determiner != "kein" else None

    def _one_reading(self, head: NounPhrase, clause: Clause, role: str) -> bool:
        """die Frau, die das Kind sieht: who sees whom? One of the two must show its case."""
        if role == "dative" or clause.accusative is None or head.column == "m":
            return True
        return marked(clause.accusative if role == "subject" else clause.subject, "acc")


def _nobodys(noun: Noun) -> bool:
    """Whether "my" before the noun would sound odd."""
    public = noun.kind == "place" and noun.singular not in _HOMES
    return public or noun.kind == "support" or noun.singular in _NOBODYS


def _not_their_own(phrase: NounPhrase, subject: NounPhrase) -> NounPhrase:
    """No "ihr" after a plural subject, where it would rather be "their" than "her"."""
    if subject.person != "3p":
        return phrase
    if phrase.possessor and phrase.possessor.determiner == "ihr":
        return replace(phrase, possessor=replace(phrase.possessor, determiner="unser"))
    return replace(phrase, determiner="unser") if phrase.determiner == "ihr" else phrase
