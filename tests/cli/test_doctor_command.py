"""`glassformer doctor` as a person uses it, and what is said of findings while a training goes on."""

import json
from pathlib import Path

import pytest

from helpers.running import TINY, Command, one_line


@pytest.fixture
def sick(command: Command) -> str:
    """A training with something to find."""
    code, _, err = command("train", "copy", *TINY, "--model.causal_mask", "false", "--out", "sick")
    assert code == 0
    told = next(line for line in err.splitlines() if line.startswith("doctor: "))
    assert told.startswith("doctor: model.causal_mask is false")
    assert told.endswith("Try: --model.causal_mask true")
    return "sick"


def test_findings_are_printed_again(command: Command, sick: str, tmp_path: Path) -> None:
    code, out, err = command("doctor", sick, "--out", "found.html")
    assert code == 0
    assert out.splitlines()[0].startswith("problem (step 1): model.causal_mask is false")
    assert out.splitlines()[1] == "  try: --model.causal_mask true"
    assert out.splitlines()[-1].startswith("1 problem")
    assert "looked at: the first loss" in err
    assert "next: glassformer generate sick" in err
    assert "model.causal_mask is false" in (tmp_path / "found.html").read_text()


def test_as_json(command: Command, sick: str) -> None:
    code, out, _ = command("doctor", sick, "--json")
    assert code == 0
    found = json.loads(out)
    assert found["findings"][0]["kind"] == "leak"
    assert found["findings"][0]["numbers"] == {"mask": False}
    assert found["looked"]


def test_a_failure_is_said_once_and_told_again(command: Command) -> None:
    words = ("train", "copy", *TINY, "--steps", 20, "--optimizer", "sgd", "--lr", "1e20", "--out", "hot")
    code, _, err = command(*words)
    assert code == 1
    assert "doctor:" not in err
    assert "in the batch of step" in one_line(err) or "of the batch of step" in one_line(err)
    code, out, err = command("doctor", "hot")
    assert code == 0
    assert out.startswith("problem (step ")
    assert "not finite" in out or "became" in out
    assert "not looked at: the model" in err
    assert "next: glassformer train --resume --out hot" in err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["nowhere"], "no run at nowhere"),
        ([], "RUN"),
        (["last", "--out", "found.gif"], "--out found.gif: its name should end in"),
    ],
)
def test_misuse(command: Command, words: list[str], told: str) -> None:
    code, out, err = command("doctor", *words)
    assert code == 2
    assert out == ""
    assert told in one_line(err)


def test_what_is_no_device_is_refused(command: Command, sick: str) -> None:
    code, out, err = command("doctor", sick, "--device", "tpu")
    assert (code, out) == (2, "")
    assert "'tpu' is no device" in one_line(err)


def test_help_tells_the_exit_code(command: Command) -> None:
    _, out, _ = command("doctor", "--help")
    assert "Exits with 0" in " ".join(out.split())
