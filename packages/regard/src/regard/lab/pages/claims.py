"""Claims: every statement of the coursework with its formula and picture, and its verdict a click away."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import regard
from regard.coursework.problem_sets import SETS
from regard.errors import InputError
from regard.lab.page import ANSWERS, REFUSED, Answer, Number, Page, State, shortest_text, tex, typeset
from regard.notation import latex_lines, readable
from regard.pictures import figure, svg
from regard.strict_json import JsonObject
from regard.web.background_tasks import BackgroundTasks

if TYPE_CHECKING:
    from regard.coursework.claim import Claim
    from regard.coursework.set_questions import QuestionSelection


SVG = "http://www.w3.org/2000/svg"
INK = {  # what matplotlib draws with, and the page's own colours
    "#000000": "currentColor",
    "#ffffff": "var(--paper)",
    "#707070": "var(--soft)",
    "#0072b2": "var(--blue)",
    "#e69f00": "var(--one)",
    "#d55e00": "var(--orange)",
    "#009e73": "var(--green)",
}
SHOWN = ("picture", "verdict", "proof")  # each shows what is before it, too

tasks = BackgroundTasks("regard.lab.pages.claims")


def answer(state: State) -> Answer:
    """A claim, its picture, and the verdict once it is asked for."""
    selected = regard.claims.of(state.text("of"), state.text("question") or None) if state.text("of") else None
    claim, moved = _current_claim(selected, state.text("claim"))
    given = {} if moved else _parse_parameters(claim, state.text("set"))
    show = state.choice("show", SHOWN)
    answers = ANSWERS not in state.hidden
    if show != "picture" and not answers:
        raise InputError(REFUSED)
    words = {"claim": claim.name, "parameters": given}
    drawn = tasks.ask("draw_claim", **words)
    of = selected.set.name if selected else ""
    verdict = None if show == "picture" else tasks.ask("check_claim", **words, proof=show == "proof", of=of)
    checklists = _checklists(selected, claim) if answers else []
    return Answer(
        picture={
            "sets": list(SETS),
            "questions": list(selected.set.labels) if selected else [],
            "topics": _topics()
            if selected is None
            else {one.label: [c.name for c in one.claims] for one in selected.questions},
            "answers": answers,
            "checklists": readable(checklists),
            "statement": readable(claim.statement),
            "sources": [
                readable(f"{source}: {SETS[source.name]}") for source in claim.sources if of in ("", source.name)
            ],
            "parameters": _parameters(claim, given),
            "typeset": _typeset([claim.statement, [p.meaning for p in claim.parameters], verdict, checklists]),
            "drawn": drawn,
            "verdict": readable(verdict),
            "running": drawn is None or (verdict is None and show != "picture"),
        },
        numbers=_numbers(verdict),
        say=_say(claim, show, verdict) if answers else (),
        formulas=(*latex_lines(claim.formula), *_parameter_formulas(claim, given)),
        python=_python(claim, given, show, of),
        shell=_shell(claim, given, show, of),
        state={
            "set": ",".join(f"{name}={shortest_text(value)}" for name, value in given.items()),
            "claim": claim.name,
            "of": of,
            "question": _label(selected, state.text("question")),
        },
    )


def _current_claim(selected: QuestionSelection | None, name: str) -> tuple[Claim, bool]:
    """The claim that is shown, and whether the filter moved there: one that it leaves out gives way to its first."""
    if selected is None or name in [claim.name for claim in selected.claims]:
        return regard.claims[name], False
    return selected.claims[0], True


def _typeset(value: object) -> dict[str, tuple[tuple[str, bool], ...]]:
    """Every text inside that has formulas, by paragraph, as the page shows it: its parts, prose and MathML."""
    if isinstance(value, str):
        parts = {readable(one): typeset(one) for one in value.split("\n\n")}
        return {text: pieces for text, pieces in parts.items() if any(is_formula for _, is_formula in pieces)}
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return {text: pieces for one in inside for text, pieces in _typeset(one).items()}


def _label(selected: QuestionSelection | None, question: str) -> str:
    """The question of the address by the set's own label; a beginning of several stays as it is."""
    labels = [one.label for one in selected.questions] if selected else []
    return labels[0] if question and len(labels) == 1 else question if selected else ""


def _checklists(selected: QuestionSelection | None, claim: Claim) -> list[JsonObject]:
    """What a complete answer contains, for the questions of the set that this claim answers."""
    asked = [one.checklist for one in selected.questions if claim in one.claims] if selected else []
    return [
        {
            "question": one.question,
            "asks": str(SETS[one.set].question(one.question)),
            "points": one.points,
            "items": [{**vars(item), "worth": item.worth} for item in one.items],
            "full": one.full_answer,
        }
        for one in asked
    ]


def _parse_parameters(claim: Claim, text: str) -> dict[str, float]:
    """The parameters of the address that are not the defaults, such as n=1000,eps=0.01, checked by the claim."""
    pairs = [part.partition("=") for part in text.split(",") if part.strip()]
    if not all(equals for _, equals, _ in pairs):
        raise InputError(f"set must be parameters such as n=1000,eps=0.01, not {text!r}.")
    chosen = claim.resolve_parameters(**{name.strip(): value.strip() for name, _, value in pairs})
    return {p.name: chosen[p.name] for p in claim.parameters if chosen[p.name] != p.default}


@cache
def _topics() -> dict[str, list[str]]:
    """The names of all claims by topic."""
    topics: dict[str, list[str]] = {}
    for name in regard.claims:
        topics.setdefault(regard.claims[name].topic, []).append(name)
    return topics


def _parameters(claim: Claim, given: dict[str, float]) -> list[JsonObject]:
    return [
        {
            "name": p.name,
            "value": shortest_text(given.get(p.name, p.default)),
            "meaning": readable(p.meaning),
            "rule": readable(p.rule()),
        }
        for p in claim.parameters
    ]


def _parameter_formulas(claim: Claim, given: dict[str, float]) -> tuple[str, ...]:
    """The numbers that the formula has here."""
    pairs = [rf"\mathrm{{{p.name}}} = {tex(given.get(p.name, p.default), 12)}" for p in claim.parameters]
    return (r",\quad ".join(pairs),) if pairs else ()


def _numbers(verdict: JsonObject | None) -> tuple[Number, ...]:
    """What the readings' verdicts found, as their checks name it."""
    numbers: dict[str, Number] = {}
    for reading in verdict["readings"] if verdict else []:
        for name, value in reading["numbers"].items():
            label = f"{reading['reading']}: {name.replace('_', ' ')}"
            if isinstance(value, (int, float)):
                numbers.setdefault(name, Number(name=name, label=label, value=float(value), form=".6g"))
    return tuple(numbers.values())


def _say(claim: Claim, show: str, verdict: JsonObject | None) -> tuple[str, ...]:
    if show == "picture":
        count = len(claim.readings)
        if count > 1:
            return (f"The statement can be read in {count} ways, each with its verdict: guess, then check.",)
        return ("The statement has one reading and one verdict: guess, then check.",)
    if verdict is None:
        return ("Checking …",)
    if verdict["asked"]:
        return (f"{claim.name}: {verdict['status']} for {verdict['asked']}, by the reading that has its premise.",)
    if len({one["status"] for one in verdict["sets"]}) > 1:  # one verdict for all would be wrong for somebody
        by_set = "; ".join(
            f"{one['status']} for {one['set']}, {' and '.join(one['questions'])}" for one in verdict["sets"]
        )
        return (f"{claim.name}: {by_set}.",)
    return (f"{claim.name}: {verdict['status']}, by its first reading, which is the statement's own.",)


def _python(claim: Claim, given: dict[str, float], show: str, of: str) -> str:
    options = [f"{name}={shortest_text(value)}" for name, value in given.items()]
    whose = f'.for_set("{of}")' if of else ""
    verb = {"picture": "claim", "verdict": f"claim.check({{}}){whose}", "proof": f"claim.solution({{}}){whose}"}[show]
    return "\n".join(
        [
            "from regard.coursework.catalogue import claims",
            f'claim = claims["{claim.name}"]',
            f"print({verb.format(', '.join(options))})",
            f"claim.plot({', '.join([repr(claim.name + '.svg'), *options])})",
        ]
    )


def _shell(claim: Claim, given: dict[str, float], show: str, of: str) -> str:
    settings = "".join(f" --set {name}={shortest_text(value)}" for name, value in given.items())
    asked = {"picture": "", "verdict": " --check", "proof": " --check --proof"}[show]
    return f"regard claims {_command_words(claim, of)}{asked}{settings} --plot {claim.name}.svg"


def _command_words(claim: Claim, of: str) -> str:
    """The set and the question where these name the claim, or else its name."""
    from regard.coursework.set_questions import shell_label

    source = claim.source_in(of)
    if source is None:
        return claim.name
    selected = regard.claims.of(of, source.question)
    return f"{of} {shell_label(source.question)}" if selected.central == (claim,) else claim.name


# tasks, in a process of their own ----------------------------------------------------------------------------------


def draw_claim(claim: str, parameters: dict[str, float]) -> JsonObject:
    """The claim's picture as SVG, or why there is none."""
    chosen = regard.claims[claim].resolve_parameters(**parameters)
    try:
        return {"svg": draw_svg(lambda figure: regard.claims[claim].draw_into(figure, **chosen)), "why": ""}
    except InputError as error:  # no matplotlib: the verdicts do without
        return {"svg": "", "why": str(error)}


def draw_svg(draw: Callable[[Any], None]) -> str:
    """What ``draw`` puts into a new figure, as SVG for the page."""
    made = figure()
    draw(made)
    return themed_svg(svg(made))


def themed_svg(svg: str) -> str:
    """The picture without styles, which the page's policy forbids: they become attributes, in the page's colours.

    >>> themed_svg('<svg xmlns="http://www.w3.org/2000/svg"><path style="fill: #0072b2; opacity: 0.5"/></svg>')
    '<svg xmlns="http://www.w3.org/2000/svg"><path fill="var(--blue)" opacity="0.5" /></svg>'
    """
    ElementTree.register_namespace("", SVG)
    ElementTree.register_namespace("xlink", "http://www.w3.org/1999/xlink")
    root = ElementTree.fromstring(svg)
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag in (f"{{{SVG}}}style", f"{{{SVG}}}metadata"):
                parent.remove(child)
        for declaration in parent.attrib.pop("style", "").split(";"):
            name, colon, value = declaration.partition(":")
            if colon:
                parent.set(name.strip(), INK.get(value.strip(), value.strip()))
    for size in ("width", "height"):  # the page says how large; the viewBox how it is shaped
        root.attrib.pop(size, None)
    return ElementTree.tostring(root, encoding="unicode")


def check_claim(claim: str, parameters: dict[str, float], proof: bool, of: str = "") -> JsonObject:
    """The verdicts on a claim's readings, decided by the premise of a set if one is chosen, and its proof if wanted."""
    verdict = regard.claims[claim].solution(**parameters) if proof else regard.claims[claim].check(**parameters)
    return (verdict.for_set(of) if of else verdict).marked_dict()


PAGE = Page(
    place=6,
    title="Claims",
    hint="Choose a claim, or your problem set and a question of it, guess whether it holds, and check; then change a "
    "number until the verdict turns.",
    about="Statements about attention, one by one, each with its picture.",
    start={"claim": "average-within-budget", "of": "", "question": "", "set": "", "show": "picture"},
    answer=answer,
    close=tasks.close,
)
