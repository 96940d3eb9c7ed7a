"""A person's own code: run elsewhere, for a while, and whatever it does wrong is one sentence and exit code 2."""

from __future__ import annotations

import ast
import json
import os
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from regard.cli import main
from regard.coursework import answering, sandbox
from regard.coursework.catalogue import claims
from regard.coursework.clock import Clock
from regard.errors import InputError

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
    assert "note: running your own code, my.py:right, in a process of its own." in err
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


def test_what_it_prints_is_shown_and_cut(regard) -> None:
    code, out, _ = regard("copying-condition", "--answer", "my.py:talks", "--json")
    data = json.loads(out)
    assert code == 0
    assert data["printed"].startswith("n is 2\nn is ")
    assert len(data["printed"]) <= sandbox.KEPT
    assert "  Your code printed: n is 2 ...\n" in regard("copying-condition", "--answer", "my.py:talks")[1]


def test_what_it_prints_cannot_pass_for_an_answer(regard) -> None:
    assert regard("copying-condition", "--answer", "my.py:noise", "--limit", "60")[0] == 0


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
    assert time.monotonic() - start < 30


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
        (["copying-condition", "--answer", "my.py:right", "--check"], "are asked one at a time"),
        (["copying-condition", "my.py"], "'my.py' is one word too many"),
        (["copying-condition", "my.py", "--template"], "my.py exists and is not overwritten; name another file."),
        (["copying-condition", "my.txt", "--template"], "the name must end in .py"),
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
    room = sandbox.Sandbox(str(file), function="margin", arguments=("n", "eps"), clock=Clock(60))
    with room:
        pid = int(answering.decoded(room.call({"n": 2, "eps": 0.5})))
    for _ in range(50):
        if not Path(f"/proc/{pid}").exists() or "Z" in Path(f"/proc/{pid}/stat").read_text().split()[2]:
            break
        time.sleep(0.1)
    else:
        pytest.fail(f"process {pid} lives on")


def test_arrays_travel_exactly(tmp_path: Path) -> None:
    file = tmp_path / "same.py"
    file.write_text("def same(A, x):\n    A += 0\n    return A * x\n")
    A = np.random.default_rng(0).standard_normal((3, 5, 2))
    with sandbox.Sandbox(str(file), function="same", arguments=("A", "x"), clock=Clock(60)) as room:
        for given in (A, A.T, A[::2], np.zeros((0, 3)), A.astype(np.float32), np.arange(3)):
            back = answering.decoded(room.call({"A": given, "x": 1}))
            assert back.dtype == np.float64
            assert np.array_equal(back, given)


def test_nothing_is_unpickled() -> None:
    for module in (answering, sandbox):
        tree = ast.parse(Path(module.__file__).read_text())
        names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
        assert not names & {"pickle", "marshal", "shelve"}
    with pytest.raises(ValueError, match="allow_pickle"):
        answering.packed(np.array([object()]))


def test_a_clock_runs_down() -> None:
    clock = Clock(0.1)
    assert not clock.spent(1.0)
    time.sleep(0.15)
    assert clock.spent(1.0)
    assert clock.stopped
    assert clock.left() == 0.1
    for limit in (0, -1, float("nan"), float("inf"), "soon"):
        with pytest.raises(InputError, match=r"limit must be a number of seconds from 0\.1 to 3600"):
            Clock(limit)


def test_a_slow_answer_is_checked_as_far_as_time_allows() -> None:
    def slow(n, eps):
        time.sleep(0.1)
        return np.log(n / eps)

    found = claims["copying-condition"].check_answer(slow, limit=1)
    assert found.answer
    assert found.stopped
    assert 1 <= found.instances < 60
    assert "The limit of 1 s ended the search early." in " ".join(str(found).split())


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
