import json
import math

import pytest

from glassformer.data.check.tables import Amounts, Class, DataCheck, Spread, check_table
from glassformer.data.columns.inference import Columns
from glassformer.data.io.table import Table

CLASSES = Columns("text", "label", "class", "")
AMOUNTS = Columns("text", "label", "number", "")


def table(texts: list[str], labels: list[str]) -> Table:
    return Table("a.csv", {"text": texts, "label": labels}, [2 * number + 2 for number in range(len(texts))])


def numbered(count: int) -> list[str]:
    return [f"text {number}" for number in range(count)]


def findings(texts: list[str], labels: list[str], columns: Columns = CLASSES) -> list[str]:
    return check_table(table(texts, labels), columns).findings


def test_nothing_to_find() -> None:
    found = check_table(table(numbered(6), ["x", "y", "x"] * 2), CLASSES)
    counts = {
        "rows": 6,
        "empty_texts": 0,
        "missing_labels": 0,
        "repeated_texts": 0,
        "near_duplicates": 0,
        "contradicting_texts": 0,
        "cut": 0,
    }
    classes = [Class("x", 4, 4 / 6), Class("y", 2, 2 / 6)]
    assert found == DataCheck(counts, {"words": Spread(2, 2, 2, 2, 2), "tokens": None}, [], classes)


def test_repeated_and_contradicting_texts() -> None:
    texts = ["a b", "c", " a b", "", "c", "a b ", "d" * 100, "d" * 100]
    labels = ["x", "y", "y", "x", "y", " x", "y", "x"]
    found = check_table(table(texts, labels), CLASSES)
    assert found.counts["empty_texts"] == 1
    assert found.counts["repeated_texts"] == 4
    assert found.counts["contradicting_texts"] == 2
    assert found.findings == [
        "2 texts occur with different labels: lines 2 and 6; lines 14 and 16",
        "skipped: 1 row without a text, line 8",
        "1 of 8 rows cannot be used, more than a tenth: `train` needs --bad-rows skip",
        "4 rows repeat an earlier text: lines 6, 10, 12, 16",
    ]


def test_a_few_examples_stand_for_many() -> None:
    found = check_table(table(numbered(7) * 2, ["x"] * 7 + ["y"] * 7), CLASSES)
    assert found.counts["contradicting_texts"] == 7
    assert found.findings[0].startswith("7 texts occur with different labels: lines 2 and 16; lines 4 and 18; ")
    assert found.findings[0].endswith("lines 10 and 24, …")
    assert found.findings[1] == "7 rows repeat an earlier text: lines 16, 18, 20, 22, 24, …"
    assert findings(["a", "a"], ["x", "y"])[0].startswith("1 text occurs with different labels: lines 2 and 4")
    assert "1 row repeats an earlier text: line 4" in findings(["a", "a"], ["x", "y"])


def test_classes() -> None:
    found = check_table(table(numbered(24), ["x"] * 20 + ["y", "y"] + ["z", "w"]), CLASSES)
    assert [item.name for item in found.classes] == ["x", "y", "w", "z"]
    assert found.classes[0].share == pytest.approx(20 / 24)
    assert found.findings == [
        "classes are uneven: 'x' has 20 rows, 20 times as many as 'z' (1)",
        "classes with a single example, which stays in training: w, z",
    ]
    assert findings(numbered(11), ["x"] * 9 + ["y"] * 2) == []
    assert findings(numbered(5), ["x"] * 5) == ["all rows have the label 'x': there is nothing to tell apart (--label)"]
    assert findings(numbered(6), ["Spam", "ham", "spam"] * 2) == [
        "labels that differ only in their letters' case count as different: Spam, spam"
    ]


def test_lengths() -> None:
    texts = [" ".join("w" * size) for size in range(100, 0, -1)]
    data = table(texts, ["x", "y"] * 50)
    found = check_table(data, CLASSES, lambda texts: [2 * len(text.split()) for text in texts], context=150)
    assert found.lengths["words"] == Spread(1, 50, 90, 99, 100)
    assert found.lengths["tokens"] == Spread(2, 100, 180, 198, 200)
    assert found.counts["cut"] == 25
    assert found.findings == ["25 texts are longer than 150 tokens and would be cut there: raise --model.context"]
    short = check_table(data, CLASSES, lambda texts: [7] * len(texts), context=7)
    assert short.counts["cut"] == 0
    assert short.findings == []


def test_numbers() -> None:
    found = check_table(table(["a", "b", "", "a"], ["1", "2.5", "100", "4"]), AMOUNTS)
    assert found.amounts == Amounts(1, 2.5, 4)
    assert found.classes == []
    assert found.findings[0] == "1 text occurs with different labels: lines 2 and 8"
    assert findings(["a", "b"], ["3", "3.0"], AMOUNTS) == [
        "every row has the number 3: there is nothing to learn (--label)"
    ]


def test_what_stands_for_no_number_is_a_missing_label() -> None:
    found = check_table(table(["a", "b", "c", "d", "e"], ["1", "n/a", "-", "", "4"]), AMOUNTS)
    assert found.counts["missing_labels"] == 3
    assert "skipped: 3 rows without a label, lines 4, 6, 8" in found.findings


def test_a_language_models_table() -> None:
    found = check_table(table(["a", "a", " "], ["x", "y", "z"]), Columns("text", None, None, ""))
    assert found.findings == [
        "skipped: 1 row without a text, line 6",
        "1 row repeats an earlier text: line 4",
    ]
    assert found.classes == []


def test_no_text_at_all() -> None:
    found = check_table(table(["", " "], ["x", "y"]), CLASSES, lambda texts: [0 * len(text) for text in texts], 5)
    assert found.lengths == {"words": None, "tokens": None}
    assert found.findings == ["skipped: 2 rows without a text, lines 2, 4"]


def test_as_plain_values() -> None:
    plain = check_table(table(["a", "a"], ["x", "y"]), CLASSES).to_dict()
    assert json.loads(json.dumps(plain)) == plain
    assert plain["classes"][0] == {"name": "x", "count": 1, "share": 0.5}
    assert plain["contradicting_texts"] == 1


@pytest.mark.parametrize("written", ["N/A", "none", "?", "nil", "Unknown", "missing"])
def test_labels_that_may_stand_for_none(written: str) -> None:
    assert findings(numbered(6), ["x", "y", written] * 2) == [
        f"labels that may stand for a missing one, and count as classes: {written}"
    ]
    assert findings(numbered(6), ["x", "y", f"{written} of them"] * 2) == []


def test_dates_of_another_order_are_no_values_without_a_date() -> None:
    days = [*(f"{number + 1:02}/05/2024" for number in range(28)), "05/31/2024", "soon"]
    cells = {"text": numbered(30), "label": ["x", "y"] * 15, "day": days}
    columns = Columns("text", "label", "class", "", "mixed", ("day",), dates={"day": "dmy"})
    found = check_table(Table("a.csv", cells, list(range(2, 32))), columns).findings
    assert "column 'day': 1 value is not a date in a column of dates; training would refuse it: line 31" in found
    assert "column 'day': 1 date is not written day first like the others; training would refuse it: line 30" in found


def test_numbers_that_training_refuses() -> None:
    numbers = [*map(str, range(6)), "1e308", "-1e308", "", "x"]
    data = Table("a.csv", {"age": numbers, "price": [*numbers[2:], "3e307", "3"]}, list(range(2, 12)))
    found = check_table(data, Columns(None, "price", "number", "", also=("age",)))
    assert [line for line in found.findings if "training would refuse" in line] == [
        "label column 'price': 1 value is no number among numbers, and training would refuse it: line 9",
        "label column 'price': 3 values are too large for float32, and training would refuse it: lines 6, 7, 10",
        "column 'age': 1 value is no number among numbers, and training would refuse it: line 11",
        "column 'age': 2 values are too large for float32, and training would refuse it: lines 8, 9",
    ]


def test_the_mean_of_large_labels_is_finite() -> None:
    found = check_table(table(numbered(3), ["1e308", "1e308", "1e308"]), AMOUNTS)
    assert found.amounts is not None
    assert math.isclose(found.amounts.mean, 1e308)
