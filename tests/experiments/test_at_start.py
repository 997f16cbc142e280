"""Models before training: the softmax of attention, and the gradient by depth."""

import math
from itertools import pairwise

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from glassformer.config.resolve import resolve
from glassformer.experiments import at_start
from glassformer.experiments.at_start import DEPTH, HEAD_WIDTHS, KEYS, VARIANTS, softmax_by_width
from glassformer.models.build import build_language_model
from glassformer.verbs.scaling import Growth, scaling


def test_the_scale_keeps_softmax_as_sharp_at_any_width() -> None:
    """Against the same in numpy: scores of variance d are those of variance 1, times √d."""
    largest = softmax_by_width(seed=0)
    scores = np.random.default_rng(0).normal(size=(4000, KEYS))
    for at, width in enumerate(HEAD_WIDTHS):
        for name, spread in (("with 1/√d", 1.0), ("without", math.sqrt(width))):
            weights = np.exp(spread * (scores - scores.max(-1, keepdims=True)))
            weights /= weights.sum(-1, keepdims=True)
            if width >= 16:  # few products are not yet normal
                assert largest[name].y[at] == pytest.approx(weights.max(-1).mean(), abs=0.05)
    assert largest["without"].y[-1] > 0.9


@pytest.fixture(scope="module")
def found() -> Growth:
    return scaling(parts="start", models="rnn,transformer,window")


def test_without_residuals_and_norms_little_gradient_reaches_the_first_layers(found: Growth) -> None:
    curves = found.to_dict()["start"]["gradient"]
    assert all(len(curve["y"]) == DEPTH and curve["y"][-1] == 1 for curve in curves.values())
    first = {name.removeprefix("Transformer, "): curve["y"][0] for name, curve in curves.items()}
    assert list(first) == ["RNN", *VARIANTS, "window"]
    assert all(0.2 < first[name] < 20 for name in ("pre-norm", "post-norm"))
    assert first["no norm, no residual"] < 1e-2 < 1e2 < first["no norm"]
    vanishing = curves["Transformer, no norm, no residual"]["y"]
    assert all(before < after for before, after in pairwise(vanishing))


@pytest.mark.parametrize("name", ["rnn", "lstm", "gru"])
def test_gradients_between_recurrent_layers_are_those_of_torch(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Against torch's fused cell with one layer each, one after the other."""
    for size, value in {"DEPTH": 3, "WIDTH": 12, "VOCAB": 7, "TOKENS": 5, "TEXTS": 2}.items():
        monkeypatch.setattr(at_start, size, value)
    curve = at_start.gradient_by_depth(name, 0, torch.device("cpu"))
    settings = {"model": name, "model.layers": 3, "model.width": 12, "model.context": 5, "model.dropout": 0.0}
    model = build_language_model(resolve({}, settings).model, vocab=7, seed=0)
    ids = torch.randint(7, (2, 6), generator=torch.Generator().manual_seed(0))
    whole: nn.RNNBase = model.encoder.layers.cell
    x, outputs = model.embed(ids[:, :-1]), []
    for layer in range(3):
        single = type(whole)(12, 12, batch_first=True)
        for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
            getattr(single, f"{kind}_l0").data = getattr(whole, f"{kind}_l{layer}").data
        x, _ = single(x)
        outputs.append(x)
    loss = F.cross_entropy(model.head(x).flatten(0, 1), ids[:, 1:].flatten())
    norms = [float(gradient.norm()) for gradient in torch.autograd.grad(loss, outputs)]
    np.testing.assert_allclose(curve.y, [norm / norms[-1] for norm in norms], rtol=1e-4)


def test_the_part_measures_only_the_models_of_the_request() -> None:
    said: list[str] = []
    found = scaling(parts="start", models="rnn", say=said.append)
    assert len(said) == 1  # the name of the part; the findings are printed at the end
    assert set(found.to_dict()["start"]["gradient"]) == {"RNN"}
    assert "Transformer" not in found.findings[0]
    assert "largest weight" not in found.findings[0]
    titles = [panel.title for panel in found.parts["start"].panels]
    assert titles == ["Gradient before training, by depth"]


def test_findings_and_numbers(found: Growth) -> None:
    assert found.findings[0].startswith("Before training, over 64 random keys of width 1,024, the largest weight")
    assert "Transformer, post-norm, no residual " in found.findings[0]
    assert set(found.to_dict()["start"]) == {"largest_weight", "gradient", "layers"}
