"""A corpus that several processes pack, on several disks: the bytes are those of one process on one disk."""

import os
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from glassformer.config.errors import GlassformerError
from glassformer.config.messages import listening
from glassformer.config.parts import claimed
from glassformer.data.packing import packer
from glassformer.data.packing.store import Shards
from glassformer.data.packing.windows import WindowOrder
from helpers import large_corpus, packing_together
from helpers.packing_together import SMALL, TEXTS, Slow, packed
from helpers.running import finish
from helpers.tables import write_table

CHARACTERS = sum(map(len, TEXTS))


@pytest.fixture(autouse=True)
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Path]]:
    for name, (module, value) in SMALL.items():
        monkeypatch.setattr(module, name, value)
    found = use(monkeypatch, tmp_path / "one", tmp_path / "two")
    yield found
    left = [path for path in tmp_path.rglob("*") if path.suffix in (".part", ".lock")]
    assert not left, "nothing half-written and no claim is left behind"


def use(monkeypatch: pytest.MonkeyPatch, *caches: Path) -> list[Path]:
    monkeypatch.setenv("GLASSFORMER_CACHE", os.pathsep.join(map(str, caches)))
    return [cache / "tokens" for cache in caches]


@pytest.fixture
def expected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """The files that one process packs into one folder."""
    with monkeypatch.context() as patch:
        (folder,) = use(patch, tmp_path / "alone")
        packed()
    return ids_in(folder)


def ids_in(*folders: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for folder in folders for path in folder.glob("*.ids")}


def begin(most: int = 0) -> "subprocess.Popen[str]":
    process = subprocess.Popen(
        [sys.executable, str(Path(packing_together.__file__)), str(most)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def go(*processes: "subprocess.Popen[str]") -> None:
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()


# --- processes ---


@pytest.mark.slow
def test_processes_share_the_shards(folders: list[Path], expected: dict[str, bytes]) -> None:
    processes = [begin() for _ in range(3)]
    go(*processes)
    encoded = [int(process.communicate(timeout=300)[0]) for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0]
    assert ids_in(*folders) == expected
    assert sum(encoded) == CHARACTERS, "each shard is made once"
    assert sorted(encoded)[1] > 0, "and not all of them by one process"


@pytest.mark.slow
def test_the_shard_of_a_killed_process_is_made_by_another(folders: list[Path], expected: dict[str, bytes]) -> None:
    killed, other = begin(most=1000), begin()
    go(killed)
    assert killed.stdout is not None
    assert killed.stdout.readline() == "hangs\n"
    go(other)
    assert not says_something(other, seconds=2), "it waits for the shard that somebody makes"
    killed.send_signal(signal.SIGKILL)
    assert killed.wait() == -signal.SIGKILL
    out, _ = other.communicate(timeout=300)
    assert CHARACTERS - 2000 < int(out) < CHARACTERS
    assert ids_in(*folders) == expected
    killed.communicate()


def says_something(process: "subprocess.Popen[str]", seconds: float) -> bool:
    """Whether a process says something within a while."""
    return bool(select.select([process.stdout], [], [], seconds)[0])


def test_what_one_process_claims_no_other_has(tmp_path: Path) -> None:
    path = tmp_path / ".lock"
    with claimed(path) as mine, claimed(path) as second:
        assert mine
        assert not second
    assert not path.exists()
    with claimed(path, wait=True) as again:
        assert again
    with claimed(tmp_path / "nowhere" / ".lock") as everybody:  # a disk without locks
        assert everybody


# --- disks ---


def test_shards_lie_where_there_is_room(
    folders: list[Path], expected: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever disks they lie on, a step reads the same windows."""
    with monkeypatch.context() as patch:
        use(patch, folders[0].parent.parent / "alone")
        whole = packed().ids
    monkeypatch.setattr(packer, "free_bytes", lambda folder: -len(list(folder.iterdir())))  # the emptier one
    tokens = packed()
    counts = [len(ids_in(folder)) for folder in folders]
    assert min(counts) > 5
    assert ids_in(*folders) == expected
    assert isinstance(tokens.ids, Shards)
    starts = WindowOrder(len(tokens.ids), 16, 8, seed=3).starts(11)[:, None] + np.arange(17)
    assert np.array_equal(tokens.ids[starts], whole[starts])
    slow = Slow()
    packed(slow)
    assert slow.characters == 0
    monkeypatch.setenv("GLASSFORMER_CACHE", os.pathsep.join(str(folder.parent) for folder in reversed(folders)))
    packed(slow)
    assert slow.characters == 0, "in whatever order the folders are named"


def test_a_shard_that_is_gone_is_made_again_and_said(folders: list[Path], expected: dict[str, bytes]) -> None:
    packed()
    gone = next(path for folder in folders for path in folder.glob("*.3.ids"))
    gone.unlink()
    slow, said = Slow(), list[str]()
    with listening(said.append):
        packed(slow)
    whole = f"{len(expected) - 1} of {len(expected)} shards are whole"
    assert said == [f"packing of the train part continues: {whole}"]
    assert 0 < slow.characters < 600
    assert ids_in(*folders) == expected


def test_a_disk_that_is_gone(folders: list[Path], expected: dict[str, bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    """And whose place nobody can write to: its shards are made again on the other."""
    monkeypatch.setattr(packer, "free_bytes", lambda folder: -len(list(folder.iterdir())))
    packed()
    shutil.rmtree(folders[1].parent)
    folders[1].parent.write_text("no folder")
    said: list[str] = []
    with listening(said.append):
        packed()
    assert said[0].startswith(f"cannot write to the cache {folders[1]}")
    assert said[1].startswith("packing of the train part continues: ")
    assert ids_in(folders[0]) == expected


@pytest.fixture
def small_disks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Path]]:
    """Two disks that together hold less than what is packed: each file takes a page of 4 kB at least."""
    mount = shutil.which("mount")
    if os.geteuid() != 0 or mount is None:
        pytest.skip("only root may mount a disk")
    made = []
    for size in (48, 80):
        disk = tmp_path / f"disk {size}"
        disk.mkdir()
        if subprocess.run([mount, "-t", "tmpfs", "-o", f"size={size}k", "none", disk], capture_output=True).returncode:
            pytest.skip("mounting is not allowed here")
        made.append(disk)
    yield use(monkeypatch, *made)
    for disk in made:
        subprocess.run(["umount", "--lazy", disk], check=True)


def test_a_full_disk_is_passed_over(small_disks: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folders = use(monkeypatch, small_disks[0].parent, tmp_path / "large")
    monkeypatch.setattr(packer, "free_bytes", lambda folder: folder == folders[0])  # as if it had room
    said: list[str] = []
    with listening(said.append):
        packed()
    full = f"{folders[0]} takes no more tokens (No space left on device): the rest goes to the other folders"
    assert [line for line in said if "takes no more" in line] == [full]
    assert all(ids_in(folder) for folder in folders)
    with monkeypatch.context() as patch:
        (alone,) = use(patch, tmp_path / "alone")
        packed()
    assert ids_in(*folders) == ids_in(alone)


def test_full_disks_are_one_line(small_disks: list[Path]) -> None:
    where = ", ".join(map(str, small_disks))
    with pytest.raises(GlassformerError) as caught:
        packed()
    assert str(caught.value) == f"cannot keep the tokens of the train part in {where}: No space left on device"


# --- memory ---


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits what a process may take this way")
def test_a_corpus_larger_than_the_memory(tmp_path: Path) -> None:
    """Files of several kinds, some of them links to another disk, through a process that may take a third of their
    size.
    """
    corpus, elsewhere = tmp_path / "corpus", tmp_path / "elsewhere"
    corpus.mkdir()
    elsewhere.mkdir()
    line = "a few words and 0123456789 " * 30
    for number in range(8):
        rows = [f"{number} {row} {line}" for row in range(6000)]
        if number % 2:
            write_table(corpus / f"{number}.jsonl", [(row,) for row in rows], ("text",))
        else:
            (elsewhere / f"{number}.txt").write_text("\n".join(rows))
            (corpus / f"{number}.txt").symlink_to(elsewhere / f"{number}.txt")
    size = sum(path.stat().st_size for path in corpus.iterdir())
    script = str(Path(large_corpus.__file__))
    code, out, err = finish(
        subprocess.Popen(
            [sys.executable, script, str(corpus), str(size // 3 // 10**6)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "RAYON_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "1"},  # on a machine of any size
        )
    )
    assert code == 0, err
    assert int(out) > 0.8 * size
    assert len(ids_in(*(tmp_path / name / "tokens" for name in ("one", "two")))) > 10
