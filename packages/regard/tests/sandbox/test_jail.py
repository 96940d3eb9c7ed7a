"""The jail: what hostile files try, in both tiers; an honest one works as usual; no jail is never silent."""

from __future__ import annotations

import dataclasses
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from processes import wait_until
from regard.coursework.answers import answer_check
from regard.coursework.catalogue import claims
from regard.errors import InputError
from regard.sandbox import jail, runner, warm_pool
from regard.sandbox.clock import Clock
from regard.sandbox.jail import Tier
from regard.sandbox.runner import Runner
from regard.sandbox.tool import Interpreter, is_world_readable, this_interpreter
from regard.sandbox.warm_pool import MemoryGroup, keep_warm

# Files end in .py.txt, so that nothing runs them by accident. Each returns a right answer if what it tries succeeds:
# a file that passes has got out.
HOSTILE = sorted((Path(__file__).parent / "hostile").glob("*.py.txt"))
ENDLESS = {  # these end only when they are ended, or after seconds, by themselves: a quick machine may see that
    *("loops_for_ever", "loops_while_imported", "sleeps", "ignores_every_signal", "huge_integers", "slow_pattern"),
    *("changes_each_time", "closes_its_pipes", "deep_recursion", "deep_recursion_in_c", "ten_gigabytes_in_pieces"),
    *("burns_in_threads", "burns_while_imported"),
}
MEDDLED = "cannot be checked: it wrote into the pipe that answers travel through"
STOPPED = r"was stopped: (one call of margin|importing it) took more than"
SAID = {
    **dict.fromkeys(
        ENDLESS,
        rf"{STOPPED}|(Memory|Recursion)Error|was killed by signal (9|11|6)|{MEDDLED}|took more memory"
        "|left the process with code 1|returned something of type Shifting",
    ),
    "calls_of_another_table": "was killed by signal 31",
    "crashes": "was killed by signal 11",
    "lowers_its_own_limit": "was killed by signal 9",
    "floods_standard_error": "printed a flood and was stopped",
    "floods_standard_output": "printed a flood and was stopped",
    **dict.fromkeys(("changes_the_inside", "floods_the_replies", "forges_replies"), MEDDLED),
    **dict.fromkeys((path.name.partition(".")[0] for path in HOSTILE if path.name.startswith("replies_")), MEDDLED),
    "leaves_while_imported": r"cannot be imported: line 7: it leaves the process",
    "leaves_with_success": "left the process with code 0",
    "lies_about_its_shape": r"returned shape \(3, 5\) for .*, not one number",
    "lies_about_its_type": "returned something of type 10000000000",
    "returns_a_generator": "returned something of type generator",
    "returns_nan": "returned NaN or infinity",
    "returns_objects": "returned an array of object",
    "returns_ten_gigabytes": "returned an array too large to send",
}
WRONG = {"import_hooks", "lies_about_equality"}  # these answer, and the answer is wrong
TEACHERS = f"the teacher's {os.getpid()}"  # the tests of another process have their own
TIERS = (Tier.BUBBLEWRAP, Tier.LANDLOCK)


@pytest.fixture(params=TIERS, ids=[tier.value for tier in TIERS])
def tier(request: pytest.FixtureRequest) -> Tier:
    return needed(request.param)


def needed(tier: Tier) -> Tier:
    """The tier, or a skip that says why; where CI promises both, a missing one is a failure."""
    reason = jail.tier_obstacle(tier)
    if reason and os.environ.get("CI") == "true":
        pytest.fail(f"{tier.value} is missing: {reason}")
    if reason:
        pytest.skip(f"{tier.value}: {reason}")
    return tier


@pytest.fixture(scope="module", autouse=True)
def one_pool() -> Iterator[None]:
    """All of them one after the other out of the same jail, as in a grading: none may hurt the next."""
    with keep_warm():
        yield


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A corner of the host that everybody can reach: a secret, another answer, and a folder to write in."""
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_uid == os.getuid() and folder != Path("/tmp"):
            folder.chmod(folder.stat().st_mode | 0o055)
    place = tmp_path / "canary"
    (place / "open").mkdir(parents=True)
    (place / "open").chmod(0o777)
    (place / "secret.txt").write_text("the judge's")
    (place / "open" / "note.txt").write_text("a note")
    (place / "open" / "note.txt").chmod(0o666)
    (place / "other.py").write_text("# somebody else's answer\n")
    monkeypatch.setenv("REGARD_HOSTILE_SECRET", TEACHERS)
    return place


def state(host: Path) -> list[tuple[str, int, int, bytes]]:
    """Everything about the corner that an answer could have changed."""
    found = []
    for path in sorted(host.rglob("*")):
        facts = path.stat()
        found.append((str(path), facts.st_mode, facts.st_uid, path.read_bytes() if path.is_file() else b""))
    return found


def left_behind() -> list[str]:
    """What hostile files would leave outside the corner: files by their names, processes by their users."""
    files = [
        str(p) for place in ("/tmp", "/var/tmp", "/dev/shm", "/run", "/") for p in Path(place).glob("regard-hostile*")
    ]
    return [*files, *(f"process {path.name}" for path in Path("/proc").glob("[0-9]*") if hostile_process(path))]


def hostile_process(path: Path) -> bool:
    try:
        return f"REGARD_HOSTILE_SECRET={TEACHERS}" in (path / "environ").read_text() and path.name != str(os.getpid())
    except (OSError, UnicodeDecodeError):
        return False


def tried(path: Path, host: Path, tier: Tier) -> str:
    """What checking a hostile file says; it never holds."""
    name = path.name.partition(".")[0]
    file = host.parent / f"{name}.py"
    file.write_text(path.read_text(encoding="utf-8").replace("/canary", str(host)))
    limit = 1.0 if name in ENDLESS else 120.0
    try:
        found = claims["copying-condition"].check_answer(f"{file}:margin", limit=limit, jail=tier)
    except InputError as error:
        return str(error)
    assert not found.answer, f"{name} got out: {found}"
    return f"fails: {found.counterexample}"


@pytest.mark.parametrize("path", HOSTILE, ids=[path.name.partition(".")[0] for path in HOSTILE])
def test_hostile_files_are_contained(path: Path, host: Path, tier: Tier) -> None:
    before, name = state(host), path.name.partition(".")[0]
    said = tried(path, host, tier)
    expected = r"^fails: " if name in WRONG else SAID.get(name, r"margin failed: line \d+: ")
    assert re.search(expected, said), said
    assert said.isprintable() or name in WRONG
    assert "Traceback" not in said
    assert state(host) == before
    assert not left_behind()


def test_there_are_enough_of_them_and_they_say_what_they_try() -> None:
    assert len(HOSTILE) >= 94
    for path in HOSTILE:
        assert path.read_text(encoding="utf-8").startswith('"""')
    assert set(SAID) | WRONG <= {path.name.partition(".")[0] for path in HOSTILE}


@pytest.mark.slow
def test_without_a_jail_they_would_get_out(host: Path) -> None:
    """The files are no straw men: those that do no harm succeed where nothing keeps them in."""
    for name in (
        "reads_a_file_of_the_host",
        "forks_once",
        "unix_socket",
        "kills_by_descriptor",
        "reads_the_environment",
    ):
        path = next(path for path in HOSTILE if path.name == f"{name}.py.txt")
        file = host.parent / f"{name}.py"
        text = path.read_text(encoding="utf-8").replace("/canary", str(host)).replace("SIGKILL", "SIGCONT")
        file.write_text(text)
        found = claims["copying-condition"].check_answer(f"{file}:margin", limit=120, n=3, eps=0.5)
        assert found.answer, name
    assert not left_behind()


HONEST = """
import json, math, re, fractions, statistics, random, itertools, tempfile, collections, dataclasses
import numpy as np
import numpy.linalg, numpy.random
from concurrent.futures import ThreadPoolExecutor


def query(keys, a, b, eps):
    print("shape", keys.shape)
    assert np.allclose(np.linalg.svd(keys)[1], 1)
    with ThreadPoolExecutor(2) as pool:
        return pool.submit(lambda: math.log(len(keys) / eps) * (keys[a] + keys[b])).result()
"""


@pytest.mark.slow
def test_an_honest_answer_works_as_usual(tier: Tier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer_check, "FRESH", 30)  # fewer of each kind, in the jail and outside
    monkeypatch.setattr(answer_check, "MOVES", 20)
    (tmp_path / "honest.py").write_text(HONEST)
    found = claims["average-of-two"].check_answer(f"{tmp_path}/honest.py:query", limit=300, jail=tier)
    plain = claims["average-of-two"].check_answer(f"{tmp_path}/honest.py:query", limit=300)
    assert found.answer
    assert (found.instances, found.pressed, str(found.distance)) == (
        plain.instances,
        plain.pressed,
        str(plain.distance),
    )
    assert (found.jail, plain.jail) == (tier.value, "none")
    assert f"It ran in a jail ({tier.value}, user " in str(found)
    assert "seccomp" in found.confined
    assert "It ran without a jail, with your rights." in str(plain)
    assert found.printed.startswith("shape (2, 2)")


def test_a_scratch_folder_in_the_first_tier_only(tmp_path: Path, tier: Tier) -> None:
    (tmp_path / "scratch.py").write_text(
        "import os\n\n\ndef margin(n, eps):\n"
        "    size = 0\n"
        "    try:\n"
        "        with open('note', 'wb') as stream:\n"
        "            for i in range(64):\n"
        "                size += os.write(stream.fileno(), bytes(2**19))\n"
        "    except OSError:\n"
        "        pass\n"
        "    return size\n"
    )
    with Runner(
        f"{tmp_path}/scratch.py", function="margin", arguments=("n", "eps"), clock=Clock(120), jail=tier
    ) as room:
        size = float(room.call({"n": 2, "eps": 0.5})["array"])
    assert size <= jail.SCRATCH
    assert (size > 0) == (tier is Tier.BUBBLEWRAP)


BOTH = """
import sys
from scipy.special import logsumexp

try:
    import typer
except ImportError as error:
    print(error)


def margin(n, eps):
    for attempt in range(2):
        try:
            import regard
        except (ImportError, OSError) as error:
            print(error)
        else:
            return 1.0
        sys.meta_path[:] = [finder for finder in sys.meta_path if type(finder).__name__ != "Refused"]
    return -1.0
"""


def test_scipy_is_there_and_we_are_not(tier: Tier, tmp_path: Path) -> None:
    (tmp_path / "both.py").write_text(BOTH)
    with Runner(f"{tmp_path}/both.py", function="margin", arguments=("n", "eps"), clock=Clock(120), jail=tier) as room:
        assert room.call({"n": 2, "eps": 0.5})["array"] == -1.0
    assert room.printed_text.splitlines()[:2] == [
        "No module named 'typer'; in the jail there are Python's own, and numpy, scipy",
        "an answer must stand on its own: regard cannot be imported in it",
    ]


def test_outside_the_solver_is_refused_too(tmp_path: Path) -> None:
    (tmp_path / "solver.py").write_text("from regard import design\n\n\ndef margin(n, eps):\n    return 1.0\n")
    with pytest.raises(InputError, match="line 1: ModuleNotFoundError: an answer must stand on its own: regard cannot"):
        claims["copying-condition"].check_answer(f"{tmp_path}/solver.py")


def test_two_jails_do_not_meet(tier: Tier, tmp_path: Path) -> None:
    (tmp_path / "who.py").write_text("import os\n\n\ndef margin(n, eps):\n    return os.getuid()\n")

    def room() -> Runner:
        return Runner(f"{tmp_path}/who.py", function="margin", arguments=("n", "eps"), clock=Clock(120), jail=tier)

    with room() as one, room() as two:
        users = [float(each.call({"n": 2, "eps": 0.5})["array"]) for each in (one, two)]
    if os.getuid() == 0:
        assert users[0] != users[1]
        assert all(user in jail.USERS for user in users)
    else:
        assert users == [os.getuid()] * 2


# which tier, and why not


@pytest.fixture
def fresh_probe():
    jail.tier_obstacle.cache_clear()
    yield
    jail.tier_obstacle.cache_clear()


def test_none_is_never_silent(fresh_probe, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "my.py").write_text("print('run')\n\n\ndef margin(n, eps):\n    return 1.0\n")
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setattr(jail, "_landlock_obstacle", lambda: "this kernel has no Landlock")
    message = r"No jail can be built here, and nothing was run \(bubblewrap: bwrap is not installed; landlock: this"
    with pytest.raises(InputError, match=message):
        claims["copying-condition"].check_answer(f"{tmp_path}/my.py", jail=True)


def test_the_second_tier_where_the_first_is_forbidden(fresh_probe, monkeypatch: pytest.MonkeyPatch) -> None:
    needed(Tier.LANDLOCK)
    jail.tier_obstacle.cache_clear()
    monkeypatch.setattr(jail, "_bubblewrap_obstacle", lambda: "no namespaces")
    assert jail.best_tier(True) is Tier.LANDLOCK
    with pytest.raises(InputError, match=r"nothing was run \(bubblewrap: no namespaces\)"):
        jail.best_tier(Tier.BUBBLEWRAP)


def test_a_bubblewrap_that_cannot_is_found_out(fresh_probe, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    broken = tmp_path / "bwrap"
    broken.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setattr(jail, "_bubblewrap_program", lambda: str(broken))
    monkeypatch.setattr(shutil, "which", lambda name: str(broken))
    tmp_path.chmod(0o755)
    assert jail.tier_obstacle(Tier.BUBBLEWRAP)


def test_other_machines_are_refused(fresh_probe, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jail, "is_supported", lambda: False)
    assert "no filter of system calls" in jail.tier_obstacle(Tier.LANDLOCK)
    jail.tier_obstacle.cache_clear()
    monkeypatch.setattr(sys, "platform", "darwin")
    assert jail.tier_obstacle(Tier.BUBBLEWRAP) == "it needs Linux"


def test_a_jail_that_cannot_be_closed_runs_nothing(tier: Tier, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "my.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    begun = runner.start_command

    def broken(*words, **more):
        start = begun(*words, **more)
        start.confinement["seccomp"] = ""
        return start

    monkeypatch.setattr(runner, "start_command", broken)
    with pytest.raises(InputError, match=r"The jail \(\w+\) could not be closed, and nothing was run: OSError"):
        claims["copying-condition"].check_answer(f"{tmp_path}/my.py:margin", jail=tier)
    assert not (tmp_path / "ran").exists()


def test_a_function_of_this_process_has_no_jail() -> None:
    with pytest.raises(InputError, match="A function of this process cannot be put in a jail; name its file"):
        claims["copying-condition"].check_answer(lambda n, eps: 1.0, jail=True)


def test_a_model_is_not_run_without_the_jail_that_was_asked_for(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "model.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    monkeypatch.setattr(jail, "tier_obstacle", lambda tier: "it is switched off")
    with pytest.raises(InputError, match="No jail can be built here, and nothing was run"):
        claims["translator"].check_answer(f"{tmp_path}/model.py:Model", jail=True)
    assert not (tmp_path / "ran").exists()


# the parts


@pytest.mark.skipif(os.getuid() != 0 or not os.path.exists("/usr/bin/python3"), reason="needs root and a second Python")
def test_another_user_from_the_start_where_python_is_open_to_others(tmp_path: Path, monkeypatch) -> None:
    """Bubblewrap as an unprivileged user, with a namespace of users, as it is for everybody who is not root."""
    needed(Tier.BUBBLEWRAP)
    program = os.path.realpath("/usr/bin/python3")
    name = os.path.basename(program)
    packages = this_interpreter().packages
    if name != this_interpreter().name or not all(map(is_world_readable, (program, *packages, jail.__file__))):
        pytest.skip("the system's Python is another version, or NumPy is not open to others")
    shared = tuple(filter(is_world_readable, this_interpreter().shared))
    found = Interpreter(program=program, library=f"/usr/lib/{name}", shared=shared, packages=packages)
    assert found.is_world_readable
    monkeypatch.setattr(jail, "this_interpreter", lambda packages: found)
    assert "--unshare-user" in jail.start_command(Tier.BUBBLEWRAP, memory=2**30, seconds=60).command
    (tmp_path / "who.py").write_text("import os\n\n\ndef margin(n, eps):\n    return os.getuid()\n")
    spec = f"{tmp_path}/who.py"
    with Runner(spec, function="margin", arguments=("n", "eps"), clock=Clock(120), jail=Tier.BUBBLEWRAP) as room:
        assert float(room.call({"n": 2, "eps": 0.5})["array"]) in jail.USERS
        room.lines.waiting += b"early\n"
        with pytest.raises(InputError, match="cannot be checked"):
            room.call({"n": 2, "eps": 0.5})


def test_memory_groups_hold_and_go(tmp_path: Path) -> None:
    group = MemoryGroup(2**27)
    if not group.is_active:
        pytest.skip("no control group can be had here")
    place = group.place
    code = "import sys; sys.stdin.readline(); x = bytearray(2**28); print(len(x))"
    process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    group.add_process(process.pid)
    out, _ = process.communicate(b"go\n")
    assert (out, process.returncode) == (b"", -9)
    assert group.count_memory_kills() == 1
    group.remove()
    assert not place.exists()


def test_memory_groups_end_with_whoever_made_them() -> None:
    """Killed, a judge left its empty groups behind, one for each worker, for ever."""
    probe = MemoryGroup(2**27)
    if not probe.is_active:
        pytest.skip("no control group can be had here")
    probe.remove()
    code = "from regard.sandbox.warm_pool import MemoryGroup\ngroup = MemoryGroup(2**27)\n"
    judge = subprocess.Popen(
        [sys.executable, "-c", f"{code}print(group.place, flush=True)\ninput()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    place = judge.stdout.readline().strip()
    assert Path(place).is_dir()
    judge.kill()
    judge.communicate()
    wait_until(lambda: not Path(place).exists(), f"{place} stays")
    # killed together with the one that waits for its end: the next group takes it away, and leaves those in use alone
    judge = subprocess.Popen(
        [sys.executable, "-c", f"{code}print(group.place, flush=True)\ngroup.remover.kill()\ngroup.remover.wait()"],
        stdout=subprocess.PIPE,
        text=True,
    )
    left = Path(judge.communicate()[0].strip())
    assert left.is_dir()
    one = MemoryGroup(2**27)
    two = MemoryGroup(2**27)
    assert not left.exists()
    assert one.place.is_dir()
    for group in (one, two):
        place = group.place
        group.remove()
        assert not place.exists()


def test_starting_in_a_jail_is_not_much_slower(tier: Tier, tmp_path: Path) -> None:
    """Only that both start: how long it takes is for the benchmarks, on a quiet machine."""
    (tmp_path / "my.py").write_text("def margin(n, eps):\n    return 1.0\n")
    for jailed in (False, tier):
        start = time.monotonic()
        with Runner(f"{tmp_path}/my.py", function="margin", arguments=("n", "eps"), clock=Clock(60), jail=jailed):
            assert time.monotonic() > start


def test_every_file_of_the_inside_is_free_of_us() -> None:
    for name in jail.INSIDE:
        text = (jail.HERE / name).read_text(encoding="utf-8")
        assert "from regard" not in text
        assert "import regard" not in text.replace("import regard_", "")


def test_arrays_travel_exactly_in_a_jail(tier: Tier, tmp_path: Path) -> None:
    (tmp_path / "same.py").write_text("def same(A, x):\n    return A * x\n")
    A = np.random.default_rng(0).standard_normal((3, 5, 2))
    with Runner(f"{tmp_path}/same.py", function="same", arguments=("A", "x"), clock=Clock(120), jail=tier) as room:
        assert np.array_equal(room.call({"A": A, "x": 1})["array"], A)


# the pool


def room(code: bytes, tier: Tier, *, limit: float = 120) -> Runner:
    return Runner("my.py", function="f", arguments=("x",), clock=Clock(limit), jail=tier, code=code)


def test_a_pool_makes_one_process_after_the_other(tier: Tier) -> None:
    code = b"import sys\n\nSEEN = hasattr(sys, 'mark')\nsys.mark = 1\n\n\ndef f(x):\n    return float(SEEN)\n"
    pools = []
    with keep_warm():
        for _ in range(3):
            with room(code, tier) as one:
                assert one.call({"x": 1.0})["array"] == 0.0  # nothing of the one before
                pools.append(one.process.pool)
        assert len(set(pools)) == 1
        assert pools[0].process.poll() is None
    assert pools[0].process.poll() is not None


def test_a_pool_that_is_gone_is_replaced(tier: Tier) -> None:
    with keep_warm():
        with room(b"def f(x):\n    return 1.0\n", tier) as one:
            first = one.process.pool
        first.process.kill()
        first.process.wait()
        with room(b"def f(x):\n    return 1.0\n", tier) as one:
            assert one.call({"x": 1.0})["array"] == 1.0
            assert one.process.pool is not first


def test_without_a_pool_kept_nothing_stays(tier: Tier, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warm_pool, "_warm", None)
    with room(b"def f(x):\n    return 1.0\n", tier) as one:
        kept = one.process.pool
    assert kept.process.poll() is not None


def test_an_interpreter_that_does_not_start_is_no_fault_of_the_answer(
    tier: Tier, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = runner.start_command

    def broken(*words, **more):
        return dataclasses.replace(begun(*words, **more), command=("/bin/sh", "-c", "echo no memory >&2; exit 3"))

    monkeypatch.setattr(runner, "start_command", broken)
    with (
        pytest.raises(runner.SandboxStartError, match=r"Python could not be started in a jail .*: no memory\."),
        room(b"", tier),
    ):
        pass


def test_an_answer_that_takes_all_memory_ends_alone(tier: Tier, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its jail has 128 MB: the kernel ends the answer, not the pool, and the next one is not told of it."""
    probe = MemoryGroup(2**27)
    held = probe.is_active
    probe.remove()
    if not held:
        pytest.skip("no control group can be had here")
    monkeypatch.setattr(warm_pool, "OWN_MEMORY", 2**27 - runner.MEMORY[tier])
    greedy = b"def f(x):\n    return float(len(b'1' * 2**29))\n"
    with keep_warm():
        with room(greedy, tier) as one:
            first = one.process.pool
            with pytest.raises(InputError, match=r"took more memory than it may in one call of f, and was ended"):
                one.call({"x": 1.0})
        for _ in range(2):
            with room(b"import os\n\n\ndef f(x):\n    os._exit(7)\n", tier) as one:
                assert one.process.pool is first
                with pytest.raises(InputError, match="left the process with code 7"):
                    one.call({"x": 1.0})


@pytest.mark.slow
def test_what_one_kind_of_answer_needs_is_not_loaded_for_another(tier: Tier) -> None:
    start = jail.start_command(tier, memory=2**30, seconds=60)
    with keep_warm():
        with_more, without = (
            warm_pool.borrow(start, imports=names, memory=2**30, seconds=60) for names in (("wave",), ())
        )
        assert with_more.pool is not without.pool
        for one in (with_more, without):
            one.end()
            for pipe in one.pipes:
                pipe.close()
