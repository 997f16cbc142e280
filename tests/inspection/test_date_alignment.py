"""A translator of dates looks at the year while it writes the year: measured where years were never seen."""

import runpy
from pathlib import Path

import numpy as np
import pytest

import glassformer as gf
from glassformer.data.datasets.dates import date_test_rows
from glassformer.families.evaluate import encode_example
from glassformer.inspection.attention import attention_of
from glassformer.inspection.views.attention import share_on

spans = runpy.run_path(str(Path(__file__).parents[2] / "benchmarks" / "alignment.py"))["spans"]
"""Where the parts of a date stand, as the benchmark of it counts them."""

PARTS = ["year"] * 4 + [""] + ["month"] * 2 + [""] + ["day"] * 2 + [""]
"""Of YYYY-MM-DD and END."""


def test_shares_of_weights() -> None:
    weights = np.array([[[0.5, 0.25, 0.25], [0.1, 0.2, 0.7], [1.0, 0.0, 0.0]]])
    assert share_on(weights, [[0, 1], [2], []]) == pytest.approx([(0.75 + 0.7) / 2])


@pytest.mark.parametrize(
    ("text", "year", "month", "day"),
    [
        ("14 juillet 1989", "1989", "juillet", "14"),
        ("Freitag, 9. November 1989", "1989", "Freitag,.November", "9"),
        ("2011年3月11日", "2011", "3", "11"),
        ("13.01.2058", "2058", "01", "13"),
    ],
)
def test_where_the_parts_of_a_date_stand(text: str, year: str, month: str, day: str) -> None:
    found = spans(text)
    said = {part: "".join(text[at] for at in places) for part, places in found.items()}
    assert said == {"year": year, "month": month, "day": day}


@pytest.mark.slow
@pytest.mark.parametrize(("model", "least"), [("lstm", 0.6), ("transformer", 0.5)])
def test_most_weight_lies_on_the_right_span(model: str, least: float, tmp_path: Path) -> None:
    settings = {"model.attention": "additive"} if model == "lstm" else {}
    loaded = gf.load(gf.train("dates", model=model, out=tmp_path / "run", **settings))
    rows = list(date_test_rows(rows=400, seed=0, languages=30))
    shares = []
    for source, target in rows:
        example = encode_example(loaded, source, beam=1)
        if example.output == target:
            weights = attention_of(loaded.model, example.inputs)["cross"]
            where = {**spans(source), "": []}
            shares.append(share_on(weights, [where[part] for part in PARTS]))
    assert len(shares) > 0.8 * len(rows)
    assert np.mean(shares) > least  # over all heads
    assert np.mean(shares, 0).max() > 0.7  # of the best one
