"""Helpers of the benchmarks: timing on a busy machine, and training without a run folder."""

import statistics
import time
from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
import torch

from glassformer.config.resolve import resolve
from glassformer.models.build import build_language_model
from glassformer.tasks.language_model import LanguageModelling
from glassformer.training.context import TrainerOptions
from glassformer.training.loop import Trainer


def random_tokens(count, vocab, seed=0):
    ids = np.random.default_rng(seed).integers(4, vocab, count, dtype=np.uint16)
    return SimpleNamespace(ids=ids, bytes=count, unknown=0)


def trainer(vocab, device, listen=lambda event: None, parts=None, **flags):
    """Return a Trainer with these settings, on random tokens or on `parts`."""
    config = resolve({}, {"training.validate_every": 10**9, **flags})
    parts = parts or {"train": random_tokens(3_000_000, vocab), "validation": random_tokens(5_000, vocab, 1)}
    task = LanguageModelling(
        parts, context=config.model.context, batch_size=config.training.batch_size, start=1, seed=config.training.seed
    )
    model = build_language_model(config.model, vocab=vocab, seed=config.training.seed)
    return Trainer(model, task, config.training, TrainerOptions(torch.device(device), listen=listen))


def alternating(contestants: dict[str, Callable[[], None]], rounds: int) -> dict[str, float]:
    """Return the median seconds of each, in alternating rounds, so that a busy moment of the machine affects all."""
    times = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, run in contestants.items():
            began = time.perf_counter()
            run()
            times[name].append(time.perf_counter() - began)
    return {name: statistics.median(values) for name, values in times.items()}
