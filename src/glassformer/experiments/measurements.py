"""The parts of `scaling`, each from a plan to numbers and panels."""

from dataclasses import dataclass
from typing import Any

import torch

from glassformer.config.errors import Say
from glassformer.config.resolve import resolve
from glassformer.config.sections import ModelSettings
from glassformer.experiments import associative_recall, attention, extrapolation
from glassformer.experiments.cost import Cost, gradient_by_distance, measure
from glassformer.experiments.growth import (
    MEASURED,
    Counted,
    Curve,
    Section,
    attention_section,
    beyond_section,
    gradient_section,
    recall_section,
    time_section,
)
from glassformer.experiments.models import brief_training, count, same_size_models, train_briefly
from glassformer.experiments.request import HEADS, ScalingRequest
from glassformer.models.build import build_language_model
from glassformer.models.counting import multiplications, path_length, reach, serial_steps, state_numbers

VOCAB = 96
"""Of the random texts: about the characters that people type."""
LONGEST_STEP = 2.0
"""Seconds, in the usual time: after a step that took longer, longer texts are left out."""
FURTHEST = 256
"""Tokens of the texts that gradients go back through."""
BYTES = 4
"""Of a number."""


@dataclass(frozen=True)
class Measurement:
    """One part's numbers, and how they look."""

    section: Section
    numbers: dict[str, Any]


def time_part(plan: ScalingRequest, device: torch.device, say: Say) -> Measurement:
    """Time and memory by length, and beside them what the formulas say."""
    longest = plan.lengths[-1]
    settings = same_size_models(plan.models, width=plan.width, layers=plan.layers, vocab=VOCAB, context=longest)
    curves: dict[str, dict[str, Curve]] = {what: {} for what in MEASURED}
    counted, stopped = {}, {}
    for name, one in settings.items():
        weights = count(one, VOCAB)
        say(f"{name}: {weights:,} weights, width {one.width}, {one.layers} layers")
        rows, why = _lengths(name, one, plan, device, say)
        if why is not None:
            stopped[name] = why
        for what in MEASURED:
            x = [float(length) for length, _ in rows]
            curves[what][name] = Curve(x, [_in_units(what, one, length, found) for length, found in rows])
        counted[name] = Counted(weights, serial_steps(one, longest), path_length(one, longest), reach(one))
    section = time_section(curves, counted, stopped)
    return Measurement(
        section, {"models": _models(settings), **{what: _plain(found) for what, found in curves.items()}}
    )


def _lengths(
    name: str, settings: ModelSettings, plan: ScalingRequest, device: torch.device, say: Say
) -> tuple[list[tuple[int, Cost]], str | None]:
    """Longer and longer; and why no longer, if a step takes too long or too much."""
    model = build_language_model(settings, vocab=VOCAB, seed=plan.seed).to(device)
    rows: list[tuple[int, Cost]] = []
    for length in plan.lengths:
        try:
            found = measure(model, length, vocab=VOCAB, seed=plan.seed)
        except torch.OutOfMemoryError:
            if not rows:
                raise
            return rows, f"stopped after T = {rows[-1][0]:,}: the memory is too small for {length:,}"
        say(f"{name}, T = {length:,}: forward {1e3 * found.forward:.1f} ms, with gradients {1e3 * found.step:.1f} ms")
        rows.append((length, found))
        if found.step > plan.of_time(LONGEST_STEP) and length < plan.lengths[-1]:
            return rows, f"stopped after T = {length:,}, where a step took {found.step:.1f} s (--minutes)"
    return rows, None


def _in_units(what: str, settings: ModelSettings, length: int, found: Cost) -> float:
    """As the axes of the charts have it."""
    if what == "multiplications":
        return multiplications(settings, vocab=VOCAB, tokens=length) / 1e6
    if what == "state":
        return state_numbers(settings, length) * BYTES / 1e3
    return found.kept / 1e6 if what == "kept" else 1e3 * float(getattr(found, what))


def gradient_part(plan: ScalingRequest, device: torch.device, say: Say) -> Measurement:
    settings = same_size_models(plan.models, width=plan.width, layers=plan.layers, vocab=VOCAB, context=FURTHEST)
    curves = {}
    for name, one in settings.items():
        sizes = gradient_by_distance(one, vocab=VOCAB, tokens=FURTHEST, seed=plan.seed, device=device)
        curves[name] = Curve([float(k) for k in range(len(sizes))], sizes.tolist())
        say(f"{name}: {FURTHEST - 1:,} tokens back {sizes[-1]:.2g} of the gradient is left")
    section = gradient_section(curves, {name: reach(one) for name, one in settings.items()})
    return Measurement(section, {"models": _models(settings), "gradient": _plain(curves)})


def recall_part(plan: ScalingRequest, device: torch.device, say: Say) -> Measurement:
    vocab, updates = len(associative_recall.SIGNS), plan.updates(associative_recall.UPDATES)
    longest = 2 * max(associative_recall.DISTANCES) + 5
    settings = same_size_models(plan.models, width=plan.width, layers=plan.layers, vocab=vocab, context=longest)
    task = associative_recall.AssociativeRecall(associative_recall.DISTANCES, seed=plan.seed)
    x = [float(distance) for distance in task.distances]
    training = resolve({}, brief_training(updates, plan.seed)).training
    curves = {}
    for name, one in settings.items():
        model = build_language_model(one, vocab=vocab, seed=plan.seed)
        train_briefly(model, task, training, device)
        curves[name] = Curve(x, task.accuracies(model))
        say(f"{name}, {updates:,} updates: " + ", ".join(f"{y:.2f}" for y in curves[name].y))
    section = recall_section(
        curves, updates=updates, asked=associative_recall.HELD_OUT, chance=associative_recall.CHANCE
    )
    return Measurement(section, {"models": _models(settings), "updates": updates, "accuracy": _plain(curves)})


def beyond_part(plan: ScalingRequest, device: torch.device, say: Say) -> Measurement:
    updates = plan.updates(extrapolation.UPDATES)
    losses = extrapolation.loss_beyond_context(
        data=extrapolation.DATA,
        width=plan.width,
        layers=plan.layers,
        heads=HEADS,
        updates=updates,
        seed=plan.seed,
        device=device,
        say=say,
    )
    section = beyond_section(losses, context=extrapolation.CONTEXT, updates=updates)
    return Measurement(section, {"context": extrapolation.CONTEXT, "updates": updates, "loss": losses})


def attention_part(plan: ScalingRequest, device: torch.device, say: Say) -> Measurement:
    updates = plan.updates(attention.UPDATES)
    letters, exact = attention.scores_by_length(
        width=plan.width, updates=updates, rows=attention.ROWS, seed=plan.seed, device=device, say=say
    )
    section = attention_section(letters, exact, updates=updates)
    return Measurement(section, {"updates": updates, "letters": _plain(letters), "exact": _plain(exact)})


def _models(settings: dict[str, ModelSettings]) -> dict[str, dict[str, int]]:
    return {name: {"width": one.width, "layers": one.layers} for name, one in settings.items()}


def _plain(curves: dict[str, Curve]) -> dict[str, dict[str, list[float]]]:
    return {name: {"x": list(one.x), "y": list(one.y)} for name, one in curves.items()}
