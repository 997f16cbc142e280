import statistics

import pytest

from glassformer.data.datasets import generated as posts
from glassformer.data.datasets.embedded import DATASETS
from glassformer.data.datasets.generated import post_rows

ROWS = [dict(zip(DATASETS["posts"].columns, row, strict=True)) for row in post_rows(rows=6000, seed=0)]


def share(rows: list[dict[str, str]]) -> float:
    assert len(rows) > 200
    return statistics.mean(row["viral"] == "yes" for row in rows)


def test_a_third_goes_viral() -> None:
    assert {row["viral"] for row in ROWS} == {"yes", "no"}
    assert 0.3 < share(ROWS) < 0.4


def test_texts_are_mostly_different_and_filled_in() -> None:
    assert len({row["text"] for row in ROWS}) > 0.8 * len(ROWS)
    assert not any(sign in row["text"] for row in ROWS for sign in ("{", "}", "|", "  ", " a e", " a a", " a u"))


def test_numbers() -> None:
    assert {int(row["hour"]) for row in ROWS} == set(range(24))
    assert {int(row["hashtags"]) for row in ROWS} == set(range(7))
    assert {int(row["links"]) for row in ROWS} == set(range(4))
    followers = [int(row["followers"]) for row in ROWS]
    assert 10 <= min(followers) < 200
    assert 50_000 < max(followers) < 10**6


@pytest.mark.parametrize(
    ("more", "less"),
    [
        (lambda row: "penguin" in row["text"] or "kitten" in row["text"], lambda row: "meeting" in row["text"]
         or "sky" in row["text"] or "rain" in row["text"]),
        (lambda row: "share" in row["text"], lambda row: "good night" in row["text"] or "tomorrow" in row["text"]),
        (lambda row: row["text"].startswith(("you will not", "unpopular")), lambda row: row["text"].startswith(
            ("small update", "note to self"))),
        (lambda row: len(row["followers"]) >= 5, lambda row: len(row["followers"]) <= 3),
        (lambda row: 17 <= int(row["hour"]) <= 22, lambda row: 6 <= int(row["hour"]) <= 16),
        (lambda row: 6 <= int(row["hour"]) <= 16, lambda row: int(row["hour"]) <= 5),
        (lambda row: row["hashtags"] in "123", lambda row: row["hashtags"] in "0456"),
        (lambda row: row["links"] == "0", lambda row: row["links"] in "23"),
    ],
    ids=["topic", "ending", "opener", "followers", "evening", "night", "hashtags", "links"],
)  # fmt: skip
def test_what_carries_a_post(more, less) -> None:  # type: ignore[no-untyped-def]
    assert share([row for row in ROWS if more(row)]) > share([row for row in ROWS if less(row)]) + 0.04


def test_luck_decides_about_one_in_ten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(posts, "LUCK", 0.0)
    deserved = list(post_rows(rows=6000, seed=0))
    right = statistics.mean(row["viral"] == fair[-1] for row, fair in zip(ROWS, deserved, strict=True))
    assert 0.87 < right < 0.93
    assert [row["text"] for row in ROWS] == [fair[0] for fair in deserved]
