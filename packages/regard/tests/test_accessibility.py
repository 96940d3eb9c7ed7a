"""axe, which `make check-javascript` brings, finds nothing on the lab's pages, a class's and the desk."""

from __future__ import annotations

import threading
from dataclasses import replace
from importlib.util import find_spec

import pytest

from lab_browser import browser, lab  # noqa: F401
from places import ROOT
from processes import PATIENCE
from regard.grading.assignments.assignment_file import read_assignment
from regard.grading.assignments.problem_sets import write_example
from regard.grading.gradebook.grader import grade, pile_of
from regard.grading.gradebook.secret import Secret
from regard.grading.questions.assignment import Limits
from regard.grading.reports.grades_folder import Desk, write_marks
from regard.grading.submissions.students import read_students
from regard.grading.submissions.submission import read_submissions
from regard.lab.offline_copy import export, single_file_page
from regard.lab.page import pages
from regard.sandbox.jail import Tier

AXE = ROOT / "tools" / "node_modules" / "axe-core" / "axe.min.js"
RULES = {"resultTypes": ["violations"], "rules": {"target-size": {"enabled": True}}}
SIZES = [(390, "light"), (1280, "dark")]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not AXE.exists(), reason="axe is not installed: make check-javascript"),
]


def violations(browser, address, *, enter=None, ready="body", sizes=SIZES, unfold=False):  # noqa: F811
    """What axe finds on a page at two widths, one of them dark; ``unfold``: with all that is folded opened."""
    found = []
    for width, theme in sizes:
        # the pages' own policy lets no script in: that of the test comes from outside
        context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=theme, bypass_csp=True, reduced_motion="reduce"
        )
        context.set_default_timeout(PATIENCE * 1000)
        page = context.new_page()
        if enter:
            page.goto(enter)
        page.goto(address)
        page.wait_for_selector(ready)
        if unfold:
            page.evaluate("document.querySelectorAll('details').forEach((one) => (one.open = true))")
        page.evaluate(AXE.read_text(encoding="utf-8"))
        for one in page.evaluate("(rules) => axe.run(document, rules)", RULES)["violations"]:
            found += [f"{width} {theme}: {one['id']}: {node['html'][:200]}" for node in one["nodes"]]
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        context.close()
    return found


ANSWERED = "body[data-busy=no]:not([data-running=yes])"


@pytest.mark.parametrize("name", [name for name in pages() if name != "models" or find_spec("torch")])
def test_a_page_of_the_lab(lab, browser, name):  # noqa: F811
    assert violations(browser, lab.address + name, enter=lab.opening_address, ready=ANSWERED) == []


def test_a_page_that_is_not_there_and_one_without_the_pass(lab, browser):  # noqa: F811
    assert violations(browser, lab.address + "nothing", enter=lab.opening_address) == []
    assert violations(browser, lab.address) == []


def test_a_copy_without_python(browser, tmp_path):  # noqa: F811
    file = tmp_path / "copy.html"
    file.write_text(single_file_page("copy", {}), encoding="utf-8")
    assert violations(browser, file.as_uri(), ready=ANSWERED) == []
    export(tmp_path / "out", pages=["rank"])
    assert violations(browser, (tmp_path / "out" / "index.html").as_uri()) == []
    card = (tmp_path / "out" / "rank.html").as_uri() + "#rank=4#tour-rank"
    assert violations(browser, card, ready="#tour summary", unfold=True) == []


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    """The example class, graded without a jail: the answers are ours."""
    place = tmp_path_factory.mktemp("class")
    write_example(str(place / "week"))
    students = read_students(place / "week" / "students.csv")
    pile = pile_of(
        replace(read_assignment(place / "week" / "hw.toml"), limits=Limits(instances=5, moves=0)),
        read_submissions([str(place / "week" / "submissions")], students=students),
        secret=Secret(b"s" * 32),
        students=students,
    )
    folder = place / "grades"
    write_marks(folder, pile, grade(pile, folder, jail=Tier.NONE, workers=1))
    with Desk(pile, folder, jail=Tier.NONE, port=0) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        yield server, folder
        server.shutdown()


def test_the_pages_of_a_class_and_the_desk(desk, browser):  # noqa: F811
    server, folder = desk
    files = [folder / "class.html", folder / "marking.html", *sorted((folder / "students").glob("*.html"))[:3]]
    for file in files:
        assert violations(browser, file.as_uri()) == []
    assert violations(browser, server.address, enter=server.opening_address) == []
