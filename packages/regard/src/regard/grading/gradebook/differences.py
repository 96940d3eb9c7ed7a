"""What changed between two gradings: who gained or lost points, and on which question."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from regard.grading.gradebook.marks import ClassMarks


def differences(before: Mapping[str, Any] | None, now: ClassMarks) -> Iterator[str]:
    """One line for each student whose points are not the same; nothing where there were no marks before."""
    if before is None:
        return
    old = {str(row.get("student")): row for row in before.get("rows", []) if isinstance(row, dict)}
    for row in now.rows:
        was = old.pop(row.student, None)
        if was is None:
            yield f"{row.student}: new, {row.points:g}"
            continue
        points = {one.get("question"): one.get("points") for one in was.get("questions", [])}
        moved = [
            f"{one.question}: {_number(points.get(one.question))} -> {one.points:g}"
            for one in row.questions
            if points.get(one.question) != one.points
        ]
        if moved or was.get("points") != row.points:
            detail = f" ({', '.join(moved)})" if moved else ""
            yield f"{row.student}: {_number(was.get('points'))} -> {row.points:g}{detail}"
    for student, gone in old.items():
        yield f"{student}: had {_number(gone.get('points'))}, is gone"


def _number(value: object) -> str:
    return f"{value:g}" if isinstance(value, (int, float)) else "nothing"
