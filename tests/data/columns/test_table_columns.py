"""Tables without text, and columns read beside one."""

import pytest

from glassformer.config.errors import DataError
from glassformer.config.presets import ANY_LABEL
from glassformer.config.sections import DataSettings
from glassformer.data.columns.inference import Columns, choose_columns
from glassformer.data.io.table import Table

PROSE = [f"the film number {number} was seen by many" for number in range(60)]
LABELS = ["good", "bad", "so-so"] * 20
AMOUNTS = [str(number / 7) for number in range(60)]
WHOLE = [str(number * 37 % 61) for number in range(60)]
NAMES = [f"Jo {chr(97 + number % 26)}{chr(97 + number // 26)}" for number in range(60)]


def chosen(settings: DataSettings | None = None, label_kind: str | None = ANY_LABEL, **columns: list[str]) -> Columns:
    lines = [number + 2 for number in range(60)]
    return choose_columns(Table("a.csv", columns, lines), settings or DataSettings(), label_kind)


def refused(settings: DataSettings | None = None, **columns: list[str]) -> str:
    with pytest.raises(DataError) as caught:
        chosen(settings, **columns)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_table_without_text() -> None:
    found = chosen(a=AMOUNTS, b=WHOLE, kind=LABELS)
    assert (found.kind, found.text, found.also, found.label) == ("table", None, ("a", "b"), "kind")
    assert found.label_kind == "class"
    assert found.why == (
        "a table without text, 2 columns read (--extra-columns), label column 'kind', the last one, with 3 classes "
        "(--label); "
        "task: classification (--task)"
    )


@pytest.mark.parametrize(
    ("columns", "label", "label_kind"),
    [
        ({"a": AMOUNTS, "species": LABELS, "b": WHOLE}, "species", "class"),
        ({"price": AMOUNTS, "b": WHOLE}, "price", "number"),
        ({"Y": WHOLE, "b": AMOUNTS}, "Y", "number"),
        ({"target": LABELS, "price": AMOUNTS, "label": WHOLE}, "label", "number"),
        ({"a": LABELS, "b": AMOUNTS}, "b", "number"),
        ({"a": LABELS, "b": AMOUNTS, "row_id": WHOLE}, "b", "number"),
        ({"a": LABELS, "b": AMOUNTS, "day": ["2024-05-31", "2024-06-01"] * 30}, "b", "number"),
    ],
)
def test_which_column_is_learned(columns: dict[str, list[str]], label: str, label_kind: str) -> None:
    found = chosen(**columns)
    assert (found.label, found.label_kind, found.kind) == (label, label_kind, "table")
    assert ("the last one" in found.why) == (label == "b")


def test_what_is_read_and_what_not() -> None:
    counted = [str(number) for number in range(60)]
    days = ["2024-05-31", "2024-06-01"] * 30
    found = chosen(n=counted, user_id=LABELS, day=days, a=AMOUNTS, whole=WHOLE, b=LABELS, price=AMOUNTS)
    assert found.also == ("day", "a", "whole", "b")
    assert found.dates == {"day": "ymd"}
    assert found.why.endswith(
        "; not read: n (numbers the rows), user_id (an id with 3 values; --extra-columns reads it)"
    )
    named = chosen(DataSettings(extra_columns="b, a"), n=counted, a=AMOUNTS, b=LABELS, price=AMOUNTS)
    assert (named.also, named.kind, named.label) == (("b", "a"), "table", "price")
    by = chosen(DataSettings(split_by="b"), a=AMOUNTS, b=LABELS, price=AMOUNTS)
    assert by.also == ("a",)
    asked = chosen(DataSettings(label="a"), a=AMOUNTS, b=LABELS, price=AMOUNTS)
    assert (asked.label, asked.also) == ("a", ("b", "price"))


def test_numbers_with_gaps_and_slips_are_no_text() -> None:
    found = chosen(a=[*AMOUNTS[:50], *["NA"] * 8, "12 kg", ""], kind=LABELS)
    assert (found.kind, found.also) == ("table", ("a",))


def test_a_text_makes_it_no_table() -> None:
    found = chosen(text=PROSE, hour=WHOLE, fame=AMOUNTS, user_id=WHOLE, always=["x"] * 60, label=LABELS)
    assert (found.kind, found.also) == ("text", ())
    assert found.why.endswith(
        "; not read: hour, fame (only if named in --extra-columns), user_id (an id with 60 values; "
        "--extra-columns reads it), always (the same in every row)"
    )
    table = chosen(DataSettings(kind="table"), name=NAMES, hour=WHOLE, label=LABELS)
    assert (table.kind, table.text, table.also) == ("table", None, ("hour",))
    assert table.why.endswith("; not read: name (60 different values, a text or a name; --text reads it)")


def test_columns_beside_a_text() -> None:
    found = chosen(
        DataSettings(extra_columns="hour,kind"), text=PROSE, hour=WHOLE, kind=LABELS, fame=AMOUNTS, label=LABELS
    )
    assert (found.kind, found.text, found.also, found.label) == ("mixed", "text", ("hour", "kind"), "label")
    assert found.why == (
        "text column 'text', beside it hour, kind (--extra-columns), label column 'label' with 3 classes (--text, "
        "--label); "
        "task: classification (--task); not read: fame (only if named in --extra-columns)"
    )
    left = chosen(DataSettings(extra_columns="hour"), text=PROSE, hour=LABELS, kind=LABELS)
    assert left.label == "kind"  # what is read is not what is learned


def test_images_in_a_column() -> None:
    files = [f"{number}.png" for number in range(60)]
    with_text = chosen(DataSettings(image="file"), text=PROSE, file=files, label=LABELS)
    assert (with_text.kind, with_text.text, with_text.image) == ("mixed", "text", "file")
    without = chosen(DataSettings(image="file", extra_columns="a"), file=files, a=AMOUNTS, label=LABELS)
    assert (without.kind, without.text, without.image, without.also) == ("mixed", None, "file", ("a",))
    assert without.why.startswith(
        "images named in column 'file' (--image), 1 column read (--extra-columns), label column"
    )


def test_what_cannot_be_read() -> None:
    assert "no column 'hours'; did you mean hour?" in refused(
        DataSettings(extra_columns="hours"), text=PROSE, hour=WHOLE
    )
    assert "name one with --extra-columns" in refused(DataSettings(extra_columns="hours"), text=PROSE, hour=WHOLE)
    assert "name one with --image" in refused(DataSettings(image="file"), text=PROSE, label=LABELS)
    assert refused(DataSettings(extra_columns="label", label="label"), text=PROSE, label=LABELS) == (
        "a.csv: column 'label' is the label (--label) and cannot be read beside it: --extra-columns"
    )
    assert refused(DataSettings(extra_columns="name"), text=PROSE, name=NAMES, label=LABELS) == (
        "a.csv: column 'name' cannot be read (60 different values, a text or a name; --text reads it): "
        "remove it from --extra-columns"
    )
    assert refused(user_id=WHOLE, label=LABELS) == (
        "a.csv: there is no number or category column to learn from (columns: user_id, label): name some "
        "with --extra-columns"
    )
    assert "has a comma in its name" in refused(**{"a,b": AMOUNTS, "label": LABELS})
    assert "no column looks like text" in refused(a=AMOUNTS)
    assert refused(user_id=WHOLE, row_id=WHOLE).startswith("a.csv: no column looks like a label")
    with pytest.raises(DataError, match="no column looks like text"):
        chosen(label_kind=None, a=AMOUNTS, kind=LABELS)
