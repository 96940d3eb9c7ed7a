"""The file to fill in: a function with the statement, its arguments and what it must return; never the answer."""

from __future__ import annotations

import os
import textwrap
from dataclasses import dataclass
from pathlib import Path

from regard.coursework.question import Question
from regard.files import write_new_file
from regard.notation import without_marks
from regard.results import Result

WIDTH = 92


@dataclass(frozen=True, kw_only=True, eq=False)
class Template(Result):
    """A template, and the file that it was written to."""

    claim: str
    path: str
    signature: str
    text: str

    @property
    def check(self) -> str:
        """The line that checks it."""
        return f"regard claims {self.claim} --answer {self.path}:{self.signature.partition('(')[0]}"

    def __str__(self) -> str:
        return f"Wrote {self.path}: fill in {self.signature}, then run\n  {self.check}"


def write_function_template(
    claim: str, statement: str, question: Question, path: str | os.PathLike[str] | None
) -> Template:
    """Write the template to a new file; one that exists is never overwritten."""
    target = Path(path if path is not None else f"{claim.replace('-', '_')}.py")
    made = Template(
        claim=claim,
        path=os.fspath(target),
        signature=question.signature,
        text=text(claim, statement, question, target),
    )
    write_new_file(target, made.text, endings=(".py",))
    return made


def text(claim: str, statement: str, question: Question, target: Path) -> str:
    """The template itself."""
    check = f"regard claims {claim} --answer {target}:{question.function}"
    inside = [_fold(without_marks(question.task)), ""]
    inside += [_fold(f"{name}: {meaning}", hang=4) for name, meaning in question.arguments.items()]
    inside += ["", _fold(f"Return {question.returns}.")]
    return "\n".join(
        [
            f'"""{_fold(f"{claim}: {question.statement or without_marks(statement)}")}',
            "",
            f"{'Keys are counted from 0. ' * bool({'keys', 'means'} & set(question.arguments))}Check it with",
            "",
            f"    {check}",
            '"""',
            "",
            "import numpy as np",
            "",
            "",
            f"def {question.signature}:",
            textwrap.indent('"""' + "\n".join(inside) + '\n"""', "    "),
            '    raise NotImplementedError("write your answer here")',
            "",
        ]
    )


def _fold(line: str, *, hang: int = 0) -> str:
    return textwrap.fill(line, WIDTH, subsequent_indent=" " * hang, break_on_hyphens=False)
