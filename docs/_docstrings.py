"""Docstrings as the pages show them: examples in code blocks, and roles as plain code."""

from __future__ import annotations

import re
from typing import Any

import griffe

EXAMPLE = re.compile(r"(^>>> .*(?:\n(?!\s*$).*)*)", flags=re.MULTILINE)
ROLE = re.compile(r":(?:func|mod|class|meth|attr):(?=`)")


class Docstrings(griffe.Extension):
    """Called by mkdocstrings for every object it reads."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            text = ROLE.sub("", obj.docstring.value)
            obj.docstring.value = EXAMPLE.sub(r"```python\n\1\n```", text)
