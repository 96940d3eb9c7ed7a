"""English forms: verbs, articles, pronouns."""

from __future__ import annotations

# base: past, participle
IRREGULAR = {
    "be": ("was", "been"), "do": ("did", "done"), "have": ("had", "had"), "sleep": ("slept", "slept"),
    "sing": ("sang", "sung"),
    "swim": ("swam", "swum"), "get": ("got", "got"), "wake": ("woke", "woken"), "fall": ("fell", "fallen"),
    "come": ("came", "come"), "run": ("ran", "run"), "read": ("read", "read"), "write": ("wrote", "written"),
    "eat": ("ate", "eaten"), "drink": ("drank", "drunk"), "buy": ("bought", "bought"), "sell": ("sold", "sold"),
    "find": ("found", "found"), "see": ("saw", "seen"), "hear": ("heard", "heard"), "know": ("knew", "known"),
    "wear": ("wore", "worn"), "feed": ("fed", "fed"), "understand": ("understood", "understood"),
    "lose": ("lost", "lost"), "forget": ("forgot", "forgotten"), "put": ("put", "put"), "take": ("took", "taken"),
    "throw": ("threw", "thrown"), "bring": ("brought", "brought"), "give": ("gave", "given"),
    "show": ("showed", "shown"), "send": ("sent", "sent"), "lend": ("lent", "lent"), "sit": ("sat", "sat"),
    "stand": ("stood", "stood"), "go": ("went", "gone"), "drive": ("drove", "driven"), "lay": ("laid", "laid"),
    "lie": ("lay", "lain"), "think": ("thought", "thought"), "begin": ("began", "begun"), "say": ("said", "said"),
    "hang": ("hung", "hung"),
}  # fmt: skip
_DOUBLING = frozenset({"swim", "get", "run", "shop", "forget", "put", "sit", "begin", "stop"})
_BE = {"1s": ("am", "was"), "3s": ("is", "was")}
_SILENT_H = ("honest", "hour")

# person: subject, object
PRONOUNS = {
    "1s": ("I", "me"),
    "2s": ("you", "you"),
    "3m": ("he", "him"),
    "3f": ("she", "her"),
    "3n": ("it", "it"),
    "1p": ("we", "us"),
    "2p": ("you", "you"),
    "3p": ("they", "them"),
}


def third(base: str) -> str:
    """The third person singular.

    >>> [third(v) for v in ("read", "wash", "go", "tidy", "play", "have", "be")]
    ['reads', 'washes', 'goes', 'tidies', 'plays', 'has', 'is']
    """
    if base in ("have", "be"):
        return {"have": "has", "be": "is"}[base]
    if base.endswith("y") and base[-2] not in "aeiou":
        return base[:-1] + "ies"
    return base + ("es" if base.endswith(("s", "sh", "ch", "x", "z", "o")) else "s")


def present(base: str, person: str) -> str:
    """The simple present.

    >>> present("be", "1s"), present("be", "3p"), present("work", "3s"), present("work", "2s")
    ('am', 'are', 'works', 'work')
    """
    if base == "be":
        return _BE.get(person, ("are", "were"))[0]
    return third(base) if person == "3s" else base


def past(base: str, person: str) -> str:
    """The simple past."""
    if base == "be":
        return _BE.get(person, ("are", "were"))[1]
    return IRREGULAR[base][0] if base in IRREGULAR else _regular(base)


def participle(base: str) -> str:
    """The past participle."""
    return IRREGULAR[base][1] if base in IRREGULAR else _regular(base)


def _regular(base: str) -> str:
    if base.endswith("e"):
        return base + "d"
    if base.endswith("y") and base[-2] not in "aeiou":
        return base[:-1] + "ied"
    return base + (base[-1] if base in _DOUBLING else "") + "ed"


def progressive(base: str) -> str:
    """The -ing form.

    >>> [progressive(v) for v in ("read", "write", "sit", "lie", "see")]
    ['reading', 'writing', 'sitting', 'lying', 'seeing']
    """
    if base == "lie":
        return "lying"
    if base.endswith("e") and not base.endswith("ee") and base != "be":
        return base[:-1] + "ing"
    return base + (base[-1] if base in _DOUBLING else "") + "ing"


def article(before: str) -> str:
    """a or an, by the sound of the word that follows.

    >>> article("apple"), article("pear"), article("honest"), article("umbrella")
    ('an', 'a', 'an', 'an')
    """
    return "an" if before[0].lower() in "aeiou" or before.startswith(_SILENT_H) else "a"
