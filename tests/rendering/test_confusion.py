"""What was taken for what, as a picture: numbers where there is room, names that can be read."""

from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import imread

from glassformer.rendering.confusion import draw_confusion
from glassformer.rendering.drawing import picture
from helpers.drawn import outside, overlapping, said_in


def names_of(axes: Axes) -> tuple[list[str], list[str]]:
    return [one.get_text() for one in axes.get_yticklabels()], [one.get_text() for one in axes.get_xticklabels()]


def confused(monkeypatch: pytest.MonkeyPatch, labels: list[str], matrix: np.ndarray) -> Figure:
    kept: list[Figure] = []
    monkeypatch.setattr(picture, "save", lambda figure, path: kept.append(figure))
    draw_confusion(labels, matrix.tolist(), path=Path("picture.png"), title="runs/a")
    kept[0].canvas.draw()
    return kept[0]


def test_confusion(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = np.array([[1500, 500, 0], [3, 9, 0], [0, 0, 0]])
    figure = confused(monkeypatch, ["cat", "dog", "none"], counts)
    axes = figure.axes[0]
    assert names_of(axes) == (["cat", "dog", "none"],) * 2
    np.testing.assert_array_equal(axes.images[0].get_array(), counts)
    assert [one.get_text() for one in axes.texts] == ["1,500", "500", "0", "3", "9", "0", "0", "0", "0"]
    assert {"true →", "predicted →", "runs/a"} <= set(said_in(figure))


@pytest.mark.slow
@pytest.mark.parametrize("count", [30, 31])
def test_numbers_of_up_to_thirty_classes(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    figure = confused(monkeypatch, [f"class {place}" for place in range(count)], np.eye(count, dtype=int) * 123)
    assert len(figure.axes[0].texts) == (900 if count == 30 else 0)
    assert not outside(figure)
    assert not overlapping(figure)


def test_confusion_of_two_hundred_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = np.diag(np.arange(200)) + 0
    counts[7, 190], counts[120, 3] = 41, 77
    figure = confused(monkeypatch, [f"class number {place}" for place in range(200)], counts)
    assert not outside(figure)
    assert not overlapping(figure)
    assert figure.get_size_inches()[0] <= 14
    rows = names_of(figure.axes[0])[0]
    assert len(rows) == 40  # every one of them with its name
    assert {f"class number {place}" for place in (3, 7, 120, 190)} <= set(rows)
    assert "“class number 120” is most often taken for “class number 3”: 77 times" in said_in(figure)


def test_confusion_is_a_file(tmp_path: Path) -> None:
    draw_confusion(["a", "b"], [[1, 0], [0, 1]], path=tmp_path / "confusion.png", title="runs/a")
    assert imread(tmp_path / "confusion.png")[..., :3].std() > 0.05
