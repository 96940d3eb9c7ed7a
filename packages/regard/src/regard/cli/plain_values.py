"""Words of the command line into values, without loading a validation library for it.

Typer hands every option to Pydantic, whose import alone takes as long as a whole small answer. What is plainly a word,
a list of words or a number in its range is turned into a value here, and what is no number is refused here; everything
else stays typer's. Where a version of typer works in another way, nothing is changed at all.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, get_args

import typer

from regard.written_numbers import real_number, whole_number

# Decimal digits only, and few enough of them: what is not certain to be read alike by Python and Pydantic is not plain.
_WHOLE = re.compile(r"[+-]?[0-9]{1,15}", re.ASCII)
_REAL = re.compile(r"[+-]?(?:[0-9]{1,30}\.?[0-9]{0,30}|\.[0-9]{1,30})(?:[eE][+-]?[0-9]{1,3})?", re.ASCII)


class NotPlainError(Exception):
    """Typer's own machinery has to look at this value."""


def read_plain_values(parameters: Iterable[Any]) -> list[Any]:
    """The same options and arguments, read here where what they get is plain."""
    made = list(parameters)
    for parameter in made:
        build = getattr(parameter, "get_runtime_param", None)
        if build is not None and not isinstance(build, _Reader):
            parameter.get_runtime_param = _Reader(build)
    return made


@dataclass(frozen=True)
class _Reader:
    """Stands where typer asks a parameter for its converter; builds typer's only for values that are not plain."""

    build: Any

    def __call__(self) -> _Reader:
        return self

    def coerce(self, value: Any, *, param: Any, ctx: Any) -> Any:
        refuse_loose_numbers(value, param)
        try:
            return plain_value(value, param)
        except (NotPlainError, AttributeError):  # an attribute that another version of typer does not have
            return self.build().coerce(value, param=param, ctx=ctx)


def refuse_loose_numbers(value: Any, param: Any) -> None:
    """Every number that is typed is read as strictly as those in a file: 1_0, nan and digits of other scripts are none.

    Python writes 1_000 for a thousand, and so would read 1_0 as 10; whoever types that has more likely slipped.
    """
    wanted = getattr(getattr(param, "type_descriptor", None), "annotation", None)
    kinds = {wanted, *get_args(wanted)}
    if not kinds & {int, float}:
        return
    read, like = (real_number, "0.5 or 1e-3") if float in kinds else (whole_number, "12")
    for word in value if isinstance(value, (list, tuple)) else [value]:
        try:
            read(word) if isinstance(word, str) else None
        except ValueError as error:
            raise typer.BadParameter(f"{error}; write one like {like}.", param=param) from None


def plain_value(value: Any, param: Any) -> Any:
    """What a parameter gets for this value, where that is plain; otherwise `NotPlainError`."""
    if value is None:
        return () if param.multiple or param.nargs == -1 else None
    wanted, info = param.type_descriptor.annotation, param.type_descriptor.parameter_info
    if info.parser is not None:
        raise NotPlainError
    if wanted == list[str] and isinstance(value, (list, tuple)) and all(type(word) is str for word in value):
        return list(value)
    if wanted is str and type(value) is str:
        return value
    if wanted in (int, float):
        return _number(value, wanted, info)
    raise NotPlainError


def _number(value: Any, wanted: type, info: Any) -> int | float:
    """A plain number within the parameter's range."""
    form = _WHOLE if wanted is int else _REAL
    # a default from our own code, which may be a whole number where a real one is wanted
    default = type(value) is wanted or (type(value) is int and abs(value) < 2**53)
    if not (default or (type(value) is str and form.fullmatch(value))):
        raise NotPlainError
    number: int | float = wanted(value)
    inside = (info.min is None or number >= info.min) and (info.max is None or number <= info.max)
    if not inside:
        raise NotPlainError
    return number
