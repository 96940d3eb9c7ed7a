"""The plain data between recorder and judge: there and back, and refused when it is damaged."""

from __future__ import annotations

import io
import math

import numpy as np
import pytest

from regard.errors import InputError
from regard.tracing.recording import Event, Failure, ForwardPass, Node, Recording, Slope, read_recording


def recording() -> Recording:
    events = (Event(op="mm", inputs=(0, 1), outputs=(2,), plain=(1, 0.5, math.inf), line=3, method="forward"),)
    nodes = (
        Node(live=True, parameters=(), shape=(2, 3), value=np.ones((2, 3))),
        Node(live=False, parameters=("w",), shape=(3, 1), value=np.ones((3, 1))),
        Node(live=True, parameters=("w",), shape=(2, 1)),
    )
    raised = Failure(type="ValueError", message="no", line=4, method="forward")
    run = ForwardPass(
        inputs={"ids": np.arange(4).reshape(2, 2)}, output=None, events=events, nodes=nodes, raised=raised
    )
    slope = Slope(parameter="w", backward=None, differences=-1.5, scale=1e-6)
    return Recording(name="M", runs=(run,), parameters={"w": np.ones((3, 1))}, slopes=(slope,), pad=0, masked=run)


def test_there_and_back() -> None:
    first = recording()
    again = read_recording(first.to_bytes())
    assert again.runs[0].events == first.runs[0].events
    assert again.runs[0].raised == first.runs[0].raised
    assert again.slopes == first.slopes
    assert again.masked is not None
    np.testing.assert_array_equal(again.runs[0].inputs["ids"], first.runs[0].inputs["ids"])
    np.testing.assert_array_equal(again.runs[0].nodes[0].value, np.ones((2, 3)))
    assert again.runs[0].nodes[2].value is None
    assert again.to_bytes() == first.to_bytes()


@pytest.mark.parametrize("cut", [0, 10, 200, -30])
def test_a_damaged_recording_is_refused(cut: int) -> None:
    with pytest.raises(InputError, match=r"The recording of the model is damaged \(\w+\); run the check again"):
        read_recording(recording().to_bytes()[:cut])


def test_nothing_is_unpickled() -> None:
    stream = io.BytesIO()
    np.savez(stream, text=np.array([{"a": 1}], dtype=object))
    with pytest.raises(InputError, match="damaged"):
        read_recording(stream.getvalue())


def test_other_text_is_refused() -> None:
    stream = io.BytesIO()
    np.savez(stream, text=np.frombuffer(b'{"entries": [["name", "x"]]}', dtype=np.uint8))
    with pytest.raises(InputError, match="damaged"):
        read_recording(stream.getvalue())
