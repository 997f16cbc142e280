"""Words in a text of characters: what stands between two spaces, as one number."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor

SPREAD = -7046029254386353131
"""Odd, near 2⁶⁴ over the golden ratio: products with it wrap around and spread over 64 bits."""


@dataclass(frozen=True)
class Spelled:
    """The words of some texts; W of the text with the most."""

    numbers: Int[Tensor, "B W"]
    """The same for words of the same characters, hardly ever for others."""
    real: Bool[Tensor, "B W"]
    letters: Int[Tensor, "B W"]
    """How many characters each has."""
    place: Int[Tensor, "B T"]
    """Which word a character belongs to."""
    letter: Bool[Tensor, "B T"]
    """It belongs to one."""


def spelled(tokens: Int[Tensor, "B T"], real: Bool[Tensor, "B T"], space: int) -> Spelled:
    """The words between the tokens `space`."""
    letter = real & (tokens != space)
    first = letter.clone()
    first[:, 1:] &= ~letter[:, :-1]
    place = (first.cumsum(1) - 1).clamp(min=0)
    count = first.sum(1, keepdim=True)
    words = max(1, int(count.max())) if len(tokens) else 1
    here = torch.arange(tokens.shape[1], device=tokens.device)
    within = here - (here * first).cummax(1).values
    # Each character with its place in the word makes a number of its own; a word is the sum of these.
    marks = mixed(mixed(tokens.long() + 1) + within) * letter
    numbers = tokens.new_zeros(len(tokens), words, dtype=torch.long).scatter_add_(1, place, marks)
    letters = torch.zeros_like(numbers).scatter_add_(1, place, letter.long())
    return Spelled(numbers, torch.arange(words, device=tokens.device) < count, letters, place, letter)


def mixed(numbers: Int[Tensor, "*any"]) -> Int[Tensor, "*any"]:
    """Neighbouring numbers, far apart."""
    numbers = numbers * SPREAD
    return (numbers ^ (numbers >> 32)) * SPREAD
