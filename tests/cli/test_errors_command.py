"""`evaluate --errors` and `--second-run`, as a person types them."""

import json
import re
from pathlib import Path

import pytest

from helpers.running import Command, one_line
from helpers.tables import amounts, opinions, write_table


@pytest.mark.parametrize(
    ("run", "shown"),
    [
        (
            "two",
            (
                "The most frequent confusions",
                "Words over-represented among errors",
                "When a person should look instead",
            ),
        ),
        ("three", ("Most confidently wrong", "As sure as it is right?")),
        ("rated", ("How far off", "Farthest off")),
        ("writer", ("Tokens that hold the loss", "Loss by kind of token", "Surprising passage 1")),
    ],
)
def test_metrics_first_then_where_it_is_wrong(command: Command, runs: Path, run: str, shown: tuple[str, ...]) -> None:
    code, plain, _ = command("evaluate", runs / run)
    assert code == 0
    code, out, err = command("evaluate", runs / run, "--errors")
    assert code == 0
    assert out.startswith(plain.rstrip("\n"))
    rest = out.removeprefix(plain.rstrip("\n"))
    assert f"Errors of {run}" in rest
    for title in shown:
        assert re.search(rf"\n{re.escape(title)}(: .+)?\n", rest)  # what it shows may stand behind it
    assert "next: the same with --out errors.html" in err


def test_json_holds_the_metrics_and_the_errors(command: Command, runs: Path) -> None:
    _, plain, _ = command("evaluate", runs / "three", "--json")
    code, out, _ = command("evaluate", runs / "three", "--errors", "--json", "--accuracy", "0.8")
    assert code == 0
    (line,) = out.splitlines()
    value = json.loads(line)
    found = value.pop("errors")
    assert value == json.loads(plain)
    assert found["title"] == "Errors of three"
    assert found["note"]
    curve = next(one for one in found["panels"] if one["title"] == "Answering only when sure")
    assert curve["series"][0]["y"] == [0.8, 0.8]


@pytest.mark.parametrize("name", ["errors.html", "errors.json", "errors.svg"])
def test_errors_in_a_file(command: Command, runs: Path, tmp_path: Path, name: str) -> None:
    code, _, err = command("evaluate", runs / "two", "--errors", "--out", name)
    assert code == 0
    assert f"written: {name}" in err
    assert "next:" not in err
    assert "As sure as it is right?" in (tmp_path / name).read_text() or name.endswith("svg")


def test_translations(command: Command, translators: Path) -> None:
    code, out, _ = command("evaluate", translators / "gru", "--errors", "--beam", "1")
    assert code == 0
    assert "Odd outputs" in out
    assert "chrF by length of the source" in out
    code, out, _ = command("evaluate", translators / "gru", "--second-run", translators / "bottleneck", "--beam", "1")
    assert code == 0
    assert "gru and bottleneck, side by side" in out


def test_versus_stands_alone(command: Command, runs: Path, tmp_path: Path) -> None:
    table = write_table(tmp_path / "new.csv", opinions(24, seed=9))
    code, out, err = command("evaluate", runs / "two", table, "--second-run", runs / "two", "--out", "both.html")
    assert code == 0
    assert "0 only the first gets, 0 only the second" in out
    assert "warning" not in err
    assert (tmp_path / "both.html").exists()
    code, _, err = command("evaluate", runs / "two", runs / "two.csv", "--second-run", runs / "two")
    assert code == 0
    assert "learned from" in err
    assert "it has an advantage" in err


def test_bad_input_is_one_line(command: Command, runs: Path, tmp_path: Path) -> None:
    few = write_table(tmp_path / "few.csv", amounts(3), ("text", "rating"))
    for words, said in (
        (("two", "--second-run", runs / "rated"), "learned regression, and"),
        (("two", "--second-run", "nothing"), "no run at nothing"),
        (("two", "--errors", "--accuracy", "1.5"), "--accuracy 1.5 is the share of answers"),
        (("two", "--errors", "--accuracy", "0"), "between 0 and 1"),
        (("two", "--accuracy", "0.9"), "--accuracy goes with --errors"),
        (("rated", few, "--errors", "--accuracy", "0.9"), "--accuracy is for --errors of one classifier"),
        (("two", "--errors", "--out", "errors.txt"), "should end in"),
        (("two", "--out", "errors.html"), "which --errors finds: add --errors"),
        (("three", "--second-run", runs / "two"), "it does not know the class 'so-so'"),
    ):
        code, out, err = command("evaluate", runs / words[0], *words[1:])
        assert (code in (1, 2), out) == (True, "")
        assert said in one_line(err)
