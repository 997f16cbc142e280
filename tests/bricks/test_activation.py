import pytest
import torch

from glassformer.bricks.feed_forward import ACTIVATIONS
from glassformer.config import model_section
from helpers.support import ACTIVATIONS_WRITTEN_OUT, numbers, same


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_formula(name: str) -> None:
    x = torch.cat([numbers(53, scale=2), torch.tensor([0.0, -0.0], dtype=torch.float64)])
    same(ACTIVATIONS[name](x), ACTIVATIONS_WRITTEN_OUT[name](x.numpy()))


def test_every_name_of_the_settings_is_there() -> None:
    assert set(ACTIVATIONS) == set(model_section.ACTIVATIONS)
