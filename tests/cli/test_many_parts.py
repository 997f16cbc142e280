"""Folders of parts and real processes: killed, side by side, with ten times the rows, on a Ray cluster."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pyarrow
import pyarrow.parquet as parquet
import pytest

from helpers.killing import Forker
from helpers.running import PATIENCE, begin, finish
from helpers.tables import opinions, write_table

KILLS = 8
"""Times that a command is killed, from its first change of the disk to its last."""
FEW, NOTE = 8_000, 3_000
"""Rows, of which ten times as many must need no more memory; and characters beside the text of each."""
PEAK = """
import re, sys
from glassformer.cli.main import main
code = main(sys.argv[1:])
print(re.search(r"VmHWM:\\s*(\\d+)", open("/proc/self/status").read())[1])
sys.exit(code)
"""
"""`glassformer …`, which says at the end how many KiB of memory it had at most."""


def write_parts(folder: Path, count: int, rows: int) -> Path:
    folder.mkdir()
    for number in range(count):
        write_table(folder / f"part-{number}.csv", opinions(rows, seed=number))
    return folder


def written(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.slow
def test_killed_anywhere_it_goes_on_to_the_same_bytes(runs: Path, tmp_path: Path) -> None:
    write_parts(tmp_path / "parts", 3, 20)
    words = ("predict", str(runs / "two"), "--file", "parts", "--out")
    with Forker({}) as forker:
        whole = forker.run(*words, "whole", folder=tmp_path)
        assert whole.code == 0, whole.said
        for number in {1 + round(place * (whole.operations - 1) / (KILLS - 1)) for place in range(KILLS)}:
            shutil.rmtree(tmp_path / "out", ignore_errors=True)
            assert forker.run(*words, "out", folder=tmp_path, at=number).code == -signal.SIGKILL
            ended = forker.run(*words, "out", folder=tmp_path)
            assert ended.code == 0, ended.said
            assert written(tmp_path / "out") == written(tmp_path / "whole"), f"killed before operation {number}"


@pytest.mark.slow
def test_shards_side_by_side(runs: Path, tmp_path: Path) -> None:
    write_parts(tmp_path / "parts", 7, 20)
    words = ("predict", str(runs / "two"), "--file", "parts", "--out")
    shards = [begin(*words, "out", "--shard", f"{number}/3", cwd=tmp_path) for number in (1, 2, 3)]
    assert [finish(shard)[0] for shard in shards] == [0, 0, 0]
    assert finish(begin(*words, "whole", cwd=tmp_path))[0] == 0
    parts = {name: held for name, held in written(tmp_path / "out").items() if name.startswith("part")}
    assert parts == {name: held for name, held in written(tmp_path / "whole").items() if name.startswith("part")}
    assert len(parts) == 7


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the peak of a process's memory is read from /proc")
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_ten_times_the_rows_need_no_more_memory(kind: str, runs: Path, tmp_path: Path) -> None:
    peaks = []
    for rows in FEW, 10 * FEW:
        folder, out = tmp_path / f"{rows}", tmp_path / f"out-{rows}"
        folder.mkdir()
        texts = [text for text, _ in opinions(FEW)] * (rows // FEW)
        notes = [f"{row} {'note' * (NOTE // 4)}" for row in range(rows)]
        if kind == "parquet":
            table = pyarrow.table({"text": texts, "note": notes})
            parquet.write_table(table, folder / "a.parquet", row_group_size=1000)
        else:
            write_table(folder / "a.csv", zip(texts, notes, strict=True), ("text", "note"))
        words = ["predict", str(runs / "three"), "--file", str(folder), "--out", str(out), "-q"]
        done = subprocess.run([sys.executable, "-c", PEAK, *words], capture_output=True, text=True, timeout=PATIENCE)
        assert done.returncode == 0, done.stderr
        (entry,) = json.loads((out / "manifest-1-of-1.json").read_text())["parts"]
        assert entry["rows"] == rows
        peaks.append(1024 * int(done.stdout))
    assert peaks[1] - peaks[0] < 0.7 * 9 * FEW * NOTE, peaks  # what the notes alone would take, and some room


# --- Ray ---


def workers_of(process: int) -> list[int]:
    """The processes of Ray below one of ours that answer parts."""
    parents: dict[int, int] = {}
    names: dict[int, str] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            stat, name = (folder / "stat").read_text(), (folder / "cmdline").read_text()
        except OSError:  # it has just ended
            continue
        parents[int(folder.name)] = int(stat.rpartition(")")[2].split()[1])
        names[int(folder.name)] = name

    def is_below(one: int) -> bool:
        return one == process or (one in parents and is_below(parents[one]))

    return [one for one, name in names.items() if re.match(r"ray::.*PartWorker", name) and is_below(one)]


@pytest.mark.slow
@pytest.mark.skipif(find_spec("ray") is None, reason="pip install 'glassformer[ray]'")
def test_two_workers_of_ray_and_one_is_killed(runs: Path, tmp_path: Path) -> None:
    write_parts(tmp_path / "parts", 8, 3000)
    words = ("predict", str(runs / "two"), "--file", "parts", "--out")
    assert finish(begin(*words, "whole", cwd=tmp_path))[0] == 0
    process = begin(*words, "out", "--on", "ray", "--jobs", "2", "--json", cwd=tmp_path)
    manifest = tmp_path / "out" / "manifest-1-of-1.json"
    began = time.monotonic()
    while not (manifest.exists() and json.loads(manifest.read_text())["parts"]):  # the first part is done
        assert process.poll() is None, process.communicate()
        assert time.monotonic() - began < PATIENCE, process.kill()
        time.sleep(0.05)
    os.kill(workers_of(process.pid)[0], signal.SIGKILL)
    code, out, err = finish(process)
    assert code == 0, err
    told = json.loads(out.splitlines()[-1])
    assert (told["rows"], told["parts"], told["failed"]) == (24_000, 8, [])
    assert written(tmp_path / "out") == written(tmp_path / "whole")
