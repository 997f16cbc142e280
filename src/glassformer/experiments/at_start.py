"""A Transformer before it has learned anything: how sharp its softmax is, and how much gradient reaches its layers."""

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.bricks.attention import attention_weights
from glassformer.config.errors import Say
from glassformer.config.resolve import resolve
from glassformer.experiments.curves import Curve, Curves, plain
from glassformer.experiments.growth import Section
from glassformer.experiments.request import ScalingRequest
from glassformer.models.build import build_language_model
from glassformer.rendering.panels import Line, Lines

WIDTHS = (4, 16, 64, 256, 1024)
"""Widths of a head."""
KEYS, QUERIES = 64, 512
DEPTH, VOCAB, TOKENS, TEXTS = 16, 64, 32, 8
SCALES = {"with 1/√d": True, "without": False}
VARIANTS: dict[str, dict[str, Any]] = {
    "as it is": {},
    "without residual": {"model.residual": False},
    "without norm": {"model.norm": "none"},
    "without either": {"model.residual": False, "model.norm": "none"},
}
"""Of a stack with pre-norm, whose maps start by Xavier's rule: blocks that start as the identity would show nothing."""


def start_part(plan: ScalingRequest, device: torch.device, say: Say) -> Section:
    largest, entropy = softmax_by_width(plan.seed)
    gradients = {name: gradient_by_depth(plan.seed, device, **settings) for name, settings in VARIANTS.items()}
    charts = [
        _chart("Softmax at the start: the largest weight", largest, "d, width of a head", f"of 1, over {KEYS} keys"),
        _chart("Softmax at the start: entropy", entropy, "d, width of a head", f"nats; evenly {math.log(KEYS):.2f}"),
        _chart("Gradient at the start, by depth", gradients, "layer", "of that at the last", log=True),
    ]
    apart = {name: curve.y[0] for name, curve in gradients.items()}
    widest = {name: curve.y[-1] for name, curve in largest.items()}
    finding = (
        f"Before training, over {KEYS} random keys of width {WIDTHS[-1]:,}, the largest weight of a softmax is "
        f"{widest['without']:.2f} without 1/√d and {widest['with 1/√d']:.2f} with it. Of the gradient at the last of "
        f"{DEPTH} layers, the first gets {', '.join(f'×{part:.2g} {name}' for name, part in apart.items())}."
    )
    numbers = {"largest_weight": plain(largest), "entropy": plain(entropy), "gradient": plain(gradients)}
    return Section(charts, finding, numbers)


def softmax_by_width(seed: int) -> tuple[Curves, Curves]:
    """The mean largest weight and the mean entropy of attention, by the width d of a head, with and without 1/√d.

    Queries and keys are random, each number of variance 1: their products then have variance d.
    """
    draw = torch.Generator().manual_seed(seed)
    largest: dict[str, list[float]] = {name: [] for name in SCALES}
    entropy: dict[str, list[float]] = {name: [] for name in SCALES}
    for width in WIDTHS:
        queries, keys = (torch.randn(1, 1, count, width, generator=draw) for count in (QUERIES, KEYS))
        for name, scaled in SCALES.items():
            weights = attention_weights(queries, keys, scale=None if scaled else 1.0)
            largest[name].append(float(weights.amax(-1).mean()))
            entropy[name].append(float(torch.special.entr(weights).sum(-1).mean()))
    return _curves(largest), _curves(entropy)


def _curves(values: dict[str, list[float]]) -> Curves:
    return {name: Curve([float(width) for width in WIDTHS], each) for name, each in values.items()}


def gradient_by_depth(seed: int, device: torch.device, **settings: Any) -> Curve:
    """The size of the loss's gradient at each layer's output, as a part of that at the last."""
    sizes = {"model.layers": DEPTH, "model.width": 64, "model.heads": 4, "model.context": TOKENS}
    config = resolve({}, {**sizes, "style": "gpt2", "model.initialisation": "xavier", **settings})
    model = build_language_model(config.model, vocab=VOCAB, seed=seed).to(device)
    ids = torch.randint(VOCAB, (TEXTS, TOKENS + 1), generator=torch.Generator().manual_seed(seed)).to(device)
    outputs: list[Tensor] = []

    def keep(block: nn.Module, args: Any, output: Tensor) -> None:
        outputs.append(output)

    hooks = [block.register_forward_hook(keep) for block in model.encoder.get_submodule("blocks").children()]
    loss = F.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
    for hook in hooks:
        hook.remove()
    norms = [float(gradient.norm()) for gradient in torch.autograd.grad(loss, outputs)]
    return Curve([float(layer) for layer in range(DEPTH)], [norm / norms[-1] for norm in norms])


def _chart(title: str, curves: Curves, x_name: str, y_name: str, *, log: bool = False) -> Lines:
    at = 0 if log else -1  # the first layer, or the widest head
    ends = "; ".join(f"{name} {curve.y[at]:.2g}" for name, curve in curves.items())
    where = "At the first layer" if log else f"At d = {WIDTHS[-1]:,}"
    series = [Line(name=name, x=curve.x, y=curve.y, dots=True) for name, curve in curves.items()]
    told = f"{where}: {ends}"
    return Lines(title=title, takeaway=told, series=series, x_name=x_name, y_name=y_name, log_x=not log, log_y=log)
