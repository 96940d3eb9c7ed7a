"""What a student needs works without what only Linux, or only POSIX, has; what does not says so in one sentence.

There is no Mac and no Windows here. Every process of these tests, children included, starts without the modules and
functions that those systems lack: an import or a call of one of them is an error.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import urllib.request

import pytest

from processes import PATIENCE

MACOS = """
import os, sys, types
for name in ("fcntl", "resource", "pwd", "grp"):
    sys.modules[name] = None
for name in ("fork", "memfd_create", "posix_fallocate", "sched_getaffinity", "pidfd_open", "waitid"):
    if hasattr(os, name):
        delattr(os, name)
sys.modules["portalocker"] = types.ModuleType("portalocker")  # sacrebleu's, which has a way of its own on each system
class NoJail:
    def find_spec(self, name, *place):
        if name == "regard.sandbox.confinement":
            raise ImportError("the jail is Linux's")
sys.meta_path.insert(0, NoJail())
import regard.sandbox.jail as jail
jail.sys = types.SimpleNamespace(**{**vars(sys), "platform": "darwin"})
"""
WINDOWS = """
import signal
for name in ("killpg", "getuid", "geteuid", "getgid", "sysconf", "setsid", "O_NOFOLLOW"):
    delattr(os, name)
for name in ("SIGALRM", "setitimer", "SIGHUP"):
    delattr(signal, name)
"""
ANSWER = "def query(keys, a, b, eps):\n    return keys[a] + keys[b]\n"
TINY = ["--set", "data.size=60", "--set", "epochs=1", "--set", "width=8", "--set", "feed_forward=8"]


@pytest.fixture(scope="module", params=["macos", "windows"])
def system(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    (folder / "sitecustomize.py").write_text(MACOS + (WINDOWS if request.param == "windows" else ""))
    (folder / "mine.py").write_text(ANSWER)
    (folder / "keys.txt").write_text("1 0\n0 1\n-1 -1\n")
    return request.param, folder


def command(folder, *words):
    path = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])
    return [sys.executable, "-m", "regard", *words], {"cwd": folder, "env": os.environ | {"PYTHONPATH": path}}


def run(folder, *words):
    line, how = command(folder, *words)
    return subprocess.run(line, capture_output=True, text=True, timeout=PATIENCE, **how)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["design", "copy", "keys.txt", "0", "--eps", "0.1"], "Proved, and rechecked"),
        (["claims", "average-of-two", "--check"], "holds"),
        (["translator", "train", "builtin", *TINY, "--out", "runs/tiny"], "Best validation perplexity"),
        (["translator", "translate", "example", "der Hund sieht die Katze"], "the dog sees the cat"),
        (["translator", "score", "runs/tiny"], "BLEU"),
        (["translator", "report", "runs/tiny", "--out", "report.html"], "one file"),
    ],
)
def test_a_student_needs_nothing_that_only_linux_has(system, words, said):
    done = run(system[1], *words)
    assert done.returncode == 0, done.stderr
    assert said in done.stdout


@pytest.mark.slow
def test_the_lab_starts_and_serves(system):
    line, how = command(system[1], "lab", "--no-browser", "--port", "0")
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **how) as lab:
        try:
            address = next(found for said in lab.stdout if (found := re.search(r"http://\S+", said)))
            browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())  # the address sets a cookie
            with browser.open(address[0].rstrip("."), timeout=PATIENCE) as page:
                assert b"<html" in page.read().lower()
        finally:
            lab.send_signal(signal.SIGTERM)


@pytest.mark.slow
def test_your_own_answer_runs_on_macos_and_says_what_windows_lacks(system):
    name, folder = system
    done = run(folder, "claims", "average-of-two", "--answer", "mine.py")
    if name == "macos":
        assert done.returncode in (0, 1), done.stderr
        assert "key" in done.stdout
    else:
        assert done.returncode == 2
        assert "needs Linux or macOS; on Windows use WSL" in done.stderr
    jailed = run(folder, "claims", "average-of-two", "--answer", "mine.py", "--jail")
    assert jailed.returncode == 2
    assert "No jail can be built here, and nothing was run" in jailed.stderr
