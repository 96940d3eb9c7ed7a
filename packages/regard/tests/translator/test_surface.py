"""regard.translator: its names are loaded on first use, without torch until something needs it."""

from __future__ import annotations

import subprocess
import sys

import pytest

import regard.translator
from regard.errors import InputError


def test_importing_it_and_reading_settings_needs_no_torch():
    program = (
        "import sys, regard.translator as t; t.Settings().with_changes(['width=8']); t.load_settings('good');"
        "assert 'train' in dir(t); t.load_corpus('builtin', size=10); print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


@pytest.mark.parametrize("name", sorted({*regard.translator.__all__} - {"Settings", "load_corpus", "load_settings"}))
def test_without_torch_a_name_says_what_to_install(name, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    sentence = rf"regard\.translator\.{name} needs torch, which is not installed: pip install 'regard\[translator\]'"
    with pytest.raises(InputError, match=sentence):
        getattr(regard.translator, name)


def test_there_is_no_other_name():
    with pytest.raises(AttributeError, match=r"module 'regard\.translator' has no attribute 'trian'"):
        _ = regard.translator.trian
