"""A real Slurm of one node and a real Ray on this machine: the same table as here, whatever is killed on the way.

Without Slurm's programs, or without Ray, these tests are skipped; where GLASSFORMER_CLUSTERS=required they fail.
"""

import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from glassformer.config.errors import Misuse
from glassformer.runs.files import read_json
from glassformer.trials.backends import slurm as slurm_backend
from glassformer.trials.compare import compare
from glassformer.trials.jobs import Outcome
from glassformer.trials.running.engine import JobEvent
from glassformer.trials.tune import tune
from helpers.running import begin, finish, flags, one_line, steps_saved, wait_for
from helpers.slurm_cluster import slurm_commands, slurm_says, unavailable

pytestmark = pytest.mark.slow

DATA = "copy:rows=200"
STEPS = 1000
MODEL: dict[str, Any] = {
    "training.steps": STEPS,
    "training.threads": 1,
    "training.batch_size": 2,
    "training.samples": False,
    "training.validate_every": 50,
    "model.layers": 1,
    "model.width": 8,
    "model.context": 16,
}
LONG: dict[str, Any] = {"models": "rnn", "seeds": 2, "floors": False, **MODEL}
WORDS = ["compare", DATA, "--models", "rnn", "--seeds", "2", "--no-floors", *flags(MODEL)]


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Slurm's commands work, and are asked often."""
    with slurm_commands(tmp_path_factory.mktemp("slurm")) as patch:
        patch.setattr(slurm_backend, "ASK_EVERY", 0.5)
        patch.setattr(slurm_backend, "SETTLE_SECONDS", 0.0)
        yield


@pytest.fixture(scope="module")
def ray() -> Iterator[Any]:
    """A cluster of two workers."""
    try:
        import ray
    except ImportError:
        unavailable("ray is not installed")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    ray.init(address="local", num_cpus=2, log_to_driver=False, configure_logging=False, include_dashboard=False)
    yield ray
    ray.shutdown()


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The table of trainings that nobody disturbs, on this machine."""
    out = tmp_path_factory.mktemp("local") / "out"
    compare(DATA, out=out, jobs=2, **LONG)
    return table_of(out)


def table_of(out: Path) -> dict[str, Any]:
    """What the table is made of, but for the time it took; of each job its weights too, bit for bit."""
    table: dict[str, Any] = {}
    for path in sorted(out.glob("jobs/*/outcome.json")):
        outcome = Outcome.read(path)
        assert outcome.error is None
        curve = [(point.updates, point.score) for point in outcome.curve]
        weights = (path.parent / "run" / "model.safetensors").read_bytes()
        table[path.parent.name] = [outcome.scores, outcome.metrics, outcome.examples, curve, outcome.steps, weights]
    rows = read_json(out / "comparison.json")["rows"]
    table["rows"] = [(row["name"], row["score"], row["values"]) for row in rows]
    assert not list(out.glob("jobs/*/events.jsonl"))
    return table


def process_of(job: str) -> int:
    """The number of the process that does a job."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if words[-2:-1] and words[-2].endswith(f"/jobs/{job}".encode()) and b"python" in words[0]:
            return int(path.parent.name)
    raise ProcessLookupError(job)


class Disturb:
    """Hears of jobs: once for each, when it has made a step, something happens to it."""

    def __init__(self, *doers: Callable[[str], object]) -> None:
        self.doers = dict(enumerate(doers))
        self.heard: list[JobEvent] = []

    def __call__(self, event: JobEvent) -> None:
        self.heard.append(event)
        if event.what == "stepped" and event.done > 0:
            self.doers.pop(event.job.repeat, lambda job: None)(event.job.id)


def job_of(out: Path) -> Callable[[str], str]:
    return lambda job: str(read_json(out / "slurm" / "jobs.json")[job])


# --- Slurm ---


def test_jobs_that_are_cancelled_requeued_killed_and_late_end_in_the_same_table(
    slurm: None, local: dict[str, Any], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    number_of, said = job_of(out), list[str]()
    first = Disturb(
        lambda job: slurm_says("scancel", number_of(job)),
        lambda job: slurm_says("scontrol", "requeue", number_of(job)),
    )
    compare(DATA, out=out, on="slurm", listen=first, say=said.append, **LONG)
    assert first.doers == {}
    assert table_of(out) == local
    assert [line for line in said if "rnn-0: Slurm's job" in line and "(CANCELLED; see" in line]
    assert not [line for line in said if "rnn-1: " in line]  # Slurm itself has started it again
    assert not (out / "slurm" / "jobs.json").exists()

    second = Disturb(
        lambda job: os.kill(process_of(job), signal.SIGKILL),
        lambda job: slurm_says("scancel", "--signal=USR1", "--batch", number_of(job)),  # as before the end of its time
    )
    compare(DATA, out=out, on="slurm", jobs=2, overwrite=True, listen=second, say=said.append, **LONG)
    assert second.doers == {}
    assert table_of(out) == local
    assert [line for line in said if "rnn-0: Slurm's job" in line and "(FAILED; see" in line]
    assert not [line for line in said if "rnn-1: " in line]


def test_one_that_is_always_killed_is_a_row(slurm: None, tmp_path: Path) -> None:
    def kill(event: JobEvent) -> None:
        if event.what == "begun":
            os.kill(process_of(event.job.id), signal.SIGKILL)

    found = compare(DATA, out=tmp_path / "out", on="slurm", listen=kill, **{**LONG, "seeds": 1})
    ((error,),) = [row["errors"] for row in found.to_dict()["rows"]]
    assert error.startswith("Slurm's job ")
    assert "ended without a result (FAILED; see" in error


def test_ctrl_c_cancels_and_a_kill_does_not(slurm: None, local: dict[str, Any], tmp_path: Path) -> None:
    out = tmp_path / "out"
    run = out / "jobs" / "rnn-0" / "run"
    words = [*WORDS, "--on", "slurm", "--out", str(out)]
    process = begin(*words)
    wait_for(lambda: bool(steps_saved(run)), process)
    os.kill(process_of("rnn-0"), signal.SIGSTOP)  # it is not done before it is cancelled
    process.send_signal(signal.SIGINT)
    code, _, err = finish(process)
    assert code == 1
    assert "of Slurm cancelled: those that run save a checkpoint" in err
    assert err.strip().splitlines()[-1].endswith("the same command continues there")
    assert slurm_says("squeue", "--noheader") == ""
    stopped = steps_saved(run)[-1]
    assert 0 < stopped < STEPS

    process = begin(*words)
    wait_for(lambda: steps_saved(run)[-1] > stopped, process)
    os.kill(held := process_of("rnn-0"), signal.SIGSTOP)
    process.kill()
    process.communicate()
    with pytest.raises(
        Misuse, match=r"jobs of Slurm are still at work in .*: go on with --on slurm, .*\(scancel \d+\)"
    ):
        compare(DATA, out=out, **LONG)
    with pytest.raises(Misuse, match="jobs of Slurm are still at work"):
        compare(DATA, out=out, on="slurm", overwrite=True, **LONG)
    said: list[str] = []

    def hear(line: str) -> None:
        said.append(line)
        if line.endswith("of an earlier command found in Slurm's queue"):
            os.kill(held, signal.SIGCONT)

    compare(DATA, out=out, on="slurm", say=hear, **LONG)
    assert not [line for line in said if "array.sh" in line]  # nothing was submitted
    assert table_of(out) == local


def test_what_sbatch_refuses_is_one_line(slurm: None, tmp_path: Path) -> None:
    code, out, err = finish(begin(*WORDS, "--on", "slurm", "--sbatch=--partition=gpu", "--out", str(tmp_path / "out")))
    assert (code, out) == (2, "")
    assert one_line(err).endswith("--sbatch --partition=gpu: invalid partition specified: gpu")


SPACE = {"training.lr": {"low": 1e-4, "high": 1e-1, "log": True}}


def test_a_search_by_jobs(slurm: None, tmp_path: Path) -> None:
    said: list[str] = []
    out = tmp_path / "search"
    tuned = tune("iris", model="linear", out=out, trials=3, jobs=2, space=SPACE, steps=5, final=False, on="slurm",
                 say=said.append)  # fmt: skip
    assert [trial.state for trial in tuned.trials] == ["complete"] * 3
    assert len([line for line in said if line.startswith("trial ")]) == 3
    assert not (out / "slurm").exists()


# --- Ray ---


def test_workers_of_ray_that_are_lost_end_in_the_same_table(ray: Any, local: dict[str, Any], tmp_path: Path) -> None:
    out = tmp_path / "out"

    def stop(event: JobEvent) -> None:
        if event.what == "stepped":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt, match="the same command continues there"):
        compare(DATA, out=out, on="ray", listen=stop, **LONG)
    assert any(steps_saved(run) for run in out.glob("jobs/*/run"))

    def kill_worker(job: str) -> None:
        stat = Path(f"/proc/{process_of(job)}/stat").read_text()
        os.kill(int(stat.rpartition(")")[2].split()[1]), signal.SIGKILL)  # its parent

    disturb = Disturb(kill_worker, lambda job: os.kill(process_of(job), signal.SIGKILL))
    said: list[str] = []
    compare(DATA, out=out, on="ray", listen=disturb, say=said.append, **LONG)
    assert disturb.doers == {}
    assert table_of(out) == local
    assert [line for line in said if line.startswith("rnn-0: Ray lost its worker") and line.endswith("it is restarted")]
    assert [line for line in said if line.startswith("rnn-1: it was killed by the system")]
    assert ray.is_initialized()  # who had it before keeps it


def test_a_search_by_tasks_of_a_cluster_that_is_there(
    ray: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", ray.get_runtime_context().gcs_address)
    (tmp_path / "space.yaml").write_text("training.lr: {low: 1e-4, high: 1e-1, log: true}\n")
    words = ["--model", "linear", "--trials", "3", "--jobs", "2", "--steps", "5", "--no-final", "--json"]
    out = tmp_path / "search"
    process = begin("tune", "iris", *words, "--on", "ray", "--out", str(out), "--space", str(tmp_path / "space.yaml"))
    code, printed, err = finish(process)
    assert code == 0, err
    assert [trial["state"] for trial in json.loads(printed)["trials"]] == ["complete"] * 3
    assert "2 cores, 0 GPUs" in err
    assert not (out / "ray").exists()
