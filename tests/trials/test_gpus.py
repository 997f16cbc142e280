"""Which GPU a process gets, and how many share one: decided without a GPU, and seen by real processes."""

import importlib
import json
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import glassformer as gf
from glassformer.config import plugins
from glassformer.config.errors import Misuse, RunError
from glassformer.config.messages import listening
from glassformer.trials.backends import gpus, options, ray_cluster
from glassformer.trials.backends.base import ProcessSpec
from glassformer.trials.backends.gpus import CONTEXT_BYTES, Gpu, assign_gpus, gpu_share, visible_gpus
from glassformer.trials.backends.local import Local
from glassformer.trials.backends.ray_cluster import RayCluster
from glassformer.trials.jobs import Job
from glassformer.trials.running.engine import gpu_needs

tune_module = importlib.import_module("glassformer.trials.tune")

GIB = 2**30
TWO = (Gpu("0", 8 * GIB), Gpu("1", 8 * GIB))
MODEL: dict[str, Any] = {"steps": 2}


# --- the decision ---


@pytest.mark.parametrize(
    ("needs", "assigned"),
    [
        ((5, 5, 5), "01-"),  # each too large to share
        ((2, 2, 2, 2, 2, 2, 2), "010101-"),  # three of 2 GiB, and two more contexts
        ((8, 1, 7, 1), "01-1"),  # what is small need not wait for what is large
        ((None, 1, 1, None), "011-"),  # of which no plan is made: alone
        ((9, 1), "-0"),
        ((), ""),
    ],
)
def test_as_many_share_a_gpu_as_fit(needs: Sequence[int | None], assigned: str) -> None:
    named = {str(number): need if need is None else need * GIB for number, need in enumerate(needs)}
    found = assign_gpus(named, TWO)
    assert "".join(found.get(name, "-") for name in named) == assigned


def test_those_that_run_are_counted() -> None:
    running = [("0", 5 * GIB), ("1", None)]
    assert assign_gpus({"a": 5 * GIB, "b": 2 * GIB, "c": None}, TWO, running) == {"b": "0"}


def test_without_plans_any_number_share() -> None:
    named = {str(number): None for number in range(5)}
    assert Counter(assign_gpus(named, [Gpu("2"), Gpu("GPU-b")]).values()) == {"2": 3, "GPU-b": 2}
    assert assign_gpus(named, []) == {}


@given(
    needs=st.lists(st.integers(0, 10 * GIB), max_size=12),
    usable=st.lists(st.integers(0, 16 * GIB), max_size=3),
)
def test_no_gpu_is_ever_too_full(needs: list[int], usable: list[int]) -> None:
    there = [Gpu(str(number), bytes) for number, bytes in enumerate(usable)]
    named = dict(zip("abcdefghijkl", needs, strict=False))
    found = assign_gpus(named, there)
    for gpu in there:
        held = [named[name] for name, on in found.items() if on == gpu.name]
        assert gpu.usable is not None
        assert not held or sum(held) + CONTEXT_BYTES * (len(held) - 1) <= gpu.usable
        assert not held or sum(gpu_share(need, gpu.usable) for need in held) <= 1 + len(held) / gpus.RAY_UNITS
    idle = [gpu for gpu in there if gpu.name not in found.values()]
    assert not [name for name, need in named.items() for gpu in idle if name not in found and need <= (gpu.usable or 0)]


def test_the_names_of_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    monkeypatch.setenv(gpus.VARIABLE, "GPU-b, 3,7")  # the last is none
    assert visible_gpus() == [Gpu("GPU-b"), Gpu("3")]
    monkeypatch.delenv(gpus.VARIABLE)
    assert visible_gpus() == [Gpu("0"), Gpu("1")]
    monkeypatch.setattr("sys.executable", "false")
    with pytest.raises(RunError, match=r"--jobs auto: the GPUs' memory cannot be read .*: give a number"):
        visible_gpus(measured=True)


# --- plans ---


def test_what_cells_hold_by_their_plans() -> None:
    base = {"data.path": "iris", "training.steps": 2}
    jobs = [
        Job(
            name="mlp",
            settings={**base, "model.encoder": "mlp", "model.head_hidden": width},
            varied={"w": width},
            repeat=seed,
        )
        for seed in (0, 1)
        for width in (8, 2048)
    ]
    others = [
        Job(name="majority class", kind="floor", settings=base),
        Job(name="cpu", settings={**base, "training.device": "cpu"}),
        Job(name="runs/x", kind="existing run", settings=base),
        Job(name="broken", settings={**base, "model.encoder": "none such"}),
    ]
    said: list[str] = []
    with listening(said.append):
        small, large, *again, given_run, broken = gpu_needs([*jobs, *others]).values()
    assert small is not None
    assert large is not None
    assert again == [small, large]
    assert large > 10 * small > 0
    assert given_run is broken is None
    assert len(said) == 4


# --- real processes, on GPUs that are none ---

SPY = """
import atexit, json, os, pathlib, sys, time
path = pathlib.Path(__file__).parent / f"{os.path.basename(sys.argv[1])}.seen"
began = time.time()
atexit.register(lambda: path.write_text(json.dumps([os.environ["CUDA_VISIBLE_DEVICES"], began, time.time()])))
"""
"""A file of a person's own, which the process of every job reads: it tells which GPU that was given, and how long."""


def compare_on(there: Sequence[Gpu], patch: pytest.MonkeyPatch, folder: Path, **more: Any) -> list[str]:
    """A comparison with `--jobs auto`, but for the GPUs; gives what it said."""
    (folder / "spy.py").write_text(SPY)
    patch.setenv(plugins.VARIABLE, str(folder / "spy.py"))
    patch.setenv(gpus.VARIABLE, "none")
    patch.setattr(options, "visible_gpus", lambda *, measured: list(there))
    said: list[str] = []
    gf.compare("iris", out=folder / "out", jobs="auto", say=said.append, references=False, **MODEL, **more)
    return said


def seen_in(folder: Path) -> dict[str, tuple[str, float, float]]:
    return {path.stem: tuple(json.loads(path.read_text())) for path in folder.glob("*.seen")}


@pytest.mark.slow
def test_a_cell_for_each_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """GPUs with room for one: each process sees its own, and the next one begins when it is gone."""
    there = [Gpu("4", 2**24), Gpu("GPU-b", 2**24)]
    said = compare_on(there, monkeypatch, tmp_path, models="linear", seeds=3, floors=False)
    times: dict[str, list[list[float]]] = {"4": [], "GPU-b": []}
    for gpu, *begin_and_end in seen_in(tmp_path).values():
        times[gpu].append(begin_and_end)
    (alone,), (first, second) = sorted(map(sorted, times.values()), key=len)
    assert alone
    assert first[1] <= second[0]
    assert [line for line in said if "2 at once" in line]


@pytest.mark.slow
def test_small_ones_share_a_gpu_and_what_fits_none_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(options.torch, "get_num_threads", lambda: 8)
    said = compare_on([Gpu("4", 2 * GIB)], monkeypatch, tmp_path, models="linear,mlp", seeds=1, floors=False)
    assert [line for line in said if "2 at once, 4 threads each" in line]
    assert Counter(gpu for gpu, *_ in seen_in(tmp_path).values()) == {"4": 2}

    (tmp_path / "small").mkdir()
    with pytest.raises(
        Misuse, match=r"mlp-0 will hold .* KiB by its plan, and no GPU has more than 1.0 KiB for it: "
    ) as no:
        compare_on([Gpu("0", 2**10)], monkeypatch, tmp_path / "small", models="mlp", seeds=1)
    assert "\n" not in str(no.value)
    assert not list(tmp_path.glob("small/out/jobs/*"))


def test_auto_without_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(options, "visible_gpus", lambda *, measured: [])
    planned: list[str] = []
    backend = options.BackendOptions(share_gpus=True).make(
        tmp_path, "compare", plan=lambda: {str(planned.append("all")): None}
    )
    assert backend == Local(jobs=1, threads=None, gpus=[])
    assert not planned
    with monkeypatch.context() as patch:
        patch.setattr(options.torch, "get_num_threads", lambda: 2)
        assert options.BackendOptions().make(tmp_path, "compare") == Local(jobs=1, threads=None, gpus=[])
        assert options.BackendOptions(jobs=2).make(tmp_path, "compare") == Local(jobs=2, threads=1, gpus=[])
    with pytest.raises(Misuse, match="--jobs wants a whole number or auto, not 'many'"):
        gf.compare("iris", jobs="many")
    with pytest.raises(
        Misuse, match="tune --jobs auto is a process for each GPU of this machine: with --on ray, say how"
    ):
        gf.tune("iris", jobs="auto", on="ray")


@pytest.mark.slow
def test_a_search_has_a_process_for_each_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    there = [Gpu("4"), Gpu("5")]
    monkeypatch.setattr(tune_module, "visible_gpus", lambda: there)
    (tmp_path / "spy.py").write_text(SPY.replace("sys.argv[1]", "sys.argv[2]"))  # ORDERS JOB
    monkeypatch.setenv(plugins.VARIABLE, str(tmp_path / "spy.py"))
    monkeypatch.setattr(options, "visible_gpus", lambda *, measured: there)
    space = {"training.lr": {"low": 1e-4, "high": 1e-1, "log": True}}
    gf.tune("iris", model="linear", jobs="auto", trials=2, steps=2, final=False, space=space, out=tmp_path / "out")
    assert {name: gpu for name, (gpu, *_) in seen_in(tmp_path).items()} == {"0": "4", "1": "5"}


@pytest.mark.slow
def test_parts_of_a_gpu_on_ray(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster that takes itself to have two GPUs: three of a third share one, and who has none is told so."""
    ray = pytest.importorskip("ray")
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.setattr(ray_cluster, "usable_gpu_bytes", lambda: 8 * GIB)
    needs = {"large": 8 * GIB, **dict.fromkeys("abc", 2 * GIB)}
    code = "import os; print('seen', os.environ.get('CUDA_VISIBLE_DEVICES') or 'none')"
    words = ("-n", "1", "-r", "1", code)
    specs = [
        ProcessSpec(
            name=name, module="timeit", arguments=words, log=tmp_path / f"{name}.txt", takes_gpu=name != "floor"
        )
        for name in (*needs, "floor")
    ]
    ray.init(address="local", num_cpus=8, num_gpus=2, log_to_driver=False, include_dashboard=False)
    try:
        backend = RayCluster(plan=lambda: needs)
        backend.start(backend.startable(specs))
        while backend.running:
            assert [end.code for end in backend.ended() if end.code] == []
            time.sleep(0.1)
        assert backend.gpu_shares == {"large": 1.0, **dict.fromkeys("abc", gpu_share(2 * GIB, 8 * GIB))}
        with pytest.raises(Misuse, match=r"huge will hold 9.0 GiB by its plan, and no GPU has more than 8.0 GiB"):
            RayCluster(plan=lambda: {"huge": 9 * GIB}).start([replace(specs[0], name="huge")])
    finally:
        ray.shutdown()
    seen = {path.stem: path.read_text().split()[1] for path in tmp_path.glob("*.txt")}
    assert seen.pop("floor") == "none"
    assert set(seen) == set(needs)
    assert set(seen.values()) <= {"0", "1"}
