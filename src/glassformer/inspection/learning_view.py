"""Watching a model learn: the same panels at one moment of its training after the other."""

from collections.abc import Sequence

from glassformer.rendering.panels import Frames, Panel
from glassformer.rendering.view import View


def learning_view(name: str, steps: Sequence[int], frames: Sequence[Sequence[Panel]]) -> View:
    """`frames`: what there is to see after each of these updates."""
    if len(steps) != len(frames):
        raise ValueError(f"{len(steps)} moments, but panels for {len(frames)}")
    moments = Frames(name="updates", labels=[f"{step:,}" for step in steps], frames=frames)
    note = f"{len(steps)} moments of the training, from update {steps[0]:,} to {steps[-1]:,}."
    return View(f"{name} as it learned", [moments], note)
