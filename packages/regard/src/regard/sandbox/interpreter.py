"""What a jail needs of this Python: the program, the standard library, the shared libraries, and a few packages."""

from __future__ import annotations

import os
import stat
import sys
import sysconfig
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path

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
