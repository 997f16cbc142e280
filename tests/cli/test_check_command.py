"""`glassformer check` as it is typed."""

import json
from pathlib import Path

import pytest

from glassformer.models.modules import BagPredictor
from glassformer.verbs.train import train
from helpers.running import Command, one_line

QUICK = ("--only", "cached,batched,padded,saved")


@pytest.fixture
def bag(tmp_path: Path, command: Command) -> Path:
    train("opinions:rows=200", out=tmp_path / "bag", model="bag", steps=2, draft=True)
    return tmp_path / "bag"


def test_a_table_and_what_to_do_next(bag: Path, command: Command) -> None:
    code, out, err = command("check", bag, *QUICK)
    assert code == 0
    assert "Is bag right?" in out
    lines = {line.split("  ")[0]: line for line in out.splitlines()}
    assert "does not apply" in lines["cached = uncached"]
    for name in ("batched = single", "padded = unpadded", "saved = loaded"):
        assert " pass " in lines[name]
    assert "next: glassformer predict" in err
    assert "saved = loaded …" in err


def test_json_and_files(bag: Path, command: Command, tmp_path: Path) -> None:
    code, out, _ = command("check", bag, *QUICK, "--json", "--out", "checks.html")
    found = json.loads(out)
    assert (code, found["passed"], found["device"]) == (0, True, "cpu")
    assert [each["name"].split(" ")[0] for each in found["checks"]] == ["cached", "batched", "padded", "saved"]
    assert [each["passed"] for each in found["checks"]] == [None, True, True, True]
    assert found["checks"][3]["difference"] == found["checks"][3]["tolerance"] == 0
    assert "saved = loaded" in (tmp_path / "checks.html").read_text()


def test_a_run_that_is_wrong(bag: Path, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    right = BagPredictor.features
    monkeypatch.setattr(BagPredictor, "features", lambda self, ids, mask=None: right(self, ids, mask) + ids.shape[1])
    code, out, err = command("check", bag, *QUICK)
    assert code == 1
    assert "FAIL" in out
    assert "failed: padded = unpadded" in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--only", "cache"), "unknown check 'cache'; did you mean cached?"),
        (("--out", "checks.txt"), "--out checks.txt: its name should end in"),
        (("--data", "nowhere.csv"), "nowhere.csv"),
    ],
)
def test_misuse(words: tuple[str, ...], message: str, bag: Path, command: Command) -> None:
    code, out, err = command("check", bag, *words)
    assert (code, out) == (2, "")
    assert message in one_line(err)


def test_no_run(command: Command) -> None:
    code, _, err = command("check", "nowhere")
    assert code == 2
    assert one_line(err) == "glassformer: no run at nowhere"
