"""Models before training: how sharp the softmax of attention is, and how much gradient reaches each layer."""

from contextlib import ExitStack
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.bricks.attention import attention_weights
from glassformer.bricks.recurrent import Recurrent, trace
from glassformer.config.model_section import RECURRENT
from glassformer.config.resolve import resolve
from glassformer.encoders.base import Encoder
from glassformer.experiments.growth import NAMES, Curve, Curves, Section, by_model, lines, plain, sentence, small
from glassformer.experiments.request import ScalingRequest
from glassformer.models.build import build_language_model
from glassformer.rendering.panels import Lines

HEAD_WIDTHS = (4, 16, 64, 256, 1024)
KEYS, QUERIES = 64, 512
DEPTH, WIDTH, VOCAB, TOKENS, TEXTS = 16, 64, 64, 32, 8
SCALES = {"with 1/√d": True, "without": False}
TRANSFORMER = "transformer"
VARIANTS: dict[str, dict[str, Any]] = {
    "pre-norm": {},
    "pre-norm, no residual": {"model.residual": False},
    "post-norm": {"model.norm_order": "post"},
    "post-norm, no residual": {"model.norm_order": "post", "model.residual": False},
    "no norm": {"model.norm": "none"},
    "no norm, no residual": {"model.norm": "none", "model.residual": False},
}
"""Settings that each variant changes in the lectures' Transformer (style classic, here with pre-norm)."""


def start_part(plan: ScalingRequest, device: torch.device) -> Section:
    """Measure the gradient by depth of each model and, for a Transformer, the softmax with and without 1/√d."""
    gradients = gradients_by_depth(plan, device)
    numbers: dict[str, Any] = {"layers": DEPTH, "gradient": plain(gradients)}
    first = by_model({name: small(curve.y[0]) for name, curve in gradients.items()})
    finding = sentence("finding start", layers=DEPTH, first=first)
    if TRANSFORMER not in plan.models:
        return Section([_depth_chart(gradients)], finding, numbers)
    largest = softmax_by_width(plan.seed)
    chart = Lines(
        title="Softmax at the start: the largest weight",
        series=lines(largest),
        x_name="d, width of a head",
        y_name=f"of 1, over {KEYS} keys",
        log_x=True,
    )
    widest = {name: curve.y[-1] for name, curve in largest.items()}
    facts = {"without": widest["without"], "scaled": widest["with 1/√d"]}
    sharpness = sentence("finding sharpness", keys=KEYS, width=HEAD_WIDTHS[-1], **facts)
    numbers["largest_weight"] = plain(largest)
    return Section([chart, _depth_chart(gradients)], sharpness + finding, numbers)


# --- softmax ---


def softmax_by_width(seed: int) -> Curves:
    """Return the mean largest weight of attention by head width d, with and without 1/√d.

    Queries and keys are random with variance 1, so that their dot products have variance d.
    """
    draw = torch.Generator().manual_seed(seed)
    largest: dict[str, list[float]] = {name: [] for name in SCALES}
    for width in HEAD_WIDTHS:
        queries, keys = (torch.randn(1, 1, count, width, generator=draw) for count in (QUERIES, KEYS))
        for name, scaled in SCALES.items():
            weights = attention_weights(queries, keys, scale=None if scaled else 1.0)
            largest[name].append(float(weights.amax(-1).mean()))
    return {name: Curve([float(width) for width in HEAD_WIDTHS], each) for name, each in largest.items()}


# --- gradient by depth ---


def gradients_by_depth(plan: ScalingRequest, device: torch.device) -> dict[str, Curve]:
    """Return one curve per model; a Transformer has one per variant."""
    curves: dict[str, Curve] = {}
    for name in plan.models:
        if name != TRANSFORMER:
            curves[NAMES[name]] = gradient_by_depth(name, plan.seed, device)
            continue
        for variant, changes in VARIANTS.items():
            curves[f"{NAMES[name]}, {variant}"] = gradient_by_depth(name, plan.seed, device, **changes)
    return curves


def gradient_by_depth(name: str, seed: int, device: torch.device, **changes: Any) -> Curve:
    """Return the norm of the loss's gradient at each layer's output, relative to the last layer.

    A Transformer uses Xavier initialisation, because blocks initialised as the identity would show nothing.
    """
    settings: dict[str, Any] = {"model.layers": DEPTH, "model.width": WIDTH, "model.context": TOKENS}
    if name == TRANSFORMER:
        settings |= {"style": "classic", "model.norm_order": "pre", "model.heads": 4}
    elif name == "cnn":
        settings |= {"model.dilation": 1}  # doubled 16 times, it would reach far beyond the text
    config = resolve({}, {"model": name, "model.dropout": 0.0, **settings, **changes})
    model = build_language_model(config.model, vocab=VOCAB, seed=seed).to(device)
    ids = torch.randint(VOCAB, (TEXTS, TOKENS + 1), generator=torch.Generator().manual_seed(seed)).to(device)
    outputs, features = _layer_outputs(model.encoder, model.embed(ids[:, :-1]), recurrent=name in RECURRENT)
    loss = F.cross_entropy(model.head(features).flatten(0, 1), ids[:, 1:].flatten())
    norms = [float(gradient.norm()) for gradient in torch.autograd.grad(loss, outputs)]
    return Curve([float(layer) for layer in range(1, DEPTH + 1)], [norm / norms[-1] for norm in norms])


def _layer_outputs(encoder: Encoder, x: Tensor, *, recurrent: bool) -> tuple[list[Tensor], Tensor]:
    """Return the output of each layer and of the encoder, all in one autograd graph."""
    if recurrent:  # PyTorch's fused kernel hides the outputs between its layers
        layers = encoder.get_submodule("layers")
        assert isinstance(layers, Recurrent)
        states = [way.states for (way,) in trace(layers.cell, x, layers.init_state(len(x)))]
        return states, states[-1]
    outputs: list[Tensor] = []

    def keep(layer: nn.Module, args: Any, output: Tensor) -> None:
        outputs.append(output)

    names = [name.removesuffix(".output") for (name,) in encoder.layer_outputs()[1:]]
    modules = [encoder.get_submodule(name) for name in names]
    if len(modules) == 1:  # a multilayer perceptron, as in the window encoder
        modules = [units.layer for units in encoder.hidden_units()]
    with ExitStack() as hooks:
        for module in modules:
            hooks.enter_context(module.register_forward_hook(keep))
        return outputs, encoder(x)


def _depth_chart(gradients: Curves) -> Lines:
    return Lines(
        title="Gradient before training, by depth",
        series=lines(gradients, positive=True),
        x_name="layer",
        y_name="fraction of the gradient at the last layer",
        log_y=True,
        note=sentence("note depth", layers=DEPTH, width=WIDTH, texts=TEXTS, tokens=TOKENS),
    )
