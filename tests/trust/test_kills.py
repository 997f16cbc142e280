"""Killed at every file operation, and done again: the same end, bit for bit.

Each command is killed right before each of its operations that change the disk (Python's audit events), and at system
calls, by strace where ptrace is allowed. For want of time that is all operations of `train`, and three dozen of each
other command's; with GLASSFORMER_KILLS=1000 all of them, and so many at random, each command up to three times.
"""

import os
import random
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from helpers.killing import CALLS, Ended, Forker, fresh_copy, state_of
from helpers.tables import opinions, write_table

pytestmark = pytest.mark.trust

NANO = "--model.width 8 --model.layers 1 --model.context 8 --batch-size 4 --training.samples false"
TEXT = f"train reverse:rows=40 --tokenizer.kind char --model gru {NANO} --training.checkpoint_every 1"
LABELS = "--model bag --tokenizer.min_count 1 --batch-size 8"
Tried = Callable[[str, str, int, str], None]
KILLED = -signal.SIGKILL
KILLS = int(os.environ.get("GLASSFORMER_KILLS", "0"))
MOST, PER_CALL = 36, 2
"""How often a command is killed, and at system calls of a name, within some minutes for all of them."""
SAME = "repeating the command gives the same files, bit for bit"


@dataclass(frozen=True)
class Case:
    """A command in a folder with what it needs."""

    words: str
    patches: dict[str, Any] = field(default_factory=dict)
    refuses: str = ""
    """What it says when all was done before."""
    keeps: str = ""
    """What must be the same, by the beginning of its path: a log of trials tells of the kill itself."""


CASES = {
    "train": Case(f"{TEXT} --steps 2 --out R --resume"),
    "train, killed before": Case(f"{TEXT} --steps 2 --out killed --resume"),
    "train on more": Case(f"{TEXT} --steps 4 --out done --resume"),
    "train instead": Case(f"{TEXT} --steps 1 --out done --overwrite"),
    "train and keep moments": Case(f"{TEXT} --steps 2 --out R --resume --keep-checkpoints --training.average 2"),
    "train and refit": Case(f"train texts.csv {LABELS} --steps 1 --out R --resume --refit"),
    "cross-validate": Case(f"train texts.csv {LABELS} --steps 1 --out R --resume --folds 2"),
    "pack": Case(
        f"{TEXT} --steps 1 --out R --resume".replace("rows=40", "rows=44"),
        {"glassformer.data.packing.packer.SHARD": 64, "glassformer.data.packing.packer.TOGETHER": 60},
    ),
    "compare": Case("compare texts.csv --models bag --seeds 1 --steps 1 --batch-size 8 --no-references --out C"),
    "tune": Case("tune texts.csv --model bag --trials 2 --steps 1 --batch-size 8 --no-pruning --out T", keeps="T/best"),
    "import": Case("import theirs --out R", refuses="already holds a run"),
    "import instead": Case("import theirs --out done --overwrite"),
    "export": Case("export writer --to hf E", refuses="is not empty"),
    "export instead": Case("export writer --to hf theirs --overwrite"),
    "export shards instead": Case(
        "export writer --to hf theirs --overwrite", {"glassformer.runs.weight_files.SHARD_BYTES": 700}
    ),
    "predict to a file": Case("predict done-texts --file texts.csv --out p.csv"),
    "predict a folder of parts": Case("predict done-texts --file parts --out P", keeps="P"),
    "predict a folder instead": Case("predict done-texts --file parts --out said --overwrite", keeps="said"),
}


@pytest.fixture(scope="module")
def forker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Forker]:
    with Forker({}) as forker:
        yield forker


@pytest.fixture(scope="module")
def template(forker: Forker, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all that a command may need."""
    folder = tmp_path_factory.mktemp("kills") / "template"
    folder.mkdir()
    write_table(folder / "texts.csv", opinions(24))
    (folder / "parts").mkdir()
    for seed in range(3):
        write_table(folder / "parts" / f"{seed}.csv", opinions(5, seed=seed))
    style = f"train reverse:rows=40 --tokenizer.kind char --model.heads 2 {NANO} --steps 1 --out writer"
    for words in (
        f"{TEXT} --steps 2 --out done",
        f"train texts.csv {LABELS} --steps 1 --out done-texts",
        style,
        "export writer --to hf theirs",
        "predict done-texts --file parts --out said --format jsonl",
    ):
        assert forker.run(*words.split(), folder=folder).code == 0, words
    assert forker.run(*CASES["train, killed before"].words.split(), folder=folder, at=50).code == KILLED
    shutil.copyfile(folder / "done" / "tokenizer.json", folder / "tokens.json")
    return folder


def run(forker: Forker, case: Case, folder: Path, **kill: Any) -> Ended:
    return forker.run(*case.words.split(), folder=folder, patches=case.patches, **kill)


def end_of(case: Case, folder: Path) -> dict[str, Any]:
    return {name: value for name, value in state_of(folder).items() if name.startswith(case.keeps)}


def same_end(forker: Forker, case: Case, folder: Path, whole: dict[str, Any], when: str) -> None:
    """Done again, it is as if it had never been killed."""
    ended = run(forker, case, folder)
    done = ended.code == 0 or (ended.code == 2 and case.refuses and case.refuses in ended.said)
    assert done, f"killed {when}, it does not go on: {ended.said}"
    assert "Traceback" not in ended.said, when
    end = end_of(case, folder)
    names = sorted(name for name in {*end, *whole} if end.get(name) != whole.get(name))
    assert not names, f"killed {when}, these differ: {[(name, name in end, name in whole) for name in names]}"


def spread(operations: int, name: str) -> list[int]:
    """Which operations to be killed at: all, or as many as there is time for, from the first to the last."""
    most = operations if KILLS or name == "train" else min(operations, MOST)
    return sorted({1 + round(number * (operations - 1) / (most - 1)) for number in range(most)})


@pytest.mark.parametrize("name", CASES)
def test_killed_at_every_operation(name: str, forker: Forker, template: Path, tmp_path: Path, tried: Tried) -> None:
    case, folder, times = CASES[name], tmp_path / "work", 0
    fresh_copy(template, folder)
    first = run(forker, case, folder)
    assert first.code == 0, first.said
    whole = end_of(case, folder)
    left = [name for name in whole if name.endswith((".part", "-new", "-instead"))]
    assert not [name for name in left if not name.startswith("killed")]
    for number in spread(first.operations, name):
        fresh_copy(template, folder)
        if run(forker, case, folder, at=number).code == KILLED:
            same_end(forker, case, folder, whole, f"before operation {number} of {first.operations}")
            times += 1
    assert times > 4
    tried(f"kills: {name}", "SIGKILL before a file operation (Python audit events)", times, SAME)


@pytest.mark.parametrize("name", ["train", "tune", "import", "export", "predict to a file"])
def test_killed_at_system_calls(name: str, forker: Forker, template: Path, tmp_path: Path, tried: Tried) -> None:
    """What goes past Python: half-written files among it."""
    if shutil.which("strace") is None or subprocess.run(["strace", "-o", os.devnull, "true"]).returncode:
        pytest.skip("strace, or ptrace, is not there")
    case, folder, times = CASES[name], tmp_path / "work", 0
    fresh_copy(template, folder)
    assert run(forker, case, folder).code == 0
    whole = end_of(case, folder)
    for call in CALLS:
        fresh_copy(template, folder)
        run(forker, case, folder, call=call)
        count = len(Path(f"{folder}.calls").read_text().splitlines())
        for number in sorted(random.Random(call).sample(range(1, count + 1), min(count, PER_CALL))):
            fresh_copy(template, folder)
            if run(forker, case, folder, call=call, at=number).code == KILLED:
                same_end(forker, case, folder, whole, f"at {call} {number}")
                times += 1
    assert times
    tried(f"kills: {name}", f"SIGKILL at a system call (strace: {', '.join(CALLS)})", times, SAME)


@pytest.mark.skipif(not KILLS, reason="by hand: GLASSFORMER_KILLS=1000")
def test_killed_at_random(forker: Forker, template: Path, tmp_path: Path, tried: Tried) -> None:
    """Any command, at any operation, up to three times before it may end."""
    drawn, folder, times = random.Random(KILLS), tmp_path / "work", 0
    wholes: dict[str, tuple[dict[str, Any], int]] = {}
    while times < KILLS:
        name = drawn.choice(list(CASES))
        case = CASES[name]
        fresh_copy(template, folder)
        if name not in wholes:
            first = run(forker, case, folder)
            wholes[name] = end_of(case, folder), first.operations
            fresh_copy(template, folder)
        whole, operations = wholes[name]
        when = []
        for _ in range(drawn.choice([1, 2, 3])):
            when.append(drawn.randint(1, operations))
            times += run(forker, case, folder, at=when[-1]).code == KILLED
        same_end(forker, case, folder, whole, f"({name}) before operations {when}")
    tried("kills: any command up to three times", "SIGKILL before a file operation (Python audit events)", times, SAME)
