"""An audit as one HTML page that opens offline: what failed first, then what is worth knowing, then all checks."""

from __future__ import annotations

from importlib import resources
from typing import TYPE_CHECKING

from regard.markup import Html, element, join
from regard_models.auditing.finding import Finding, Status

if TYPE_CHECKING:
    from regard_models.auditing import Audit

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
