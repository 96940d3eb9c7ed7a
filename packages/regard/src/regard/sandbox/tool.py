"""What goes into a jail beside a person's code: this Python, a few packages, and where it is needed a tool of ours.

A function is called with arrays and returns one; a model has to be built, watched and asked many things. A tool does
that inside. Its modules are sent as text, so that nothing else of regard is there to be read, and the same way in every
tier. The person's code runs in the same process and can change the tool: what comes back is a claim, judged outside.
"""

from __future__ import annotations

import ast
import os
import re
import stat
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import metadata, resources
from importlib.resources.abc import Traversable
from pathlib import Path

from regard.errors import InputError
from regard.extras import missing_package_error
from regard.strict_json import JsonObject

PACKAGES = ("numpy", "scipy")  # what an answer may import besides the standard library; never regard
SYSTEM = ("/lib64", "/usr/lib64", "/etc/ld.so.cache")
PROCESSOR = ("/proc/cpuinfo", "/sys/devices/system/cpu/possible", "/sys/devices/system/cpu/present")  # torch asks
HIDDEN = ("site-packages", "dist-packages")  # of the standard library: what else is installed is nobody's business


@dataclass(frozen=True, kw_only=True)
class Interpreter:
    """Files and folders of a Python, as they lie on this machine."""

    program: str
    library: str  # of Python itself: .../lib/python3.12
    shared: tuple[str, ...]  # of the system, and of Python where it has one
    packages: tuple[str, ...]

    @property
    def name(self) -> str:
        """As in python3.12."""
        return Path(self.library).name

    @property
    def folders(self) -> tuple[str, ...]:
        """Those that hold the packages."""
        return tuple(dict.fromkeys(os.path.dirname(path) for path in self.packages))

    @property
    def modules(self) -> tuple[str, ...]:
        """What can be imported from them."""
        names = (os.path.basename(path).removesuffix(".py") for path in self.packages)
        return tuple(name for name in names if name.isidentifier())

    @property
    def is_world_readable(self) -> bool:
        """Whether another user of this machine can run it: in root's home folder it is often not so."""
        needed = (self.program, self.library, *self.shared, *self.packages, os.path.dirname(__file__))
        return all(map(is_world_readable, needed))


@cache
def this_interpreter(packages: tuple[str, ...] = PACKAGES) -> Interpreter:
    """The one that runs now, without its virtual environment, and those of the packages that are installed."""
    asked = PROCESSOR if "torch" in packages else ()
    return Interpreter(
        program=os.path.realpath(getattr(sys, "_base_executable", sys.executable)),
        library=os.path.realpath(sysconfig.get_path("stdlib")),
        shared=tuple(path for path in (*_shared_libraries(), *asked) if os.path.exists(path)),
        packages=tuple(path for name in packages for path in _distribution_folders(name)),
    )


def _shared_libraries() -> list[str]:
    """Where the loader finds libraries; a system without folders by architecture has them in /lib and /usr/lib."""
    triple = sysconfig.get_config_var("MULTIARCH")
    folders = [f"/lib/{triple}", f"/usr/lib/{triple}"] if triple and os.path.isdir(f"/usr/lib/{triple}") else ["/lib"]
    own = os.path.join(sysconfig.get_config_var("LIBDIR") or "", sysconfig.get_config_var("INSTSONAME") or "")
    return [*folders, *SYSTEM, *([own] if ".so" in own else [])]


def _distribution_folders(name: str) -> list[str]:
    """The folders of a distribution next to one another in site-packages: numpy, numpy.libs, its description."""
    try:
        package = metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return []
    tops = {path.parts[0] for path in package.files or () if ".." not in path.parts and not path.is_absolute()}
    places = [os.path.realpath(str(package.locate_file(top))) for top in sorted(tops - {"__pycache__"})]
    return [place for place in places if os.path.exists(place)]


def is_world_readable(path: str) -> bool:
    """Whether any user can reach and read it.

    >>> is_world_readable("/")
    True
    """
    place = Path(path).resolve()
    reach = all(parent.stat().st_mode & stat.S_IXOTH for parent in place.parents)
    return bool(reach and place.stat().st_mode & stat.S_IROTH)


OURS = ("regard", "regard_models")
ALSO = ("einops", "safetensors")  # what many a Transformer is written with, and its weights
NO_TORCH = "needs torch: pip install 'regard[torch]'."


@dataclass(frozen=True, kw_only=True)
class Tool:
    """Modules of regard; the one called ``module`` has respond(thing, file, asked), which returns bytes."""

    module: str
    doing: str  # in words, for whoever has not what it needs
    needs: str = "torch"  # the distribution that it stands on, which comes into the jail with it
    beside: tuple[str, ...] = ()  # what it imports of regard only when it needs it
    imports: tuple[str, ...] = ("torch", "torch._dynamo")  # before the jail is closed; torch would, later, by itself
    addresses: int = 4 * 2**30  # of one process; torch itself takes one
    memory: int = 3 * 2**30  # of everything that it starts, where the system bounds that
    starts_within: int = 180  # seconds more than without

    def packages(self) -> tuple[str, ...]:
        """What can be imported beside it."""
        return (*PACKAGES, *with_requirements(self.needs), *(ALSO if self.needs == "torch" else ()))

    def payload(self) -> JsonObject:
        """What the inside needs of it."""
        if not with_requirements(self.needs):
            torch = self.needs == "torch"
            raise InputError(f"{self.doing} {NO_TORCH}") if torch else missing_package_error(self.doing, self.needs)
        texts = {name: text for root in (*self.beside, self.module) for name, text in required_sources(root).items()}
        return {"module": self.module, "texts": texts, "imports": [*self.imports]}


@cache
def required_sources(module: str) -> dict[str, str]:
    """The sources of a module of regard and of what it imports from regard, which are not imported for that."""
    sources: dict[str, str] = {}
    waiting = [module]
    while waiting:
        name = waiting.pop()
        if name not in sources:
            sources[name] = _source_file(name).read_text(encoding="utf-8")
            waiting += _regard_imports(sources[name])
    return sources


def _regard_imports(text: str) -> Iterator[str]:
    """The modules of regard that a source imports as soon as it is imported itself."""
    for node in ast.parse(text).body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in OURS:
            for alias in node.names:
                below = f"{node.module}.{alias.name}"
                yield below if _source_file(below).is_file() else str(node.module)


def _source_file(module: str) -> Traversable:
    top, *below = module.split(".")
    folder = resources.files(top)
    for part in below[:-1]:
        folder = folder / part
    last = f"{below[-1]}.py" if below else "__init__.py"
    own = folder / last
    return own if own.is_file() or not below else folder / below[-1] / "__init__.py"


@cache
def with_requirements(name: str) -> tuple[str, ...]:
    """An installed distribution and those that it requires, as far as they are installed; () without it.

    >>> with_requirements("no-such-thing")
    ()
    """
    ordered: dict[str, None] = {}
    waiting = [name]
    while waiting:
        one = waiting.pop()
        try:
            needs = metadata.requires(one) or []
        except metadata.PackageNotFoundError:
            continue
        if one not in ordered:
            ordered[one] = None
            waiting += [re.split(r"[^A-Za-z0-9._-]", need, maxsplit=1)[0] for need in needs if "extra ==" not in need]
    return tuple(ordered)
