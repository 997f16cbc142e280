"""Attention to be looked at: within a text, from a translation to its source, between the patches of an image."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Float, UInt8
from numpy.typing import NDArray
from torch import nn

from glassformer.config.arrays import Array
from glassformer.config.errors import Misuse
from glassformer.families.base import Loaded
from glassformer.families.requests import ModelInput
from glassformer.inspection.attention import attention_of, sizes_of
from glassformer.inspection.views.registry import DECODING, HEADS, register_view
from glassformer.inspection.views.request import LookRequest
from glassformer.rendering.panels import Heads, Panel, Patches
from glassformer.rendering.view import View

NAMES = {
    "self": "Attention",
    "source": "Within the source",
    "target": "Within the translation",
    "cross": "From the translation to the source",
}
LOOKING = {
    "self": ("looks", "is looked at"),
    "source": ("looks", "is looked at"),
    "target": ("looks", "is looked at"),
    "cross": ("output", "source"),
}
"""What rows and columns of each stack are."""


def has_attention(loaded: Loaded) -> bool:
    return bool(sizes_of(loaded.model))


def _cuts_patches(loaded: Loaded) -> bool:
    embed = getattr(loaded.model, "embed", None)
    return has_attention(loaded) and getattr(getattr(embed, "image", embed), "cut", None) is not None


@register_view("attention", options=(*HEADS, *DECODING), quick=True, needs=has_attention)
def attention(request: LookRequest) -> View:
    stacks = attention_of(request.model, request.example.inputs)
    return attention_view(stacks, request.example.sides, layer=request.layer, head=request.head, mode=request.mode)


@register_view("alignment", options=(*HEADS, *DECODING), needs=lambda loaded: "cross" in sizes_of(loaded.model))
def alignment(request: LookRequest) -> View:
    example = request.example
    weights = attention_of(request.model, example.inputs)["cross"]
    output, source = example.sides["cross"]
    how = {"layer": request.layer, "head": request.head}
    return alignment_view(weights, source, output, mode=request.mode, title=example.output, **how)


@register_view("patches", options=("layer", "head"), quick=True, needs=_cuts_patches)
def patches(request: LookRequest) -> View:
    example = request.example
    assert example.pixels is not None
    assert example.grid is not None
    assert example.patches is not None
    some = slice(example.patches.start, example.patches.stop)
    weights = attention_of(request.model, example.inputs)["self"][:, :, some, some]
    return patches_view(example.pixels, weights, example.grid, layer=request.layer, head=request.head)


def attention_panels(model: nn.Module, example: ModelInput, before: str = "") -> list[Panel]:
    """The weights of every stack of layers; of an image, from patch to patch. None where there is no attention.

    `before`: what their titles begin with.
    """
    stacks = attention_of(model, example.inputs)
    if stacks and example.pixels is not None and example.grid is not None and example.square is not None:
        view = patches_view(example.pixels, stacks["self"], example.grid)
        return [replace(panel, title=f"{before}{view.title}") for panel in view.panels]
    view = attention_view(stacks, example.sides)
    return [replace(panel, title=f"{before}{panel.title}") for panel in view.panels]


def attention_view(
    stacks: Mapping[str, Float[Array, "L h T S"]],
    tokens: Mapping[str, tuple[Sequence[str], Sequence[str]]],
    *,
    layer: int | None = None,
    head: int | None = None,
    mode: str = "heat",
    title: str = "Where it looks",
) -> View:
    """All layers and heads of one stack or several; `tokens`: those that look and those looked at, by stack."""
    panels = []
    for stack, weights in stacks.items():
        check_choice(weights.shape[:2], layer, head)
        rows, columns = tokens[stack]
        row_name, column_name = LOOKING[stack]
        panels.append(
            Heads(
                title=NAMES[stack],
                weights=weights,
                rows=rows,
                columns=columns,
                row_name=row_name,
                column_name=column_name,
                layer=layer,
                head=head,
                mode=mode,
            )
        )
    return View(title, panels, note="The weights of a token that looks sum to 1.")


def alignment_view(
    weights: Float[Array, "L h T S"],
    source: Sequence[str],
    output: Sequence[str],
    *,
    layer: int | None = None,
    head: int | None = None,
    mode: str = "heat",
    title: str = "",
) -> View:
    """Which tokens of the source a translator looks at while it writes each token."""
    seen = attention_view({"cross": weights}, {"cross": (output, source)}, layer=layer, head=head, mode=mode)
    return View(title or "Alignment", seen.panels, note=chosen(weights.shape[:2], layer, head))


def patches_view(
    pixels: UInt8[Array, "H W C"],
    weights: Float[Array, "L h P P"],
    grid: tuple[int, int],
    *,
    layer: int | None = None,
    head: int | None = None,
    title: str = "",
) -> View:
    """Where the patches of an image look; they stand row by row."""
    check_choice(weights.shape[:2], layer, head)
    panel = Patches(pixels=pixels, weights=weights, grid=grid, layer=layer, head=head)
    return View(title or "Attention between patches", [panel], note=chosen(weights.shape[:2], layer, head))


def check_choice(sizes: Sequence[int], layer: int | None, head: int | None) -> None:
    for name, value, count in zip(("layer", "head"), (layer, head), sizes, strict=True):
        if value is not None and not 0 <= value < count:
            raise Misuse(f"--{name} is {value}, but this run has {name}s 0 to {count - 1}")


def chosen(sizes: Sequence[int], layer: int | None, head: int | None) -> str:
    """Which layers and heads are meant, in words."""
    choices = []
    for name, value, count in zip(("layer", "head"), (layer, head), sizes, strict=True):
        if value is not None:
            choices.append(f"{name} {value}")
        else:
            choices.append(f"mean over {count} {name}s" if count > 1 else f"1 {name}")
    return ", ".join(choices)


def share_on(weights: Float[Array, "*heads T S"], places: Sequence[Sequence[int]]) -> NDArray[Any]:
    """Of each head's weights, how much lies where it should: on the columns named for each row, if any are."""
    shares = [weights[..., row, list(columns)].sum(-1) for row, columns in enumerate(places) if columns]
    return np.mean(shares, 0)
