"""The report of a training, panel by panel: how it went, how good the model is, and where it is wrong."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from glassformer.config.arrays import Array
from glassformer.inside.confusion import confusion as confusion
from glassformer.inside.curves import Records as Records
from glassformer.inside.curves import curves as curves
from glassformer.inside.curves import named
from glassformer.inside.panels import Gallery, Panel, Table, Tokens, Words
from glassformer.inside.view import View
from glassformer.text.shown import cut as cut

Rows = list[list[str | float | int | None]]

MOST_ERRORS = 12
MOST_ROWS = 500
"""Of a table of classes."""
MOST_PIXELS = 96
"""Along the longer side of an image."""
MOST_SURPRISING = 96
"""Tokens of a passage."""
MOST_SCORED = 500
"""Translations whose chrF is taken one by one."""


def report_view(title: str, panels: Sequence[Panel], note: str) -> View:
    """All of it on one page."""
    return View(title, list(panels), note)


# --- how it went ---


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
    rows: Rows = [[named(name), *(metrics.get(name) for metrics in parts.values())] for name in names]
    return Table(title="How good it is", columns=["metric", *parts], rows=rows, note=note)


def by_class(classes: Mapping[str, Mapping[str, float]]) -> Table:
    """Precision, recall and F1 of each class."""
    columns = list(next(iter(classes.values())))
    rows: Rows = [[cut(name, 60), *(values[column] for column in columns)] for name, values in classes.items()]
    shares = ("precision", "recall", "f1")
    note = f"The first {MOST_ROWS:,} of {len(rows):,}." if len(rows) > MOST_ROWS else ""
    return Table(title="Class by class", columns=["class", *columns], rows=rows[:MOST_ROWS], bars=shares, note=note)


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


def surprising_passages(passages: Sequence[tuple[Sequence[str], Float[Array, "T"]]], between: str = "") -> list[Panel]:
    """Passages whose tokens were hard to expect: each with its loss in nats. `between`: what parts tokens in a text."""
    panels: list[Panel] = []
    found: list[tuple[float, str, str]] = []
    for number, (tokens, losses) in enumerate(passages, 1):
        found += [(float(loss), between.join(tokens[:place]), tokens[place]) for place, loss in enumerate(losses)]
        stretch = _most_surprising_stretch(losses)
        panels.append(
            Tokens(
                title=f"Surprising passage {number}",
                tokens=list(tokens[stretch]),
                values=losses[None, stretch],
                names=("nats",),
                note=f"{losses.mean():.3f} nats per token in the whole passage of {len(losses):,} tokens.",
            )
        )
    found.sort(key=lambda one: -one[0])
    rows: Rows = [[f"…{before[-40:]}", token, loss, math.exp(-loss)] for loss, before, token in found[:MOST_ERRORS]]
    columns = ["after", "token", "nats", "probability"]
    table = Table(title="Most surprising tokens in these passages", columns=columns, rows=rows, bars=("probability",))
    return [*panels, table] if panels else []


def _most_surprising_stretch(losses: Float[Array, "T"]) -> slice:
    """Of a long passage, the tokens in a row whose losses are the largest together."""
    if len(losses) <= MOST_SURPRISING:
        return slice(0, len(losses))
    sums = np.convolve(losses, np.ones(MOST_SURPRISING), mode="valid")
    first = int(sums.argmax())
    return slice(first, first + MOST_SURPRISING)
