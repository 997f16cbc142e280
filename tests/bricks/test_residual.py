import pytest
import torch

from glassformer.bricks.norm import Residual, make_norm
from helpers.support import numbers, ready, same

D = 7


def part(x: torch.Tensor) -> torch.Tensor:
    return 3 * x.roll(1, -1) - 1


@pytest.mark.parametrize("residual", [True, False])
@pytest.mark.parametrize("order", ["pre", "post"])
def test_formula(order: str, residual: bool) -> None:
    norm = ready(make_norm("layer", D))
    around = ready(Residual(norm=norm, order=order, residual=residual))
    x = numbers(3, 5, D)
    kept = x if residual else 0
    same(around(x, part), kept + part(norm(x)) if order == "pre" else norm(kept + part(x)))


def test_the_mask_reaches_the_norm() -> None:
    norm = ready(make_norm("batch", D)).train()
    mask = torch.arange(5) < torch.tensor([5, 2, 3])[:, None]
    x, garbage = numbers(3, 5, D), numbers(3, 5, D)
    garbage[~mask] = 1e6
    for order in ("pre", "post"):
        around = Residual(norm=norm, order=order)
        same(around(x, part, mask)[mask], around(garbage, part, mask)[mask])


def test_dropout_falls_on_the_part_and_not_on_its_input() -> None:
    around = Residual(norm=make_norm("none", 101), dropout=0.5).double()
    x = numbers(3, 5, 101)
    taken = around(x, torch.ones_like) - x
    assert set(taken.round(decimals=9).unique().tolist()) == {0.0, 2.0}
    same(around.eval()(x, torch.ones_like), x + 1)
