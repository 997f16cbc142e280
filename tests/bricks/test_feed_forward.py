import itertools

import numpy as np
import pytest
import torch

from glassformer.bricks.feed_forward import FeedForward
from glassformer.config.model_section import ACTIVATIONS
from helpers.support import ACTIVATIONS_WRITTEN_OUT, Seen, numbers, ready, same

D, HIDDEN = 5, 11


@pytest.mark.parametrize(("activation", "layers", "bias"), list(itertools.product(ACTIVATIONS, (1, 2), (True, False))))
def test_formula(activation: str, layers: int, bias: bool) -> None:
    feed = ready(FeedForward(width=D, hidden=HIDDEN, activation=activation, layers=layers, bias=bias))
    x = numbers(2, 3, D)
    weights = {name: value.numpy() for name, value in feed.state_dict().items()}

    def linear(name: str, x: np.ndarray) -> np.ndarray:
        return x @ weights[f"{name}.weight"].T + weights.get(f"{name}.bias", 0.0)

    expected = ACTIVATIONS_WRITTEN_OUT[activation](linear("input", x.numpy()))
    if activation == "swiglu":
        expected = expected * linear("gate", x.numpy())
    with Seen(active=feed.active) as seen:
        out = feed(x)
    same(seen["active"], expected)
    assert expected.shape[-1] == (HIDDEN if layers == 2 else D)
    same(out, linear("output", expected) if layers == 2 else expected)
    assert any(name.endswith("bias") for name in weights) == bias


def test_no_information_moves_between_tokens() -> None:
    feed = ready(FeedForward(width=D, hidden=HIDDEN))
    x = numbers(2, 3, D)
    other = x.clone()
    other[1, 1] += 1
    assert (feed(x) != feed(other)).any(-1).nonzero().tolist() == [[1, 1]]
    same(feed(x[:, torch.tensor([2, 0, 1])]), feed(x)[:, torch.tensor([2, 0, 1])])
    same(feed(x[0, 0]), feed(x)[0, 0])
