"""The report of a training, panel by panel: how it went, how good the model is, and where it is wrong."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from glassformer.config.arrays import Array
from glassformer.inside.confusion import MOST_NUMBERS
from glassformer.inside.curves import smoothed
from glassformer.inside.panels import Gallery, Grid, Line, Lines, Panel, Table, Tokens, Words
from glassformer.inside.view import View

Records = Sequence[Mapping[str, Any]]
Rows = list[list[str | float | int | None]]

MOST_POINTS = 600
"""Of a curve; of more, some at even distances are drawn."""
MOST_ERRORS = 12
MOST_CLASSES = 40
"""Of a confusion matrix; of more classes, those most often taken for others."""
MOST_ROWS = 500
"""Of a table of classes."""
MOST_LETTERS = 400
"""Of a text in a table."""
MOST_PIXELS = 96
"""Along the longer side of an image."""
MOST_DEAR = 96
"""Tokens of a passage."""
MOST_SCORED = 500
"""Translations whose chrF is taken one by one."""

METRICS = {
    "bits_per_byte": "bits per byte",
    "macro_f1": "macro F1",
    "majority": "always the largest class",
    "exact_match": "exact match",
    "target_tokens": "target tokens",
    "bleu": "BLEU",
    "chrf": "chrF",
    "rmse": "RMSE",
    "mae": "MAE",
    "r2": "R²",
}
"""Names as they are written, where they are not just words."""
JUDGED = ("accuracy", "chrf", "rmse")
"""What is drawn beside the loss, where it is there."""


def report_view(title: str, panels: Sequence[Panel], note: str) -> View:
    """All of it on one page."""
    return View(title, list(panels), note)


# --- how it went ---


def curves(metrics: Records, *, unit: str, smoothing: float = 0.0) -> list[Panel]:
    """Loss in training (each update and smoothed) and validation; accuracy, chrF or RMSE; the learning rate."""
    steps = [line for line in metrics if line.get("event") == "step"]
    validations = [line for line in metrics if line.get("event") == "validation"]
    if not steps:
        return []
    at, losses = [line["step"] for line in steps], [line["loss"] for line in steps]
    label = f"training, with label smoothing {smoothing:g}" if smoothing else "training"
    series = [
        _line("each update", at, losses, faint=True),
        _line(f"{label}, smoothed", at, smoothed(losses)),
    ]
    if validations:
        series.append(_of_validations("loss", "validation", validations))
    panels: list[Panel] = [
        Lines(title="Loss", series=series, y_name=f"loss ({unit})", x_name="updates", note=_best(validations))
    ]
    for name in JUDGED:
        if validations and name in validations[0]:
            panels.append(
                Lines(
                    title=METRICS.get(name, name.capitalize()),
                    series=[_of_validations(name, "validation", validations)],
                    y_name=_named(name),
                    x_name="updates",
                )
            )
    rate = _line("learning rate", at, [line["lr"] for line in steps])
    return [*panels, Lines(title="Learning rate", series=[rate], y_name="rate", x_name="updates")]


def _line(name: str, x: Sequence[float], y: Sequence[float], *, faint: bool = False) -> Line:
    """At most so many points, the last among them."""
    apart = math.ceil(len(x) / MOST_POINTS)
    some = sorted({*range(0, len(x), apart), len(x) - 1})
    return Line(name=name, x=[x[place] for place in some], y=[y[place] for place in some], faint=faint)


def _of_validations(key: str, name: str, validations: Records) -> Line:
    given = [line for line in validations if key in line]
    return Line(name=name, x=[line["step"] for line in given], y=[line[key] for line in given], dots=True)


def _best(validations: Records) -> str:
    """The last validation that was better than all before it."""
    found = [line for line in validations if line.get("best")]
    if not found:
        return "There was no validation yet."
    judged = next((name for name in JUDGED if name in found[-1]), None)
    also = f", {_named(judged)} {found[-1][judged]:.4g}" if judged else ""
    return f"Best after {found[-1]['step']:,} updates: loss {found[-1]['loss']:.4g}{also} in validation."


def samples(metrics: Records) -> list[Panel]:
    """What was written on the way: the first, the middle and the last."""
    lines = [line for line in metrics if line.get("event") == "sample"]
    some = sorted({0, len(lines) // 2, len(lines) - 1}) if lines else []
    return [
        Words(title=f"Sample after {lines[place]['step']:,} updates", text=cut(lines[place]["text"].strip("\n")))
        for place in some
    ]


# --- how good it is ---


def scores(parts: Mapping[str, Mapping[str, float]], note: str = "") -> Table:
    """The metrics of each part that was evaluated."""
    names = list(dict.fromkeys(name for metrics in parts.values() for name in metrics))
    rows: Rows = [[_named(name), *(metrics.get(name) for metrics in parts.values())] for name in names]
    return Table(title="How good it is", columns=["metric", *parts], rows=rows, note=note)


def by_class(classes: Mapping[str, Mapping[str, float]]) -> Table:
    """Precision, recall and F1 of each class."""
    columns = list(next(iter(classes.values())))
    rows: Rows = [[cut(name, 60), *(values[column] for column in columns)] for name, values in classes.items()]
    shares = ("precision", "recall", "f1")
    note = f"The first {MOST_ROWS:,} of {len(rows):,}." if len(rows) > MOST_ROWS else ""
    return Table(title="Class by class", columns=["class", *columns], rows=rows[:MOST_ROWS], bars=shares, note=note)


def confusion(labels: Sequence[str], matrix: Sequence[Sequence[int]]) -> Grid:
    """True classes down, predicted ones across, with counts; of many classes those with most errors."""
    counts = np.array(matrix, dtype=np.float64)
    note = "Rows are what is true, columns what was predicted."
    chosen = list(range(len(labels)))
    if len(labels) > MOST_CLASSES:
        wrong = counts.sum(0) + counts.sum(1) - 2 * np.diag(counts)
        chosen = sorted(np.argsort(-wrong, kind="stable")[:MOST_CLASSES].tolist())
        note += f" Of {len(labels):,} classes, the {MOST_CLASSES} with most errors."
    names = [cut(labels[place], 24) for place in chosen]
    return Grid(
        title="What was taken for what",
        values=counts[np.ix_(chosen, chosen)],
        rows=names,
        columns=names,
        row_name="true",
        column_name="predicted",
        numbers=len(names) <= MOST_NUMBERS,
        note=note,
    )


# --- where it is wrong ---


def worst(records: Records, badness: Callable[[Mapping[str, Any]], float | None], most: int = MOST_ERRORS) -> list[int]:
    """The places of the worst records, the worst first; None: nothing is wrong with it."""
    found = [(value, place) for place, record in enumerate(records) if (value := badness(record)) is not None]
    return [place for _, place in sorted(found, key=lambda one: (-one[0], one[1]))[:most]]


def wrongest(records: Records) -> list[int]:
    """Of a classifier: the most confidently wrong."""
    return worst(records, lambda one: one["probability"] if one["predicted"] != one["label"] else None)


def wrong_answers(records: Records, noun: str) -> Panel:
    """What a classifier got wrong and was surest of."""
    places = wrongest(records)
    title = "Most confidently wrong"
    if not places:
        return Words(title=title, text=f"None of the {len(records):,} {noun}s was taken for something else.")
    rows = [
        [
            cut(one[noun]),
            one["label"],
            one["predicted"],
            one["probability"],
            math.exp(-one["loss"]),
        ]
        for one in (records[place] for place in places)
    ]
    columns = [noun, "true", "predicted", "probability", "probability of the true one"]
    wrong = sum(one["predicted"] != one["label"] for one in records)
    note = f"{wrong:,} of {len(records):,} {noun}s are wrong."
    return Table(title=title, columns=columns, rows=rows, bars=columns[3:], note=note)


def wrong_images(records: Records, images: Callable[[int], NDArray[np.uint8]]) -> list[Panel]:
    """The same as pictures; `images` gives that of a place."""
    places = wrongest(records)
    if not places:
        return []
    captions = [
        f"{one['label']}, taken for {one['predicted']} ({one['probability']:.2f})"
        for one in (records[place] for place in places)
    ]
    return [
        Gallery(
            title="Most confidently wrong, as pictures",
            images=[smaller(images(place)) for place in places],
            captions=captions,
        )
    ]


def smaller(image: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Every so-manieth pixel of a large image."""
    apart = math.ceil(max(image.shape[:2]) / MOST_PIXELS)
    return image[::apart, ::apart]


def far_numbers(records: Records, noun: str) -> Table:
    """Where a regressor was farthest off."""
    places = worst(records, lambda one: abs(one["error"]))
    rows = [[cut(one[noun]), one["number"], one["predicted"], one["error"]] for one in (records[p] for p in places)]
    return Table(title="Farthest off", columns=[noun, "true", "predicted", "difference"], rows=rows)


def bad_translations(records: Records) -> Panel:
    """The worst by chrF of each alone. Of very many, those that the model found least likely are looked at."""
    from sacrebleu.metrics.chrf import CHRF

    metric, note = CHRF(), ""
    wrong = [place for place, one in enumerate(records) if not one["exact"]]
    if not wrong:
        return Words(title="Worst translations", text=f"All {len(records):,} are exactly the target.")
    if len(wrong) > MOST_SCORED:
        wrong = sorted(wrong, key=lambda place: -records[place]["loss"] / max(1, records[place]["tokens"]))[
            :MOST_SCORED
        ]
        note = f"Among the {MOST_SCORED} whose target was least expected."
    scored = {
        place: metric.sentence_score(records[place]["output"], [records[place]["target"]]).score for place in wrong
    }
    chosen = sorted(wrong, key=lambda place: (scored[place], place))[:MOST_ERRORS]
    rows = [
        [cut(one["source"]), cut(one["output"]), cut(one["target"]), scored[place]]
        for place, one in ((place, records[place]) for place in chosen)
    ]
    columns = ["source", "output", "target", "chrF"]
    return Table(title="Worst translations", columns=columns, rows=rows, note=note)


def dear_passages(passages: Sequence[tuple[Sequence[str], Float[Array, "T"]]]) -> list[Panel]:
    """Passages whose tokens were hard to expect: each with its loss in nats."""
    panels: list[Panel] = []
    dear: list[tuple[float, str, str]] = []
    for number, (tokens, losses) in enumerate(passages, 1):
        dear += [(float(loss), "".join(tokens[:place]), tokens[place]) for place, loss in enumerate(losses)]
        stretch = _dearest_stretch(losses)
        panels.append(
            Tokens(
                title=f"Dear passage {number}",
                tokens=list(tokens[stretch]),
                values=losses[None, stretch],
                names=("nats",),
                note=f"{losses.mean():.3f} nats per token in the whole passage of {len(losses):,} tokens.",
            )
        )
    dear.sort(key=lambda one: -one[0])
    rows: Rows = [[f"…{before[-40:]}", token, loss, math.exp(-loss)] for loss, before, token in dear[:MOST_ERRORS]]
    columns = ["after", "token", "nats", "probability"]
    table = Table(title="Dearest tokens in these passages", columns=columns, rows=rows, bars=("probability",))
    return [*panels, table] if panels else []


def _dearest_stretch(losses: Float[Array, "T"]) -> slice:
    """Of a long passage, the tokens in a row that cost most together."""
    if len(losses) <= MOST_DEAR:
        return slice(0, len(losses))
    sums = np.convolve(losses, np.ones(MOST_DEAR), mode="valid")
    first = int(sums.argmax())
    return slice(first, first + MOST_DEAR)


def cut(text: str, most: int = MOST_LETTERS) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _named(metric: str) -> str:
    return METRICS.get(metric, metric)
