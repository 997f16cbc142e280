"""Pictures changed a little in training: moved by a few pixels, mirrored. How is a function of the seed and step."""

import numpy as np
import torch
from jaxtyping import Bool, Int, Shaped
from torch import Tensor

Pixels = Shaped[Tensor, "B C H W"]


def draw(
    seed: int, step: int, batch: int, *, shift: int, flip: bool
) -> tuple[Int[Tensor, "B 2"], Bool[Tensor, "B"]]:  # fmt: skip
    """For each picture of a step's batch, how far it moves (−shift … shift, down and right) and whether it is mirrored.

    With `flip`, every second one is, by chance.
    """
    chance = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(step,)))
    offsets = chance.integers(-shift, shift, size=(batch, 2), endpoint=True)
    which = chance.random(batch) < 0.5
    return torch.from_numpy(offsets), torch.from_numpy(which & flip)


def shifted(pixels: Pixels, offsets: Int[Tensor, "B 2"]) -> Pixels:
    """Each picture moved down and right by its offsets; what comes in at a side repeats the pixels at that edge."""
    batch, channels, height, width = pixels.shape
    down, right = offsets.to(pixels.device).unsqueeze(-1).unbind(1)
    rows = (torch.arange(height, device=pixels.device) - down).clamp(0, height - 1)
    columns = (torch.arange(width, device=pixels.device) - right).clamp(0, width - 1)
    picture = torch.arange(batch, device=pixels.device).view(-1, 1, 1, 1)
    channel = torch.arange(channels, device=pixels.device).view(1, -1, 1, 1)
    return pixels[picture, channel, rows.view(batch, 1, -1, 1), columns.view(batch, 1, 1, -1)]


def flipped(pixels: Pixels, which: Bool[Tensor, "B"]) -> Pixels:
    """Some of the pictures mirrored, left and right."""
    return torch.where(which.to(pixels.device).view(-1, 1, 1, 1), pixels.flip(-1), pixels)
