"""A course of one tiny lesson."""

import sys
from pathlib import Path

import pytest

from glassformer.teaching import lesson as lessons
from helpers import tiny_lesson


@pytest.fixture
def course(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of its Markdown."""
    folder = tmp_path / "course" / "lessons"
    folder.mkdir(parents=True)
    (folder / "tiny.md").write_text(tiny_lesson.TEXT)
    run = tmp_path / "course" / "runs" / "tiny"
    run.mkdir(parents=True)
    (run / "glassformer.json").write_text("{}")
    (tmp_path / "course" / "runs" / "tiny-other").mkdir()
    monkeypatch.setattr(lessons, "FOLDER", folder)
    monkeypatch.setattr(lessons, "RUNS", run.parent)
    monkeypatch.setitem(sys.modules, "glassformer.teaching.exercises.tiny", tiny_lesson)
    return folder
