import dataclasses
import datetime
from collections import Counter, defaultdict
from pathlib import Path
from random import Random

import pytest
from hypothesis import assume, given
from hypothesis import settings as checking
from hypothesis import strategies as st

from glassformer.config.errors import DataError
from glassformer.config.presets import CLASS
from glassformer.config.sections import DataSettings
from glassformer.data.columns.dates import time_of, times_of
from glassformer.data.columns.inference import Columns
from glassformer.data.columns.labels import label_values
from glassformer.data.io.table import Table
from glassformer.data.split.labelled import LabelledCorpus, split_table, whole_table

CLASSES = Columns("text", "label", "class", "")
AMOUNTS = Columns("text", "label", "number", "")
FIFTH = DataSettings(validation_fraction=0.2, test_fraction=0.1)


def table(texts: list[str], labels: list[str], **columns: list[str]) -> Table:
    return Table("a.csv", {"text": texts, "label": labels, **columns}, [number + 2 for number in range(len(texts))])


def numbered(count: int, labels: str) -> Table:
    return table([f"text {number}" for number in range(count)], [labels[n % len(labels)] for n in range(count)])


def pairs(corpus: LabelledCorpus) -> dict[str, set[tuple[str, str, int]]]:
    for name, part in corpus.parts.items():
        assert part.name == name
        assert len(part) == len(part.texts) == len(part.labels) == len(part.lines)
        assert part.lines == sorted(part.lines)
    return {n: set(zip(p.texts, p.labels, p.lines, strict=True)) for n, p in corpus.parts.items()}


def refused(data: Table, settings: DataSettings = FIFTH, columns: Columns = CLASSES) -> str:
    with pytest.raises(DataError) as caught:
        split_table(data, columns, settings)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def write(path: Path, *rows: tuple[str, str]) -> str:
    path.write_text("\n".join(["text\tlabel", *("\t".join(row) for row in rows)]))
    return str(path)


labelled_rows = st.lists(
    st.tuples(st.text("abc ", min_size=1, max_size=8), st.sampled_from("xyz"), st.sampled_from("12345678")),
    min_size=8, max_size=60,
)  # fmt: skip


@pytest.mark.slow
@checking(deadline=None)
@given(labelled_rows, st.integers(0, 3), st.booleans(), st.randoms(use_true_random=False))
def test_what_every_split_keeps_to(rows: list[tuple[str, str, str]], seed: int, together: bool, random: Random) -> None:
    settings = DataSettings(
        validation_fraction=0.2, test_fraction=0.2, split_seed=seed, split_by="who" if together else None
    )

    def made(rows: list[tuple[str, str, str]]) -> Table:
        texts, labels, who = (list(column) for column in zip(*rows, strict=True))
        return table(texts, labels, who=who)

    data = made(rows)
    try:
        corpus = split_table(data, CLASSES, settings)
    except DataError:
        assume(False)
    found = pairs(corpus)
    filled = {(t, k, n) for t, k, n in zip(data.columns["text"], data.columns["label"], data.lines, strict=True)
              if t.strip()}  # fmt: skip
    assert set().union(*found.values()) == filled  # every row
    assert sum(map(len, found.values())) == len(filled)  # in one part
    homes = defaultdict(set)
    for name, part in corpus.parts.items():
        assert part.texts
        for text, line in zip(part.texts, part.lines, strict=True):
            homes["text", text.strip()].add(name)
            if together:
                homes["who", data.columns["who"][line - 2]].add(name)
    assert all(len(names) == 1 for names in homes.values())
    assert set(corpus.parts["train"].labels) == set(corpus.classes or ())
    shuffled = list(rows)
    random.shuffle(shuffled)
    again = split_table(made(shuffled), CLASSES, settings)
    for name, part in corpus.parts.items():
        mixed = again.parts[name]
        assert Counter(zip(part.texts, part.labels, strict=True)) == Counter(
            zip(mixed.texts, mixed.labels, strict=True)
        )


@checking(deadline=None)
@given(st.lists(st.integers(2, 50), min_size=2, max_size=9), st.integers(0, 3))
def test_each_class_has_its_share(sizes: list[int], seed: int) -> None:
    labels = [f"class {number}" for number, size in enumerate(sizes) for _ in range(size)]
    settings = DataSettings(validation_fraction=0.2, test_fraction=0.1, split_seed=seed)
    corpus = split_table(table([f"text {n}" for n in range(len(labels))], labels), CLASSES, settings)
    for name, fraction in {"validation": 0.2, "test": 0.1}.items():
        counts = Counter(corpus.parts[name].labels)
        for number, size in enumerate(sizes):
            assert abs(counts[f"class {number}"] - fraction * size) < 1.0001
        if min(sizes) > 9:
            assert len(corpus.parts[name]) == round(fraction * len(labels))


def test_shares_are_rounded_together() -> None:
    """A hundred classes of four: a tenth of each is less than half a row, a tenth of all is forty."""
    labels = [f"class {number % 100}" for number in range(400)]
    corpus = split_table(table([f"text {n}" for n in range(400)], labels), CLASSES, DataSettings())
    assert len(corpus.parts["validation"]) == 40
    assert max(Counter(corpus.parts["validation"].labels).values()) == 1


def test_the_seed_chooses() -> None:
    data = numbered(101, "xyz")
    one, same, other = (pairs(split_table(data, CLASSES, DataSettings(split_seed=seed))) for seed in (0, 0, 1))
    assert one == same != other


def test_texts_with_two_labels_stay_together() -> None:
    texts = [f"text {number // 2}" + " " * (number % 2) for number in range(200)]
    assert texts[10] != texts[11]
    assert texts[10].strip() == texts[11].strip()
    data = table(texts, ["x", "y"] * 100)
    found = pairs(split_table(data, CLASSES, FIFTH))
    parts = [{text.strip() for text, _, _ in part} for part in found.values()]
    assert [len(part) for part in parts] == [70, 20, 10]
    assert sum(map(len, parts)) == len(set().union(*parts))


def test_numbers_are_split_without_classes() -> None:
    data = table([f"text {number}" for number in range(101)], [str(number / 7) for number in range(101)])
    corpus = split_table(data, AMOUNTS, FIFTH)
    assert {name: len(part) for name, part in corpus.parts.items()} == {"train": 71, "validation": 20, "test": 10}
    assert corpus.classes is None
    assert "numbers from 0 to 14.2857, 7.143 on average" in corpus.report()


def test_classes_are_sorted() -> None:
    assert split_table(numbered(60, "zxy"), CLASSES, FIFTH).classes == ("x", "y", "z")
    numbers = [str(number % 12) for number in range(60)]
    data = table([f"text {number}" for number in range(60)], numbers)
    assert split_table(data, CLASSES, FIFTH).classes == tuple(str(number) for number in range(12))


def test_the_report() -> None:
    texts = [f"text {number}" for number in range(97)] + ["text 3", " ", "text 4 ", "only"]
    labels = ["x", "y", "x", "x"] * 24 + ["x", "x", "y", "x", " one "]
    corpus = split_table(table(texts, labels), CLASSES, FIFTH)
    assert corpus.report() == (
        "100 rows: 20 rows held out for validation and 10 rows held out for the test; "
        "3 classes: x 75.0%, y 24.0%, one 1.0%; skipped: 1 row without a text, line 100; 2 rows repeat an earlier text"
        "; classes with a single example, which stays in training: one"
    )
    assert ("only", "one", 102) in pairs(corpus)["train"]
    assert corpus.columns is CLASSES
    many = numbered(60, "abcdef")
    assert "6 classes: a 16.7%, b 16.7%, c 16.7%, d 16.7%, e 16.7%, …" in split_table(many, CLASSES, FIFTH).report()
    nothing = split_table(many, CLASSES, DataSettings(validation_fraction=0.0))
    assert len(nothing.remarks) == 2
    assert tuple(split_table(many, CLASSES, FIFTH).remarks[2:]) == ("warning: a score over 6 rows of test says little",)
    rare = split_table(table([f"t {n}" for n in range(103)], ["x", "y"] * 50 + ["rare"] * 3), CLASSES, DataSettings())
    assert tuple(rare.remarks[2:]) == ("warning: no row of validation has the label 'rare'",)
    assert nothing.remarks[0] == "60 rows"
    assert list(nothing.parts) == ["train"]


def test_one_class_is_no_classes() -> None:
    assert [
        label_values(numbered(9, labels), "text", "label", CLASS, DataSettings()).words for labels in ("a", "ab")
    ] == [
        "1 class",
        "2 classes",
    ]


def test_customers_stay_together() -> None:
    data = numbered(120, "xyyy")
    data.columns["who"] = [f"customer {number * number % 17}" for number in range(117)] + ["", " ", ""]
    settings = dataclasses.replace(FIFTH, split_by="who")
    corpus = split_table(data, CLASSES, settings)
    found = [{data.columns["who"][line - 2] for line in part.lines} - {"", " "} for part in corpus.parts.values()]
    assert sum(map(len, found)) == len(set().union(*found)) == 9
    assert 12 < len(corpus.parts["validation"]) < 36
    assert 3 < len(corpus.parts["test"]) < 24
    assert "split by column 'who': rows alike in it stay together" in corpus.remarks
    assert "no column 'whom'; did you mean who?" in refused(data, dataclasses.replace(FIFTH, split_by="whom"))


def test_what_holds_rows_together() -> None:
    data = numbered(60, "xy")
    alone = pairs(split_table(data, CLASSES, FIFTH))
    data.columns["who"] = ["", " "] * 30
    assert pairs(split_table(data, CLASSES, dataclasses.replace(FIFTH, split_by="who"))) == alone
    data.columns["who"] = [f"{' ' * (number % 3)}{number % 2}" for number in range(60)]
    assert "too few" in refused(data, dataclasses.replace(FIFTH, split_by="who"))


def test_large_groups_come_as_near_as_they_can() -> None:
    data = table([f"text {number}" for number in range(100)], [str(number / 7) for number in range(100)])
    data.columns["who"] = [str(number % 10) for number in range(100)]
    for fraction, rows in {0.04: 10, 0.14: 10, 0.16: 20}.items():
        settings = DataSettings(validation_fraction=fraction, split_by="who")
        assert len(split_table(data, AMOUNTS, settings).parts["validation"]) == rows


def test_a_moment_without_a_zone_is_in_utc() -> None:
    assert time_of("2024-05-31") == datetime.datetime(2024, 5, 31, tzinfo=datetime.UTC)
    assert time_of("2024-05-31T02:00+02:00") == time_of("2024-05-31")
    assert [time_of(value) for value in ("20240531", "2024", "2024-05-31x", "2024-05-31 soon")] == [None] * 4


def test_iso_dates_are_read_one_by_one() -> None:
    values = ["2024-05-31", "2024-05-31T02:00+02:00", "2024-05-31 12:30:00.25", "31.05.2024", "soon"]
    assert times_of(values) == [time_of(value) for value in values]


@pytest.mark.parametrize("time", ["", " 12:30:00", "T12:30:00+02:00", "T12:30:00Z"])
def test_the_latest_are_held_out(time: str) -> None:
    data = numbered(100, "xy")
    days = [datetime.date(2024, 1, 1) + datetime.timedelta(days=number * 37 % 100) for number in range(100)]
    data.columns["day"] = [f"{day}{time}" for day in days]
    corpus = split_table(data, CLASSES, dataclasses.replace(FIFTH, split_by="day"))
    held = {name: {days[line - 2] for line in part.lines} for name, part in corpus.parts.items()}
    assert [len(part) for part in held.values()] == [70, 20, 10]
    assert max(held["train"]) < min(held["validation"])
    assert max(held["validation"]) < min(held["test"])
    assert "split by time, column 'day': validation from 2024-03-11, test from 2024-03-31" in corpus.remarks


def test_one_day_is_not_divided_and_a_text_stays_where_it_came_first() -> None:
    days = ["2024-01-01"] * 50 + ["2024-01-02"] * 26 + ["2024-01-03"] * 20 + ["2024-01-04"] * 4
    data = table([f"text {number}" for number in range(99)] + ["text 0"], ["x", "y"] * 50, day=days)
    settings = dataclasses.replace(FIFTH, split_by="day")
    corpus = split_table(data, CLASSES, settings)
    assert {name: len(part) for name, part in corpus.parts.items()} == {"train": 77, "validation": 20, "test": 3}
    assert corpus.parts["train"].lines[-1] == 101
    data.columns["day"][:] = ["2024-01-01", "2024-01-02"] * 50
    assert "too few for 3 parts" in refused(data, settings)
    data.columns["day"][7] = "soon"
    assert refused(data, settings).startswith("a.csv, line 9, column 'day': 'soon' among dates: write it as 2024-05-31")
    data.columns["day"][:] = ["2024-13-01", "2024-12-01"] * 50
    assert "line 2, column 'day': '2024-13-01' among dates" in refused(data, settings)


def test_a_day_is_left_to_every_part() -> None:
    days = ["2024-01-01"] * 50 + ["2024-01-02"] * 10 + ["2024-01-03"] * 10
    data = table([f"text {number}" for number in range(70)], ["x", "y"] * 35, day=days)
    settings = DataSettings(validation_fraction=0.6, test_fraction=0.1, split_by="day")
    corpus = split_table(data, CLASSES, settings)
    assert {name: len(part) for name, part in corpus.parts.items()} == {"train": 50, "validation": 10, "test": 10}
    data.columns["text"][50:60] = data.columns["text"][:10]
    assert "too few for 3 parts" in refused(data, settings)


def test_time_brings_a_new_class() -> None:
    days = [f"2024-01-{number:02}" for number in range(1, 31)]
    data = table([f"text {number}" for number in range(30)], ["x", "y"] * 14 + ["x", "z"], day=days)
    settings = dataclasses.replace(FIFTH, split_by="day")
    corpus = split_table(data, CLASSES, settings)
    assert (corpus.classes, "z" in corpus.parts["test"].labels) == (("x", "y"), True)
    assert corpus.remarks[-1] == (
        "test: 1 row has a label that does not occur in training ('z'), line 31: counted as wrong"
    )
    message = refused(data, dataclasses.replace(settings, bad_rows="error"))
    assert message == "a.csv, line 31, column 'label': the label 'z' does not occur in training"


def test_given_files(tmp_path: Path) -> None:
    validation = write(tmp_path / "validation.tsv", ("text 3", "x"), (" text 3", "y"), ("", "x"), ("new", "z "))
    test = write(tmp_path / "test.tsv", ("other", "x"))
    settings = DataSettings(validation=validation, test=test, test_fraction=0.3, bad_rows="skip")
    corpus = split_table(numbered(30, "xyz"), CLASSES, settings)
    found = pairs(corpus)
    assert list(found) == ["train", "validation", "test"]
    assert len(found["train"]) == 30
    assert found["validation"] == {("text 3", "x", 2), (" text 3", "y", 3), ("new", "z", 5)}
    assert corpus.parts["validation"].origin == validation
    assert corpus.remarks[0] == "30 rows"
    assert tuple(corpus.remarks[2:]) == (
        f"validation from {validation}: 3 rows",
        "skipped: 1 row without a text, line 4",
        "warning: 2 of 3 rows of validation also in training",
        f"test from {test}: 1 row",
    )
    half = split_table(numbered(30, "xyz"), CLASSES, DataSettings(test=test, validation_fraction=0.5))
    assert {name: len(part) for name, part in half.parts.items()} == {"train": 15, "validation": 15, "test": 1}
    assert list(half.parts) == ["train", "validation", "test"]


def test_a_given_file_beside_a_part_split_off(tmp_path: Path) -> None:
    data = numbered(30, "xyz")
    held = split_table(data, CLASSES, DataSettings(validation_fraction=0.0, test_fraction=0.2)).parts["test"]
    validation = write(tmp_path / "validation.tsv", *zip(held.texts, held.labels, strict=True))
    corpus = split_table(data, CLASSES, DataSettings(validation=validation, test_fraction=0.2))
    assert list(corpus.parts) == ["train", "validation", "test"]
    assert corpus.parts["test"].texts == corpus.parts["validation"].texts == held.texts
    assert not any("also in training" in remark for remark in corpus.remarks)


def test_given_files_that_do_not_fit(tmp_path: Path) -> None:
    data = numbered(30, "xyz")
    odd = write(tmp_path / "odd.tsv", ("a", "x"), ("b", "w"))
    assert refused(data, DataSettings(validation=odd, bad_rows="error")) == (
        f"{odd}, line 3, column 'label': the label 'w' does not occur in training"
    )
    corpus = split_table(data, CLASSES, DataSettings(validation=odd))
    assert corpus.parts["validation"].labels == ["x", "w"]
    assert corpus.remarks[-1].startswith("validation: 1 row has a label that does not occur in training ('w'), line 3")
    new = write(tmp_path / "new.tsv", ("a", "w"), ("b", "v"))
    assert "the label 'w' does not occur in training" in refused(data, DataSettings(validation=new))
    unlabelled = write(tmp_path / "unlabelled.tsv", ("a", "x"), ("b", ""))
    strict = DataSettings(test=unlabelled, bad_rows="error")
    assert refused(data, strict).startswith(f"{unlabelled}, line 3: no label in column 'label'")
    assert refused(data, DataSettings(test=unlabelled)) == (
        f"{unlabelled}: 1 of 2 rows cannot be used (1 without a label, line 3): fix them, or pass --bad-rows skip"
    )
    corpus = split_table(data, CLASSES, DataSettings(test=unlabelled, bad_rows="skip"))
    assert corpus.parts["test"].texts == ["a"]
    assert "skipped: 1 row without a label, line 3" in corpus.remarks
    other = Columns("text", "lable", "class", "")
    data.columns["lable"] = data.columns["label"]
    assert refused(data, DataSettings(test=odd), other).startswith(f"{odd}: no column 'lable'; did you mean label?")
    numbers = table(["a", "b", "c"], ["1", "2", "3"])
    assert "line 2, column 'label': text where a number" in refused(numbers, DataSettings(test=odd), AMOUNTS)


def test_a_data_set_brings_its_own_test() -> None:
    own = table(["own test"], ["x"])
    data = dataclasses.replace(numbered(30, "xyz"), test=lambda: own)
    assert split_table(data, CLASSES, DataSettings()).parts["test"].texts == ["own test"]
    assert len(split_table(data, CLASSES, DataSettings(test_fraction=0.1)).parts["test"]) == 3


def test_a_given_test_replaces_a_data_sets_own(tmp_path: Path) -> None:
    data = dataclasses.replace(numbered(30, "xyz"), test=lambda: table(["own test"], ["x"]))
    given = write(tmp_path / "test.tsv", ("given", "x"))
    assert split_table(data, CLASSES, DataSettings(test=given)).parts["test"].texts == ["given"]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (numbered(9, "x"), "a.csv: all 9 rows have the label 'x', so that there is nothing to tell apart"),
        (numbered(2, "xy"), "a.csv has 2 rows, 2 of them different: too few for 3 parts (train, validation, test)"),
        (table(["a"] * 9, list("xyxyxyxyx")), "a.csv has 9 rows, 1 of them different: too few"),
        (table([" ", ""], ["x", "y"]), "a.csv: column 'text' is empty: there is no text in it"),
        (table(["a", "b"], ["", ""]), "a.csv, line 2: no label in column 'label' (2 rows have none)"),
    ],
)
def test_what_cannot_be_split(data: Table, message: str) -> None:
    assert refused(data).startswith(message)


def test_each_part_has_a_row_at_least() -> None:
    settings = DataSettings(validation_fraction=0.6, test_fraction=0.3)
    for seed in range(5):
        corpus = split_table(numbered(4, "xy"), CLASSES, dataclasses.replace(settings, split_seed=seed))
        assert {name: len(part) for name, part in corpus.parts.items()} == {"train": 2, "validation": 1, "test": 1}


def test_without_labels_there_is_nothing_to_split() -> None:
    plain = Columns("text", None, None, "")
    assert refused(numbered(9, "xy"), FIFTH, plain).endswith("no label column to learn: name it with --label")


def test_the_fingerprint_is_of_texts_and_labels(tmp_path: Path) -> None:
    def fingerprint(texts: list[str], labels: list[str], settings: DataSettings = FIFTH) -> str:
        return split_table(table(texts, labels), CLASSES, settings).fingerprint

    texts, labels = [f"text {number}" for number in range(30)], ["x", "y"] * 15
    one = fingerprint(texts, labels)
    assert one == fingerprint([*texts, " "], [*labels, "x"])
    assert one == fingerprint(texts, labels, dataclasses.replace(FIFTH, split_seed=7))
    test = DataSettings(test=write(tmp_path / "a.tsv", ("a", "x")))
    found = [
        one,
        fingerprint([*texts[:-1], "text"], labels),
        fingerprint(texts, ["y", *labels[1:]]),
        fingerprint([*texts[:-1], "text 29y"], [*labels[:-1], "x"]),
        fingerprint(texts, labels, test),
    ]
    write(tmp_path / "a.tsv", ("a", "y"))
    found.append(fingerprint(texts, labels, test))
    assert len(set(found)) == 6
    assert fingerprint([*texts, "ab"], [*labels, "cx"]) != fingerprint([*texts, "abc"], [*labels, "x"])


def test_a_whole_table() -> None:
    data = table(["a", " ", "b"], ["x", "", " y"])
    skip = DataSettings(bad_rows="skip")
    part = whole_table(data, CLASSES, "given", ("x", "y"), skip)
    assert (part.name, part.texts, part.labels, part.lines) == ("given", ["a", "b"], ["x", "y"], [2, 4])
    known = whole_table(data, CLASSES, "given", ["x"], skip)
    assert (known.texts, known.skipped) == (["a", "b"], {"without a text": [3]})
    assert known.remarks == ("1 row has a label that does not occur in training ('y'), line 4: counted as wrong",)
    with pytest.raises(DataError, match=r"a\.csv: 1 of 3 rows cannot be used \(1 without a text, line 3\)"):
        whole_table(data, CLASSES, "given", ["x"], DataSettings(bad_rows="error"))
    with pytest.raises(DataError, match="line 3, column 'label': the label 'y' does not occur in training"):
        whole_table(table(["a", "b"], ["x", "y"]), CLASSES, "given", ["x"], DataSettings(bad_rows="error"))
    assert whole_table(table(["a"], ["1.5"]), AMOUNTS, "given", None).labels == ["1.5"]


def test_the_column_that_splits_is_part_of_the_data() -> None:
    """Another customer behind a row moves what is held out: an evaluation must not take it for the same data."""
    data = numbered(60, "xy")
    data.columns["who"] = [f"customer {number % 9}" for number in range(60)]
    settings = dataclasses.replace(FIFTH, split_by="who")
    before = split_table(data, CLASSES, settings).fingerprint
    data.columns["who"][7] = "somebody else"
    assert split_table(data, CLASSES, settings).fingerprint != before
    assert split_table(data, CLASSES, FIFTH).fingerprint == split_table(numbered(60, "xy"), CLASSES, FIFTH).fingerprint


def test_the_seed_decides_which_small_classes_are_held_out() -> None:
    data = table([f"text {n}" for n in range(100)], [f"class {n // 5}" for n in range(100)])
    held = [
        frozenset(split_table(data, CLASSES, DataSettings(split_seed=seed)).parts["validation"].labels)
        for seed in range(4)
    ]
    assert all(len(some) == 10 for some in held)
    assert len(set(held)) > 1


@pytest.mark.parametrize("shape", ["%d.%m.%Y", "%m/%d/%Y", "%Y/%m/%d", "%d-%m-%Y 12:30"])
def test_dates_of_an_order_that_they_tell_split_as_iso_dates_do(shape: str) -> None:
    data, settings = numbered(100, "xy"), dataclasses.replace(FIFTH, split_by="day")
    days = [datetime.date(2024, 1, 1) + datetime.timedelta(days=number * 37 % 100) for number in range(100)]
    data.columns["day"] = [f"{day}" for day in days]
    iso = split_table(data, CLASSES, settings)
    data.columns["day"] = [day.strftime(shape) for day in days]
    other = split_table(data, CLASSES, settings)
    assert pairs(other) == pairs(iso)
    assert other.remarks == iso.remarks


def test_names_among_dates_of_another_order_are_groups_as_ever() -> None:
    data, settings = numbered(60, "xy"), dataclasses.replace(FIFTH, split_by="day")
    data.columns["day"] = [f"{number % 28 + 1:02}.01.2024" if number % 9 else "unknown" for number in range(60)]
    assert "split by column 'day': rows alike in it stay together" in split_table(data, CLASSES, settings).remarks


def test_a_test_file_that_knows_numbers_has_points(tmp_path: Path) -> None:
    columns = dataclasses.replace(AMOUNTS, decimals={"label": ","})
    test = tmp_path / "test.jsonl"
    test.write_text('{"text": "a", "label": 1.234}\n{"text": "b", "label": 2.5}\n')
    data = table([f"text {number}" for number in range(30)], [f"{number},5" for number in range(30)])
    assert split_table(data, columns, DataSettings(test=str(test))).parts["test"].labels == ["1.234", "2.5"]
    test.write_text('{"text": "a", "label": 1.234}\n')
    assert split_table(data, columns, DataSettings(test=str(test))).parts["test"].labels == ["1.234"]


@pytest.mark.parametrize("date", ["05/06/2024", "28-1-24"])
def test_dates_without_a_certain_order_are_refused(date: str) -> None:
    data = numbered(60, "xy")
    data.columns["day"] = [date] * 60
    assert "write it as 2024-05-31" in refused(data, dataclasses.replace(FIFTH, split_by="day"))
