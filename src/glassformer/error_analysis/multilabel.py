"""Where several labels may be true of an example: what was wrong."""

from collections.abc import Sequence

from glassformer.error_analysis.classes import worst
from glassformer.error_analysis.finding import Rows
from glassformer.rendering.curves import Records
from glassformer.rendering.panels import Panel, Table, Words
from glassformer.statistics.intervals import Interval, share_interval
from glassformer.text.display import cut


def wrong_sets(records: Records, noun: str) -> Panel:
    """Of the examples that are not wholly right, those whose labels were expected least."""
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


def by_label_wrong(records: Records, names: Sequence[str], noun: str) -> Table:
    """Of each label how often it was missed where it is true, and said where it is not."""
    rows: Rows = []
    for name in names:
        there = [name in one["predicted"] for one in records if name in one["labels"]]
        absent = [name in one["predicted"] for one in records if name not in one["labels"]]
        missed, false = share_interval(there.count(False), len(there)), share_interval(sum(absent), len(absent))
        sides = [(missed, len(there)), (false, len(absent))]
        rows.append([cut(name, 60), *(part for share, of in sides for part in _side(share, of))])
    columns = ["label", f"{noun}s with it", "missed", "from", "to", f"{noun}s without", "falsely said", "from ", "to "]
    return Table(title="Errors by label", columns=columns, rows=rows, bars=("missed", "falsely said"))


def _side(share: Interval, of: int) -> list[str | float | int | None]:
    return [of, share.value, share.low, share.high] if of else [0, None, None, None]
