import numpy as np
import pytest
import torch

from glassformer.bricks.feed_forward import ACTIVATION_MODULES, Bias, MultilayerPerceptron
from glassformer.config.resolve import FIELDS
from helpers.support import ACTIVATIONS_WRITTEN_OUT, differs, numbers, ready, same

B, D, HIDDEN, OUT = 3, 5, 11, 7
HEAD_ACTIVATIONS = FIELDS["model.head_activation"].metadata["rule"].choices


@pytest.mark.parametrize("layers", [0, 1, 2])
def test_written_out(layers: int) -> None:
    brick = ready(MultilayerPerceptron(width=D, out=OUT, layers=layers, hidden=HIDDEN, dropout=0.5))
    x = numbers(B, D)
    y = x.numpy()
    weights = {name: value.detach().numpy() for name, value in brick.named_parameters()}
    assert len(weights) == 2 * layers + 2
    for layer in range(layers):
        y = np.maximum(y @ weights[f"hidden.{layer}.weight"].T + weights[f"hidden.{layer}.bias"], 0)
    same(brick(x), y @ weights["output.weight"].T + weights["output.bias"])


@pytest.mark.parametrize("activation", HEAD_ACTIVATIONS)
@pytest.mark.parametrize("layers", [0, 1, 2])
def test_without_biases(layers: int, activation: str) -> None:
    """h₁ = g(g(x W₁) W₂), as the lecture on tweets writes it, and a last linear map."""
    brick = ready(
        MultilayerPerceptron(width=D, out=OUT, layers=layers, hidden=HIDDEN, activation=activation, bias=False)
    )
    x = numbers(B, D)
    y, weights = x.numpy(), {name: value.detach().numpy() for name, value in brick.named_parameters()}
    assert len(weights) == layers + 1
    for layer in range(layers):
        y = ACTIVATIONS_WRITTEN_OUT[activation](y @ weights[f"hidden.{layer}.weight"].T)
    same(brick(x), y @ weights["output.weight"].T)


@pytest.mark.parametrize("activation", HEAD_ACTIVATIONS)
def test_activations_as_modules(activation: str) -> None:
    x = numbers(B, D)
    same(ACTIVATION_MODULES[activation]()(x), ACTIVATIONS_WRITTEN_OUT[activation](x.numpy()))


@pytest.mark.parametrize("layers", [0, 1, 2])
def test_dropout_in_hidden_layers_while_training(layers: int) -> None:
    brick = ready(MultilayerPerceptron(width=D, out=OUT, layers=layers, hidden=HIDDEN, dropout=0.5))
    x = numbers(B, D)
    whole = brick(x)
    assert differs(brick.train()(x), whole) == (layers > 0)


def test_every_hidden_layer_is_dropped_from() -> None:
    brick = ready(MultilayerPerceptron(width=D, out=OUT, layers=2, hidden=101, dropout=0.5)).train()
    with torch.no_grad():
        for layer in brick.hidden:
            layer.bias.fill_(1e3)  # nothing is 0 but what is dropped
    seen = []
    for part in (brick.hidden[1], brick.output):
        part.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0]))
    brick(numbers(B, D))
    assert all(0.35 < (x == 0).double().mean().item() < 0.65 for x in seen)


def test_bias() -> None:
    brick = ready(Bias(D))
    x = numbers(B, D)
    same(brick(x), x.numpy() + brick.bias.detach().numpy())
    assert (Bias(D).bias == 0).all()
