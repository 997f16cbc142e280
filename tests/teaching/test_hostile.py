"""Hostile submissions, in real processes: each loses its own points and no others, learns nothing, and the next one is
graded. `hostile/` holds a file for each; its first line says what it tries.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from glassformer.teaching.grade import Grades, Submission, grade
from glassformer.teaching.lesson import read_lesson
from glassformer.text.escaping import printable_line
from helpers import tiny_lesson
from helpers.grading import GOOD, POINTS, SECRET, attacks, write_attacks

ARCHIVE = Path(__file__).with_name("hostile")
ATTACKS = attacks(ARCHIVE)


def graded(folder: Path, names: list[str]) -> Iterator[dict[str, Submission]]:
    """Grade these attacks and a right submission after each tenth."""
    files = write_attacks(ARCHIVE, folder)
    right = folder / "handed-in" / "0.py"
    order = [file for place, name in enumerate(names) for file in [files[name], *[right] * (place % 10 == 9)]] + [right]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("glassformer.teaching.lesson.FOLDER", folder / "lessons")
        patch.setitem(sys.modules, "glassformer.teaching.exercises.tiny", tiny_lesson)
        lesson = read_lesson(folder / "lessons" / "tiny.md")
        grades: Grades = grade(order, lesson, hidden=folder / "hidden", seconds=3, memory=500, seed=5)
    assert {one.points for one in grades if one.file == str(right)} == {POINTS["nothing"]}
    yield {Path(one.file).name: one for one in grades}
    assert right.read_text() == f"# {SECRET}\n{GOOD}"
    assert sorted(file.name for file in folder.iterdir()) == ["handed-in", "hidden", "lessons", "roster.csv"]


@pytest.fixture(scope="module")
def all_graded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Submission]]:
    yield from graded(tmp_path_factory.mktemp("hostile"), list(ATTACKS))


def check(name: str, got: Submission) -> None:
    attack = ATTACKS[name]
    said = "\n".join(got.lines)
    assert got.points == attack.points, got
    assert got.out_of == POINTS["nothing"]
    assert re.search(attack.says, said), said
    visible = [*got.notes, got.problem, *(item.line for item in got.items if item.visible)]
    assert not [line for line in visible if SECRET in line], attack.tries
    assert all(line == printable_line(line) and len(line) < 600 for line in got.lines)


@pytest.mark.slow
@pytest.mark.parametrize("name", ATTACKS)
def test_it_costs_its_own_points_alone(name: str, all_graded: dict[str, Submission]) -> None:
    got = all_graded[name]
    weak = [line for line in got.isolation if line.startswith("weak")]
    if weak:
        pytest.skip("; ".join(weak))
    check(name, got)


def test_there_are_enough() -> None:
    assert len(ATTACKS) >= 60
    assert len({attack.tries for attack in ATTACKS.values()}) == len(ATTACKS)
