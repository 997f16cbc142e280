"""How columns look: what they are called, and what their values are."""

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
FEW = 20
"""Whole numbers with more different values than this are amounts, not classes."""

NAMES: dict[str, list[str]] = tomllib.loads(files(__package__).joinpath("names.toml").read_text("utf-8"))
"""Well-known names of columns, by what they hold."""


def prefer_last(found: list[str], names: Iterable[str]) -> list[str]:
    """Return the last column instead of one named category if it has a well-known name of something measured."""
    *_, last = names
    others = [name for name in found if name != last]
    measured = last.lower() in NAMES["measured"] + NAMES["amount"]
    return [last] if others and measured and all(name.lower() in NAMES["feature"] for name in others) else found


def require_column(where: str, name: str, names: Iterable[str], flag: str) -> str:
    """The name, if there is such a column."""
    if name in names:
        return name
    meant = nearest(name, names)
    hint = f"; did you mean {meant}?" if meant else ""
    raise DataError(f"{where}: no column '{name}'{hint} (columns: {listed(names)}): name one with {flag}")


def named_columns(where: str, named: str, names: Iterable[str], flag: str) -> list[str]:
    """The columns that a flag names: one, or several with commas between them."""
    names = list(names)
    if named in names or "," not in named:
        return [require_column(where, named, names, flag)]
    return [require_column(where, name.strip(), names, flag) for name in named.split(",") if name.strip()]


def number_in(value: str) -> float | None:
    """The number that a value is, if it is one."""
    if value[:1].isalpha():  # of what float reads, only inf and nan begin so; most texts do
        return None
    try:
        number = float(value)
    except ValueError:
        return None
    return number if math.isfinite(number) and "_" not in value else None


def by_name(names: Iterable[str], known: Sequence[str]) -> list[str]:
    """Columns with a well-known name; where the best known one is there, it alone."""
    found = [name for name in names if name.lower() in known]
    return [name for name in found if name.lower() == known[0]] or found


def only_column(where: str, found: list[str], what: str, flag: str, *, joined: bool = False) -> str:
    """The one that was found. `joined`: several could be read as one."""
    if len(found) > 1:
        either = " or ".join(f"'{name}'" for name in found[:5])
        both = f", or join them: {flag} {','.join(found[:5])}" if joined else ""
        raise DataError(f"{where}: {what} could be column {either}: say which with {flag}{both}")
    return found[0]


def is_varied_text(values: Sequence[str]) -> bool:
    """Too many different values to be categories, and neither numbers nor dates."""
    filled = [value for value in values if value.strip()]
    different = len(set(filled))
    return (different > FEW or different > len(filled) / 2) and not hold_numbers(filled) and not are_dates(filled)


def words_in(values: Sequence[str]) -> float:
    """Words in a value, on average."""
    filled = [value for value in values if value.strip()]
    return sum(len(value.split()) for value in filled) / max(1, len(filled))


def is_id_name(name: str) -> bool:
    known = re.fullmatch(r"(?:.*[ _-])?(?:id|uuid|guid)|idx|index|key|level_0|__index_level_0__", name.lower())
    return bool(known or re.search("[a-z]I[dD]$", name))


def is_id(name: str, values: Sequence[str]) -> bool:
    """An id by its name, or by values that are single words with digits in them, no broken numbers, all different."""
    if is_id_name(name) or has_no_name(name):
        return True
    if len(set(values)) < len(values) or not all(re.fullmatch(r"\S*\d\S*", value) for value in values):
        return False
    return all((number_in(value) or 0.0).is_integer() for value in values)


def has_no_name(name: str) -> bool:
    """Whether it is a column that a header left without a name; such ones are indices of DataFrames."""
    return re.fullmatch(r"Unnamed: \d+", name) is not None


def are_row_numbers(values: Sequence[str]) -> bool:
    """Whether they are nothing but the rows' numbers, one after the other."""
    numbers = [number_in(value) for value in values]
    return len(numbers) > 1 and all(
        one is not None and other is not None and other - one == 1 for one, other in pairwise(numbers)
    )


def are_few(values: Sequence[str]) -> bool:
    """Whether they may be classes."""
    different = len({value.strip() for value in values})
    return 2 <= different <= FEW and len(values) >= 2 * different


def are_numbers(values: Sequence[str]) -> bool:
    return bool(values) and all(number_in(value) is not None for value in values)


def hold_numbers(values: Iterable[str]) -> bool:
    """Whether a column is meant to hold numbers: most of its different values are some."""
    different = {value.strip() for value in values if not is_empty(value)}
    return sum(number_in(value) is not None for value in different) > len(different) / 2
