"""Wrong solutions as students write them: each gets its points and its hint. Right ones get all, blank ones nothing."""

import runpy
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from glassformer.teaching.answering import Here
from glassformer.teaching.exercise import Exercise, Item
from glassformer.teaching.lesson import Lesson, lessons

ZOO = {
    file.stem.replace("_", "-"): runpy.run_path(str(file))["WRONG"]
    for file in sorted(Path(__file__).parent.glob("zoo/*.py"))
}
"""By the lesson's name: exercise, source, points with the hidden cases, and a part of the line that is shown; empty for
rare mistakes, which have no hint.
"""
LESSONS = {lesson.name: lesson for lesson in lessons()}
WITH_EXERCISES = [lesson for lesson in LESSONS.values() if lesson.exercises]


def defined_by(*sources: str) -> dict[str, Any]:
    names: dict[str, Any] = {"torch": torch, "nn": nn}
    for source in sources:
        exec(source, names)  # what stands in this repository
    return names


def items_of(exercises: Iterable[Exercise], names: dict[str, Any], seed: int = 0) -> list[Item]:
    return [item for exercise in exercises for item in exercise.items(Here(names), seed=seed, hidden=True)]


def answers_of(lesson: Lesson, *, solution: bool) -> dict[str, Any]:
    """What the cells with exercises define, after the first, which imports."""
    first, *others = [cell for cell in lesson.cells if cell.kind == "code"]
    asked = [cell for cell in others if "### BEGIN SOLUTION" in cell.source]
    return defined_by(*(cell.text(solution=solution) for cell in [first, *asked]))


@pytest.mark.sample(5)
@pytest.mark.parametrize(
    ("lesson", "exercise", "source", "points", "line"),
    [
        pytest.param(lesson, *wrong, id=f"{lesson}-{place}")
        for lesson, zoo in ZOO.items()
        for place, wrong in enumerate(zoo)
    ],
)
@pytest.mark.parametrize("seed", [0, 1])
def test_a_wrong_solution(lesson: str, exercise: str, source: str, points: float, line: str, seed: int) -> None:
    asked = [one for one in LESSONS[lesson].exercises if one.name == exercise]
    items = items_of(asked, defined_by(source), seed)
    said = [item.line for item in items]
    assert sum(item.points for item in items) == points, said
    assert any(line in one for one in said), said
    assert points < asked[0].points


@pytest.mark.sample(7)
@pytest.mark.parametrize("lesson", WITH_EXERCISES, ids=lambda lesson: lesson.name)
@pytest.mark.parametrize("seed", [0, 1])
def test_the_solution(lesson: Lesson, seed: int) -> None:
    items = items_of(lesson.exercises, answers_of(lesson, solution=True), seed)
    assert not [item for item in items if item.line]
    assert sum(item.points for item in items) == lesson.points


@pytest.mark.parametrize("lesson", WITH_EXERCISES, ids=lambda lesson: lesson.name)
def test_nothing_written_yet(lesson: Lesson) -> None:
    items = items_of(lesson.exercises, answers_of(lesson, solution=False))
    assert sum(item.points for item in items) == 0
    assert all(item.line for item in items)


@pytest.mark.parametrize("lesson", WITH_EXERCISES, ids=lambda lesson: lesson.name)
def test_there_is_a_zoo(lesson: Lesson) -> None:
    assert len(ZOO[lesson.name]) >= 6
    assert {exercise for exercise, *_ in ZOO[lesson.name]} == {exercise.name for exercise in lesson.exercises}


@pytest.mark.parametrize("lesson", WITH_EXERCISES, ids=lambda lesson: lesson.name)
def test_every_known_mistake_loses_points(lesson: Lesson) -> None:
    """A name in `sentences.toml` that no reference knows would change nothing."""
    for exercise in lesson.exercises:
        for mistake in getattr(exercise, "mistakes", ()):
            items = items_of([exercise], {exercise.name: mistake.wrong})
            assert sum(item.points for item in items) < exercise.points, (exercise.name, mistake.hint)
