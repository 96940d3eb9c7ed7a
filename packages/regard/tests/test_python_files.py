"""Files that people name: loaded among their neighbours, in packages too, and what is wrong is one sentence."""

from __future__ import annotations

import sys

import pytest

from regard.errors import InputError
from regard.python_files import load_file, load_named, neighbours_on_path


def write(folder, **files):
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)


def test_a_file_imports_its_neighbours_and_the_current_folder(tmp_path, monkeypatch):
    write(
        tmp_path / "deep", mine_237="from beside_237 import two\nfrom below_237.three import three\nsix = two * three"
    )
    write(tmp_path / "deep", beside_237="two = 2")
    write(tmp_path / "here" / "below_237", three="three = 3")
    monkeypatch.chdir(tmp_path / "here")
    before = list(sys.path)
    assert load_named(f"{tmp_path}/deep/mine_237.py:six")[1] == 6
    assert sys.path == before


def test_a_file_in_a_package_has_its_relative_imports(tmp_path):
    root = tmp_path / "pack_239"
    write(root, __init__="start = 5", sizes="width = 7")
    write(root / "models", __init__="", layer="from .. import start\nfrom ..sizes import width\nboth = (start, width)")
    assert load_named(f"{root}/models/layer.py:both")[1] == (5, 7)


def test_a_file_that_the_head_of_its_package_imports_is_loaded_once(tmp_path):
    root = tmp_path / "pack_241"
    write(
        root, __init__="from .net import Net", parts="runs = []", net="from .parts import runs\nruns.append(1)\nNet = 7"
    )
    module, found = load_named(f"{root}/net.py:Net")
    assert (found, module.runs) == (7, [1])
    assert load_named(f"{root}/net.py:Net")[0].runs == [1, 1]  # named again, it is read again


def test_a_head_that_fails_matters_to_relative_imports_alone(tmp_path):
    root = tmp_path / "pack_251"
    write(root, __init__="import missing_257", alone="three = 3", other="", mine="from .other import three")
    assert load_named(f"{root}/alone.py:three")[1] == 3
    with pytest.raises(InputError, match="No module named 'missing_257'"):
        load_file(root / "mine.py")


def test_a_package_called_like_a_library_does_not_become_it(tmp_path):
    """Its relative imports would reach into the library: it is loaded under a name of its own."""
    write(tmp_path / "numpy", __init__="", mine="three = 3")
    numpy = sys.modules["numpy"]
    assert load_named(f"{tmp_path}/numpy/mine.py:three")[1] == 3
    assert sys.modules["numpy"] is numpy
    assert "numpy.mine" not in sys.modules


def test_two_files_of_one_name_are_two_modules(tmp_path):
    for n in (2, 3):
        write(tmp_path / str(n), model=f"value = {n}")
    modules = [load_file(tmp_path / str(n) / "model.py") for n in (2, 3)]
    assert [module.value for module in modules] == [2, 3]
    assert modules[0].__name__ != modules[1].__name__


def test_what_is_imported_later_is_found_too(tmp_path):
    write(tmp_path, late_241="def build():\n    import later_241\n    return later_241.n", later_241="n = 11")
    build = load_named(f"{tmp_path}/late_241.py:build")[1]
    with neighbours_on_path(tmp_path / "late_241.py"):
        assert build() == 11


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 / 0", "a.py could not be imported: ZeroDivisionError: division by zero; fix it first."),
        ("raise SystemExit(3)", "a.py could not be imported: SystemExit: 3; fix it first."),
        (
            "import nowhere_251",
            r"named 'nowhere_251' \(looked for in .* and .*, then among what is installed\)",
        ),
        ("from . import b", "ImportError: attempted relative import with no known parent package"),
        ("def f(:", "SyntaxError"),
        ("def g(): pass\ndef _h(): pass", "a.py has no 'f'; it has g."),
        ("", "a.py has no 'f'; it has nothing to call."),
    ],
)
def test_what_is_wrong_is_one_sentence(tmp_path, text, message):
    write(tmp_path, a=text)
    with pytest.raises(InputError, match=message):
        load_named(f"{tmp_path}/a.py:f")


@pytest.mark.parametrize("spec", ["a.py", "a.txt:f", "a.py:", "a.py:1f", ":f"])
def test_what_names_no_file_and_function(spec):
    with pytest.raises(InputError, match=r"must name a file and a function in it, as in my_map\.py:block"):
        load_named(spec)
