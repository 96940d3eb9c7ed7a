"""What is not installed with the core: which extra brings each package, and the one sentence that says so.

``pip install regard`` brings NumPy and what the proofs stand on. Pictures, trained models and the lab need more, which
is declared in ``pyproject.toml`` as extras. Whoever imports such a package first calls :func:`require`.
"""

from __future__ import annotations

from importlib.util import find_spec

from regard.errors import InputError

# The package as it is imported, and the smallest extra that brings it.
EXTRAS = {
    "ctranslate2": "engine",
    "datasets": "huggingface",
    "gensim": "translator",
    "latex2mathml": "lab",
    "matplotlib": "plots",
    "optuna": "translator",
    "psycopg": "postgres",
    "pypdfium2": "pdf",
    "sacrebleu": "translator",
    "sacremoses": "translator",
    "sklearn": "translator",
    "tokenizers": "translator",
    "torch": "torch",
    "typst": "reports",
    "uplot": "lab",
}


def require(what: str, *packages: str, extra: str | None = None) -> None:
    """Raise InputError, with the command that installs it, if one of the packages is missing.

    ``what`` is the subject of the sentence, in the singular: what the person asked for. ``extra`` names a larger
    extra than the package's own, where the smallest would only lead to the next refusal.

    >>> require("A sum", "numpy")
    >>> require("The report", "numpy", "no_package", extra="translator")
    Traceback (most recent call last):
        ...
    regard.errors.InputError: The report needs no_package, which is not installed: pip install 'regard[translator]'.
    """
    absent = [name for name in packages if find_spec(name) is None]
    if absent:
        raise missing_package_error(what, *absent, extra=extra)


def missing_package_error(what: str, *packages: str, extra: str | None = None) -> InputError:
    """The error that says which extra brings the packages.

    >>> print(missing_package_error("A picture", "matplotlib"))
    A picture needs matplotlib, which is not installed: pip install 'regard[plots]'.
    """
    is_not = "is not installed" if len(packages) == 1 else "are not installed"
    bringing = extra or ",".join(sorted({EXTRAS[name] for name in packages}))
    return InputError(f"{what} needs {' and '.join(packages)}, which {is_not}: pip install 'regard[{bringing}]'.")
