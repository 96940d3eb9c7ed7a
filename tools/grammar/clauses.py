"""Clauses: one description, two word orders.

German: the finite verb comes second (or first in questions, last in subordinate clauses), whatever else the verb has
comes last, and in between stand pronouns, time, dative, accusative, "nicht", manner, place, in this order.
English: subject, verb, objects, manner, place, time.
"""

from __future__ import annotations

from dataclasses import dataclass

from tools.grammar import english, german
from tools.grammar.lexicon import MANNER, Adjective, Verb
from tools.grammar.phrases import NounPhrase, Prepositional, in_english, in_german, phenomena


@dataclass(frozen=True, slots=True)
class Time:
    """When: ``use`` is deictic (heute), habit (jeden Tag), often (oft), now (gerade) or already (schon)."""

    german: str
    english: str
    use: str


@dataclass(frozen=True, slots=True)
class Clause:
    """Who does what. ``tense`` is present, perfect or future, and past for "sein" and modal verbs."""

    subject: NounPhrase
    verb: Verb | None = None  # None: "sein" with the predicate
    predicate: Adjective | None = None
    accusative: NounPhrase | None = None
    dative: NounPhrase | None = None
    place: Prepositional | None = None  # where, whither, or the prepositional object
    manner: str = ""
    time: Time | None = None
    tense: str = "present"
    modal: str = ""
    negated: bool = False
    gern: bool = False

    @property
    def says_kein(self) -> bool:
        """Whether the negation sits in the object's article."""
        return self.accusative is not None and self.accusative.determiner == "kein"


# modal verb: English, English with not, and both in the past; the second table's are conjugated
_MODALS = {
    "können": ("can", "cannot", "could", "could not"),
    "sollen": ("should", "should not", "", ""),
    "möchten": ("would like to", "would not like to", "", ""),
}
_SEMI_MODALS = {"müssen": "have", "wollen": "want"}


# --- German ---------------------------------------------------------------------------------------------------------


def main_clause(clause: Clause, *, front: str = "subject") -> list[str]:
    """The finite verb second, after the subject, the time, the place or an object (``front``)."""
    parts = _parts(clause)
    if front == "subject":
        return [*_subject(clause), _finite(clause), *_middle(parts), *_end(clause)]
    first = parts.pop(front)
    return [*first, _finite(clause), *_subject_and_middle(clause, parts), *_end(clause)]


def verb_first(clause: Clause) -> list[str]:
    """The finite verb first: questions, and main clauses after a subordinate one."""
    return [_finite(clause), *_subject_and_middle(clause, _parts(clause)), *_end(clause)]


def verb_final(clause: Clause, *, without: str = "") -> list[str]:
    """The finite verb last, a separable prefix joined to it; ``without`` leaves out what a relative pronoun says."""
    parts = _parts(clause)
    parts.pop(without, None)
    before = _middle(parts) if without == "subject" else _subject_and_middle(clause, parts)
    return [*before, *_last(clause)]


def with_zu(clause: Clause) -> list[str]:
    """An infinitive clause without its subject: das Buch zu lesen, früh aufzustehen."""
    verb = clause.verb
    return [*_middle(_parts(clause)), *(german.infinitive_with_zu(verb) if verb else ["zu", "sein"])]


def _subject_and_middle(clause: Clause, parts: dict[str, list[str]]) -> list[str]:
    """The subject comes first, but for one that is an effect rather than an actor: heute gefällt ihm das Buch."""
    early = (
        clause.verb is not None and clause.verb.frame == "exp" and clause.dative is not None and clause.dative.pronoun
    )
    pronoun = parts.pop("dative", []) if early else []
    return [*pronoun, *_subject(clause), *_middle(parts)]


def _subject(clause: Clause) -> list[str]:
    return in_german(clause.subject, "nom")


def _parts(clause: Clause) -> dict[str, list[str]]:
    """What stands in the middle of the clause, in order; keys are what can be moved to the front."""
    parts: dict[str, list[str]] = {}
    dative, accusative, time = clause.dative, clause.accusative, clause.time
    late = time is not None and time.use == "already" and (accusative is None or accusative.definite)
    if accusative and accusative.pronoun:
        parts["accusative"] = in_german(accusative, "acc")
    if dative and dative.pronoun:
        parts["dative"] = in_german(dative, "dat")
    if time and not late:
        parts["time"] = time.german.split()
    if clause.gern:
        parts["gern"] = ["gern"]
    if dative and not dative.pronoun:
        parts["dative"] = in_german(dative, "dat")
    if accusative and not accusative.pronoun:
        parts["accusative"] = in_german(accusative, "acc")
    if time and late:
        parts["time"] = time.german.split()
    if clause.negated and not clause.says_kein:
        parts["nicht"] = ["nicht"]
    if clause.manner:
        parts["manner"] = [MANNER[clause.manner][0]]
    if clause.place:
        parts["place"] = clause.place.in_german()
    if clause.predicate:
        parts["predicate"] = [clause.predicate.german]
    return parts


def _middle(parts: dict[str, list[str]]) -> list[str]:
    return [word for words in parts.values() for word in words]


def _finite(clause: Clause) -> str:
    person, verb = clause.subject.person, clause.verb
    if clause.modal:
        return german.finite(clause.modal, person, past=clause.tense == "past")
    if verb is None:
        return german.finite("sein", person, past=clause.tense == "past")
    if clause.tense == "perfect":
        return german.finite("sein" if verb.with_sein else "haben", person)
    return german.finite("werden", person) if clause.tense == "future" else german.finite_of(verb, person)


def _end(clause: Clause) -> list[str]:
    """What the verb leaves at the end of a main clause: participle, infinitive or separable prefix."""
    verb = clause.verb
    if verb is None:
        return []
    if clause.modal or clause.tense == "future":
        return [german.infinitive(verb)]
    if clause.tense == "perfect":
        return [verb.participle]
    return [verb.prefix] if verb.prefix else []


def _last(clause: Clause) -> list[str]:
    """The verbs at the end of a subordinate clause: ... aufsteht, ... gelesen hat, ... lesen will."""
    verb = clause.verb
    if verb is not None and verb.prefix and not clause.modal and clause.tense == "present":
        return [verb.prefix + _finite(clause)]
    return [*_end(clause), _finite(clause)]


# --- English --------------------------------------------------------------------------------------------------------


def statement(clause: Clause, *, without: str = "", front: str = "", person: str = "") -> list[str]:
    """Subject, verb, objects, manner, place, time; the time stands first if ``front`` says so."""
    subject = english_subject(clause)
    helpers, verbs = _verb_group(clause, person or subject.person, helped=clause.negated)
    words = [] if without == "subject" else in_english(subject, subject=True)
    first = clause.time.english.split() if clause.time and front == "time" else []
    return [*first, *words, *helpers, *_often(clause), *verbs, *_rest(clause, without, timed=front != "time")]


def question(clause: Clause) -> list[str]:
    """Helper, subject, verb, objects ..."""
    subject = english_subject(clause)
    helpers, verbs = _verb_group(clause, subject.person, helped=True)
    split = helpers[:1], helpers[1:]
    if clause.modal == "können" and clause.negated:
        split = [english_can(clause)], ["not"]
    return [*split[0], *in_english(subject, subject=True), *split[1], *_often(clause), *verbs, *_rest(clause, "")]


def english_can(clause: Clause) -> str:
    """can or could, parted from its "not" in questions."""
    return "could" if clause.tense == "past" else "can"


def to_infinitive(clause: Clause) -> list[str]:
    """to read the book."""
    return ["to", clause.verb.english if clause.verb else "be", *_rest(clause, "")]


def english_subject(clause: Clause) -> NounPhrase:
    """Whom English makes the subject: das Buch gefällt dem Mann, the man likes the book."""
    swapped = clause.verb is not None and clause.verb.frame == "exp" and clause.dative is not None
    return clause.dative if swapped and clause.dative else clause.subject


def _verb_group(clause: Clause, person: str, *, helped: bool) -> tuple[list[str], list[str]]:
    """The helper verbs with "not", and the verbs after them; ``helped`` asks for a helper: does ... read."""
    no = ["not"] if clause.negated else []
    past = clause.tense in ("past", "perfect")
    if clause.modal in _MODALS:
        words = _MODALS[clause.modal][2 * (clause.tense == "past") + clause.negated].split()
        return words, [_base(clause)]
    if clause.verb is None or clause.modal == "dürfen":
        be = english.past("be", person) if past else english.present("be", person)
        return [be, *no], ["allowed", "to", _base(clause)] if clause.modal else []
    if clause.tense == "future":
        return ["will", *no], [_base(clause)]
    if clause.time and clause.time.use == "now" and clause.tense == "present" and not clause.modal:
        return [english.present("be", person), *no], [english.progressive(_base(clause))]
    if clause.time and clause.time.use == "already" and clause.tense == "perfect":
        return [english.present("have", person), *no], [english.participle(_base(clause))]
    base, *others = [*_semi_modal(clause), _base(clause)]
    if helped:
        return [english.past("do", person) if past else english.present("do", person), *no], [base, *others]
    return [], [english.past(base, person) if past else english.present(base, person), *others]


def _semi_modal(clause: Clause) -> list[str]:
    if clause.modal:
        return [_SEMI_MODALS[clause.modal], "to"]
    return ["like", "to"] if clause.gern else []


def _base(clause: Clause) -> str:
    return clause.verb.english if clause.verb else "be"


def _often(clause: Clause) -> list[str]:
    return clause.time.english.split() if clause.time and clause.time.use in ("often", "already") else []


def _rest(clause: Clause, without: str, *, timed: bool = True) -> list[str]:
    """Everything after the verb."""
    manner = [MANNER[clause.manner][1]] if clause.manner else []
    place = clause.place.in_english() if clause.place else []
    moves = clause.verb is not None and clause.verb.frame == "move"
    late = clause.time.english.split() if timed and clause.time and clause.time.use not in ("often", "already") else []
    predicate = [clause.predicate.english] if clause.predicate else []
    return [*_objects(clause, without), *predicate, *(place + manner if moves else manner + place), *late]


def _objects(clause: Clause, without: str) -> list[str]:
    verb = clause.verb
    if verb is None:
        return []
    particle = verb.particle.split()
    direct, indirect = clause.accusative, clause.dative
    if verb.frame == "exp":
        return [] if without == "subject" else in_english(clause.subject, subject=False)
    direct_words = (
        in_english(direct, subject=False, negated=clause.negated) if direct and without != "accusative" else []
    )
    indirect_words = in_english(indirect, subject=False) if indirect and without != "dative" else []
    if verb.frame == "ditr":
        return [*direct_words, "to", *indirect_words] if particle == ["to"] else [*indirect_words, *direct_words]
    if verb.movable and direct is not None and direct.pronoun and direct_words:
        return [*direct_words, *particle]
    return [*particle, *direct_words, *indirect_words]


# --- relative clauses and labels ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Relative:
    """A clause whose subject, accusative or dative (``role``) is the noun it describes."""

    clause: Clause
    role: str

    def in_german(self, column: str) -> list[str]:
        """der das Buch liest; den der Mann sieht; denen die Frau hilft."""
        case = {"subject": "nom", "accusative": "acc", "dative": "dat"}[self.role]
        return [german.RELATIVE[case][column], *verb_final(self.clause, without=self.role)]

    def in_english(self, head: NounPhrase) -> list[str]:
        """who reads the book; whom the man sees; that the man buys."""
        pronoun = "that" if not head.is_person else "who" if self.role == "subject" else "whom"
        return [
            pronoun,
            *statement(self.clause, without=self.role, person=head.person if self.role == "subject" else ""),
        ]

    def phenomena(self) -> set[str]:
        """Those of the clause, seen from its end."""
        return clause_phenomena(self.clause, without=self.role) | {"verb-final", "relative clause"}


def clause_phenomena(clause: Clause, *, front: str = "subject", without: str = "") -> set[str]:
    """What there is to get right in a clause; ``front`` is what stands before a main clause's verb."""
    found = phenomena(clause.subject, "nom") if without != "subject" else set()
    for role, phrase, case in (("accusative", clause.accusative, "acc"), ("dative", clause.dative, "dat")):
        if phrase is not None and without != role:
            found |= phenomena(phrase, case)
        elif phrase is not None and case == "dat":
            found.add("dative")
    verb = clause.verb
    fixed = verb is not None and verb.frame == "prep"
    if clause.place:
        found |= clause.place.phenomena() - ({"two-way preposition"} if fixed else set())
    checks = {
        "prepositional object": fixed,
        "separable verb": verb is not None and bool(verb.prefix),
        "experiencer": verb is not None and verb.frame == "exp",
        "predicate adjective": verb is None,
        "negation": clause.negated,
        "modal verb": bool(clause.modal),
        "perfect": clause.tense == "perfect",
        "future": clause.tense == "future",
        "gern": clause.gern,
        "fronting": front != "subject",
        "object fronting": front in ("accusative", "dative"),
    }
    return found | {name for name, holds in checks.items() if holds}
