"""What is odd about pairs of texts."""

import json

import pytest

from glassformer.config.errors import DataError
from glassformer.data.check.tables import DataCheck, Spread
from glassformer.data.check.texts import check_pairs
from glassformer.data.io.table import Table


def checked(*pairs: tuple[str, str], **how: object) -> DataCheck:
    sources, targets = [one for one, _ in pairs], [other for _, other in pairs]
    table = Table("a.tsv", {"en": sources, "de": targets}, [2 * row + 2 for row in range(len(pairs))])
    return check_pairs(table, "en", "de", **how)  # type: ignore[arg-type]


USUAL = [(f"the cat number {n}", f"die Katze {n} da") for n in range(10, 20)]


def count_words(texts: list[str]) -> list[int]:
    return [len(text.split()) for text in texts]


def test_nothing_to_find() -> None:
    found = checked(("a cat", "Katze"), ("a big dog", "ein Hund!"))
    assert found.counts.pop("rows") == 2
    assert set(found.counts.values()) == {0}
    assert found.lengths["source words"] == Spread(2, 2, 3, 3, 3)
    assert found.lengths["target words"] == Spread(1, 1, 2, 2, 2)
    assert found.lengths["source tokens"] is found.lengths["target tokens"] is None
    assert found.findings == []


def test_empty_sides() -> None:
    found = checked(*USUAL, (" ", "x"), ("x", ""), ("", "\t"), ("y", ""))
    assert (found.counts["rows"], found.counts["empty_sources"], found.counts["empty_targets"]) == (14, 2, 3)
    assert found.findings == [
        "2 sources are empty and would be left out: lines 22, 26",
        "3 targets are empty and would be left out: lines 24, 26, 28",
    ]
    assert checked(*USUAL, ("x", "")).findings == ["1 target is empty and would be left out: line 22"]


def test_what_occurs_again() -> None:
    pairs = [("a b", "x y"), ("c", "z"), (" a b", "x y "), ("a b", "y x"), ("c", "z"), ("d", "z"), ("same", " same ")]
    found = checked(*pairs)
    assert (found.counts["repeated_pairs"], found.counts["ambiguous_sources"], found.counts["copies"]) == (2, 1, 1)
    assert found.findings == [
        "1 target is the source over again: line 14",
        "2 rows repeat an earlier pair: lines 6, 10",
        "1 source occurs with different targets: line 2",
    ]
    many = checked(*[(str(n // 2), f"{n:02}") for n in range(14)])
    assert many.findings == ["7 sources occur with different targets: lines 2, 6, 10, 14, 18, …"]


def test_odd_lengths() -> None:
    """Usual is a target twice as long as its source."""
    usual = [("x" * n, "y" * 2 * n) for n in range(20, 60)]
    pairs = [*usual, ("a" * 10, "b" * 61), ("c" * 10, "b" * 60), ("a" * 11, "b" * 7), ("a" * 30, "b" * 2)]
    found = checked(*pairs)
    assert found.counts["odd_lengths"] == 3
    assert found.findings == [
        "3 targets are more than 3 times longer or shorter than usual (2.00 characters for one of the source) and may "
        "not be a translation: lines 88, 86, 82"
    ]
    assert checked(*usual, ("Hi", "b" * 13), ("a" * 5, "b")).counts["odd_lengths"] == 0  # short ones may differ
    assert checked(*usual, ("Hi", "b" * 14), ("a" * 6, "b")).counts["odd_lengths"] == 2


def test_lengths_and_the_context() -> None:
    pairs = [(" ".join("w" * n), " ".join("v" * (101 - n))) for n in range(1, 101)]
    found = checked(*pairs, lengths=count_words, context=97)
    assert found.lengths["source words"] == found.lengths["source tokens"] == Spread(1, 50, 90, 99, 100)
    assert found.lengths["target words"] == found.lengths["target tokens"] == Spread(1, 50, 90, 99, 100)
    assert found.counts["too_long"] == 6
    assert found.findings[-1] == (
        "6 pairs are longer than 97 tokens and would be left out, or cut there (--model.context, --data.too_long): "
        "lines 2, 4, 6, 196, 198, …"
    )
    assert checked(*pairs, lengths=count_words, context=100).counts["too_long"] == 0
    assert not any("tokens" in line for line in checked(*pairs, lengths=count_words, context=100).findings)
    both = checked(*pairs, lengths=count_words, target_lengths=lambda texts: [7] * len(texts), context=97)
    assert both.lengths["target tokens"] == Spread(7, 7, 7, 7, 7)
    assert both.lengths["source tokens"] == found.lengths["source tokens"]
    assert both.counts["too_long"] == 3


def test_no_pair_at_all() -> None:
    found = checked(("", "x"), ("y", ""), lengths=count_words, context=5)
    assert set(found.lengths.values()) == {None}
    assert found.counts["too_long"] == 0
    assert len(found.findings) == 2


def test_as_plain_values() -> None:
    plain = checked(*USUAL, lengths=count_words, context=4).to_dict()
    assert json.loads(json.dumps(plain)) == plain
    assert plain["lengths"]["source words"] == {"min": 4, "median": 4, "p90": 4, "p99": 4, "max": 4}


def test_columns_that_are_not_there() -> None:
    with pytest.raises(DataError, match=r"a.tsv: no column 'fr' \(columns: en\): name one with --target"):
        check_pairs(Table("a.tsv", {"en": ["a"]}, [2]), "en", "fr")
    with pytest.raises(DataError, match="name one with --source"):
        check_pairs(Table("a.tsv", {"en": ["a"]}, [2]), "fr", "en")
