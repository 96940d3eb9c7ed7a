"""Whole sentences: statements with something in front of the verb, questions, subordinate and infinitive clauses."""

from __future__ import annotations

from dataclasses import replace

from tools.grammar import clauses, english, german
from tools.grammar.choices import Chooser
from tools.grammar.clauses import Clause, clause_phenomena
from tools.grammar.lexicon import Verb
from tools.grammar.phrases import NounPhrase, in_english, in_german, marked, phenomena

Sentence = tuple[list[str], list[str], set[str]]  # German words, English words, phenomena

_CONJUNCTIONS = {"weil": "because", "obwohl": "although", "wenn": "when"}
_QUESTIONS = {"wann": "when", "warum": "why", "wo": "where"}
_MATRIX = (("wissen", "know"), ("glauben", "believe"), ("hoffen", "hope"), ("sagen", "say"), ("hören", "hear"))
# German infinitive and prefix, du- and er-form if strong, participle; English
_CONTROL = (
    ("versuchen", "", "", "", "versucht", "try"),
    ("hoffen", "", "", "", "gehofft", "hope"),
    ("vergessen", "", "vergisst", "vergisst", "vergessen", "forget"),
    ("versprechen", "", "versprichst", "verspricht", "versprochen", "promise"),
    ("fangen", "an", "fängst", "fängt", "angefangen", "begin"),
)


def sentence(chooser: Chooser) -> Sentence:
    """One sentence of any kind."""
    kind = chooser.draw.weighted(
        plain=46, question=9, subordinate=14, reported=10, relative=9, infinitive=5, purpose=4, contrast=3
    )
    makers = {
        "plain": plain, "question": question, "subordinate": subordinate, "reported": reported,
        "relative": relative, "infinitive": infinitive, "purpose": purpose, "contrast": contrast,
    }  # fmt: skip
    return makers[kind](chooser)


def plain(chooser: Chooser) -> Sentence:
    """Der Mann liest heute das Buch. / Heute liest der Mann das Buch. / Das Buch liest der Mann heute."""
    clause = chooser.clause()
    front = chooser.draw.one(fronts(clause))
    return (
        [*clauses.main_clause(clause, front=front), "."],
        [*clauses.statement(clause, front=front), "."],
        clause_phenomena(clause, front=front),
    )


def fronts(clause: Clause) -> list[str]:
    """What may stand before the verb: the subject (twice as likely), the time, the place, an object that shows it."""
    found = ["subject", "subject"]
    if clause.time and clause.time.use in ("deictic", "habit"):
        found += ["time", "time"]
    if clause.place and clause.verb and clause.verb.frame in ("none", "acc", "rest", "lie") and not clause.negated:
        found.append("place")
    for role, phrase, case in (("accusative", clause.accusative, "acc"), ("dative", clause.dative, "dat")):
        if phrase and phrase.noun and phrase.definite and not clause.gern:
            found += [role] * (marked(phrase, case) or (bool(clause.subject.pronoun) and marked(clause.subject, "acc")))
    return found


def question(chooser: Chooser) -> Sentence:
    """Liest der Mann das Buch? / Warum liest der Mann das Buch?"""
    clause = chooser.clause()
    if clause.subject.determiner == "kein":
        clause = replace(clause, subject=replace(clause.subject, determiner="der"))
    word = chooser.draw.weighted(yes=50, wann=16, warum=20, wo=14)
    placed = clause.verb is not None and bool(clause.verb.places) and clause.place is None
    if clause.negated or (word == "wann" and (clause.time or clause.verb is None)) or (word == "wo" and not placed):
        word = chooser.draw.one(("yes", "warum"))
    german_word, english_word = ([], []) if word == "yes" else ([word], [_QUESTIONS[word]])
    return (
        [*german_word, *clauses.verb_first(clause), "?"],
        [*english_word, *clauses.question(clause), "?"],
        clause_phenomena(clause) | {"question"},
    )


def subordinate(chooser: Chooser) -> Sentence:
    """Der Mann schläft, weil er müde ist. / Weil der Mann müde ist, schläft er."""
    word = chooser.draw.one(tuple(_CONJUNCTIONS))
    tenses = "present" if word == "wenn" else chooser.draw.weighted(present=60, past=40)
    main = chooser.clause(short=True, tenses=tenses)
    reason = _reason(chooser, main, tenses)
    labels = {"verb-final"} | clause_phenomena(main) | clause_phenomena(reason)
    if chooser.draw.chance(0.4):
        reason, main = _swapped(reason, main)
        return (
            [word, *clauses.verb_final(reason), ",", *clauses.verb_first(main), "."],
            [_CONJUNCTIONS[word], *clauses.statement(reason), ",", *clauses.statement(main), "."],
            labels | {"fronting"},
        )
    return (
        [*clauses.main_clause(main), ",", word, *clauses.verb_final(reason), "."],
        [*clauses.statement(main), _CONJUNCTIONS[word], *clauses.statement(reason), "."],
        labels,
    )


def _reason(chooser: Chooser, main: Clause, tenses: str) -> Clause:
    """Why, when or in spite of what: the weather, a state, a wish; of the same subject where a pronoun can say it."""
    if chooser.draw.chance(0.15):
        return chooser.weather(tenses=tenses)
    again = _pronoun_for(main) if chooser.draw.chance(0.75) else None
    if again is not None and chooser.draw.chance(0.35):
        state = chooser.state(again, tenses=tenses, short=True)
        return state if state.predicate != main.subject.adjective else chooser.weather(tenses=tenses)
    return chooser.clause(subject=again, short=True, tenses=tenses)


def _pronoun_for(clause: Clause) -> NounPhrase | None:
    """The pronoun that takes up the subject: not for things and children, whose pronouns the languages choose apart."""
    subject, swapped = clause.subject, clause.verb is not None and clause.verb.frame == "exp"
    childish = subject.noun is not None and subject.noun.kind != "person"
    if childish or swapped or subject.determiner in ("kein", "jed"):
        return None
    return NounPhrase(pronoun=subject.pronoun or ("3p" if subject.column == "p" else f"3{subject.column}"))


def _swapped(reason: Clause, main: Clause) -> tuple[Clause, Clause]:
    """The name first, the pronoun second, when the reason comes first and both have the same subject."""
    if reason.subject != _pronoun_for(main):
        return reason, main
    return replace(reason, subject=main.subject), replace(main, subject=reason.subject)


def reported(chooser: Chooser) -> Sentence:
    """Ich weiß, dass der Mann das Buch liest. / Sie weiß nicht, ob der Mann das Buch liest."""
    who = chooser.subject(("person",))
    clause = chooser.clause(short=True)
    verb, word = chooser.draw.one(_MATRIX)
    asks = verb == "wissen" and chooser.draw.chance(0.4) and who.determiner != "kein"
    finite = german.finite(verb, who.person)
    labels = {"verb-final"} | phenomena(who, "nom") | clause_phenomena(clause)
    if asks:
        says = [english.present("do", who.person), "not", word, "whether"]
        return (
            [*in_german(who, "nom"), finite, "nicht", ",", "ob", *clauses.verb_final(clause), "."],
            [*in_english(who, subject=True), *says, *clauses.statement(clause), "."],
            labels | {"negation"},
        )
    return (
        [*in_german(who, "nom"), finite, ",", "dass", *clauses.verb_final(clause), "."],
        [*in_english(who, subject=True), english.present(word, who.person), "that", *clauses.statement(clause), "."],
        labels,
    )


def relative(chooser: Chooser) -> Sentence:
    """Der Mann, der das Buch liest, schläft. / Der Mann sieht die Frau, die das Buch liest."""
    while True:
        clause = chooser.clause(short=True)
        verb = clause.verb
        if verb is None or verb.frame in ("exp", "prep") or clause.negated:
            continue
        head = clause.subject if chooser.draw.chance(0.5) or clause.accusative is None else clause.accusative
        if head.noun is None or head.possessor or not head.noun.plural or head.determiner == "kein":
            continue
        described = chooser.relative(head, clause.tense)
        if described is None or _repeats(clause, described):
            continue
        with_it = replace(head, relative=described, adjective=None)
        if head is clause.subject:
            return _with_subject(replace(clause, subject=with_it))
        if verb.frame == "acc" and not clause.place and not (verb.movable and verb.particle):
            return _with_object(clause, with_it)


def _repeats(clause: Clause, described: clauses.Relative) -> bool:
    nouns = [p.noun for p in (clause.subject, clause.accusative, clause.dative) if p is not None and p.noun]
    inner = described.clause
    others = [p.noun for p in (inner.subject, inner.accusative, inner.dative) if p is not None and p.noun]
    return len({*nouns, *others}) < len(nouns) + len(others) - 1 or clause.verb == inner.verb


def _with_subject(clause: Clause) -> Sentence:
    return (
        [*clauses.main_clause(clause), "."],
        [*clauses.statement(clause), "."],
        clause_phenomena(clause),
    )


def _with_object(clause: Clause, described: NounPhrase) -> Sentence:
    """The relative clause behind the whole main clause: der Mann hat die Frau gesehen, die ..."""
    described_clause = described.relative
    tail = [",", *described_clause.in_german(described.column)] if described_clause else []
    bare = replace(clause, accusative=replace(described, relative=None))
    return (
        [*clauses.main_clause(bare), *tail, "."],
        [*clauses.statement(replace(clause, accusative=described)), "."],
        clause_phenomena(replace(clause, accusative=described)),
    )


def _task(chooser: Chooser, subject: NounPhrase) -> Clause:
    """Something the subject can set out to do."""
    verbs = [v for v in chooser.lexicon.verbs if "person" in v.subjects and v.frame not in ("exp", "lie")]
    fits = [v for v in verbs if not (v.stative or v.sudden)]
    clause = chooser.complete(chooser.draw.one(fits), subject)
    verb = clause.verb
    if verb and verb.manners and chooser.draw.chance(0.25):
        clause = replace(clause, manner=chooser.draw.one(verb.manners))
    return clause


def infinitive(chooser: Chooser) -> Sentence:
    """Der Mann versucht, das Buch zu lesen. / Der Mann hat vergessen, die Tür zuzumachen."""
    who = chooser.subject(("person",))
    verb, prefix, du, er, participle, word = chooser.draw.one(_CONTROL)
    perfect = chooser.draw.chance(0.4)
    task = _task(chooser, who)
    finite = german.finite("haben", who.person) if perfect else german.finite(verb, who.person, du=du, er=er)
    end = [participle] if perfect else [prefix] if prefix else []
    says = english.past(word, who.person) if perfect else english.present(word, who.person)
    labels = {"infinitive clause"} | phenomena(who, "nom") | clause_phenomena(task)
    labels |= {"separable verb"} if prefix else set()
    return (
        [*in_german(who, "nom"), finite, *end, ",", *clauses.with_zu(task), "."],
        [*in_english(who, subject=True), says, *clauses.to_infinitive(task), "."],
        labels | ({"perfect"} if perfect else set()),
    )


def purpose(chooser: Chooser) -> Sentence:
    """Der Mann geht in den Park, um den Hund zu suchen."""
    moves: list[Verb] = [v for v in chooser.lexicon.verbs if v.frame == "move" and "person" in v.subjects]
    who = chooser.subject(("person",))
    clause = chooser.complete(chooser.draw.one(moves), who)
    clause = replace(clause, tense=chooser.draw.weighted(present=55, perfect=30, future=15))
    task = _task(chooser, who)
    while task.verb is None or task.verb.frame not in ("acc", "dat", "ditr"):
        task = _task(chooser, who)
    return (
        [*clauses.main_clause(clause), ",", "um", *clauses.with_zu(task), "."],
        [*clauses.statement(clause), *clauses.to_infinitive(task), "."],
        clause_phenomena(clause) | clause_phenomena(task) | {"infinitive clause"},
    )


def contrast(chooser: Chooser) -> Sentence:
    """Der Mann schläft, aber die Frau arbeitet."""
    tenses = chooser.draw.weighted(present=60, past=40)
    first, second = chooser.clause(short=True, tenses=tenses), chooser.clause(short=True, tenses=tenses)
    return (
        [*clauses.main_clause(first), ",", "aber", *clauses.main_clause(second), "."],
        [*clauses.statement(first), ",", "but", *clauses.statement(second), "."],
        clause_phenomena(first) | clause_phenomena(second),
    )
