"""Several labels a row: how they are read, found and divided."""

from collections import Counter
from pathlib import Path

import pytest

from glassformer.config.errors import DataError
from glassformer.config.presets import ANY_LABEL
from glassformer.config.sections import DataSettings
from glassformer.data.check.tables import check_table
from glassformer.data.columns.inference import choose_columns
from glassformer.data.columns.labels import kinds_of, look_like_sets, set_of
from glassformer.data.io.table import Table, read_table
from glassformer.data.split.labelled import LabelledCorpus, split_table
from helpers.tagged import tagged, write_cells, write_columns, write_lists, write_numbers

EXPECTED = dict(tagged(200))


def read(path: Path, label_kind: str = ANY_LABEL, **settings: object) -> LabelledCorpus:
    data = DataSettings(path=str(path), **settings)  # type: ignore[arg-type]
    table = read_table(str(path), data)
    return split_table(table, choose_columns(table, data, label_kind), data)


def sets_in(corpus: LabelledCorpus) -> dict[str, list[str]]:
    parts = corpus.parts.values()
    return {text: set_of(label) for part in parts for text, label in zip(part.texts, part.labels, strict=True)}


def test_every_way_of_writing_them_gives_the_same_labels(tmp_path: Path) -> None:
    for corpus in (
        read(write_cells(tmp_path / "a.csv")),
        read(write_cells(tmp_path / "b.csv", separator=" | ")),
        read(write_cells(tmp_path / "c.csv", separator=","), "label-set", label_separator=","),
        read(write_lists(tmp_path / "d.jsonl")),
        read(write_columns(tmp_path / "e.csv"), label="food,money,sport"),
        read(write_columns(tmp_path / "e.csv"), "label-set", label="sport, food, money"),
    ):
        assert corpus.columns.label_kind == "label-set"
        assert corpus.classes == ("food", "money", "sport")
        assert sets_in(corpus) == EXPECTED
        assert "3 labels: " in corpus.report()
        assert "50 rows without any" in corpus.report()


def test_what_was_found_is_said_with_its_flags(tmp_path: Path) -> None:
    data = DataSettings()
    table = read_table(str(write_cells(tmp_path / "a.csv")), data)
    columns = choose_columns(table, data)
    assert columns.separator == ";"
    assert "label column 'tags' with 3 labels" in columns.why
    assert "parted by ';' (--data.label_separator)" in columns.why
    assert "task: multilabel (--task)" in columns.why
    asked = choose_columns(table, DataSettings(label="tags"), "class")
    assert asked.label_kind == "class"
    table = read_table(str(write_numbers(tmp_path / "n.csv")), data)
    columns = choose_columns(table, data)
    assert (columns.kind, columns.also, columns.label_kind) == ("table", ("height", "weight"), "label-set")


@pytest.mark.parametrize(
    ("cells", "plain"),
    [
        (["a;b", "a", "b", "", "b;a", "a"], True),
        (["a|b", "a", "b|c", "c", "c", "b", "a", "a", "c"], True),
        (['["a", "b"]', "[]", '["b"]'], True),
        (["a", "b", "a", "b"], False),
        (["[]", "[]"], False),
        (["good; but long and winding", "well; not so sure of that", "a third; of its own kind"], False),
        (["a", "b", "a", "b", "a", "b", "a", "b", "a", "b", "a;b"], False),  # one in eleven
        (["[1, 2", "[3]"], False),
    ],
)
def test_when_cells_plainly_hold_several(cells: list[str], plain: bool) -> None:
    assert look_like_sets(cells) is plain


def test_the_rarest_label_is_spread_over_the_parts() -> None:
    sets = [["a"], ["a", "b"], ["b", "c"], [], ["a"], ["a", "c"]]
    assert kinds_of(sets, ("a", "b", "c")).tolist() == [0, 1, 1, 3, 0, 2]
    rows = 300
    held = [["often"] + ["rare"] * (number % 30 == 0) for number in range(rows)]
    texts = [f"text {number}" for number in range(rows)]
    table = Table("a.csv", {"text": texts, "tags": [";".join(one) for one in held]}, list(range(2, rows + 2)))
    settings = DataSettings(validation_fraction=0.2, train_fraction=0.5)
    corpus = split_table(table, choose_columns(table, settings, "label-set"), settings)
    counts = {
        name: Counter(label for one in part.labels for label in set_of(one)) for name, part in corpus.parts.items()
    }
    assert (counts["validation"]["rare"], counts["train"]["rare"]) == (2, 4)
    folds = [
        split_table(table, choose_columns(table, settings, "label-set"), DataSettings(folds=5, fold=fold))
        for fold in range(5)
    ]
    assert [sum("rare" in label for label in corpus.parts["validation"].labels) for corpus in folds] == [2] * 5


def test_a_check_counts_labels_and_not_their_sets(tmp_path: Path) -> None:
    data = DataSettings()
    table = read_table(str(write_cells(tmp_path / "a.csv")), data)
    checked = check_table(table, choose_columns(table, data))
    counts = Counter(name for labels in EXPECTED.values() for name in labels)
    assert {one.name: one.count for one in checked.classes} == counts
    assert checked.counts["missing_labels"] == 0
    assert all(one.share == one.count / 200 for one in checked.classes)


def refused(path: Path, text: str, label_kind: str = "label-set", **settings: object) -> str:
    path.write_text(text)
    with pytest.raises(DataError) as caught:
        read(path, label_kind, **settings)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_what_cannot_be_read_is_told_in_one_line(tmp_path: Path) -> None:
    rows = "text,a,b\n" + "".join(f"text {n},{n % 2},1\n" for n in range(9))
    said = refused(tmp_path / "a.csv", rows + "last one,2,0\n", label="a,b")
    assert "a.csv, line 11, column 'a': '2' where 0 or 1 is wanted" in said
    assert "no column 'c'" in refused(tmp_path / "a.csv", rows, label="a,c")
    assert "names several columns: classification learns one" in refused(tmp_path / "a.csv", rows, "class", label="a,b")
    said = refused(tmp_path / "b.csv", 'text,tags\none two,"[""a"", 3"\nthree four,a\n', label="tags")
    assert "b.csv, line 2, column 'tags': not a list of labels" in said
    assert "no row has a label" in refused(tmp_path / "c.csv", "text,tags\none two,\nthree four,\n", label="tags")
    write_cells(tmp_path / "train.csv")
    new = "text,tags\nsomething new here,food;war\n"
    (tmp_path / "new.csv").write_text(new)
    with pytest.raises(DataError, match=r"new.csv, line 2, column 'tags': the label 'war' does not occur in training"):
        read(tmp_path / "train.csv", test=str(tmp_path / "new.csv"))
