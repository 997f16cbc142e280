"""Gradients and updates by layer: whether they vanish, explode, are clipped, or hardly move the weights."""

import re
from collections.abc import Mapping, Sequence

import numpy as np

from glassformer.diagnosis.advice import Advice, joined
from glassformer.training.finding import NOTE, PROBLEM, WARNING, Finding

Layers = Mapping[str, Mapping[str, float]]

VANISHED = 1e-3
"""Gradient of the first layer over that of the last. Chosen wide, so that an uneven stack is no alarm."""
EXPLODED = 1e3
LEAST_STEPS = 6
"""Measured updates: at the very first ones, weights that start at 0 hold gradients back."""
OFTEN_CLIPPED, FAR_CLIPPED = 0.95, 30.0
"""Share of updates, and times the limit: clipping a little each time is harmless, as only the direction counts then."""
HARDLY = 1e-6
"""Change of the weights in an update, over their size. A thousand such updates change nothing that counts."""
STILL, NOTHING = 1e-9, 1e-15
"""Gradient of a layer that learns nothing: over that of the layer that learns most, and at all."""


def vanishing_gradients(history: Sequence[Layers], advise: Advice, step: int) -> Finding | None:
    """`history`: sizes by layer at the updates where they were measured."""
    if len(history) < LEAST_STEPS:
        return None
    later = history[len(history) // 2 :]
    for names in stacks(later[-1]):
        first, last = (
            [layers[name]["gradient"] for layers in later if name in layers] for name in (names[0], names[-1])
        )
        if len(names) < 2 or not first or not last:
            continue
        below, above = float(np.median(first)), float(np.median(last))
        ratio = below / above if above > 0 else (1.0 if below == 0 else np.inf)
        if VANISHED <= ratio <= EXPLODED:
            continue
        numbers = {"first": names[0], "last": names[-1], "first_gradient": below, "last_gradient": above}
        if ratio < VANISHED:
            words = (
                f"Gradients vanish on their way down: in {names[0]} they are {below:.1e}, in {names[-1]} {above:.1e}"
                f"{f' ({1 / ratio:.0e} times as large)' if ratio else ''}; the first layers learn next to nothing."
            )
            advice = joined(_paths(advise), advise.fewer("model.layers"), _gated(advise)) or "fewer layers"
            return Finding("vanishing", step, WARNING, words, advice, numbers)
        words = (
            f"Gradients explode on their way down: in {names[0]} they are {below:.1e}, in {names[-1]} {above:.1e}"
            f"{f', {ratio:.0e} times less' if above else ''}."
        )
        advice = joined(
            _norm(advise),
            advise.put("model.initialisation", "zero"),
            advise.fewer("model.layers"),
            advise.clip(),
            advise.lower_rate(),
        )
        return Finding("exploding", step, WARNING, words, advice, numbers)
    return _still(later, advise, step)


def _still(later: Sequence[Layers], advise: Advice, step: int) -> Finding | None:
    """A layer to which no gradient comes at all."""
    middle = {name: float(np.median([layers[name]["gradient"] for layers in later if name in layers]))
              for name in later[-1]}  # fmt: skip
    most = max(middle.values(), default=0.0)
    advice = joined(_paths(advise), advise.lower_rate(), "of one's own model, does the layer lead to the answer?")
    if most < NOTHING:
        words = f"No gradient comes to any layer (at most {most:.0e}): nothing is learned at all."
        return Finding("vanishing", step, PROBLEM, words, advice, {"gradient": most})
    still = [name for name, gradient in middle.items() if gradient < STILL * most]
    if not still:
        return None
    words = f"No gradient comes to {', '.join(still[:4])}: there is nothing for it to learn from."
    return Finding("vanishing", step, WARNING, words, advice, {"layers": still})


def _paths(advise: Advice) -> str:
    """For gradients to get through."""
    return joined(advise.put("model.residual", True), _norm(advise))


def _norm(advise: Advice) -> str | None:
    return advise.put("model.norm", "rms") if advise.config.model.norm == "none" else None


def _gated(advise: Advice) -> str | None:
    return "--model lstm" if advise.config.model.encoder == "rnn" and not advise.config.is_finetuned else None


def stacks(layers: Layers) -> list[list[str]]:
    """Layers that differ only in their last number, in its order: encoder.blocks.0, encoder.blocks.1, …"""
    found: dict[str, list[tuple[int, str]]] = {}
    for name in layers:
        if match := re.fullmatch(r"(.*?)(\d+)", name):
            found.setdefault(match[1], []).append((int(match[2]), name))
    return [[name for _, name in sorted(numbered)] for numbered in found.values()]


def clipped_gradients(norms: Sequence[float], limit: float | None, advise: Advice, step: int) -> Finding | None:
    """Whether nearly every gradient is far beyond what clipping leaves of it."""
    recent = np.array(norms[len(norms) // 2 :])
    if limit is None or len(recent) < 20:
        return None
    share, middle = float((recent > limit).mean()), float(np.median(recent))
    if share < OFTEN_CLIPPED or middle < FAR_CLIPPED * limit:
        return None
    words = (
        f"{share:.0%} of the later updates are clipped: the middle gradient has norm {middle:.1f}, and clipping leaves "
        f"{limit:g} of it."
    )
    advice = joined(_norm(advise), advise.put("model.initialisation", "zero"), advise.lower_rate())
    return Finding("clipped", step, NOTE, words, advice, {"share": share, "median": middle, "limit": limit})


def learning_rate_too_low(history: Sequence[Layers], advise: Advice, step: int) -> Finding | None:
    """`history`: sizes by layer where they were measured; judged by the layer that moves most, of the later half."""
    moves = [
        max((one["update"] / one["weight"] for one in layers.values() if one["weight"] > 0), default=0.0)
        for layers in history[len(history) // 2 :]
    ]
    if len(history) < LEAST_STEPS or not moves or (middle := float(np.median(moves))) >= HARDLY:
        return None
    words = f"The weights hardly move: an update changes even the quickest layer by {middle:.1e} of its size."
    return Finding("rate-low", step, WARNING, words, advise.higher_rate(), {"change": middle, "lr": advise.rate})
