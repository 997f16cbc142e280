"""The panels of a report, from records and numbers made by hand."""

import math
from typing import Any

import numpy as np
import pytest

from glassformer.error_analysis.finding import MAX_ERRORS, worst
from glassformer.error_analysis.labelling import confident_error_images, confident_errors, largest_errors, thumbnail
from glassformer.error_analysis.language import MAX_PASSAGE_TOKENS, surprising_stretch
from glassformer.error_analysis.translations import MAX_SCORED, worst_translations
from glassformer.rendering.confusion import MAX_CLASSES, confusion
from glassformer.rendering.curves import MAX_POINTS, curves
from glassformer.rendering.panels import Gallery, Grid, Lines, Table, Words
from glassformer.reporting.report import by_class, samples, scores, three_digits


def log(steps: int, every: int = 4, **scores: float) -> list[dict[str, Any]]:
    """A training whose loss falls as 1/step, the best validation being the last but one."""
    lines: list[dict[str, Any]] = []
    for step in range(1, steps + 1):
        lines.append({"event": "step", "step": step, "loss": 1 / step, "lr": step / 1000})
        if step % every == 0:
            best = step < steps
            lines.append({"event": "validation", "step": step, "best": best, "loss": 2 / step, **scores})
            lines.append({"event": "sample", "step": step, "text": f"\nat {step}\n"})
    return lines


# --- how it went ---


def test_curves() -> None:
    loss, judged, rate = curves(log(12, accuracy=0.625), unit="nats per text")
    assert isinstance(loss, Lines)
    assert isinstance(judged, Lines)
    assert isinstance(rate, Lines)
    each, smooth, validation = loss.series
    assert each.faint
    assert not each.dots
    assert not smooth.faint
    assert validation.dots
    assert each.x == list(range(1, 13))
    assert each.y == [1 / step for step in range(1, 13)]
    assert smooth.y[0] == pytest.approx(1.0)
    assert smooth.y[1] == pytest.approx((0.09 * 1 + 0.1 * 0.5) / 0.19)
    assert (validation.x, validation.y) == ([4, 8, 12], [0.5, 0.25, 2 / 12])
    assert loss.y_name == "loss (nats per text)"
    assert loss.takeaway == "The best validation is 0.167, after 12 updates"
    assert (judged.title, judged.series[0].y) == ("Accuracy", [0.625] * 3)
    assert rate.series[0].y == [step / 1000 for step in range(1, 13)]
    assert {panel.x_name for panel in (loss, judged, rate)} == {"updates"}


def test_curves_of_a_long_run_are_thinned_and_end_where_it_ended() -> None:
    loss = curves(log(5 * MAX_POINTS + 3, every=700), unit="nats")[0]
    assert isinstance(loss, Lines)
    for line in loss.series[:2]:
        assert MAX_POINTS / 2 < len(line.x) <= MAX_POINTS + 1
        assert line.x[0] == 1
        assert line.x[-1] == 5 * MAX_POINTS + 3
        assert len(line.y) == len(line.x)
    assert loss.series[0].y == [1 / step for step in loss.series[0].x]


def test_curves_say_what_the_training_loss_holds() -> None:
    (loss, chrf, _) = curves(log(4, chrf=31.0), unit="nats", smoothing=0.1)
    assert isinstance(loss, Lines)
    assert loss.series[1].name == "training, with label smoothing 0.1, running average"
    assert chrf.title == "chrF"


def test_a_loss_that_falls_far_has_a_logarithmic_axis() -> None:
    for steps, logarithmic in ((9, False), (11, True)):  # from 1 to 1/9, and 1/11
        loss = curves([line for line in log(steps) if line["event"] == "step"], unit="nats")[0]
        assert isinstance(loss, Lines)
        assert loss.log_y is logarithmic


def test_words_with_three_digits() -> None:
    said = "loss 3.8552, perplexity 47.24, 0.9950 exact, 10.21% of 1,234.56, 234.9; 12 of 0.0981"
    assert three_digits(said) == "loss 3.86, perplexity 47.2, 0.995 exact, 10.2% of 1,235, 235; 12 of 0.0981"


def test_curves_of_a_run_that_barely_began() -> None:
    assert curves([], unit="nats") == []
    loss, rate = curves(log(3), unit="nats")
    assert isinstance(loss, Lines)
    assert [line.name for line in loss.series] == ["each update", "training, running average"]
    assert loss.takeaway.startswith("The training loss falls from")
    assert rate.title == "Learning rate"


@pytest.mark.parametrize(("validations", "shown"), [(0, []), (1, [1]), (2, [1, 2]), (3, [1, 2, 3]), (10, [1, 6, 10])])
def test_samples_first_middle_and_last(validations: int, shown: list[int]) -> None:
    found = samples(log(validations * 4))
    assert [panel.title for panel in found] == [f"Sample after {4 * one} updates" for one in shown]
    assert [panel.text for panel in found if isinstance(panel, Words)] == [f"at {4 * one}" for one in shown]


# --- how good it is ---


def test_scores_of_two_parts() -> None:
    table = scores({"validation": {"loss": 0.5, "bits_per_byte": 1.25}, "test": {"loss": 0.625}}, "well")
    assert list(table.columns) == ["metric", "validation", "test"]
    assert table.rows == [["loss", 0.5, 0.625], ["bits per byte", 1.25, None]]
    assert table.note == "well"


def test_class_by_class() -> None:
    table = by_class({"a": {"precision": 1.0, "recall": 0.5, "f1": 0.7, "texts": 4}, "b" * 99: {
        "precision": 0.0, "recall": 0.25, "f1": 0.1, "texts": 8}})  # fmt: skip
    assert list(table.columns) == ["class", "precision", "recall", "f1", "texts"]
    assert table.rows[0] == ["a", 1.0, 0.5, 0.7, 4]
    assert len(table.rows[1][0]) == 60
    assert set(table.bars) == {"precision", "recall", "f1"}
    many = by_class({str(one): {"f1": 0.0} for one in range(501)})
    assert (len(many.rows), many.note) == (500, "The first 500 of 501.")


def test_confusion() -> None:
    grid = confusion(["cat", "dog"], [[5, 2], [0, 7]])
    assert grid.values.tolist() == [[5, 2], [0, 7]]
    assert (grid.rows, grid.columns) == (["cat", "dog"], ["cat", "dog"])
    assert (grid.row_name, grid.column_name, grid.numbers) == ("true", "predicted", True)


def test_confusion_of_many_classes_shows_those_most_confused() -> None:
    count = MAX_CLASSES + 3
    matrix = np.eye(count, dtype=int) * 100
    matrix[0, 1] = matrix[5, 2] = 1
    matrix[np.arange(4, count), 3] += 9
    grid = confusion([f"c{one}" for one in range(count)], matrix.tolist())
    assert isinstance(grid, Grid)
    left_out = {f"c{one}" for one in range(count)} - set(grid.rows)
    assert left_out == {"c0", "c1", "c2"}
    assert grid.values.shape == (MAX_CLASSES, MAX_CLASSES)
    assert grid.values[grid.rows.index("c4"), grid.columns.index("c3")] == 9
    assert not grid.numbers
    assert f"Of {count} classes, the {MAX_CLASSES} with most errors." in grid.note


# --- where it is wrong ---


def answered(*rows: tuple[str, str, float, float]) -> list[dict[str, Any]]:
    return [
        {"text": f"t{n}", "label": label, "predicted": said, "probability": p, "loss": -math.log(true)}
        for n, (label, said, p, true) in enumerate(rows)
    ]


WRONG = answered(("a", "a", 0.99, 0.99), ("a", "b", 0.6, 0.4), ("b", "a", 0.9, 0.1), ("a", "c", 0.6, 0.3))


def test_the_most_confidently_wrong_come_first() -> None:
    table = confident_errors(WRONG, "text")
    assert isinstance(table, Table)
    assert [row[0] for row in table.rows] == ["t2", "t1", "t3"]
    assert table.rows[0][1:4] == ["b", "a", 0.9]
    assert table.rows[0][4] == pytest.approx(0.1)
    assert table.takeaway == "3 of 4 texts are wrong"
    assert set(table.bars) == {"probability", "probability of the true one"}


def test_nothing_is_wrong() -> None:
    panel = confident_errors(WRONG[:1], "text")
    assert isinstance(panel, Words)
    assert panel.text == "None of the 1 text was taken for something else."
    assert confident_error_images(WRONG[:1], lambda place: np.zeros((2, 2, 1), np.uint8)) == []


def test_no_more_than_a_dozen() -> None:
    rows = [("a", "b", n / 100, 0.1) for n in range(50)]
    table = confident_errors(answered(*rows), "text")
    assert isinstance(table, Table)
    assert [row[3] for row in table.rows] == [n / 100 for n in range(49, 49 - MAX_ERRORS, -1)]
    assert table.takeaway == "50 of 50 texts are wrong"


def test_wrong_images() -> None:
    pixels = np.arange(4 * 6 * 5 * 3, dtype=np.uint8).reshape(4, 6, 5, 3)
    (gallery,) = confident_error_images(WRONG, lambda place: pixels[place])
    assert isinstance(gallery, Gallery)
    assert [image.tolist() for image in gallery.images] == [pixels[n].tolist() for n in (2, 1, 3)]
    assert gallery.captions[0] == "b, taken for a (0.90)"


def test_large_images_become_smaller() -> None:
    image = np.arange(200 * 90, dtype=np.uint64).astype(np.uint8).reshape(200, 90, 1)
    assert thumbnail(image).shape == (67, 30, 1)
    assert thumbnail(image)[1, 2] == image[3, 6]
    assert thumbnail(image[:96]).shape == (96, 90, 1)


def test_farthest_off() -> None:
    errors = [0.5, -7.0, 3.0, 0.0]
    records = [{"row": f"r{n}", "number": 1.0, "predicted": 1 + e, "error": e} for n, e in enumerate(errors)]
    table = largest_errors(records, "row")
    assert [row[0] for row in table.rows] == ["r1", "r2", "r0", "r3"]
    assert table.rows[0] == ["r1", 1.0, -6.0, -7.0]


def translated(*pairs: tuple[str, str], loss: float = 1.0) -> list[dict[str, Any]]:
    return [
        {"source": f"s{n}", "output": out, "target": target, "exact": out == target, "loss": loss, "tokens": 2}
        for n, (out, target) in enumerate(pairs)
    ]


def test_worst_translations_by_chrf() -> None:
    from sacrebleu.metrics.chrf import CHRF

    pairs = [("abcdef", "abcdef"), ("abcxyz", "abcdef"), ("q", "abcdef"), ("abcdeg", "abcdef")]
    table = worst_translations(translated(*pairs))
    assert isinstance(table, Table)
    assert [row[0] for row in table.rows] == ["s2", "s1", "s3"]
    assert table.rows[1][1:3] == ["abcxyz", "abcdef"]
    assert table.rows[1][3] == CHRF().sentence_score("abcxyz", ["abcdef"]).score
    assert table.note == ""


def test_all_translations_are_right() -> None:
    panel = worst_translations(translated(("a", "a"), ("b", "b")))
    assert isinstance(panel, Words)
    assert panel.text == "All 2 are exactly the target."


def test_of_very_many_translations_those_least_expected() -> None:
    records = translated(*[("abcde", "abcdx")] * MAX_SCORED, loss=5.0) + translated(("q", "abcdx"), loss=1.0)
    table = worst_translations(records)
    assert isinstance(table, Table)
    assert {row[1] for row in table.rows} == {"abcde"}
    assert str(MAX_SCORED) in table.note


def test_of_a_long_passage_the_most_surprising_stretch() -> None:
    losses = np.full(300, 0.5)
    losses[150 : 150 + MAX_PASSAGE_TOKENS] = 1.5
    losses[299] = 9.0
    assert surprising_stretch(losses) == slice(150, 150 + MAX_PASSAGE_TOKENS)
    assert surprising_stretch(losses[:7]) == slice(0, 7)


def test_worst() -> None:
    records = [{"x": 1.0}, {"x": 5.0}, {"x": None}, {"x": 5.0}, {"x": 2.0}]
    assert worst(range(5), lambda place: records[place]["x"], most=3) == [1, 3, 4]
