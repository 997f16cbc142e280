"""A disk that is full, or a file that may not grow: one line, exit 1, and what was there before still serves."""

import os
import resource
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from glassformer.config.errors import RunError
from glassformer.config.messages import listening
from glassformer.families.load import load
from glassformer.runs.run import Run
from glassformer.verbs.train import train
from helpers.running import command, identical, losses_of, same_run, steps_saved, tensors_of, tiny, train_here

SETTINGS = tiny(training__steps=8, training__checkpoint_every=1, training__validate_every=8, model__dropout=0.1)


@pytest.mark.slow
def test_files_that_may_not_grow(tmp_path: Path) -> None:
    """The system refuses every byte beyond the limit: enough for the log, too little for the weights."""
    out = tmp_path / "run"
    train_here(out, {**SETTINGS, "training.steps": 4})
    before = tensors_of(out)
    weights = (out / "model.safetensors").stat().st_size
    small = max(path.stat().st_size for path in (out / "metrics.jsonl", out / "glassformer.json"))
    limit = (small + weights) // 2
    assert small + 1000 < limit < weights - 1000

    code, stdout, stderr = command(
        *("train", "--resume", "--out", str(out), "--steps", "8"),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
    )
    assert code == 1
    assert stdout == ""
    told = stderr.splitlines()[-1]
    assert told.startswith(f"glassformer: cannot write {out / 'checkpoints'}")
    assert "File too large" in told
    assert "Traceback" not in stderr
    assert Run(out).card()["status"] == "failed"
    identical(tensors_of(out), before)
    assert not list(out.rglob(".*"))
    assert load(out)

    assert train(out=out, resume=True).steps == 8  # the limit is gone
    assert len(losses_of(out)) == 8


@pytest.mark.slow
def test_no_room_to_begin_with(tmp_path: Path) -> None:
    """What could not even begin is not in the way of trying again."""
    out = tmp_path / "run"
    settings = {**SETTINGS, "training.steps": 1}
    train_here(tmp_path / "other", settings)  # so that the tokens are packed already
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    try:
        with pytest.raises(RunError, match=r"cannot write .*glassformer\.json: File too large"):
            train_here(out, settings)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert not out.exists()
    assert train_here(out, settings).steps == 1


@pytest.mark.slow
def test_killed_before_it_began(tmp_path: Path) -> None:
    """A folder with nothing but its card is a run: it cannot be used, but replaced."""
    out = tmp_path / "run"
    settings = {**SETTINGS, "training.steps": 1}
    train_here(out, settings)
    for path in list(out.iterdir()):
        if path.name != "glassformer.json":
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    for use in (load, lambda run: train(out=run, resume=True)):
        with pytest.raises(RunError, match=r"(model\.safetensors|tokenizer\.json) is missing"):
            use(out)
    assert train_here(out, settings, overwrite=True).steps == 1


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 300 kB, in memory."""
    mount = shutil.which("mount")
    if os.geteuid() != 0 or mount is None:
        pytest.skip("only root may mount a disk")
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run([mount, "-t", "tmpfs", "-o", "size=300k", "none", disk], capture_output=True).returncode:
        pytest.skip("mounting is not allowed here")
    yield disk
    subprocess.run(["umount", "--lazy", disk], check=True)  # what was read last may be in use for a moment


@pytest.mark.slow
def test_a_full_disk(small_disk: Path, tmp_path: Path) -> None:
    """Checkpoints are kept until nothing fits any more; with more room, the run goes on as if nothing had been."""
    settings = {**SETTINGS, "training.steps": 40, "training.checkpoints": 100, "training.validate_every": 1}
    train_here(tmp_path / "whole", settings)
    out = small_disk / "run"
    with pytest.raises(RunError, match=r"^cannot write .*: No space left on device.*what was there before is kept$"):
        train_here(out, settings)
    saved = steps_saved(out)
    assert saved == list(range(1, len(saved) + 1))
    assert 2 <= len(saved) < 40
    said: list[str] = []
    with listening(said.append):
        found = Run(out).newest_checkpoint()
    assert said == []
    assert found is not None
    assert found[2]["step"] == saved[-1]
    assert load(out)
    assert not list(out.rglob("*.part"))
    subprocess.run(["mount", "-o", "remount,size=20m", small_disk], check=True)
    assert train(out=out, resume=True).steps == 40
    same_run(out, tmp_path / "whole")
