"""Where processes are started, without a cluster: devices, scripts, and what a user gets wrong."""

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from types import ModuleType

import pytest

import glassformer as gf
from glassformer.config.errors import Misuse
from glassformer.runs.files import write_json
from glassformer.runs.folders import lock_file
from glassformer.trials.backends.base import STOPPED, ProcessSpec
from glassformer.trials.backends.gpus import Gpu
from glassformer.trials.backends.local import Local
from glassformer.trials.backends.slurm import JOBS, _script, live_jobs
from glassformer.trials.jobs import Job, Outcome
from glassformer.trials.running import job_process
from glassformer.trials.running.engine import _JobProgress
from glassformer.trials.running.folder import EVENTS, JOB, LOG, OUTCOME
from helpers.running import PATIENCE

SAVES = f"""
import os, signal, time
signal.signal(signal.SIGTERM, lambda *_: os._exit({STOPPED}))
print('ready', flush=True)
time.sleep({PATIENCE})
"""


def run_code(name: str, code: str, folder: Path, **more: object) -> ProcessSpec:
    """A spec that runs a line of Python."""
    words = ("-n", "1", "-r", "1", code)
    return ProcessSpec(name=name, module="timeit", arguments=words, log=folder / f"{name}.txt", **more)  # type: ignore[arg-type]


def wait_until(backend: Local) -> list[int | None]:
    codes: list[int | None] = []
    while backend.running:
        codes += [end.code for end in backend.ended()]
        time.sleep(0.02)
    return codes


@pytest.mark.parametrize(
    ("names", "given"),
    [(["0", "GPU-b"], {"0": 2, "GPU-b": 2}), (["0", "1", "2"], {"0": 2, "1": 1, "2": 1}), ([], {"before": 4})],
)
def test_each_process_has_a_gpu(
    names: list[str], given: dict[str, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No GPU is needed: a process is told by a variable which one it has."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "before")
    backend = Local(jobs=4, threads=3, gpus=[*map(Gpu, names)])
    code = "import os; print('seen', os.environ['CUDA_VISIBLE_DEVICES'], os.environ['OMP_NUM_THREADS'])"
    backend.start([run_code(str(number), code, tmp_path) for number in range(4)])
    backend.start([run_code("none", code, tmp_path, takes_gpu=False)])
    assert wait_until(backend) == [0] * 5
    seen = {path.stem: path.read_text().split()[1:3] for path in tmp_path.glob("*.txt")}
    assert seen.pop("none") == ["before", "3"]
    assert Counter(device for device, _ in seen.values()) == given


def test_a_gpu_that_is_free_again_is_taken(tmp_path: Path) -> None:
    backend = Local(jobs=2, gpus=[Gpu("0"), Gpu("1")])
    backend.start([run_code("short", "pass", tmp_path), run_code("long", SAVES, tmp_path)])
    while "short" in backend.running:
        backend.ended()
    backend.start([run_code("next", "pass", tmp_path)])
    assert backend.running["next"].gpu == "0"
    backend.stop()
    assert backend.running == {}


def test_bash_runs_the_script_of_an_array(tmp_path: Path) -> None:
    """As Slurm would, but for Slurm: a folder with odd letters, and the process that it starts."""
    folder = tmp_path / "it's 100 % $HOME"
    folder.mkdir()
    specs = [run_code(name, f"print('{name}', '$HOME')", folder) for name in ("one", "two")]
    (tmp_path / "array.sh").write_text(_script(specs, "compare", "--partition=gpu\n--time=1:00"))
    assert "#SBATCH --partition=gpu --time=1:00\n" in (tmp_path / "array.sh").read_text()
    ended = subprocess.run(["bash", tmp_path / "array.sh"], env={**os.environ, "SLURM_ARRAY_TASK_ID": "1"}, check=False)
    assert ended.returncode == 0
    assert (folder / "two.txt").read_text().startswith("two $HOME\n")
    assert not (folder / "one.txt").exists()


@pytest.mark.parametrize(("number", "requeued"), [(signal.SIGUSR1, "requeue 4711_0\n"), (signal.SIGTERM, "")])
def test_what_is_told_to_stop_saves_and_what_is_late_comes_back(number: int, requeued: str, tmp_path: Path) -> None:
    (tmp_path / "scontrol").write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/told\n')
    (tmp_path / "scontrol").chmod(0o700)
    (tmp_path / "array.sh").write_text(_script([run_code("one", SAVES, tmp_path)], "compare", ""))
    variables = {"SLURM_ARRAY_TASK_ID": "0", "SLURM_ARRAY_JOB_ID": "4711", "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    with subprocess.Popen(["bash", tmp_path / "array.sh"], env={**os.environ, **variables}) as process:
        while "ready" not in ((tmp_path / "one.txt").read_text() if (tmp_path / "one.txt").exists() else ""):
            time.sleep(0.02)
        process.send_signal(number)
        assert process.wait(PATIENCE) == STOPPED
    assert ((tmp_path / "told").read_text() if (tmp_path / "told").exists() else "") == requeued


def test_jobs_that_nobody_can_ask_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert live_jobs(tmp_path) == {}
    (tmp_path / JOBS).write_text("{")
    assert live_jobs(tmp_path) == {}
    (tmp_path / JOBS).write_text('{"lstm-0": "4711_0"}')
    monkeypatch.setenv("PATH", str(tmp_path))
    assert live_jobs(tmp_path) == {}


def test_places_in_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Misuse, match=r"--on: unknown backend 'slrum'; did you mean slurm\?"):
        gf.compare("iris", on="slrum", out=tmp_path / "out")
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(Misuse, match=r"--on ray needs Ray: pip install 'glassformer\[ray\]'"):
        gf.tune("iris", on="ray", out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("address", ["127.0.0.1:1", "ray://127.0.0.1:1"])
def test_a_cluster_that_is_not_there_is_one_line(address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", ModuleType("ray"))  # which would try for minutes
    monkeypatch.setenv("RAY_ADDRESS", address)
    with pytest.raises(Misuse, match=rf"--on ray: nobody answers at RAY_ADDRESS {address} \(.*refused"):
        gf.compare("iris", on="ray", out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_cell_is_done_by_one_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = Job(name="majority class", kind="floor", settings={"data.path": "iris", "data.test_fraction": 0.2})
    write_json(tmp_path / JOB, {"job": {"name": job.name, "kind": job.kind, "settings": job.settings}, "part": "test"})
    monkeypatch.setattr(job_process, "PATIENCE", 0.3)
    with (tmp_path / LOG).open("ab") as file:
        assert lock_file(file)
        assert job_process.main(tmp_path) == job_process.BUSY_CODE
    assert not (tmp_path / OUTCOME).exists()
    assert job_process.main(tmp_path) == 0
    first = (tmp_path / OUTCOME).read_bytes()
    assert Outcome.read(tmp_path / OUTCOME).error is None
    assert job_process.main(tmp_path) == 0  # a job that is started again finds it done
    assert (tmp_path / OUTCOME).read_bytes() == first


def test_events_are_read_by_whole_lines(tmp_path: Path) -> None:
    job = _JobProgress(Job(name="lstm"), tmp_path)
    assert list(job.events()) == []
    with (tmp_path / EVENTS).open("w") as file:
        for piece, heard in (
            ('{"event": "be', []),
            ('gun"}\n{"event', ["begun"]),
            ('": "started"}\nnot JSON\n', ["started"]),
        ):
            file.write(piece)
            file.flush()
            assert [event["event"] for event in job.events()] == heard
