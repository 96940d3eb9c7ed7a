"""Every reader of files, given damaged ones: an answer or one sentence, and neither a hang nor much memory."""

from __future__ import annotations

import gzip
import io
import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from damage import cases, damaged, outcome, peak
from regard.errors import RegardError

KEYS = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [0.5, 0.25]])
GLOVE = b"hund 1 2 3\nder 0.5 -0.25 1e-3\n. . . 4 5 6\n"
BINARY = b"2 3\nhund " + np.array([1, 2, 3], "<f4").tobytes() + b"\nder " + np.array([4, 5, 6], "<f4").tobytes()
PAIRS = "".join(f"Satz {i}.\tSentence {i}.\n" for i in range(9)).encode()
MAP = b"import numpy as np\n\ndef block(X):\n    return X + np.arange(len(X))[:, None]\n"
MOST = 1 << 30  # bytes that reading files of some hundred may take on top


def _npy() -> bytes:
    stream = io.BytesIO()
    np.save(stream, KEYS)
    return stream.getvalue()


def _npz(*, packed: bool = False) -> bytes:
    stream = io.BytesIO()
    (np.savez_compressed if packed else np.savez)(stream, keys=KEYS, other=np.arange(3))
    return stream.getvalue()


def _safetensors(kind: str = "F64", array: np.ndarray[Any, Any] = KEYS) -> bytes:
    data = array.tobytes()
    head = json.dumps({"keys": {"dtype": kind, "shape": list(array.shape), "data_offsets": [0, len(data)]}}).encode()
    return len(head).to_bytes(8, "little") + head + data


def _certificate() -> bytes:
    from regard.design import copy

    return json.dumps(copy(KEYS, 0, eps=0.01).to_dict()).encode()


def _winnable() -> bytes:
    from regard.design.winnable_rows import winnable

    return json.dumps(winnable(KEYS, jobs=1).to_dict()).encode()


def _capture(tmp: Path) -> bytes:
    from regard_models.capturing.records import AttentionRecord, Capture

    weights = np.full((1, 2, 3, 3), 1 / 3, np.float32)
    one = AttentionRecord(
        index=0, module="a", kernel="sdpa", weights=weights, heads=(0, 1), residual=0.0, tolerance=1e-5
    )
    Capture(records=(one,), tokens=[["a", "b", "c"]], name="toy").to_safetensors(tmp / "c.safetensors")
    return (tmp / "c.safetensors").read_bytes()


def _array(path: Path) -> None:
    from regard.arrays import load_array

    load_array(f"{path}:keys" if path.suffix in (".npz", ".safetensors") else str(path))


def _verify(path: Path) -> None:
    from regard.design import verify
    from regard.design.certificate import read_answers

    for answer in read_answers(path):
        str(verify(answer, keys=KEYS))


def _verify_winnable(path: Path) -> None:
    from regard.design.winnable_check import verify_winnable

    str(verify_winnable(KEYS, path))


def _resume_winnable(path: Path) -> None:
    from regard.design.winnable_rows import winnable

    str(winnable(KEYS, jobs=1, checkpoint=path))


def _noise(path: Path) -> None:
    from regard.noise.model import read_model

    read_model(path)


def _settings(path: Path) -> None:
    from regard.translator.runs.settings import load_settings

    load_settings(path)


def _space(path: Path) -> None:
    from regard.translator.runs.settings import Settings
    from regard.translator.studies.space import load_space

    load_space(path, Settings())


def _read_capture(path: Path) -> None:
    from regard_models.capturing.records import Capture

    str(Capture.read(path))


def _vectors(kind: str) -> Callable[[Path], object]:
    from regard.translator.data.vectors import read_glove, read_word2vec

    return lambda path: (read_glove if kind == "glove" else read_word2vec)(path, {"hund", "der"})


def _corpus(path: Path) -> None:
    from regard.translator.data.corpus import load_corpus

    str(load_corpus(path).report)


def _figures(path: Path) -> None:
    from regard.coursework.training_figures import read

    read(path.read_text(encoding="utf-8", errors="replace"), path)


def _shipped(*names: str) -> bytes:
    from importlib import resources

    return resources.files("regard").joinpath(*names).read_bytes()


def _noise_file() -> bytes:
    from regard.noise.model import EXAMPLE

    return EXAMPLE.encode()


Read = tuple[str, Callable[[Path], bytes], Callable[[Path], object], int]
READERS: dict[str, Read] = {  # the file's ending, a good one, its reader, how many damaged ones
    "array .npy": (".npy", lambda _: _npy(), _array, 250),
    "array .npz": (".npz", lambda _: _npz(), _array, 250),
    "array .npz packed": (".npz", lambda _: _npz(packed=True), _array, 250),
    "array .safetensors": (".safetensors", lambda _: _safetensors(), _array, 250),
    "array .safetensors bf16": (".safetensors", lambda _: _safetensors("BF16", KEYS.astype("<f2")), _array, 100),
    "array .csv": (".csv", lambda _: b"x,y\n1,0\n0,1\n1.5,-2e3\n", _array, 200),
    "array .tsv": (".tsv", lambda _: b"1\t0\n0\t1\n", _array, 100),
    "array .txt": (".txt", lambda _: b"# a comment\n1 0\n0 1\n", _array, 100),
    "noise": (".toml", lambda _: _noise_file(), _noise, 200),
    "settings": (".toml", lambda _: _shipped("configs", "coursework.toml"), _settings, 200),
    "search space": (".toml", lambda _: _shipped("configs", "spaces", "coursework.toml"), _space, 200),
    "certificate": (".json", lambda _: _certificate(), _verify, 200),
    "winnable": (".json", lambda _: _winnable(), _verify_winnable, 200),
    "winnable resumed": (".json", lambda _: _winnable(), _resume_winnable, 100),
    "capture": (".safetensors", _capture, _read_capture, 300),
    "glove": (".txt", lambda _: GLOVE, _vectors("glove"), 300),
    "glove .gz": (".gz", lambda _: gzip.compress(GLOVE, mtime=0), _vectors("glove"), 200),
    "word2vec text": (".txt", lambda _: b"3 3\n" + GLOVE, _vectors("word2vec"), 300),
    "word2vec binary": (".bin", lambda _: BINARY, _vectors("word2vec"), 300),
    "word2vec .gz": (".gz", lambda _: gzip.compress(BINARY, mtime=0), _vectors("word2vec"), 200),
    "corpus .tsv": (".tsv", lambda _: b"de\ten\n" + PAIRS, _corpus, 200),
    "corpus .tsv.gz": (".gz", lambda _: gzip.compress(PAIRS, mtime=0), _corpus, 200),
    "figures": (".json", lambda _: _shipped("coursework", "records", "defaults.json"), _figures, 200),
}


@pytest.mark.parametrize("name", READERS)
def test_damaged_files(name: str, tmp_path: Path) -> None:
    ending, good, read, count = READERS[name]
    data, file = good(tmp_path), tmp_path / f"file{ending}"
    file.write_bytes(data)
    assert outcome(lambda: read(file)) is None, "the undamaged file must be read"
    before = peak()
    for seed, draw in cases(name, count):
        file.write_bytes(damaged(data, draw))
        error = outcome(lambda: read(file))
        assert error is None or isinstance(error, RegardError), f"{name}, FUZZ_SEED={seed}: {error!r}"
        if error is not None:
            assert "\n" not in str(error) or str(error).count("\n- "), f"{name}, FUZZ_SEED={seed}: {error}"
            assert len(str(error)) < 6000, f"{name}, FUZZ_SEED={seed}: a sentence of {len(str(error))} letters"
    assert peak() - before < MOST


def test_damaged_map_files(tmp_path: Path) -> None:
    """The file is code, and is run: whatever it raises is one sentence."""
    from regard.symmetry.maps import load_map

    for seed, draw in cases("map", 150):
        file = tmp_path / f"map_{seed.replace('-', '_')}.py"
        file.write_bytes(damaged(MAP, draw))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python warns about odd code, which is not ours
            error = outcome(lambda file=file: load_map(f"{file}:block"))  # type: ignore[misc]
        assert error is None or isinstance(error, RegardError), f"map, FUZZ_SEED={seed}: {error!r}"
