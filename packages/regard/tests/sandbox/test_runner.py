"""The runner, without a jail: whatever a person's code does wrong is one sentence, and nothing hangs or stays."""

from __future__ import annotations

import ast
import contextlib
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from processes import PATIENCE, wait_until
from regard.cli import main
from regard.coursework.answers.report import IncompleteCheckError
from regard.coursework.catalogue import claims
from regard.errors import CouldNotFindOut, InputError
from regard.sandbox import child, clock, confinement, lines, runner
from regard.sandbox.clock import Clock, Meter
from regard.sandbox.runner import Runner, TimeLimitError, checked_reply

ANSWERS = """
import os, sys
import numpy as np


def right(n, eps):
    return np.log((n - 1) / eps)


def forgot(n, eps):
    return np.log(1 / eps)


def talks(n, eps):
    print("n is", n)
    return np.log(n / eps)


def raises(n, eps):
    return right(n, eps) / 0 if n > 2 else {}["a"]


def loops(n, eps):
    while True:
        pass


def sleeps(n, eps):
    import time
    time.sleep(1000)


def floods(n, eps):
    while True:
        print("spam", end=" ")


def leaves(n, eps):
    sys.exit("bye")


def vanishes(n, eps):
    os._exit(7)


def dies(n, eps):
    os.kill(os.getpid(), 11)


def swallows(n, eps):
    return bytearray(10**12)[0]


def reads(n, eps):
    return float(input("margin? "))


def large(n, eps):
    return np.zeros((5000, 5000))


def pickled(n, eps):
    return np.array([object()])


def noise(n, eps):
    os.write(1, b'{"npy": ')
    return np.log(n / eps)


limit = 3
"""


@pytest.fixture
def regard(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my.py").write_text(ANSWERS)

    def run(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["regard", "claims", *words])
        with pytest.raises(SystemExit) as left:
            main()
        printed = capfd.readouterr()
        return int(left.value.code or 0), printed.out, printed.err

    return run


def test_a_right_answer(regard) -> None:
    code, out, err = regard("copying-condition", "--answer", "my.py:right", "--limit", "60")
    assert code == 0
    assert out.startswith("copying-condition: my.py:right holds so far (60 instances, seed 0).\n")
    assert "it is 1 times the smallest margin that is always enough (proved), on 5 instances." in " ".join(out.split())
    assert "note: running the code of my.py:right in a process of its own, with your rights: for a file that" in err
    assert not (Path("__pycache__")).exists()


def test_a_wrong_answer(regard) -> None:
    code, out, _ = regard("copying-condition", "--answer", "my.py:forgot", "--limit", "60", "--seed", "3")
    assert code == 1
    assert "fails (" in out
    assert "seed 3" in out
    assert "The smallest counterexample found: n = 3, eps = 0.5." in out
    assert "    from my import forgot\n    n = 3\n    eps = 0.5\n    forgot(n, eps)  # returned 0.693147\n" in out


def test_json_and_parameters(regard) -> None:
    words = ("copying-condition", "--answer", "my.py:forgot", "--set", "n=50", "--set", "eps=0.3", "--json")
    code, out, _ = regard(*words)
    data = json.loads(out)
    assert (code, data["status"]) == (1, "fails")
    assert data["counterexample"]["given"] == {"n": 50, "eps": 0.3}


@pytest.mark.slow
def test_what_it_prints_is_shown_and_cut(regard) -> None:
    code, out, _ = regard("copying-condition", "--answer", "my.py:talks", "--json")
    data = json.loads(out)
    assert code == 0
    assert data["printed"].startswith("n is 2\nn is ")
    assert len(data["printed"]) <= lines.KEPT
    assert "  Your code printed: n is 2 ...\n" in regard("copying-condition", "--answer", "my.py:talks")[1]


def test_what_it_prints_cannot_pass_for_an_answer(regard) -> None:
    assert regard("copying-condition", "--answer", "my.py:noise", "--limit", "60")[0] == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("raises", "my.py:raises failed: line 20: KeyError: 'a' (for n = 2, eps = 0.5); fix it first."),
        ("loops", "my.py:loops was stopped: one call of loops took more than"),
        ("sleeps", "my.py:sleeps was stopped: one call of sleeps took more than"),
        ("floods", "my.py:floods printed a flood and was stopped ("),
        ("leaves", "my.py:leaves failed: line 39: it leaves the process (sys.exit or exit)"),
        ("vanishes", "my.py:vanishes left the process with code 7 in one call of vanishes"),
        ("dies", "my.py:dies was killed by signal 11 in one call of dies"),
        ("swallows", "my.py:swallows failed: line 51: MemoryError"),
        ("reads", "my.py:reads failed: line 55: EOFError"),
        ("large", "my.py:large returned an array too large to send"),
        ("pickled", "my.py:pickled returned an array of object for n = 2"),
        ("limit", "my.py:limit is of type int, and must be a function limit(n, eps)."),
        ("missing", "my.py has no 'missing'; it has right, forgot, talks"),
    ],
)
def test_bad_code_is_one_sentence(regard, function: str, message: str) -> None:
    start = time.monotonic()
    code, out, err = regard("copying-condition", "--answer", f"my.py:{function}", "--limit", "4")
    assert (code, out) == (2, "")
    said = [line for line in err.splitlines() if line.startswith("regard: ")]
    assert len(said) == 1
    assert message in said[0]
    assert "Traceback" not in err
    assert time.monotonic() - start < PATIENCE


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def margin(n, eps)\n    return 1\n", "bad.py cannot be imported: line 1: SyntaxError: expected ':'; fix it"),
        ("import numpy\nx = 1 / 0\n", "bad.py cannot be imported: line 2: ZeroDivisionError: division by zero"),
        ("raise SystemExit\n", "bad.py cannot be imported: line 1: it leaves the process"),
        (
            "def margin(n):\n    return 1\n",
            "bad.py:margin takes (n), but it is called with 2 arguments: margin(n, eps).",
        ),
        ("x = 1\n", "bad.py has no 'margin'; it has no function at all."),
    ],
)
def test_bad_files(regard, text: str, message: str) -> None:
    Path("bad.py").write_text(text)
    code, out, err = regard("copying-condition", "--answer", "bad.py")
    assert (code, out) == (2, "")
    assert message in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["copying-condition", "--answer", "no.py:f"], "no.py: there is no such file"),
        (
            ["copying-condition", "--answer", "my"],
            "'my' must name a Python file and a function in it, as in my.py:margin",
        ),
        (["heads-summary", "--answer", "my.py:right"], "heads-summary asks for words"),
        (["heads-summary", "--template"], "heads-summary asks for words"),
        (["--template"], "are about one claim, as are --template and --answer"),
        (["--answer", "my.py:right"], "are about one claim, as are --template and --answer"),
        (["copying-condition", "--answer", "my.py:right", "--set", "n=1"], "must be a whole number with 2 <= n"),
        (["copying-condition", "--answer", "my.py:right", "--set", "k=1"], "has no parameter 'k'; it has n, eps"),
        (
            ["copying-condition", "--answer", "my.py:right", "--limit", "0"],
            "limit must be a number of seconds from 0.1",
        ),
        (["copying-condition", "--answer", "my.py:right", "--seed", "-1"], "seed must be a whole number from 0"),
        (["copying-condition", "--answer", "my.py:right", "--check"], "Give only one of --template, --answer"),
        (["copying-condition", "my.py"], "'my.py' is one word too many"),
        (["copying-condition", "my.py", "--template"], "my.py exists and is not overwritten; name another file."),
        (["copying-condition", "my.rst", "--template"], "the name must end in .py"),
        (["copying-condition", "no/my.py", "--template"], "there is no directory 'no'"),
    ],
)
def test_what_cannot_be_asked(regard, words: list[str], message: str) -> None:
    code, out, err = regard(*words)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1
    assert Path("my.py").read_text() == ANSWERS


def test_a_grandchild_goes_too(tmp_path: Path) -> None:
    file = tmp_path / "parent.py"
    file.write_text(
        "import subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "def margin(n, eps):\n    return child.pid\n"
    )
    room = Runner(str(file), function="margin", arguments=("n", "eps"), clock=Clock(60))
    with room:
        pid = int(room.call({"n": 2, "eps": 0.5})["array"])
    gone_soon(pid)


def test_arrays_travel_exactly(tmp_path: Path) -> None:
    file = tmp_path / "same.py"
    file.write_text("def same(A, x):\n    A += 0\n    return A * x\n")
    A = np.random.default_rng(0).standard_normal((3, 5, 2))
    with Runner(str(file), function="same", arguments=("A", "x"), clock=Clock(60)) as room:
        for given in (A, A.T, A[::2], np.zeros((0, 3)), A.astype(np.float32), np.arange(3)):
            back = room.call({"A": given, "x": 1})["array"]
            assert back.dtype == np.float64
            assert np.array_equal(back, given)


def test_nothing_is_unpickled() -> None:
    for module in (child, confinement, lines, runner):
        tree = ast.parse(Path(module.__file__).read_text())
        names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
        assert not names & {"pickle", "marshal", "shelve"}
    with pytest.raises(TypeError, match="an array of object is not sent"):
        child.pack_array(np.array([object()]))


def test_a_clock_runs_while_the_code_does() -> None:
    ours = Clock(0.1)
    time.sleep(0.15)
    assert not ours.has_used(1.0)  # a slow judge, or a busy machine, is not held against an answer
    assert ours.is_late()
    with ours.running():
        time.sleep(0.15)
    assert ours.has_used(1.0)
    assert ours.stopped
    assert ours.seconds_left() == 0.1
    for limit in (0, -1, float("nan"), float("inf"), "soon", 10**400, True):
        with pytest.raises(InputError, match=r"limit must be a number of seconds from 0\.1 to 3600"):
            Clock(limit)


@pytest.mark.slow
def test_being_slow_is_no_way_to_pass() -> None:
    def slow(n, eps):
        time.sleep(0.1)
        return np.log(n / eps)

    with pytest.raises(IncompleteCheckError) as found:
        claims["copying-condition"].check_answer(slow, limit=1)
    assert 1 <= found.value.instances[0] < 60 == found.value.instances[1]
    assert found.value.moves[0] < 120 == found.value.moves[1]
    message = (
        r"copying-condition: slow took all of its 1 s for \d+ of 60 instances and \d+ of 120 moves of the adversary; "
        r"no counterexample was found, but that is too little to say that it holds: make it quicker, or give it more "
        r"time, as with --limit \d+\.$"
    )
    assert re.match(message, str(found.value))
    assert isinstance(found.value, CouldNotFindOut)


@pytest.mark.slow
def test_a_wrong_answer_does_not_pass_by_being_slow(regard) -> None:
    """Right for n <= 3 only; with time for one instance it once held so far, with exit code 0."""
    Path("slow.py").write_text(
        "import math, time\n\n\ndef margin(n, eps):\n    time.sleep(0.93)\n"
        "    return math.log((n - 1) / eps) if n <= 3 else 0.0\n"
    )
    code, out, err = regard("copying-condition", "--answer", "slow.py", "--limit", "2")
    assert code in (1, 2, 3)  # how far it comes is a matter of time: too little, one call too slow, or a counterexample
    assert "of 60 instances" in err or "one call of margin took more than" in err or "margin fails (" in out


# nothing hangs, and nothing stays behind

SLEEP = "import os, subprocess, time\n"
LEAVING = {
    "a_program_in_a_session_of_its_own": "subprocess.Popen(['sleep', '600'], start_new_session=True)",
    "a_program_without_its_environment": "subprocess.Popen(['sleep', '600'], env={}, start_new_session=True)",
    "a_child_that_holds_the_pipes": "if os.fork() == 0:\n    time.sleep(600)\nos._exit(0)",
    "a_child_after_a_crash": "if os.fork() == 0:\n    time.sleep(600)\nos.kill(os.getpid(), 11)",
    "a_daemon": "if os.fork() == 0:\n    os.setsid()\n    if os.fork():\n        os._exit(0)\n    time.sleep(600)",
}
FATAL = {"a_child_that_holds_the_pipes", "a_child_after_a_crash"}


@pytest.mark.skipif(sys.platform != "linux", reason="orphans are inherited on Linux only")
@pytest.mark.parametrize("name", LEAVING)
def test_nothing_hangs_and_nothing_stays(name: str, regard, monkeypatch: pytest.MonkeyPatch) -> None:
    mark = f"regard-test-{os.getpid()}-{name}"
    monkeypatch.setenv("REGARD_TEST_MARK", mark)
    before = sleepers()
    right = "\n\n\ndef margin(n, eps):\n    import math\n    return math.log((n - 1) / eps)\n"
    Path("leaving.py").write_text(SLEEP + LEAVING[name] + right)
    start = time.monotonic()
    code, _, err = regard("copying-condition", "--answer", "leaving.py", "--limit", "60")
    assert code == (2 if name in FATAL else 0), err
    assert time.monotonic() - start < 300  # far less than what was left behind would take
    assert not [path for path in Path("/proc").glob("[0-9]*") if path.name != str(os.getpid()) and marked(path, mark)]
    assert sleepers() <= before


def marked(path: Path, mark: str) -> bool:
    try:
        return mark in (path / "environ").read_text()
    except (OSError, UnicodeDecodeError):
        return False


def sleepers() -> set[str]:
    """Programs that sleep for ten minutes, by their numbers."""
    found = set()
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (path / "cmdline").read_bytes() == b"sleep\x00600\x00":
                found.add(path.name)
    return found


def test_a_judge_that_is_killed_leaves_nothing(tmp_path: Path) -> None:
    """The guard sees the hang-up, and ends what is below it."""
    file = tmp_path / "stays.py"
    file.write_text("import os, time\nprint(os.getpid(), flush=True)\n\n\ndef margin(n, eps):\n    time.sleep(600)\n")
    code = (
        "import sys, time, threading\n"
        "from regard.sandbox.clock import Clock\n"
        "from regard.sandbox.runner import Runner\n"
        f"room = Runner({str(file)!r}, function='margin', arguments=('n', 'eps'), clock=Clock(600))\n"
        "room.__enter__()\n"
        "room.lines.drain()\n"
        "print(room.printed_text, flush=True)\n"
        "room.call({'n': 2, 'eps': 0.5})\n"
    )
    judge = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    pid = int(judge.stdout.readline())
    judge.kill()
    judge.communicate()
    gone_soon(pid)


def gone_soon(pid: int) -> None:
    wait_until(lambda: not alive(pid), f"process {pid} lives on")


def alive(pid: int) -> bool:
    """Is there such a process, other than one that has ended and was not collected?"""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.slow
def test_one_that_does_not_read_is_stopped(tmp_path: Path) -> None:
    """More is sent than a pipe holds, and nobody takes it."""
    file = tmp_path / "deaf.py"
    file.write_text("import time\n\n\ndef f(A):\n    time.sleep(600)\n")
    with (
        Runner(str(file), function="f", arguments=("A",), clock=Clock(1)) as room,
        pytest.raises(InputError, match=r"was stopped: one call of f took more than 0\.5 s"),
    ):
        room.call({"A": np.zeros(10**6)})


# replies are checked, never trusted

EVERY_KIND = (*runner.FILE, *runner.ANSWER, *runner.MADE, "here", "confined", "unconfined")


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"nonsense",
        b"\xff",
        b"3",
        b"[]",
        b"{}",
        b"{" * 20_000,
        b"[" * 200_000,
        b'{"ready": 1}',
        b'{"ready": true, "none": true}',
        b'{"holds": true}',
        b'{"raised": "x"}',
        b'{"raised": {"type": 3, "message": "x", "line": null}}',
        b'{"raised": {"type": "E", "message": "x", "line": 1.5}}',
        b'{"strange": ["x"]}',
        b'{"missing": "x"}',
        b'{"array": []}',
        b'{"array": {"dtype": "<f8", "shape": [], "data": ""}}',
        b'{"array": {"dtype": "<f8", "shape": [1], "data": "AAAAAAAA8D8"}}',
        b'{"array": {"dtype": "<f8", "shape": [-1], "data": "AAAAAAAA8D8="}}',
        b'{"array": {"dtype": "<f8", "shape": [true], "data": "AAAAAAAA8D8="}}',
        b'{"array": {"dtype": "<f8", "shape": [1, 1, 1, 1, 1, 1, 1, 1, 1], "data": "AAAAAAAA8D8="}}',
        b'{"array": {"dtype": "<f8", "shape": [99999999999999999999], "data": "AAAAAAAA8D8="}}',
        b'{"array": {"dtype": "|O", "shape": [1], "data": "AAAAAAAA8D8="}}',
        b'{"array": {"dtype": ">f8", "shape": [1], "data": "AAAAAAAA8D8="}}',
        b'{"array": {"shape": [1], "data": "AAAAAAAA8D8="}}',
        b'{"array": {"dtype": "<f8", "data": "AAAAAAAA8D8="}}',
        b'{"array": {"dtype": "<f8", "shape": [1], "data": "not base64!!"}}',
        b'{"array": {"dtype": "<f8", "shape": [1], "data": "AAAAAAAA8D8=", "more": 1}}',
        b'{"large": [' + b"9" * 10_000 + b"]}",
        b'{"large": [' + b"9" * 4_200 + b"]}",
        b'{"large": [-1]}',
        b'{"large": [true]}',
        b'{"large": ["x"]}',
        b'{"large": [' + b"1, " * 64 + b"1]}",
        b'{"raised": {"type": "E", "message": "x", "line": ' + b"9" * 4_200 + b"}}",
        b'{"raised": {"type": "E", "message": "x", "line": -1}}',
        b'{"raised": {"type": "E", "message": "x", "line": true}}',
        b'{"raised": {"type": "E", "message": "x", "line": 1, "more": 1}}',
        b'{"raised": {"type": "E", "message": "x"}}',
        b'{"missing": [3]}',
        b'{"missing": [["x"]]}',
        b'{"confined": [' + b'"x", ' * 40 + b'"x"]}',
    ],
)
def test_a_malformed_reply_is_no_reply(line: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the runner turns every one of them into the same sentence
        checked_reply(line, EVERY_KIND)


@pytest.mark.parametrize("kind", ["ready", "here", "confined", "data", "missing"])
def test_a_reply_of_another_moment_is_no_reply(kind: str) -> None:
    """ "ready" instead of an answer was once told as an array too large to send."""
    values = {"confined": [], "missing": [], "data": ""}
    line = json.dumps({kind: values.get(kind, True)}).encode()
    assert checked_reply(line, (kind,)) == {kind: values.get(kind, True) if kind != "data" else b""}
    with pytest.raises(ValueError, match="no reply"):
        checked_reply(line)


LYING = """
import os


def f(x):
    for end in range(3, 12):
        try:
            os.write(end, b'{"raised": {"type": "E", "message": "", "line": ' + b"9" * 4200 + b"}}\\n")
        except OSError:
            continue
"""
OWN_ERROR = "def f(x):\n    raise SyntaxError('own', ('my.py', {line}, 1, ''))\n"


@pytest.mark.slow
def test_a_line_of_thousands_of_digits_is_no_line(tmp_path: Path) -> None:
    with (
        Runner("my.py", function="f", arguments=("x",), clock=Clock(60), code=LYING.encode()) as room,
        pytest.raises(InputError, match="cannot be checked"),
    ):
        room.call({"x": 1.0})
    for line in ("10**5000", "-1", "'x'", "[f]"):
        code = OWN_ERROR.format(line=line).encode()
        with Runner("my.py", function="f", arguments=("x",), clock=Clock(60), code=code) as room:
            assert room.call({"x": 1.0})["raised"] == {"type": "SyntaxError", "message": "own", "line": 2}


@pytest.mark.slow
@given(st.binary(max_size=200))
def test_no_bytes_are_more_than_a_refusal(line: bytes) -> None:
    try:
        reply = checked_reply(line)
    except ValueError:
        return
    assert len(reply) == 1


@pytest.mark.slow
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(), lambda x: st.lists(x) | st.dictionaries(st.text(), x)
    )
)
def test_nothing_that_json_can_say_is_more_than_a_refusal(value) -> None:
    for kind in ("array", "raised", "strange", "missing", "ready", "large"):
        try:
            reply = checked_reply(json.dumps({kind: value}).encode(), EVERY_KIND)
        except ValueError:
            continue
        said = str(reply[kind]) if kind != "array" else ""
        assert "\x1b" not in said
        assert len(said) < 5000


def test_a_right_array_comes_through() -> None:
    reply = checked_reply(b'{"array": {"dtype": "<f8", "shape": [1], "data": "AAAAAAAA8D8="}}')
    assert reply["array"].tolist() == [1.0]


def test_a_long_reply_is_cut_off(tmp_path: Path) -> None:
    """The judge's memory is bounded: what has no line end is not read to its end."""
    file = tmp_path / "long.py"
    file.write_text(
        "import os\n\n\ndef f(x):\n"
        "    while True:\n"
        "        for end in range(3, 12):\n"
        "            try:\n                os.write(end, b'1' * 65536)\n"
        "            except OSError:\n                pass\n"
    )
    with (
        Runner(str(file), function="f", arguments=("x",), clock=Clock(120)) as room,
        pytest.raises(InputError, match="cannot be checked: it wrote into the pipe that answers travel through"),
    ):
        room.call({"x": 1}, most=100_000)
    assert len(room.lines.waiting) <= 100_000 * 2 + runner.MOST_WORDS + lines.CHUNK + 1


# what reaches the terminal


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("plain Ω 中文 é", "plain Ω 中文 é"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x9b31mred", "red"),
        ("\x1b]0;title\x07x", "x"),
        ("\x1b]52;c;secret\x1b\\x", "x"),
        ("\x1bPdevice\x1b\\x", "x"),
        ("\x1b]0;no end", ""),
        ("a\x1bcb", "ab"),
        ("a\rb\x08\x00\x7fc", "a bc"),
        ("\u202eback\u202c\u2066x\u2069\u200b", "backx"),
        ("half \ud800", "half "),
        ("one\ntwo", "one two"),
        ("x" * 5000, "x" * 2000),
    ],
)
def test_text_is_fit_for_a_terminal(text: str, kept: str) -> None:
    assert lines.clean(text) == kept


@given(st.text())
def test_no_text_moves_the_cursor(text: str) -> None:
    assert all(character.isprintable() for character in lines.clean(text))


def test_escape_sequences_do_not_reach_the_terminal(regard) -> None:
    Path("red.py").write_text(
        "print('\\x1b]0;owned\\x07\\x1b[2Jhello', flush=True)\n\n\ndef margin(n, eps):\n"
        "    if n > 2:\n        raise ValueError('\\x1b[31mred\\nregard: holds so far')\n    return 1e3\n"
    )
    code, out, err = regard("copying-condition", "--answer", "red.py")
    assert code == 2
    assert "\x1b" not in out + err
    assert "ValueError: red (for n = " in err
    code, out, _ = regard("copying-condition", "--answer", "red.py", "--set", "n=2")
    assert "\x1b" not in out
    assert "Your code printed: hello" in out


@pytest.mark.parametrize("function", ["right", "forgot", "raises", "missing"])
def test_the_name_of_a_file_does_not_drive_the_terminal(function: str, regard) -> None:
    name = "a\x1b[31m\u202eyp\u2066\nregard: holds so far.py"
    Path(name).write_text(ANSWERS)
    code, out, err = regard("copying-condition", "--answer", f"{name}:{function}", "--limit", "60")
    assert code in (0, 1, 2)
    for character in "\x1b\u202e\u2066":
        assert character not in out + err
    assert r"running the code of a\x1b[31m\u202eyp\u2066\nregard: holds so far.py" in err
    assert "\nregard: holds" not in out + err


@pytest.mark.parametrize("name", ["self", "seed", "limit", "progress", "function", "jail", "sizes", "parameters", "n"])
def test_any_name_can_be_set_and_is_refused_in_a_sentence(name: str, regard) -> None:
    for words in (["--check"], ["--proof"], ["--answer", "my.py:right"], ["--plot", "x.svg"]):
        code, out, err = regard("average-of-two", *words, "--set", f"{name}=-1")
        assert (code, out) == (2, "")
        assert "Traceback" not in err
        assert ("must be a whole number" if name == "n" else f"has no parameter {name!r}; it has") in err


def test_a_jail_is_for_an_answer(regard) -> None:
    code, out, err = regard("average-of-two", "--check", "--jail")
    assert (code, out) == (2, "")
    assert "--jail is for running an answer: give it together with --answer FILE.py:NAME." in err


def test_files_that_are_no_answers(regard) -> None:
    Path("long.py").write_text("#" * (runner.MOST_SOURCE + 1))
    Path("folder.py").mkdir()
    os.mkfifo("pipe.py")
    for name, message in (
        ("long.py", "long.py has more than 1,000,000 bytes; an answer is a short file."),
        ("folder.py", "folder.py: there is no such file"),
        ("pipe.py", "pipe.py: there is no such file"),
    ):
        code, out, err = regard("copying-condition", "--answer", name)
        assert (code, out) == (2, "")
        assert message in err


# templates

ANSWERING = {  # what would give an answer away, in a template of that claim
    "extract-from-sum": "A A^T",
    "average-of-two": "k_a + k_b)",
    "copying-condition": "ln(",
    "copying-output": "eps/(1+eps)",
    "average-of-any-subset": "sum",
    "one-head-swings": "4a",
    "one-head-two-point-noise": "(n/eps)^",
    "two-heads-average": "T mu",
    "two-heads-two-point-noise": "t = ",
    "singular-tail": "sqrt",
    "singular-energy": "Frobenius",
    "small-noise-keeps-the-average": "mu_a + mu_b",
}


@pytest.mark.parametrize("name", sorted(name for name in claims if claims[name].question is not None))
def test_a_template_is_complete_runs_and_keeps_the_answer(name: str, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    made, question = claims[name].template(), claims[name].question
    text = Path(f"{name.replace('-', '_')}.py").read_text()
    assert made.text == text
    assert made.check in text
    assert f"def {question.signature}:" in text
    assert all(f"    {argument}: " in text for argument in question.arguments)
    assert max(map(len, text.splitlines())) <= 100
    assert ANSWERING.get(name, "the answer") not in text
    names: dict = {}
    exec(compile(text, "template.py", "exec"), names)
    with pytest.raises(InputError, match="NotImplementedError: write your answer here"):
        claims[name].check_answer(names[question.function])


def test_template_on_the_command_line(regard) -> None:
    code, out, _ = regard("copying-condition", "new.py", "--template")
    assert code == 0
    assert out == (
        "Wrote new.py: fill in margin(n, eps), then run\n  regard claims copying-condition --answer new.py:margin\n"
    )
    Path("new.py").unlink()
    data = json.loads(regard("copying-condition", "--template", "new.py", "--json")[1])
    assert data["path"] == "new.py"
    assert os.path.exists("new.py")
    code, out, _ = regard("copying-condition")
    assert "  Your own answer:\n    margin(n, eps), by --template and --answer FILE.py\n" in out


# a busy machine


def test_what_other_processes_took_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    now, waited = [0.0], [0.0]
    monkeypatch.setattr(clock.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(clock, "waiting_time", lambda thread: waited[0])
    ours = Clock(10)
    with ours.running() as used:
        now[0], waited[0] = 9.5, 7.0
        assert used() == 2.5
    assert not ours.has_used(0.9)
    assert ours.seconds_left() == 7.5
    waited[0] = 20.0  # while the code does not run
    with ours.running() as used:
        now[0] += 8.0
        assert used() == 8.0
    assert ours.seconds_left() == 0.1


@pytest.mark.parametrize(
    ("wall", "processor", "waits", "counts"),
    [
        (9.0, 1.0, 8.0, 1.0),  # a busy machine
        (9.0, 9.0, 8.0, 9.0),  # its own threads and processes keep it waiting
        (9.0, 0.0, 0.0, 9.0),  # it sleeps
        (600.0, 0.0, 600.0, 10.0),  # nobody can say when this ends; the wall's clock does
    ],
)
def test_no_wait_stretches_a_limit_without_end(wall, processor, waits, counts, monkeypatch) -> None:
    now = [0.0]
    monkeypatch.setattr(clock.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(clock, "waiting_time", lambda thread: 0.0)
    ours = Clock(1000)
    monkeypatch.setattr(ours.meter, "processor_time", lambda: processor)
    monkeypatch.setattr(ours.meter, "waiting_time", lambda: waits)
    with ours.running() as used:
        now[0] = wall
        assert used() == counts


@pytest.mark.parametrize("comes", [True, False])
def test_a_line_is_waited_for_as_long_as_the_other_side_has_no_processor(comes) -> None:
    pairs = [os.pipe() for _ in range(3)]
    pipes = (os.fdopen(pairs[0][1], "wb"), os.fdopen(pairs[1][0], "rb"), os.fdopen(pairs[2][0], "rb"))

    def used() -> float:
        if comes:
            os.write(pairs[1][1], b"late\n")  # while we looked at the clock: the time is over, and the line is there
        return 1.0

    ends = lines.Lines(pipes)
    if comes:
        assert ends.ask(b"", most=10, seconds=0.0, used=used) == b"late"
    else:
        with pytest.raises(TimeoutError):
            ends.ask(b"", most=10, seconds=0.0, used=used)
    ends.close()
    for end in (pairs[0][0], pairs[1][1], pairs[2][1]):
        os.close(end)


needs_schedstat = pytest.mark.skipif(
    not Path("/proc/self/schedstat").exists(), reason="the system does not tell how long a process waited"
)
BUSY = (
    "import os, time\nos.nice({nice})\nwhile time.process_time() < 0.2:\n    pass\nprint('done', flush=True)\ninput()"
)


@needs_schedstat
@pytest.mark.parametrize("nice", [0, 1])
def test_the_system_tells_how_long_a_process_waited_and_what_it_used(nice: int) -> None:
    program = [sys.executable, "-c", BUSY.format(nice=nice)]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        meter = Meter(lambda: [child.pid])
        child.stdout.readline()
        assert meter.processor_time() >= 0.19
        assert (
            meter.time_used(0.1, 0.0) >= 0.19 - meter.before[0]
        )  # the processor's time counts, whatever the wall says
        assert (meter.waiting_time() > 0) == (nice == 0)  # who steps back in the queue waits by choice
        child.communicate(b"\n")
    assert (meter.processor_time(), meter.waiting_time()) == (0.0, 0.0)  # it has ended


BURNERS = """
import os, subprocess, sys, time

os.nice(10)
for _ in range(8):
    subprocess.Popen([sys.executable, "-c", "while True: pass"])


def margin(n, eps):
    while True:
        pass
"""


@pytest.mark.slow
@needs_schedstat
def test_processes_and_patience_do_not_stretch_a_limit(tmp_path: Path) -> None:
    """Its own processes keep it from the processor: what they use counts."""
    (tmp_path / "burners.py").write_text(BURNERS)
    used = 0.0
    with Runner(f"{tmp_path}/burners.py", function="margin", arguments=("n", "eps"), clock=Clock(6)) as room:
        with pytest.raises(TimeLimitError, match="one call of margin took more than"):
            room.call({"n": 2, "eps": 0.5})
        used = room.clock.seconds_used
    assert used < 25  # of 3; its eight processes once made more than 30 of it


THREADS = """
import time, threading, zlib


def burn():
    data = bytes(10**6)
    while True:
        zlib.compress(data)


for _ in range(3):
    threading.Thread(target=burn, daemon=True).start()
while True:
    time.sleep(1)
"""


@pytest.mark.slow
def test_what_the_system_ends_for_its_time_took_too_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow import has used up what the kernel allows before our own clock was over: once "killed by signal 9"."""
    begun = runner.start_command
    monkeypatch.setattr(runner, "start_command", lambda *words, **more: begun(*words, **{**more, "seconds": 2}))
    (tmp_path / "slow.py").write_text(THREADS)
    room = Runner(f"{tmp_path}/slow.py", function="margin", arguments=("n", "eps"), clock=Clock(600))
    with pytest.raises(TimeLimitError, match="was stopped: importing it took more than"):
        room.__enter__()
