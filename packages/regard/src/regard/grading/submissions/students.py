"""The list of students, a CSV file: who they are, their groups, their extensions, and when they handed in.

Columns: ``id`` (needed), ``name``, ``email``, ``group``, ``extension`` (as in "2 days", "36 hours", or a date with
time and zone), ``submitted`` (a date with time and zone). Other columns are left alone; they come from course
systems.
"""

from __future__ import annotations

import csv
import io
import os
import re
import unicodedata
from dataclasses import dataclass
from datetime import datetime, timedelta

from regard.errors import InputError
from regard.files import read_file
from regard.sandbox.lines import clean

MOST_ID = 100
MOST_EXTENSION = timedelta(days=3660)


@dataclass(frozen=True, kw_only=True)
class Student:
    """One row of the list."""

    id: str
    name: str = ""
    email: str = ""
    group: str = ""
    extension: timedelta | datetime | None = None
    submitted: datetime | None = None

    def due(self, deadline: datetime | None) -> datetime | None:
        """The deadline of this student."""
        if deadline is None or self.extension is None:
            return deadline
        return self.extension if isinstance(self.extension, datetime) else deadline + self.extension


def identity(text: str) -> str:
    """What two IDs are compared by: without case, invisible characters and other ways to write the same.

    >>> identity(" ADA\\u200b "), identity("ﬁona") == identity("fiona")
    ('ada', True)
    """
    return clean(unicodedata.normalize("NFKC", text), most=MOST_ID).strip().casefold()


def display_text(text: str) -> str:
    """An ID or a name, fit to be shown: one line, nothing invisible."""
    return clean(text, most=MOST_ID).strip()


def read_students(path: str | os.PathLike[str]) -> dict[str, Student]:
    """The list by identity; InputError names the row."""
    try:
        text = read_file(path, most=20_000_000).decode("utf-8-sig")  # spreadsheets begin with a byte-order mark
    except FileNotFoundError:
        raise InputError(f"{path}: there is no such file; a list of students is a CSV file with a column id.") from None
    except UnicodeDecodeError:
        raise InputError(f"{path} is not UTF-8; save it as CSV in UTF-8.") from None
    head = text.partition("\n")[0]
    separator = max(",;\t", key=head.count)  # spreadsheets write semicolons where the decimal sign is a comma
    rows = csv.DictReader(io.StringIO(text), delimiter=separator)
    columns = {(name or "").strip().casefold(): name for name in rows.fieldnames or ()}
    if "id" not in columns:
        raise InputError(f"{path} has no column id; its first line names the columns, as in id,name,group.")
    listed: dict[str, Student] = {}
    try:
        for number, row in enumerate(rows, 2):  # line 1 names the columns
            student = _student(
                {key: (row.get(name) or "").strip() for key, name in columns.items()}, f"{path}, line {number}"
            )
            if student is None:
                continue
            if identity(student.id) in listed:
                raise InputError(f"{path}, line {number}: {student.id!r} is there twice; each student has one row.")
            listed[identity(student.id)] = student
    except csv.Error as error:
        raise InputError(f"{path} is no CSV file that can be read: {error}.") from None
    return listed


def _student(row: dict[str, str], where: str) -> Student | None:
    if not row["id"]:
        return None
    return Student(
        id=display_text(row["id"]),
        name=display_text(row.get("name", "")),
        email=display_text(row.get("email", "")),
        group=display_text(row.get("group", "")),
        extension=_extension(row.get("extension", ""), where),
        submitted=moment(row["submitted"], f"{where}, submitted") if row.get("submitted") else None,
    )


def _extension(text: str, where: str) -> timedelta | datetime | None:
    if not text:
        return None
    duration = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*(d|days?|h|hours?|min|minutes?)", text)
    if duration:
        unit = {"d": timedelta(days=1), "h": timedelta(hours=1), "m": timedelta(minutes=1)}[duration[2][0]]
        if float(duration[1]) > MOST_EXTENSION / unit:
            raise InputError(f"{where}, extension must be at most {MOST_EXTENSION.days} days; {text[:40]!r} is more.")
        return float(duration[1]) * unit
    return moment(text, f"{where}, extension", also="2 days, 36 hours, or ")


def moment(text: str, where: str, *, also: str = "") -> datetime:
    """A date with time and zone."""
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        when = None
    if when is None or when.tzinfo is None:
        raise InputError(
            f"{where} must be {also}a date with time and zone, as in 2026-11-20T23:59+01:00; {text[:40]!r} is not."
        )
    return when
