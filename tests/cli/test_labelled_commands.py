"""Tables in: `train`, `evaluate` and `data` as a person uses them."""

import json
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from helpers.running import Command
from helpers.tables import amounts, opinions, write_table

GOOD, BAD = "the soup was good and lovely", "the film was awful and dull"


EVERY = ["--tokenizer.min_count", "1"]
"""Words that stand in a single text count too."""


def is_png(path: Path) -> bool:
    return path.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n" and path.stat().st_size > 2000


# --- train and evaluate ---


@pytest.mark.slow
def test_from_a_table_to_a_label(command: Command, files: Path) -> None:
    words = [
        "--model",
        "average",
        "--size",
        "nano",
        "--steps",
        "40",
        "--lr",
        "0.02",
        "--data.test_fraction",
        "0.2",
        *EVERY,
    ]
    words += ["--dropout", "0", "--model.word_dropout", "0"]
    code, out, err = command("train", "three.csv", *words, "--out", "run", "--json")
    assert code == 0, err
    assert "columns: text column 'text', label column 'label' with 3 classes" in err
    assert "next: glassformer predict run 'A text'" in err
    trained = json.loads(out)
    assert (trained["task"], trained["model"], trained["steps"]) == ("classification", "average", 40)
    assert trained["validation"].keys() == {"accuracy", "macro_f1", "loss", "majority", "texts"}
    assert is_png(files / "run" / "confusion.png")
    assert is_png(files / "run" / "curves.png")
    card = (files / "run" / "README.md").read_text()
    assert "A classifier of texts (average" in card
    assert "| classes | bad, good, so-so |" in card
    assert "glassformer predict run 'A text'" in card

    code, out, err = command("evaluate", "run", "--json", "--out", "picture.png")
    evaluated = json.loads(out)
    names = {"accuracy", "macro_f1", "loss", "majority", "texts", "per_class", "confusion", "inputs"}
    names |= {"known_labels", "unknown_labels", "skipped"}
    assert evaluated.keys() == names
    assert {key: evaluated[key] for key in trained["test"]} == pytest.approx(trained["test"])
    assert list(evaluated["per_class"]) == evaluated["confusion"]["labels"] == ["bad", "good", "so-so"]
    assert evaluated["per_class"]["bad"].keys() == {"precision", "recall", "f1", "texts"}
    assert np.sum(evaluated["confusion"]["matrix"]) == evaluated["texts"] == 8
    assert is_png(files / "picture.png")
    code, out, _ = command("evaluate", "run", "--part", "validation", "--json")
    assert {key: json.loads(out)[key] for key in trained["validation"]} == pytest.approx(trained["validation"])
    code, out, err = command("evaluate", "run", "two.csv")
    assert code == 0
    assert "over 40 texts" in out
    assert "true ↓  predicted →" in out
    assert "next: glassformer predict run" in err
    code, out, _ = command("predict", "run", GOOD, BAD)
    assert [line.split("\t")[0] for line in out.splitlines()] == ["good", "bad"]


def test_from_a_table_to_a_number(command: Command, files: Path) -> None:
    code, out, err = command("train", "rated.csv", "--model", "bag", "--steps", "3", "--out", "run", "--json")
    assert code == 0, err
    trained = json.loads(out)
    assert (trained["task"], trained["model"]) == ("regression", "bag")
    assert is_png(files / "run" / "curves.png")
    assert not (files / "run" / "confusion.png").exists()
    assert "A regressor on texts (bag" in (files / "run" / "README.md").read_text()
    code, out, _ = command("evaluate", "run", "--json")
    found = json.loads(out)
    counts = {"unknown_text", "unknown_tokens", "outside_range", "unseen_categories"}
    assert found.pop("inputs").keys() == counts
    assert found.pop("skipped") == {}
    assert found.keys() == {"rmse", "mae", "r2", "loss", "texts"}
    assert found == pytest.approx(trained["validation"])
    code, out, _ = command("evaluate", "run", "rated.csv")
    assert out.startswith("RMSE ")
    assert "over 40 texts" in out


def test_columns_of_other_names(command: Command, files: Path, runs: Path) -> None:
    write_table(files / "other.csv", [(label, text) for text, label in opinions(30)], ("kind", "words"))
    code, _, err = command("evaluate", runs / "two", "other.csv")
    assert code == 2
    assert "--text" in err
    code, named, _ = command("evaluate", runs / "two", "other.csv", "--text", "words", "--label", "kind", "--json")
    assert code == 0
    write_table(files / "same.csv", opinions(30))
    assert command("evaluate", runs / "two", "same.csv", "--json")[1] == named
    (files / "latin-1.csv").write_bytes(("text,label\n" + "café,good\n" * 3).encode("latin-1"))
    code, out, _ = command("evaluate", runs / "two", "latin-1.csv", "--data.encoding", "latin-1", "--json")
    assert json.loads(out)["texts"] == 3


# --- data ---


def test_data_check(command: Command, files: Path) -> None:
    rows = [*opinions(30), (GOOD, "good"), (GOOD, "bad"), ("", "bad"), ("one of its kind", "odd")]
    write_table(files / "in.csv", rows)
    code, out, _ = command("data", "check", "in.csv", "--json", "--model.context", "6")
    checked = json.loads(out)
    assert code == 0
    assert (checked["rows"], checked["empty_texts"], checked["repeated_texts"]) == (34, 1, 1)
    assert checked["contradicting_texts"] == 1
    assert {one["name"]: one["count"] for one in checked["classes"]} == {
        **Counter(label for text, label in rows if text),
    }
    # with START and END, a transformer of 6 tokens reads 4 words
    assert checked["cut"] == sum(len(text.split()) > 4 for text, _ in rows)
    assert checked["lengths"]["tokens"]["max"] == 2 + max(len(text.split()) for text, _ in rows)
    code, out, _ = command("data", "check", "in.csv", "--json", "--model", "bag", "--model.context", "6")
    assert json.loads(out)["cut"] == sum(len(text.split()) > 6 for text, _ in rows)
    code, out, _ = command("data", "check", "in.csv")
    counts = dict(re.findall(r"^(rows|empty texts|repeated texts) +(\d+)$", out, re.MULTILINE))
    assert counts == {"rows": "34", "empty texts": "1", "repeated texts": "1"}
    assert "! 1 text occurs with different labels: lines 32 and 33" in out
    write_table(files / "fine.csv", [(f"text {row}", label) for row, (_, label) in enumerate(opinions(30))])
    assert "nothing odd found" in command("data", "check", "fine.csv")[1]
    code, out, _ = command("data", "check", "rated.csv", "--json")
    numbers = [float(number) for _, number in amounts(40)]
    assert json.loads(out)["amounts"] == pytest.approx(
        {"min": min(numbers), "mean": np.mean(numbers), "max": max(numbers)}
    )
    assert "numbers: min" in command("data", "check", "rated.csv")[1]


def test_data_describe(command: Command, files: Path) -> None:
    code, out, _ = command("data", "describe", "three.csv", "--json", "--data.test_fraction", "0.2")
    described = json.loads(out)
    assert code == 0
    assert described.keys() == {"report", "fingerprint", "parts"}
    assert list(described["parts"]) == ["train", "validation", "test"]
    assert sum(part["examples"] for part in described["parts"].values()) == 40
    assert "3 classes" in described["report"]
    assert "documents" in command("data", "describe", "three.csv", "--task", "language-model")[1]


def test_data_show(command: Command, files: Path) -> None:
    code, out, _ = command(
        "data", "show", "three.csv", "--json", "--batch", "1", "--rows", "2", *EVERY, "--batch-size", "5"
    )
    shown = json.loads(out)
    assert code == 0
    assert (shown["step"], len(shown["rows"]), len(shown["ids"]), len(shown["answers"])) == (1, 2, 2, 2)
    label_of = dict(opinions(40, 3))
    for row, answer in zip(shown["rows"], shown["answers"], strict=True):
        assert (row[0], answer) == ("<start>", label_of[" ".join(token for token in row if token[0] != "<")])
    code, out, _ = command("data", "show", "rated.csv", "--model", "bag", *EVERY, "--batch-size", "4", "--rows", "2")
    assert "batch 0: 4 rows of" in out
    assert "… and 2 more rows" in out
    number_of = {text: float(number) for text, number in amounts(40)}
    for line in out.splitlines()[1:3]:
        number, text = line.split(" ←  ")
        words = [word for word in text.split("|") if word != "<pad>"]
        assert float(number.split()[1]) == pytest.approx(number_of[" ".join(words)], rel=1e-4)


def test_what_a_lower_precision_costs_in_each_metric(command: Command, runs: Path) -> None:
    code, out, _ = command("evaluate", runs / "two", "--precision", "int8", "--device", "cpu")
    (line,) = [line for line in out.splitlines() if line.startswith("difference: ")]
    assert code == 0
    metrics = [part.rsplit(" ", 1)[0] for part in line.removeprefix("difference: ").split(", ")]
    assert metrics == ["accuracy", "macro F1", "loss"]
