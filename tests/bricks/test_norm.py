import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from glassformer.bricks.norm import BatchNorm, layer_norm, make_norm, rms_norm
from glassformer.config.model_section import NORMS
from helpers.support import differs, numbers, randomise, ready, same

B, T, D = 3, 5, 7


def written_out(kind: str, x: np.ndarray, weights: dict[str, np.ndarray]) -> np.ndarray:
    if kind == "layer":
        normed = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
        return normed * weights["weight"] + weights.get("bias", 0.0)
    if kind == "rms":
        return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6) * weights["weight"]
    if kind == "batch":
        normed = (x - weights["norm.running_mean"]) / np.sqrt(weights["norm.running_var"] + 1e-5)
        return normed * weights["norm.weight"] + weights["norm.bias"]
    assert kind == "none"
    return x


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("kind", NORMS)
def test_formula(kind: str, bias: bool) -> None:
    norm = ready(make_norm(kind, D, bias=bias))
    x = numbers(B, T, D, scale=3) + 1
    weights = {name: value.numpy() for name, value in norm.state_dict().items()}
    same(norm(x), written_out(kind, x.numpy(), weights))


@pytest.mark.parametrize("scale", [1e-4, 1.0])  # where numbers are small, the ε inside the root shows
def test_written_out_layer_norm(scale: float) -> None:
    x, gain, shift = numbers(B, T, D, scale=scale), numbers(D, seed=1), numbers(D, seed=2)
    same(layer_norm(x, gain, shift), F.layer_norm(x, (D,), gain, shift))
    same(layer_norm(x, gain), F.layer_norm(x, (D,), gain))
    same(make_norm("layer", D).double()(x), layer_norm(x, torch.ones(D, dtype=x.dtype)))


@pytest.mark.parametrize("scale", [1e-4, 1.0])
def test_written_out_rms_norm(scale: float) -> None:
    x, gain = numbers(B, T, D, scale=scale), numbers(D, seed=1)
    same(rms_norm(x, gain), F.rms_norm(x, (D,), gain, eps=1e-6))
    same(make_norm("rms", D).double()(x), rms_norm(x, torch.ones(D, dtype=x.dtype)))


def test_biases_are_there_when_asked_for() -> None:
    assert make_norm("layer", D, bias=True).bias is not None
    assert make_norm("layer", D, bias=False).bias is None


def test_batch_norm_in_training() -> None:
    x = numbers(B, T, D, scale=3) + 1
    norm = BatchNorm(D).double()
    reference = nn.BatchNorm1d(D).double()
    same(norm(x), reference(x.transpose(1, 2)).transpose(1, 2))
    same(norm.norm.running_mean, reference.running_mean)
    same(norm.norm.running_var, reference.running_var)


def test_batch_norm_leaves_padding_out() -> None:
    x = numbers(B, T, D, scale=3) + 1
    mask = torch.arange(T) < torch.tensor([5, 2, 3])[:, None]
    norm, reference = randomise(BatchNorm(D).double()), randomise(BatchNorm(D).double())
    out = norm(x, mask)
    real = reference.norm(x[mask])
    same(out[mask], real)
    assert torch.equal(out[~mask], torch.zeros_like(out[~mask]))
    same(norm.norm.running_mean, reference.norm.running_mean)
    x[~mask] = 1e6
    same(norm(x, mask)[mask], reference.norm(x[mask]))


@pytest.mark.parametrize("kind", NORMS)
def test_in_use_a_token_is_normed_alone(kind: str) -> None:
    norm = ready(make_norm(kind, D))
    x = numbers(B, T, D)
    other = x.clone()
    other[0, 2] += numbers(D, seed=1)
    changed = (norm(x) != norm(other)).any(-1)
    assert changed.nonzero().tolist() == [[0, 2]]
    mask = torch.arange(T) < torch.tensor([5, 2, 3])[:, None]
    same(norm(x, mask)[mask], norm(x)[mask])


def test_the_kinds_differ() -> None:
    x = numbers(B, T, D) + 1
    outs = [ready(make_norm(kind, D))(x) for kind in NORMS]
    assert all(differs(a, b) for i, a in enumerate(outs) for b in outs[:i])


def test_unknown_name() -> None:
    with pytest.raises(AssertionError, match="nrom"):
        make_norm("nrom", D)
