"""Which weights of a model that was trained before are trained again, and how fast: by how far below the head they lie.

A block of a Transformer, a recurrent layer and a convolution count alike. The two sides of a translation are counted
each from its own top.
"""

import re
from collections.abc import Mapping, Sequence

from torch import nn

from glassformer.config.errors import SettingError

BLOCK = re.compile(r"^(encoder|decoder)\.(?:blocks|convolutions|around)\.(\d+)\.")
LAYER = re.compile(r"^(encoder|decoder)\.layers\.cell\.[a-z_]+_l(\d+)(?:_reverse)?$")
"""torch's names of the weights of a recurrent layer: weight_ih_l0."""
BOTTOM = re.compile(r"^(?:embed(?:_source|_target)?\.|(?:encoder|decoder)\.(?:positions|embed_norm|layers\.first)\.)")
"""What comes in: word vectors, positions, first states."""
ABOVE = 0
"""The distance of what lies above all blocks: the last norm, the pool, the head."""


def distances(model: nn.Module) -> dict[str, int]:
    """How far below the head each weight lies: 0 above all blocks, 1 in the last one, most where vectors come in."""
    names = [name for name, _ in model.named_parameters()]
    blocks = {name: found for name in names if (found := _block(name)) is not None}
    heights: dict[str, int] = {}
    for side, number in blocks.values():
        heights[side] = max(heights.get(side, 0), number + 1)
    out = {}
    for name in names:
        if name in blocks:
            side, number = blocks[name]
            out[name] = heights[side] - number
        elif BOTTOM.match(name):
            out[name] = heights.get(_side(name), 0) + 1
        else:
            out[name] = ABOVE
    return out


def _block(name: str) -> tuple[str, int] | None:
    """Which side a weight stands on, and in which of its blocks, counted from below."""
    found = BLOCK.match(name) or LAYER.match(name)
    if found is not None:
        return found[1], int(found[2])
    if name.startswith("encoder.read."):  # the window model: what reads, what thinks, and what gives the output
        return "encoder", 0
    return ("encoder", int(name.split(".")[2]) + 1) if name.startswith("encoder.deeper.") else None


def _side(name: str) -> str:
    return "decoder" if name.startswith(("decoder.", "embed_target.")) else "encoder"


def starred(name: str) -> str:
    """A weight's name for all blocks alike: encoder.blocks.*.attend.query.weight."""
    return ".".join("*" if part.isdigit() else part for part in name.split("."))


def is_new(name: str, new: Sequence[str]) -> bool:
    """Whether a weight is part of what was not taken from another run: `head`, `decoder.blocks.*.cross_attention`."""
    whole = starred(name)
    return any(f"{whole}.".startswith(f"{part}.") for part in new)


def refuse_too_many(model: nn.Module, last_blocks: int | None) -> None:
    """Where there are not so many blocks to train."""
    blocks = max((far for name, far in distances(model).items() if _block(name) is not None), default=0)
    if last_blocks is not None and last_blocks > blocks:
        raise SettingError(
            f"training.last_blocks {last_blocks}: the model has {blocks}: leave it away to train everything"
        )


def freeze(model: nn.Module, last_blocks: int | None, new: Sequence[str] = ()) -> None:
    """Only the head, so many last blocks with the norm after them, and what is new are trained; None: everything."""
    if last_blocks is None:
        return
    # weights that are shared, by each of their names: a head that is tied is a head
    names = model.named_parameters(remove_duplicate=False)
    head = {id(weight) for name, weight in names if not name.startswith(("embed", "encoder.", "decoder."))}
    far = distances(model)
    for name, weight in model.named_parameters():
        if not (id(weight) in head or is_new(name, new) or (last_blocks > 0 and far[name] <= last_blocks)):
            weight.requires_grad_(False)


def rates(model: nn.Module, layer_decay: float, new: Sequence[str] = ()) -> Mapping[str, float]:
    """What the learning rate of each weight is multiplied by."""
    return {name: 1.0 if is_new(name, new) else layer_decay**distance for name, distance in distances(model).items()}
