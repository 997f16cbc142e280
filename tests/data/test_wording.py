"""Words for people: so many of a thing, and the first few of many."""

import pytest

from glassformer.data.wording import RowPosition, counted, line_in_words, lines_in_words, listed


@pytest.mark.parametrize(("count", "said"), [(0, "0 rows"), (1, "1 row"), (2, "2 rows"), (1234, "1,234 rows")])
def test_so_many(count: int, said: str) -> None:
    assert counted(count, "row") == said


def test_what_several_are_called() -> None:
    assert [counted(count, "class has", "classes have") for count in (1, 2)] == ["1 class has", "2 classes have"]


def test_the_first_few() -> None:
    assert listed([]) == ""
    assert listed("abc") == listed(iter("abc"), 3) == "a, b, c"
    assert listed("abc", 2) == "a, b, …"
    assert listed([1, 23456, "x"], between=" and ") == "1 and 23,456 and x"
    assert listed(range(12)) + ", …" == listed(range(13))


def test_lines() -> None:
    assert lines_in_words([7]) == "line 7"
    assert lines_in_words([1, 2, 3, 4, 5000]) == "lines 1, 2, 3, 4, 5,000"
    assert lines_in_words([1, 2, 3, 4, 5, 6], "number") == "numbers 1, 2, 3, 4, 5, …"


def test_rows_in_memory_have_positions_instead_of_lines() -> None:
    rows = [RowPosition(row) for row in (0, 1234)]
    assert [line_in_words(row) for row in rows] == ["row 0 (counted from 0)", "row 1,234 (counted from 0)"]
    assert lines_in_words(rows) == "rows 0, 1,234 (counted from 0)"
    assert lines_in_words(rows[:1]) == "row 0 (counted from 0)"
    assert (line_in_words(7), lines_in_words([7, 9])) == ("line 7", "lines 7, 9")
