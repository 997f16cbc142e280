"""Attention to be looked at: within a text, from a translation to its source, between the patches of an image."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray
from torch import nn

from glassformer.config.arrays import Array
from glassformer.config.errors import Misuse
from glassformer.families.base import Loaded
from glassformer.families.requests import ModelInput
from glassformer.inspection.attention import attention_of, sizes_of
from glassformer.inspection.views.registry import DECODING, HEADS, LookRequest, register_view
from glassformer.rendering.panels import Heads, Panel, Patches
from glassformer.rendering.view import View

STACKS = {
    "self": ("Attention", "looks", "is looked at"),
    "source": ("Within the source", "looks", "is looked at"),
    "target": ("Within the translation", "looks", "is looked at"),
    "cross": ("From the translation to the source", "output", "source"),
}
"""What each stack is called, and its rows and columns."""
BETWEEN_PATCHES = "Attention between patches"


def has_attention(loaded: Loaded) -> bool:
    return bool(sizes_of(loaded.model))


def _cuts_patches(loaded: Loaded) -> bool:
    embed = getattr(loaded.model, "embed", None)
    return has_attention(loaded) and getattr(getattr(embed, "image", embed), "cut", None) is not None


@register_view("attention", options=(*HEADS, *DECODING), quick=True, needs=has_attention)
def attention(request: LookRequest) -> View:
    stacks = attention_of(request.model, request.example.inputs)
    panels = _heads(stacks, request.example, layer=request.layer, head=request.head, mode=request.mode)
    return View("Where it looks", panels, note="The weights of a token that looks sum to 1.")


@register_view("alignment", options=(*HEADS, *DECODING), needs=lambda loaded: "cross" in sizes_of(loaded.model))
def alignment(request: LookRequest) -> View:
    """Which tokens of the source a translator looks at while it writes each token."""
    weights = attention_of(request.model, request.example.inputs)["cross"]
    panels = _heads({"cross": weights}, request.example, layer=request.layer, head=request.head, mode=request.mode)
    return View(request.example.output or "Alignment", panels, note=chosen(weights.shape[:2], request))


@register_view("patches", options=("layer", "head"), quick=True, needs=_cuts_patches)
def patches(request: LookRequest) -> View:
    """Where the patches of an image look; they stand row by row."""
    example, layer, head = request.example, request.layer, request.head
    assert example.pixels is not None
    assert example.grid is not None
    assert example.patches is not None
    some = slice(example.patches.start, example.patches.stop)
    weights = attention_of(request.model, example.inputs)["self"][:, :, some, some]
    check_choice(weights.shape[:2], layer, head)
    panel = Patches(pixels=example.pixels, weights=weights, grid=example.grid, layer=layer, head=head)
    return View(BETWEEN_PATCHES, [panel], note=chosen(weights.shape[:2], request))


def attention_panels(model: nn.Module, example: ModelInput, before: str = "") -> list[Panel]:
    """The weights of every stack of layers; of an image, from patch to patch. None where there is no attention.

    `before`: what their titles begin with.
    """
    stacks = attention_of(model, example.inputs)
    if stacks and example.pixels is not None and example.grid is not None and example.square is not None:
        title = f"{before}{BETWEEN_PATCHES}"
        return [Patches(title=title, pixels=example.pixels, weights=stacks["self"], grid=example.grid)]
    return _heads(stacks, example, before)


def _heads(
    stacks: Mapping[str, Float[Array, "L h T S"]],
    example: ModelInput,
    before: str = "",
    *,
    layer: int | None = None,
    head: int | None = None,
    mode: str = "heat",
) -> list[Panel]:
    """All layers and heads of one stack or several."""
    panels: list[Panel] = []
    for stack, weights in stacks.items():
        check_choice(weights.shape[:2], layer, head)
        rows, columns = example.sides[stack]
        title, row_name, column_name = STACKS[stack]
        panels.append(
            Heads(
                title=f"{before}{title}",
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
    return panels


def check_choice(sizes: Sequence[int], layer: int | None, head: int | None) -> None:
    for name, value, count in zip(("layer", "head"), (layer, head), sizes, strict=True):
        if value is not None and not 0 <= value < count:
            raise Misuse(f"--{name} is {value}, but this run has {name}s 0 to {count - 1}")


def chosen(sizes: Sequence[int], request: LookRequest) -> str:
    """Which layers and heads are meant, in words."""
    choices = []
    for name, value, count in zip(("layer", "head"), (request.layer, request.head), sizes, strict=True):
        if value is not None:
            choices.append(f"{name} {value}")
        else:
            choices.append(f"mean over {count} {name}s" if count > 1 else f"1 {name}")
    return ", ".join(choices)


def share_on(weights: Float[Array, "*heads T S"], places: Sequence[Sequence[int]]) -> NDArray[Any]:
    """Of each head's weights, how much lies where it should: on the columns named for each row, if any are."""
    shares = [weights[..., row, list(columns)].sum(-1) for row, columns in enumerate(places) if columns]
    return np.mean(shares, 0)
