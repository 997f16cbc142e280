"""Whether an exported model computes what its run does: the scores of both, on random examples of several sizes."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from glassformer.models.inputs import Shape
from glassformer.models.modules import Seq2Seq

BATCH, LENGTH, SOURCE = "batch", "length", "source_length"
"""Axes of any size."""
TOLERANCE = 1e-3
"""Allowed difference, as a share of the largest score. Other kernels add up in another order: in single precision that
moves the scores of deep models by up to some 1e-4 of it. What is computed wrongly, a mask or a weight, is off by far
more."""
LEAST = 1e-2
"""Scores smaller than this are compared as if they were as large."""


@dataclass(frozen=True)
class Port:
    """A tensor that goes in."""

    name: str
    axes: tuple[int | str, ...]
    """Sizes; those that may be any are names."""
    kind: torch.dtype = torch.int64
    below: tuple[int, ...] = ()
    """How many ids there are; or, of categories, how many each column has."""

    def example(self, sizes: Mapping[str, int], random: torch.Generator) -> Tensor:
        """Numbers of the right kind. A mask shows rows of different lengths; with three of them, one is empty."""
        shape = [axis if isinstance(axis, int) else sizes[axis] for axis in self.axes]
        if self.kind == torch.bool:
            rows, length = shape
            lengths = torch.tensor([0 if row == 2 else max(1, length * (row + 1) // rows) for row in range(rows)])
            return torch.arange(length) < lengths.unsqueeze(1)
        if self.kind != torch.int64:
            return torch.randn(shape, generator=random)
        if self.axes[-1] in sizes:
            return torch.randint(self.below[0], shape, generator=random)
        columns = [torch.randint(most, (shape[0], 1), generator=random) for most in self.below]
        return torch.cat([torch.empty(shape[0], 0, dtype=torch.int64), *columns], 1)

    @property
    def description(self) -> str:
        """A line of the page beside an export."""
        kind = {torch.int64: "int64", torch.bool: "bool"}.get(self.kind, "float32")
        return f"`{self.name}`: {kind}, {' × '.join(map(str, self.axes))}"


def ports_of(shape: Shape) -> tuple[Port, ...]:
    """What a model of such examples is called with; what has no columns is left out."""
    ports = []
    if shape.vocab:
        ports += [
            Port("tokens", (BATCH, LENGTH), below=(shape.vocab,)),
            Port("mask", (BATCH, LENGTH), torch.bool),
        ]
    if shape.numbers:
        ports.append(Port("numbers", (BATCH, shape.numbers), torch.float32))
    if shape.categories:
        ports.append(Port("categories", (BATCH, len(shape.categories)), below=shape.categories))
    if shape.image is not None:
        ports.append(Port("pixels", (BATCH, *shape.image), torch.float32))
    return tuple(ports)


def translator_ports(source_vocab: int, target_vocab: int) -> tuple[Port, Port, Port]:
    """What a translator is called with: source, its mask, and target."""
    return (
        Port("source", (BATCH, SOURCE), below=(source_vocab,)),
        Port("source_mask", (BATCH, SOURCE), torch.bool),
        Port("target", (BATCH, LENGTH), below=(target_vocab,)),
    )


@torch.inference_mode()
def largest_difference(model: nn.Module, exported: nn.Module, shape: Shape, target_vocab: int, longest: int) -> float:
    """The largest difference of two scores, as a share of the largest score; padding aside. Infinite where one is no
    number."""
    random = torch.Generator().manual_seed(1)
    worst, largest = 0.0, LEAST
    for batch, length in ((1, 1), (4, 11), (3, 29), (2, 2)):
        length = min(length, longest)
        sizes = {BATCH: batch, LENGTH: length, SOURCE: min(length + 2, longest)}
        inputs, real = _inputs(model, shape, target_vocab, sizes, random)
        ours, theirs = (each(*inputs).double() for each in (model, exported))
        if ours.shape != theirs.shape:
            return math.inf
        if real is not None and ours.dim() == 3:
            ours, theirs = ours[real], theirs[real]
        if not ours.numel():
            continue
        gap = float((ours - theirs).abs().max())
        if not math.isfinite(gap):
            return math.inf
        worst, largest = max(worst, gap), max(largest, float(ours.abs().max()))
    return worst / largest


def _inputs(
    model: nn.Module, shape: Shape, target_vocab: int, sizes: Mapping[str, int], random: torch.Generator
) -> tuple[list[Tensor], Tensor | None]:
    """What a model is called with, and which places of its scores are real, where some may not be."""
    inputs = {port.name: port.example(sizes, random) for port in ports_of(shape)}
    if isinstance(model, Seq2Seq):
        return [port.example(sizes, random) for port in translator_ports(shape.vocab, target_vocab)], None
    if shape.columns:
        inputs.setdefault("numbers", torch.zeros(sizes[BATCH], 0))
        inputs.setdefault("categories", torch.zeros(sizes[BATCH], 0, dtype=torch.int64))
    order = ("tokens", "mask", "numbers", "categories", "pixels")
    return [inputs[name] for name in order if name in inputs], inputs.get("mask")
