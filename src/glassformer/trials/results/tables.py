"""A comparison as plain files: a table for a report, and one for programs."""

import csv
import io
from typing import Any

from glassformer.config.units import duration
from glassformer.statistics.paired import Difference
from glassformer.trials.results.metrics import MEANS, QUALITY, titled
from glassformer.trials.results.rounding import amount, from_to, memory, rounded
from glassformer.trials.results.rows import Row
from glassformer.trials.results.summary import Summary
from glassformer.trials.running.question import ABLATION

TEXT_COLUMNS = ("model", "remarks")
"""Columns that hold no numbers."""


def columns_of(comparison: Summary) -> list[str]:
    first = next((row for row in comparison.rows if row.outcomes), None)
    of = "whole" if comparison.mode == ABLATION else "best"
    metric = titled(first.metric) if first else "score"
    whole = titled(first.outcomes[0].primary) if first else ""
    return [
        "model",
        metric,
        f"{whole} of all",
        f"behind the {of}",
        "remarks",
        "parameters",
        "training",
        "one example",
        "memory",
        "updates",
    ]


def filled_columns(comparison: Summary) -> tuple[list[str], list[list[str]]]:
    """The table as it is read: its columns, without those that are empty in every row, and its rows."""
    names = columns_of(comparison)
    rows = [_cells(row, behind) for row, behind in zip(comparison.rows, comparison.behind, strict=True)]
    filled = [place for place in range(len(names)) if any(row[place] for row in rows)]
    return [names[place] for place in filled], [[row[place] for place in filled] for row in rows]


def _cells(row: Row, behind: Difference | None) -> list[str]:
    """A row's numbers as far as they are known."""
    remarks = ", ".join(row.marks)
    if not row.outcomes:
        return [row.label, "", "", "", remarks, *[""] * 5]
    few, many = row.updates
    return [
        row.label,
        row.score_with_interval,
        _of_all(row),
        "" if behind is None else from_to(behind.value, behind.low, behind.high),
        remarks,
        amount(row.parameters) if row.parameters else "",
        duration(row.seconds) if row.seconds else "",
        duration(row.per_example),
        memory(row.memory),
        "" if not many else f"{many:,}" if few == many else f"{few:,}–{many:,}",
    ]


def _of_all(row: Row) -> str:
    """The metric of the whole part, where rows are ranked by a mean of its examples instead."""
    primary = row.outcomes[0].primary
    return rounded(row.metrics[primary], row.decimals) if row.metric == MEANS.get(primary) else ""


def as_markdown(comparison: Summary) -> str:
    names, rows = filled_columns(comparison)
    lines = [f"## {comparison.title}", ""]
    lines += [f"Trained for {comparison.budget}.", ""] if comparison.budget else []
    lines.append(_line(names))
    lines.append(_line("---" if name in TEXT_COLUMNS else "---:" for name in names))
    lines += [_line(row) for row in rows]
    lines += ["", *(f"- {word}" for word in comparison.words)]
    lines += ["", *(f"_{note}_  " for note in comparison.notes)]
    return "\n".join(lines).rstrip() + "\n"


def as_text(comparison: Summary) -> str:
    """A plain table, and what it says."""
    names, rows = filled_columns(comparison)
    table = [names, *rows]
    wide = [max(len(row[place]) for row in table) for place in range(len(names))]
    lines = [
        "  ".join(
            cell.ljust(width) if name in TEXT_COLUMNS else cell.rjust(width)
            for name, cell, width in zip(names, row, wide, strict=True)
        ).rstrip()
        for row in table
    ]
    return "\n".join([comparison.title, "", *lines, "", *comparison.words])


def _line(cells: Any) -> str:
    return "| " + " | ".join(str(cell).replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"


def as_csv(comparison: Summary) -> str:
    keys = list(dict.fromkeys(key for row in comparison.rows for key in row.varied))
    there = {name for row in comparison.rows for name in row.metrics}
    metrics = [name for name in QUALITY if name in there]
    rows = [
        {
            "name": row.name,
            "kind": row.kind,
            **{key: row.varied.get(key) for key in keys},
            "score": row.score if row.outcomes else None,
            "low": row.interval.low if row.interval else None,
            "high": row.interval.high if row.interval else None,
            "seeds": len(row.outcomes),
            "failed": len(row.errors),
            "behind": behind.value if behind else None,
            "behind_low": behind.low if behind else None,
            "behind_high": behind.high if behind else None,
            "p": behind.p if behind else None,
            "parameters": row.parameters if row.outcomes else None,
            "learned": row.learned,
            "seconds": row.seconds if row.outcomes else None,
            "seconds_per_example": row.per_example,
            "memory": row.memory,
            "updates": row.updates[1] if row.outcomes else None,
            **{f"mean_{name}": row.metrics.get(name) for name in metrics},
            "remarks": "; ".join(row.marks),
        }
        for row, behind in zip(comparison.rows, comparison.behind, strict=True)
    ]
    out = io.StringIO()
    writer = csv.DictWriter(out, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()
