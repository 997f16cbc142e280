"""Disks and folders that go while several processes train: each ends, and one says why in one line."""

import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from helpers.disks import small_disk
from helpers.running import DATA, finish, flags, free_port, one_line, steps_saved, tiny, wait_for

pytestmark = pytest.mark.slow

LONG = tiny(training__steps=1_000_000, training__checkpoint_every=2, training__validate_every=500_000)
"""It does not end by itself."""
Workers = list["subprocess.Popen[str]"]


def begin_two(out: Path, settings: Mapping[str, Any], before: Callable[[int], None] = lambda rank: None) -> Workers:
    """Two processes, each seen for itself; `before` happens in each first."""
    meeting = {"WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": str(free_port())}
    command = [sys.executable, "-m", "glassformer.cli.main", "train", DATA, "--out", str(out), *flags(settings)]
    return [
        subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **meeting, "OMP_NUM_THREADS": "1", "RANK": str(rank), "LOCAL_RANK": str(rank)},
            preexec_fn=lambda rank=rank: before(rank),  # type: ignore[misc]
        )
        for rank in range(2)
    ]


def both_end(workers: Workers) -> str:
    """The line that the first one says; the other is silent."""
    (code, _, err), (other, _, rest) = [finish(worker) for worker in workers]
    assert (code, other) == (1, 1), (err, rest)
    assert "glassformer: " not in rest
    assert "Traceback" not in rest
    return one_line(err)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk", "4m") as disk:
        yield disk


def unmount(run: Path) -> None:
    subprocess.run(["umount", "--lazy", run.parent], check=True)


GONE: dict[str, Callable[[Path], object]] = {
    "removed": lambda run: shutil.rmtree(run, ignore_errors=True),
    "renamed": lambda run: run.rename(run.with_name("elsewhere")),
    "unmounted": unmount,
}


@pytest.mark.parametrize(("parallel", "how"), [("ddp", "removed"), ("fsdp", "renamed"), ("fsdp", "unmounted")])
def test_a_run_folder_that_goes(parallel: str, how: str, disk: Path) -> None:
    run = disk / "run"
    workers = begin_two(run, {**LONG, "training.parallel": parallel})
    wait_for(lambda: run.exists() and bool(steps_saved(run)), workers[0])
    GONE[how](run)
    assert str(run) in both_end(workers)
    assert not run.exists() or how == "removed"


def test_a_checkpoint_that_goes_while_it_is_written(tmp_path: Path) -> None:
    run = tmp_path / "run"
    workers = begin_two(run, {**LONG, "training.parallel": "fsdp"})
    while workers[0].poll() is None:
        for part in run.glob("checkpoints/.step-*.part"):
            shutil.rmtree(part, ignore_errors=True)
        time.sleep(0.001)
    line = both_end(workers)
    assert "cannot write" in line
    assert line.endswith("No such file or directory; what was there before is kept")


def test_a_disk_that_is_full_for_one_process(tmp_path: Path) -> None:
    """The second may not write files as large as its shards: both end, with its reason; nothing half written stays."""

    def limit(rank: int) -> None:
        if rank == 1:
            resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))

    run = tmp_path / "run"
    line = both_end(begin_two(run, {**LONG, "training.parallel": "fsdp"}, limit))
    assert "shard-00002-of-00002.safetensors: File too large" in line
    assert not list((run / "checkpoints").iterdir())


def test_a_disk_that_fills_up(disk: Path) -> None:
    """The checkpoints that were there stay."""
    run = disk / "run"
    workers = begin_two(run, {**LONG, "training.parallel": "fsdp"})
    wait_for(lambda: run.exists() and bool(steps_saved(run)), workers[0])
    with pytest.raises(OSError, match="No space left"):
        (disk / "large").write_bytes(bytes(8 << 20))
    assert "No space left on device" in both_end(workers)
    assert steps_saved(run)
