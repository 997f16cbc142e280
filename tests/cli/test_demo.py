"""`glassformer demo`: what it says beforehand, what it refuses, and the story that it tells."""

import csv
import re
from pathlib import Path

import pytest

from glassformer.cli import demo
from glassformer.cli.demo import DATES, WRITER, dates_judged, whole_paragraphs
from glassformer.data.datasets.opinions import ORDER_PAIRS
from glassformer.rendering.panels import Words
from glassformer.rendering.view import View
from glassformer.runs.run import Run
from helpers.running import Command, one_line


def test_it_says_beforehand_how_long_each_part_takes(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said: list[str] = []

    def show(out: Path) -> View:
        said.append(capsys.readouterr().err)
        return View("A view", [Words(text=out.name)])

    monkeypatch.setattr(demo, "PARTS", [("which model?", 20, show), ("a translator", 70, show)])
    assert command("demo", "--out", str(tmp_path))[0] == 0
    assert said[0].split("\n")[1:] == ["", "1 of 2 · which model? · about 20 s", ""]
    assert said[0].startswith("2 parts, about 90 s")
    assert said[1].strip() == "2 of 2 · a translator · about 70 s"


def test_out_that_is_a_file_is_refused(command: Command, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    code, _, err = command("demo", "--out", str(tmp_path / "taken"))
    assert code == 2
    assert "--out" in one_line(err)
    assert "is a file" in one_line(err)


def test_dates_are_judged() -> None:
    right = [*DATES["answers"].values()]
    assert [row[2] for row in dates_judged(right)] == ["✓"] * len(right)
    assert dates_judged(["120-0-0", *right[1:]])[0] == ["le 14 juillet 1989", "120-0-0", "✗ 1989-07-14"]


def test_a_sample_ends_with_a_whole_paragraph() -> None:
    assert whole_paragraphs("Return the file.\n\nReturn a") == "Return the file."
    assert whole_paragraphs("Return the file as") == "Return the file as"


@pytest.mark.slow
def test_the_demo_tells_its_story(command: Command, tmp_path: Path) -> None:
    code, out, err = command("demo", "--out", "demo")
    assert code == 0, err
    folder = tmp_path / "demo"
    assert "4 of 4 · " in err

    with (folder / "compare" / "comparison.csv").open() as table:
        accuracy = {row["name"]: float(row["score"]) for row in csv.DictReader(table)}
    assert accuracy["bag"] < 0.75 < 0.95 < min(accuracy["lstm"], accuracy["transformer"])
    marks = re.findall("[✓✗]", out[out.index("The same words") :])[: 3 * 2 * len(ORDER_PAIRS)]
    assert marks.count("✗") == len(ORDER_PAIRS)  # the bag's, who says the same of both of a pair

    assert Run(folder / "dates").card()["test"]["exact_match"] > 0.9
    assert all(f"It goes on from “{prompt}”" in out for prompt in WRITER["prompts"])
    assert (folder / "alignment.png").read_bytes()[:4] == b"\x89PNG"
    assert "Side by side" in (folder / "report.html").read_text()
