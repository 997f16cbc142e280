"""`glassformer scaling` as a person uses it."""

import json
from pathlib import Path

import pytest

from helpers.running import Command

SMALL = ("--parts", "time", "--models", "rnn,cnn", "--lengths", "4,8", "--width", "8", "--layers", "1")


def test_a_page_and_what_it_says(command: Command, tmp_path: Path) -> None:
    code, out, err = command("scaling", *SMALL)
    assert code == 0
    assert "When the text doubles" in out
    assert "rnn, T = 8" in err
    assert "one seed (0)" in err
    assert "growth.html" in err
    assert "Growth with length" in (tmp_path / "growth.html").read_text()


def test_numbers(command: Command, tmp_path: Path) -> None:
    code, out, _ = command("scaling", *SMALL, "--json", "--seed", 4)
    assert code == 0
    numbers = json.loads(out)
    assert numbers["settings"] | {"device": None} == {
        "models": ["rnn", "cnn"],
        "lengths": [4, 8],
        "parts": ["time"],
        "width": 8,
        "layers": 1,
        "minutes": 3.0,
        "seed": 4,
        "device": None,
    }
    assert set(numbers["time"]["step"]) == {"rnn", "cnn"}
    assert not list(tmp_path.glob("growth*"))
    code, out, _ = command("scaling", *SMALL, "--out", "here.json")
    assert code == 0
    assert json.loads((tmp_path / "here.json").read_text())["time"]["step"]["cnn"]["x"] == [4, 8]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--models", "lsmt"], "--models: unknown model 'lsmt'; did you mean lstm?"),
        (["--models", "bag"], "--models: unknown model 'bag'"),
        (["--lengths", "64,many"], "--lengths wants whole numbers with commas between them, and 'many' is none"),
        (["--lengths", "128,64"], "--lengths must grow, and 64 follows 128"),
        (["--parts", "speed"], "--parts: unknown part 'speed'"),
        (["--width", "30"], "--width is 30"),
        (["--width", "wide"], "--width: invalid int value: 'wide'"),
        (["--minutes", "-1"], "--minutes is -1"),
        (["--device", "abacus"], "'abacus' is no device"),
        (["--out", "growth.gif"], "--out growth.gif: its name should end in .html, .png, .svg, .pdf or .json"),
        (["--out", "nowhere/growth.png"], "--out nowhere/growth.png: there is no folder nowhere"),
        (["--length", "64"], "unknown option --length; did you mean --lengths?"),
        (["docstrings"], "'docstrings' is one argument too many"),
    ],
)
def test_bad_input_is_one_line(command: Command, words: list[str], told: str) -> None:
    code, out, err = command("scaling", *words)
    assert (code, out) == (2, "")
    assert told in err
    assert err.count("\n") == 1
