"""The house rules that a reader relies on: imports point downwards, nothing heavy is imported before it is needed."""

from __future__ import annotations

import ast
import importlib.util
import os
import re
import subprocess
import sys
from functools import cache
from importlib.metadata import version

import pytest

import regard
from places import ROOT, SOURCE
from tools.rooms import is_bare_participle

HOME, MODELS = SOURCE, ROOT / "packages" / "regard-models" / "src" / "regard_models"
FILES = sorted([*HOME.rglob("*.py"), *MODELS.rglob("*.py")])

# The floors, from the ground up: a file imports from its own floor's neighbours (see below) and from lower floors only.
GROUND = {
    *("errors", "extras", "results", "formats", "examples", "arrays", "array_types", "attention", "layers"),
    *("files", "latex", "markup", "notation", "pictures", "progress", "rigor", "toml"),
    *("torch_arithmetic", "declared_tables", "python_files", "strict_json", "terminal", "written_numbers"),
}
IDEAS = {"design", "noise", "positions", "symmetry", "lowrank", "subspace"}  # may use the ground, not one another
UPPER = ("tracing", "mistakes", "sandbox", "translator", "coursework", "web", "grading", "lab", "cli")
FLOORS = (GROUND, IDEAS, *({name} for name in UPPER))
OUTSIDE = {"__init__", "__main__", "demo"}  # they show the whole house
# Rooms in the order in which they may use one another.
ORDER = {
    "regard.translator": ("runs", "data", "models", "scoring", "training", "studies", "reports"),
    "regard.grading": ("submissions", "questions", "gradebook", "assignments", "cells", "reports"),
    "regard_models": (
        *("inputs", "kernels", "capturing", "editing", "auditing", "comparing", "head_measures", "attention_page"),
        *("grading", "lab_page", "pytest_plugin", "commands"),
    ),
}
HEAVY = {"torch", "matplotlib", "gensim"}
ABOUT_TORCH = {"torch_arithmetic"}  # ground that is imported by those who hold tensors, inside functions


@cache
def parsed(path):
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def nodes(path):
    return list(ast.walk(parsed(path)))


def part(path):
    """The name under regard that a file belongs to; regard_models for what stands on it."""
    return path.relative_to(HOME).parts[0].removesuffix(".py") if path.is_relative_to(HOME) else "regard_models"


def short(path):
    """A file as its distribution has it."""
    return path.relative_to(HOME if path.is_relative_to(HOME) else MODELS.parent).as_posix()


@cache
def imports(path, *, everywhere):
    """Names that a file imports, at its top level or everywhere; those for type checkers do not count."""
    return list(_imports(path, everywhere))


def _imports(path, everywhere):
    aside = [node for node in nodes(path) if is_type_checking(node)]
    if not everywhere:
        aside += [node for node in nodes(path) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
    left_out = {id(node) for whole in aside for node in ast.walk(whole)}
    for node in nodes(path):
        if id(node) in left_out:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            # `from regard.translator import data` names a room too, and `from regard import design` a part
            yield from (
                [f"{module}.{alias.name}" for alias in node.names] if module in ("regard", *ORDER) else [module]
            )
            assert node.level == 0, f"{path} imports relatively; say where from"


def is_type_checking(node):
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def used(path):
    """The parts of regard that a file uses, or regard_models."""
    names = [name.split(".") for name in imports(path, everywhere=True)]
    own = {name[1] for name in names if name[0] == "regard" and len(name) > 1}
    return own | {name[0] for name in names if name[0] == "regard_models"}


@pytest.mark.parametrize("name", sorted(GROUND))
def test_the_ground_uses_the_ground_only(name):
    for path in FILES:
        if part(path) == name:
            assert used(path) <= GROUND, path


@pytest.mark.parametrize("name", sorted(IDEAS))
def test_the_ideas_do_not_use_one_another(name):
    for path in (HOME / name).rglob("*.py"):
        upwards = used(path) - GROUND - {name}
        assert not upwards, f"{path.name} uses {upwards}"


def floor(name):
    """How high a part of the house is; None for what is outside."""
    return next((height for height, parts in enumerate(FLOORS) if name in parts), None)


def test_every_file_has_its_floor():
    for path in FILES:
        known = floor(part(path)) is not None or part(path) in OUTSIDE | {"regard_models"}
        assert known, f"{path}: say in FLOORS where it belongs"


def test_imports_point_downwards():
    for path in FILES:
        name = part(path)
        assert name == "regard_models" or "regard_models" not in used(path), f"{path} uses what stands on regard"
        if name not in OUTSIDE | {"regard_models"}:
            above = {other for other in used(path) if (floor(other) or 0) > floor(name)}
            assert not above, f"{path} uses {above}, which stands above it"


@pytest.mark.parametrize("package", ORDER)
def test_the_rooms_of_a_package_are_in_order(package):
    home = MODELS if package == "regard_models" else HOME.parent.joinpath(*package.split("."))
    rooms = ORDER[package]
    for path in home.rglob("*.py"):
        room = path.relative_to(home).parts[0].removesuffix(".py")
        for name in imports(path, everywhere=True) if room in rooms else ():
            other = name.removeprefix(f"{package}.").split(".")[0] if name.startswith(f"{package}.") else room
            assert other not in rooms or rooms.index(other) <= rooms.index(room), f"{path} uses {name}, above it"


def test_no_module_hides_under_a_name_that_its_package_exports():
    """`from package import name` would give the function, and nobody finds the module of that name any more."""
    for init in [path for path in FILES if path.name == "__init__.py"]:
        modules = {path.stem for path in init.parent.glob("*.py")} | {path.name for path in init.parent.iterdir()}
        home = HOME.parent if init.is_relative_to(HOME) else MODELS.parent
        package = ".".join(init.parent.relative_to(home).parts)
        for node in ast.parse(init.read_text(encoding="utf-8")).body:
            made = []
            if isinstance(node, ast.ImportFrom) and node.module != package:
                made = [alias.asname or alias.name for alias in node.names]
            elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                made = [node.name]
            assert not modules & set(made), f"{init} exports {modules & set(made)}, the name of a module beside it"


@pytest.mark.parametrize(
    ("library", "homes"),
    [
        ("tomllib", {"toml.py"}),
        ("zipfile", {"formats.py", "grading/submissions/archives.py"}),
        # the last two read a file of ours
        ("gzip", {"translator/data/sources.py", "translator/one_layer.py"}),
        *((name, set()) for name in ("tarfile", "bz2", "lzma", "pickle", "http.cookies")),
    ],
)
def test_what_can_grow_without_bound_is_read_in_one_place(library, homes):
    """Others' files reach these libraries by one reader each, which knows what they can do to memory."""
    line = re.compile(rf"^ *(?:import|from) {library}\b", re.MULTILINE)
    assert {short(path) for path in FILES if line.search(path.read_text("utf-8"))} == homes


def test_html_is_escaped_by_construction():
    """A page is made of :func:`regard.markup.element`; nobody else can forget to escape."""
    by_hand = re.compile(r"^(?:import html|from html import .*)$", re.MULTILINE)
    found = {short(path) for path in FILES if by_hand.search(path.read_text("utf-8"))}
    assert found == {"markup.py"}


def test_one_function_says_did_you_mean_and_one_is_the_softmax():
    near = {short(path) for path in FILES if "difflib" in path.read_text("utf-8")}
    assert near == {"errors.py"}
    functions = [(short(path), one.name) for path in FILES for one in nodes(path) if isinstance(one, ast.FunctionDef)]
    # a student's layer in NumPy has its own softmax, over any axes, beside the mistakes in it
    assert {path for path, name in functions if name in ("softmax", "_softmax")} == {
        "attention.py",
        "mistakes/attention.py",
    }


def test_nothing_heavy_is_imported_at_the_top_of_the_mathematics():
    for path in FILES:
        if part(path) in (GROUND - ABOUT_TORCH) | IDEAS | {"cli", "__init__", "__main__", "coursework"}:
            top = {name.split(".")[0] for name in imports(path, everywhere=False)}
            assert not top & HEAVY, f"{path} imports {top & HEAVY} at its top"
            if part(path) in ("cli", "__init__", "design"):
                assert not any(n.startswith("scipy.optimize") for n in imports(path, everywhere=False)), path


def test_no_drawer_of_odds_and_ends():
    for path in FILES:
        assert path.stem not in ("utils", "helpers", "misc", "common"), path
        asserts = [node.lineno for node in nodes(path) if isinstance(node, ast.Assert)]
        assert not asserts, f"{path} validates with assert in lines {asserts}"


# design: those who look for an answer, those who check it, and those between, who hand it from one to the other
SEARCH = {
    *("shortest", "minimax", "many_targets", "obstruction", "faces", "precise_path", "exact_answers"),
    *("question", "textbook", "hull", "winnable_screen", "winnable_rows"),
}
CHECK = {
    "verification",
    "certificate_problem",
    "combination_check",
    "evaluate",
    "stated_result",
    "winnable_check",
}
BETWEEN = {"verbs", "certified_solver", "key_ceiling", "answer", "pictures", "certificate", "__init__"}
PRODUCTS = {"SLACK", "U", "largest", "row_blocks", "row_chunks", "strictly_wins"}  # the rounding-bounded products
MACHINE = {"check_arithmetic"}


def design_file(name):
    return HOME / "design" / f"{name}.py"


def of_rigor(names):
    """What some files of design use of regard.rigor, by name."""
    trees = [parsed(design_file(name)) for name in names]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    attributes = {n.attr for n in nodes if isinstance(n, ast.Attribute) and ast.unparse(n.value) == "rigor"}
    froms = [n for n in nodes if isinstance(n, ast.ImportFrom) and (n.module or "").startswith("regard.rigor")]
    return attributes | {alias.name for node in froms for alias in node.names}


def of_design(name):
    """The other files of design that one uses."""
    names = set()
    for node in ast.walk(parsed(design_file(name))):
        if isinstance(node, ast.ImportFrom) and node.module == "regard.design":
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("regard.design."):
            names.add(node.module.split(".")[2])
    return names


def test_every_file_of_design_is_on_one_side():
    files = {path.stem for path in (HOME / "design").glob("*.py")}
    assert files == SEARCH | CHECK | BETWEEN
    assert len(SEARCH) + len(CHECK) + len(BETWEEN) == len(files)


def test_the_search_and_the_check_of_a_design_share_only_the_products():
    """As docs/certificates.md says; the form of a certificate they have to share, or nobody could read it."""
    for name in SEARCH:
        assert not of_design(name) & CHECK, f"{name}.py looks for answers with what checks them"
    for name in CHECK - {"winnable_check"}:  # which takes the letters of a certificate from where they are written
        assert of_design(name) <= CHECK | {"certificate"}, f"{name}.py checks answers with what finds them"
    assert of_rigor(SEARCH) & of_rigor(CHECK) <= PRODUCTS | MACHINE
    assert of_rigor({"winnable_check"}) == MACHINE
    letters = [n for n in ast.walk(parsed(design_file("winnable_check"))) if isinstance(n, ast.ImportFrom)]
    taken = {a.name for n in letters if (n.module or "").startswith("regard.design") for a in n.names}
    assert taken == {"LARGEST", "WAYS", "Way"}


# in the jail there is no regard, and its words come from the judge; whether a line of a log is whole is no reading
OTHER_READERS = {("child.py", "loads"), ("files.py", "JSONDecoder"), ("strict_json.py", "JSONDecoder")}


def test_json_is_read_in_one_place():
    """Python's own reader takes the last of two entries of one name: `regard.strict_json` refuses such a file."""
    readers = {
        (path.name, node.attr)
        for path in FILES
        for node in nodes(path)
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "json"
        if node.attr in ("load", "loads", "JSONDecoder", "decoder", "scanner")
    }
    assert readers == OTHER_READERS
    by_name = [
        path for path in FILES if "json" in imports(path, everywhere=True) and "from json import" in path.read_text()
    ]
    assert not by_name


# Folders of tests that stand for no folder of a package: what tests share, and what is tested as a whole.
SHARED = {
    "fuzz",
    "grammar",
    "coursework/checker/blind",
    "coursework/checker/blind/wrong",
    "coursework/checker/styles",
    "attention_zoo",
    "healthy",
    "mutants",
}
# Read through what stands on them: folders, cells and solutions by the grader, mistakes by the checker, the
# parts of a server by the lab.
TESTED_FROM_ABOVE = {"grading", "grading/solutions", "mistakes/rewrites", "web"}
HOMES = [pytest.param(home, home.parents[1] / "tests", id=home.name) for home in (HOME, MODELS)]


@pytest.mark.parametrize(("home", "tests"), HOMES)
def test_the_tests_are_where_the_source_is(home, tests):
    for path in tests.rglob("*.py"):
        folder = path.parent.relative_to(tests)
        if folder.parts[:1] == ("fixtures",):  # what earlier versions wrote, Python among it
            continue
        assert folder.as_posix() in SHARED or (home / folder).is_dir(), f"{folder} is no folder of {home.name}"


@pytest.mark.parametrize(("home", "tests"), HOMES)
def test_every_folder_of_the_source_has_its_tests(home, tests):
    rooms = {path.parent.relative_to(home).as_posix() for path in home.rglob("*.py") if path.stem != "__init__"}
    untested = {room for room in rooms if not list((tests / room).glob("test_*.py"))}
    assert untested <= TESTED_FROM_ABOVE


def test_what_is_typed_is_tested_in_cli():
    """The tests of an idea call it from Python, so that a change of the command line leaves them alone."""
    for room in sorted(IDEAS):
        for path in (HOME.parents[1] / "tests" / room).rglob("*.py"):
            typed = [name for name in imports(path, everywhere=True) if name.startswith("regard.cli")]
            assert not typed, f"{path}: what imports {typed} belongs in tests/cli"


ALIASES = ("float64", "float32", "bool_", "floating[Any]")


def test_kinds_of_arrays_are_named_once():
    """`Float` means the same everywhere; what a module names for itself is of a kind that others do not use."""
    for path in FILES:
        if path == HOME / "array_types.py":
            continue
        for node in parsed(path).body:
            if isinstance(node, ast.Assign):
                value = ast.unparse(node.value).removeprefix("npt.")
                again = value in [f"NDArray[np.{kind}]" for kind in ALIASES]
                assert not again, f"{path}: {ast.unparse(node)}; take the name from regard.array_types"


def test_every_legend_has_its_place():
    """Where none is given, matplotlib warns when looking for one took a second: on a slow machine."""
    for path in FILES:
        for node in nodes(path):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "legend":
                given = any(keyword.arg == "loc" for keyword in node.keywords)
                ours = ast.unparse(node.func.value) == "tables"  # the legend of a report's table
                assert given or ours, f"{path}, line {node.lineno}: legend without loc"


def python(code):
    """What a fresh interpreter prints, one thread."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "NO_COLOR": "1"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_importing_regard_is_light():
    loaded = python("import sys, regard; print(*sys.modules)").split()
    for heavy in ("torch", "matplotlib", "scipy.optimize", "typer"):
        assert heavy not in loaded


def test_the_version_is_the_distributions():
    assert version("regard") == regard.__version__


HELP = """
import sys
sys.argv = ["regard", {words}]
from regard.cli import main
try:
    main()
except SystemExit as left:
    assert not left.code
print("LOADED", *sys.modules)
"""


@pytest.mark.parametrize("words", ['"--help"', '"design", "--help"', '"design", "copy", "--help"'])
def test_help_answers_at_once(words):
    """It loads little: how long that takes is for the benchmarks, on a quiet machine."""
    said = python(HELP.format(words=words))
    assert "Usage" in said
    loaded = said.split("LOADED")[1].split()
    for heavy in ("torch", "matplotlib", "numpy", "scipy", "flint", "joblib", "rich", "pydantic"):
        assert heavy not in loaded


def test_an_answer_without_a_picture_needs_no_matplotlib_and_no_torch():
    loaded = python(
        "import sys\nfrom regard import design\ndesign.copy([[1.0, 0.0], [0.0, 1.0]], 0, eps=0.1)\nprint(*sys.modules)"
    ).split()
    assert "matplotlib" not in loaded
    assert "torch" not in loaded


def test_the_translators_page_answers_for_the_packages_own_run_without_torch():
    loaded = python(
        "import sys\nfrom regard.lab.pages.translator import PAGE\nfrom regard.lab.page import State\n"
        "assert PAGE.answer(State({}, start=PAGE.start)).picture['said']\nprint(*sys.modules)"
    ).split()
    assert "torch" not in loaded


def test_the_module_runs_like_the_command():
    done = subprocess.run(
        [sys.executable, "-m", "regard", "design", "copy", "example:square", "4"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "No query does" in done.stdout
    assert done.stderr == ""


OURS = ("regard", "regard_models", "benchmarks", "tools")
OUTBUILDINGS = [path for folder in OURS[2:] for path in sorted((ROOT / folder).rglob("*.py"))]


@pytest.mark.parametrize("path", OUTBUILDINGS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_what_benchmarks_and_tools_take_from_the_house_is_there(path):
    """They are run by hand and seldom, so a name that moved would be noticed late."""
    taken = [node for node in nodes(path) if isinstance(node, ast.ImportFrom)]
    for module, name in ((node.module or "", alias.name) for node in taken for alias in node.names):
        if module.split(".")[0] in OURS:
            try:
                home = importlib.import_module(module)
            except ModuleNotFoundError as missing:
                if str(missing.name).split(".")[0] in OURS:
                    raise
                continue  # a peer, which is there for benchmarks only
            assert hasattr(home, name) or importlib.util.find_spec(f"{module}.{name}"), f"{module} has no {name}"


BOUND = r"at most|at least|(?<!add )up to|below|above|between|(?:more|less|shorter|nearer) than|exceed|past|within"
BOUND += r"|accurate to|error bound"
BEFORE = re.compile(rf"(?:\b(?:{BOUND})|(?<= )[<>]=?)(?: norm| attention| a factor)?(?: § and)?\s*$")
AFTER = re.compile(r"^\s*(?:or (?:better|less|more|fewer)|at most|at least)\b")
ROUNDS = re.compile(r"\.\d+[gef%]")


def texts_with_numbers(tree):
    """The formatted strings of a file, each as its texts and formats in turns."""
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield node.lineno, [part.value if isinstance(part, ast.Constant) else part for part in node.values]


def rounds_a_bound(parts):
    """Does a number of so many digits stand where the sentence speaks of a bound? It may lie on its wrong side."""
    before = ""
    for place, part in enumerate(parts):
        if isinstance(part, str):
            before += part
            continue
        after = parts[place + 1] if place + 1 < len(parts) and isinstance(parts[place + 1], str) else ""
        spec = ast.unparse(part.format_spec) if part.format_spec is not None else ""
        if ROUNDS.search(spec) and (BEFORE.search(before) or AFTER.search(after)):
            return True
        before += "§"
    return False


def test_only_one_function_rounds_a_bound():
    """A bound goes through written_numbers.at_most, at_least or between, which round to the side that stays true."""
    wrong = [
        f"{short(path)}, line {line}"
        for path in FILES
        for line, parts in texts_with_numbers(parsed(path))
        if rounds_a_bound(parts)
    ]
    assert not wrong, wrong
    (_, parts), *_ = texts_with_numbers(ast.parse('f"it errs by at most {error:.6g}"'))
    assert rounds_a_bound(parts)


def test_no_name_is_a_bare_participle():
    """A function is a verb phrase or the noun of what it returns: nobody searches for `drawn` or `kept`."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    named = [(path, node.name) for path in FILES for node in nodes(path) if isinstance(node, kinds)]
    named += [(path, path.stem) for path in FILES]
    wrong = [f"{short(path)}: {name}" for path, name in named if is_bare_participle(name)]
    assert not wrong, wrong


FUNCTION_IN_JAVASCRIPT = re.compile(
    r"\bfunction\*? (\w+)|\b(\w+)(?: =|:) (?:async )?(?:function\b|(?:\([^()]*(?:\([^()]*\)[^()]*)*\)|\w+) =>)"
    r"|^ +(?:(?:static|async|get|set) )*(\w+)\(.*\) \{$",
    re.MULTILINE,
)


def test_no_function_in_javascript_is_a_bare_participle():
    wrong = [
        f"{path.name}: {name}"
        for path in ROOT.glob("packages/*/src/**/*.js")
        for match in FUNCTION_IN_JAVASCRIPT.finditer(path.read_text(encoding="utf-8"))
        if is_bare_participle(name := next(filter(None, match.groups())))
    ]
    assert not wrong, wrong
