"""An audit for machines and readers: JUnit for test runners, SARIF for code review, a baseline, and a page.

JUnit: one case for every check. SARIF 2.1.0: one result for every failure, at the line where the culprit's forward
begins. A baseline is a JSON file of failures that are known: they are reported and do not count, so that a legacy
model can be audited from today on and only what is new fails. The page opens offline: what failed first, then what is
worth knowing, then all checks.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as Xml

from regard.errors import InputError
from regard.files import read_file, write_file
from regard.markup import Html, element, join
from regard.strict_json import parse_json
from regard_models.auditing.finding import Finding, Status

if TYPE_CHECKING:
    from regard_models.auditing import Audit


_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS = {Status.FAILED: "error", Status.NOT_ASKED: "warning", Status.NOTE: "note"}


def junit(audited: Audit) -> str:
    """The audit as a JUnit file."""
    suite = Xml.Element(
        "testsuite",
        name=f"regard model audit {audited.name}",
        tests=str(len(audited.findings)),
        failures=str(len(audited.failures)),
        errors=str(len(audited.open_questions)),
        skipped=str(sum(_is_skipped(audited, f) for f in audited.findings)),
        time=f"{audited.seconds:.3f}",
    )
    for finding in audited.findings:
        case = Xml.SubElement(suite, "testcase", classname=finding.property, name=finding.check)
        if finding in audited.failures:
            failure = Xml.SubElement(case, "failure", message=finding.sentence)
            failure.text = _printable(str(finding))
        elif finding in audited.open_questions:
            Xml.SubElement(case, "error", message=finding.sentence)
        elif _is_skipped(audited, finding):
            Xml.SubElement(case, "skipped", message=finding.sentence)
        else:
            Xml.SubElement(case, "system-out").text = _printable(str(finding))
    Xml.indent(suite)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + Xml.tostring(suite, encoding="unicode") + "\n"


def sarif(audited: Audit) -> str:
    """Failures and notes as a SARIF file; known failures are marked as unchanged."""
    from regard import __version__

    loud = [f for f in audited.findings if f.status in _LEVELS]
    rules = sorted({f"{f.property}/{f.check}" for f in loud})
    driver = {
        "name": "regard",
        "version": __version__,
        "rules": [{"id": rule, "shortDescription": {"text": rule.replace("/", ", ")}} for rule in rules],
    }
    run = {"tool": {"driver": driver}, "results": [_result(audited, f) for f in loud]}
    return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=1) + "\n"


def read_baseline(path: str) -> tuple[str, ...]:
    """The keys of known failures in a file that ``--write-baseline`` wrote."""
    try:
        data = parse_json(read_file(path, most=2**24))
    except FileNotFoundError:
        raise InputError(f"There is no baseline {path}; write one with --write-baseline {path}.") from None
    except (ValueError, OSError) as error:
        raise InputError(f"{path} is no baseline ({error}); write one with --write-baseline {path}.") from None
    known = data.get("known") if isinstance(data, dict) else None
    if not isinstance(known, list) or not all(isinstance(key, str) for key in known):
        raise InputError(f'{path} is no baseline: it needs {{"known": [...]}}; write one with --write-baseline {path}.')
    return tuple(known)


def write_baseline(path: str, audited: Audit) -> None:
    """Name every failure of today as known, and every check that cannot be made."""
    keys = sorted({f.key() for f in audited.findings if f.status in (Status.FAILED, Status.NOT_ASKED)})
    write_text(path, json.dumps({"model": audited.name, "known": keys}, indent=1) + "\n")


def write_text(path: str, text: str) -> None:
    """A text file, whole or not at all."""
    write_file(path, text.encode("utf-8"))


def check_files(paths: Sequence[tuple[str | None, str]]) -> None:
    """Refuse a file that could not be written, before the work: (path, ending) for each."""
    for path, ending in paths:
        if path is None:
            continue
        target = Path(path)
        if target.suffix.lower() != ending:
            raise InputError(f"{path} must end in {ending}.")
        if target.is_dir() or not target.absolute().parent.is_dir():
            raise InputError(f"{path} cannot be written: give a file in a folder that exists.")


def _is_skipped(audited: Audit, finding: Finding) -> bool:
    known = finding.status in (Status.FAILED, Status.NOT_ASKED) and finding.key() in audited.known
    return known or finding.status is Status.NOT_APPLICABLE


def _result(audited: Audit, finding: Finding) -> dict[str, Any]:
    result: dict[str, Any] = {
        "ruleId": f"{finding.property}/{finding.check}",
        "level": _LEVELS[finding.status],
        "message": {"text": str(finding)},
        "partialFingerprints": {"key": finding.key()},
    }
    if finding.status is Status.FAILED:
        result["baselineState"] = "new" if finding in audited.failures else "unchanged"
    culprit = finding.culprit
    if culprit is not None and culprit.file is not None:
        where = {"artifactLocation": {"uri": Path(culprit.file).as_posix()}, "region": {"startLine": culprit.line}}
        result["locations"] = [
            {"physicalLocation": where, "logicalLocations": [{"fullyQualifiedName": culprit.module, "kind": "member"}]}
        ]
    return result


def _printable(text: str) -> str:
    """Without the characters that XML has no room for."""
    return "".join(c for c in text if c in "\t\n" or ord(c) >= 32)


_SIGNS = {Status.PASSED: "✓", Status.FAILED: "✗", Status.NOTE: "i", Status.NOT_ASKED: "?", Status.NOT_APPLICABLE: "–"}
_CLASSES = {
    Status.PASSED: "pass",
    Status.FAILED: "fail",
    Status.NOTE: "note",
    Status.NOT_ASKED: "note",
    Status.NOT_APPLICABLE: "none",
}


def audit_page(audited: Audit) -> str:
    """The page, styles inside, no script, no request."""
    style = (resources.files("regard_models.auditing") / "page.css").read_text(encoding="utf-8")
    failures = [f for f in audited.findings if f.status in (Status.FAILED, Status.NOT_ASKED)]
    verdict = f"{len(audited.failures)} failing checks" if audited.failures else "not all could be asked"
    verdict = "healthy, as far as was tested" if audited.answer else verdict
    parts = [
        '<!doctype html><html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"{element('title', f'Audit of {audited.name}')}<style>{style}</style></head><body><main>",
        element("h1", audited.name, ": ", element("span", verdict, class_="pass" if audited.answer else "fail")),
        element("p", _about(audited)),
        _headline(audited),
        _matrix(audited),
        *_fold([_card(f, known=f.key() in audited.known) for f in failures], folded=bool(audited.headline())),
        _table(audited),
        "<p class=soft>A pass is a search that found nothing, no proof. Rounding was measured: the result of every "
        "operation was disturbed by one unit of the last place, and only what moves 50 times more counts.</p>",
        "</main></body></html>\n",
    ]
    return "\n".join(parts)


def _headline(audited: Audit) -> str:
    said = audited.headline()
    return element("p", element("b", said), class_="fail") if said else ""


def _fold(cards: list[str], *, folded: bool) -> list[str]:
    """The cards, behind a line to click where one module explains them."""
    return [f"<details><summary>All {len(cards)}, one by one</summary>", *cards, "</details>"] if folded else cards


def _about(audited: Audit) -> str:
    sizes = f"{audited.batch} examples of {' and '.join(map(str, audited.lengths)) or 'one size of'} tokens"
    assumed = f" Assumed: {'; '.join(audited.assumed)}." if audited.assumed else ""
    return f"Tested in {audited.arithmetic}, {sizes}, in {audited.seconds:.1f} s.{assumed}"


def _matrix(audited: Audit) -> Html:
    """One tile for every property, the worst of its checks."""
    tiles = []
    for name in dict.fromkeys(f.property for f in audited.findings):
        of = audited.of(name)
        order = (Status.FAILED, Status.NOT_ASKED, Status.NOTE, Status.PASSED, Status.NOT_APPLICABLE)
        worst = next(s for s in order if any(f.status is s for f in of))
        passed = sum(f.status is Status.PASSED for f in of)
        count = f"{passed} of {len(of)} pass" if passed else str(worst)
        tile = element("b", f"{_SIGNS[worst]} {name}"), element("span", count)
        tiles.append(element("li", *tile, class_=_CLASSES[worst]))
    return element("ul", *tiles, class_="tiles")


def _card(finding: Finding, *, known: bool) -> Html:
    rows = [
        ("Where", str(finding.culprit) if finding.culprit is not None else ""),
        ("Smallest example", str(finding.example.get("words", "")) if finding.example else ""),
        ("Usual cause", finding.cause),
        ("Cure", finding.cure),
        ("Baseline", "known: it does not count" if known else ""),
    ]
    body = [join(element("dt", name), element("dd", text)) for name, text in rows if text]
    title = element("h2", f"{_SIGNS[finding.status]} {finding.property}, {finding.check}")
    kind = "card known" if known else "card"
    return element("section", title, element("p", finding.sentence), element("dl", *body), class_=kind)


def _table(audited: Audit) -> Html:
    columns = [
        ("", None),
        ("property", None),
        ("check", None),
        ("moved", "n"),
        ("rounding", "n"),
        ("what was found", None),
    ]
    head = element("tr", *(element("th", name, class_=kind) for name, kind in columns))
    table = element("table", element("thead", head), element("tbody", *map(_row, audited.findings)))
    return join(element("h2", "All checks"), element("div", table, class_="scroll"))


def _row(f: Finding) -> Html:
    return element(
        "tr",
        element("td", f"{_SIGNS[f.status]} {f.status}", class_=_CLASSES[f.status]),
        element("td", f.property),
        element("td", f.check),
        element("td", _number(f.size), class_="n"),
        element("td", _number(f.rounding), class_="n"),
        element("td", f.sentence),
    )


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.2g}"
