"""What holds for every test: the same examples each time, a command as a person types it, no quiet skip in CI."""

from __future__ import annotations

import io
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# Hypothesis draws the same examples on every machine: a fresh clone is never red by luck. `make fuzz` draws others.
# How long an example took to draw is the machine's load and no fault.
UNHURRIED = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("same", derandomize=True, **UNHURRIED)
settings.register_profile("fuzz", max_examples=2000, **UNHURRIED)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))

# A run in the background of a shell (nohup, a CI service) hands down that Ctrl-C and hanging up are ignored; what tests
# start must hear both.
for heard, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(heard) is signal.SIG_IGN:
        signal.signal(heard, usual)

# Reasons that stay true on the best equipped machine. Anything else, a missing browser first, fails in CI.
HONEST_SKIPS = re.compile(
    r"root may read|2 x 2 pivots|../shared/data|gt.all.minilm|the package with the real embedding|AVX-?512"
    # what a container's host gives or keeps, and no installation brings
    r"|no control group can be had|the system's Python is another version|needs root and a second Python"
)

collect_ignore = ["regard/tests/fixtures"]  # files of earlier versions, Python among them, and no tests
EXTRAS = {  # the package, and how its absence is told
    "torch": r"No module named 'torch'|(needs|and|,) torch\b.* not installed|No package metadata was found for torch",
    "regard_models": r"No module named 'regard_models'|needs regard-models, which is not installed",
}
LONGEST = "test_every_line_runs_in_an_empty_folder"  # minutes


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What drives a real browser is in the slow tier: `make check` and CI run it, `make test` stays short."""
    for item in items:
        if "browser" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.slow)
    items.sort(key=lambda item: LONGEST not in item.name)  # first, so that no core waits for it at the end


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    return honest(without_extras((yield), str(item.path)))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Iterator[None]:
    report = yield  # of a whole file, which may be passed over because a package is missing
    return honest(without_extras(report, str(collector.path)))


def without_extras(report: Any, path: str) -> Any:
    """The report; what failed for want of torch or of regard-models, where they are not installed, was passed over.

    So regard is tested alone, and on a Python for which there is no torch (`make soak`).
    """
    for package, missing in EXTRAS.items():
        if report.failed and find_spec(package) is None and re.search(missing, str(report.longrepr)):
            report.outcome, report.longrepr = "skipped", (path, 0, f"{package} is not installed")
    return report


def honest(report: Any) -> Any:
    """The report; in CI that of a skipped test says that it failed, unless its reason is an honest one."""
    if report.skipped and not hasattr(report, "wasxfail") and os.environ.get("CI") == "true":
        reason = str(report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr)
        if not HONEST_SKIPS.search(reason):
            report.outcome = "failed"
            report.longrepr = f"skipped in CI, where everything is installed: {reason}"
    return report


@pytest.fixture
def regard(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Run a command line; gives the exit code, standard output and standard error, in which no traceback ever is."""

    def run(*words: object, stdin: bytes | None = None) -> tuple[int, str, str]:
        from regard.cli import main  # not above: some tests watch what a first import of the package loads

        monkeypatch.setattr(sys, "argv", ["regard", *map(str, words)])
        if stdin is not None:
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        with pytest.raises(SystemExit) as left:
            main()
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return int(left.value.code or 0), out, err

    return run
