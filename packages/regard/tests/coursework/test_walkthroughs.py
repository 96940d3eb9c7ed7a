"""The walkthroughs: every question of every set, in order, answered with examples that run; and without answers."""

from __future__ import annotations

import doctest
import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from regard.coursework import checklists
from regard.coursework.catalogue import claims
from regard.coursework.problem_sets import SETS
from regard.coursework.verdict import Status
from test_docs import FLAGS, ROOT, console_examples

DOCS = ROOT / "docs"
ANSWERS = sorted((DOCS / "answers").glob("*.md"))
PAGES = {name: DOCS / f"walkthrough-{name}.md" for name in SETS}
SECTION = re.compile(r"^### ([^\n]*)\n(.*?)(?=^##|\Z)", flags=re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def hook() -> ModuleType:
    """docs/_answers.py, which is no package."""
    spec = importlib.util.spec_from_file_location("_answers", DOCS / "_answers.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def sections(name: str, hook: ModuleType) -> list[tuple[str, str, list[str]]]:
    """Heading, text and claims of each question."""
    found = SECTION.findall(PAGES[name].read_text(encoding="utf-8"))
    return [(heading, text, hook.LINK.findall(text)) for heading, text in found]


def labels(name: str) -> dict[str, str]:
    """Where in a set its claims are."""
    return {claim.name: source.where for claim in claims.values() for source in claim.sources if source.name == name}


# complete and in order


@pytest.mark.parametrize("name", SETS)
def test_every_question_of_the_set_is_there(name: str, hook: ModuleType) -> None:
    answered = [claim for _, _, names in sections(name, hook) for claim in names]
    assert sorted(answered) == sorted(labels(name))


@pytest.mark.parametrize("name", SETS)
def test_a_question_is_under_its_own_heading(name: str, hook: ModuleType) -> None:
    wanted = labels(name)
    for heading, _, names in sections(name, hook):
        for claim in names:
            assert heading.startswith(wanted[claim]), f"{claim}, {wanted[claim]}: {heading}"


ORDER = {
    "sequence-models-hw3": ["3(a)i", "3(a)ii", "3(b)", "3(c)", "Figure 1", "4(a)", "4(a), c", "4(b)i", "4(b)ii"],
    "cs224n-w25-a4": ["1-1", "1-2", "1-3i", "1-3ii", "1-4i", "1-4ii", "1-5", "2-1i", "2-1ii", "2-2i", "2-2ii"],
    "self-attention-written": ["(a)i", "(a)ii", "(a)iii", "(b)i", "(b)ii", "Footnote 2", "(c), f", "(c)i", "(c)ii",
                               "Figure 1", "(d)i", "(d)ii"],
    "cse151b-hw4": ["1A.i", "1A.ii", "1A.iii", "1B.i.", "1B.i, its hint", "1B.ii", "Figure 1", "2 and 2A", "2B"],
    "attention-position-svd": ["Attention (a)", "Attention (b)", "Attention (b), a", "Attention (c)", "Attention (d)",
                               "Position (a)", "Position (b)", "SVD (a)", "SVD (b)", "SVD (c)"],
}  # fmt: skip


@pytest.mark.parametrize("name", SETS)
def test_questions_are_in_the_order_of_the_set(name: str, hook: ModuleType) -> None:
    headings = [heading for heading, _, _ in sections(name, hook)]
    assert len(headings) == len(ORDER[name])
    for heading, label in zip(headings, ORDER[name], strict=True):
        assert heading.startswith(label), heading


@pytest.mark.parametrize("name", SETS)
def test_every_question_has_a_statement_and_a_hint_before_its_answer(name: str, hook: ModuleType) -> None:
    for heading, text, names in sections(name, hook):
        statement, fold, rest = text.partition('<details class="tip" markdown>\n<summary>Hint</summary>')
        assert fold, heading
        assert len(statement.split()) >= 5, heading
        hint, _, answers = rest.partition("</details>")
        assert len(hint.split()) >= 5, heading
        assert hook.LINK.findall(answers) == names, heading
        assert names, heading


def test_no_answer_is_without_a_question(hook: ModuleType) -> None:
    linked = {claim for name in SETS for _, _, names in sections(name, hook) for claim in names}
    assert linked == {path.stem for path in ANSWERS} == set(claims)


def test_pages_name_sets_not_codes() -> None:
    for path in [*PAGES.values(), *ANSWERS, DOCS / "claims.md"]:
        assert not re.search(r"\b(?:set|sets) [A-E]\b", path.read_text(encoding="utf-8")), path.name


@pytest.mark.parametrize("name", SETS)
def test_the_raw_page_says_how_to_check_every_answer(name: str, hook: ModuleType) -> None:
    """Whoever reads the Markdown itself finds the commands; each works, and stands above our answer."""
    for heading, text, names in sections(name, hook):
        for claim in names:
            before = text.partition(f"[Our answer](answers/{claim}.md)")[0]
            if not claims[claim].is_checkable:
                assert f"regard claims {claim} " not in before, heading
                continue
            asked = f"`regard claims {claim} --answer my.py:{claims[claim].function}`"
            assert f"Check yours: {asked}\n" in before, heading


@pytest.mark.parametrize("name", SETS)
def test_every_question_says_where_its_checklist_is(name: str, hook: ModuleType) -> None:
    lines = hook.COMPLETE.findall(PAGES[name].read_text(encoding="utf-8"))
    asked = [one for line in lines for one in hook.QUESTION.findall(line)]
    assert [SETS[name].label(question) for _, question in asked] == list(SETS[name].labels)
    assert {where for where, _ in asked} == {name}


# true


@pytest.mark.parametrize("path", ANSWERS, ids=lambda path: path.stem)
def test_examples_run(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = path.read_text(encoding="utf-8").replace("```\n", "\n")
    test = doctest.DocTestParser().get_doctest(text, {}, path.name, str(path), 0)
    assert test.examples or path.stem == "heads-summary", "an answer has a line that reproduces it"
    runner, complaints = doctest.DocTestRunner(optionflags=FLAGS), []
    runner.run(test, out=complaints.append)
    assert not runner.failures, "".join(complaints)
    assert not console_examples(text), "console examples of answers would not be run; use Python"


@pytest.mark.parametrize("path", ANSWERS, ids=lambda path: path.stem)
def test_pictures_and_commands_exist(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    pictures = re.findall(r"!\[(.+?)\]\((.*?)\)", text)
    assert pictures
    assert all((path.parent / file).is_file() and len(said) > 20 for said, file in pictures)
    for name, settings in re.findall(r"`regard claims ([a-z-]+) --check((?: --set \w+=[\d.]+)*)`", text):
        given = dict(re.findall(r"--set (\w+)=([\d.]+)", settings))
        assert claims[name].check(**given).status is Status.REFUTED  # they show a statement that was bent


@pytest.mark.slow
@pytest.mark.nightly
def test_the_answers_say_what_the_claims_say(hook: ModuleType) -> None:
    """A claim that is refuted by its own reading is said to be; the others are not."""
    for path in ANSWERS:
        said = "**Refuted" in (text := path.read_text(encoding="utf-8")) or "does not." in text.split("\n")[0]
        assert said == (claims[path.stem].check().status is Status.REFUTED), path.stem


# with and without answers


@pytest.mark.slow
def test_answers_are_folded_into_the_page(hook: ModuleType) -> None:
    page = PAGES["attention-position-svd"].read_text(encoding="utf-8")
    whole = hook.with_answers(page)
    assert whole.count('<details class="success answer" markdown>') == 10
    assert whole.count("<details") == whole.count("</details>")
    assert "](answers/" not in whole
    assert "](../" not in whole
    assert "<strong>REFUTED</strong>" in whole
    assert "regard claims the-bisector --answer my.py:query" in whole


@pytest.mark.parametrize("name", SETS)
def test_nothing_of_an_answer_is_left(name: str, hook: ModuleType) -> None:
    page = PAGES[name].read_text(encoding="utf-8")
    bare = hook.without_answers(page)
    assert "answers/" not in bare
    assert 'class="success answer"' not in bare
    assert "<strong>" not in bare
    assert bare.count("<summary>Hint</summary>") == page.count("<summary>Hint</summary>")
    for path in ANSWERS:
        lines = [line for line in path.read_text(encoding="utf-8").splitlines() if len(line) > 60]
        assert lines
        assert not [line for line in lines if line in bare], path.stem


@pytest.mark.slow
@pytest.mark.nightly
def test_what_earns_the_marks_stands_before_the_finer_points(hook: ModuleType) -> None:
    """A set that exempts the backward draws reads its own verdict first, and the published solution comes last."""
    whole = hook.with_answers(PAGES["self-attention-written"].read_text(encoding="utf-8"))
    section = whole[whole.index("### (d)ii") :]
    assert section.index("An answer that earns the marks") < section.index("finer points: two-heads-steady")
    assert section.index("<strong>HOLDS</strong>") < section.index("<strong>REFUTED</strong>")
    assert "sentence by sentence" not in whole
    page = PAGES["cs224n-w25-a4"].read_text(encoding="utf-8")
    whole = hook.with_answers(page)
    assert whole.count("<summary>The published solution, sentence by sentence</summary>") == 11
    assert whole.count("<strong>false</strong>") == 2
    assert "sentence by sentence" not in hook.without_answers(page)
    assert "earns the marks" not in hook.without_answers(page)


def test_a_hint_asks_for_nothing_that_the_question_forbids(hook: ModuleType) -> None:
    (text,) = [text for heading, text, _ in sections("sequence-models-hw3", hook) if heading.startswith("3(c)")]
    hint = text.partition("<summary>Hint</summary>")[2].partition("</details>")[0]
    assert not re.search("varian|deviation|distribution", hint)


@pytest.mark.parametrize("name", SETS)
def test_a_checklist_is_on_the_page_and_its_keys_only_with_answers(name: str, hook: ModuleType) -> None:
    page = PAGES[name].read_text(encoding="utf-8")
    whole, bare = hook.with_answers(page), hook.without_answers(page)
    for label in SETS[name].labels:
        for item in checklists.of(name, label).items:
            text, key = hook.pretty(item.text), hook.pretty(item.key)
            assert f"☐ {text} (" in bare
            assert f"☐ {text} (" in whole
            assert f"<li>{key}</li>" in whole
            assert f"<li>{key}</li>" not in bare
    assert "Check yours: `" not in whole + bare  # a fold says it there


def test_sets_with_other_premises_have_their_own_verdicts_on_the_page(hook: ModuleType) -> None:
    said = hook.verdicts("two-heads-steady")
    assert "self-attention-written, (d)ii</td>" in said
    assert said.count("<tr>") == 1 + 4 + 1 + 2
    assert "Verdict for it" not in hook.verdicts("copying-output")


def test_findings_are_answers_too(hook: ModuleType) -> None:
    page = (DOCS / "claims.md").read_text(encoding="utf-8")
    assert "## What was found" in hook.with_answers(page)
    bare = hook.without_answers(page)
    assert "## What was found" not in bare
    assert "irrational" not in bare
    assert "## Adding a claim" in bare


@pytest.mark.parametrize(("said", "expected"), [("no", False), ("NO", False), ("0", False), ("yes", True), ("", True)])
def test_the_switch(hook: ModuleType, monkeypatch: pytest.MonkeyPatch, said: str, expected: bool) -> None:
    monkeypatch.setenv("ANSWERS", said)
    assert hook.wanted() is expected
    page = "## Q\n\n[Our answer](answers/heads-summary.md)\n"
    assert ("the finer points: heads-summary" in hook.on_page_markdown(page)) is expected


def test_formulas_become_mathematics_with_their_signs_explained(hook: ModuleType) -> None:
    said = hook.pretty("So $alpha_j >= e^(-s_j)$, see `--set eps=0.1` & two-heads")
    assert said.startswith('So <span title="α: alpha, a weight')
    assert "<msub><mi>&#x003B1;</mi><mrow><mi>j</mi></mrow></msub><mo>&#x02265;</mo>" in said
    assert said.endswith("</math></span>, see <code>--set eps=0.1</code> &amp; two-heads")
    assert hook.pretty("log_weights, two-heads, copying") == "log_weights, two-heads, copying"


@pytest.mark.parametrize("claim", claims)
def test_no_formula_in_plain_letters_is_left_on_a_page(claim: str, hook: ModuleType) -> None:
    prose = re.sub(
        r"<math.*?</math>|<code>.*?</code>|<[^>]*>", "", hook.proof(claim) + hook.verdicts(claim), flags=re.DOTALL
    )
    assert not re.search(r"\|\||sqrt|&lt;=|&gt;=|-&gt;|!=|\b(alpha|eps|sigma|mu)\b|\w\^", prose), prose


BUILD = """
site_name: both ways
docs_dir: {docs}
site_dir: {site}
theme: {{name: null, custom_dir: {theme}}}
hooks: [{hook}]
plugins: []
markdown_extensions: [md_in_html, pymdownx.superfences]
exclude_docs: answers/
"""


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.parametrize("answers", ["yes", "no"])
def test_the_site_builds_both_ways(answers: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config, build = pytest.importorskip("mkdocs.config"), pytest.importorskip("mkdocs.commands.build")
    docs, theme = tmp_path / "docs", tmp_path / "theme"
    (docs / "pictures").mkdir(parents=True)
    theme.mkdir()
    (theme / "main.html").write_text("{{ page.content }}", encoding="utf-8")
    page = PAGES["attention-position-svd"]
    (docs / "index.md").write_text(page.read_text(encoding="utf-8"), encoding="utf-8")
    for picture in (DOCS / "pictures").glob("claim-singular-*.svg"):
        (docs / "pictures" / picture.name).write_bytes(picture.read_bytes())
    written = BUILD.format(docs=docs, site=tmp_path / "site", theme=theme, hook=DOCS / "_answers.py")
    (tmp_path / "mkdocs.yml").write_text(written, encoding="utf-8")
    monkeypatch.setenv("ANSWERS", answers)
    monkeypatch.setenv("NO_MKDOCS_2_WARNING", "1")
    build.build(config.load_config(str(tmp_path / "mkdocs.yml")))
    html = (tmp_path / "site" / "index.html").read_text(encoding="utf-8")
    assert ("Our answer" in html) is (answers == "yes")
    assert ("drop out" in html) is (answers == "yes")
    assert bool(list((tmp_path / "site" / "pictures").glob("claim-*"))) is (answers == "yes")


def test_pages_about_the_claims_keep_quiet_without_answers(hook: ModuleType) -> None:
    """Their worked examples are answers too."""
    told = {
        "claims.md": "on key 1 when c = 1/2",
        "your-answer.md": "keys[a] + keys[b]",
        "teaching.md": "100 REFUTED",
    }
    for name, telling in told.items():
        page = (DOCS / name).read_text(encoding="utf-8")
        quiet = hook.without_answers(page)
        assert telling in page
        assert telling not in quiet
        assert "REFUTED (with" not in quiet
        assert "<!--" not in quiet
        assert "## " in quiet


def test_the_example_of_the_docs_is_a_claim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """docs/claims.md shows how to add a claim: its one file is all that it takes."""
    import regard.coursework.claims as folder

    blocks = re.findall(r"```python\n(.*?)```", (DOCS / "claims.md").read_text(encoding="utf-8"), flags=re.DOTALL)
    (code,) = [block for block in blocks if "less-than-all" in block]
    (tmp_path / "less_than_all.py").write_text(code, encoding="utf-8")
    monkeypatch.setattr(folder, "__path__", [*folder.__path__, str(tmp_path)])
    try:
        claim = claims["less-than-all"]
        assert claim.check().status is Status.HOLDS
        assert claim.check(n=1).status is Status.REFUTED
        assert "less-than-all" in str(claims.listing())
        claim.plot(tmp_path / "picture.svg")
        assert "9 are positive" in claim.proof().text
    finally:
        monkeypatch.undo()
        sys.modules.pop("regard.coursework.claims.less_than_all", None)


def test_the_readme_has_a_row_for_every_set() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for one in SETS.values():
        (row,) = [line for line in text.splitlines() if line.startswith(f"| `{one.name}` |")]
        assert f"| {one.title} | {one.term}".rstrip() in row
        assert f"](docs/{one.walkthrough})" in row
        assert f"[{one.name}]({one.walkthrough}): {one}\n" in (DOCS / "claims.md").read_text(encoding="utf-8")
