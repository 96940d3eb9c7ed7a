"""Settings files that lie: one sentence each, and no memory, no hang."""

from __future__ import annotations

import os

import pytest

from regard.errors import InputError
from regard.noise import read_model
from regard.toml import LARGEST, read_toml
from regard.translator.runs.settings import Settings, load_settings
from regard.translator.studies.space import load_space

READERS = [
    lambda path: read_toml(path, like="x.toml"),
    read_model,
    load_settings,
    lambda path: load_space(path, Settings()),
]


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"n = " + b"9" * 5000, "is not valid TOML: Exceeds the limit"),
        (b"a = " + b"[" * 100_000, "nested too deeply"),
        (b"a = '\xff'", "is not valid TOML"),
        (b"a = ", "is not valid TOML"),
        (b"#" * (LARGEST + 1), "at most 1,048,576 are read"),
    ],
)
def test_absurd_files(read, data, said, tmp_path):
    (tmp_path / "x.toml").write_bytes(data)
    with pytest.raises(InputError, match=said):
        read(tmp_path / "x.toml")


@pytest.mark.parametrize("read", READERS)
def test_pipes_and_folders_are_no_files(read, tmp_path):
    os.mkfifo(tmp_path / "pipe.toml")
    for path, kind in ((tmp_path / "pipe.toml", "a pipe or a device"), (tmp_path, "a folder"), ("/dev/zero", "a pipe")):
        with pytest.raises(InputError, match=kind):
            read(path)


def test_true_is_no_variance(tmp_path):
    for words in ("isotropic = true", 'isotropic = "1"', "isotropic = 1e400"):
        (tmp_path / "x.toml").write_text(f"orthonormal = 3\n{words}\n")
        with pytest.raises(InputError, match="isotropic must be one finite number"):
            read_model(tmp_path / "x.toml")
