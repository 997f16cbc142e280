"""Pairs of texts, divided."""

import dataclasses
from collections import Counter, defaultdict
from pathlib import Path
from random import Random

import pytest
from hypothesis import assume, given
from hypothesis import settings as checking
from hypothesis import strategies as st

from glassformer.config.errors import DataError
from glassformer.config.sections import DataSettings
from glassformer.data.io.table import Table
from glassformer.data.split.pairs import PairCorpus, split_pairs, whole_pairs

FIFTH = DataSettings(validation_fraction=0.2, test_fraction=0.1)


def table(sources: list[str], targets: list[str], **columns: list[str]) -> Table:
    both = {"source": sources, "target": targets}
    return Table("a.tsv", {**both, **columns}, [number + 2 for number in range(len(sources))])


def numbered(count: int) -> Table:
    return table([f"text {number}" for number in range(count)], [f"Text {number}" for number in range(count)])


def split(data: Table, settings: DataSettings = FIFTH) -> PairCorpus:
    return split_pairs(data, "source", "target", settings)


def rows_of(corpus: PairCorpus) -> dict[str, set[tuple[str, str, int]]]:
    for name, part in corpus.parts.items():
        assert part.name == name
        assert len(part) == len(part.sources) == len(part.targets) == len(part.lines)
        assert part.lines == sorted(part.lines)
    return {n: set(zip(p.sources, p.targets, p.lines, strict=True)) for n, p in corpus.parts.items()}


def refused(data: Table, settings: DataSettings = FIFTH, source: str = "source", target: str = "target") -> str:
    with pytest.raises(DataError) as caught:
        split_pairs(data, source, target, settings)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def write(path: Path, *rows: tuple[str, str], names: str = "source\ttarget") -> str:
    path.write_text("\n".join([names, *("\t".join(row) for row in rows)]))
    return str(path)


text = st.text("abc ", max_size=8)


@pytest.mark.slow
@checking(deadline=None)
@given(
    st.lists(st.tuples(text, text, st.sampled_from("12345678")), min_size=8, max_size=60),
    st.integers(0, 3),
    st.booleans(),
    st.randoms(use_true_random=False),
)
def test_what_every_split_keeps_to(rows: list[tuple[str, str, str]], seed: int, together: bool, random: Random) -> None:
    by = "who" if together else None
    settings = DataSettings(validation_fraction=0.2, test_fraction=0.2, split_seed=seed, split_by=by, bad_rows="skip")

    def made(rows: list[tuple[str, str, str]]) -> Table:
        sources, targets, who = (list(column) for column in zip(*rows, strict=True))
        return table(sources, targets, who=who)

    try:
        corpus = split(made(rows), settings)
    except DataError:
        assume(False)
    found = rows_of(corpus)
    filled = {(a, b, n) for n, (a, b, _) in enumerate(rows, 2) if a.strip() and b.strip()}
    assert set().union(*found.values()) == filled  # every row
    assert sum(map(len, found.values())) == len(filled)  # in one part
    homes = defaultdict(set)
    for name, part in corpus.parts.items():
        assert part.sources
        for source, line in zip(part.sources, part.lines, strict=True):
            homes["source", source.strip()].add(name)
            if together:
                homes["who", rows[line - 2][2]].add(name)
    assert all(len(names) == 1 for names in homes.values())
    shuffled = list(rows)
    random.shuffle(shuffled)
    again = split(made(shuffled), settings)
    for name, part in corpus.parts.items():
        mixed = again.parts[name]
        assert Counter(zip(part.sources, part.targets, strict=True)) == Counter(
            zip(mixed.sources, mixed.targets, strict=True)
        )


def test_sources_with_several_targets_stay_together() -> None:
    sources = [f"text {number // 2}" + " " * (number % 2) for number in range(200)]
    corpus = split(table(sources, [f"Text {number}" for number in range(200)]))
    assert {name: len(part) for name, part in corpus.parts.items()} == {"train": 140, "validation": 40, "test": 20}
    parts = [{source.strip() for source in part.sources} for part in corpus.parts.values()]
    assert [len(part) for part in parts] == [70, 20, 10]
    assert len(set().union(*parts)) == 100
    one_target = split(table([f"text {number}" for number in range(200)], ["always the same"] * 200))
    assert [len(part) for part in one_target.parts.values()] == [140, 40, 20]  # targets bind nothing


def test_the_report() -> None:
    sources = [f"text {number}" for number in range(97)] + ["text 3", " ", "text 4 ", "only", "none"]
    targets = [f"Text {number}" for number in range(100)] + ["\t", ""]
    data = dataclasses.replace(table(sources, targets), remarks=("from en to de",))
    corpus = split(data)
    assert corpus.report() == (
        "99 rows: 20 rows held out for validation and 10 rows held out for the test; from en to de; "
        "skipped: 3 rows without a source or target, lines 100, 102, 103; 2 rows repeat an earlier source"
    )
    small = split(numbered(60))
    assert tuple(small.remarks[1:]) == ("warning: a score over 6 rows of test says little",)
    nothing = split(numbered(60), DataSettings(validation_fraction=0.0))
    assert tuple(nothing.remarks) == ("60 rows",)
    assert list(nothing.parts) == ["train"]
    assert nothing.parts["train"].origin == "a.tsv"


def test_the_seed_chooses() -> None:
    one, same, other = (rows_of(split(numbered(101), DataSettings(split_seed=seed))) for seed in (0, 0, 1))
    assert one == same != other


def test_split_by_a_column() -> None:
    data = numbered(120)
    data.columns["who"] = [f"author {number % 17}" for number in range(120)]
    corpus = split(data, dataclasses.replace(FIFTH, split_by="who"))
    found = [{data.columns["who"][line - 2] for line in part.lines} for part in corpus.parts.values()]
    assert sum(map(len, found)) == len(set().union(*found)) == 17
    assert "split by column 'who': rows alike in it stay together" in corpus.remarks
    data.columns["day"] = [f"2024-01-{number % 30 + 1:02}" for number in range(120)]
    corpus = split(data, dataclasses.replace(FIFTH, split_by="day"))
    days = [{data.columns["day"][line - 2] for line in part.lines} for part in corpus.parts.values()]
    assert max(days[0]) < min(days[1])
    assert max(days[1]) < min(days[2])
    assert "split by time, column 'day': validation from 2024-01-22, test from 2024-01-28" in corpus.remarks


def test_rows_without_a_text_do_not_shift_the_column_split_by() -> None:
    """Several rows may even begin on one line, as in a translation memory."""
    who = [str(number // 10) for number in range(100)]
    data = numbered(100)
    data = Table("a.tmx", {**data.columns, "who": who}, [1] * 100)
    data.columns["source"][0] = data.columns["target"][1] = ""
    corpus = split(data, dataclasses.replace(FIFTH, split_by="who"))
    for part in corpus.parts.values():
        numbers = Counter(int(source.removeprefix("text ")) // 10 for source in part.sources)
        assert all(count == (8 if group == 0 else 10) for group, count in numbers.items())


def test_what_the_fingerprint_knows() -> None:
    def fingerprint(data: Table, **settings: str) -> str:
        return split(data, dataclasses.replace(FIFTH, **settings)).fingerprint  # type: ignore[arg-type]

    data = numbered(50)
    assert fingerprint(data) == fingerprint(numbered(50))
    other = numbered(50)
    other.columns["target"][7] += "."
    assert fingerprint(other) != fingerprint(data)
    data.columns["who"] = [str(number % 25) for number in range(50)]
    by = fingerprint(data, split_by="who")
    data.columns["who"][0] = "someone else"
    assert len({fingerprint(data), by, fingerprint(data, split_by="who")}) == 3


def test_given_files(tmp_path: Path) -> None:
    validation = write(tmp_path / "validation.tsv", ("text 3", "x"), (" text 3", "y"), ("a", " "), ("new", "z"))
    test = write(tmp_path / "test.tsv", ("other", "x"))
    corpus = split(numbered(30), DataSettings(validation=validation, test=test, test_fraction=0.3, bad_rows="skip"))
    found = rows_of(corpus)
    assert list(found) == ["train", "validation", "test"]
    assert len(found["train"]) == 30
    assert found["validation"] == {("text 3", "x", 2), (" text 3", "y", 3), ("new", "z", 5)}
    assert corpus.parts["validation"].origin == validation
    assert tuple(corpus.remarks) == (
        "30 rows",
        f"validation from {validation}: 3 rows",
        "skipped: 1 row without a source or target, line 4",
        "warning: 2 of 3 rows of validation also in training",
        f"test from {test}: 1 row",
    )
    half = split(numbered(30), DataSettings(test=test, validation_fraction=0.5))
    assert {name: len(part) for name, part in half.parts.items()} == {"train": 15, "validation": 15, "test": 1}
    assert list(half.parts) == ["train", "validation", "test"]
    assert half.fingerprint != split(numbered(30), DataSettings(validation_fraction=0.5)).fingerprint


def test_only_what_is_trained_on_counts_as_seen(tmp_path: Path) -> None:
    held = split(numbered(30), DataSettings(validation_fraction=0.0, test_fraction=0.2)).parts["test"]
    validation = write(tmp_path / "validation.tsv", *zip(held.sources, held.targets, strict=True))
    corpus = split(numbered(30), DataSettings(validation=validation, test_fraction=0.2))
    assert list(corpus.parts) == ["train", "validation", "test"]
    assert corpus.parts["test"].sources == corpus.parts["validation"].sources == held.sources
    assert not any("also in training" in remark for remark in corpus.remarks)


def test_a_given_translation_memory(tmp_path: Path) -> None:
    pair = '<tu><tuv lang="en"><seg>new</seg></tuv><tuv lang="de"><seg>neu</seg></tuv></tu>'
    (tmp_path / "a.tmx").write_text(f"<tmx>{pair}</tmx>")
    data = numbered(30)
    data = dataclasses.replace(data, columns={"de": data.columns["source"], "en": data.columns["target"]})
    settings = DataSettings(validation=str(tmp_path / "a.tmx"), source="de", target="en")
    corpus = split_pairs(data, "de", "en", settings)
    assert rows_of(corpus)["validation"] == {("neu", "new", 1)}
    assert "from de to en (--source, --target)" in corpus.remarks


def test_what_reading_a_given_file_chose_is_said(tmp_path: Path) -> None:
    pair = '<tu><tuv lang="en"><seg>new</seg></tuv><tuv lang="de"><seg>neu</seg></tuv></tu>'
    (tmp_path / "a.tmx").write_text(f"<tmx>{pair}</tmx>")
    corpus = split(numbered(30), DataSettings(test=str(tmp_path / "a.tmx")))
    assert rows_of(corpus)["test"] == {("new", "neu", 1)}
    assert tuple(corpus.remarks[-2:]) == (
        f"test from {tmp_path / 'a.tmx'}: 1 row",
        "from en to de (--source, --target)",
    )


def test_given_files_that_do_not_fit(tmp_path: Path) -> None:
    odd = write(tmp_path / "odd.tsv", ("a", "x"), names="source\ttarjet")
    assert refused(numbered(30), DataSettings(test=odd)) == (
        f"{odd}: no column 'target'; did you mean tarjet? (columns: source, tarjet): name one with --target"
    )
    data = numbered(30)
    data.columns["src"] = data.columns["source"]
    assert "no column 'src'; did you mean" in refused(data, DataSettings(test=odd), "src")
    assert "name one with --source" in refused(data, source="sorce")


def test_a_data_set_brings_its_own_test() -> None:
    data = dataclasses.replace(numbered(30), test=lambda: table(["own test"], ["x"]))
    assert split(data, DataSettings()).parts["test"].sources == ["own test"]
    assert len(split(data, DataSettings(test_fraction=0.1)).parts["test"]) == 3


def test_what_cannot_be_split() -> None:
    assert refused(table(["", "a"], ["b", " "])) == (
        "a.tsv: no row has a text in both column 'source' and column 'target'"
    )
    assert refused(table(["a"] * 9, [f"{number}" for number in range(9)])) == (
        "a.tsv has 9 rows, 1 of them different: too few for 3 parts (train, validation, test)"
    )


def test_all_pairs_as_one_part() -> None:
    skip = DataSettings(bad_rows="skip")
    part = whole_pairs(table(["a", "", "c"], ["x", "y", "z"]), "source", "target", "given", skip)
    assert (part.name, part.origin, part.lines) == ("given", "a.tsv", [2, 4])
    assert (part.sources, part.targets) == (["a", "c"], ["x", "z"])
    plain = whole_pairs(table(["a"], ["x"]), "en", "de", "given", skip)
    assert (plain.sources, plain.targets) == (["a"], ["x"])
    named = table(["a"], ["x"], en=["b"], de=["y"])
    assert whole_pairs(named, "en", "de", "given", skip).sources == ["b"]
    with pytest.raises(DataError, match="no row has a text in both"):
        whole_pairs(table([" "], ["x"]), "source", "target", "given", skip)
    with pytest.raises(DataError, match="1 of 3 rows cannot be used"):
        whole_pairs(table(["a", "", "c"], ["x", "y", "z"]), "source", "target", "given", DataSettings())
