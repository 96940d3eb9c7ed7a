"""German forms: articles, adjective endings, noun cases, pronouns, the present tense, contractions.

Rows of the tables are cases, columns masculine, feminine, neuter, plural.
"""

from __future__ import annotations

from tools.grammar.lexicon import Adjective, Noun, Verb

COLUMNS = "mfnp"


def _table(nominative: str, accusative: str, dative: str, genitive: str) -> dict[str, dict[str, str]]:
    rows = {"nom": nominative, "acc": accusative, "dat": dative, "gen": genitive}
    return {
        case: dict(zip(COLUMNS, (cell.strip("-") for cell in row.split()), strict=True)) for case, row in rows.items()
    }


DEFINITE = _table("der die das die", "den die das die", "dem der dem den", "des der des der")
EIN = _table("- -e - -e", "-en -e - -e", "-em -er -em -en", "-es -er -es -er")
DIESER = _table("-er -e -es -e", "-en -e -es -e", "-em -er -em -en", "-es -er -es -er")
WEAK = _table("-e -e -e -en", "-en -e -e -en", "-en -en -en -en", "-en -en -en -en")
MIXED = _table("-er -e -es -en", "-en -e -es -en", "-en -en -en -en", "-en -en -en -en")
STRONG = _table("-er -e -es -e", "-en -e -es -e", "-em -er -em -en", "-en -er -en -er")
RELATIVE = _table("der die das die", "den die das die", "dem der dem denen", "dessen deren dessen deren")

# person: nominative, accusative, dative
PRONOUNS = {
    "1s": ("ich", "mich", "mir"),
    "2s": ("du", "dich", "dir"),
    "3m": ("er", "ihn", "ihm"),
    "3f": ("sie", "sie", "ihr"),
    "3n": ("es", "es", "ihm"),
    "1p": ("wir", "uns", "uns"),
    "2p": ("ihr", "euch", "euch"),
    "3p": ("sie", "sie", "ihnen"),
}

CONTRACTIONS = {
    ("in", "dem"): "im",
    ("in", "das"): "ins",
    ("an", "dem"): "am",
    ("an", "das"): "ans",
    ("von", "dem"): "vom",
    ("zu", "dem"): "zum",
    ("zu", "der"): "zur",
    ("bei", "dem"): "beim",
}

# verb number: the six persons of the present (and, for modals, of the past)
_FULL = ("1s", "2s", "3s", "1p", "2p", "3p")
_IRREGULAR = {
    "sein": "bin bist ist sind seid sind",
    "haben": "habe hast hat haben habt haben",
    "werden": "werde wirst wird werden werdet werden",
    "können": "kann kannst kann können könnt können",
    "müssen": "muss musst muss müssen müsst müssen",
    "wollen": "will willst will wollen wollt wollen",
    "sollen": "soll sollst soll sollen sollt sollen",
    "dürfen": "darf darfst darf dürfen dürft dürfen",
    "möchten": "möchte möchtest möchte möchten möchtet möchten",
    "wissen": "weiß weißt weiß wissen wisst wissen",
}
_PAST = {
    "sein": "war warst war waren wart waren",
    "können": "konnte konntest konnte konnten konntet konnten",
    "müssen": "musste musstest musste mussten musstet mussten",
    "wollen": "wollte wolltest wollte wollten wolltet wollten",
    "dürfen": "durfte durftest durfte durften durftet durften",
}


def determiner(word: str, column: str, case: str) -> str:
    """The form of an article-like word; nothing stays nothing, and numbers do not change.

    >>> determiner("der", "m", "acc"), determiner("kein", "f", "dat"), determiner("dies", "n", "nom")
    ('den', 'keiner', 'dieses')
    """
    if word == "der":
        return DEFINITE[case][column]
    if word in ("dies", "jed", "viel"):
        return word + DIESER[case][column]
    if word in ("ein", "kein", "mein", "dein", "sein", "ihr", "unser"):
        return word + EIN[case][column]
    return word


def adjective(word: Adjective, after: str, column: str, case: str) -> str:
    """The adjective with its ending: weak after der, dieser, jeder; mixed after ein-words; strong otherwise."""
    if after in ("der", "dies", "jed"):
        endings = WEAK
    elif after in ("ein", "kein", "mein", "dein", "sein", "ihr", "unser"):
        endings = MIXED
    else:
        endings = STRONG
    return word.stem + endings[case][column]


def noun(word: Noun, column: str, case: str) -> str:
    """The noun in its case: -n in the dative plural, the oblique form of weak nouns, the genitive singular."""
    if column == "p":
        return word.plural + "n" if case == "dat" and word.plural[-1] not in "ns" else word.plural
    if case == "gen":
        return word.genitive
    return word.oblique if word.oblique and case != "nom" else word.singular


def preposition(word: str, phrase: list[str], article: bool) -> list[str]:
    """The preposition before a noun phrase, contracted with a definite article: in + dem = im."""
    short = CONTRACTIONS.get((word, phrase[0])) if article else None
    return [short, *phrase[1:]] if short else [word, *phrase]


def finite(verb: str, person: str, *, du: str = "", er: str = "", past: bool = False) -> str:
    """The finite form, present tense (or past, for sein and modals); strong verbs bring their du- and er-form.

    >>> [finite("arbeiten", p) for p in ("1s", "2s", "3s", "1p", "2p", "3p")]
    ['arbeite', 'arbeitest', 'arbeitet', 'arbeiten', 'arbeitet', 'arbeiten']
    """
    irregular = (_PAST if past else _IRREGULAR).get(verb)
    if irregular:
        return irregular.split()[_FULL.index(person)]
    if person in ("1p", "3p"):
        return verb
    if er and person in ("2s", "3s"):
        return du if person == "2s" else er
    stem = verb[:-1] if verb.endswith(("ern", "eln")) else verb[:-2]
    if person == "1s":
        return stem + "e"
    link = "e" if stem.endswith(("d", "t", "chn", "ffn", "gn")) else ""
    if person == "2s":
        return stem + ("t" if stem.endswith(("s", "ß", "z", "x")) else link + "st")
    return stem + link + "t"


def finite_of(verb: Verb, person: str) -> str:
    """The present of a verb of the lexicon, without its separable prefix."""
    return finite(verb.infinitive, person, du=verb.du, er=verb.er)


def infinitive(verb: Verb) -> str:
    """The whole infinitive: prefix and verb in one word."""
    return verb.prefix + verb.infinitive


def infinitive_with_zu(verb: Verb) -> list[str]:
    """The infinitive with zu, which goes between a separable prefix and its verb: aufzustehen, but zu lesen."""
    return [f"{verb.prefix}zu{verb.infinitive}"] if verb.prefix else ["zu", verb.infinitive]
