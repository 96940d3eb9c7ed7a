"""One report about runs, comparisons and studies, as an HTML page or as a PDF.

The page asks nothing of the network: pictures are SVG text, styles are inside, there is no script. The PDF is set from
the same page (:mod:`regard.translator.reports.pdf`), so both say the same. It may import every other room of the
translator. Begin with :func:`report` below; ``run_sections.py`` and its neighbours have the parts of the page.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Any

from regard import __version__
from regard.errors import InputError
from regard.extras import require
from regard.files import write_file
from regard.markup import Html, element, join
from regard.progress import Notify, ignore
from regard.results import Result
from regard.translator.data.corpus import Corpus
from regard.translator.models.own_translator import OwnCode
from regard.translator.models.run import load_run
from regard.translator.reports import pieces
from regard.translator.reports.run_sections import (
    ScoredRun,
    comparison_paragraph,
    run_section,
    run_sentence,
    study_sentence,
)
from regard.translator.reports.study_sections import comparison_section, study_section
from regard.translator.runs.files import RUN, run_folder
from regard.translator.runs.records import Record, check_comparable, read_record
from regard.translator.runs.settings import Settings
from regard.translator.scoring.scores import score
from regard.translator.studies.comparison import bootstrap_of, check_same_data, evaluation_pairs, group_by_seed
from regard.translator.studies.comparison_record import PLAN, comparison_results, read_comparison, summarise
from regard.translator.studies.search_record import STUDY, read_study
from regard.translator.training.preparation import load_data

FORMATS = ("html", "pdf")
TITLE = "Translator report"
_IN_FULL = 6  # more plain runs than these get a row in the table, not a section each


@dataclass(frozen=True, kw_only=True, eq=False)
class Report(Result):
    """What :func:`report` wrote."""

    page: str
    size: int
    runs: list[str]
    comparisons: list[str]
    studies: list[str]
    notes: list[str]

    def __str__(self) -> str:
        counts = [(len(self.runs), "run"), (len(self.comparisons), "comparison"), (len(self.studies), "study")]
        named = [f"{n} {w}{'' if n == 1 else 's'}".replace("studys", "studies") for n, w in counts if n]
        return "\n".join([f"{self.page}: {', '.join(named)}, {self.size / 1000:,.0f} kB, one file.", *self.notes])


def report(
    folders: Sequence[str | Path],
    out: str | Path,
    *,
    replace: bool = False,
    say: Notify | None = None,
    command: str = "",
    own: OwnCode | None = None,
    format: str | None = None,
    title: str = TITLE,
    author: str = "",
) -> Report:
    """Write one report about ``folders`` (of runs, comparisons, studies) to the file ``out``.

    Its ``format`` is html or pdf; left out, the ending of ``out`` says which. The PDF needs typst.

    Runs of the same data and vocabulary are compared too; where they are not, the page says why. A page that is
    there already is kept, unless ``replace``. Runs of somebody's ``own`` model open with its code.
    """
    out = Path(out)
    format = checked_format(out, format)
    if out.exists() and not replace:
        raise InputError(f"{out} is there already; give another --out, or --replace to write over it.")
    if out.is_dir() or not out.parent.is_dir():
        raise InputError(f"{out} cannot be written: give a file in a folder that exists.")
    kinds = _folders_by_kind(folders)
    page = _Page(say or ignore, command, own, title=title, author=author)
    for folder in kinds["study"]:
        page.study(folder)
    for folder in kinds["comparison"]:
        page.comparison(folder)
    page.runs([read_record(folder) for folder in kinds["run"]])
    made = page.html().encode()
    if format == "pdf":
        page.say("Typesetting the PDF")
        made = page.pdf()
    write_file(out, made)
    return Report(
        page=str(out),
        size=len(made),
        runs=[str(f) for f in kinds["run"]],
        comparisons=[str(f) for f in kinds["comparison"]],
        studies=[str(f) for f in kinds["study"]],
        notes=page.notes,
    )


def checked_format(out: Path, format: str | None) -> str:
    """The format of a report, from what was asked for and from the name of its file; they must agree."""
    ending = {"htm": "html"}.get(suffix := out.suffix.lower().removeprefix("."), suffix)
    chosen = format if format is not None else (ending if ending in FORMATS else "html")
    if chosen not in FORMATS:
        raise InputError(f"A report is {' or '.join(FORMATS)}, not {chosen!r}; give --format html or --format pdf.")
    if ending in FORMATS and ending != chosen:
        raise InputError(f"{out} ends like {ending}, and the format is {chosen}; give another --out or --format.")
    if chosen == "pdf":
        require("A report as PDF", "typst", "matplotlib", extra="reports")
    return chosen


class _Page:
    """The sections so far, and the corpora they needed."""

    def __init__(self, say: Notify, command: str, own: OwnCode | None = None, *, title: str, author: str) -> None:
        self.say, self.command, self.own = say, command, own
        self.title, self.author = title, author
        self.sections: list[Html] = []
        self.contents: list[tuple[str, str]] = []
        self.conclusions: list[str] = []  # what the reader came for, at the head of the page
        self.notes: list[str] = []
        self.corpora: dict[Any, Corpus] = {}

    def study(self, folder: Path) -> None:
        self.say(f"reading the study {folder}")
        study = read_study(folder)
        self.conclusions.append(study_sentence(study))
        self._add(f"Search {folder}", study_section(study))
        if study.confirmation is not None:
            self.comparison(folder / "confirm", title=f"Default beside best of {folder}, in detail", numbers=False)

    def comparison(self, folder: Path, title: str = "", *, numbers: bool = True) -> None:
        self.say(f"reading the comparison {folder}")
        comparison, results = read_comparison(folder), comparison_results(folder)
        pairs, why_not = None, ""
        try:
            record = next(iter(results.values()))[0][0]
            pairs = evaluation_pairs(self._corpus(record))[0]
        except InputError as error:
            why_not = str(error)
            self.notes.append(f"{folder}: no translations shown. {error}")
        self.conclusions.append(comparison_paragraph(comparison))
        section = comparison_section(comparison, results, pairs, why_not, numbers=numbers)
        self._add(title or f"Comparison {folder}", section)

    def runs(self, records: Sequence[Record]) -> None:
        scored = [self._score_run(record) for record in records]
        if len(records) > 1:
            self._compare_runs(scored)
        self.conclusions += map(run_sentence, scored[:_IN_FULL])
        for run in scored[:_IN_FULL]:
            self._add(f"Run {run.record.folder}", run_section(run), title=f"Run {run.record.name}")
        if len(scored) > _IN_FULL:
            self.notes.append(
                f"{len(scored) - _IN_FULL} of {len(scored)} runs are in the table only; give fewer for more."
            )

    def html(self) -> Html:
        style = (resources.files("regard.translator.reports") / "style.css").read_text(encoding="utf-8")
        links = [element("li", element("a", name, href=f"#{anchor}")) for anchor, name in self.contents]
        # said once: a study's confirmation concludes the same as its comparison
        concluded = dict.fromkeys(filter(None, self.conclusions))
        main = element(
            "main",
            element("h1", self.title),
            pieces.paragraph(self.author, "lead") if self.author else None,
            *(pieces.paragraph(said, "conclusion") for said in concluded),
            element("nav", element("ul", *links)) if len(links) > 1 else None,
            *(pieces.paragraph(note, "warn") for note in self.notes),
            *self.sections,
        )
        made = f"Made by regard {__version__}" + (f" with: {self.command}" if self.command else "")
        head = element(
            "head",
            element("meta", charset="utf-8"),
            element("meta", name="viewport", content="width=device-width, initial-scale=1"),
            element("meta", name="color-scheme", content="light dark"),
            element("title", self.title),
            element("style", Html(style)),
        )
        body = element("body", main, element("footer", made))
        return Html(f"<!doctype html>{element('html', head, body, lang='en')}\n")

    def pdf(self) -> bytes:
        """The page as sheets, with a note about characters that no font has."""
        from regard.translator.reports.pdf import report_pdf  # typst and matplotlib, which a page does without

        made, notes = report_pdf(self.html(), title=self.title, author=self.author)
        if notes:
            self.notes += notes
            made, _ = report_pdf(self.html(), title=self.title, author=self.author)  # with the note on its first sheet
        return made

    def _compare_runs(self, scored: Sequence[ScoredRun]) -> None:
        """A comparison of plain runs, where one is possible; a table and the reason where it is not."""
        records = [s.record for s in scored]
        try:
            check_comparable(records)
            groups = group_by_seed(records)
            if any(s.scores is None for s in scored):
                raise InputError("Not every run could be scored, so the runs are not compared.")
            by_folder = {s.record.folder: s for s in scored}
            results = {name: [(r, by_folder[r.folder].scores or {}) for r in group] for name, group in groups.items()}
            seeds = sorted({r.settings.training.seed for r in records})
            pairs, lowercase = scored[0].pairs, records[0].settings.vocabulary.lowercase
            comparison = summarise(results, seeds, folder="", scored_on=scored[0].scored_on, notes=[])
            if pairs is not None:
                self.say("drawing test sentences anew")
                comparison = replace(comparison, bootstrap=bootstrap_of(results, pairs, lowercase=lowercase))
            self.conclusions.append(comparison_paragraph(comparison))
            self._add("All runs", comparison_section(comparison, results, pairs, ""))
        except InputError as error:
            self._add("All runs", _listing(scored, str(error)))

    def _score_run(self, record: Record) -> ScoredRun:
        _ = record.best  # a run without an epoch has nothing to show
        self.say(f"scoring {record.folder}")
        run = load_run(record.folder, own=self.own)  # a damaged run is refused; data that has moved is only noted
        try:
            pairs, scored_on = evaluation_pairs(self._corpus(record))
        except InputError as error:
            self.notes.append(f"{record.folder}: not scored. {error}")
            return ScoredRun(record=record, scores=None, pairs=None, scored_on="", why_not=str(error))
        scores = score(run, pairs).to_dict()
        return ScoredRun(record=record, scores=scores, pairs=pairs, scored_on=scored_on)

    def _corpus(self, record: Record) -> Corpus:
        settings = Settings(data=record.settings.data)
        if settings not in self.corpora:
            self.corpora[settings] = load_data(settings)
        check_same_data(record, self.corpora[settings])
        return self.corpora[settings]

    def _add(self, name: str, section: Html, *, title: str = "") -> None:
        """A section under its title; in the contents it has its whole name."""
        anchor = f"part{len(self.contents)}"
        heading = element("h2", title or name, id=anchor, class_=None if self.sections else "first")
        self.contents.append((anchor, name))
        self.sections.append(join(heading, section))


def _folders_by_kind(folders: Sequence[str | Path]) -> dict[str, list[Path]]:
    """The folders by what they are."""
    if not folders:
        raise InputError("There is nothing to report on; give folders that train, compare or tune wrote.")
    kinds: dict[str, list[Path]] = {"run": [], "comparison": [], "study": []}
    for folder in map(run_folder, folders):
        if not folder.exists():
            raise InputError(f"There is no {folder}; give folders that train, compare or tune wrote.")
        files = {RUN: "run", PLAN: "comparison", STUDY: "study"}
        kind = next((kind for name, kind in files.items() if (folder / name).exists()), None)
        if kind is None:
            state = "is empty" if folder.is_dir() and not any(folder.iterdir()) else "is not a folder of ours"
            raise InputError(f"{folder} {state}; give folders that train, compare or tune wrote.")
        kinds[kind].append(folder)
    return kinds


def _listing(scored: Sequence[ScoredRun], reason: str) -> Html:
    rows = [
        [str(s.record.folder), f"{s.record.best.perplexity:.2f}",
         "-" if s.scores is None else f"{s.scores['all']['bleu']:.1f}", f"{s.record.about.get('parameters', 0):,}"]
        for s in scored
    ]  # fmt: skip
    return join(
        pieces.paragraph(f"Not compared: {reason}", "warn"),
        pieces.table(["run", "best validation perplexity", "BLEU", "weights"], rows),
    )
