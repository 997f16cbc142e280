"""What a plan says of several processes is what real ones exchange and hold."""

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from glassformer.planning.sharding import ALL, COPIED, Cluster
from glassformer.verbs.plan import plan
from helpers.metered_training import meter_together

VOCAB = 1000
SETTINGS: dict[str, Any] = {
    "model.layers": 4, "model.width": 96, "model.context": 4, "training.batch_size": 8,
    "training.optimizer": "adamw", "training.precision": "fp32",
}  # fmt: skip
CASES: dict[str, dict[str, Any]] = {
    "adamw": {},
    "muon": {"training.optimizer": "muon"},
    "pieces": {"training.accumulation_steps": 2},
    "recompute": {"training.recompute": True},
    "bf16": {"training.precision": "bf16"},
    "lstm": {"model.encoder": "lstm"},
}
WAYS = {"ddp": COPIED, "fsdp": ALL}


@cache
def planned(case: str) -> Cluster:
    paper = plan(training_tokens=10**6, gpus=4, vocab_size=VOCAB, **{**SETTINGS, **CASES[case]}).paper
    assert paper is not None
    return paper


@pytest.mark.slow
@pytest.mark.parametrize("world", [1, 2, 3, 4])
def test_processes_exchange_and_hold_what_is_planned(world: int, tmp_path: Path) -> None:
    """Weights are not all divided evenly by three: torch fills up, and a plan does not."""
    trainings = [(case, parallel) for case in CASES for parallel in WAYS]
    settings = [{**SETTINGS, **CASES[case], "training.parallel": parallel} for case, parallel in trainings]
    notes = meter_together(world, [{"vocab": VOCAB, "settings": some} for some in settings], tmp_path)
    for (case, parallel), found in zip(trainings, notes, strict=True):
        paper = planned(case)
        way = next(way for way in replace(paper, gpus=world).ways if way.name == WAYS[parallel])
        assert found.exchanged == pytest.approx(way.exchanged, rel=0.03, abs=2000), (case, parallel)
        shards = 1 if parallel == "ddp" else world
        for name in ("weights", "gradients", "optimiser"):
            share = getattr(paper.needs, name) / shards
            assert getattr(found, name) == pytest.approx(share, rel=0.03), (case, parallel, name)
