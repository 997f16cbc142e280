import pytest

from glassformer.config.errors import DataError
from glassformer.config.presets import ANY_LABEL
from glassformer.config.sections import DataSettings
from glassformer.data.columns.heuristics import number_in
from glassformer.data.columns.inference import choose_columns, labelled_rows, text_column
from glassformer.data.columns.labels import filled_rows
from glassformer.data.io.table import Table

PROSE = [f"the film number {number} was seen by many" for number in range(60)]
LABELS = ["good", "bad", "so-so"] * 20
NUMBERS = [str(number % 7) for number in range(60)]


def table(**columns: list[str]) -> Table:
    return Table("a.csv", columns, [number + 2 for number in range(len(next(iter(columns.values()))))])


def chosen(
    label_kind: str | None = ANY_LABEL, settings: DataSettings | None = None, **columns: list[str]
) -> tuple[str | None, str, str | None]:
    found = choose_columns(table(**columns), settings or DataSettings(), label_kind)
    return found.text, found.label or "", found.label_kind


def read_labels(rows: Table, settings: DataSettings, label_kind: str | None) -> list[str]:
    found = choose_columns(rows, settings, label_kind)
    return labelled_rows(rows, found, filled_rows(rows, found.text), DataSettings(bad_rows="error")).labels


def refused(label_kind: str | None = ANY_LABEL, settings: DataSettings | None = None, **columns: list[str]) -> str:
    rows = table(**columns)
    with pytest.raises(DataError) as caught:
        read_labels(rows, settings or DataSettings(), label_kind)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("columns", "text"),
    [
        ({"id": ["1", "2"], "TEXT": ["a", "b"]}, "TEXT"),
        ({"body": PROSE, "text": ["a"] * 60}, "text"),
        ({"Review": ["a"] * 60, "other": PROSE}, "Review"),
        ({"kind": LABELS, "words": PROSE}, "words"),
        ({"when": ["2024-05-31"] * 60, "number": [str(n) for n in range(60)], "words": PROSE}, "words"),
        ({"author": [f"Jo Li {n}" for n in range(60)], "opinion": [f"{text}, {text}" for text in PROSE]}, "opinion"),
        ({"name": [f"name{'x' * n}" for n in range(60)], "land": LABELS}, "name"),
        ({"name_id": [f"name {n}" for n in range(60)], "words": PROSE}, "words"),
        ({"code": [f"x{n}" for n in range(60)], "name": ["x" * n for n in range(1, 61)]}, "name"),
        ({"name": ["x" * n for n in range(1, 61)], "words": PROSE}, "words"),
        ({"many": [*PROSE[:25], *PROSE[:25]], "kind": ["it is"] * 50}, "many"),
    ],
)
def test_which_column_is_the_text(columns: dict[str, list[str]], text: str) -> None:
    assert text_column("a.csv", columns, None) == text


def test_the_text_is_asked_for() -> None:
    both = {"source": PROSE, "target": [text[::-1] for text in PROSE]}
    message = "a.csv: the text could be column 'source' or 'target': say which with --text"
    with pytest.raises(DataError, match=message):
        text_column("a.csv", both, None)
    assert text_column("a.csv", both, "target") == "target"
    with pytest.raises(DataError, match="could be column 'question' or 'Comment'"):
        text_column("a.csv", {"question": PROSE, "Comment": PROSE}, None)
    with pytest.raises(DataError) as caught:
        text_column("a.csv", {"kind": LABELS, "n": NUMBERS}, None)
    assert str(caught.value) == ("a.csv: no column looks like text (columns: kind, n): name one with --text")
    with pytest.raises(DataError) as caught:
        text_column("a.csv", both, "Tarjet")
    assert str(caught.value) == (
        "a.csv: no column 'Tarjet'; did you mean target? (columns: source, target): name one with --text"
    )


def test_the_text_is_sought_in_all_of_a_table() -> None:
    greetings, sentences = ["Hi."] * 150, [f"sentence number {number}" for number in range(450)]
    both = {"source": [*greetings, *sentences], "target": [*sentences, *greetings]}
    assert "could be column 'source' or 'target'" in refused(**both)


@pytest.mark.parametrize(
    ("columns", "label", "label_kind"),
    [
        ({"label": LABELS}, "label", "class"),
        ({"Category": LABELS, "id": NUMBERS}, "Category", "class"),
        ({"label": NUMBERS, "label_text": LABELS}, "label", "class"),
        ({"label": NUMBERS, "score": NUMBERS}, "label", "class"),
        ({"kind": LABELS}, "kind", "class"),
        ({"kind": NUMBERS}, "kind", "class"),
        ({"kind": LABELS, "user_id": LABELS, "userId": LABELS, "ID": LABELS}, "kind", "class"),
        ({"kind": LABELS, "day": ["2024-05-30", "2024-05-31"] * 30}, "kind", "class"),
        ({"kind": LABELS, "always": ["x"] * 60, "price": [str(n / 7) for n in range(60)]}, "kind", "class"),
        ({"label": ["true", "false"] * 30}, "label", "class"),
        ({"label": ["0.0", "1.0"] * 30}, "label", "class"),
        ({"rating": [str(n % 20) for n in range(60)]}, "rating", "class"),
        ({"rating": [str(n % 21) for n in range(60)]}, "rating", "number"),
        ({"rating": [str(n) for n in range(60)]}, "rating", "number"),
        ({"score": [str(n % 3 + 0.5) for n in range(60)]}, "score", "number"),
        ({"score": ["-1e-3", "2"] * 30}, "score", "number"),
        ({"id": [str(n) for n in range(60)]}, "", None),
        ({"user_id": LABELS}, "", None),
        ({"price": [str(n / 7) for n in range(60)]}, "price", "number"),
        ({"price": [str(n / 7) for n in range(60)], "weight": [str(n / 9) for n in range(60)]}, "", None),
        ({"always": ["x"] * 60}, "", None),
        ({}, "", None),
    ],
)
def test_which_column_is_the_label(columns: dict[str, list[str]], label: str, label_kind: str | None) -> None:
    assert chosen(text=PROSE, **columns) == ("text", label, label_kind)


def test_classes_that_are_counted() -> None:
    many = [str(number % 30) for number in range(150)]
    texts = [f"text {number}" for number in range(150)]
    assert chosen(text=texts, label=many)[2] == "class"
    assert chosen(text=texts, score=many)[2] == "number"
    assert chosen(text=texts[:149], label=many[:149])[2] == "number"
    assert chosen(text=texts, label=[str(int(value) + 2) for value in many])[2] == "number"


def test_what_makes_a_class_or_an_amount() -> None:
    assert chosen(text=PROSE[:39], rating=[str(n % 20) for n in range(39)])[2] == "number"
    assert chosen(text=PROSE[:10], label=[*"abcdef", *"aaaa"])[2] == "class"
    assert chosen(text=[*PROSE, " "], score=[*(str(n / 7) for n in range(60)), "not known"])[2] == "number"


def test_the_label_is_asked_for() -> None:
    assert refused(text=PROSE, rating=NUMBERS, sentiment=LABELS) == (
        "a.csv: the label could be column 'rating' or 'sentiment': say which with --label"
    )
    assert "could be column 'one' or 'two'" in refused(text=PROSE, one=NUMBERS, two=LABELS)
    assert chosen(ANY_LABEL, DataSettings(split_by="two"), text=PROSE, one=NUMBERS, two=LABELS)[1] == "one"
    assert chosen(ANY_LABEL, DataSettings(label="two"), text=PROSE, one=NUMBERS, two=LABELS)[1] == "two"
    assert "did you mean label?" in refused(ANY_LABEL, DataSettings(label="labl"), text=PROSE, label=LABELS)
    assert refused("class", text=PROSE, price=[str(n / 7) for n in range(60)]) == (
        "a.csv: no column looks like a label: name one of text, price with --label"
    )
    assert "both the text (--text) and the label" in refused(
        ANY_LABEL, DataSettings(text="a", label="a"), a=PROSE, b=LABELS
    )


def test_a_column_named_as_the_label_is_not_the_text() -> None:
    others = [text[::-1] for text in PROSE]
    settings = DataSettings(label="target")
    assert chosen("class", settings, source=PROSE, target=others) == ("source", "target", "class")


def test_the_kind_of_label_that_was_asked_for_decides() -> None:
    assert chosen(None, text=PROSE, label=LABELS) == ("text", "", None)
    assert chosen("number", text=PROSE, label=NUMBERS) == ("text", "label", "number")
    assert chosen("class", text=PROSE, score=[str(n / 7) for n in range(60)])[2] == "class"
    assert chosen("class", text=PROSE, label=PROSE[::-1])[2] == "class"
    assert chosen("number", text=PROSE, kind=LABELS, price=[str(n / 7) for n in range(60)])[1] == "price"


def test_labels_that_cannot_be() -> None:
    assert refused("number", text=PROSE, label=["1.5", "2", " lots "] * 20) == (
        "a.csv, line 4, column 'label': text where a number is wanted: 'lots' (write a number, or nothing; "
        "--task classification takes any value)"
    )
    assert "'1e400' (write a number" in refused("number", text=PROSE, label=["1.5", "2", "1e400"] * 20)
    assert refused(text=PROSE, label=["x", "y", " "] * 20) == (
        "a.csv, line 4: no label in column 'label' (20 rows have none): --label names another"
    )
    amounts = [str(number / 7) for number in range(60)]
    assert "line 61: no label in column 'score' (1 row has none)" in refused(text=PROSE, score=[*amounts[1:], ""])
    assert "line 61: no label in column 'score'" in refused(text=PROSE, score=[*amounts[1:], "none"])
    assert "line 61, column 'score': text where a number" in refused(text=PROSE, score=[*amounts[1:], "few"])
    assert chosen(text=["a", "b", " ", "c"], label=["x", "y", "", "x"])[1] == "label"  # a row without text is no row
    assert refused(text=PROSE, label=PROSE[::-1]).startswith(
        "a.csv: column 'label' has 60 different values in 60 rows, a name or an id and no label"
    )
    assert chosen(text=["a", "b", "c"], label=["x", "y", "x"])[1] == "label"
    assert chosen(text=["a", "b"], label=["x", "y"])[1] == "label"


def test_why_says_what_was_found_and_what_changes_it() -> None:
    def why(**columns: list[str]) -> str:
        return choose_columns(table(**columns), DataSettings()).why

    assert why(sentence=PROSE, label=LABELS) == (
        "text column 'sentence', label column 'label' with 3 classes (--text, --label); task: classification (--task)"
    )
    assert why(sentence=PROSE, score=["0.5", "1"] * 30) == (
        "text column 'sentence', label column 'score' with numbers (--text, --label); task: regression (--task)"
    )
    assert why(sentence=PROSE) == (
        "text column 'sentence' (--text), no label column (--label); task: language-model (--task)"
    )


@pytest.mark.parametrize(
    ("value", "number"),
    [("1", 1), (" -2.5e1 ", -25), ("", None), ("x", None), ("nan", None), ("inf", None), ("1_000", None)],
)
def test_what_is_a_number(value: str, number: float | None) -> None:
    assert number_in(value) == number


def test_a_first_line_that_is_data() -> None:
    assert "the first line looks like data" in refused(**{PROSE[0] + " and some more words": PROSE, "1": LABELS})
    named = DataSettings(text="a name of as many words as this", label="label")
    assert chosen(ANY_LABEL, named, **{"a name of as many words as this": PROSE, "label": LABELS})[1] == "label"
    measured = {"how many times it was seen in all": NUMBERS, "label": LABELS}
    assert "the first line looks like data" in refused(**measured)
    assert chosen(ANY_LABEL, DataSettings(kind="table"), **measured)[1] == "label"  # no text is sought
