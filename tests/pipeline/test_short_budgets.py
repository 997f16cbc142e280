"""A short budget keeps good weights: early stopping, samples of the validation set and `--minutes` work together."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook

from glassformer.statistics.intervals import Interval
from glassformer.tasks.intervals import INTERVALS
from glassformer.training.budget import Clock
from glassformer.verbs.evaluate import evaluate
from glassformer.verbs.train import train
from helpers.tables import opinions, write_table

SECONDS_PER_NUMBER = 1e-6
"""Seconds by which the clock moves for each number in an output of a module."""


class Case(NamedTuple):
    data: str
    rows: int
    model: str
    minutes: float


CASES = {
    "a small table": Case("prices", 150, "mlp", 0.02),
    "a large table": Case("prices", 2000, "mlp", 0.05),
    "few labels": Case("opinions", 200, "average", 0.1),
    "many labels": Case("opinions", 3000, "average", 0.4),
    "few rows of several labels": Case("topics", 200, "average", 0.4),
    "many rows of several labels": Case("topics", 3000, "average", 0.8),
    "few pairs": Case("phrases", 300, "lstm", 0.6),
    "many pairs": Case("phrases", 2000, "lstm", 0.6),
    "a short text": Case("copy", 200, "gru", 0.05),
    "a long text": Case("copy", 1000, "gru", 0.1),
}


@pytest.fixture
def work_clock() -> Iterator[Clock]:
    """A clock that moves with the numbers that a model computes: the same on every machine, however busy it is."""
    computed = 0

    def count(module: nn.Module, inputs: Any, output: Any) -> None:
        nonlocal computed
        if isinstance(output, Tensor):
            computed += output.numel()

    hook = register_module_forward_hook(count)
    yield lambda: computed * SECONDS_PER_NUMBER
    hook.remove()


def data_for(case: Case, folder: Path) -> str:
    if case.data == "opinions":
        return str(write_table(folder / "opinions.csv", opinions(case.rows, classes=3)))
    if case.data == "prices":
        return str(write_table(folder / "numbers.csv", prices(case.rows), ("size", "age", "price")))
    if case.data == "topics":
        return str(write_table(folder / "topics.csv", topics(case.rows), ("text", "labels")))
    if case.data == "phrases":
        return str(write_table(folder / "phrases.csv", phrases(case.rows), ("source", "target")))
    return f"{case.data}:rows={case.rows}"


def prices(rows: int) -> list[tuple[float, float, float]]:
    draw = random.Random(0)
    made = ((draw.uniform(20, 200), draw.uniform(0, 100)) for _ in range(rows))
    return [(size, age, 3 * size - 2 * age + draw.gauss(0, 20)) for size, age in made]


def phrases(rows: int) -> list[tuple[str, str]]:
    """Two words, and the same two words in another language."""
    draw = random.Random(0)
    numbers = (draw.choices(range(20), k=2) for _ in range(rows))
    return [(" ".join(f"one{n}" for n in two), " ".join(f"un{n}" for n in two)) for two in numbers]


def topics(rows: int) -> list[tuple[str, str]]:
    """Texts of eight words; a text has each of the labels whose word occurs in it, and one in ten is wrong."""
    draw = random.Random(0)
    names = ["sport", "music", "food", "travel"]
    made = []
    for _ in range(rows):
        words = draw.choices([*names, *(f"word{number}" for number in range(20))], k=8)
        labels = [name for name in names if (name in words) != (draw.random() < 0.1)]
        made.append((" ".join(words), ";".join(labels) or "other"))
    return made


def kept_score(case: Case, minutes: float, out: Path, clock: Clock) -> Interval:
    """The score of the kept weights on the whole validation set, with its interval."""
    began = clock()
    settings: dict[str, Any] = {"data.label_separator": ";", "lr": 0.03} if case.data == "topics" else {}
    if case.data in ("copy", "phrases"):
        settings |= {"model.width": 32, "model.layers": 1, "training.lr": 0.01, "training.optimizer": "adamw"}
    run = train(
        data_for(case, out.parent), model=case.model, minutes=minutes, device="cpu", out=out, draft=True, seed=0,
        clock=lambda: clock() - began, **settings,
    )  # fmt: skip
    evaluation = evaluate(run, part="validation", device="cpu")
    return INTERVALS[evaluation.primary](evaluation.records)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_kept_weights_are_as_good_as_those_of_a_run_four_times_longer(
    name: str, tmp_path: Path, work_clock: Clock
) -> None:
    case = CASES[name]
    short = kept_score(case, case.minutes, tmp_path / "short", work_clock)
    long = kept_score(case, 4 * case.minutes, tmp_path / "long", work_clock)
    print(name, short, long)
    sign = -1 if name.endswith(("table", "text")) else 1
    standard_error = (short.high - short.low) / (2 * 1.96)
    assert sign * short.value >= sign * long.value - 2 * standard_error
