"""An audit as one HTML page that opens offline: what failed first, then what is worth knowing, then all checks."""

from __future__ import annotations

import html
from importlib import resources
from typing import TYPE_CHECKING

from regard_models.auditing.finding import Finding, Status

if TYPE_CHECKING:
    from regard_models.auditing import Audit

_SIGNS = {Status.PASSED: "✓", Status.FAILED: "✗", Status.NOTE: "i", Status.NOT_APPLICABLE: "–"}
_CLASSES = {Status.PASSED: "pass", Status.FAILED: "fail", Status.NOTE: "note", Status.NOT_APPLICABLE: "none"}


def audit_page(audited: Audit) -> str:
    """The page, styles inside, no script, no request."""
    style = (resources.files("regard_models.auditing") / "page.css").read_text(encoding="utf-8")
    failures = [f for f in audited.findings if f.status is Status.FAILED]
    verdict = "healthy, as far as was tested" if audited.answer else f"{len(audited.failures)} failing checks"
    parts = [
        '<!doctype html><html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>Audit of {html.escape(audited.name)}</title><style>{style}</style></head><body><main>",
        f'<h1>{html.escape(audited.name)}: <span class="{"pass" if audited.answer else "fail"}">{verdict}</span></h1>',
        f"<p>{html.escape(_about(audited))}</p>",
        _matrix(audited),
        *(_card(f, known=f.key() in audited.known) for f in failures),
        _table(audited),
        "<p class=soft>A pass is a search that found nothing, no proof. Rounding was measured: the result of every "
        "operation was disturbed by one unit of the last place, and only what moves 50 times more counts.</p>",
        "</main></body></html>\n",
    ]
    return "\n".join(parts)


def _about(audited: Audit) -> str:
    sizes = f"{audited.batch} examples of {' and '.join(map(str, audited.lengths)) or 'one size of'} tokens"
    assumed = f" Assumed: {'; '.join(audited.assumed)}." if audited.assumed else ""
    return f"Tested in {audited.arithmetic}, {sizes}, in {audited.seconds:.1f} s.{assumed}"


def _matrix(audited: Audit) -> str:
    """One tile for every property, the worst of its checks."""
    tiles = []
    for name in dict.fromkeys(f.property for f in audited.findings):
        of = audited.of(name)
        order = (Status.FAILED, Status.NOTE, Status.PASSED, Status.NOT_APPLICABLE)
        worst = next(s for s in order if any(f.status is s for f in of))
        passed = sum(f.status is Status.PASSED for f in of)
        count = f"{passed} of {len(of)} pass" if passed else str(worst)
        tiles.append(f'<li class="{_CLASSES[worst]}"><b>{_SIGNS[worst]} {name}</b><span>{count}</span></li>')
    return f"<ul class=tiles>{''.join(tiles)}</ul>"


def _card(finding: Finding, *, known: bool) -> str:
    rows = [
        ("Where", str(finding.culprit) if finding.culprit is not None else ""),
        ("Smallest example", str(finding.example.get("words", "")) if finding.example else ""),
        ("Usual cause", finding.cause),
        ("Cure", finding.cure),
        ("Baseline", "known: it does not count" if known else ""),
    ]
    body = "".join(f"<dt>{name}</dt><dd>{html.escape(text)}</dd>" for name, text in rows if text)
    title = f"{finding.property}, {finding.check}"
    return (
        f'<section class="card{" known" if known else ""}"><h2>✗ {html.escape(title)}</h2>'
        f"<p>{html.escape(finding.sentence)}</p><dl>{body}</dl></section>"
    )


def _table(audited: Audit) -> str:
    rows = "".join(
        f'<tr><td class="{_CLASSES[f.status]}">{_SIGNS[f.status]} {f.status}</td><td>{f.property}</td>'
        f"<td>{html.escape(f.check)}</td><td class=n>{_number(f.size)}</td><td class=n>{_number(f.rounding)}</td>"
        f"<td>{html.escape(f.sentence)}</td></tr>"
        for f in audited.findings
    )
    head = (
        "<th></th><th>property</th><th>check</th><th class=n>moved</th><th class=n>rounding</th><th>what was found</th>"
    )
    return (
        f"<h2>All checks</h2><div class=scroll><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.2g}"
