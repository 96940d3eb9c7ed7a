"""docs/coursework-items.md: every item of the five sets has a command, and each of these commands is run."""

from __future__ import annotations

import io
import re
import shlex
import shutil
from pathlib import Path

import pytest

from regard.coursework.catalogue import claims
from regard.coursework.problem_sets import SETS
from regard.grading.assignments.problem_sets import new_assignment
from test_docs import ROOT

PAGE = (ROOT / "docs" / "coursework-items.md").read_text(encoding="utf-8")
SOURCE = ROOT / "packages" / "regard" / "src" / "regard"
ROW = re.compile(r"^\| (\d+) \| (.+?) \| `regard (.+?)` \| (yes|no) \|$", re.MULTILINE)
PARTS = dict(
    zip(re.findall(r"^## (.+)$", PAGE, re.MULTILINE), re.split(r"^## .+$", PAGE, flags=re.MULTILINE)[1:], strict=True)
)


def test_the_list_is_whole() -> None:
    """93 items, numbered; every label of every set is among them, and every one that wants words can be written to."""
    assert [int(number) for number, *_ in ROW.findall(PAGE)] == list(range(1, 94))
    assert list(PARTS) == list(SETS)
    for name, text in PARTS.items():
        rows = ROW.findall(text)
        for one in SETS[name].questions:
            said = [command for _, item, command, _ in rows if item.startswith(f"{one.label}:")]
            assert said, one.label
            if one.form == "words":
                assert [command for command in said if "--words" in command], one.label
            if one.form == "proof":
                assert [command for command in said if "--derivation" in command], one.label
            if one.form == "construction":
                assert [command for command in said if "--answer" in command], one.label


def claim_of(words: list[str]) -> str:
    """The claim that a command line is about."""
    if words[0] in SETS:
        option = "--answer" if "--answer" in words else "--derivation"
        chosen = claims.of(words[0], " ".join(words[1 : words.index(option)]))
        return chosen.only_claim("it", checkable=option == "--answer").name
    return words[0]


def prepare(words: list[str]) -> str:
    """The files that a student or a teacher would have by then; what is typed at the command."""
    if "--words" in words:
        Path("mine.txt").unlink(missing_ok=True)
        return "An answer of mine.\n\n" + "y\n" * 12
    if "--answer" in words:
        claim = claim_of(words[1:])
        text = (
            SOURCE / "grading" / "solutions" / ("transformer.py" if claim == "translator" else "right.py")
        ).read_text()
        function = words[words.index("--answer") + 1].partition(":")[2]
        named = f"\n{function} = {claim.replace('-', '_')}\n" if claim != "translator" else ""
        Path("my.py").write_text(text + named)
    if "--derivation" in words:
        shutil.copy(SOURCE / "coursework" / "derivations" / "proofs" / f"{claim_of(words[1:])}.md", "proof.md")
    if words[0] == "grade" or "hand-in" in words:
        new_assignment(Path(next(word for word in words if word.endswith(".toml"))).stem)
        Path("pile/ada").mkdir(parents=True, exist_ok=True)
        Path("pile/ada/written.pdf").write_bytes(b"%PDF-1.4")
        Path("mine").mkdir(exist_ok=True)
        Path("mine/words.md").write_text("## 1A.i\nBecause.\n")
        Path("secret.txt").write_text("a secret of sixteen")
    return ""


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.parametrize("name", SETS)
def test_every_item_works(name: str, regard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    wrong = []
    for number, item, command, ends in ROW.findall(PARTS[name]):
        words = shlex.split(command)
        monkeypatch.setattr("sys.stdin", io.StringIO(prepare(words)))
        code, out, err = regard(*words)
        if code != (ends == "no") or not out.strip():
            wrong.append(f"{number}, {item}: regard {command} ended with {code}: {(out + err)[-300:]}")
    assert not wrong, "\n".join(wrong)
