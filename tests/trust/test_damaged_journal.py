"""The journal of a search that is damaged: half a last line is dropped, anything else is refused in one line."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from glassformer.config.errors import GlassformerError, RunError
from helpers.damage import damaged
from helpers.searching import Pretended, search, study_of


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A search of four trials, all of them done."""
    out = tmp_path_factory.mktemp("tuned") / "out"
    with pytest.MonkeyPatch.context() as patch:
        Pretended(patch)
        search(out, 4)
    return out


@pytest.fixture
def out(finished: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "out"))


def test_half_a_last_line_is_dropped_and_the_search_goes_on(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal, told = out / "study.log", list[str]()
    whole = journal.read_bytes()
    journal.write_bytes(whole + whole.splitlines()[-1][:20])
    Pretended(monkeypatch)
    result = search(out, 5, say=told.append)
    assert f"{journal}: dropped the incomplete last line (was the disk full?)" in told
    assert len(result.trials) == 5
    assert journal.read_bytes().startswith(whole)
    assert len(study_of(out).trials) == 5


@pytest.mark.parametrize("left", [1, 0.25, 0.5, 0.75, -2, -1])
def test_a_search_resumes_wherever_its_last_line_was_cut(
    out: Path, left: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`left`: how many bytes of the line remain, or which share of them."""
    journal, told = out / "study.log", list[str]()
    *lines, last = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join([*lines, last[: left if isinstance(left, int) else round(left * len(last))]]))
    Pretended(monkeypatch)
    monkeypatch.setattr("glassformer.trials.tuning.storage._start_time", lambda process: "later")  # another process
    assert len(search(out, 4, say=told.append).trials) == 4
    assert [line for line in told if "dropped the incomplete last line" in line]


@pytest.mark.parametrize("line", [b"nonsense\n", b"{\n", b"[]\n", b'{"op_code": 8\n', b"\xff\n", b"[" * 5000 + b"\n"])
def test_a_damaged_line_is_refused(out: Path, line: bytes) -> None:
    journal = out / "study.log"
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join([*lines[:2], line, *lines[2:]]))
    with pytest.raises(
        RunError, match=r"study\.log is damaged in line 3: restore it from a copy, or name another --out \("
    ):
        search(out, 4)


def with_line(journal: Path, of: str, **changes: Any) -> None:
    """Change the last line that has a field; None removes a field."""
    lines = [json.loads(line) for line in journal.read_bytes().splitlines()]
    line = next(line for line in reversed(lines) if of in line)
    line.update(changes)
    kept = [{name: value for name, value in one.items() if value is not None} for one in lines]
    journal.write_text("".join(json.dumps(one) + "\n" for one in kept))


@pytest.mark.parametrize("step", ["3", 1.5, True, [1]])
def test_a_step_that_is_not_an_int_is_refused(out: Path, step: Any) -> None:
    journal = out / "study.log"
    trial = {"op_code": 7, "worker_id": "w", "trial_id": 3, "step": step, "intermediate_value": 0.5}
    *lines, last = journal.read_bytes().splitlines(keepends=True)  # the last line ends the trial
    journal.write_bytes(b"".join([*lines, json.dumps(trial).encode() + b"\n", last]))
    with pytest.raises(RunError, match=r"study\.log is damaged: restore it from a copy, or name another --out \("):
        search(out, 4)


@pytest.mark.parametrize(("code", "where"), [(99, ""), (None, r" in line [\d,]+")])
def test_a_damaged_journal_is_not_called_storage(out: Path, code: int | None, where: str) -> None:
    with_line(out / "study.log", "op_code", op_code=code)
    with pytest.raises(RunError, match=rf"study\.log is damaged{where}: restore it from a copy, or name") as error:
        search(out, 4)
    assert "--storage" not in str(error.value)


def every_damage(journal: Path) -> list[tuple[str, bytes]]:
    """Each value of each line replaced or removed, each line left out; the lines of one kind are damaged once."""
    lines, kinds = journal.read_bytes().splitlines(keepends=True), dict[tuple[Any, ...], int]()
    for number, line in enumerate(lines):
        value = json.loads(line)
        kinds.setdefault((value["op_code"], *value, *value.get("user_attr", ())), number)
    found = []
    for number in kinds.values():
        before, after = b"".join(lines[:number]), b"".join(lines[number + 1 :])
        found.append((f"line {number} removed", before + after))
        for what, text in damaged(lines[number].decode()):
            changed = text.encode("utf-8", "surrogatepass").replace(b"\n", b"")
            found.append((f"line {number}: {what}", before + changed + b"\n" + after))
    return found


def refused_or_done(out: Path, what: str, text: bytes) -> bool:
    (out / "study.log").write_bytes(text)
    try:
        search(out, 4)
    except GlassformerError as error:
        named = "study.log" in str(error)
        if not named:
            pytest.fail(f"{what}: {error}")
        return named
    return False


def test_whatever_is_in_a_journal(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Pretended(monkeypatch)
    cases = every_damage(out / "study.log")
    refused = [refused_or_done(out, what, text) for what, text in cases[:: max(1, len(cases) // 25)]]
    assert any(refused)


@pytest.mark.trust
@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")  # of scores of 1e308, which are drawn
def test_every_damage_to_a_journal(out: Path, monkeypatch: pytest.MonkeyPatch, tried: Any) -> None:
    Pretended(monkeypatch)
    cases = every_damage(out / "study.log")
    assert sum(refused_or_done(out, what, text) for what, text in cases)
    tried(
        "damaged files of runs: study.log", "each value replaced or removed", len(cases), "a result or a one-line error"
    )
