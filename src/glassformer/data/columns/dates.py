"""Dates as people write them: in which order, and what a model reads of one."""

import datetime
import re
from collections.abc import Iterable, Sequence

from glassformer.data.io.table import is_empty

UNCLEAR = "unclear"
"""The order of dates whose day and month cannot be told apart."""

_TIME = (
    r"(?:[T ,]+(?P<hour>\d{1,2}):(?P<minute>\d\d)(?::(?P<second>\d\d)(?:[.,]\d+)?)?"
    r" *(?P<half>[AaPp][Mm])? *(?:Z|UTC|GMT|[+-]\d\d(?::?\d\d)?)?)?"
)
_PARTS = {"y": r"(?P<year>\d{4})", "m": r"(?P<month>\d{1,2})", "d": r"(?P<day>\d{1,2})"}
_ORDERS = {
    order: re.compile(rf"{_PARTS[order[0]]}(?P<sign>[-./]){_PARTS[order[1]]}(?P=sign){_PARTS[order[2]]}{_TIME}")
    for order in ("ymd", "dmy", "mdy")
}
ORDERS = tuple(_ORDERS)
"""Year, month and day in the order in which they are written."""
ORDER_IN_WORDS = {"ymd": "year first", "dmy": "day first", "mdy": "month first"}


def moment_of(value: str, order: str) -> datetime.datetime | None:
    """The date that a value names, with its time as it is written there; None: it is none in this order."""
    found = _ORDERS[order].fullmatch(value.strip())
    if found is None:
        return None
    hour = int(found["hour"] or 0)
    if found["half"]:
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + (12 if found["half"].lower() == "pm" else 0)
    year, month, day = (int(found[part]) for part in ("year", "month", "day"))
    try:
        return datetime.datetime(year, month, day, hour, int(found["minute"] or 0), int(found["second"] or 0))
    except ValueError:
        return None


def date_in(value: str, order: str) -> datetime.datetime | None:
    """The date that a value of a column with this order names; one that begins with its year is read in any column."""
    return moment_of(value, order) or moment_of(value, "ymd")


def unread_dates(values: Iterable[str], order: str) -> dict[str | None, list[int]]:
    """The rows of a column with this order whose value is no date in it, by the order in which it is one; empty values
    are left out.
    """
    rows: dict[str | None, list[int]] = {}
    for row, value in enumerate(values):
        if not is_empty(value) and date_in(value, order) is None:
            other = next((other for other in ORDERS if moment_of(value, other) is not None), None)
            rows.setdefault(other, []).append(row)
    return rows


def date_order(values: Iterable[str]) -> str | None:
    """The order of a column of dates, which most of its values tell, empty ones left out; None: they are none.

    What comes first in 05/06/2024 is told by other dates, such as 31/05/2024; a date with dots begins with its day.
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
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def date_parts(values: Sequence[str], order: str, first: datetime.datetime) -> dict[str, list[str]]:
    """What a model reads of each date, by its name: nothing, where it is none. `first`: from which days are counted."""
    parts: dict[str, list[str]] = {name: [] for name in ("year", "month", "weekday", "hour", "days")}
    for value in values:
        moment = date_in(value, order)
        said = [""] * len(parts)
        if moment is not None:
            days = str((moment - first).total_seconds() / 86400)
            said = [str(moment.year), MONTHS[moment.month - 1], WEEKDAYS[moment.weekday()], str(moment.hour), days]
        for cells, part in zip(parts.values(), said, strict=True):
            cells.append(part)
    return parts


# --- moments: what rows are ordered by, to the fraction of a second and across time zones ---

_ISO = re.compile(r"\d{4}-\d\d-\d\d(?:[T ].+)?")
_OTHER = re.compile(r"\d{1,4}[./-]\d{1,2}[./-]\d{2,4}(?:[T ,].+)?")
"""A date as people write it, from which alone the order cannot be told for certain."""


def time_of(value: str) -> datetime.datetime | None:
    """The moment that an ISO date, or date and time, names; one without a time zone is taken as UTC."""
    if not _ISO.fullmatch(value.strip()):
        return None
    try:
        moment = datetime.datetime.fromisoformat(value.strip())
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)


def times_of(values: Sequence[str]) -> list[datetime.datetime | None]:
    """The moment that each value names: as ISO dates, or where all are dates of another order, in the one they tell."""
    times = [time_of(value) for value in values]
    if any(times) or not are_other_dates(values):
        return times
    order = date_order(values)
    if order is None or order == UNCLEAR:
        return times
    moments = [moment_of(value, order) for value in values]
    found = [moment.replace(tzinfo=datetime.UTC) for moment in moments if moment is not None]
    return [*found] if len(found) == len(values) else times


def are_other_dates(values: Sequence[str]) -> bool:
    """Whether all of them look like dates that people write."""
    return bool(values) and all(_OTHER.fullmatch(value) for value in values)
