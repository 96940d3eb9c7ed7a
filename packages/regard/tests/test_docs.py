"""Every example in the README and the docs is run: Python sessions as doctests, console blocks as commands."""

from __future__ import annotations

import doctest
import re
import shlex
import sys
import warnings
from pathlib import Path

import pytest

from places import ROOT
from regard.cli import main

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "docs" / "howto").glob("*.md"))]
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_python_examples(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = page.read_text(encoding="utf-8").replace("```\n", "\n")  # a fence is not output
    test = doctest.DocTestParser().get_doctest(text, {}, page.name, str(page), 0)
    runner = doctest.DocTestRunner(optionflags=FLAGS)
    complaints: list[str] = []
    runner.run(test, out=complaints.append)
    assert not runner.failures, "".join(complaints)


# the page that grades a class, in jails, takes longest
SLOW = [pytest.param(page, marks=pytest.mark.slow) if page.name == "grading.md" else page for page in PAGES]


@pytest.mark.parametrize("page", SLOW, ids=[page.relative_to(ROOT).as_posix() for page in PAGES])
def test_console_examples(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    for command, expected in console_examples(page.read_text(encoding="utf-8")):
        words = shlex.split(command, comments=True)
        assert words[0] == "regard", f"{page.name}: {command}"
        monkeypatch.setattr(sys, "argv", words)
        with warnings.catch_warnings():
            warnings.simplefilter("default")  # as in a process of its own
            with pytest.raises(SystemExit):
                main()
        said = capfd.readouterr()
        matches = doctest.OutputChecker().check_output(expected, said.out, FLAGS)
        assert matches, f"{page.name}: $ {command}\nexpected:\n{expected}\ngot:\n{said.out}\n{said.err}"


def console_examples(text: str) -> list[tuple[str, str]]:
    """(command, expected output) of every line that starts with a dollar in a console block."""
    examples = []
    for block in re.findall(r"```console\n(.*?)```", text, flags=re.DOTALL):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, expected = part.partition("\n")
            examples.append((command, expected))
    return examples


def test_the_runner_sees_a_wrong_example() -> None:
    assert console_examples("```console\n$ regard --version\n9.9\n```") == [("regard --version", "9.9\n")]
    assert not doctest.OutputChecker().check_output("9.9\n", "0.1.0\n", FLAGS)


def test_every_paper_on_the_list_is_cited_somewhere() -> None:
    listed = re.findall(
        r"^- \*\*(\w+)\*\*", (ROOT / "docs" / "references.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    sources = [*(ROOT / "docs").glob("*.md"), *(ROOT / "packages").glob("*/src/**/*.py")]
    text = "\n".join(page.read_text(encoding="utf-8") for page in sources if page.name != "references.md")
    assert len(listed) > 10
    assert [paper for paper in listed if paper not in text] == []


def test_the_readme_leads_to_pages_that_can_be_read_as_they_are() -> None:
    """A viewer of plain Markdown knows neither boxes, nor \\(...\\), nor what the site puts in."""
    links = re.findall(r"\]\((docs/[\w/.-]+\.md)", PAGES[0].read_text(encoding="utf-8"))
    assert len(links) > 15
    for link in links:
        assert not re.findall(
            r"^ *(?:!!!|\?\?\?|:::|--8<--).*|\\[(\[]", (ROOT / link).read_text(encoding="utf-8"), re.MULTILINE
        ), link


@pytest.mark.parametrize("page", sorted((ROOT / "docs" / "howto").glob("*-*.md")), ids=lambda page: page.stem)
def test_a_page_of_a_job_begins_with_its_command_and_ends_with_what_can_go_wrong(page: Path) -> None:
    title, _, rest = page.read_text(encoding="utf-8").partition("\n\n")
    assert title.startswith("# ")
    assert rest.startswith("```bash\n")
    assert re.findall(r"^## (.+)", rest, re.MULTILINE)[-1:] == ["What can go wrong"]
