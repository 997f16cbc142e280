"""Which moments of a training are kept, and that they come back as they were."""

import itertools
import math
from pathlib import Path

import pytest
import torch
from torch import Tensor

from glassformer.config.errors import RunError
from glassformer.runs import history
from glassformer.runs.history import delete, due, keep, rewind, steps_of, weights_at
from glassformer.runs.run import Run
from helpers.running import identical
from helpers.support import numbers


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path)


def weights(step: int) -> dict[str, Tensor]:
    return {"some.weight": numbers(3, 5, seed=step, dtype=torch.float32), "half": torch.full((2,), step).bfloat16()}


def kept_of(total: int) -> list[int]:
    return [step for step in range(total + 1) if due(step, total)]


def test_the_rule_written_out() -> None:
    assert kept_of(2000) == [0, 1, 2, 4, 8, 16, 32, 64, *range(128, 2000, 128), 2000]
    assert kept_of(30) == [0, 1, *range(2, 31, 2)]
    assert kept_of(24) == list(range(25))
    assert kept_of(1) == [0, 1]
    assert kept_of(25) == [0, 1, *range(2, 25, 2), 25]


@pytest.mark.parametrize("total", [48, 49, 100, 999, 1000, 5000, 12_288, 12_289, 100_000])
def test_some_two_dozen_are_kept(total: int) -> None:
    steps = kept_of(total)
    assert 13 <= len(steps) <= 24 + 1 + math.log2(total / 12)
    assert steps[-1] == total
    apart = {later - step for step, later in itertools.pairwise(steps[:-1])}
    assert max(apart) <= total / 12


@pytest.mark.parametrize(("shorter", "longer"), [(4, 6), (30, 31), (100, 1000), (999, 1001)])
def test_the_moments_of_a_longer_run_are_among_those_of_a_shorter(shorter: int, longer: int) -> None:
    long = [step for step in kept_of(longer) if step <= shorter]
    assert set(long) <= set(kept_of(shorter))


def test_where_the_time_decides_they_are_thinned_as_it_goes(run: Run) -> None:
    most = 0
    for step in range(701):
        if due(step, None):
            keep(run, step, {"w": torch.tensor([float(step)])}, total=None)
        most = max(most, len(steps_of(run)))
    assert steps_of(run) == [step for step in kept_of(700) if step != 700]
    assert most <= 32
    keep(run, 700, {"w": torch.tensor([700.0])}, total=None)  # its end, wherever that is
    assert steps_of(run) == kept_of(700)


def test_what_is_kept_comes_back_bit_for_bit(run: Run) -> None:
    for step in (0, 4, 2, 16):
        keep(run, step, weights(step), total=16)
    assert steps_of(run) == [0, 2, 4, 16]
    for step in (0, 2, 4, 16):
        identical(weights_at(run, step), weights(step))
        assert weights_at(run, step)["half"].dtype == torch.bfloat16
    assert sorted(path.name for path in (run.path / "history").iterdir()) == [
        "step-0.safetensors",
        "step-16.safetensors",
        "step-2.safetensors",
        "step-4.safetensors",
    ]


def test_no_history(run: Run) -> None:
    assert steps_of(run) == []
    rewind(run, 3, total=9)
    assert not (run.path / "history").exists()
    with pytest.raises(RunError, match=r"cannot read .*step-3\.safetensors: No such file"):
        weights_at(run, 3)


def test_other_files_are_left_alone(run: Run) -> None:
    keep(run, 1, weights(1), total=9)
    for name in (".step-2.safetensors.7.part", "step-x.safetensors", "notes.txt"):
        (run.path / "history" / name).write_text("x")
    assert steps_of(run) == [1]
    rewind(run, 0, total=9)
    assert steps_of(run) == []
    assert len(list((run.path / "history").iterdir())) == 3


def test_a_write_that_fails_leaves_what_was_there(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    keep(run, 1, weights(1), total=9)

    def broken(path: Path, tensors: object, *notes: object) -> None:
        path.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("glassformer.runs.files.save_tensors", broken)
    for step in (1, 2):
        with pytest.raises(RunError, match="No space left on device"):
            keep(run, step, weights(7), total=9)
    assert [path.name for path in (run.path / "history").iterdir()] == ["step-1.safetensors"]
    identical(weights_at(run, 1), weights(1))


def test_rewound_and_given_more_to_do(run: Run) -> None:
    for step in kept_of(30):
        keep(run, step, weights(step), total=30)
    assert steps_of(run) == kept_of(30)
    rewind(run, 20, total=30)
    assert steps_of(run) == [step for step in kept_of(30) if step <= 20]
    rewind(run, 20, total=100)
    assert steps_of(run) == [step for step in kept_of(100) if step <= 20]
    rewind(run, 19, total=None)
    assert steps_of(run) == [step for step in kept_of(100) if step <= 19]


def test_forgetting_one(run: Run) -> None:
    for step in (0, 1):
        keep(run, step, weights(step), total=9)
    delete(run, 1)
    delete(run, 5)
    assert steps_of(run) == [0]


def test_the_last_stays_though_it_is_not_due(run: Run) -> None:
    """A run that had enough before its end."""
    for step in (0, 1, 2, 4, 8, 13):
        keep(run, step, weights(step), total=100)
    assert steps_of(run) == [0, 1, 2, 4, 8, 13]
    keep(run, 16, weights(16), total=100)
    assert steps_of(run) == [0, 1, 2, 4, 8, 16]
    assert history.due(16, 100)
    assert not history.due(13, 100)
