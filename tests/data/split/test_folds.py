"""Folds and smaller training parts: what holds of them whatever the rows are."""

from collections import Counter, defaultdict
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import settings as checking
from hypothesis import strategies as st

from glassformer.config.errors import DataError, SettingError
from glassformer.config.resolve import resolve, with_epochs
from glassformer.config.sections import DataSettings
from glassformer.data.columns.inference import Columns
from glassformer.data.io.source import open_source
from glassformer.data.io.table import Pictures, Table
from glassformer.data.split.documents import split_texts
from glassformer.data.split.labelled import split_pictures, split_table
from glassformer.data.split.pairs import split_pairs
from helpers.kinds import bars

CLASSES = Columns("text", "label", "class", "")
AMOUNTS = Columns("text", "number", "number", "")


def table(texts: list[str], labels: list[str], **columns: list[str]) -> Table:
    lines = [number + 2 for number in range(len(texts))]
    return Table("a.csv", {"text": texts, "label": labels, "number": list(map(str, lines)), **columns}, lines)


def fold_lines(data: Table, folds: int, columns: Columns = CLASSES, **more: object) -> list[set[int]]:
    """The lines of each fold's validation part; what is not in it is trained on or tested on."""
    found = []
    for fold in range(folds):
        corpus = split_table(data, columns, DataSettings(folds=folds, fold=fold, **more))  # type: ignore[arg-type]
        lines = {name: set(part.lines) for name, part in corpus.parts.items()}
        assert not lines["train"] & lines["validation"]
        assert set().union(*lines.values()) == set(data.lines)
        assert f"fold {fold + 1} of {folds} (data.fold {fold})" in corpus.report()
        if columns.label_kind == "class":
            assert set(corpus.parts["train"].labels) == set(data.columns["label"])
        found.append(lines["validation"])
    return found


some_rows = st.lists(
    st.tuples(st.text("abc", min_size=1, max_size=6), st.sampled_from("xyz"), st.sampled_from("12345678")),
    min_size=6, max_size=60,
)  # fmt: skip


@pytest.mark.slow
@checking(deadline=None, max_examples=60)
@given(some_rows, st.integers(2, 5), st.integers(0, 3), st.booleans(), st.booleans(), st.randoms(use_true_random=False))
def test_folds_are_disjoint_cover_all_and_part_nothing(
    rows: list[tuple[str, str, str]], folds: int, seed: int, together: bool, tested: bool, random: Random
) -> None:
    more = {"split_seed": seed, "split_by": "who" if together else None, "test_fraction": 0.2 * tested}

    def made(rows: list[tuple[str, str, str]]) -> Table:
        texts, labels, who = (list(column) for column in zip(*rows, strict=True))
        return table(texts, labels, who=who)

    data = made(rows)
    try:
        found = fold_lines(data, folds, **more)
    except DataError:
        assume(False)
    homes = defaultdict(set)
    for fold, lines in enumerate(found):
        for line in lines:
            homes["line", line].add(fold)
            homes["text", data.columns["text"][line - 2]].add(fold)
            if together:
                homes["who", data.columns["who"][line - 2]].add(fold)
    assert all(len(folds) == 1 for folds in homes.values())
    corpus = split_table(data, CLASSES, DataSettings(folds=folds, **more))  # type: ignore[arg-type]
    tests = set(corpus.parts["test"].lines) if tested else set()
    kept = set(data.lines) - tests - set().union(*found)
    if kept:  # only where a class cannot be told without them, and said
        assert f"in training in every fold: {len(kept):,} row" in corpus.report()
    shuffled = list(rows)
    random.shuffle(shuffled)
    again = split_table(made(shuffled), CLASSES, DataSettings(folds=folds, **more))  # type: ignore[arg-type]
    assert Counter(again.parts["validation"].texts) == Counter(corpus.parts["validation"].texts)


@pytest.mark.slow
@checking(deadline=None, max_examples=40)
@given(st.lists(st.integers(2, 40), min_size=2, max_size=7), st.integers(2, 6), st.integers(0, 3))
def test_every_class_is_spread_evenly_and_all_rows_are_held_out(sizes: list[int], folds: int, seed: int) -> None:
    labels = [f"class {number}" for number, size in enumerate(sizes) for _ in range(size)]
    assume(len(labels) >= folds)
    data = table([f"text {number}" for number in range(len(labels))], labels)
    try:
        found = fold_lines(data, folds, split_seed=seed)
    except DataError:
        assume(False)
    assert set().union(*found) == set(data.lines)
    for name in set(labels):
        counts = [sum(labels[line - 2] == name for line in lines) for lines in found]
        assert max(counts) - min(counts) <= 1
    whole = [len(lines) for lines in fold_lines(data, folds, AMOUNTS, split_seed=seed)]
    assert max(whole) - min(whole) <= 1


def test_the_seed_chooses_the_folds() -> None:
    data = table([f"text {number}" for number in range(60)], ["a", "b"] * 30)
    assert fold_lines(data, 3) == fold_lines(data, 3)
    assert fold_lines(data, 3) != fold_lines(data, 3, split_seed=1)


def test_a_class_of_one_stays_in_training() -> None:
    data = table([f"text {number}" for number in range(21)], ["a", "b"] * 10 + ["rare"])
    found = fold_lines(data, 4)
    assert set().union(*found) == set(data.lines) - {22}


@checking(deadline=None, max_examples=40)
@given(
    st.lists(st.integers(1, 30), min_size=2, max_size=6), st.floats(0.01, 1.0), st.floats(0.01, 1.0), st.integers(0, 3)
)
def test_smaller_training_parts_are_nested_and_keep_every_class(
    sizes: list[int], one: float, other: float, seed: int
) -> None:
    labels = [f"class {number}" for number, size in enumerate(sizes) for _ in range(size)]
    data = table([f"text {number}" for number in range(len(labels))], labels)

    def made(fraction: float) -> dict[str, list[int]]:
        settings = DataSettings(train_fraction=fraction, split_seed=seed, test_fraction=0.1)
        corpus = split_table(data, CLASSES, settings)
        assert set(corpus.parts["train"].labels) == set(labels)
        assert corpus.fingerprint == whole.fingerprint
        return {name: part.lines for name, part in corpus.parts.items()}

    try:
        whole = split_table(data, CLASSES, DataSettings(split_seed=seed, test_fraction=0.1))
    except DataError:
        assume(False)
    small, large = made(min(one, other)), made(max(one, other))
    assert set(small["train"]) <= set(large["train"]) <= set(whole.parts["train"].lines)
    for name in ("validation", "test"):
        assert small[name] == large[name] == whole.parts[name].lines
    wanted = max(1, round(min(one, other) * len(whole.parts["train"])))
    assert wanted <= len(small["train"]) <= wanted + len(sizes)


def test_a_part_of_the_training_rows_is_said_and_shortens_nothing_else() -> None:
    data = table([f"text {number}" for number in range(100)], ["a", "b"] * 50)
    corpus = split_table(data, CLASSES, DataSettings(train_fraction=0.1))
    assert len(corpus.parts["train"]) == 9
    assert sorted(Counter(corpus.parts["train"].labels).values()) == [4, 5]
    assert "10 % of the training part is learned from" in corpus.report()
    assert corpus.report().startswith("100 rows: 10 rows held out for validation")


def test_a_budget_is_that_of_the_rows_that_are_learned_from() -> None:
    config = resolve({}, {"task": "classification", "data.train_fraction": 0.1, "model": "bag"})
    whole = resolve({}, {"task": "classification", "model": "bag"})
    assert with_epochs(config, 100_000).training.epochs == with_epochs(whole, 10_000).training.epochs == 5
    assert with_epochs(whole, 100_000).training.epochs == 2


def test_pairs_and_pictures_have_folds_and_parts_too() -> None:
    lines = list(range(2, 42))
    pairs = Table("a.tsv", {"a": [f"eins {n // 2}" for n in lines], "b": [f"one {n}" for n in lines]}, lines)
    held = [split_pairs(pairs, "a", "b", DataSettings(folds=4, fold=fold)).parts["validation"] for fold in range(4)]
    assert sorted(line for part in held for line in part.lines) == lines
    assert len({text for part in held for text in part.sources}) == sum(len(set(part.sources)) for part in held)
    tenth = split_pairs(pairs, "a", "b", DataSettings(train_fraction=0.25))
    assert len(tenth.parts["train"]) == round(0.25 * 36)
    pixels, labels = bars(40)
    pictures = Pictures("some", pixels, labels, [f"{number}.png" for number in range(40)])
    fifths = [split_pictures(pictures, DataSettings(folds=5, fold=fold)).parts["validation"] for fold in range(5)]
    assert sorted(line for part in fifths for line in part.lines) == list(range(1, 41))
    few = split_pictures(pictures, DataSettings(train_fraction=0.5))
    assert Counter(few.parts["train"].labels) == {"lying": 9, "standing": 9}


def documents(folder: Path, count: int) -> str:
    folder.mkdir()
    for number in range(count):
        (folder / f"{number}.txt").write_text(f"document {number // 2} says ü " * 3)  # each of them twice
    return str(folder)


def test_documents_have_folds_and_one_text_has_none(tmp_path: Path) -> None:
    where = documents(tmp_path / "many", 20)
    chosen = []
    for fold in range(5):
        corpus = split_texts(open_source(where, DataSettings()), DataSettings(folds=5, fold=fold, test_fraction=0.2))
        inside = [corpus.parts[name].chosen for name in ("train", "validation", "test")]
        assert np.array_equal(sum(part.astype(int) for part in inside), np.ones(20))
        chosen.append(inside[1])
    assert np.array_equal(sum(one.astype(int) for one in chosen), 1 - inside[2].astype(int))
    alone = tmp_path / "one.txt"
    alone.write_text("just one text " * 50)
    with pytest.raises(DataError, match="is one text, which has no folds"):
        split_texts(open_source(str(alone), DataSettings()), DataSettings(folds=5))
    with pytest.raises(DataError, match=r"20 documents, 10 of them different: too few for 11 folds"):
        split_texts(open_source(where, DataSettings()), DataSettings(folds=11))


def test_a_part_of_documents_or_the_head_of_one_text(tmp_path: Path) -> None:
    where = documents(tmp_path / "many", 40)
    parts = {
        share: split_texts(open_source(where, DataSettings()), DataSettings(train_fraction=share))
        for share in (0.1, 0.5, 1.0)
    }
    counts = [parts[share].parts["train"].documents for share in (0.1, 0.5, 1.0)]
    assert counts == [4, 18, 36]
    assert not (parts[0.1].parts["train"].chosen & ~parts[0.5].parts["train"].chosen).any()
    assert len({corpus.fingerprint for corpus in parts.values()}) == 1
    assert len({corpus.parts["validation"].fingerprint for corpus in parts.values()}) == 1
    alone = tmp_path / "one.txt"
    alone.write_text("".join(map(str, range(300))))
    few = split_texts(open_source(str(alone), DataSettings()), DataSettings(train_fraction=0.5))
    all_of_it = split_texts(open_source(str(alone), DataSettings()), DataSettings())
    texts = ["".join(chunk.text for chunk in corpus.parts["train"].chunks()) for corpus in (few, all_of_it)]
    assert texts[1].startswith(texts[0])
    assert len(texts[0]) == len(texts[1]) // 2
    assert few.parts["validation"].span == all_of_it.parts["validation"].span


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"folds": 1}, "data.folds is 1, but must be at least 2"),
        ({"folds": 4, "fold": 4}, "data.fold 4 is none of data.folds 4: they count from 0 on"),
        ({"folds": 4, "validation": "v.csv"}, "leave --validation v.csv away"),
        ({"train_fraction": 0.0}, "data.train_fraction is 0.0, but must be above 0"),
        ({"train_fraction": 1.5}, "data.train_fraction is 1.5, but must be at most 1"),
        ({"train_fraction": 0.5, "refit": True}, "leaves rows out, and a refit learns from all"),
    ],
)
def test_settings_that_cannot_be(settings: dict[str, object], said: str) -> None:
    with pytest.raises(SettingError, match=said):
        DataSettings(**settings)  # type: ignore[arg-type]


def test_idle_settings_are_refused() -> None:
    with pytest.raises(SettingError, match=r"data\.fold does nothing without data\.folds"):
        resolve({}, {"task": "classification", "data.fold": 1})
    with pytest.raises(SettingError, match=r"data\.validation_fraction does nothing while data\.folds is 5"):
        resolve({}, {"task": "classification", "data.folds": 5, "data.validation_fraction": 0.2})


def test_folds_over_time_are_refused() -> None:
    days = [f"2024-01-{day:02}" for day in range(1, 21)]
    data = table([f"text {day}" for day in days], ["a", "b"] * 10, day=days)
    with pytest.raises(DataError, match="would learn from rows later than those held out"):
        split_table(data, CLASSES, DataSettings(folds=4, split_by="day"))


def test_a_refit_learns_from_the_validation_part_and_leaves_the_test_alone(tmp_path: Path) -> None:
    data = table([f"text {number}" for number in range(100)], ["a", "b"] * 50)
    before = split_table(data, CLASSES, DataSettings(test_fraction=0.2))
    after = split_table(data, CLASSES, DataSettings(test_fraction=0.2, refit=True))
    assert set(after.parts) == {"train", "test"}
    assert after.parts["test"].lines == before.parts["test"].lines
    assert sorted(after.parts["train"].lines) == sorted(before.parts["train"].lines + before.parts["validation"].lines)
    assert after.fingerprint == before.fingerprint
    given = tmp_path / "v.csv"
    given.write_text("text,label,number\nnew one,a,1\nnew two,b,2\n")
    joined = split_table(data, CLASSES, DataSettings(refit=True, validation=str(given)))
    assert joined.parts["train"].texts[-2:] == ["new one", "new two"]
    assert len(joined.parts["train"]) == 102
    where = documents(tmp_path / "many", 20)
    corpus = split_texts(open_source(where, DataSettings()), DataSettings(test_fraction=0.2, refit=True))
    assert {name: part.documents for name, part in corpus.parts.items()} == {"train": 16, "test": 4}
    alone = tmp_path / "one.txt"
    alone.write_text("just one text " * 50)
    corpus = split_texts(open_source(str(alone), DataSettings()), DataSettings(test_fraction=0.2, refit=True))
    assert {name: part.span for name, part in corpus.parts.items()} == {"train": (0, 560), "test": (560, 700)}
    with pytest.raises(DataError, match="put both into one folder"):
        split_texts(open_source(where, DataSettings()), DataSettings(refit=True, validation=str(alone)))
