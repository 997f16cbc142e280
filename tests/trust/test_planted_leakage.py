"""Planted leakage: labels that nobody can know from a text, on rows that know each other.

A model that has the sibling of a row in training could know its label by heart. Each kind is found by `data check`, and
kept on one side by the split, so that the test stays at chance; split in the way that lets it through, the same model
scores above, which shows that there was something to find.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date, timedelta
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

import glassformer as gf
from glassformer.cli.main import main
from glassformer.data.split.base import PURPOSES
from glassformer.families.evaluate import own_corpus
from glassformer.statistics.intervals import Interval, weighted_mean_interval
from helpers.attempts import Tried
from helpers.kinds import write_rows
from helpers.running import labelled

pytestmark = pytest.mark.trust

FAMILIES, WORDS = 120, 400
LEVEL = 0.9999
HELD_OUT = {"data.test_fraction": 0.3, "data.validation_fraction": 0.1}


@dataclass(frozen=True)
class Leak:
    """Siblings of a text, what `data check` says of them, and the settings that keep them together or let them part."""

    siblings: Callable[[list[str], Random], list[list[str]]]
    said: str
    together: dict[str, Any] = field(default_factory=dict)
    parted: dict[str, Any] = field(default_factory=dict)


def changed(words: list[str], chance: Random) -> list[str]:
    """One word of many is another."""
    place = chance.randrange(len(words))
    return [*words[:place], f"w{chance.randrange(WORDS)}", *words[place + 1 :]]


def styled(words: list[str], chance: Random) -> list[list[str]]:
    """Other letter cases, full-width letters, no-break spaces: one text to a tokenizer that lower-cases."""
    wide = [word.translate({ord("w"): "ｗ"}) for word in words]
    return [words, [word.upper() for word in words], wide, [f"{word}\u00a0" for word in words]]


LEAKS = {
    "copies": Leak(lambda words, chance: [words] * 3, "240 rows repeat an earlier text"),
    "copies in other letters": Leak(
        styled, "360 rows repeat an earlier text (360 of them written differently", parted={"data.same_text": "exact"}
    ),
    "near-copies": Leak(
        lambda words, chance: [words, changed(words, chance), changed(words, chance)],
        "texts are nearly the same as an earlier one",
        {"data.near_duplicates": "together"},
    ),
    "groups": Leak(
        lambda words, chance: [[words[0], *chance.sample(words, 6)] for _ in range(4)],
        "rows with equal values in column 'who' share a label more often than other rows",
        {"data.split_by": "who"},
    ),
}


@pytest.mark.parametrize("name", LEAKS)
@pytest.mark.parametrize("seed", range(3))
def test_siblings_of_a_row(
    name: str, seed: int, tmp_path: Path, tried: Tried, capsys: pytest.CaptureFixture[str]
) -> None:
    leak, chance = LEAKS[name], Random(f"{name} {seed}")
    rows = []
    for who in range(FAMILIES):
        words = [f"f{who}", *(f"w{chance.randrange(WORDS)}" for _ in range(14))]
        label = chance.choice(("yes", "no"))
        rows += [{"text": " ".join(one), "label": label, "who": f"p{who}"} for one in leak.siblings(words, chance)]
    chance.shuffle(rows)
    table = write_rows(tmp_path / "table.csv", rows)

    main(["data", "check", str(table), "--label", "label"])
    assert leak.said in capsys.readouterr().out

    def accuracy(settings: dict[str, Any], out: Path) -> tuple[Interval, set[str]]:
        learning = labelled("bag", training__steps=120, training__batch_size=32, training__validate_every=120)
        gf.train(table, out=out, label="label", **{**learning, **HELD_OUT, **settings, "training.lr": 0.1})
        records = gf.evaluate(out, part="test").records
        parts = own_corpus(gf.load(out)).parts
        right: dict[str, list[bool]] = {}  # by family: its rows stand and fall together
        for one, line in zip(records, parts["test"].lines, strict=True):
            right.setdefault(rows[line - 2]["who"], []).append(one["predicted"] == one["label"])
        shares, sizes = [float(np.mean(of)) for of in right.values()], [float(len(of)) for of in right.values()]
        members = {name: {rows[line - 2]["who"] for line in part.lines} for name, part in parts.items()}
        shared = set().union(*(members["train"] & members[other] for other in PURPOSES))
        return weighted_mean_interval(shares, sizes, LEVEL), shared

    right, shared = accuracy(leak.together, tmp_path / "together")
    assert not shared
    assert right.low <= 0.5 <= right.high, right
    if leak.parted or leak.together:
        right, shared = accuracy(leak.parted, tmp_path / "parted")
        assert shared
        assert right.low > 0.5, right
    tried(
        f"planted leakage: {name}",
        "random labels, three seeds",
        1,
        "found by `data check`; scores at chance after its advice",
    )


@pytest.mark.parametrize("seed", range(3))
def test_the_future(seed: int, tmp_path: Path, tried: Tried, capsys: pytest.CaptureFixture[str]) -> None:
    """Labels that follow the fashion of a month: who has read the month knows them."""
    chance = Random(seed)
    fashion = [chance.choice(("yes", "no")) for _ in range(12)]
    rows = []
    for day in range(360):
        text = " ".join([f"month{day // 30}", *(f"w{chance.randrange(WORDS)}" for _ in range(8))])
        rows.append({"text": text, "label": fashion[day // 30], "day": f"{date(2024, 1, 1) + timedelta(days=day)}"})
    chance.shuffle(rows)
    table = write_rows(tmp_path / "table.csv", rows)
    main(["data", "check", str(table), "--label", "label"])
    assert "labels change with time (column 'day')" in capsys.readouterr().out
    settings = {**labelled("bag", training__steps=1), **HELD_OUT, "data.split_by": "day"}
    gf.train(table, out=tmp_path / "run", label="label", **settings)
    days = {
        name: {rows[line - 2]["day"] for line in of.lines}
        for name, of in own_corpus(gf.load(tmp_path / "run")).parts.items()
    }
    assert max(days["train"]) < min(days["validation"])
    assert max(days["validation"]) < min(days["test"])
    tried(
        "planted leakage: time",
        "labels by month, three seeds",
        1,
        "found by `data check`; the latest rows are held out",
    )
