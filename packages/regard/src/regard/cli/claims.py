"""``regard claims``: what the coursework states, whether it holds, and why."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from regard.cli.output import AsJson, Details, Progress, echo, encodable, note, show
from regard.errors import CouldNotFindOut, InputError
from regard.files import check_target, read_file, write_file
from regard.notation import readable
from regard.terminal import printable

if TYPE_CHECKING:
    from regard.coursework.claim import Claim
    from regard.coursework.set_questions import QuestionSelection


def claims(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[CLAIM | SET [QUESTION]] [FILE]",
            help="A claim, or a problem set and a question of it; without one, all claims. With --template, the file.",
        ),
    ] = None,
    check: Annotated[bool, typer.Option("--check", help="Check every reading of it: HOLDS, REFUTED, ...")] = False,
    proof: Annotated[bool, typer.Option("--proof", help="The proof, with this instance's numbers.")] = False,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=NUMBER", help="A parameter; may be given several times.")
    ] = None,
    plot: Annotated[str | None, typer.Option(metavar="FILE", help="Write the picture (.svg, .png, .pdf).")] = None,
    template: Annotated[bool, typer.Option("--template", help="Write the function to fill in to FILE.")] = False,
    answer: Annotated[
        str | None, typer.Option(metavar="FILE.py:NAME", help="Check your own answer; your code is run.")
    ] = None,
    derivation: Annotated[
        str | None, typer.Option(metavar="FILE", help="Check your own derivation (.md, .tex, .txt, .ipynb).")
    ] = None,
    problem: Annotated[
        str | None, typer.Option(metavar="FILE.toml", help="With --derivation or --template: a problem of your own.")
    ] = None,
    words_file: Annotated[
        str | None,
        typer.Option("--words", metavar="FILE", help="Your answer in words (.txt, .md); you mark it point by point."),
    ] = None,
    gaps: Annotated[int, typer.Option(help="Print our proof with this many lines left out, for practice.")] = 0,
    jail: Annotated[
        bool,
        typer.Option("--jail", help="With --answer: run it in a jail, away from your files, network and processes."),
    ] = False,
    hint: Annotated[
        int,
        typer.Option(
            "--hint",
            count=True,
            help="Say where it is wrong, or how to go on; given twice: what is wrong, or which rule.",
        ),
    ] = 0,
    seed: Annotated[int, typer.Option(help="The seed of the instances that an answer is checked on.")] = 0,
    limit: Annotated[float, typer.Option(metavar="SECONDS", help="How long the code of an answer may run.")] = 10.0,
    details: Details = False,
    as_json: AsJson = False,
) -> None:
    """What the coursework states, whether it holds, and why.

    Without a name: every claim, and with --check a table of every verdict (exit code 0; some ten seconds).

    Example: regard claims average-within-budget --check --set n=1000 --set eps=0.01

    By problem set: regard claims cse151b-hw4 lists its questions, regard claims cse151b-hw4 1B.ii opens one, with what
    a complete written answer contains (with --proof, what each item should come to). Beginnings are enough: cs224n 1-4.
    --check decides by the premises of that set.

    Your own answer: --template FILE writes the function to fill in, --answer FILE.py:NAME runs it, in a process of
    its own, on fresh instances and against an adversary: it holds so far (exit code 0; no proof), or a counterexample
    is shown (1), or it cannot be checked (2), or it is so slow that too little was checked (3). It runs with your
    rights, unless --jail is given: use that for files that are not your own.

    Example: regard claims average-within-budget --answer my.py:query

    Your own Transformer: regard claims translator --answer my.py:NAME checks a model, or a part of one, part by part.
    --hint says where it is wrong, --hint --hint says what is wrong.

    Your own derivation: --template proof.md writes what is given and what is to be shown, --derivation proof.md marks
    every relation: follows, true but say why, false, not read. 0: complete and proved; 1: a false line; 3: neither.

    Your own words: regard claims cse151b-hw4 1A.iv --words mine.txt asks you, point by point, whether your answer has
    what a complete one contains, and adds up the points. If there is no such file, you type your answer first.

    Exit code 0: the statement's own (first) reading, or that of the set which was asked for, holds, is not refuted, or
    is explained; 1: it is refuted.
    """
    given, words = _parameters(set_ or []), list(words or [])
    if not words:
        _show_all(check, alone=not (proof or plot or given or template or answer), as_json=as_json, details=details)
    _refuse_mixtures(template, answer, others=check or proof or plot is not None, jail=jail)
    asked_for, file = _find_claim(words, template=template)
    # show() leaves the program: of what follows, the first that was asked for is the last that runs
    if words_file is not None:
        _mark_words(asked_for, words_file, as_json=as_json)
    if derivation is not None or gaps:
        _show_derivation(_single_claim(asked_for, "--derivation"), derivation, problem, gaps, hint, as_json=as_json)
    if template and problem is not None:
        from regard.coursework.derivations.report import write_derivation_template

        claim = _single_claim(asked_for, "--template")
        show(write_derivation_template(claim.name, file or f"{claim.name}.md", problem=problem), as_json=as_json)
    if template:
        show(_single_claim(asked_for, "--template").template(file), as_json=as_json)
    if answer is not None:
        claim = _single_claim(asked_for, "--answer")
        if hint and not claim.asks_for_code:
            raise InputError(f"--hint is for a model of your own (regard claims translator); {claim.name} has none.")
        progress = _answer_progress(answer, jail=jail)
        checked = claim.check_answer(
            answer, seed=seed, limit=limit, jail=jail, hints=hint, progress=progress, sizes=given
        )
        show(checked, as_json=as_json)
    if plot is not None or given:  # bad parameters are refused before anything is written
        claim = _single_claim(asked_for, "--plot" if plot is not None else "--set")
        claim.resolve_parameters(**given)
        if plot is not None:
            claim.plot(plot, **given)
    if check and proof:
        show(asked_for.solution(**given), as_json=as_json)
    if check:
        show(asked_for.check(**given), as_json=as_json)
    show(asked_for.proof(**given) if proof else asked_for, as_json=as_json)


def _mark_words(asked_for: Claim | QuestionSelection, file: str, *, as_json: bool) -> NoReturn:
    """Take an answer in words, ask its writer point by point whether each is there, and leave with the sum."""
    from regard.coursework.set_questions import QuestionSelection

    if not isinstance(asked_for, QuestionSelection):
        raise InputError("--words is about a question of a problem set, as in regard claims cse151b-hw4 1A.iv.")
    target = check_target(file, (".txt", ".md"))
    asked_for.write("?")  # refused before anybody has typed: several questions
    if not target.exists():
        note(encodable(readable(str(asked_for.questions[0].text))))
        note(f"{file} is not there: type your answer now, and end it with a blank line.")
        typed = "".join(iter(lambda: sys.stdin.readline().replace("\r", "").removesuffix("\n") + "\n", "\n"))
        write_file(target, asked_for.write(typed).text.encode() + b"\n")
    mine = asked_for.write(read_file(target, most=1_000_000).decode("utf-8-sig", errors="replace"))
    ticks, items = [], mine.checklist.items
    for number, item in enumerate(items, 1):
        said = f"{number} of {len(items)}: {readable(item.text)} ({item.worth})\n      {readable(item.key)}"
        note(encodable(f"{said}\n      Is that in your answer? [y/n]"))
        while (reply := (line := sys.stdin.readline()).strip().lower()[:1]) not in ("y", "n"):
            if not line:
                raise CouldNotFindOut(f"{file}: marked up to item {number - 1} of {len(items)}; answer y or n to each.")
        ticks += [number] * (reply == "y")
    show(mine.tick(*ticks), as_json=as_json)


def _show_derivation(
    claim: Claim, file: str | None, problem: str | None, gaps: int, hints: int, *, as_json: bool
) -> NoReturn:
    """Print a derivation with its marks, or a proof of ours with gaps, and leave."""
    if file is None:
        from regard.coursework.derivations.gaps import leave_gaps

        show(leave_gaps(claim.name, gaps), as_json=as_json)
    from regard.coursework.derivations.report import check_file

    report = check_file(claim.name, file, problem=problem, hints=hints)
    echo(report.to_json() if as_json else str(report))
    raise typer.Exit(report.exit_code)


def _find_claim(words: list[str], *, template: bool) -> tuple[Claim | QuestionSelection, str | None]:
    """What the words name, a claim or questions of a set, and with --template the file that they end with."""
    from regard.coursework.catalogue import claims as catalogue
    from regard.coursework.problem_sets import find_set, sets_beginning

    first, *rest = words
    if first not in catalogue and sets_beginning(first):
        file = rest.pop() if template and rest and rest[-1].endswith((".py", ".md", ".tex", ".txt", ".ipynb")) else None
        return catalogue.of(find_set(first).name, " ".join(rest) if rest else None), file
    file = rest.pop(0) if template and rest else None
    claim = catalogue.find(first)
    if rest:
        raise InputError(
            f"{rest[0][:40]!r} is one word too many: only the file for --template may follow a claim, and only "
            "a question may follow a problem set, as in regard claims cse151b-hw4 1B.ii."
        )
    return claim, file


def _single_claim(asked_for: Claim | QuestionSelection, option: str) -> Claim:
    """The one claim that an option is about."""
    from regard.coursework.set_questions import QuestionSelection

    checkable = option in ("--template", "--answer")
    return asked_for.only_claim(option, checkable=checkable) if isinstance(asked_for, QuestionSelection) else asked_for


def _show_all(check: bool, *, alone: bool, as_json: bool, details: bool) -> None:
    if not alone:
        raise InputError(
            "--proof, --plot and --set are about one claim, as are --template and --answer: name it, as in "
            "regard claims average-of-two."
        )
    if not (check or as_json):
        from regard.coursework.contents import format_contents, read_entries

        echo(encodable(format_contents(read_entries())))
        raise typer.Exit(0)
    from regard.coursework.catalogue import claims as catalogue

    listing = catalogue.check(progress=Progress("claims")) if check else catalogue.listing()
    show(listing, as_json=as_json, details=details)


def _answer_progress(answer: str, *, jail: bool) -> Callable[[int, int], None]:
    """Progress that says first, once it is so, that a person's own code is run."""
    progress = Progress("instances")

    def report(done: int, total: int) -> None:
        if done == 0:
            where = "in a jail" if jail else "with your rights: for a file that is not your own, add --jail"
            note(f"running the code of {printable(answer, lines=False)} in a process of its own, {where}.")
            return
        if done == 1:
            progress.start = time.monotonic()  # importing the file is no measure of the time left
        progress(done, total)

    return report


def _refuse_mixtures(template: bool, answer: str | None, *, others: bool, jail: bool) -> None:
    if template + (answer is not None) + others > 1:
        raise InputError("Give only one of --template, --answer and the verdicts (--check, --proof, --plot).")
    if jail and answer is None:
        raise InputError("--jail is for running an answer: give it together with --answer FILE.py:NAME.")


def _parameters(settings: list[str]) -> dict[str, Any]:
    """NAME=NUMBER pairs; the numbers are checked by the claim, which knows their ranges."""
    pairs = [setting.partition("=") for setting in settings]
    for (name, equals, value), setting in zip(pairs, settings, strict=True):
        if not name.strip().isidentifier() or not equals or not value.strip():
            raise InputError(f"--set {setting!r} must be a name and a number, as in --set n=1000.")
    return {name.strip(): value.strip() for name, _, value in pairs}
