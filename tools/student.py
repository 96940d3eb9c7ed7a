"""The students' wheel: it checks answers and carries none of ours. ``make student`` builds it into dist/.

What is in it is found, not listed: from the public checks downwards every module that is imported, and of the claims
and what they share only the names that their questions reach. So no proof, no verdict, no reference Transformer, no
solution and no solver of regard.design comes along. A judge knows what is true for one instance; that is in it, and
must be.
"""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parent.parent
HOME = ROOT / "packages" / "regard" / "src" / "regard"
STARTS = (
    "regard.coursework.catalogue",
    "regard.coursework.answers.report",
    "regard.coursework.derivations.report",
    "regard.cli.output",
    "regard.grading.assignments.assignment_file",
    "regard.grading.cells",
)
RUN_BY_PATH = ("sandbox/child.py", "sandbox/confinement.py")
# of these only the names that are reached are kept
SHAKEN = (
    "regard.coursework.claims.",
    "regard.coursework.query_questions",
    "regard.mistakes.",
    "regard.tracing.",
)
CUT = (  # named in functions that this wheel never calls
    *("regard.design", "regard.translator", "regard.lab", "regard.demo", "regard.subspace", "regard.pictures"),
    *("regard.coursework.checker", "regard.coursework.training_figures", "regard.coursework.derivations.gaps"),
    *("regard.grading.solutions", "regard.grading.questions.statements", "regard.grading.assignments.assignment_check"),
    *("regard.noise.optimised_queries", "regard.noise.coursework_settings", "regard.noise.comparison"),
    *("regard.noise.pictures", "regard.positions.pictures"),
)
PACKAGES = ("regard.mistakes", "regard.tracing")  # their heads say what is in them, and most of it is not here
KEY = r'(key|answer) = (?:"""(?:.|\n)*?"""|"(?:[^"\\]|\\.)*")'  # what it should come to: for who marks
LEFT_OUT = ("best",)  # of a question: how far it is from the best needs our solver
MEASURE = "{} the best possible"  # instead of ours, which name the best; that there is one is no secret
COMMANDS = '''
"""The command line of the students' build: check your own answers."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from regard.cli.output import AsJson, note, show
from regard.errors import InputError, RegardError

app = typer.Typer(name="regard", help="Check your own answers (students' build).", no_args_is_help=True,
                  add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)


@app.command()
def claims(
    name: Annotated[str | None, typer.Argument(help="A claim, as in average-of-two; without one, all of them.")] = None,
    file: Annotated[str | None, typer.Argument(help="With --template, the file to write.")] = None,
    template: Annotated[bool, typer.Option("--template", help="Write the function to fill in.")] = False,
    answer: Annotated[str | None, typer.Option(metavar="FILE.py:NAME", help="Check your own answer.")] = None,
    derivation: Annotated[str | None, typer.Option(metavar="FILE", help="Check your own derivation.")] = None,
    hint: Annotated[int, typer.Option("--hint", count=True, help="Where a derivation goes on; twice: how.")] = 0,
    jail: Annotated[bool, typer.Option("--jail", help="Run it where it reaches nothing of yours.")] = False,
    seed: Annotated[int, typer.Option(help="Of the instances.")] = 0,
    limit: Annotated[float, typer.Option(help="Seconds that your code may run.")] = 10.0,
    as_json: AsJson = False,
) -> None:
    """Write the function to fill in (--template), or check yours (--answer)."""
    from regard.coursework.catalogue import claims as catalogue

    if name is None:
        for known, claim in catalogue.items():
            print(f"{known}: {claim.question.signature}" if claim.question else f"{known}: asks for words")
        return
    if derivation is not None:
        from regard.coursework.derivations.report import check_file

        report = check_file(name, derivation, hints=hint)
        print(report.to_json() if as_json else report)
        raise typer.Exit(report.exit_code)
    if template == (answer is not None):
        raise InputError("Give --template FILE or --answer FILE.py:NAME; this build has no answers of its own.")
    claim = catalogue[name]
    if template:
        show(claim.template(file), as_json=as_json)
    show(claim.check_answer(answer or "", seed=seed, limit=limit, jail=jail), as_json=as_json)


@app.command()
def grade(
    submission: Annotated[str, typer.Argument(help="Your file.")],
    assignment: Annotated[str, typer.Option(metavar="FILE.toml", help="The assignment.")],
    public: Annotated[bool, typer.Option("--public", help="The public checks; there are no others here.")] = True,
    as_json: AsJson = False,
) -> None:
    """Run the public checks of an assignment on your file."""
    from regard.sandbox.jail import Tier, best_tier
    from regard.grading.cells import run_public_checks
    from regard.grading.assignments.assignment_file import read_assignment
    from regard.grading.submissions.submission import read_submissions

    asked, found = read_assignment(assignment), read_submissions([submission])
    if len(found) != 1:
        raise InputError(f"{submission} has {len(found)} submissions; give your own file.")
    try:
        tier = best_tier(True)
    except InputError:
        tier = Tier.NONE
        note("no jail can be built here: your code runs with your rights.")
    show(run_public_checks(asked, found[0], jail=tier), as_json=as_json)


def main() -> None:
    try:
        sys.exit(app(standalone_mode=False))
    except RegardError as error:
        print(f"regard: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except typer.BadParameter.__mro__[1] as error:
        print(f"regard: {error.format_message()}", file=sys.stderr)
        sys.exit(2)
'''
STUB = """

def _none_of_ours(**parameters: float) -> Any:
    raise InputError("This is the students' build: it checks answers and has none of its own.")


CLAIM = Claim(
    name={name!r},
    topic={topic!r},
    statement={statement!r},
    formula="",
    sources=(),
    parameters=(),
    readings=(Reading(name="none here", statement="", check=_none_of_ours),),
    prove=_none_of_ours,
    draw=_none_of_ours,
    question={question},
)
"""
IMPORTS = """
from typing import Any
from regard.coursework.claim import Claim
from regard.coursework.verdict import Reading
from regard.errors import InputError
"""


@dataclass
class Module:
    """A source file: its statements, and which of them define which names."""

    name: str
    path: Path
    body: list[ast.stmt]
    defines: dict[str, ast.stmt] = field(default_factory=dict)

    @classmethod
    def read(cls, name: str) -> Module | None:
        base = HOME.parent.joinpath(*name.split("."))
        path = next((p for p in (base.with_suffix(".py"), base / "__init__.py") if p.is_file()), None)
        if path is None:
            return None
        made = cls(name, path, ast.parse(path.read_text(encoding="utf-8")).body)
        for node in made.body:
            for defined in _defined(node):
                made.defines[defined] = node
        return made

    @property
    def shaken(self) -> bool:
        return self.name.startswith(SHAKEN) and self.path.name != "__init__.py"


def _defined(node: ast.stmt) -> list[str]:
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        return [node.name]
    if isinstance(node, (ast.Assign, ast.AnnAssign)):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        return [one.id for target in targets for one in ast.walk(target) if isinstance(one, ast.Name)]
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return [(alias.asname or alias.name).partition(".")[0] for alias in node.names]
    return []


def _without_best(tree: ast.AST) -> None:
    """Of every question that is read in it: without how far an answer is from the best."""
    for call in ast.walk(tree):
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "read_question":
            call.keywords = [keyword for keyword in call.keywords if keyword.arg not in LEFT_OUT]
            for keyword in call.keywords:
                if keyword.arg == "measure":
                    keyword.value = ast.Constant(MEASURE)


class Build:
    """What goes into the wheel: whole modules, and names of shaken ones."""

    def __init__(self) -> None:
        self.modules: dict[str, Module | None] = {}
        self.names: dict[str, set[str]] = {}
        for start in STARTS:
            self.whole(start)
        for path in sorted((HOME / "coursework" / "claims").glob("[a-z]*.py")):
            self.claim(f"regard.coursework.claims.{path.stem}")

    def module(self, name: str) -> Module | None:
        if name not in self.modules:
            self.modules[name] = Module.read(name)
            if "." in name and self.modules[name] is not None:
                self.whole(name.rpartition(".")[0])
        return self.modules[name]

    def whole(self, name: str) -> None:
        """A module with all that it imports."""
        if name.startswith(CUT) or (name in self.modules and name in self.names):
            return
        found = self.module(name)
        if found is None or found.shaken:
            return
        self.names.setdefault(name, set())
        if name in ("regard", "regard.cli", *PACKAGES):
            return  # their own: see `files`
        for node in found.body:
            self.imported(node)

    def imported(self, tree: ast.AST) -> None:
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    if alias.name.startswith("regard."):
                        self.whole(alias.name)
            elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("regard"):
                for alias in node.names:
                    self.reached(node.module or "", alias.name)

    def reached(self, module: str, name: str) -> None:
        """A name of a module: the module of that name, or the name itself."""
        if module.startswith(CUT) or f"{module}.{name}".startswith(CUT):
            return
        if (inner := self.module(f"{module}.{name}")) is not None:
            return self.whole(inner.name)
        found = self.module(module)
        if found is None:
            return None
        if not found.shaken:
            return self.whole(module)
        kept = self.names.setdefault(module, set())
        if name in kept or name not in found.defines:
            return None
        kept.add(name)
        node = found.defines[name]
        _without_best(node)
        for one in ast.walk(node):
            if isinstance(one, ast.Name):
                self.reached(module, one.id)
        self.imported(node)
        return None

    def claim(self, name: str) -> None:
        found = self.module(name)
        if found is None:
            return
        question = found.defines.get("QUESTION")
        self.names.setdefault(name, set())
        if question is not None:
            self.reached(name, "QUESTION")

    def files(self) -> dict[str, str]:
        """Every file of the wheel, by its path."""
        made = {}
        for name, module in self.modules.items():
            if module is None or name not in self.names:
                continue
            path = module.path.relative_to(HOME.parent).as_posix()
            if name.startswith("regard.coursework.claims."):
                made[path] = self._claim_text(module)
            elif module.shaken:
                made[path] = self._shaken_text(module)
            else:
                made[path] = self._whole_text(module)
        for inside in RUN_BY_PATH:
            made[f"regard/{inside}"] = (HOME / inside).read_text(encoding="utf-8")
        lists = (HOME / "coursework" / "checklists.toml").read_text(encoding="utf-8")
        made["regard/coursework/checklists.toml"] = re.sub(KEY, r'\1 = ""', lists)
        for file in ("problem_sets.toml", "questions.toml"):  # of the claims no words: they have verdicts and proofs
            made[f"regard/coursework/{file}"] = (HOME / "coursework" / file).read_text(encoding="utf-8")
        made["regard/coursework/published_solutions.toml"] = "solution = []\n"  # a verdict on each is an answer
        derivations = HOME / "coursework" / "derivations"
        for path in sorted(
            [*(derivations / "problems").glob("*.toml"), derivations / "rules.toml", derivations / "tokens.toml"]
        ):  # no proofs
            made[f"regard/{path.relative_to(HOME).as_posix()}"] = path.read_text(encoding="utf-8")
        made["regard/__init__.py"] = f'"""Regard, the students\' build."""\n\n__version__ = {version()!r}\n'
        made["regard/cli/__init__.py"] = COMMANDS.lstrip()
        made["regard/__main__.py"] = "from regard.cli import main\n\nmain()\n"
        for package in PACKAGES:
            folder = package.replace(".", "/")
            if any(path.startswith(f"{folder}/") for path in made):
                made[f"{folder}/__init__.py"] = '"""Of the students\' build."""\n'
        return made

    def _whole_text(self, module: Module) -> str:
        """As it is, but for imports at its top of what is cut."""
        cut = [node for node in module.body if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(CUT)]
        if not cut:
            return module.path.read_text(encoding="utf-8")
        gone = {alias.asname or alias.name for node in cut for alias in node.names}
        kept = [node for node in module.body if node not in cut]
        for node in kept:
            if (
                isinstance(node, ast.Assign)
                and ast.unparse(node.targets[0]) == "__all__"
                and isinstance(node.value, ast.List)
            ):
                node.value.elts = [one for one in node.value.elts if ast.literal_eval(one) not in gone]
        return ast.unparse(ast.Module(body=kept, type_ignores=[])) + "\n"

    def _shaken_text(self, module: Module) -> str:
        kept = {id(module.defines[name]) for name in self.names[module.name]}
        always = [node for node in module.body if isinstance(node, ast.ImportFrom) and node.module == "__future__"]
        body = [*always, *(node for node in module.body if id(node) in kept)]
        return ast.unparse(ast.Module(body=[self._fewer(node, module) for node in body], type_ignores=[])) + "\n"

    def _fewer(self, node: ast.stmt, module: Module) -> ast.stmt:
        """An import with only the names that are reached."""
        if isinstance(node, ast.ImportFrom) and node.module != "__future__":
            names = [alias for alias in node.names if (alias.asname or alias.name) in self.names[module.name]]
            return ast.ImportFrom(module=node.module, names=names, level=0)
        return node

    def _claim_text(self, module: Module) -> str:
        name = module.path.stem.replace("_", "-")
        words = tomllib.loads((module.path.parent / f"{name}.toml").read_text(encoding="utf-8"))
        question = "QUESTION" in module.defines
        statement = "QUESTION.statement" if question else repr("A question that asks for words.")
        stub = STUB.format(
            name=name,
            topic=words["topic"],
            statement="@",
            question="QUESTION" if question else None,
        ).replace("'@'", statement)
        text = self._shaken_text(module)
        head, future, rest = text.partition("from __future__ import annotations\n")
        return f"{head}{future}{IMPORTS}{rest}{stub}"


def version() -> str:
    return str(
        tomllib.loads((ROOT / "packages" / "regard" / "pyproject.toml").read_text(encoding="utf-8"))["project"][
            "version"
        ]
    )


PROJECT = """\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "regard-student"
version = "{version}"
description = "Checks answers about attention; has none of its own"
requires-python = ">=3.11"
license = "Apache-2.0"
dependencies = ["numpy>=1.26", "scipy>=1.11", "python-flint>=0.6", "typer>=0.12"]

[project.scripts]
regard = "regard.cli:main"

[tool.hatch.build.targets.wheel]
packages = ["regard"]
"""


def write(folder: Path) -> None:
    """The files of the wheel, below a folder."""
    for path, text in Build().files().items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    (folder / "pyproject.toml").write_text(PROJECT.format(version=version()), encoding="utf-8")


def main() -> None:
    dist = ROOT / "dist"
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder))
        command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", f"{folder}/dist", folder]
        subprocess.run(command, check=True, capture_output=True)
        dist.mkdir(exist_ok=True)
        for wheel in Path(folder, "dist").glob("*.whl"):
            shutil.copy(wheel, dist)
            print(f"dist/{wheel.name}: checks answers, and has none of ours")


if __name__ == "__main__":
    main()
