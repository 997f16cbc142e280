"""A translator of dates looks at the year while it writes the year: measured where years were never seen."""

from pathlib import Path

import pytest

import glassformer as gf
from glassformer.rendering.panels import Table
from glassformer.rendering.view import View


@pytest.mark.slow
@pytest.mark.parametrize(("model", "least"), [("lstm", 0.6), ("transformer", 0.5)])
def test_most_weight_lies_on_the_right_span(model: str, least: float, tmp_path: Path) -> None:
    run = gf.train("dates", model=model, out=tmp_path / "run").run
    view = gf.look(run, links="dates:rows=1000")
    assert isinstance(view, View)
    table = view.panels[0]
    assert isinstance(table, Table)
    assert list(table.columns) == ["head", "AER", "precision", "recall", "weight"]
    rows = {str(row[0]): row for row in table.rows}
    best = table.rows[0]
    assert best[1] < 0.2
    assert best[1] < rows["always the diagonal"][1]
    assert rows["mean of all heads"][4] > least
    assert rows["spread evenly"][4] < 0.25
