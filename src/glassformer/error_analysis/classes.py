"""Wrong classes and labels: what is taken for what, how often by class or label, and the mistakes that are surest."""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glassformer.data.wording import counted
from glassformer.error_analysis.finding import MOST_ERRORS, ErrorFinding, percent, span, table_or_words, worst
from glassformer.rendering.curves import Records
from glassformer.rendering.panels import Cell, Gallery, Panel, Rows, Table
from glassformer.statistics.intervals import share_interval
from glassformer.text.display import cut

LABELS = "labels"
"""What is true of an example, where that may be several labels."""
MOST_CLASSES = 500
"""Rows of a table of classes."""
MOST_LETTERS = 60
"""Letters of a class's name."""
MOST_PIXELS = 96
"""Pixels along the longer side of an image."""


def is_wrong(record: Mapping[str, Any]) -> bool:
    """Whether an example is wrong; where several labels may be true, whether not all labels are right."""
    return bool(record["predicted"] != record[LABELS if LABELS in record else "label"])


def wrong_rows(records: Records) -> NDArray[np.bool_]:
    """Which examples are wrong."""
    return np.array([is_wrong(record) for record in records], bool)


def error_count(records: Records, noun: str) -> ErrorFinding:
    """The errors counted, in words."""
    errors, whole = int(wrong_rows(records).sum()), counted(len(records), noun)
    verb = "is" if errors == 1 else "are"
    if not errors:
        return ErrorFinding(sentence=f"None of the {whole} is wrong.")
    if errors == len(records):
        return ErrorFinding(sentence=f"All of the {whole} {verb} wrong.")
    share = share_interval(errors, len(records))
    return ErrorFinding(sentence=f"{errors:,} of {whole} {verb} wrong: {percent(share.value)} ({span(share)}).")


def confusions(records: Records, noun: str) -> ErrorFinding:
    """Which class is taken for which, the most frequent first."""
    pairs = Counter((record["label"], record["predicted"]) for record in records if is_wrong(record))
    if not pairs:
        return ErrorFinding()
    errors, sizes = pairs.total(), Counter(record["label"] for record in records)
    ordered = sorted(pairs.items(), key=lambda item: (-item[1], item[0]))
    table = Table(
        title="The most frequent confusions",
        columns=["true", "predicted", f"{noun}s", "of the errors", f"of that class's {noun}s"],
        rows=[
            [cut(true, MOST_LETTERS), cut(other, MOST_LETTERS), count, count / errors, count / sizes[true]]
            for (true, other), count in ordered[:MOST_ERRORS]
        ],
        bars=("of the errors", f"of that class's {noun}s"),
        note=f"{len(pairs):,} kinds of confusion, {counted(errors, 'error')}." if len(pairs) > MOST_ERRORS else "",
    )
    (true, taken), count = ordered[0]
    sentence = f"{percent(count / errors)} of the errors ({count:,}) take {true} for {taken}."
    return ErrorFinding([table], sentence if count > 1 else "")


def errors_by_class(records: Records, noun: str) -> ErrorFinding:
    """How often each class is taken for another one."""
    sizes = Counter(record["label"] for record in records)
    wrong = Counter(record["label"] for record in records if is_wrong(record))
    if not wrong or len(sizes) < 2:
        return ErrorFinding()
    ordered = sorted(sizes, key=lambda name: (-wrong[name] / sizes[name], name))
    table = Table(
        title="Errors by class",
        columns=["class", f"{noun}s", "wrong", "error rate", "from", "to"],
        rows=[
            [cut(name, MOST_LETTERS), sizes[name], wrong[name], *_share(wrong[name], sizes[name])]
            for name in ordered[:MOST_CLASSES]
        ],
        bars=("error rate",),
        note="The worst first. The true rate lies between “from” and “to” in 95 of 100 cases (Wilson).",
    )
    return ErrorFinding([table])


def _share(hits: int, of: int) -> list[Cell]:
    """A share with the ends of its interval; nothing of nothing."""
    share = share_interval(hits, of)
    return [share.value, share.low, share.high] if of else [None, None, None]


def confident_errors(records: Records, noun: str) -> Panel:
    """What a classifier got wrong and was surest of."""
    columns = [noun, "true", "predicted", "probability", "probability of the true one"]
    wrong = int(wrong_rows(records).sum())
    return table_or_words(
        "Most confidently wrong",
        columns,
        [
            [cut(record[noun]), record["label"], record["predicted"], record["probability"], _true_probability(record)]
            for record in worst(records, _misplaced_confidence)
        ],
        nothing=f"None of the {counted(len(records), noun)} was taken for something else.",
        bars=columns[3:],
        takeaway=f"{wrong:,} of {counted(len(records), noun)} {'is' if wrong == 1 else 'are'} wrong",
    )


def _true_probability(record: Mapping[str, Any]) -> float | None:
    """Return the probability of the true class; None if the model does not know that class."""
    return None if record["loss"] is None else math.exp(-record["loss"])


def _misplaced_confidence(record: Mapping[str, Any]) -> float | None:
    return record["probability"] if is_wrong(record) else None


def confident_error_images(records: Records, images: Callable[[int], NDArray[np.uint8]]) -> list[Panel]:
    """What a classifier got wrong and was surest of, as pictures; `images` gives that of a place."""
    places = worst(range(len(records)), lambda place: _misplaced_confidence(records[place]))
    if not places:
        return []
    captions = [
        f"{record['label']}, taken for {record['predicted']} ({record['probability']:.2f})"
        for record in (records[place] for place in places)
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
    return table_or_words(
        "Least expected labels",
        [noun, "true", "predicted", "loss"],
        [
            [cut(record[noun]), "; ".join(record[LABELS]), "; ".join(record["predicted"]), record["loss"]]
            for record in worst(records, lambda record: record["loss"] if is_wrong(record) else None)
        ],
        nothing=f"All labels of the {counted(len(records), noun)} are right.",
        note=f"Of {wrong_rows(records).sum():,} of {counted(len(records), noun)} not all labels are right.",
    )


def errors_by_label(records: Records, names: Sequence[str], noun: str) -> Table:
    """How often each label was missed where it is true, and predicted where it is not."""
    rows: Rows = []
    for name in names:
        there = [name in record["predicted"] for record in records if name in record[LABELS]]
        absent = [name in record["predicted"] for record in records if name not in record[LABELS]]
        missed, false = _share(there.count(False), len(there)), _share(sum(absent), len(absent))
        rows.append([cut(name, MOST_LETTERS), len(there), *missed, len(absent), *false])
    return Table(
        title="Errors by label",
        columns=[
            "label",
            f"{noun}s with it",
            "missed",
            "from",
            "to",
            f"{noun}s without",
            "falsely said",
            "from ",
            "to ",
        ],
        rows=rows,
        bars=("missed", "falsely said"),
    )
