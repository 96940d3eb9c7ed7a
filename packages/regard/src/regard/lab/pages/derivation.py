"""Derivation: one's own proof, typeset, with a mark at every line: follows, true but say why, false, not read."""

from __future__ import annotations

import shlex
from typing import Any

from regard.coursework.derivations.problem import problem_names
from regard.coursework.derivations.report import check_derivation, problem_text, reason, require_problem
from regard.coursework.derivations.verdicts import LineVerdict, Mark
from regard.errors import InputError
from regard.lab.page import Answer, Number, Page, State, mathml
from regard.notation import latex

LONGEST = 20_000  # letters of an address: longer ones no server takes
START = "Q_p = P X W_Q = P Q\nK_p = P K\nV_p = P V\nQ_p K_p^T = P Q K^T P^T\nH_p = P softmax(Q K^T / sqrt(d)) P P V"


def answer(state: State) -> Answer:
    """The text with its marks."""
    claim, text = state.choice("claim", problem_names()), state.text("text")
    if len(text) > LONGEST:
        raise InputError(f"The page takes {LONGEST:,} letters, not {len(text):,}; use regard claims --derivation FILE.")
    report = check_derivation(claim, text, hints=state.whole_number("hints", least=0, most=2))
    counts = {mark: sum(line.mark is mark for line in report.lines) for mark in Mark}
    return Answer(
        picture={
            "claims": problem_names(),
            "problem": problem_text(require_problem(claim)),
            "lines": [_line(line) for line in report.lines],
            "summary": f"{claim}: {report.summary()}",
            "remarks": report.remarks(),
        },
        numbers=tuple(
            Number(name=mark.name.lower(), label=mark.value, value=count) for mark, count in counts.items() if count
        ),
        say=(report.summary(),),
        python=f"import regard\nprint(regard.claims[{claim!r}].check_derivation({text!r}))",
        shell=f"regard claims {shlex.quote(claim)} --derivation proof.md",
        state={"claim": claim},
    )


def _line(line: LineVerdict) -> dict[str, Any]:
    """One relation; what is not read is shown as it was typed."""
    shown = "" if line.mark is Mark.NOT_READ else mathml(latex(line.text), inline=True)
    return {
        "line": line.line,
        "text": "\n".join(line.text_and_caret),
        "mathml": shown,
        "mark": line.mark.value,
        "why": reason(line),
    }


PAGE = Page(
    place=8,
    title="Derivation",
    hint="Write your own proof, one relation per line or in LaTeX, and press Check: every line gets its mark.",
    about="A proof with a mark beside every line.",
    start={"claim": "order-blindness", "text": START, "hints": "0"},
    answer=answer,
)
