"""These tests train by the dozen: the picture that ends each run, most of its time, is left to tests/runs."""

import pytest


@pytest.fixture(autouse=True)
def no_curves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("glassformer.verbs.train.draw_curves", lambda *args, **more: None)
