"""The wheels and the sdists of both distributions: built, looked into, and regard's wheel installed alone."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGES = ROOT / "packages"
# What a person without extras can do at once, and the sentence that a verb with extras must say instead of a traceback.
WORKS = [["--version"], ["design", "copy", "example:square", "0", "--eps", "0.1"], ["claims"]]
REFUSED = [
    ["translator", "train", "--out", "run"],
    ["translator", "translate", "example", "ein Hund"],
    ["model", "audit", "my.py:build"],  # another distribution
    ["lab"],
]


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        built = [
            build(package, Path(folder) / "dist" / package.name)
            for package in sorted(path.parent for path in PACKAGES.glob("*/pyproject.toml"))
        ]
        python = clean_environment(Path(folder) / "environment", built[0])
        for words in WORKS:
            run(str(python), "-m", "regard", *words, cwd=folder)
        for words in REFUSED:
            check_refusal(python, words, folder)
    print(f"{' and '.join(wheel.name for wheel in built)}, with their sdists: built and checked; the first installed")


def build(package: Path, dist: Path) -> Path:
    """The wheel of a distribution; it and the sdist are looked into."""
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", str(dist), str(package))
    (wheel,), (sdist,) = dist.glob("*.whl"), dist.glob("*.tar.gz")
    check_contents(package, wheel, sdist)
    return wheel


def check_contents(package: Path, wheel: Path, sdist: Path) -> None:
    """Everything that the package reads at run time is in the wheel; the tests are in the sdist alone."""
    inside = set(zipfile.ZipFile(wheel).namelist())
    source = package / "src"
    tracked = run("git", "-C", str(ROOT), "ls-files", str(source), output=True).split()
    missing = sorted(name for name in tracked if str((ROOT / name).relative_to(source)) not in inside)
    if missing:
        sys.exit(f"{wheel.name} lacks {', '.join(missing[:5])}")
    with tarfile.open(sdist) as packed:
        names = packed.getnames()
    if not any("/tests/" in name for name in names):
        sys.exit(f"{sdist.name} lacks the tests")


def clean_environment(folder: Path, wheel: Path) -> Path:
    """An interpreter that has the wheel and its core dependencies, in the lock file's versions, and nothing else."""
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    lock = folder / "versions.txt"
    pins = [
        line.split()[0]
        for line in (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines()
        if "==" in line
    ]
    lock.write_text("\n".join(pins), encoding="utf-8")
    run(str(python), "-m", "pip", "install", "--quiet", "-c", str(lock), str(wheel))
    return python


def check_refusal(python: Path, words: list[str], folder: str) -> None:
    done = subprocess.run(
        [python, "-m", "regard", *words], cwd=folder, capture_output=True, text=True, check=False, env=bare()
    )
    if done.returncode != 2 or "Traceback" in done.stderr or "pip install" not in done.stderr:
        sys.exit(f"regard {' '.join(words)} on the core alone: exit {done.returncode}\n{done.stderr}")


def run(*command: str, cwd: str | None = None, output: bool = False) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False, env=bare())
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout if output else ""


def bare() -> dict[str, str]:
    """The environment without a path to our own sources."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


if __name__ == "__main__":
    main()
