"""Dates in columns: their order of day, month and year, the parts that a model reads, and moments to sort rows by."""

import datetime
import re
from collections.abc import Iterable, Sequence

from glassformer.data.io.table import is_empty

UNCLEAR = "unclear"
"""The order of dates whose day and month cannot be distinguished."""

_TIME = (
    r"(?:[T ,]+(?P<hour>\d{1,2}):(?P<minute>\d\d)(?::(?P<second>\d\d)(?:[.,]\d+)?)?"
    r" *(?P<half>[AaPp][Mm])? *(?:Z|UTC|GMT|[+-]\d\d(?::?\d\d)?)?)?"
)
_PARTS = {"y": r"(?P<year>\d{4})", "m": r"(?P<month>\d{1,2})", "d": r"(?P<day>\d{1,2})"}
ORDER_IN_WORDS = {"ymd": "year first", "dmy": "day first", "mdy": "month first"}
ORDERS = tuple(ORDER_IN_WORDS)
"""Orders in which people write year, month and day."""
_PATTERNS = {
    order: re.compile(rf"{_PARTS[order[0]]}(?P<sign>[-./]){_PARTS[order[1]]}(?P=sign){_PARTS[order[2]]}{_TIME}")
    for order in ORDERS
}


def moment_of(value: str, order: str) -> datetime.datetime | None:
    """Return the date and time that a value denotes in this order, without its time zone; None if it is not a date."""
    match = _PATTERNS[order].fullmatch(value.strip())
    if match is None:
        return None
    hour = int(match["hour"] or 0)
    if match["half"]:
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + (12 if match["half"].lower() == "pm" else 0)
    year, month, day = (int(match[part]) for part in ("year", "month", "day"))
    try:
        return datetime.datetime(year, month, day, hour, int(match["minute"] or 0), int(match["second"] or 0))
    except ValueError:
        return None


def date_in(value: str, order: str) -> datetime.datetime | None:
    """Return the date of a value in a column of this order. A value that begins with the year is read in any column."""
    return moment_of(value, order) or moment_of(value, "ymd")


def unread_dates(values: Iterable[str], order: str) -> dict[str | None, list[int]]:
    """Return the rows of a column with this order whose values are not dates in it, except empty ones.

    The keys are the orders in which the values are dates, or None.
    """
    rows: dict[str | None, list[int]] = {}
    for row, value in enumerate(values):
        if not is_empty(value) and date_in(value, order) is None:
            other = next((other for other in ORDERS if moment_of(value, other) is not None), None)
            rows.setdefault(other, []).append(row)
    return rows


def date_order(values: Iterable[str]) -> str | None:
    """Return the order in which most of the values are dates; None if most are not dates. No value may be empty.

    Other dates, such as 31/05/2024, decide about 05/06/2024. Dates with dots begin with the day.
    """
    different = {value.strip() for value in values}
    counts = {order: sum(moment_of(value, order) is not None for value in different) for order in ORDERS}
    best = max(counts, key=counts.__getitem__)
    if counts[best] <= len(different) / 2:
        return None
    if best != "ymd" and counts["dmy"] == counts["mdy"]:
        return "dmy" if all("." in value for value in different) else UNCLEAR
    return best


def are_dates(values: Sequence[str]) -> bool:
    return bool(values) and all(_is_date(value) for value in values)


def _is_date(value: str) -> bool:
    iso = re.match(r"\d{4}-\d\d-\d\d(?:$|[T ])", value)
    return bool(iso) or any(moment_of(value, order) is not None for order in ORDERS)


MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
WEEKDAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
"""English names, whatever the locale of the program."""


def date_parts(values: Sequence[str], order: str, first: datetime.datetime) -> dict[str, list[str]]:
    """Return what a model reads of each date, by name; empty texts for a value that is not a date.

    `first`: the date from which days are counted.
    """
    parts: dict[str, list[str]] = {name: [] for name in ("year", "month", "weekday", "hour", "days")}
    for value in values:
        moment = date_in(value, order)
        cells = [""] * len(parts)
        if moment is not None:
            days = str((moment - first).total_seconds() / 86400)
            cells = [str(moment.year), MONTHS[moment.month - 1], WEEKDAYS[moment.weekday()], str(moment.hour), days]
        for column, cell in zip(parts.values(), cells, strict=True):
            column.append(cell)
    return parts


# --- moments by which rows are sorted, to the fraction of a second and across time zones ---

_ISO = re.compile(r"\d{4}-\d\d-\d\d(?:[T ].+)?")
_OTHER = re.compile(r"\d{1,4}[./-]\d{1,2}[./-]\d{2,4}(?:[T ,].+)?")
"""A date that does not show its order."""


def time_of(value: str) -> datetime.datetime | None:
    """Return the moment of an ISO date, or date and time, in UTC unless it names a time zone; None for other values."""
    if not _ISO.fullmatch(value.strip()):
        return None
    try:
        moment = datetime.datetime.fromisoformat(value.strip())
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)


def times_of(values: Sequence[str]) -> list[datetime.datetime | None]:
    """Return the moment of each value: of ISO dates, or if all values are other dates, of dates in their order."""
    times = [time_of(value) for value in values]
    order = None if any(times) or not are_other_dates(values) else date_order(values)
    if order is None or order == UNCLEAR:
        return times
    moments = [moment_of(value, order) for value in values]
    others = [moment.replace(tzinfo=datetime.UTC) for moment in moments if moment is not None]
    return [*others] if len(others) == len(values) else times


def are_other_dates(values: Sequence[str]) -> bool:
    """Return whether all values look like dates that do not show their order."""
    return bool(values) and all(_OTHER.fullmatch(value) for value in values)
