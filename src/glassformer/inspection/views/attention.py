"""Views of attention: within a text, from a translation to its source, and between the patches of an image."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from jaxtyping import Float
from torch import nn

from glassformer.bricks.capabilities import parts_with
from glassformer.config.arrays import Array
from glassformer.config.errors import Misuse
from glassformer.families.base import Loaded
from glassformer.families.requests import ModelInput
from glassformer.inspection.attention import attention_of, causal_stacks, clearest, sharpness, sizes_of
from glassformer.inspection.views.head_roles import ANY, Choice, heads_panel, who_looks
from glassformer.inspection.views.registry import DECODING, HEADS, LookRequest, leader, register_view, wording
from glassformer.models.inputs import CutsImages
from glassformer.rendering.panels import Heads, Panel, Patches
from glassformer.rendering.view import View

STACKS: Mapping[str, tuple[str, str, str]] = wording("stacks")
"""Title, row name and column name of each stack."""
BETWEEN_PATCHES = "Attention between patches"


def has_attention(loaded: Loaded) -> bool:
    return bool(sizes_of(loaded.model))


def _cuts_patches(loaded: Loaded) -> bool:
    return has_attention(loaded) and any(parts_with(loaded.model, CutsImages))


@register_view("attention", options=(*HEADS, *DECODING), quick=True, needs=has_attention)
def attention(request: LookRequest) -> View:
    weights = attention_of(request.model, request.example.inputs)
    panels = _heads(request.model, weights, request.example, _chosen(request), mode=request.mode)
    return View("Where it looks", panels, note="The weights of a token that looks sum to 1.")


@register_view("alignment", options=(*HEADS, *DECODING), needs=lambda loaded: "cross" in sizes_of(loaded.model))
def alignment(request: LookRequest) -> View:
    """Show which source tokens a translator attends to while it generates each token."""
    weights = {"cross": attention_of(request.model, request.example.inputs)["cross"]}
    (shown,) = _heads(request.model, weights, request.example, _chosen(request), mode=request.mode)
    # The layer is None if there is only one head.
    note = "" if shown.layer is None else f"layer {shown.layer}, head {shown.head}"
    return View(request.example.output or "Alignment", [shown], note=note)


def _chosen(request: LookRequest) -> dict[str, Choice]:
    return dict.fromkeys(STACKS, (request.layer, request.head))


@register_view("patches", options=("layer", "head"), quick=True, needs=_cuts_patches)
def patches(request: LookRequest) -> View:
    """Show the attention between the patches of an image, which are in row-major order."""
    example = request.example
    assert example.pixels is not None
    assert example.grid is not None
    assert example.patches is not None
    some = slice(example.patches.start, example.patches.stop)
    weights = attention_of(request.model, example.inputs)["self"][:, :, some, some]
    return View(BETWEEN_PATCHES, [_patches(weights, example, (request.layer, request.head))])


def attention_panels(
    model: nn.Module, example: ModelInput, before: str = "", choices: Mapping[str, Choice] | None = None
) -> list[Panel]:
    """Return the attention of every stack, or between the patches of an image; empty without attention.

    `before` is the prefix of the titles. `choices` holds the layer and head to show first in each stack; by default it
    is the sharpest head.
    """
    stacks = attention_of(model, example.inputs)
    if stacks and example.pixels is not None and example.grid is not None and example.square is not None:
        choice = (choices or {}).get("self", ANY)
        return [_patches(stacks["self"], example, choice, f"{before}{BETWEEN_PATCHES}")]
    return [*_heads(model, stacks, example, choices or {}, before)]


def clearest_heads(model: nn.Module, example: ModelInput) -> dict[str, Choice]:
    """Return the layer and number of the sharpest head of every stack."""
    causal = causal_stacks(model)
    stacks = attention_of(model, example.inputs).items()
    return {stack: clearest(sharpness(weights, causal=stack in causal)) for stack, weights in stacks}


def _patches(weights: Float[Array, "L h T T"], example: ModelInput, choice: Choice, title: str = "") -> Patches:
    assert example.pixels is not None
    assert example.grid is not None
    check_choice(weights.shape[:2], *choice)
    layer, head = clearest(sharpness(weights), *choice)
    places = [f"row {row}, column {column}" for row, column in np.ndindex(*example.grid)]
    takeaway = ""
    if weights.shape[-1] == len(places):
        mean = weights[layer or 0, head or 0].mean(0)
        takeaway = leader("most weight", places, mean, who=who_looks(weights, layer, head))
    return Patches(
        title=title or BETWEEN_PATCHES,
        takeaway=takeaway,
        pixels=example.pixels,
        weights=weights,
        grid=example.grid,
        layer=layer,
        head=head,
    )


def _heads(
    model: nn.Module,
    stacks: Mapping[str, Float[Array, "L h T S"]],
    example: ModelInput,
    choices: Mapping[str, Choice],
    before: str = "",
    *,
    mode: str = "heat",
) -> list[Heads]:
    """Return a panel of each stack; mode `lines` shows all heads of a layer, `all` the heads of all layers."""
    panels = []
    for stack, weights in stacks.items():
        causal = stack in causal_stacks(model)
        wanted = choices.get(stack, ANY)
        check_choice(weights.shape[:2], *wanted)
        best = layer, head = clearest(sharpness(weights, causal=causal), *wanted)
        if mode != "heat":
            layer, head = (wanted[0] if mode == "all" else layer), wanted[1]
        title, row_name, column_name = STACKS[stack]
        panel = heads_panel(f"{before}{title}", weights, example.sides[stack], best, mode=mode, causal=causal)
        panels.append(replace(panel, row_name=row_name, column_name=column_name, layer=layer, head=head))
    return panels


def check_choice(sizes: Sequence[int], layer: int | None, head: int | None) -> None:
    """Raise `Misuse` for a layer or head that does not exist; `sizes` are the numbers of layers and heads."""
    for name, value, count in zip(("layer", "head"), (layer, head), sizes, strict=True):
        if value is not None and not 0 <= value < count:
            raise Misuse(f"--{name} is {value}, but this run has {name}s 0 to {count - 1}")
