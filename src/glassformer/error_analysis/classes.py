"""Where a classifier is wrong: what it takes for what, how often by class, and the mistakes it is surest of."""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glassformer.error_analysis.finding import Found, Rows, percent, some, span
from glassformer.rendering.curves import Records
from glassformer.rendering.panels import Gallery, Panel, Table, Words
from glassformer.statistics.intervals import share_interval
from glassformer.text.display import cut

LABELS = "labels"
"""What is true of an example, where that may be several labels."""
MOST_ERRORS = 12
MOST_CLASSES = 500
"""Of a table of classes."""
MOST_LETTERS = 60
"""Of a class's name."""
MOST_PIXELS = 96
"""Along the longer side of an image."""


def worst(records: Records, badness: Callable[[Mapping[str, Any]], float | None], most: int = MOST_ERRORS) -> list[int]:
    """The places of the worst records, the worst first; None: nothing is wrong with it."""
    found = [(value, place) for place, record in enumerate(records) if (value := badness(record)) is not None]
    return [place for _, place in sorted(found, key=lambda one: (-one[0], one[1]))[:most]]


def wrong_in(records: Records) -> NDArray[np.bool_]:
    """Which examples are wrong; where several labels may be true, those of which not all labels are right."""
    return np.array([one["predicted"] != one[LABELS if LABELS in one else "label"] for one in records], bool)


def how_many(records: Records, noun: str) -> Found:
    """The errors counted, in words."""
    errors, whole = int(wrong_in(records).sum()), len(records)
    verb = "is" if errors == 1 else "are"
    if not errors:
        return Found(said=f"None of the {some(whole, noun)} is wrong.")
    if errors == whole:
        return Found(said=f"All of the {some(whole, noun)} {verb} wrong.")
    interval = share_interval(errors, whole)
    return Found(said=f"{errors:,} of {some(whole, noun)} {verb} wrong: {percent(interval.value)} ({span(interval)}).")


def confusions(records: Records, noun: str) -> Found:
    """Which class is taken for which, the most frequent first."""
    pairs = Counter((one["label"], one["predicted"]) for one in records if one["label"] != one["predicted"])
    if not pairs:
        return Found()
    errors, sizes = sum(pairs.values()), Counter(one["label"] for one in records)
    ordered = sorted(pairs.items(), key=lambda item: (-item[1], item[0]))
    rows: Rows = [
        [cut(true, MOST_LETTERS), cut(said, MOST_LETTERS), count, count / errors, count / sizes[true]]
        for (true, said), count in ordered[:MOST_ERRORS]
    ]
    note = f"{len(pairs):,} kinds of confusion, {some(errors, 'error')}." if len(pairs) > MOST_ERRORS else ""
    table = Table(
        title="The most frequent confusions",
        columns=["true", "predicted", f"{noun}s", "of the errors", f"of that class's {noun}s"],
        rows=rows,
        bars=("of the errors", f"of that class's {noun}s"),
        note=note,
    )
    (true, taken), count = ordered[0]
    if count < 2:
        return Found([table])
    return Found([table], f"{percent(count / errors)} of the errors ({count:,}) take {true} for {taken}.")


def by_class_wrong(records: Records, noun: str) -> Found:
    """How often each class is taken for another one."""
    sizes = Counter(one["label"] for one in records)
    wrong = Counter(one["label"] for one in records if one["label"] != one["predicted"])
    if not wrong or len(sizes) < 2:
        return Found()
    ordered = sorted(sizes, key=lambda name: (-wrong[name] / sizes[name], name))
    rows: Rows = []
    for name in ordered[:MOST_CLASSES]:
        rate = share_interval(wrong[name], sizes[name])
        rows.append([cut(name, MOST_LETTERS), sizes[name], wrong[name], rate.value, rate.low, rate.high])
    columns = ["class", f"{noun}s", "wrong", "error rate", "from", "to"]
    note = "The worst first. The true rate lies between “from” and “to” in 95 of 100 cases (Wilson)."
    return Found([Table(title="Errors by class", columns=columns, rows=rows, bars=("error rate",), note=note)])


def wrongest(records: Records) -> list[int]:
    """The most confidently wrong."""
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
    return [gallery("Most confidently wrong, as pictures", [images(place) for place in places], captions)]


def gallery(title: str, images: Sequence[NDArray[np.uint8]], captions: Sequence[str]) -> Gallery:
    return Gallery(title=title, images=[smaller(image) for image in images], captions=captions)


def smaller(image: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Every so-manieth pixel of a large image."""
    apart = math.ceil(max(image.shape[:2]) / MOST_PIXELS)
    return image[::apart, ::apart]
