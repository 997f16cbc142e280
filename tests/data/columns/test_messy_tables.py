"""Columns as people have them: several texts, ids, units, names, what a header left out."""

from pathlib import Path

import numpy as np
import pytest

from glassformer.config.errors import DataError
from glassformer.config.presets import ANY_LABEL
from glassformer.config.sections import DataSettings
from glassformer.data.columns.inference import Columns, choose_columns
from glassformer.data.columns.labels import odd_labels
from glassformer.data.columns.numbers import plain_number
from glassformer.data.features.tables import TableFeatures
from glassformer.data.io.source import open_source
from glassformer.data.io.table import Table, read_table
from glassformer.data.split.labelled import Labelled

PROSE = [f"the film number {number} was seen by very many" for number in range(60)]
TITLES = [f"Film {'x' * number}" for number in range(60)]
LABELS = ["good", "bad", "so-so"] * 20
AMOUNTS = [str(number / 7) for number in range(60)]
WORDS = ["w" * number for number in range(1, 61)]


def table(**columns: list[str]) -> Table:
    return Table("a.csv", columns, list(range(2, 62)))


def chosen(settings: DataSettings | None = None, label_kind: str | None = ANY_LABEL, **columns: list[str]) -> Columns:
    return choose_columns(table(**columns), settings or DataSettings(), label_kind)


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (("title", "body"), "title,body"),
        (("body", "title"), "title,body"),
        (("Betreff", "Nachricht"), "Betreff,Nachricht"),
        (("headline", "article"), "headline,article"),
        (("premise", "hypothesis"), "premise,hypothesis"),
        (("question", "comment"), "question,comment"),
        (("text", "comment"), "text"),
        (("author", "opinion"), "opinion"),
    ],
)
def test_which_texts_are_joined(names: tuple[str, str], text: str) -> None:
    found = chosen(**{names[0]: PROSE, names[1]: PROSE[::-1], "label": LABELS})
    assert (found.text, found.label, found.kind) == (text, "label", "text")
    assert ("joined" in found.why) == ("," in text)


def test_texts_are_joined_line_by_line() -> None:
    data = table(title=["A", " ", "B"], body=["a", "b", ""])
    assert data.texts("title,body") == ["A\na", "b", "B"]
    found = chosen(DataSettings(text="body, title"), title=TITLES, body=PROSE, label=LABELS)
    assert found.why.startswith("text columns 'body' and 'title', joined, label column 'label'")
    with pytest.raises(DataError, match="no column 'titel'; did you mean title"):
        chosen(DataSettings(text="titel,body"), title=TITLES, body=PROSE, label=LABELS)
    with pytest.raises(DataError, match="'body' cannot be both the text"):
        chosen(DataSettings(text="title,body", label="body"), title=TITLES, body=PROSE)


def test_without_labels_texts_are_asked_for(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"'one' or 'two': say which with --text, or join them: --text one,two"):
        chosen(label_kind=None, one=PROSE, two=PROSE[::-1])
    path = tmp_path / "a.csv"
    path.write_text("title,body\nA,a\nB,b\n")
    documents = open_source(str(path), DataSettings(text="title,body")).documents()
    assert ["".join(blocks) for blocks in documents] == ["A\na", "B\nb"]


def test_names_and_single_words_are_no_text_beside_numbers() -> None:
    names = [f"Jo {word}" for word in WORDS]
    found = chosen(name=names, age=AMOUNTS, survived=LABELS)
    assert (found.kind, found.also, found.label) == ("table", ("age",), "survived")
    assert found.unread["name"] == "60 different values, a text or a name; --text reads it"
    assert chosen(code=WORDS, age=AMOUNTS, label=LABELS).kind == "table"
    assert chosen(name=names, label=LABELS).text == "name"
    assert chosen(DataSettings(text="name"), name=names, age=AMOUNTS, label=LABELS).text == "name"


@pytest.mark.parametrize(
    ("value", "sign", "number"),
    [
        ("$1,234.50", ".", "1234.50"),
        ("-$5", ".", "-5"),
        ("1.234,50 €", ",", "1234.50"),
        ("EUR 5", ".", "5"),
        ("12 %", ".", "12"),
        ("5 kg", ".", None),
        ("$5%", ".", None),
        ("$", ".", None),
    ],
)
def test_currencies_and_per_cent(value: str, sign: str, number: str | None) -> None:
    assert plain_number(value, sign) == number


def test_units_are_said() -> None:
    shares, prices = [f"{number * 7 % 61}%" for number in range(60)], [f"€ {number},500" for number in range(1, 61)]
    found = chosen(share=shares, price=prices, label=LABELS)
    assert found.also == ("share", "price")
    assert "numbers: '0%' in share is 0, '€ 1,500' in price is 1500 (--data.decimal)" in found.why
    assert chosen(text=PROSE, label=[f"{amount} EUR" for amount in AMOUNTS]).label_kind == "number"


def test_a_column_without_a_name(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    rows = [f"{59 - number},{PROSE[number]},{LABELS[number]}" for number in range(60)]
    path.write_text("\n".join([",text,label", *rows]))
    found = choose_columns(read_table(str(path), DataSettings()), DataSettings())
    assert (found.text, found.label) == ("text", "label")
    assert dict(found.unread) == {"Unnamed: 0": "has no name"}


def test_ids_and_dates_are_said() -> None:
    days = [f"{number % 28 + 1}.{number % 12 + 1}.2024" for number in range(60)]
    found = chosen(user_id=LABELS, key=WORDS, when=days, n=AMOUNTS, label=LABELS)
    assert found.unread == {"user_id": "an id with 3 values; --extra-columns reads it", "key": "an id with 60 values"}
    assert "; dates: when, day first (read as year, month, weekday, hour and days); not read" in found.why


def test_rare_categories_are_taken_as_one() -> None:
    values = [f"c{number}" for number in range(60)] + ["often"] * 70 + ["twice"] * 2
    data = Table("a.csv", {"code": values, "label": (LABELS * 3)[:132]}, list(range(132)))
    found = choose_columns(data, DataSettings(kind="table"))
    part = Labelled("train", values, data.columns["label"], data.lines, "a.csv", {"code": values})
    features = TableFeatures.learn(part, found, rare=5)
    assert features.categories[0].values == ("often",)
    assert TableFeatures.from_json(features.to_json()) == features
    inputs = features.inputs(part, np.zeros(132))
    assert inputs.categories[:, 0].tolist() == [0] * 60 + [1] * 70 + [0] * 2
    assert inputs.remarks == (
        "column 'code': 62 values rare in training or not in it, such as 'c0', treated as unknown",
    )
    assert len(TableFeatures.learn(part, found, rare=1).categories[0].values) == 62


def test_odd_labels() -> None:
    assert odd_labels({"Spam": 3, "spam": 2, "ham": 1, "n/a": 2}) == [
        "labels that differ only in their letters' case count as different: Spam, spam",
        "labels that may stand for a missing one, and count as classes: n/a",
        "classes with a single example, which stays in training: ham",
    ]
    assert odd_labels({"Yes": 3, "1": 2, "no": 2}) == ["labels that may mean the same count as different: 1, yes"]
    assert odd_labels({"yes": 3, "no": 2}) == []


def test_a_column_that_is_read_and_splits_is_not_listed_as_unread() -> None:
    columns = {
        "text": [f"a longer text of words {number}" for number in range(60)],
        "customer": [f"c{number % 9}" for number in range(60)],
        "label": ["good", "bad"] * 30,
    }
    found = chosen(DataSettings(extra_columns="customer", split_by="customer"), **columns)
    assert (found.also, found.unread) == (("customer",), {})
    assert "not read" not in found.why
    assert (
        "customer (decides what is held out, --data.split_by)"
        in chosen(DataSettings(split_by="customer"), **columns).why
    )


def test_several_labels_with_commas_between_them_are_pointed_out() -> None:
    cells = ["food, staff", "staff", "price, food", "price", "food", "staff, price"]
    texts = [f"a longer text of words {number}" for number in range(60)]
    why = chosen(text=texts, label=cells * 10).why
    assert (
        "6 classes, which look like several labels per cell: --task multilabel --data.label_separator , splits" in why
    )
    assert "several labels per cell" not in chosen(text=texts, label=["Paris, France", "Bonn, Germany"] * 30).why


@pytest.mark.parametrize("text", [True, False])
def test_a_price_in_the_last_column_is_learned_rather_than_a_category(text: bool) -> None:
    columns = {
        **({"text": [f"a longer text of words {number}" for number in range(60)]} if text else {}),
        "size": [str(number % 7) for number in range(60)],
        "category": ["a", "b", "c"] * 20,
        "price": [f"{number}.5" for number in range(60)],
    }
    found = chosen(**columns)
    assert (found.label, found.label_kind) == ("price", "number")
    first = {"price": columns.pop("price"), **columns}
    if text:
        assert chosen(**first).label == "category"
    else:
        with pytest.raises(DataError, match="could be column 'price' or 'category'"):
            chosen(**first)
