"""Every lesson keeps its form, runs with its solutions, and reaches the results that it states.

`make test-lessons` runs each lesson with short training runs, `make test-slow` at full length, one test per lesson.
`python docs/generate/lessons.py --seeds 3` does the latter for several seeds.
"""

import re
import sys
from pathlib import Path
from typing import Any

import pytest

from glassformer.teaching.lesson import Lesson, lessons

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "docs" / "generate"))
SHORT = 0.03
"""Fraction of the updates in a short run."""
LESSONS = lessons()
NAMES = [
    "regression", "words", "order", "alignment", "attention", "block", "language-models", "translation", "pretraining",
    "project",
]  # fmt: skip
SECTIONS = ("What you will see", "Exercise: ", "Not so", "Where it belongs")

every_lesson = pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.name)


def test_the_course() -> None:
    assert [lesson.name for lesson in LESSONS] == NAMES
    assert [lesson.number for lesson in LESSONS] == list(range(1, len(NAMES) + 1))


@every_lesson
def test_its_form(lesson: Lesson) -> None:
    text = "\n".join(cell.source for cell in lesson.cells)
    for section in SECTIONS:
        assert f"\n## {section}" in text
    assert lesson.minutes <= 10
    assert lesson.slides
    assert lesson.misconception
    assert 1 <= len(lesson.exercises) <= 5
    assert lesson.points >= 5
    code = "\n".join(cell.text(solution=True) for cell in lesson.cells if cell.kind == "code")
    assert f'lesson = gf.lesson("{lesson.name}")' in code
    for exercise in lesson.exercises:
        assert re.search(rf"lesson\.check\([^)]*\b{exercise.name}={exercise.name}\b", code), exercise.name
    for call in re.findall(r"gf\.train\((.*?)\n?\)\n", code, re.S):
        assert "seed=0" in call, call


@pytest.mark.lessons
@every_lesson
def test_short_run_with_solutions(lesson: Lesson) -> None:
    notebook = run_lesson(lesson, share=SHORT)
    assert notebook.metadata["lesson"]["found"].keys() == lesson.expects.keys()


@pytest.mark.slow
@every_lesson
def test_results_are_in_the_stated_ranges(lesson: Lesson, monkeypatch: pytest.MonkeyPatch) -> None:
    """At full length, as a student runs it."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # the other tests use the other cores
    found = run_lesson(lesson, share=1.0).metadata["lesson"]["found"]
    outside = [
        f"{name} is {found[name]:.4g}, but the lesson states {least} to {most}"
        for name, (least, most) in lesson.expects.items()
        if not least <= found[name] <= most
    ]
    assert not outside, "; ".join(outside)


def run_lesson(lesson: Lesson, *, share: float) -> Any:
    """Run a lesson with its solutions, which must get all points, and return the executed notebook."""
    from lessons import executed

    notebook = executed(lesson, share=share, again=True)
    checked = [
        output["data"]["text/plain"]
        for cell in notebook.cells
        if cell.cell_type == "code" and "lesson.check(" in cell.source
        for output in cell.outputs
        if output.output_type == "execute_result"
    ]
    assert checked
    for table in checked:
        got, of = re.findall(r"([\d.]+) of ([\d.]+) points", table)[-1]
        assert got == of, table
    return notebook


@every_lesson
def test_the_guide_tells_its_minutes_points_and_numbers(lesson: Lesson) -> None:
    guide = (ROOT / "docs" / "teaching.md").read_text().splitlines()
    assert row_of(lesson) in guide
    assert slides_of(lesson) in guide
    assert f"- lessons/{lesson.name}.md" in (ROOT / "mkdocs.yml").read_text()


def slides_of(lesson: Lesson) -> str:
    return f"| {lesson.number} | {lesson.misconception} | {'<br>'.join(lesson.slides)} |"


def row_of(lesson: Lesson) -> str:
    found = ", ".join(f"`{name}` {least:g}–{most:g}" for name, (least, most) in lesson.expects.items())
    about = f"[{lesson.title}](../src/glassformer/teaching/lessons/{lesson.name}.md)"
    return f"| {lesson.number} | {about} | {lesson.minutes:g} | {lesson.points:g} | {found} |"
