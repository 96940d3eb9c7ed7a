"""Claims: every statement of the coursework with its formula and picture, and its verdict a click away."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from regard.errors import InputError
from regard.lab.background import Errands
from regard.lab.notation import formulas
from regard.lab.page import Answer, Number, Page, tex
from regard.lab.state import State, shortest_text
from regard.notation import readable, readable_values

if TYPE_CHECKING:
    from regard.coursework.claim import Claim

SHOWN = ("picture", "verdict", "proof")  # each shows what is before it, too

errands = Errands("regard.lab.pages.claims")


def answer(state: State) -> Answer:
    """A claim, its picture, and the verdict once it is asked for."""
    from regard.coursework.catalogue import claims

    claim = claims[state.text("claim")]
    given = _given(claim, state.text("set"))
    show = state.one_of("show", SHOWN)
    words = {"claim": claim.name, "parameters": given}
    drawn = errands.ask("drawn", **words)
    verdict = None if show == "picture" else errands.ask("checked", **words, proof=show == "proof")
    return Answer(
        picture={
            "topics": _topics(),
            "statement": readable(claim.statement),
            "sources": [str(source) for source in claim.sources],
            "parameters": _parameters(claim, given),
            "drawn": drawn,
            "verdict": readable_values(verdict),
            "running": drawn is None or (verdict is None and show != "picture"),
        },
        numbers=_numbers(verdict),
        say=_say(claim, show, verdict),
        formulas=(*formulas(claim.formula), *_chosen(claim, given)),
        python=_python(claim, given, show),
        shell=_shell(claim, given, show),
        state={"set": ",".join(f"{name}={shortest_text(value)}" for name, value in given.items())},
    )


def _given(claim: Claim, text: str) -> dict[str, float]:
    """The parameters of the address that are not the defaults, such as n=1000,eps=0.01, checked by the claim."""
    pairs = [part.partition("=") for part in text.split(",") if part.strip()]
    if not all(equals for _, equals, _ in pairs):
        raise InputError(f"set must be parameters such as n=1000,eps=0.01, not {text!r}.")
    chosen = claim.chosen(**{name.strip(): value.strip() for name, _, value in pairs})
    return {p.name: chosen[p.name] for p in claim.parameters if chosen[p.name] != p.default}


@cache
def _topics() -> dict[str, list[str]]:
    """The names of all claims by topic."""
    from regard.coursework.catalogue import claims

    topics: dict[str, list[str]] = {}
    for name in claims:
        topics.setdefault(claims[name].topic, []).append(name)
    return topics


def _parameters(claim: Claim, given: dict[str, float]) -> list[dict[str, Any]]:
    return [
        {
            "name": p.name,
            "value": shortest_text(given.get(p.name, p.default)),
            "meaning": readable(p.meaning),
            "rule": p.rule(),
        }
        for p in claim.parameters
    ]


def _chosen(claim: Claim, given: dict[str, float]) -> tuple[str, ...]:
    """The numbers that the formula has here."""
    pairs = [rf"\mathrm{{{p.name}}} = {tex(given.get(p.name, p.default), 12)}" for p in claim.parameters]
    return (r",\quad ".join(pairs),) if pairs else ()


def _numbers(verdict: dict[str, Any] | None) -> tuple[Number, ...]:
    """What the readings' verdicts found, as their checks name it."""
    found: dict[str, Number] = {}
    for reading in verdict["readings"] if verdict else []:
        for name, value in reading["numbers"].items():
            label = f"{reading['reading']}: {name.replace('_', ' ')}"
            if isinstance(value, (int, float)):
                found.setdefault(name, Number(name=name, label=label, value=float(value), form=".6g"))
    return tuple(found.values())


def _say(claim: Claim, show: str, verdict: dict[str, Any] | None) -> tuple[str, ...]:
    if show == "picture":
        count = len(claim.readings)
        several = (
            f"can be read in {count} ways, each with its verdict" if count > 1 else "has one reading and one verdict"
        )
        return (f"The statement {several}: guess, then check.",)
    if verdict is None:
        return ("Checking …",)
    return (f"{claim.name}: {verdict['status']}, by its first reading, which is the statement's own.",)


def _python(claim: Claim, given: dict[str, float], show: str) -> str:
    options = [f"{name}={shortest_text(value)}" for name, value in given.items()]
    verb = {"picture": "claim", "verdict": "claim.check({})", "proof": "claim.answered({})"}[show]
    return "\n".join(
        [
            "from regard.coursework.catalogue import claims",
            f'claim = claims["{claim.name}"]',
            f"print({verb.format(', '.join(options))})",
            f"claim.plot({', '.join([repr(claim.name + '.svg'), *options])})",
        ]
    )


def _shell(claim: Claim, given: dict[str, float], show: str) -> str:
    settings = "".join(f" --set {name}={shortest_text(value)}" for name, value in given.items())
    asked = {"picture": "", "verdict": " --check", "proof": " --check --proof"}[show]
    return f"regard claims {claim.name}{asked}{settings} --plot {claim.name}.svg"


# errands, in a process of their own ----------------------------------------------------------------------------------


def drawn(claim: str, parameters: dict[str, float]) -> dict[str, Any]:
    """The claim's picture as SVG, or why there is none."""
    from regard.coursework.catalogue import claims
    from regard.lab.figure import drawn as picture

    chosen = claims[claim].chosen(**parameters)
    try:
        return {"svg": picture(lambda figure: claims[claim].draw(figure, **chosen)), "why": ""}
    except InputError as error:  # no matplotlib: the verdicts do without
        return {"svg": "", "why": str(error)}


def checked(claim: str, parameters: dict[str, float], proof: bool) -> dict[str, Any]:
    """The verdicts on a claim's readings and, if asked for, its proof."""
    from regard.coursework.catalogue import claims

    found = claims[claim].answered(**parameters) if proof else claims[claim].check(**parameters)
    return found.to_dict()


PAGE = Page(
    place=6,
    title="Claims",
    hint="Choose a claim, guess whether it holds, and check; then change a number until the verdict turns.",
    start={"claim": "average-within-budget", "set": "", "show": "picture"},
    answer=answer,
)
