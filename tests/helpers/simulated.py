"""Outcomes of trainings that never were: how good each model truly is, is known."""

from typing import Any

import numpy as np

from glassformer.families.base import Family
from glassformer.tasks.base import Evaluation
from glassformer.trials.jobs import FLOOR, REFERENCE, TRAINED, CurvePoint, Job, Outcome
from glassformer.trials.running.scoring import scored

EXAMPLES = 1000


def outcomes_of(
    name: str,
    accuracy: float,
    *,
    seeds: int = 3,
    kind: str = TRAINED,
    seconds: float = 10.0,
    varied: dict[str, Any] | None = None,
    spread: float = 0.002,
    count: int = EXAMPLES,
    examples: str = "same",
    **more: Any,
) -> list[Outcome]:
    """A classifier that is right on so large a part of the examples, the easy ones first; seeds differ a little."""
    chance = np.random.default_rng([*name.encode(), *repr(varied).encode()])
    found = []
    for seed in range(seeds):
        # Which examples are hard is the same for all models, but for some noise.
        hardness = np.linspace(0, 1, count) + chance.normal(0, 0.03, count)
        right = np.zeros(count)
        share = accuracy + (0.0 if seeds == 1 else spread * (seed - (seeds - 1) / 2))
        right[np.argsort(hardness)[: round(share * count)]] = 1
        value = float(right.mean())
        curve = [
            CurvePoint(at, at / 10, value * (1 - 0.5 ** (at / 20)) + chance.normal(0, 0.002))
            for at in (20, 40, 60, 80, 100)
        ]
        given = {
            "part": "test",
            "metrics": {"accuracy": value, "loss": 1 - value},
            "primary": "accuracy",
            "scores": right.tolist(),
            "examples": examples,
            "parameters": 12_345,
            "steps": 100,
            "seconds": seconds,
            "curve": curve if kind == TRAINED else [],
        }
        job = Job(name=name, kind=kind, varied=varied or {}, repeat=seed)
        found.append(Outcome(job=job, **{**given, **more}))
    return found


def failed(name: str, error: str, *, seeds: int = 3, varied: dict[str, Any] | None = None) -> list[Outcome]:
    return [Outcome(job=Job(name=name, varied=varied or {}, repeat=seed), error=error) for seed in range(seeds)]


def floor(accuracy: float = 0.5) -> list[Outcome]:
    return outcomes_of("majority class", accuracy, kind=FLOOR, seeds=1, seconds=0.0, steps=0)


def reference(accuracy: float, seconds: float = 2.0) -> list[Outcome]:
    return outcomes_of("sklearn:tfidf", accuracy, kind=REFERENCE, seeds=1, seconds=seconds, steps=0)


def judged(evaluation: Evaluation, family: Family) -> Outcome:
    """The outcome of some job that was evaluated so."""
    return scored(Outcome(job=Job(name="some"), part="test"), evaluation, family)
