"""Comparisons in which more than the model differs: parts of the data, sizes, settings, parts left out."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from glassformer.rendering.panels import Lines, Panel, Points
from glassformer.trials.jobs import FLOOR, Outcome
from glassformer.trials.results.comparison import Comparison, summarise
from helpers.simulated import failed, outcomes_of

FRACTION = "data.train_fraction"
SHARES = ("10 % of the data", "30 % of the data", "all the data")


def of(mode: str, *groups: list[Outcome]) -> Comparison:
    outcomes = [one for group in groups for one in group]
    return summarise(outcomes, title="a comparison", budget="100 updates each", mode=mode)


def panel(comparison: Comparison, title: str) -> Panel:
    (found,) = [one for one in comparison.view().panels if one.title == title]
    return found


def test_parts_of_the_data() -> None:
    def line(name: str, *scores: float, **more: Any) -> list[Outcome]:
        return [
            one
            for share, score in zip((0.1, 0.3, 1.0), scores, strict=True)
            for one in outcomes_of(name, score, varied={FRACTION: share}, **more)
        ]

    found = of(
        "fractions",
        line("transformer", 0.70, 0.78, 0.86),
        line("bag:tfidf", 0.82, 0.83, 0.83),
        line("majority class", 0.5, 0.5, 0.5, kind=FLOOR, seeds=1),
    )
    assert found.words[0].startswith(
        "transformer, from 30 % to 100 % of the training data: significantly better by 0.080 (0.0"
    )
    assert found.words[1].startswith("bag:tfidf, from 30 % to 100 % of the training data: not significantly different")
    assert found.words[1].endswith(", −0.009 to 0.009).")
    assert [row.label for row in found.rows][:3] == [f"transformer, {share}" for share in SHARES]
    assert found.words[2].startswith("Best of the trained models: transformer (")  # among those with all the data
    assert not any("10 %" in word for word in found.words)
    assert found.best is not None
    assert found.best.label == "transformer, all the data"
    lines = panel(found, "How much data it takes")
    assert isinstance(lines, Lines)
    assert lines.log_x
    assert [line.name for line in lines.series] == ["transformer", "bag:tfidf", "majority class"]
    assert all(list(line.x) == [0.1, 0.3, 1.0] for line in lines.series)
    assert lines.series[0].low is not None
    curves = panel(found, "How each learned")
    assert isinstance(curves, Lines)
    assert len(curves.series) == 2  # those with all the data


def test_the_best_of_a_curve_is_that_with_the_best_score() -> None:
    scores = ((0.3, 0.86), (1.0, 0.82), (0.1, 0.7))
    found = of("fractions", *(outcomes_of("lstm", score, varied={FRACTION: share}) for share, score in scores))
    assert [row.label for row in found.rows] == list(SHARES)
    assert [row.marks[:1] for row in found.rows] == [[], ["best"], ["recommended"]]
    assert all(one is None or one.value >= 0 for one in found.behind)
    assert "lstm, from 30 % to 100 % of the training data: significantly worse by 0.040 (" in found.words[0]


def test_sizes() -> None:
    groups = [
        outcomes_of("transformer", score, varied={"model.size": size}, parameters=parameters)
        for size, score, parameters in (("small", 0.86, 90_000), ("nano", 0.7, 1000), ("tiny", 0.8, 20_000))
    ]
    found = of("sizes", *groups)
    assert "transformer, from 20k to 90k parameters: significantly better by 0.060 (" in found.words[0]
    lines = panel(found, "How large it must be")
    assert isinstance(lines, Lines)
    assert list(lines.series[0].x) == [1000, 20_000, 90_000]
    assert [row.label for row in found.rows] == ["size=nano", "size=tiny", "size=small"]
    flat = of("sizes", groups[2], outcomes_of("transformer", 0.801, varied={"model.size": "small"}, parameters=90_000))
    assert "not significantly different" in flat.words[0]


def test_one_setting() -> None:
    groups = [outcomes_of("transformer", 0.7 + heads / 100, varied={"model.heads": heads}) for heads in (4, 1, 8)]
    found = of("vary", *groups, failed("transformer", "heads 3 do not divide 32", varied={"model.heads": 3}))
    lines = panel(found, "Along model.heads")
    assert isinstance(lines, Lines)
    assert list(lines.series[0].x) == [1, 4, 8]
    assert found.rows[-1].label == "heads=3"
    assert "heads=3 failed: heads 3 do not divide 32." in found.words
    words = of("vary", *(outcomes_of("cnn", 0.7, varied={"model.norm": norm}) for norm in ("layer", "none")))
    assert not any(one.title.startswith("Along") for one in words.view().panels)


def test_parts_left_out() -> None:
    found = of(
        "ablation",
        outcomes_of("transformer", 0.85),
        outcomes_of("transformer", 0.60, varied={"model.residual": False}),
        outcomes_of("transformer", 0.80, varied={"model.norm": "none"}),
        outcomes_of("transformer", 0.851, varied={"model.heads": 1}),
        outcomes_of("transformer", 0.90, varied={"model.positions": "none"}),
        outcomes_of("transformer", 0.89, varied={"model.scale": False, "model.qk_norm": False}),
        outcomes_of("transformer", 0.99, varied={"model.causal_mask": False}),
        outcomes_of("majority class", 0.5, kind=FLOOR, seeds=1, seconds=0.0),
        failed("transformer", "no memory", varied={"model.scale": False}),
    )
    assert found.words[0] == "The whole model has accuracy 0.850 ± 0.005, 3 seeds."
    assert found.words[1].startswith("Compared with the best floor, majority class (0.500), it is significantly better")
    parts = found.words[2].split("; ")
    assert parts[0].startswith("Without a part of it: residual=false is significantly worse by 0.25 (0.2")
    assert parts[1].startswith("norm=none is significantly worse by 0.050 (")
    assert parts[2].startswith("heads=1 is not significantly different (")
    assert parts[3].startswith("scale=false, qk_norm=false is significantly better by 0.040 (")
    assert parts[4].startswith("positions=none is significantly better by 0.050 (")
    assert len(parts) == 5, "without the mask, the model reads the answer"
    assert "scale=false failed: no memory." in found.words
    assert found.recommended is None
    drawn = panel(found, "What each part was worth")
    assert isinstance(drawn, Points)
    unscaled = "scale=false, qk_norm=false"
    assert drawn.labels == ["residual=false", "norm=none", "heads=1", unscaled, "positions=none", "causal_mask=false"]
    np.testing.assert_allclose(np.asarray(drawn.points)[:, 1], [0.25, 0.05, -0.001, -0.04, -0.05, -0.14], atol=1e-9)
    assert drawn.levels == [("the whole", 0.0)]
    behind = dict(zip([row.label for row in found.rows], found.behind, strict=True))
    assert behind["transformer"] is None
    assert behind["norm=none"] is not None
    assert behind["norm=none"].value == pytest.approx(0.05)


def test_parts_left_out_of_a_model_that_failed() -> None:
    found = of(
        "ablation", failed("transformer", "no memory"), outcomes_of("transformer", 0.8, varied={"model.heads": 1})
    )
    assert "transformer failed: no memory." in found.words
    found.view()


def test_costs_that_are_alike_are_no_picture() -> None:
    alike = of("ladder", outcomes_of("lstm", 0.8, seconds=10.0), outcomes_of("cnn", 0.7, seconds=10.2))
    assert not any(one.title == "Score against cost" for one in alike.view().panels)
    two = of("ladder", outcomes_of("lstm", 0.8, seconds=10.0), outcomes_of("cnn", 0.7, seconds=12.0))
    assert any(one.title == "Score against cost" for one in two.view().panels)
    near = [replace(one, seconds=30.0) for one in outcomes_of("cnn", 0.7)]
    floors = [
        outcomes_of(name, score, kind=FLOOR, seeds=1, seconds=0.0) for name, score in (("low", 0.1), ("near", 0.68))
    ]
    found = panel(of("ladder", outcomes_of("lstm", 0.8), near, *floors), "Score against cost")
    assert isinstance(found, Points)
    assert (found.labels, found.log_x) == (["lstm", "cnn"], True)
    np.testing.assert_allclose(np.asarray(found.points), [[10, 0.8], [30, 0.7]])
    assert found.levels == [("near", pytest.approx(0.68))]


def test_whether_to_begin_from_what_was_learned_before() -> None:
    def line(name: str, encoder: str, *scores: float, begins: str = "") -> list[Outcome]:
        made = [
            outcomes_of(name, score, varied={FRACTION: share}) for share, score in zip((0.1, 1.0), scores, strict=True)
        ]
        settings = {"model.encoder": encoder}
        return [replace(one, job=replace(one.job, settings=settings, begins=begins)) for two in made for one in two]

    rows = [
        line("bag", "bag", 0.86, 0.95),
        line("transformer", "transformer", 0.70, 0.85),
        line("writer fine-tuned", "transformer", 0.84, 0.851, begins="abc"),
        line("writer frozen", "transformer", 0.80, 0.78, begins="abc"),
        line("lstm fine-tuned", "lstm", 0.8, 0.8, begins="def"),  # no lstm begins from nothing
    ]
    told = [word for word in of("fractions", *rows).words if " from random weights, is " in word]
    assert [word.split(" is ")[0] for word in told] == [
        f"writer {way}, {share}, compared with transformer, {share} from random weights,"
        for way in ("fine-tuned", "frozen")
        for share in ("10 % of the data", "all the data")
    ]
    ways = ("significantly better by 0.14", "not significantly different (0.001, ",
            "significantly better by 0.10", "significantly worse by 0.070")  # fmt: skip
    assert all(way in word for way, word in zip(ways, told, strict=True))
    plain = [
        replace(one, job=replace(one.job, varied={}))
        for row in rows[1:3]
        for one in row
        if one.job.varied[FRACTION] < 1
    ]
    words = of("models", plain).words
    assert [word for word in words if "from random weights, is significantly better by 0.140 (" in word]
    assert not [word for word in words if "Is the Transformer worth it?" in word]  # both are Transformers
