"""Texts that are the same but for their letters, and near-duplicates, are never in two parts."""

import dataclasses
from collections.abc import Callable
from random import Random

import numpy as np
import pytest

from glassformer.config.errors import DataError
from glassformer.config.presets import TABLE
from glassformer.config.sections import DataSettings
from glassformer.data.check.tables import check_table
from glassformer.data.check.texts import check_pairs
from glassformer.data.columns.inference import Columns
from glassformer.data.io.source import Source
from glassformer.data.io.table import Table
from glassformer.data.order import UInts
from glassformer.data.same_text import DIFFERENCES
from glassformer.data.split.documents import split_texts
from glassformer.data.split.labelled import Labelled, split_table
from glassformer.data.split.pairs import split_pairs

CLASSES = Columns("text", "label", "class", "")
FIFTH = DataSettings(validation_fraction=0.2, test_fraction=0.1)
EXACT = dataclasses.replace(FIFTH, same_text="exact")
TOGETHER = dataclasses.replace(FIFTH, near_duplicates="together")
LETTERS = f"written differently: {DIFFERENCES}"


def sentences(count: int) -> list[str]:
    random = Random(1)
    words = ["".join(random.choices("abcdefghijklm", k=5)) for _ in range(499)]
    return [" ".join(random.choices(words, k=9)) for _ in range(count)]


def in_three_cases(count: int) -> list[str]:
    return [form for text in sentences(count) for form in (text, text.upper(), f" {text.title()}")]


def near_copies(count: int) -> list[str]:
    return [copy for text in sentences(count) for copy in (text, f"another {text.split(' ', 1)[1]}")]


def table(texts: list[str], **columns: list[str]) -> Table:
    labels = [str(Random(row).randrange(2)) for row in range(len(texts))]
    return Table("a.csv", {"text": texts, "label": labels, **columns}, list(range(2, len(texts) + 2)))


def shared(parts: dict[str, Labelled]) -> int:
    """Keys that stand in two parts."""
    each: list[UInts] = [np.unique(part.keys) for part in parts.values()]
    return int(sum(map(len, each)) - len(np.unique(np.concatenate(each))))


def test_rows() -> None:
    data = table(in_three_cases(40))
    corpus, before = split_table(data, CLASSES, FIFTH), split_table(data, CLASSES, EXACT)
    assert shared(corpus.parts) == 0
    assert shared(before.parts) > 10
    assert sum(map(len, corpus.parts.values())) == 120
    assert f"80 rows repeat an earlier text (80 of them {LETTERS})" in corpus.remarks
    assert not any("repeat" in remark for remark in before.remarks)
    assert corpus.fingerprint == before.fingerprint


@pytest.mark.parametrize(
    "copy",
    [
        lambda text: text.replace(" ", " \u200b"),
        lambda text: text.replace("12.3", "12.300"),
        lambda text: text.replace("&", "&amp;"),
        lambda text: text.replace("o", "\u043e"),  # Cyrillic
    ],
)
def test_copies_that_look_alike_stay_together_and_are_counted(copy: Callable[[str], str]) -> None:
    texts = [f"{text} & 12.3 so" for text in sentences(60)]
    data = table([copied for text in texts for copied in (text, copy(text))])
    corpus = split_table(data, CLASSES, FIFTH)
    assert shared(corpus.parts) == 0
    assert f"60 rows repeat an earlier text (60 of them {LETTERS})" in corpus.remarks


def test_rows_of_numbers_that_are_equal_stay_together() -> None:
    numbers = [f"{row}.5" for row in range(60)]
    data = table([""] * 120, number=[written for number in numbers for written in (number, f"{number}00")])
    columns = Columns(None, "label", "class", "", TABLE, ("number",))
    assert shared(split_table(data, columns, FIFTH).parts) == 0


def test_folds_and_dates() -> None:
    data = table(in_three_cases(40), day=[f"2024-01-{1 + row % 28:02}" for row in range(120)])
    for more in ({"folds": 5, "fold": 3}, {"split_by": "day"}):
        assert shared(split_table(data, CLASSES, dataclasses.replace(FIFTH, **more)).parts) == 0


def test_where_no_text_repeats_both_rules_divide_alike() -> None:
    data = table([text.title() for text in sentences(60)])
    one, other = (split_table(data, CLASSES, settings).parts.values() for settings in (FIFTH, EXACT))
    assert [part.texts for part in one] == [part.texts for part in other]


def test_too_few_are_counted_by_the_rule() -> None:
    with pytest.raises(DataError, match="3 rows, 1 of them different: too few for 3 parts"):
        split_table(table(["A b", "a B", "a  b"]), CLASSES, FIFTH)


def test_a_file_of_its_own(tmp_path_factory: pytest.TempPathFactory) -> None:
    file = tmp_path_factory.mktemp("files") / "test.csv"
    file.write_text("text,label\nTEXT 1,1\ntext 999,0\n", encoding="utf-8")
    data = table([f"text {row}" for row in range(20)])
    for rule, said in (("normal", True), ("exact", False)):
        corpus = split_table(data, CLASSES, DataSettings(validation_fraction=0, test=str(file), same_text=rule))
        assert ("warning: 1 of 2 rows of test also in training" in corpus.remarks) is said


def test_documents() -> None:
    source = Source("rows", lambda: (iter([text]) for text in in_three_cases(40)))
    for settings, together in ((FIFTH, True), (EXACT, False)):
        keys = [part.keys for part in split_texts(source, settings).parts.values()]
        assert sum(map(len, keys)) == 120
        assert (sum(len(np.unique(one)) for one in keys) == 40) is together


def test_pairs() -> None:
    sources = in_three_cases(40)
    data = Table("a.tsv", {"en": sources, "de": [f"Satz {row}" for row in range(120)]}, list(range(2, 122)))
    corpus = split_pairs(data, "en", "de", FIFTH)
    assert sum(len(np.unique(part.keys)) for part in corpus.parts.values()) == 40
    assert f"80 rows repeat an earlier source (80 of them {LETTERS})" in corpus.remarks
    assert sum(len(np.unique(part.keys)) for part in split_pairs(data, "en", "de", EXACT).parts.values()) > 50


# --- near-duplicates ---


def homes(parts: dict[str, Labelled]) -> list[set[str]]:
    """The parts of each text and its near-copy, which begins with another word."""
    found: dict[str, set[str]] = {}
    for name, part in parts.items():
        for text in part.texts:
            found.setdefault(text.split(" ", 1)[1], set()).add(name)
    return list(found.values())


def test_near_duplicates_are_kept_together_where_that_is_wanted() -> None:
    data = table(near_copies(50))
    corpus = split_table(data, CLASSES, TOGETHER)
    assert all(len(names) == 1 for names in homes(corpus.parts))
    assert any(len(names) > 1 for names in homes(split_table(data, CLASSES, FIFTH).parts))
    assert "50 texts are nearly the same as an earlier one and in one part with it (data.near_duplicates)" in (
        corpus.remarks
    )
    assert (
        shared(split_table(table(in_three_cases(40)), CLASSES, dataclasses.replace(TOGETHER, same_text="exact")).parts)
        == 0
    )


def test_near_duplicates_among_documents_and_pairs() -> None:
    texts = near_copies(50)
    documents = split_texts(Source("rows", lambda: (iter([text]) for text in texts)), TOGETHER)
    for part in documents.parts.values():
        chosen = np.flatnonzero(part.chosen)
        assert (np.bincount(chosen // 2)[np.unique(chosen // 2)] == 2).all()
    assert "50 documents are nearly the same" in documents.report()
    pairs = split_pairs(Table("a.tsv", {"en": texts, "de": texts}, list(range(2, 102))), "en", "de", TOGETHER)
    assert all(len(names) == 1 for names in homes(pairs.parts))


# --- rows that are more than a text ---


def test_equal_is_equal_in_all_that_is_read() -> None:
    texts, colours = ["the same text everywhere"] * 60, [f"colour {row % 30}" for row in range(60)]
    mixed = dataclasses.replace(CLASSES, kind="mixed", also=("colour",))
    data = table(texts, colour=colours)
    corpus = split_table(data, mixed, FIFTH)
    assert {name: len(part) for name, part in corpus.parts.items()} == {"train": 42, "validation": 12, "test": 6}
    assert shared(corpus.parts) == 0
    assert "30 rows repeat an earlier text" in corpus.remarks
    assert check_table(data, mixed).counts["repeated_texts"] == 30
    with pytest.raises(DataError, match="1 of them different"):
        split_table(data, mixed, EXACT)


def test_an_image_is_read_too() -> None:
    pixels = np.arange(6, dtype=np.uint8).reshape(6, 1, 1, 1).repeat(2, axis=0)
    part = Labelled("whole", ["a Text", "A text"] * 6, ["x"] * 12, list(range(12)), "a.csv", pixels=pixels)
    assert len(np.unique(part.keys)) == 6


# --- before anything is trained ---


def test_check_names_other_letters_and_near_duplicates() -> None:
    checked = check_table(table([*in_three_cases(20), *near_copies(3)[1::2]]), CLASSES)
    assert checked.counts["repeated_texts"] == 40
    assert checked.counts["near_duplicates"] == 3
    repeats, near = (finding for finding in checked.findings if "repeat" in finding or "nearly" in finding)
    assert repeats == f"40 rows repeat an earlier text (40 of them {LETTERS}): lines 3, 4, 6, 7, 9, …"
    text, copy = near_copies(1)
    assert near == (
        f"3 texts are nearly the same as an earlier one: '{text}' (line 2) and '{copy}' (line 62); "
        "--data.near_duplicates together keeps such texts in one part"
    )
    assert check_table(table(in_three_cases(20)), CLASSES, settings=EXACT).counts["repeated_texts"] == 0


def test_check_of_pairs() -> None:
    sources = [*in_three_cases(5), *near_copies(2)[1::2]]
    data = Table("a.tsv", {"en": sources, "de": [f"{row // 3} Mal" for row in range(17)]}, list(range(2, 19)))
    checked = check_pairs(data, "en", "de")
    assert tuple(checked.counts[name] for name in ("repeated_pairs", "near_duplicates", "ambiguous_sources")) == (
        10,
        2,
        0,
    )
    assert any(f"10 rows repeat an earlier pair (10 of them {LETTERS})" in finding for finding in checked.findings)
    assert check_pairs(data, "en", "de", same_text="exact").counts["repeated_pairs"] == 0
