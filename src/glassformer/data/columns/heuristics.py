"""Guesses about a column from its name and its values."""

import math
import re
import tomllib
from collections.abc import Iterable, Sequence
from importlib.resources import files
from itertools import pairwise

from glassformer.config.errors import DataError, nearest
from glassformer.data.columns.dates import are_dates
from glassformer.data.io.table import is_empty
from glassformer.data.wording import listed

FLOAT32_MAX = (2 - 2**-23) * 2.0**127
"""Largest number that float32 can hold."""
MAX_CLASSES = 20
"""Columns with more different whole numbers hold amounts, not classes."""

NAMES: dict[str, list[str]] = tomllib.loads(files(__package__).joinpath("names.toml").read_text("utf-8"))
"""Well-known names of columns by what the columns hold."""


def prefer_last(candidates: list[str], names: Iterable[str]) -> list[str]:
    """Return the last of all columns if it is named like a measurement and the candidates like features."""
    *_, last = names
    others = [name for name in candidates if name != last]
    measured = last.lower() in NAMES["measured"] + NAMES["amount"]
    return [last] if others and measured and all(name.lower() in NAMES["feature"] for name in others) else candidates


def require_column(where: str, name: str, names: Iterable[str], flag: str) -> str:
    """Return the name; raise `DataError` if there is no such column."""
    if name in names:
        return name
    meant = nearest(name, names)
    hint = f"; did you mean {meant}?" if meant else ""
    raise DataError(f"{where}: no column '{name}'{hint} (columns: {listed(names)}): name one with {flag}")


def named_columns(where: str, value: str, names: Iterable[str], flag: str) -> list[str]:
    """Return the columns in the value of a flag: one name, or several with commas between them."""
    names = list(names)
    parts = (
        [value] if value in names or "," not in value else [part for one in value.split(",") if (part := one.strip())]
    )
    return [require_column(where, part, names, flag) for part in parts]


def number_in(value: str) -> float | None:
    """Return the number that a text denotes in Python's notation; None if it is not a finite number."""
    if value[:1].isalpha():  # fast for most texts; only inf and nan begin with a letter
        return None
    try:
        number = float(value)
    except ValueError:
        return None
    return number if math.isfinite(number) and "_" not in value else None


def by_name(names: Iterable[str], known: Sequence[str]) -> list[str]:
    """Return the columns with a well-known name; only those with the best known one, if there are any."""
    candidates = [name for name in names if name.lower() in known]
    return [name for name in candidates if name.lower() == known[0]] or candidates


def only_column(where: str, candidates: list[str], role: str, flag: str, *, joined: bool = False) -> str:
    """Return the only candidate; raise `DataError` for several. `joined`: the message offers to join them."""
    if len(candidates) > 1:
        either = " or ".join(f"'{name}'" for name in candidates[:5])
        both = f", or join them: {flag} {','.join(candidates[:5])}" if joined else ""
        raise DataError(f"{where}: {role} could be column {either}: say which with {flag}{both}")
    return candidates[0]


def is_varied_text(values: Sequence[str]) -> bool:
    """Return whether values are too varied to be categories, and neither numbers nor dates."""
    filled = [value for value in values if value.strip()]
    different = len(set(filled))
    is_varied = different > MAX_CLASSES or different > len(filled) / 2
    return is_varied and not hold_numbers(filled) and not are_dates(filled)


def words_in(values: Sequence[str]) -> float:
    """Return the mean number of words in values that are not blank."""
    filled = [value for value in values if value.strip()]
    return sum(len(value.split()) for value in filled) / max(1, len(filled))


def is_id_name(name: str) -> bool:
    known = re.fullmatch(r"(?:.*[ _-])?(?:id|uuid|guid)|idx|index|key|level_0|__index_level_0__", name.lower())
    return bool(known or re.search("[a-z]I[dD]$", name))


def is_id(name: str, values: Sequence[str]) -> bool:
    """Return whether a column holds ids, by its name or because all values are different words with digits in them."""
    if is_id_name(name) or has_no_name(name):
        return True
    if len(set(values)) < len(values) or not all(re.fullmatch(r"\S*\d\S*", value) for value in values):
        return False
    return all((number_in(value) or 0.0).is_integer() for value in values)


def has_no_name(name: str) -> bool:
    """Return whether the header left a column unnamed; such columns are often indices of DataFrames."""
    return re.fullmatch(r"Unnamed: \d+", name) is not None


def are_row_numbers(values: Sequence[str]) -> bool:
    """Return whether each value is the preceding one plus 1."""
    numbers = [number_in(value) for value in values]
    return len(numbers) > 1 and all(
        one is not None and other is not None and other - one == 1 for one, other in pairwise(numbers)
    )


def are_few(values: Sequence[str]) -> bool:
    """Return whether there are few enough different values to be classes."""
    different = len({value.strip() for value in values})
    return 2 <= different <= MAX_CLASSES and len(values) >= 2 * different


def are_numbers(values: Sequence[str]) -> bool:
    return bool(values) and all(number_in(value) is not None for value in values)


def hold_numbers(values: Iterable[str]) -> bool:
    """Return whether a column is meant to hold numbers: most of its different values are numbers."""
    different = {value.strip() for value in values if not is_empty(value)}
    return sum(number_in(value) is not None for value in different) > len(different) / 2
