"""What was handed in: folders, archives of course systems, notebooks, lists of students; and their tricks."""

from __future__ import annotations

import io
import json
import os
import stat
import zipfile
from datetime import UTC, datetime, timedelta

import pytest

from regard.errors import InputError
from regard.grading.submissions import submission
from regard.grading.submissions.archives import HAND_IN, zip_bytes
from regard.grading.submissions.notebooks import code_of, defined_names
from regard.grading.submissions.students import Student, read_students
from regard.grading.submissions.submission import match_students, read_submissions

CODE = "def f(x):\n    return x\n"


def packed(path, files, *, links=()):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
        for name, target in links:
            info = zipfile.ZipInfo(name)
            info.external_attr = (stat.S_IFLNK | 0o777) << 16
            archive.writestr(info, target)
    return str(path)


def notebook(*cells):
    return json.dumps(
        {"cells": [{"cell_type": kind, "source": source, "outputs": []} for kind, source in cells], "nbformat": 4}
    ).encode()


def ids(found):
    return {one.student: sorted(entry.name for entry in one.files) for one in found}


# where submissions come from


def test_a_folder_of_files_and_folders(tmp_path) -> None:
    (tmp_path / "ada.py").write_text(CODE)
    (tmp_path / "bob").mkdir()
    (tmp_path / "bob" / "hw.ipynb").write_bytes(notebook(("code", CODE)))
    (tmp_path / "bob" / ".ipynb_checkpoints").mkdir()
    (tmp_path / "bob" / ".ipynb_checkpoints" / "hw.ipynb").write_text("old")
    (tmp_path / "readme.txt").write_text("the teacher's")
    assert ids(read_submissions([str(tmp_path)])) == {"ada": ["ada.py"], "bob": ["hw.ipynb"]}


def test_several_folders_with_files_of_one_name_are_a_students_each(tmp_path) -> None:
    for name in ("dora", "emil"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "hw.py").write_text(CODE)
    paths = [str(tmp_path / "dora"), str(tmp_path / "emil")]
    assert ids(read_submissions(paths)) == {"dora": ["hw.py"], "emil": ["hw.py"]}
    listed = {"hw": Student(id="hw")}  # a name on the list is a student's: then both folders hold what hw handed in
    assert "hw" in ids(read_submissions(paths, students=listed))


def test_single_files(tmp_path) -> None:
    for name in ("ada.py", "bob.ipynb"):
        (tmp_path / name).write_text(CODE)
    assert set(ids(read_submissions([str(tmp_path / "ada.py"), str(tmp_path / "bob.ipynb")]))) == {"ada", "bob"}
    with pytest.raises(InputError, match=r"ada\.pdf does not exist; give a folder"):
        read_submissions([str(tmp_path / "ada.pdf")])


def test_archives_of_course_systems(tmp_path) -> None:
    canvas = packed(tmp_path / "canvas.zip", {"lovelaceada_11_900_hw.py": CODE, "babbage_LATE_12_901_hw-1.py": CODE})
    assert ids(read_submissions([canvas])) == {"11": ["hw.py"], "12": ["hw-1.py"]}
    moodle = packed(
        tmp_path / "moodle.zip",
        {
            "Ada Lovelace_345_assignsubmission_file_/hw.py": CODE,
            "Charles Babbage_346_assignsubmission_file_/hw.zip": packed_bytes({"deep/hw.py": CODE}),
        },
    )
    found = read_submissions([moodle])
    assert ids(found) == {"345": ["hw.py"], "346": ["hw.py"]}
    assert [one.name for one in found] == ["Ada Lovelace", "Charles Babbage"]
    meta = "submission_7:\n  :submitters:\n  - :name: Ada\n    :sid: A1\n  :created_at: 2026-11-01 10:00:00 Z\n"
    gradescope = packed(
        tmp_path / "g.zip",
        {
            "export/submission_metadata.yml": meta,
            "export/submission_7/hw.py": CODE,
            "export/submission_8/x/hw.py": CODE,
        },
    )
    found = read_submissions([gradescope])
    assert ids(found) == {"A1": ["hw.py"], "submission_8": ["hw.py"]}
    assert found[0].submitted == datetime(2026, 11, 1, 10, tzinfo=UTC)


def test_a_students_own_zip_is_one_submission(tmp_path) -> None:
    """Packed by hand-in, named like a student of the list, or for the public checks; else it is a class's archive."""
    files = {"hw.py": CODE, "words.md": "1: yes", "part/more.py": CODE}
    plain, ours = packed(tmp_path / "ada.zip", files), tmp_path / "lovelace_11_900_all.zip"
    ours.write_bytes(zip_bytes({name: text.encode() for name, text in files.items()}, comment=HAND_IN))
    one = {"ada": ["hw.py", "more.py", "words.md"]}
    assert ids(read_submissions([str(ours)])) == {"11": one["ada"]}
    assert ids(read_submissions([plain], students={"ada": Student(id="Ada")})) == one
    assert ids(read_submissions([plain], one_student=True)) == one
    assert ids(read_submissions([plain])) == {"hw": ["hw.py"], "part": ["more.py"]}


def packed_bytes(files):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return stream.getvalue()


# tricks


def test_names_that_lead_out_of_the_archive(tmp_path) -> None:
    path = packed(
        tmp_path / "a.zip",
        {"../grades/marks.csv.py": CODE, "/etc/x.py": CODE, "..\\..\\x.py": CODE, "C:\\x.py": CODE, "eve/hw.py": CODE},
    )
    found = read_submissions([path])
    assert "eve" in ids(found)
    assert not (tmp_path.parent / "grades").exists()
    for one in found:
        assert all(".." not in entry.parts for entry in one.files)


def test_links_are_not_followed(tmp_path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("0123456789abcdef")
    subs = tmp_path / "subs"
    (subs / "eve").mkdir(parents=True)
    (subs / "eve" / "hw.py").symlink_to(secret)
    (subs / "eve" / "folder").symlink_to(tmp_path)
    (subs / "mal.py").symlink_to("/etc/passwd")
    os.mkfifo(subs / "eve" / "pipe.py")
    found = {one.student: one for one in read_submissions([str(subs)])}
    assert not found["eve"].files
    assert not found["mal"].files
    assert "a link, which is not followed" in " ".join(found["eve"].problems)
    assert "pipe or a device" in " ".join(found["eve"].problems)
    archived = read_submissions([packed(tmp_path / "a.zip", {}, links=[("eve/hw.py", str(secret))])])
    assert not archived[0].files
    assert "a link" in archived[0].problems[0]


def test_bombs_harm_only_their_student(tmp_path, monkeypatch) -> None:
    path = packed(tmp_path / "a.zip", {"eve/hw.py": b"#" * 5_000_000, "ada/hw.py": CODE})
    found = {one.student: one for one in read_submissions([path])}
    assert not found["eve"].files
    assert found["eve"].problems == ("hw.py: has 5,000,000 bytes, and at most 1,000,000 are read",)
    assert "no notebook in it that can be read (hw.py: has 5,000,000 bytes" in found["eve"].missing_code_reason()
    assert found["ada"].files
    bomb = packed_bytes({f"{n}.py": "" for n in range(300)})
    path = packed(tmp_path / "a.zip", {"eve/hw.zip": bomb, "mal/hw.zip": b"PK\x03\x04 no zip", "ada/hw.py": CODE})
    found = {one.student: one for one in read_submissions([path])}
    assert "of 300 files the first 200 were read" in found["eve"].problems[0]
    assert found["mal"].problems[0].startswith("hw.zip: is not a zip file that can be read")
    assert found["ada"].files


def in_a_folder(place, files):
    for name, data in files.items():
        path = place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return str(place)


@pytest.mark.parametrize("handed_in", [in_a_folder, packed])
def test_one_submission_that_is_too_large_costs_nobody_else_anything(tmp_path, monkeypatch, handed_in) -> None:
    monkeypatch.setattr(submission, "MOST_OWN", 150_000)
    files = {f"eve/{n}.py": b"#" * 90_000 for n in range(3)}
    path = handed_in(tmp_path / "class.zip" if handed_in is packed else tmp_path / "c", {**files, "ada/hw.py": CODE})
    found = {one.student: one for one in read_submissions([path])}
    assert not found["eve"].files
    assert "more than 150,000 bytes are too many for one submission" in found["eve"].missing_code_reason()
    assert found["eve"].problems
    assert found["ada"].code("f")


@pytest.mark.parametrize("handed_in", [in_a_folder, packed])
def test_where_all_are_too_much_the_largest_are_put_aside(tmp_path, monkeypatch, handed_in) -> None:
    monkeypatch.setattr(submission, "MOST_TOTAL", 200_000)
    files = {f"{name}/hw.py": b"#" * size for name, size in (("eve", 90_000), ("bob", 80_000), ("mal", 95_000))}
    path = handed_in(tmp_path / "class.zip" if handed_in is packed else tmp_path / "c", {**files, "ada/hw.py": CODE})
    found = {one.student: one for one in read_submissions([path])}
    assert {name for name, one in found.items() if one.refused} == {"mal"}
    assert "more than 200,000 bytes, and this one is among the largest (95,000); grade it by" in found["mal"].refused
    assert all(found[name].files for name in ("ada", "bob", "eve"))


def test_a_size_that_is_a_lie(tmp_path) -> None:
    """Its header says 10 bytes: no more are unpacked, and that what came is not the file is seen."""
    data = bytearray(packed_bytes({"hw.py": b"#" * 5000}))
    real, said = (5000).to_bytes(4, "little"), (10).to_bytes(4, "little")
    at = data.rindex(real)  # in the list of contents, the unpacked size comes after the packed one
    data[at : at + 4] = said
    (ada, eve) = read_submissions([packed(tmp_path / "a.zip", {"eve/hw.zip": bytes(data), "ada/hw.py": CODE})])
    assert ada.files
    assert not eve.files
    assert "hw.py: cannot be read" in eve.problems[0]


def test_what_is_no_archive(tmp_path) -> None:
    (tmp_path / "a.zip").write_bytes(b"no")
    with pytest.raises(InputError, match="is not a zip file that can be read"):
        read_submissions([str(tmp_path / "a.zip")])


@pytest.mark.parametrize("twin", ["ADA", "ada\u200b", "ａｄａ", "ada\u202e"])
def test_whoever_claims_to_be_somebody_else_takes_nobodys_place(twin, tmp_path) -> None:
    for name in ("ada", twin):
        (tmp_path / name).mkdir()
        (tmp_path / name / "hw.py").write_text(CODE)
    found = read_submissions([str(tmp_path)])
    assert len(found) == 2
    assert all("2 submissions claim to be this student's" in one.refused for one in found)


def test_names_are_shown_without_tricks(tmp_path) -> None:
    (tmp_path / "eve\u202e\x1b[31m\n").mkdir()
    (tmp_path / "eve\u202e\x1b[31m\n" / "hw.py").write_text(CODE)
    assert [one.student for one in read_submissions([str(tmp_path)])] == ["eve"]


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (
            ("hw.py", "hw.py"),
            "hw.py and hw.py are two files of one name, and differ; keep one of them, and hand in again.",
        ),
        (("a.py", "A.PY"), "a.py and A.PY are two files of one name, and differ"),
        (("x/a.ipynb", "x/Ａ.ipynb"), "x/a.ipynb and x/Ａ.ipynb are two files of one name, and differ"),
        (("a.py", "./a.py"), "a.py and a.py are two files of one name, and differ"),
        (("a.py", "x/a.py"), ""),
        (("x" * 120 + "1.py", "x" * 120 + "2.py"), ""),
    ],
)
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_two_files_of_one_name_are_refused_unless_they_are_the_same(names, said: str, tmp_path) -> None:
    """Which one counted was a matter of the archive's order."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for number, name in enumerate(names):
            archive.writestr(name, f"{CODE}# {number}\n")
    (tmp_path / "ada").mkdir()
    (tmp_path / "ada" / "hw.zip").write_bytes(stream.getvalue())
    (found,) = read_submissions([str(tmp_path)])
    assert found.refused.startswith(said)
    assert bool(found.refused) == bool(said)


def test_a_file_with_a_password_is_named(tmp_path) -> None:
    """Its reason was once Python's own description of the entry."""
    data = bytearray(packed_bytes({"hw.py": CODE}))
    data[data.find(b"PK\x01\x02") + 8] |= 1
    (tmp_path / "ada").mkdir()
    (tmp_path / "ada" / "hw.zip").write_bytes(data)
    (found,) = read_submissions([str(tmp_path)])
    assert found.problems == ("hw.py: locked with a password; hand it in without one",)
    assert found.missing_code_reason().endswith("(hw.py: locked with a password; hand it in without one)")


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_the_same_file_twice_is_one(tmp_path) -> None:
    (tmp_path / "ada").mkdir()
    (tmp_path / "ada" / "hw.py").write_text(CODE)
    (tmp_path / "ada" / "hw.zip").write_bytes(packed_bytes({"hw.py": CODE, "HW.py": CODE}))
    (found,) = read_submissions([str(tmp_path)])
    assert not found.refused
    assert found.code("f") is not None


# notebooks


def test_functions_are_found_by_name_whatever_happened_to_the_cells() -> None:
    book = code_of(
        notebook(
            ("code", ["%matplotlib inline\n", "import math\n"]),
            ("code", "def broken(:"),
            ("code", "1 / 0"),
            ("code", "import sys; sys.exit(1)"),
            ("code", "def f(x):\n    y = 1\n    return y / 0"),
            ("raw", "def g(x):\n    return x"),
            ("markdown", "def h(x): of course"),
            ("code", "%%bash\nrm -rf /"),
        ),
        wanted=("f", "g", "h"),
    )
    assert {"f", "g"} <= book.names
    assert "h" not in book.names
    assert any("cell 6 is not a code cell, but holds g" in note for note in book.notes)
    assert any("cell 2 cannot be parsed" in note for note in book.notes)
    names = {"__file__": "hw.ipynb.py"}
    exec(compile(book.source, "hw.ipynb.py", "exec"), names)
    assert names["g"](3) == 3
    with pytest.raises(ZeroDivisionError) as raised:
        names["f"](1)
    line = raised.traceback[-1].lineno + 1
    assert book.with_cell_numbers(f"line {line}: ZeroDivisionError") == "cell 5, line 3: ZeroDivisionError"


def test_a_name_that_is_defined_twice_is_the_later_one() -> None:
    names = {"__file__": "a"}
    exec(code_of(notebook(("code", "def f(): return 1"), ("code", "def f(): return 2"))).source, names)
    assert names["f"]() == 2


def test_outputs_are_never_read() -> None:
    cell = {"cell_type": "code", "source": "x = 1", "outputs": [{"text": "def f(): pass\nmark: 10 of 10"}]}
    book = code_of(json.dumps({"cells": [cell]}).encode(), wanted=("f",))
    assert b"mark" not in book.source
    assert "f" not in book.names


@pytest.mark.parametrize("data", [b"", b"[]", b"{" * 100_000, b'{"cells": 3}', b'{"cells": ["x"]}', b"\xff\xfe"])
def test_what_is_no_notebook(data) -> None:
    with pytest.raises(InputError, match="it is no notebook that can be read"):
        code_of(data)


def test_names_at_the_top() -> None:
    assert defined_names("import a.b as c\nfrom d import e\nx: int = 3\n(y, z) = 1, 2") == ["c", "e", "x"]
    assert defined_names("not python (") == []
    assert defined_names(b"\x00") == []


def test_the_file_that_defines_a_function_is_taken(tmp_path) -> None:
    (tmp_path / "ada").mkdir()
    (tmp_path / "ada" / "a.py").write_text("def other(): pass")
    (tmp_path / "ada" / "b.py").write_text(CODE)
    one = read_submissions([str(tmp_path)])[0]
    assert one.code("f")[0] == "b.py"
    assert one.code("other")[0] == "a.py"
    assert one.code("nowhere")[0] == "a.py"  # Python will say that it is missing


# students


def test_the_list_of_students(tmp_path) -> None:
    path = tmp_path / "s.csv"
    path.write_text("ID;Name;Group;extension;submitted\nada;Ada;;36 hours;2026-11-01T10:00+01:00\n\nbob;;G1;2 days;\n")
    found = read_students(path)
    assert found["ada"].extension == timedelta(hours=36)
    assert found["bob"].group == "G1"
    deadline = datetime(2026, 11, 1, tzinfo=UTC)
    assert found["bob"].due(deadline) == datetime(2026, 11, 3, tzinfo=UTC)
    until = datetime(2026, 12, 1, tzinfo=UTC)
    assert Student(id="x", extension=until).due(deadline) == until


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name\nada\n", "has no column id"),
        ("id\nada\nADA\n", "line 3: 'ADA' is there twice"),
        ("id,extension\nada,soon\n", "line 2, extension must be 2 days, 36 hours, or a date"),
        ("id,extension\nada,99999999999 days\n", "line 2, extension must be at most 3660 days"),
        ("id,submitted\nada,2026-11-01\n", "submitted must be a date with time and zone"),
    ],
)
def test_mistakes_in_the_list(text, said, tmp_path) -> None:
    (tmp_path / "s.csv").write_text(text)
    with pytest.raises(InputError, match=said):
        read_students(tmp_path / "s.csv")


def test_who_is_not_on_the_list_is_said(tmp_path) -> None:
    for name in ("ada.py", "eve.py"):
        (tmp_path / name).write_text(CODE)
    listed = {"ada": Student(id="Ada", name="Ada L")}
    ada, eve = match_students(read_submissions([str(tmp_path)]), listed)
    assert (ada.student, ada.name, ada.problems) == ("Ada", "Ada L", ())
    assert eve.problems == ("not on the list of students",)


def test_an_email_that_two_have_tells_nobody(tmp_path) -> None:
    """Whoever puts another's address into a profile does not get what that one handed in."""
    (tmp_path / "ada@x.org.py").write_text(CODE)
    ada, eve = (Student(id=name, email="ada@x.org") for name in ("ada", "eve"))
    assert match_students(read_submissions([str(tmp_path)]), {"ada": ada})[0].student == "ada"
    (one,) = match_students(read_submissions([str(tmp_path)]), {"ada": ada, "eve": eve})
    assert one.student == "ada@x.org"
    assert one.problems == ("not on the list of students",)


def test_one_students_folder_is_not_taken_for_the_one_around_all(tmp_path) -> None:
    """Alone in a pile, with a folder in it that is called like somebody else."""
    in_a_folder(tmp_path / "pile", {"eve/ada/hw.py": CODE})
    assert ids(read_submissions([str(tmp_path / "pile")], students={"eve": Student(id="Eve")})) == {"eve": ["hw.py"]}
    assert ids(read_submissions([str(tmp_path / "pile")])) == {"ada": ["hw.py"]}  # as in an export


# tricks that would keep the grader itself busy, which parses and unpacks outside the jail


def test_a_text_that_keeps_pythons_parser_busy_is_not_parsed_outside(monkeypatch) -> None:
    def never(*words: object) -> None:
        raise AssertionError("parsed outside the jail")

    monkeypatch.setattr("ast.parse", never)
    slow = "x = f'" + "{a}" * 300_000 + "'\n"  # minutes, with Python 3.11
    assert defined_names(slow + CODE) == ["x", "f"]
    assert defined_names(("\ufeff" + CODE).encode()) == ["f"]
    assert (
        defined_names(CODE.replace("\n", "\r\n").encode()) == defined_names(CODE.replace("\n", "\r").encode()) == ["f"]
    )
    long = notebook(("code", slow[:50_000] + "'\n" + CODE), ("markdown", CODE + "#" * 30_000))
    assert "f" in code_of(long, wanted=("f",)).names
    with pytest.raises(InputError, match="more than 1,000,000 characters of code"):
        code_of(notebook(*[("code", slow[:600_000])] * 2))


def test_a_notebook_is_parsed_up_to_a_bound(monkeypatch) -> None:
    parsed = []
    monkeypatch.setattr("ast.parse", lambda text: parsed.append(len(text)))
    code_of(notebook(*[("code", "y = 1 # " + "x" * 15_000)] * 40))
    assert 0 < sum(parsed) <= 100_000


def test_each_notebook_and_file_is_read_once(tmp_path, monkeypatch) -> None:
    """Not for each question again: large ones take seconds."""
    in_a_folder(tmp_path / "c", {"eve/a.ipynb": notebook(("code", "a = 1")), "eve/b.py": "b = 1\n"})
    (eve,) = read_submissions([str(tmp_path / "c")])
    read = []
    parse = "regard.grading.submissions.notebooks.parse_json"
    monkeypatch.setattr(parse, lambda data, constants: read.append("json") or {"cells": []})
    monkeypatch.setattr(submission, "defined_names", lambda data: read.append("defined") or [])
    for number in range(12):
        eve.code(f"f{number}")
    assert sorted(read) == ["defined", "json"]


def test_an_archive_that_python_would_unpack_at_once_is_not_read(tmp_path) -> None:
    """Of bzip2 and LZMA all that was read is unpacked, whatever size was asked for: a megabyte may become gigabytes."""
    files = {}
    for name, kind in (("bz", zipfile.ZIP_BZIP2), ("xz", zipfile.ZIP_LZMA)):
        stream = io.BytesIO()
        with zipfile.ZipFile(stream, "w", kind) as archive:
            archive.writestr("hw.py", b"#" * 900_000)
        files[f"{name}/hw.zip"] = stream.getvalue()
    for one in read_submissions([in_a_folder(tmp_path / "c", files)]):
        assert not one.files
        assert one.problems == ("hw.py: packed in an unusual way, which is not read",)
        assert "packed in an unusual way" in one.missing_code_reason()


def test_what_a_students_archive_unpacks_to_is_bounded(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("regard.grading.submissions.submission.MOST_OWN", 5_000_000)
    packed(tmp_path / "bomb.zip", {f"{n}.py": b"#" * 900_000 for n in range(6)})
    bomb = (tmp_path / "bomb.zip").read_bytes()
    inner = packed_bytes({"inner.zip": packed_bytes({"hw.py": CODE}), "hw.py": CODE})
    path = packed(tmp_path / "a.zip", {"eve/hw.zip": bomb, "ada/hw.py": CODE, "bob/hw.zip": inner})
    found = {one.student: one for one in read_submissions([path])}
    assert "hw.zip: unpacks to more than 5,000,000 bytes" in found["eve"].problems[0]
    assert not found["eve"].files
    assert found["ada"].files
    assert [entry.name for entry in found["bob"].files if entry.name.endswith(".py")] == ["hw.py"]


def test_names_in_archives_that_are_tricks(tmp_path) -> None:
    names = ["eve/a\u202eyp.py", "eve/../../ada/hw.py", "eve\\..\\..\\ada\\hw.py", "/eve/hw.py", "eve/hw.py/hw.py"]
    names += ["EVE/hw.py", "eve/" + "x" * 5000 + ".py", "eve/HW.PY", "eve/hw.py", "eve/con.py", "eve/hw\n.py"]
    path = packed(tmp_path / "a.zip", {**dict.fromkeys(names, CODE), "ada/hw.py": "def f(x):\n    return 2\n"})
    found = read_submissions([path])
    ada = next(one for one in found if one.student == "ada")
    assert [entry.data for entry in ada.files] == [b"def f(x):\n    return 2\n"]
    assert not ada.refused
    assert all(one.refused for one in found if one.identity == "eve")  # two that differ by case


def test_hard_links_pipes_and_neighbours_with_names_of_python(tmp_path) -> None:
    (tmp_path / "secret.txt").write_text("s")
    subs = tmp_path / "subs" / "eve"
    subs.mkdir(parents=True)
    os.mkfifo(subs / "pipe.py")
    for name in ("sitecustomize.py", "conftest.py", "json.py", "numpy.py", "hw.py"):
        (subs / name).write_text(CODE if name == "hw.py" else "raise SystemExit\n")
    (subs / "hw.pth").write_text("import os")
    (found,) = read_submissions([str(tmp_path / "subs")])
    assert found.code("f")[0] == "hw.py"
    assert any("pipe.py" in one for one in found.problems)
    assert any("hw.pth" in one for one in found.problems)
