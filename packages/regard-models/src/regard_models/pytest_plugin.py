"""For pytest: ``pytest --regard mypkg.models:build`` audits a model beside the other tests, and a fixture ``healthy``.

Pytest loads this file in every project of an environment that regard-models is installed in, so it imports nothing but
pytest, and does nothing where neither the option nor the fixture is used.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pytest

from regard.errors import InputError, RegardError, describe_error

if TYPE_CHECKING:
    from regard_models.auditing import Audit
    from regard_models.inputs.model_input import ModelInput


def pytest_addoption(parser: pytest.Parser) -> None:
    """Every name begins with regard: another plugin's --baseline would stop pytest for people who use neither."""
    group = parser.getgroup("regard", "audits of torch models")
    group.addoption(
        "--regard", action="append", default=[], metavar="MODEL",
        help="Audit this model: mypkg.models:build or FILE.py:build. May be given several times.",
    )  # fmt: skip
    group.addoption("--regard-causal", action="store_true", help="Claim that no place of it reads later ones.")
    group.addoption(
        "--regard-baseline", metavar="FILE.json",
        help="Failures that are known, as regard model audit --write-baseline writes them.",
    )  # fmt: skip
    group.addoption("--regard-sarif", metavar="FILE.sarif", help="Write what the audit of one model found there.")


@pytest.hookimpl(tryfirst=True)  # before -k and -m choose among all items
def pytest_collection_modifyitems(session: pytest.Session, config: pytest.Config, items: list[pytest.Item]) -> None:
    """One more item for every model."""
    models = config.getoption("--regard")
    if config.getoption("--regard-sarif") and len(models) != 1:
        raise pytest.UsageError(f"--regard-sarif is written for one model; --regard names {len(models)}.")
    items += [AuditItem.from_parent(session, name=f"regard {model}", model=model) for model in models]


class UnhealthyModelError(Exception):
    """What an audit found, for pytest's report."""


class AuditItem(pytest.Item):
    """The audit of one model."""

    def __init__(self, *, model: str, **options: Any) -> None:
        super().__init__(**options)
        self.model = model

    def runtest(self) -> None:
        from regard_models.auditing import audit
        from regard_models.auditing.reports import check_files, sarif, write_text

        target = self.config.getoption("--regard-sarif")
        check_files([(target, ".sarif")])
        causal = True if self.config.getoption("--regard-causal") else None
        audited = audit(_load(self.model, self.config, causal=causal), known=_baseline_keys(self.config))
        if target is not None:
            write_text(target, sarif(audited))
        if not audited.answer:
            raise UnhealthyModelError(str(audited))
        self.add_report_section("call", "regard", str(audited))  # pytest -rP shows it

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """The audit's own words; a fault of ours keeps its trace."""
        if isinstance(excinfo.value, (UnhealthyModelError, RegardError)):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Any, int | None, str]:
        return self.config.rootpath, None, self.name


@pytest.fixture
def healthy(request: pytest.FixtureRequest) -> Callable[..., Audit]:
    """healthy(model, example, causal=True): the audit, or a failure that says what is wrong, where, and the cure."""

    def check(model: Any, example: Any = None, **options: Any) -> Audit:
        __tracebackhide__ = True
        from regard_models.auditing import assert_healthy

        return assert_healthy(model, example, **{"known": _baseline_keys(request.config), **options})

    return check


def _baseline_keys(config: pytest.Config) -> tuple[str, ...]:
    from regard_models.auditing.reports import read_baseline

    path = config.getoption("--regard-baseline")
    return read_baseline(path) if path else ()


def _load(spec: str, config: pytest.Config, *, causal: bool | None) -> ModelInput:
    """A model of FILE.py:build, a folder or huggingface:NAME as for ``regard model``, or of an importable module."""
    from regard_models.inputs.model_input import load, model_input, model_parts

    module, colon, name = spec.partition(":")
    if not colon or module.endswith(".py") or not all(part.isidentifier() for part in module.split(".")):
        return load(spec, causal=causal)
    for folder in (config.invocation_params.dir, config.rootpath):
        if str(folder) not in sys.path:
            sys.path.append(str(folder))  # behind everything that pytest itself has put there
    try:
        build = getattr(import_module(module), name)
        is_model = hasattr(build, "forward") and not isinstance(build, type)
        made = build if is_model else build()
    except Exception as error:
        raise InputError(f"{spec} could not be built: {describe_error(error)}; fix it first.") from error
    built, example, advance = model_parts(made, spec)
    return replace(model_input(built, example, causal=causal, name=spec), advance=advance)
