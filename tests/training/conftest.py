"""These tests train by the dozen: the pictures that end each run, most of its time, are left to tests/runs and cli."""

import pytest


@pytest.fixture(autouse=True)
def no_curves(monkeypatch: pytest.MonkeyPatch) -> None:
    for draw in ("draw_curves", "draw_confusion", "leave_report"):
        monkeypatch.setattr(f"glassformer.verbs.folder.{draw}", lambda *args, **more: None)
