import pytest

from glassformer.config.errors import DataError, SettingError
from glassformer.config.sections import DataSettings
from glassformer.data.columns.heuristics import number_in
from glassformer.data.columns.inference import check_labels, choose_columns, text_column
from glassformer.data.io.table import Table

PROSE = [f"the film number {number} was seen by many" for number in range(60)]
LABELS = ["good", "bad", "so-so"] * 20
NUMBERS = [str(number % 7) for number in range(60)]


def table(**columns: list[str]) -> Table:
    return Table("a.csv", columns, [number + 2 for number in range(len(next(iter(columns.values()))))])


def chosen(task: str | None = None, settings: DataSettings | None = None, **columns: list[str]) -> tuple[str, str, str]:
    found = choose_columns(table(**columns), settings or DataSettings(), task)
    return found.text, found.label or "", found.task


def refused(task: str | None = None, settings: DataSettings | None = None, **columns: list[str]) -> str:
    rows = table(**columns)
    with pytest.raises(DataError) as caught:
        check_labels(rows, choose_columns(rows, settings or DataSettings(), task))
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
    assert str(caught.value) == (
        "a.csv: no column looks like text (columns: kind, n; the first line names them): name one with --text"
    )
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
    ("columns", "label", "task"),
    [
        ({"label": LABELS}, "label", "classification"),
        ({"Category": LABELS, "id": NUMBERS}, "Category", "classification"),
        ({"label": NUMBERS, "label_text": LABELS}, "label", "classification"),
        ({"label": NUMBERS, "score": NUMBERS}, "label", "classification"),
        ({"kind": LABELS}, "kind", "classification"),
        ({"kind": NUMBERS}, "kind", "classification"),
        ({"kind": LABELS, "user_id": LABELS, "userId": LABELS, "ID": LABELS}, "kind", "classification"),
        ({"kind": LABELS, "day": ["2024-05-30", "2024-05-31"] * 30}, "kind", "classification"),
        ({"kind": LABELS, "always": ["x"] * 60, "price": [str(n / 7) for n in range(60)]}, "kind", "classification"),
        ({"label": ["true", "false"] * 30}, "label", "classification"),
        ({"label": ["0.0", "1.0"] * 30}, "label", "classification"),
        ({"rating": [str(n % 20) for n in range(60)]}, "rating", "classification"),
        ({"rating": [str(n % 21) for n in range(60)]}, "rating", "regression"),
        ({"rating": [str(n) for n in range(60)]}, "rating", "regression"),
        ({"score": [str(n % 3 + 0.5) for n in range(60)]}, "score", "regression"),
        ({"score": ["-1e-3", "2"] * 30}, "score", "regression"),
        ({"id": [str(n) for n in range(60)]}, "", "language-model"),
        ({"user_id": LABELS}, "", "language-model"),
        ({"price": [str(n / 7) for n in range(60)]}, "price", "regression"),
        ({"price": [str(n / 7) for n in range(60)], "weight": [str(n / 9) for n in range(60)]}, "", "language-model"),
        ({"always": ["x"] * 60}, "", "language-model"),
        ({}, "", "language-model"),
    ],
)
def test_which_column_is_the_label(columns: dict[str, list[str]], label: str, task: str) -> None:
    assert chosen(text=PROSE, **columns) == ("text", label, task)


def test_classes_that_are_counted() -> None:
    many = [str(number % 30) for number in range(150)]
    texts = [f"text {number}" for number in range(150)]
    assert chosen(text=texts, label=many)[2] == "classification"
    assert chosen(text=texts, score=many)[2] == "regression"
    assert chosen(text=texts[:149], label=many[:149])[2] == "regression"
    assert chosen(text=texts, label=[str(int(value) + 2) for value in many])[2] == "regression"


def test_what_makes_a_class_or_an_amount() -> None:
    assert chosen(text=PROSE[:39], rating=[str(n % 20) for n in range(39)])[2] == "regression"
    assert chosen(text=PROSE[:10], label=[*"abcdef", *"aaaa"])[2] == "classification"
    assert chosen(text=[*PROSE, " "], score=[*(str(n / 7) for n in range(60)), "not known"])[2] == "regression"


def test_the_label_is_asked_for() -> None:
    assert refused(text=PROSE, rating=NUMBERS, sentiment=LABELS) == (
        "a.csv: the label could be column 'rating' or 'sentiment': say which with --label"
    )
    assert "could be column 'one' or 'two'" in refused(text=PROSE, one=NUMBERS, two=LABELS)
    assert chosen(None, DataSettings(split_by="two"), text=PROSE, one=NUMBERS, two=LABELS)[1] == "one"
    assert chosen(None, DataSettings(label="two"), text=PROSE, one=NUMBERS, two=LABELS)[1] == "two"
    assert "did you mean label?" in refused(None, DataSettings(label="labl"), text=PROSE, label=LABELS)
    assert refused("classification", text=PROSE, price=[str(n / 7) for n in range(60)]) == (
        "a.csv: no column looks like a label: name one of text, price with --label"
    )
    assert "both the text and the label" in refused(None, DataSettings(text="a", label="a"), a=PROSE, b=LABELS)


def test_a_column_named_as_the_label_is_not_the_text() -> None:
    others = [text[::-1] for text in PROSE]
    settings = DataSettings(label="target")
    assert chosen("classification", settings, source=PROSE, target=others) == ("source", "target", "classification")


def test_the_task_that_was_asked_for_decides() -> None:
    assert chosen("language-model", text=PROSE, label=LABELS) == ("text", "", "language-model")
    assert chosen("regression", text=PROSE, label=NUMBERS) == ("text", "label", "regression")
    assert chosen("classification", text=PROSE, score=[str(n / 7) for n in range(60)])[2] == "classification"
    assert chosen("classification", text=PROSE, label=PROSE[::-1])[2] == "classification"
    assert chosen("regression", text=PROSE, kind=LABELS, price=[str(n / 7) for n in range(60)])[1] == "price"
    with pytest.raises(SettingError, match="did you mean regression"):
        chosen("regresion", text=PROSE, label=NUMBERS)


def test_labels_that_cannot_be() -> None:
    assert refused("regression", text=PROSE, label=["1.5", "2", " lots "] * 20) == (
        "a.csv, line 4, column 'label': text where a number is wanted: 'lots' (--task classification takes any value)"
    )
    assert refused(text=PROSE, label=["x", "y", " "] * 20) == (
        "a.csv, line 4: no label in column 'label' (20 rows have none): "
        "fill it in, take such rows out, or choose another column with --label"
    )
    amounts = [str(number / 7) for number in range(60)]
    assert "line 61: no label in column 'score' (1 row has none)" in refused(text=PROSE, score=[*amounts[1:], ""])
    assert "line 61, column 'score': text where a number" in refused(text=PROSE, score=[*amounts[1:], "none"])
    assert chosen(text=["a", "b", " ", "c"], label=["x", "y", "", "x"])[1] == "label"  # a row without text is no row
    assert refused(text=PROSE, label=PROSE[::-1]).startswith(
        "a.csv: column 'label' has 60 different values in 60 rows, a name or an id and no label"
    )
    assert chosen(text=["a", "b", "c"], label=["x", "y", "x"])[1] == "label"
    assert chosen(text=["a", "b"], label=["x", "y"])[1] == "label"


def test_why_says_what_was_found_and_what_changes_it() -> None:
    def why(**columns: list[str]) -> str:
        return choose_columns(table(**columns), DataSettings(), None).why

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
    assert chosen(None, named, **{"a name of as many words as this": PROSE, "label": LABELS})[1] == "label"
    measured = {"how many times it was seen in all": NUMBERS, "label": LABELS}
    assert "the first line looks like data" in refused(**measured)
    assert chosen(None, DataSettings(kind="table"), **measured)[1] == "label"  # no text is sought


@pytest.mark.parametrize(
    ("value", "advice"), [("1001,94", "write 1001.94"), ("95.28 $", "write 95.28"), ("x", "--task")]
)
def test_what_to_write_for_a_number(value: str, advice: str) -> None:
    assert advice in refused("regression", text=PROSE, label=[value, *["1.5"] * 59])
