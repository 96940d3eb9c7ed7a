"""What was handed in, and by whom: a folder, a zip file of a course system, single files.

Nothing is unpacked onto the disk and no link is followed. Who a submission belongs to is said by the course system,
in the name of the folder or file that it makes; what a student writes into a file cannot change it. Two submissions
that claim to be the same student's are both put aside, and the teacher is told: none of them takes the other's
place. So are the largest ones where all together are too large: a large one costs nobody else anything.
"""

from __future__ import annotations

import hashlib
import os
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

from regard.errors import InputError
from regard.files import read_file
from regard.grading.submissions.archives import (
    ALONE,
    WEIGHTS,
    Entry,
    entries,
    is_hand_in,
    is_hidden,
    make_entry,
    size_limit,
)
from regard.grading.submissions.notebooks import Code, code_of, defined_names
from regard.grading.submissions.students import Student, display_text, identity, moment

MOST_FILES = 200  # of one submission
MOST_OWN = 100_000_000  # bytes of one submission
MOST_TOTAL = 4_000_000_000  # of all of them
CANVAS = re.compile(r"^(?P<name>[^_]+)_(?P<late>LATE_)?(?P<id>\d+)_(?P<submission>\d+)_(?P<file>.+)$", re.DOTALL)
YOURS = "Your answer to "  # in a template: by this the words are found, in comments and in cells of text
MOODLE = re.compile(r"^(?P<name>.+)_(?P<id>\d+)_assignsubmission_(file|onlinetext)_?$", re.DOTALL)
GRADESCOPE = "submission_metadata.yml"
ALL = "all files"


@dataclass(frozen=True, kw_only=True, eq=False)
class Submission:
    """The files of one student, or of one group."""

    student: str  # as it is shown
    name: str = ""
    files: tuple[Entry, ...] = ()
    submitted: datetime | None = None
    problems: tuple[str, ...] = ()
    unread: str = ""  # why its code could not be read
    refused: str = ""  # why nothing of it is graded
    _names: dict[bytes, frozenset[str]] = field(default_factory=dict, init=False, repr=False)  # found so far
    _codes: dict[str, tuple[str, bytes, Code | None] | None] = field(default_factory=dict, init=False, repr=False)

    @property
    def identity(self) -> str:
        return identity(self.student)

    @cached_property
    def size(self) -> int:
        """Bytes."""
        return sum(len(entry.data) for entry in self.files)

    @cached_property
    def digest(self) -> str:
        """Which files these are."""
        digest = hashlib.sha256()
        for entry in sorted(self.files, key=lambda e: e.parts):
            for part in ("/".join(entry.parts).encode("utf-8", "surrogatepass"), entry.data):
                digest.update(len(part).to_bytes(8) + part)
        return digest.hexdigest()[:24]

    def code(self, function: str) -> tuple[str, bytes, Code | None] | None:
        """The file that defines this function: its name, its text, and the notebook behind it; None without any."""
        if function not in self._codes:
            self._codes[function] = self._code(function)
        return self._codes[function]

    def _code(self, function: str) -> tuple[str, bytes, Code | None] | None:
        programs = [
            entry for entry in self.files if entry.name.lower().endswith((".py", ".ipynb")) and not entry.problem
        ]
        fallback: tuple[str, bytes, Code | None] | None = None
        answer: tuple[str, bytes, Code | None]
        for entry in sorted(programs, key=lambda e: (len(e.parts), e.parts)):
            if entry.name.lower().endswith(".ipynb"):
                try:
                    book = code_of(entry.data, wanted=(function,))
                except InputError:
                    continue
                there, answer = function in book.names, (f"{stem(entry.name)}.ipynb.py", book.source, book)
            else:
                there, answer = (
                    function in self.defined_names_of(entry.data),
                    (f"{stem(entry.name)}.py", entry.data, None),
                )
            if there:
                return answer
            fallback = (
                fallback or answer
            )  # a name that is made otherwise, or a file that cannot be parsed: Python says it
        return fallback

    def defined_names_of(self, data: bytes) -> frozenset[str]:
        """The names that a file defines; each is looked through once."""
        if data not in self._names:
            self._names[data] = frozenset(defined_names(data))
        return self._names[data]

    def missing_code_reason(self) -> str:
        """Why there is nothing to run: what is wrong with its first notebook, if that is what there is."""
        for entry in sorted(self.files, key=lambda e: (len(e.parts), e.parts)):
            if entry.name.lower().endswith(".ipynb"):
                try:
                    code_of(entry.data)
                except InputError as error:
                    return f"{stem(entry.name)}.ipynb: {error}"
        why = f" ({self.unread})" if self.unread else ""
        return f"there is no Python file and no notebook in it that can be read{why}"

    def weights(self, name: str) -> bytes | None:
        """The file of weights of this name, or the only one that there is; None without it."""
        files = [entry for entry in self.files if entry.name.lower().endswith(WEIGHTS) and not entry.problem]
        named = [entry for entry in files if entry.name == name]
        return next((entry.data for entry in named or files[: len(files) == 1]), None)

    def written_pdf(self) -> Entry | None:
        """The PDF that was handed in: written.pdf, or the first that there is."""
        files = [entry for entry in self.files if entry.name.lower().endswith(".pdf") and not entry.problem]
        return min(files, key=lambda e: (e.name.lower() != "written.pdf", len(e.parts), e.parts), default=None)

    def texts(self) -> list[str]:
        """What was written in words: text files, the text cells of notebooks, and the comments of a filled-in .py."""
        words: list[str] = []
        for entry in sorted(self.files, key=lambda e: e.parts):
            if entry.name.lower().endswith((".md", ".txt", ".tex")):
                words.append(entry.data.decode("utf-8", errors="replace"))
            elif entry.name.lower().endswith(".py"):
                words += comments(entry.data.decode("utf-8", errors="replace"))
            elif entry.name.lower().endswith(".ipynb"):
                try:
                    words.append("\n\n".join(code_of(entry.data).written))
                except InputError:
                    continue
        return words

    def words(self, question: str, all_questions: Sequence[str], *, else_everything: bool = True) -> str:
        """What was written on a question: from the heading that names it to the next; else all words, or none.

        Where a file has the template's line for an answer, what stands there counts, and not the question above it.
        """
        ids = [re.escape(one) for one in all_questions]
        # a number alone may begin a line of any list: it is a heading only where it is marked as one
        bare = "|".join([id for id in ids if not id.isdecimal()] or ["(?!)"])
        marked_as = rf"[ \t]*(?:#+[ \t]*|(?P<yours>{YOURS}))(?P<id>{'|'.join(ids)})"
        heading = re.compile(rf"(?m)^(?:{marked_as}|[ \t]*(?P<bare>{bare}))(?=[\s:.()]|$)")
        found: list[str] = []
        free: list[str] = []  # texts without any heading
        for text in self.texts():
            places = list(heading.finditer(text))
            ends = [*(place.start() for place in places[1:]), len(text)]
            here = [(p, e) for p, e in zip(places, ends, strict=False) if (p["id"] or p["bare"]) == question]
            theirs = [one for one in here if one[0]["yours"]] or here
            found += [text[place.end() : end].removeprefix(":").strip() for place, end in theirs]
            free += [] if places else [text]
        said = "\n".join(one for one in found if one)
        return said or ("\n\n".join(free).strip() if else_everything else "")


def comments(text: str) -> list[str]:
    """The lines of comment of a program, where one of them says that an answer in words follows.

    >>> comments("x = 1\\n# Your answer to 4:\\n# because"), comments("# x")
    (['Your answer to 4:\\nbecause'], [])
    """
    lines = [line.lstrip()[1:].removeprefix(" ") for line in text.splitlines() if line.lstrip().startswith("#")]
    return ["\n".join(lines)] if any(line.startswith(YOURS) for line in lines) else []


def stem(name: str) -> str:
    """A file's name without its ending, as plain words: it is shown, and it may become the name of a module."""
    return re.sub(r"[^A-Za-z0-9_-]+", "_", name.rpartition(".")[0])[:60] or "answers"


def read_own_files(folder: Path) -> Submission:
    """The files of one folder that are graded, as one submission; archives in it are left out, not opened."""
    if not folder.is_dir():
        raise InputError(f"{folder} is no folder; give the one that holds what you hand in.")
    found = [entry.read() for entry in _walk_folder(folder) if not entry.name.lower().endswith((".zip", ".yml"))]
    problems = tuple(f"{'/'.join(one.parts)}: {one.problem}" for one in found if one.problem)
    return Submission(student="you", files=tuple(one for one in found if not one.problem), problems=problems)


def read_submissions(
    paths: list[str],
    *,
    times_of_files: bool = False,
    students: Mapping[str, Student] | None = None,
    one_student: bool = False,
) -> list[Submission]:
    """Every submission of these folders, archives and files, in the order of their IDs.

    ``students`` tells a single student's folder or zip from one around all of them; with ``one_student`` a zip is
    always a student's, as one that ``regard assignment hand-in`` has made.
    """
    everybody = (students or {}).values()
    listed = frozenset(identity(name) for one in everybody for name in (one.id, one.email, one.group) if name)
    return reject_duplicates(_limit_total_size(_read(paths, listed, times_of_files, one_student)))


def _read(paths: list[str], listed: frozenset[str], times_of_files: bool, one_student: bool) -> Iterator[Submission]:
    given = [*map(Path, paths)]
    own = _folders_of_students(given, listed)
    for path in given:
        if not path.exists():
            what = "leads nowhere" if path.is_symlink() else "does not exist"
            raise InputError(f"{path} {what}; give a folder of submissions, a zip file, or files.")
        if path.is_dir():
            from_here = path.parent if path in own else path  # then the folder's name is the student's
            inside = [
                replace(one, parts=(*path.relative_to(from_here).parts, *one.parts)) for one in _walk_folder(path)
            ]
            yield from group_by_student(inside, listed, times=_times(from_here) if times_of_files else None)
        elif path.suffix.lower() == ".zip" and not (
            one_student or identity(_owner((path.name,))[0]) in listed or is_hand_in(str(path))
        ):
            with entries(str(path), said=str(path)) as handed_in:
                yield from group_by_student(handed_in, listed)
        elif path.suffix.lower() in (".py", ".ipynb", ".pdf", ".zip"):
            yield from group_by_student(
                [_entry(path, (path.name,))], listed, times=_times(path.parent) if times_of_files else None
            )
        else:
            raise InputError(f"{path} is no .py, .ipynb, .pdf or .zip file; give a folder, a zip file, or files.")


def _folders_of_students(paths: list[Path], listed: frozenset[str]) -> list[Path]:
    """Folders that all hold a file of one name, as hw.py, which is no student's: each folder is a student's."""
    tops = [{file.name for file in one.iterdir() if file.name.lower().endswith(ALONE)} for one in paths if one.is_dir()]
    common = {name for name in set[str]().union(*tops) if all(name in names for names in tops)}
    students = len(tops) > 1 and any(identity(name.rpartition(".")[0]) not in listed for name in common)
    return [one for one in paths if students and one.is_dir()]


def _limit_total_size(submissions: Iterator[Submission]) -> list[Submission]:
    """As many as can be held at once: where it is too much, the largest are put aside, and the teacher is told."""
    kept: list[Submission] = []
    total = 0
    for one in submissions:
        kept.append(one)
        total += one.size
        while total > MOST_TOTAL:
            at = max(range(len(kept)), key=lambda place: kept[place].size)
            total -= kept[at].size
            said = f"all submissions together have more than {MOST_TOTAL:,} bytes, and this one is among the largest"
            kept[at] = replace(kept[at], files=(), refused=f"{said} ({kept[at].size:,}); grade it by itself.")
    return kept


def _walk_folder(folder: Path) -> Iterator[Entry]:
    """The files below a folder; links and devices are named, never opened."""
    for place, folders, names in os.walk(folder, followlinks=False):
        folders.sort()
        for name in sorted([*names, *(one for one in folders if os.path.islink(os.path.join(place, one)))]):
            path = Path(place, name)
            parts = path.relative_to(folder).parts
            if is_hidden(parts):
                continue
            if path.is_symlink():
                yield Entry(parts=parts, problem="a link, which is not followed")
            else:
                yield _entry(path, parts)


def _entry(path: Path, parts: tuple[str, ...]) -> Entry:
    def source() -> bytes:
        try:
            return read_file(path, most=size_limit(path.name))
        except InputError as error:  # the names of the teacher's folders are not for students
            raise InputError(str(error).removeprefix(f"{path} ").partition(";")[0]) from None

    try:
        return make_entry(parts, path.lstat().st_size, source)
    except OSError as error:
        return Entry(parts=parts, problem=f"cannot be read ({error.strerror})")


def _times(folder: Path) -> dict[tuple[str, ...], datetime]:
    return {
        path.relative_to(folder).parts: datetime.fromtimestamp(path.lstat().st_mtime, tz=UTC)
        for path in folder.rglob("*")
    }


def group_by_student(
    handed_in: list[Entry], listed: frozenset[str], *, times: Mapping[tuple[str, ...], datetime] | None = None
) -> Iterator[Submission]:
    """Files by student; ``listed`` are the identities on the list of students."""
    while _has_one_wrapper(handed_in, listed):
        handed_in = [replace(entry, parts=entry.parts[1:]) for entry in handed_in]
    said = _gradescope_owners(handed_in)
    owners: dict[str, list[Entry]] = {}
    names: dict[str, str] = {}
    for entry in handed_in:
        if entry.parts == (GRADESCOPE,) or (len(entry.parts) == 1 and not entry.name.lower().endswith(ALONE)):
            continue  # a file of the system, or a note of the teacher
        owner, name, parts = _owner(entry.parts)
        owners.setdefault(owner, []).append(replace(entry, parts=parts))
        names[owner] = name
    for owner, files in sorted(owners.items()):
        yield _submission(owner, names[owner], files, said.get(owner), times)


def _has_one_wrapper(handed_in: list[Entry], listed: frozenset[str]) -> bool:
    """Whether one folder is around all of them, and is not one student's."""
    tops = {entry.parts[0] for entry in handed_in}
    if len(tops) != 1 or not all(len(entry.parts) > 1 for entry in handed_in):
        return False
    (top,) = tops
    if MOODLE.match(top) or identity(top) in listed:
        return False
    return any(len(entry.parts) > 2 or CANVAS.match(entry.parts[1]) for entry in handed_in)


def _owner(parts: tuple[str, ...]) -> tuple[str, str, tuple[str, ...]]:
    """ID, name, and the rest of the path, as the course systems write them."""
    if len(parts) == 1 and (match := CANVAS.match(parts[0])):
        return match["id"], match["name"], (match["file"],)
    if len(parts) > 1 and (match := MOODLE.match(parts[0])):
        return match["id"], match["name"], parts[1:]
    if len(parts) > 1:
        return parts[0], "", parts[1:]
    return parts[0].rpartition(".")[0] or parts[0], "", parts


def _submission(
    owner: str,
    name: str,
    files: list[Entry],
    said: tuple[str, str, datetime | None] | None,
    times: Mapping[tuple[str, ...], datetime] | None,
) -> Submission:
    opened = _open_files(files)
    kept = tuple(one for one in opened if not one.problem)
    problems = [f"{display_text('/'.join(one.parts))}: {one.problem}" for one in opened if one.problem]
    unread = [one for one in opened if one.problem and one.name.lower().endswith((".py", ".ipynb", ".zip", ALL))]
    when = said[2] if said else None
    if times is not None and when is None:
        when = max(
            (time for parts, time in times.items() if parts and parts[0] in (owner, files[0].parts[0])), default=None
        )
    return Submission(
        student=display_text(said[0] if said else owner) or "(no name)",
        name=display_text(said[1] if said else name),
        files=kept,
        submitted=when,
        problems=tuple(problems[:20]),
        unread=next((f"{display_text(one.name)}: {one.problem}" for one in unread), ""),
        refused=duplicate_names(kept),
    )


def duplicate_names(files: Sequence[Entry]) -> str:
    """Why nobody can say which file counts: two of one name (to many systems, A.PY is a.py) that are not the same."""
    first: dict[str, Entry] = {}
    for one in files:
        other = first.setdefault(unicodedata.normalize("NFKC", "/".join(one.parts)).casefold(), one)
        if other.data != one.data:
            names = " and ".join(display_text("/".join(entry.parts)) for entry in (other, one))
            return f"{names} are two files of one name, and differ; keep one of them, and hand in again."
    return ""


def _open_files(files: list[Entry]) -> list[Entry]:
    """The files of one student, read, and what is in archives among them; the first ones of very many."""
    large = f"more than {MOST_OWN:,} bytes are too many for one submission, and nothing of it was read"
    if sum(one.size for one in files) > MOST_OWN:
        return [Entry(parts=(ALL,), problem=large)]
    opened: list[Entry] = []
    for entry in _limit_file_count(files):
        if entry.name.lower().endswith(".zip") and not entry.problem:
            opened += _unpack_archive(entry.read(), most=MOST_OWN - sum(one.size for one in opened))
        else:
            opened.append(entry.read())
    return _limit_file_count(opened)


def _unpack_archive(archive: Entry, *, most: int) -> list[Entry]:
    """What a student packed; an archive in it is not opened."""
    if archive.problem:
        return [archive]
    try:
        with entries(archive.data, said=archive.name) as inner:
            if sum(one.size for one in inner) > most:
                return [replace(archive, problem=f"unpacks to more than {most:,} bytes, and nothing of it was graded")]
            return [one.read() for one in _limit_file_count(inner)]
    except InputError as error:
        return [replace(archive, problem=str(error).removeprefix(f"{archive.name} "))]


def _limit_file_count(files: list[Entry]) -> list[Entry]:
    """As many as are read, and a note for the rest; what cannot be read anyway does not count."""
    readable = [one for one in files if not one.problem]
    if len(readable) <= MOST_FILES:
        return files
    many = Entry(parts=(ALL,), problem=f"of {len(readable):,} files the first {MOST_FILES} were read")
    return [*readable[:MOST_FILES], many, *(one for one in files if one.problem)]


def _gradescope_owners(handed_in: list[Entry]) -> dict[str, tuple[str, str, datetime | None]]:
    """Who handed in which folder, by the file that Gradescope adds to its export."""
    data = next((entry.read().data for entry in handed_in if entry.parts == (GRADESCOPE,)), b"")
    text = data.decode("utf-8", "replace")
    said: dict[str, tuple[str, str, datetime | None]] = {}
    for block in re.split(r"(?m)^(?=submission_\d+:)", text):
        folder = re.match(r"(submission_\d+):", block)
        fields = {
            key: (re.search(rf":{key}: *(.+)", block) or ["", ""])[1].strip("'\" ")
            for key in ("sid", "name", "created_at")
        }
        if folder and (fields["sid"] or fields["name"]):
            try:
                when = moment(fields["created_at"].replace(" Z", "+00:00"), "created_at")
            except InputError:
                when = None
            said[folder[1]] = (fields["sid"] or fields["name"], fields["name"], when)
    return said


def reject_duplicates(submissions: list[Submission]) -> list[Submission]:
    """Sorted; those that claim the same student are refused, all of them."""
    count: dict[str, int] = {}
    for one in submissions:
        count[one.identity] = count.get(one.identity, 0) + 1
    said = "submissions claim to be this student's; keep one of them, and grade again."
    return [
        one if count[one.identity] == 1 else replace(one, refused=f"{count[one.identity]} {said}")
        for one in sorted(submissions, key=lambda one: (one.identity, one.digest))
    ]


def match_students(submissions: list[Submission], students: Mapping[str, Student]) -> list[Submission]:
    """With the names and times of the list; who is not on it is noted, who handed in nothing is added."""
    if not students:
        return submissions
    emails = Counter(identity(student.email) for student in students.values() if student.email)
    by_email = {identity(one.email): one for one in students.values() if emails[identity(one.email)] == 1}
    groups = {identity(student.group) for student in students.values() if student.group}
    listed = []
    for one in submissions:
        student = students.get(one.identity) or by_email.get(one.identity)
        if student is None and one.identity not in groups:
            one = replace(one, problems=(*one.problems, "not on the list of students"))
        elif student is not None:
            one = replace(
                one, student=student.id, name=student.name or one.name, submitted=student.submitted or one.submitted
            )
        listed.append(one)
    return reject_duplicates(listed)
