"""What holds of a Transformer before it has learned anything."""

import math
from itertools import pairwise

import numpy as np
import pytest
import torch

from glassformer.experiments.at_start import DEPTH, KEYS, VARIANTS, WIDTHS, gradient_by_depth, softmax_by_width
from glassformer.verbs.scaling import scaling


def test_the_scale_keeps_softmax_as_sharp_at_any_width() -> None:
    """Against the same in numpy: scores of variance d are those of variance 1, times √d."""
    largest, entropy = softmax_by_width(seed=0)
    scores = np.random.default_rng(0).normal(size=(4000, KEYS))
    for at, width in enumerate(WIDTHS):
        for name, spread in (("with 1/√d", 1.0), ("without", math.sqrt(width))):
            weights = np.exp(spread * (scores - scores.max(-1, keepdims=True)))
            weights /= weights.sum(-1, keepdims=True)
            nats = -(weights * np.log(np.maximum(weights, 1e-300))).sum(-1).mean()
            if width >= 16:  # few products are not yet normal
                assert largest[name].y[at] == pytest.approx(weights.max(-1).mean(), abs=0.05)
                assert entropy[name].y[at] == pytest.approx(nats, abs=0.15)
    assert largest["without"].y[-1] > 0.9
    assert entropy["with 1/√d"].y[-1] > 0.8 * math.log(KEYS)


def test_without_residuals_and_norms_little_gradient_reaches_the_first_layers() -> None:
    curves = {name: gradient_by_depth(0, torch.device("cpu"), **settings) for name, settings in VARIANTS.items()}
    assert all(len(curve.y) == DEPTH and curve.y[-1] == 1 for curve in curves.values())
    assert 0.2 < curves["as it is"].y[0] < 20
    assert curves["without either"].y[0] < 1e-4
    assert all(before < after for before, after in pairwise(curves["without either"].y))


def test_the_part_says_what_it_found() -> None:
    said: list[str] = []
    found = scaling(parts="start", say=said.append)
    assert len(said) == 1  # which part it is: what was found is printed at the end
    assert found.findings[0].startswith("Before training, over 64 random keys of width 1,024, the largest weight")
    assert set(found.to_dict()["start"]) == {"largest_weight", "entropy", "gradient"}
