"""Occlusion: an example without each of its parts in turn, without a word, a column, a patch.

Words are removed. A number is put at its mean, a category at a value that training did not see, the pixels of a patch
at the mean colour: to a model, all of these are 0.
"""

from collections.abc import Collection, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.bricks.image import ConvolutionStack, Patches
from glassformer.models.inputs import ColumnTokens, FlatColumns, FlatPixels, ImageTokens, MixedTokens
from glassformer.models.modules import BagPredictor, Predictor, TextPredictor

Inputs = tuple[Any, ...]
"""What a model is called with."""

AT_ONCE = 64
"""Examples, each without one of its parts, that go through a model together."""


def parts_of(model: nn.Module, inputs: Inputs) -> int:
    """How many parts an example has: columns, then patches, then words."""
    if not isinstance(model, Predictor) or isinstance(model, TextPredictor):
        return int(inputs[0].shape[1])
    embed, text = model.embed, text_inputs(model.embed)
    columns = sum(one.shape[1] for one in inputs[text : text + 2]) if has_columns(embed) else 0
    image = image_of(embed)
    words = inputs[0].shape[1] if text else 0
    return int(columns + (0 if image is None else len(blocks(image, inputs[-1]))) + words)


def without_each(
    model: nn.Module, inputs: Inputs, *, stay: Collection[int] = (), last: int | None = None
) -> Iterator[tuple[list[int], Inputs]]:
    """Batches of the first example without a part each, and which parts those are.

    Words whose ids `stay` are not removed, nor those from the place `last` on, nor padding.
    """
    waiting: list[tuple[int, Inputs]] = []
    for one in _variants(model, inputs, stay, last):
        if waiting and (len(waiting) == AT_ONCE or one[1][0].shape != waiting[0][1][0].shape):
            yield _batch(waiting)
            waiting = []
        waiting.append(one)
    if waiting:
        yield _batch(waiting)


def occlusion_in_words(model: nn.Module) -> str:
    """What leaving out means for this model."""
    if isinstance(model, BagPredictor):
        again = "" if model.bag.weighting == "counts" else ", the other words keep their weights"
        return f"its share of the sum is taken away{again}"
    if not isinstance(model, Predictor) or isinstance(model, TextPredictor):
        return "it is removed from the text"
    embed, sentences = model.embed, []
    if has_columns(embed):
        sentences.append("a number is put at its mean, a category at an unknown value")
    if (image := image_of(embed)) is not None:
        part = "pixel" if isinstance(image, FlatPixels) else "patch"
        sentences.append(f"a {part} is painted over with the mean colour of the training images")
    if text_inputs(embed):
        sentences.append("a word is removed")
    return "; ".join(sentences)


def staying(tokens: Tensor, stay: Collection[int]) -> Tensor:
    """Which tokens of the first example are among those."""
    return torch.isin(tokens[0], torch.tensor(list(stay), dtype=tokens.dtype, device=tokens.device))


def _variants(
    model: nn.Module, inputs: Inputs, stay: Collection[int], last: int | None
) -> Iterator[tuple[int, Inputs]]:
    inputs = tuple(one[:1] if isinstance(one, Tensor) else one for one in inputs)
    first = 0
    if isinstance(model, Predictor) and not isinstance(model, TextPredictor):
        embed, text = model.embed, text_inputs(model.embed)
        for at in range(text, text + 2) if has_columns(embed) else ():
            for column in range(inputs[at].shape[1]):
                yield first + column, _emptied(inputs, at, (slice(None), column))
            first += inputs[at].shape[1]
        image = image_of(embed)
        for block in [] if image is None else blocks(image, inputs[-1]):
            yield first, _emptied(inputs, len(inputs) - 1, (..., *block))
            first += 1
        if not text:
            return
    tokens, mask = inputs[0], inputs[1] if len(inputs) > 1 else None
    fixed = staying(tokens, stay)
    for place in range(tokens.shape[1] if last is None else last):
        if not fixed[place] and (mask is None or mask[0, place]):
            yield first + place, _removed(inputs, place)


def _removed(inputs: Inputs, place: int) -> Inputs:
    """Without this token; without its only one, a text is padding alone."""
    tokens, mask, *more = (*inputs, None) if len(inputs) == 1 else inputs
    if tokens.shape[1] == 1:
        return tokens, torch.zeros_like(tokens, dtype=torch.bool), *more
    others = [other for other in range(tokens.shape[1]) if other != place]
    shorter = (tokens[:, others], None if mask is None else mask[:, others], *more)
    return shorter[: len(inputs)]


def _emptied(inputs: Inputs, at: int, place: tuple[Any, ...]) -> Inputs:
    changed = inputs[at].clone()
    changed[place] = 0
    return (*inputs[:at], changed, *inputs[at + 1 :])


def _batch(variants: list[tuple[int, Inputs]]) -> tuple[list[int], Inputs]:
    columns = zip(*(changed for _, changed in variants), strict=True)
    joined = tuple(torch.cat(column) if isinstance(column[0], Tensor) else None for column in columns)
    return [place for place, _ in variants], joined


def text_inputs(embed: nn.Module) -> int:
    """How many of the inputs are a text's, where there is more than text: tokens and mask, or none."""
    return 2 if isinstance(embed, MixedTokens) and embed.words is not None else 0


def has_columns(embed: nn.Module) -> bool:
    return any(isinstance(part, ColumnTokens | FlatColumns) for part in embed.modules())


def image_of(embed: nn.Module) -> ImageTokens | FlatPixels | None:
    return next((part for part in embed.modules() if isinstance(part, ImageTokens | FlatPixels)), None)


def blocks(image: ImageTokens | FlatPixels, pixels: Tensor) -> list[tuple[slice, slice]]:
    """The pixels of each patch, row by row; of a grid of convolutions, those that a cell stands above."""
    side, more = 1, False
    if isinstance(image, ImageTokens) and isinstance(image.cut, Patches):
        side, more = image.cut.map.kernel_size[0], True
    elif isinstance(image, ImageTokens) and isinstance(image.cut, ConvolutionStack):
        side = 2 ** sum(image.cut.pooled)
    rows, columns = (_stretches(length, side, more) for length in pixels.shape[2:])
    return [(row, column) for row in rows for column in columns]


def _stretches(length: int, side: int, more: bool) -> list[slice]:
    """`more`: what remains at the end is a stretch too; else it goes to the last one."""
    count = -(-length // side) if more else length // side
    return [slice(at * side, length if at == count - 1 else (at + 1) * side) for at in range(count)]
