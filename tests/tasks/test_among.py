"""An evaluation that processes share is that of one of them, bit for bit, and each does its part of the work."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from glassformer.tasks.base import Among
from helpers import judging_together
from helpers.running import finish

FEW = "few examples"
"""One batch: there is nothing for a second process."""


def together(world: int) -> list[dict[str, list[list[int]]]]:
    """How many batches each process judged of each kind of task: shared with the others, and alone."""
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(world)]
    process = subprocess.Popen(
        [*torchrun, str(Path(judging_together.__file__))],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path(__file__).parents[1])},
    )
    code, out, err = finish(process)
    assert code == 0, err
    return [json.loads(line) for line in out.splitlines()]


@pytest.mark.slow
@pytest.mark.parametrize("world", [2, 3])
def test_every_task_is_judged_together_as_alone(world: int) -> None:
    ranks = together(world)
    assert len(ranks) == world
    for name in ranks[0]:
        counts = [judged[name][0] for judged in ranks]
        alone = ranks[0][name][1]
        for count, *shares in zip(alone, *counts, strict=True):
            rounds = -(-count // world)
            assert sum(shares) == count, name
            assert max(shares) == rounds, name
        assert max(alone) >= world or name == FEW, name


def test_one_process_needs_no_other() -> None:
    assert Among().spread(iter("abc"), str.upper) == ["A", "B", "C"]
