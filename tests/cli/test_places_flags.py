"""`--on` and `--sbatch` of `compare` and `tune`: what cannot be is one line, before anything is made."""

from pathlib import Path

import pytest

from helpers.running import Command, one_line


@pytest.mark.parametrize("verb", ["compare", "tune"])
@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--on", "slrum"], "--on"),
        (["--on", "slurm"], "--on slurm: there is no sbatch here; run it where jobs are submitted (a login node)"),
        (["--sbatch=--partition=gpu"], "--sbatch is for jobs of Slurm: give --on slurm with it, not --on local"),
    ],
)
def test_a_place_that_cannot_be_is_one_line(
    verb: str, words: list[str], told: str, command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    code, out, err = command(verb, "iris", *words)
    assert (code, out) == (2, "")
    assert told in one_line(err)
    assert not (tmp_path / "runs").exists()
