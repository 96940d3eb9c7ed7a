"""What is followed through a model's operators."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="models need torch")

from regard_models.kernels.tensor_marks import Marks  # noqa: E402


def test_a_copy_of_a_parameter_is_constant_as_long_as_it_lives_and_not_what_comes_to_its_place() -> None:
    model = torch.nn.Linear(64, 64)
    marks = Marks(model)
    assert marks.is_constant(model.weight)
    for _ in range(50):
        copy = model.weight.detach().bfloat16()
        marks.follow("_to_copy", (model.weight,), {}, copy)
        assert marks.is_constant(copy)
        del copy
        fresh = [torch.zeros(64, 64, dtype=torch.bfloat16) for _ in range(5)]
        assert not any(map(marks.is_constant, fresh))
