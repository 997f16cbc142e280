"""A comparison as files, and numbers that have no more digits than are known."""

import csv
import io
import json
from dataclasses import replace
from pathlib import Path

import pytest

from glassformer.config.units import duration
from glassformer.trials.jobs import FLOOR
from glassformer.trials.results.comparison import Comparison, summarise
from glassformer.trials.results.metrics import (
    amount,
    decimals_of,
    from_to,
    rounded,
    with_ends,
)
from helpers.simulated import failed, outcomes_of


@pytest.fixture(scope="module")
def comparison() -> Comparison:
    outcomes = [
        *[
            replace(one, metrics={**one.metrics, "majority": 0.5, "texts": 1000})
            for one in outcomes_of("transformer", 0.868, seconds=180.0, per_example=0.004, memory=300 * 2**20)
        ],
        *outcomes_of("lstm", 0.861, seconds=20.0),
        *outcomes_of("majority class", 0.5, kind=FLOOR, seeds=1, seconds=0.0, steps=0, parameters=0),
        *failed("cnn", "kernel 3 | a bad one"),
    ]
    return summarise(outcomes, title="opinions", budget="100 updates each", notes=["A note."])


def test_json_holds_everything(comparison: Comparison) -> None:
    found = json.loads(json.dumps(comparison.to_dict(), allow_nan=False))
    assert (found["metric"], found["part"], found["best"]) == ("accuracy", "test", "transformer")
    first, second, *_, last = found["rows"]
    assert first["values"] == pytest.approx([0.866, 0.868, 0.870])
    assert first["seeds"] == [0, 1, 2]
    assert first["behind"] is None
    assert set(second["behind"]) == {"value", "low", "high", "p", "seeds"}
    assert (last["score"], last["errors"][0]) == (None, "kernel 3 | a bad one")
    assert found["notes"][-1] == "A note."


@pytest.mark.parametrize("mode", ["ladder", "ablation"])
def test_one_example_tells_nothing(mode: str, tmp_path: Path) -> None:
    whole = outcomes_of("transformer", 1.0, count=1, spread=0.0)
    part = outcomes_of("transformer", 0.0, count=1, spread=0.0, varied={"model.norm": "none"})
    found = summarise([*whole, *part], title="one", budget="", mode=mode)
    told = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert [told["rows"][1]["behind"][end] for end in ("value", "low", "high")] == [1.0, -1.0, 1.0]
    found.save(tmp_path)
    assert "1.0 (−1.0 to 1.0)" in (tmp_path / "comparison.md").read_text()
    assert "Infinity" not in (tmp_path / "comparison.json").read_text()
    found.view().save(tmp_path / "comparison.png")


def test_csv_has_a_line_for_each_row(comparison: Comparison) -> None:
    rows = list(csv.DictReader(io.StringIO(comparison.csv())))
    assert [row["name"] for row in rows] == ["transformer", "lstm", "majority class", "cnn"]
    assert float(rows[0]["score"]) == pytest.approx(0.868)
    assert float(rows[1]["behind_value"]) == pytest.approx(0.007)
    assert float(rows[0]["metrics_loss"]) == pytest.approx(0.132)
    assert rows[0]["seeds"] == "0; 1; 2"
    assert (rows[0]["seconds"], rows[0]["memory"], rows[3]["score"]) == ("180.0", str(300 * 2**20), "")


def test_markdown(comparison: Comparison) -> None:
    text = comparison.markdown()
    header, rule, first, *_ = [line for line in text.splitlines() if line.startswith("|")]
    assert header.startswith("| model | accuracy | behind the best | remarks | parameters | training |")
    assert rule.startswith("| --- | ---: |")
    assert first.startswith("| transformer | 0.868 ± 0.005 |  | best")
    assert "| majority class | 0.500 |" in text
    assert "3.0 min" in first
    assert "- Best of the trained models: transformer" in text
    assert r"- cnn failed: kernel 3 \| a bad one." in text


def test_text(comparison: Comparison) -> None:
    """In a terminal: the table, and what it says."""
    title, _, header, first, *_ = str(comparison).splitlines()
    assert title == "Opinions"
    assert header.split()[:5] == ["model", "accuracy", "behind", "the", "best"]
    assert first.startswith("transformer     0.868 ± 0.005 ")
    assert "Best of the trained models: transformer" in repr(comparison)
    assert "Outcome(" not in repr(comparison)


@pytest.mark.slow
def test_files_and_the_page(comparison: Comparison, tmp_path: Path) -> None:
    tmp_path /= "new"
    comparison.save(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "comparison.csv", "comparison.html", "comparison.json", "comparison.md",
    ]  # fmt: skip
    page = (tmp_path / "comparison.html").read_text()
    assert "Best of the trained models" in page
    assert "iframe" in comparison._repr_html_()
    titles = [panel.title for panel in comparison.view().panels]
    assert titles == ["What it says", "Side by side", "Score against cost", "How each learned"]
    comparison.view().save(tmp_path / "comparison.png")
    assert (tmp_path / "comparison.png").stat().st_size > 10_000


def test_nothing_at_all_can_be_saved(tmp_path: Path) -> None:
    summarise(failed("lstm", "no memory"), title="x", budget="").save(tmp_path)
    assert "lstm failed: no memory." in (tmp_path / "comparison.md").read_text()


@pytest.mark.parametrize(("value", "half", "expected"), [
    (0.86812, 0.0101, "0.868 ± 0.010"),
    (0.86812, 0.0098, "0.868 ± 0.010"),
    (0.86812, 0.0299, "0.87 ± 0.03"),
    (0.86812, 0.05, "0.87 ± 0.05"),
    (0.86812, 0.00031, "0.8681 ± 0.0003"),
    (3.14159, 0.26, "3.14 ± 0.26"),
    (1234.5, 56.0, "1,230 ± 60"),
    (-0.5, 0.1, "−0.50 ± 0.10"),
    (0.651, 0.6, "0.65 ± 0.60"),
    (12.3, 40.0, "12 ± 40"),
    (0.5, 0.0, "0.500"),
    (0.5, float("inf"), "0.500"),
])  # fmt: skip
def test_as_many_digits_as_are_known(value: float, half: float, expected: str) -> None:
    assert with_ends(value, value - half, value + half) == expected


def test_the_ends_of_an_interval_show_their_side_of_0() -> None:
    assert from_to(0.021, 0.010, 0.032) == "0.021 (0.010 to 0.032)"
    assert from_to(0.010, 0.0003, 0.0197) == "0.0100 (0.0003 to 0.0197)"
    assert from_to(0.0054, -0.0002, 0.011) == "0.0054 (−0.0002 to 0.0110)"
    assert from_to(1.0, -float("inf"), float("inf")) == "1.00 (−∞ to ∞)"


def test_ends_where_both_sides_differ() -> None:
    assert with_ends(0.868, 0.858, 0.878) == "0.868 ± 0.010"
    assert with_ends(0.65, 0.05, 1.0) == "0.65 (0.05 to 1.00)"
    assert with_ends(0.65, 0.65, 0.65, 2) == "0.65"


def test_amounts() -> None:
    assert decimals_of(0.0) is None
    assert rounded(-0.0001, 2) == "0.00"
    assert [duration(one) for one in (0.0, 3e-5, 0.0042, 1.44, 90.0, 180.0, 9000.0, None)] == [
        "0 s", "30 µs", "4.2 ms", "1.4 s", "90 s", "3.0 min", "2.5 h", "",
    ]  # fmt: skip
    assert [amount(one) for one in (0, 950, 12_345, 3_400_000, 2e9)] == ["0", "950", "12k", "3.4M", "2.0B"]
