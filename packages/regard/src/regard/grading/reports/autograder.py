"""An autograder in one zip: the assignment, the secret, this package, and a program that grades one submission.

Course systems run it in a container, as root, with the student's files beside it. There bubblewrap usually cannot
make namespaces; the second tier (Landlock, another user, a filter of system calls) keeps the student's code from
reading anything but Python and NumPy, the secret first of all. With neither tier nothing is run, and the result
says so.

    python run.py gradescope [BASE]        BASE/source, BASE/submission, BASE/results/results.json; /autograder
    python run.py prairielearn [BASE]      BASE/tests, BASE/student, BASE/results/results.json; /grade
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import regard
from regard.arrays import check_target
from regard.errors import RegardError
from regard.extras import QUESTION_KINDS
from regard.files import write_file
from regard.grading.assignments.assignment_file import read_assignment
from regard.grading.gradebook.grader import grade, pile_of, safe_tier
from regard.grading.gradebook.secret import Secret, read_secret
from regard.grading.questions.assignment import Assignment, Kind
from regard.grading.reports.course_systems import NOT_GRADED, gradescope_results, prairielearn_results
from regard.grading.submissions.archives import zip_bytes
from regard.grading.submissions.students import moment
from regard.grading.submissions.submission import Submission, duplicate_names, read_submissions
from regard.results import Result
from regard.sandbox.jail import Tier
from regard.strict_json import parse_json
from regard.terminal import printable

SYSTEMS = ("gradescope", "prairielearn")
# the core; torch comes with it where a question is about a model
NEEDED = ("numpy", "scipy", "python-flint", "joblib", "safetensors", "typer")
SETUP = """#!/usr/bin/env bash
# Run once, when the image is built.
set -e
apt-get update && apt-get install -y python3 python3-pip python3-venv bubblewrap || true
python3 -m venv /opt/regard
/opt/regard/bin/pip install {needed}
chmod -R go-rwx /autograder/source
"""
RUN = """#!/usr/bin/env bash
# Run for each submission. The secret stays in a folder that only root can read, and the student's code is not root.
chmod -R go-rwx {source}
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1  # a container's share is seldom more than one core
exec /opt/regard/bin/python {source}/run.py {system}
"""
PROGRAM = """import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "package"))

from regard.grading.reports.autograder import main

main(sys.argv[1:], source=Path(__file__).parent)
"""
LEFT_OUT = ("lab", "demo", "__pycache__")  # of the package: not needed to grade


@dataclass(frozen=True, kw_only=True, eq=False)
class PackedAutograder(Result):
    """An autograder, packed."""

    path: str
    system: str
    files: int
    size: int

    def __str__(self) -> str:
        where = {
            "gradescope": "upload it as the autograder of a programming assignment",
            "prairielearn": "unpack it into the tests/ folder of the question, entrypoint /grade/tests/run_autograder",
        }[self.system]
        return (
            f"Wrote {self.path} ({self.files} files, {self.size / 1e6:.1f} MB): {where}. It holds the secret: give it "
            "to nobody else."
        )


def pack(assignment: Assignment, secret: str, path: str, *, system: str) -> PackedAutograder:
    """Write the zip; the assignment, its files and the secret are in it."""
    models = any(task.kind in (Kind.TRANSFORMER, Kind.AUDIT) or task.weights for task in assignment.tasks)
    target = check_target(path, (".zip",))
    read_secret(secret)
    source = "/autograder/source" if system == "gradescope" else "/grade/tests"
    files = {
        "setup.sh": SETUP.format(needed=" ".join((*NEEDED, *(["torch"] if models else [])))).encode(),
        "run_autograder": RUN.format(source=source, system=system).encode(),
        "run.py": PROGRAM.encode(),
        "assignment.toml": assignment.path.read_bytes(),
        "secret.txt": Path(secret).read_bytes(),
        **{
            str(task.file.relative_to(assignment.path.parent)): task.file.read_bytes()
            for task in assignment.tasks
            if task.file
        },
        **_package_files("regard"),
        **_plugin_files({task.kind.value for task in assignment.tasks}),
    }
    packed = zip_bytes(files, programs=("setup.sh", "run_autograder"))
    write_file(target, packed)
    return PackedAutograder(path=path, system=system, files=len(files), size=len(packed))


def _plugin_files(kinds: set[str]) -> dict[str, bytes]:
    """The packages that judge these kinds of questions, and what lets them be found where nothing is installed."""
    files: dict[str, bytes] = {}
    for entry in entry_points(group=QUESTION_KINDS):
        if entry.name in kinds:
            package = entry.module.partition(".")[0]
            about = f"Metadata-Version: 2.1\nName: {package}\nVersion: {regard.__version__}\n"
            files |= _package_files(package)
            files[f"package/{package}.dist-info/METADATA"] = about.encode()
            found = f"[{QUESTION_KINDS}]\n{entry.name} = {entry.value}\n"
            files[f"package/{package}.dist-info/entry_points.txt"] = found.encode()
    return files


def _package_files(package: str) -> dict[str, bytes]:
    """A package's own files, without the rooms that grading does not use."""
    home = Path(str(import_module(package).__file__)).parent
    # The corpus and its lists are not needed to grade, and would be most of the upload.
    kept = [path for path in sorted(home.rglob("*")) if path.is_file() and path.suffix not in (".pyc", ".gz", ".txt")]
    return {
        f"package/{package}/{path.relative_to(home).as_posix()}": path.read_bytes()
        for path in kept
        if not set(LEFT_OUT) & set(path.relative_to(home).parts)
    }


def main(words: list[str], *, source: Path) -> None:
    """Grade the one submission that is there, and write what the course system reads."""
    system = words[0] if words and words[0] in SYSTEMS else "gradescope"
    base = Path(words[1]) if len(words) > 1 else Path("/autograder" if system == "gradescope" else "/grade")
    os.chmod(source, 0o700)  # again: systems unpack archives with modes of their own
    secret = read_secret(source / "secret.txt")
    try:
        tier = Tier.LANDLOCK if "landlock" in words[2:] else safe_tier(sandbox=True)
        said = grade_submission(read_assignment(source / "assignment.toml"), secret, base, system=system, tier=tier)
    except RegardError as error:
        said = refusal(str(error), system)
        print(printable(str(error)), file=sys.stderr)
    (base / "results").mkdir(exist_ok=True)
    write_file(base / "results" / "results.json", json.dumps(said, indent=1).encode())


def refusal(why: str, system: str) -> dict[str, Any]:
    """No mark, and the reason; never a zero that looks like a verdict."""
    if system == "prairielearn":
        return {"gradable": False, "message": NOT_GRADED + why, "format_errors": [NOT_GRADED + why]}
    return {"output": NOT_GRADED + why, "tests": [], "visibility": "visible", "score": 0, "stdout_visibility": "hidden"}


def grade_submission(assignment: Assignment, secret: Secret, base: Path, *, system: str, tier: Tier) -> dict[str, Any]:
    """The result for one submission."""
    folder = base / ("submission" if system == "gradescope" else "student")
    one = replace(_submission(folder), **_submission_metadata(base, system))
    pile = pile_of(assignment, [one], secret=secret)
    with tempfile.TemporaryDirectory(prefix="regard-") as scratch:
        marks = grade(pile, Path(scratch), jail=tier, workers=1)
    return (gradescope_results if system == "gradescope" else prairielearn_results)(assignment, marks.rows[0])


def _submission(folder: Path) -> Submission:
    """All files of the folder are one student's."""
    submissions = read_submissions([str(folder)]) if folder.is_dir() else []
    files = tuple(replace(entry, parts=(one.student, *entry.parts)) for one in submissions for entry in one.files)
    problems = tuple(problem for one in submissions for problem in one.problems)
    return Submission(student="student", files=files, problems=problems, refused=duplicate_names(files))


def _submission_metadata(base: Path, system: str) -> dict[str, Any]:
    """Who handed it in and when, as the course system says; never as a file of the student does."""
    path = base / ("submission_metadata.json" if system == "gradescope" else "data/data.json")
    try:
        said = parse_json(path.read_bytes(), constants=True)
        if system == "prairielearn":
            return {"student": str(said.get("variant", {}).get("id") or said.get("submitted_uid") or "student")}
        # a group is asked the same, whoever of it hands in
        people = sorted(str(user.get("email") or user.get("id")) for user in said["users"])
        return {"student": " ".join(people)[:100] or "student", "submitted": moment(said["created_at"], "created_at")}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}
