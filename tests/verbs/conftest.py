"""These tests train by the dozen: the pictures that end each run, most of its time, are left to tests/runs and cli."""

from pathlib import Path

import pytest

from tables import amounts, opinions, write_table


@pytest.fixture(autouse=True)
def no_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    for draw in ("draw_curves", "draw_confusion", "leave_report"):
        monkeypatch.setattr(f"glassformer.verbs.folder.{draw}", lambda *args, **more: None)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """60 texts of three classes."""
    return write_table(tmp_path / "opinions.csv", opinions(60, classes=3))


@pytest.fixture
def numbers_table(tmp_path: Path) -> Path:
    return write_table(tmp_path / "amounts.csv", amounts(60), ("text", "rating"))
