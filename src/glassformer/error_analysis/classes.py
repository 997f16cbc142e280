"""Wrong classes and labels: what is taken for what, how often by class or label, and the mistakes that are surest."""

import math
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from glassformer.error_analysis.finding import MOST_ERRORS, ErrorFinding, percent, plural, span, worst
from glassformer.rendering.curves import Records
from glassformer.rendering.panels import Cell, Gallery, Panel, Rows, Table, Words
from glassformer.statistics.intervals import Interval, share_interval
from glassformer.text.display import cut

LABELS = "labels"
"""What is true of an example, where that may be several labels."""
MOST_CLASSES = 500
"""Rows of a table of classes."""
MOST_LETTERS = 60
"""Letters of a class's name."""
MOST_PIXELS = 96
"""Pixels along the longer side of an image."""


def wrong_rows(records: Records) -> NDArray[np.bool_]:
    """Which examples are wrong; where several labels may be true, those of which not all labels are right."""
    return np.array([one["predicted"] != one[LABELS if LABELS in one else "label"] for one in records], bool)


def error_count(records: Records, noun: str) -> ErrorFinding:
    """The errors counted, in words."""
    errors, whole = int(wrong_rows(records).sum()), len(records)
    verb = "is" if errors == 1 else "are"
    if not errors:
        return ErrorFinding(sentence=f"None of the {plural(whole, noun)} is wrong.")
    if errors == whole:
        return ErrorFinding(sentence=f"All of the {plural(whole, noun)} {verb} wrong.")
    interval = share_interval(errors, whole)
    return ErrorFinding(
        sentence=f"{errors:,} of {plural(whole, noun)} {verb} wrong: {percent(interval.value)} ({span(interval)})."
    )


def confusions(records: Records, noun: str) -> ErrorFinding:
    """Which class is taken for which, the most frequent first."""
    pairs = Counter((one["label"], one["predicted"]) for one in records if one["label"] != one["predicted"])
    if not pairs:
        return ErrorFinding()
    errors, sizes = sum(pairs.values()), Counter(one["label"] for one in records)
    ordered = sorted(pairs.items(), key=lambda item: (-item[1], item[0]))
    rows: Rows = [
        [cut(true, MOST_LETTERS), cut(other, MOST_LETTERS), count, count / errors, count / sizes[true]]
        for (true, other), count in ordered[:MOST_ERRORS]
    ]
    note = f"{len(pairs):,} kinds of confusion, {plural(errors, 'error')}." if len(pairs) > MOST_ERRORS else ""
    table = Table(
        title="The most frequent confusions",
        columns=["true", "predicted", f"{noun}s", "of the errors", f"of that class's {noun}s"],
        rows=rows,
        bars=("of the errors", f"of that class's {noun}s"),
        note=note,
    )
    (true, taken), count = ordered[0]
    if count < 2:
        return ErrorFinding([table])
    return ErrorFinding([table], f"{percent(count / errors)} of the errors ({count:,}) take {true} for {taken}.")


def errors_by_class(records: Records, noun: str) -> ErrorFinding:
    """How often each class is taken for another one."""
    sizes = Counter(one["label"] for one in records)
    wrong = Counter(one["label"] for one in records if one["label"] != one["predicted"])
    if not wrong or len(sizes) < 2:
        return ErrorFinding()
    ordered = sorted(sizes, key=lambda name: (-wrong[name] / sizes[name], name))
    rows: Rows = []
    for name in ordered[:MOST_CLASSES]:
        rate = share_interval(wrong[name], sizes[name])
        rows.append([cut(name, MOST_LETTERS), sizes[name], wrong[name], rate.value, rate.low, rate.high])
    columns = ["class", f"{noun}s", "wrong", "error rate", "from", "to"]
    note = "The worst first. The true rate lies between “from” and “to” in 95 of 100 cases (Wilson)."
    return ErrorFinding([Table(title="Errors by class", columns=columns, rows=rows, bars=("error rate",), note=note)])


def most_confident_errors(records: Records) -> list[int]:
    """The places of the most confidently wrong."""
    return worst(records, lambda one: one["probability"] if one["predicted"] != one["label"] else None)


def confident_errors(records: Records, noun: str) -> Panel:
    """What a classifier got wrong and was surest of."""
    places = most_confident_errors(records)
    title = "Most confidently wrong"
    if not places:
        return Words(title=title, text=f"None of the {len(records):,} {noun}s was taken for something else.")
    rows = [
        [cut(one[noun]), one["label"], one["predicted"], one["probability"], math.exp(-one["loss"])]
        for one in (records[place] for place in places)
    ]
    columns = [noun, "true", "predicted", "probability", "probability of the true one"]
    wrong = sum(one["predicted"] != one["label"] for one in records)
    note = f"{wrong:,} of {len(records):,} {noun}s are wrong."
    return Table(title=title, columns=columns, rows=rows, bars=columns[3:], note=note)


def confident_error_images(records: Records, images: Callable[[int], NDArray[np.uint8]]) -> list[Panel]:
    """What a classifier got wrong and was surest of, as pictures; `images` gives that of a place."""
    places = most_confident_errors(records)
    if not places:
        return []
    captions = [
        f"{one['label']}, taken for {one['predicted']} ({one['probability']:.2f})"
        for one in (records[place] for place in places)
    ]
    pictures = [thumbnail(images(place)) for place in places]
    return [Gallery(title="Most confidently wrong, as pictures", images=pictures, captions=captions)]


def thumbnail(image: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Every so-manieth pixel of a large image."""
    stride = math.ceil(max(image.shape[:2]) / MOST_PIXELS)
    return image[::stride, ::stride]


# --- several labels ---


def least_expected_labels(records: Records, noun: str) -> Panel:
    """The examples that are not wholly right and whose labels were expected least."""
    places = worst(records, lambda one: one["loss"] if one["predicted"] != one["labels"] else None)
    title = "Least expected labels"
    if not places:
        return Words(title=title, text=f"All labels of all {len(records):,} {noun}s are right.")
    rows: Rows = [
        [cut(one[noun]), "; ".join(one["labels"]), "; ".join(one["predicted"]), one["loss"]]
        for one in (records[place] for place in places)
    ]
    wrong = sum(one["predicted"] != one["labels"] for one in records)
    note = f"Of {wrong:,} of {len(records):,} {noun}s not all labels are right."
    return Table(title=title, columns=[noun, "true", "predicted", "loss"], rows=rows, note=note)


def errors_by_label(records: Records, names: Sequence[str], noun: str) -> Table:
    """How often each label was missed where it is true, and predicted where it is not."""
    rows: Rows = []
    for name in names:
        there = [name in one["predicted"] for one in records if name in one["labels"]]
        absent = [name in one["predicted"] for one in records if name not in one["labels"]]
        missed, false = share_interval(there.count(False), len(there)), share_interval(sum(absent), len(absent))
        sides = [(missed, len(there)), (false, len(absent))]
        rows.append([cut(name, 60), *(part for share, of in sides for part in _side(share, of))])
    columns = ["label", f"{noun}s with it", "missed", "from", "to", f"{noun}s without", "falsely said", "from ", "to "]
    return Table(title="Errors by label", columns=columns, rows=rows, bars=("missed", "falsely said"))


def _side(share: Interval, of: int) -> list[Cell]:
    return [of, share.value, share.low, share.high] if of else [0, None, None, None]
