"""Exercises on pretraining: masking, word senses by nearest centroid, and the weights that fine-tuning adds."""

from typing import Any

import torch
from torch import Generator, Tensor

from glassformer.teaching.exercise import Answer, Case, Exercise, answer, drawn, equals, exercise

MASK = 4
UNASKED = -100


def hide(
    ids: Tensor, chosen: Tensor, draw: Tensor, other: Tensor, mask: int, *, mistake: str = ""
) -> tuple[Tensor, Tensor]:
    """Return the right result, or the result of a known mistake."""
    masked, swapped = draw < 0.8, (draw >= 0.8) & (draw < 0.9)
    if mistake == "all":
        masked, swapped = torch.ones_like(chosen), torch.zeros_like(chosen)
    if mistake == "unchosen":
        inputs = torch.where(masked, mask, torch.where(swapped, other, ids))
    else:
        inputs = torch.where(chosen & masked, mask, torch.where(chosen & swapped, other, ids))
    asked = {
        "everywhere": torch.ones_like(chosen),
        "changed": inputs != ids,
        "hidden": chosen & masked,
    }.get(mistake, chosen)
    return inputs, torch.where(asked, inputs if mistake == "read" else ids, UNASKED)


@drawn
def _tokens(chance: Generator, *shape: int, rate: float) -> tuple[Any, ...]:
    ids, other = torch.randint(5, 60, (2, *shape), generator=chance)
    other = torch.where(other == ids, other + 1, other)
    chosen, drawn = torch.rand(2, *shape, generator=chance)
    return ids, chosen < rate, drawn, other, MASK


def nearest_centroid(vectors: Tensor, labels: Tensor, new: Tensor, *, mistake: str = "") -> Tensor:
    """Return the right result, or the result of a known mistake."""
    centroids = torch.stack([vectors[labels == one].mean(0) for one in range(int(labels.max()) + 1)])
    if mistake == "own":
        new = vectors
    if mistake == "neighbour":
        return labels[torch.cdist(new, vectors).argmin(1)]
    if mistake == "dot":
        return (new @ centroids.T).argmax(1)
    distances = torch.cdist(new, centroids)
    return distances.argmax(1) if mistake == "farthest" else distances.argmin(1)


@drawn
def _clouds(
    chance: Generator, classes: int, rows: int, *, shift: float = 0, uneven: bool = False
) -> tuple[Tensor, ...]:
    """Draw labelled and new vectors around one centre per class; the classes overlap.

    `uneven`: most vectors belong to the first class.
    """
    centres = torch.randn(classes, 4, generator=chance) + shift
    labels = torch.randint(classes, (rows,), generator=chance)
    if uneven:
        labels = torch.where(torch.rand(rows, generator=chance) < 0.6, 0, labels)
    labels[:classes] = torch.arange(classes)
    vectors, new = (centres[labels] + torch.randn(2, rows, 4, generator=chance)).unbind()
    return vectors, labels, new[torch.randperm(rows, generator=chance)]


EXERCISES: list[Exercise] = [
    exercise(
        hide,
        Case("80 % hidden, 10 % swapped, 10 % stay", _tokens(400, rate=0.5), points=2),
        Case("several texts at once", _tokens(4, 50, rate=0.15), visible=False),
        Case("every token is chosen", _tokens(90, rate=1), visible=False),
    ),
    exercise(
        nearest_centroid,
        Case("two senses", _clouds(2, 61), points=2),
        Case("one sense is frequent", _clouds(3, 83, uneven=True), visible=False),
        Case("far from the origin", _clouds(4, 97, shift=5), visible=False),
    ),
    Answer(
        "first_layer",
        lambda value: equals("layer 0")(value) or equals(0)(value),
        "the first layer that tells the senses apart",
        worth=2,
        hints=[
            (equals("embedding"), "that is the word's row in the table, the same in every text"),
            (
                lambda value: equals("layer 1")(value) or equals(1)(value),
                "one layer of attention is enough to look back at the things",
            ),
            (lambda value: value not in ("embedding", "layer 0", "layer 1"), "say it as the views do: layer 0"),
        ],
    ),
    answer(__name__, "new_weights"),
]
