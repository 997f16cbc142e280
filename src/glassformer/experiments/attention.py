"""Translating with and without attention: how the score falls as the source gets longer."""

from collections import defaultdict
from dataclasses import replace
from statistics import fmean
from typing import Any

import torch

from glassformer.config.errors import Say, silent
from glassformer.experiments.growth import Curve
from glassformer.experiments.models import brief_training, train_briefly
from glassformer.families.load import build_model, prepare
from glassformer.families.recognition import infer_config

KINDS = {"additive": "with attention", "none": "without"}
UPDATES, ROWS = 300, 8000
SHORTEST, LONGEST = 2, 16


def scores_by_length(
    *,
    width: int,
    updates: int,
    rows: int,
    seed: int,
    device: torch.device,
    longest: int = LONGEST,
    say: Say = silent,
) -> tuple[dict[str, Curve], dict[str, Curve]]:
    """One LSTM reads letters, another writes them backwards, with additive attention between them or none.

    By kind in words: letters in their right place, and whole answers that are right, by length of the source.
    """
    chosen: dict[str, Any] = {
        "data.path": f"reverse-pairs:rows={rows},seed={seed},shortest={SHORTEST},longest={longest}",
        "model": "lstm",
        "model.width": width,
        "model.dropout": 0.0,
        "training.label_smoothing": 0.0,
        **brief_training(updates, seed),
    }
    config, table = infer_config({}, chosen, silent)
    prepared = prepare(config, silent, rows=table)
    task = prepared.task
    letters, exact = {}, {}
    for kind, words in KINDS.items():
        say(f"an LSTM that writes letters backwards, {words}: {updates:,} updates")
        settings = replace(config, model=replace(config.model, attention=kind))
        built = build_model(settings, prepared)
        train_briefly(built, task, config.training, device)
        records = task.evaluate(built, "validation").records
        letters[words], exact[words] = by_length([(record["target"], record["output"]) for record in records])
    return letters, exact


def by_length(answers: list[tuple[str, str]]) -> tuple[Curve, Curve]:
    """Of pairs of what was wanted and what was written: right letters, and right answers."""
    groups: dict[int, list[tuple[str, str]]] = defaultdict(list)
    for wanted, written in answers:
        groups[len(wanted)].append((wanted, written))
    lengths = sorted(groups)
    letters = [fmean(_in_place(*pair) for pair in groups[length]) for length in lengths]
    exact = [fmean(wanted == written for wanted, written in groups[length]) for length in lengths]
    return Curve(lengths, letters), Curve(lengths, exact)


def _in_place(wanted: str, written: str) -> float:
    return sum(one == other for one, other in zip(wanted, written, strict=False)) / len(wanted)
