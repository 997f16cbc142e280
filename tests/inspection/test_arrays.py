"""Tensors become arrays of one kind."""

import numpy as np
import pytest
import torch

from glassformer.inspection.capture import numbers_of


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float64, torch.int64])
def test_numbers_of_any_kind(kind: torch.dtype) -> None:
    found = numbers_of(torch.tensor([[1, 2], [3, -4]], dtype=kind))
    assert found.dtype == np.float32
    assert found.tolist() == [[1, 2], [3, -4]]


def test_numbers_with_a_gradient() -> None:
    assert numbers_of(torch.ones(3, requires_grad=True)).tolist() == [1, 1, 1]
