"""Numbers as people write them: with a decimal point or comma, thousands separators, a currency or a per cent sign."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from glassformer.config.data_section import COMMA, POINT
from glassformer.config.errors import DataError
from glassformer.data.columns.heuristics import FLOAT32_MAX, number_in
from glassformer.data.io.table import Table, is_empty
from glassformer.data.wording import counted, line_in_words, listed

OTHER_SIGN = {POINT: COMMA, COMMA: POINT}

_APART = " '’\u00a0\u202f"
"""Thousands separators that are never decimal signs."""
_SPELLINGS = {
    sign: re.compile(
        rf"[+-]?(?:\d+|[1-9]\d{{0,2}}(?:[{other}]\d{{3}})+|[1-9]\d{{0,2}}(?:[{_APART}]\d{{3}})+)?"
        rf"(?:[{sign}]\d+)?(?:[eE][+-]?\d+)?"
    )
    for sign, other in OTHER_SIGN.items()
}


_CURRENCY = r"(?:US)?\$|[€£¥₹₽₩]|USD|EUR|GBP|CHF|JPY|CNY|INR"
_UNIT = re.compile(
    rf"(?P<minus>[+-]?)\s*(?P<before>{_CURRENCY})?\s*(?P<number>[-+\d.,].*?)\s*(?P<after>%|{_CURRENCY})?"
)


def unit_of(value: str) -> tuple[str, str]:
    """Return the currency or per cent sign of a number, or an empty text, and the number without it."""
    match = _UNIT.fullmatch(value)
    if match is None or bool(match["before"]) == bool(match["after"]):
        return "", value
    return match["before"] or match["after"], match["minus"] + match["number"]


def plain_number(value: str, sign: str) -> str | None:
    """Return a number with this decimal sign in Python's notation, 1234.5; None if it is not a number."""
    text = value.strip()
    if sign == POINT and number_in(text) is not None:
        return text
    text = unit_of(text)[1]
    if not _SPELLINGS[sign].fullmatch(text):
        return None
    plain = text.translate({ord(apart): None for apart in _APART + OTHER_SIGN[sign]}).replace(sign, POINT)
    return plain if number_in(plain) is not None else None


@dataclass(frozen=True)
class Cells:
    """The values of a column of numbers."""

    values: list[str]
    """Values in Python's notation; values that are not numbers are unchanged."""
    other_sign: list[tuple[str, str]]
    """Values with the other decimal sign, as written and in Python's notation."""

    def remarks(self, name: str) -> list[str]:
        """Return a remark on values with the other decimal sign."""
        if not self.other_sign:
            return []
        first, number = self.other_sign[0]
        some = counted(len(self.other_sign), "value is", "values are")
        return [f"column '{name}': {some} written with the other decimal sign, '{first}' is read as {number}"]


def plain_cells(values: Sequence[str], sign: str) -> Cells:
    """Read numbers with the column's decimal sign (`column_sign`), or else with the other sign."""
    usual = column_sign(values, sign)
    cells, other_sign = [], []
    for value in values:
        plain = plain_number(value, usual)
        if plain is None and not is_empty(value):
            plain = plain_number(value, OTHER_SIGN[usual])
        if plain is not None and plain != plain_number(value, sign):
            other_sign.append((value.strip(), plain))
        cells.append(value if plain is None else plain)
    return Cells(cells, other_sign)


def read_numbers(
    where: str, lines: Sequence[int], name: str, values: Sequence[str], sign: str, *, advice: str
) -> tuple[NDArray[np.float64], Cells]:
    """Return the numbers of a column, NaN for empty cells, and its cells as a program writes them.

    Raise `DataError` for a text, with this advice, and for a number that float32 cannot hold.
    """
    numbers, cells = np.full(len(values), np.nan), plain_cells(values, sign)
    for row, value in enumerate(cells.values):
        if is_empty(value):
            continue
        number = number_in(value)
        if number is None:
            problem = f"text where a number is wanted: '{value.strip()[:40]}' ({advice})"
        elif abs(number) > FLOAT32_MAX:
            problem = f"{value.strip()[:40]} is too large for float32: correct it, or leave it empty"
        else:
            numbers[row] = number
            continue
        raise DataError(f"{where}, {line_in_words(lines[row])}, column '{name}': {problem}")
    return numbers, cells


def column_sign(values: Iterable[str], sign: str) -> str:
    """Return the decimal sign of a column: this one, unless it fits no value better and the other fits some better."""
    is_other = False
    for value in values:
        if COMMA not in value and POINT not in value:
            continue
        this, other = (plain_number(value, one) is not None for one in (sign, OTHER_SIGN[sign]))
        if this and not other:
            return sign
        is_other |= other and not this
    return OTHER_SIGN[sign] if is_other else sign


def decimal_signs(table: Table, wanted: str | None) -> dict[str, str]:
    """Return the decimal sign of each column of numbers that are not all in Python's notation.

    Values that fit only one sign decide. For ambiguous columns, as with 1,234, it is the `wanted` sign, that of the
    other columns, or a point.
    """
    signs: dict[str, str] = {}
    unclear = []
    for name, values in table.columns.items():
        different = {value.strip() for value in values if not is_empty(value)}
        if table.typed and all(number_in(value) is not None for value in different):
            continue
        others = [value for value in different if not value[:1].isalpha() or unit_of(value)[0]]  # EUR 5
        counts = {sign: sum(plain_number(value, sign) is not None for value in others) for sign in OTHER_SIGN}
        if max(counts.values()) <= len(different) / 2:
            continue
        if wanted is not None and counts[wanted] > len(different) / 2:
            signs[name] = column_sign(different, wanted)
        elif counts[POINT] != counts[COMMA]:
            signs[name] = max(counts, key=counts.__getitem__)
        elif any(COMMA in value or POINT in value or unit_of(value)[0] for value in different):
            unclear.append(name)
    usual = next(iter(signs.values())) if len(set(signs.values())) == 1 else POINT
    signs |= dict.fromkeys(unclear, usual)
    return {name: sign for name, sign in signs.items() if _changes(table.columns[name], sign)}


def _changes(values: Sequence[str], sign: str) -> bool:
    return any(plain != value.strip() for value, plain in zip(values, plain_cells(values, sign).values, strict=True))


def plain_numbers(table: Table, signs: Mapping[str, str]) -> Table:
    """Return the table with its numbers in Python's notation."""
    if not signs:
        return table
    plain = {name: plain_cells(table.columns[name], sign).values for name, sign in signs.items()}
    return replace(table, columns={**table.columns, **plain})


def spelled_with(table: Table, signs: Mapping[str, str]) -> Table:
    """Return a typed table, whose numbers have points, with its numbers written with these signs."""
    commas = [name for name, sign in signs.items() if table.typed and sign == COMMA and name in table.columns]
    spelled = {
        name: [value.replace(POINT, COMMA) if number_in(value) is not None else value for value in table.columns[name]]
        for name in commas
    }
    return replace(table, columns={**table.columns, **spelled}) if spelled else table


def numbers_in_words(table: Table, signs: Mapping[str, str]) -> str:
    """Return an example of how the numbers of each column are read; empty without such columns."""
    examples = []
    for name, sign in signs.items():
        values = [value.strip() for value in table.columns[name]]
        odd = [value for value in values if plain_number(value, sign) not in (None, value)]
        telling = [value for value in odd if plain_number(value, OTHER_SIGN[sign]) is None]
        example = (telling or odd or values)[0]
        examples.append(f"'{example}' in {name} is {plain_cells([example], sign).values[0]}")
    return f"numbers: {listed(examples)} (--data.decimal)" if examples else ""
