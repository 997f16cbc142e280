"""Pairs of dates as people write them in many languages (by Babel) and in ISO 8601."""

import functools
import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from random import Random
from typing import TYPE_CHECKING

from glassformer.data.datasets.dataset import Alignment, Span, load_facts

if TYPE_CHECKING:
    from babel import Locale
    from babel.dates import DateTimePattern

LANGUAGES: dict[str, list[str]] = load_facts("dates")["languages"]
"""Locales by language. The parameter `languages` selects the first ones."""

YEARS = range(1900, 2100)
HELD_OUT = 40
"""Number of years that only the test set has."""

ZEROS: dict[str, str] = load_facts("dates")["zeros"]
"""The zeros of native digits that are still in use."""

QUOTED = re.compile(r"'[^']*'")
FIELD = re.compile(r"([A-Za-z])\1*")
QUOTED_OR_FIELD = re.compile(f"{QUOTED.pattern}|{FIELD.pattern}")
WRITTEN = re.compile(r"y|yyyy|[ML]{1,4}|dd?|[Ec]{1,4}|G{1,4}")
"""Fields that a pattern may have: no year of two digits, no name of one letter."""

MARKS = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]")
"""Marks of text direction, which people do not type. The non-joiner of Persian stays, since it is spelling."""

ISO_SPANS: tuple[Span, ...] = ((0, 4), (5, 7), (8, 10))
"""Characters of year, month and day in ISO 8601."""
YEAR, MONTH, DAY = PART_MARKS = "\ue000\ue001\ue002"
"""Marks before and after each part while a date is written: private-use characters, which no language has."""
FIELD_MARKS = {"y": YEAR, "M": MONTH, "L": MONTH, "d": DAY}
"""Mark of a field, by the letter that stands for it in a pattern."""
UNMARKED = re.compile(f"[^{PART_MARKS}]")
ROWS_PER_ALIGNMENT = 10
"""Training dates per date with a gold alignment."""

MONDAY = date(2023, 11, 13)

COMMAS = re.compile(r"\s*[,،、]")
NUMBER = re.compile(r"\d+")


def date_rows(rows: int, seed: int, languages: int) -> list[tuple[str, str]]:
    """Return training dates, as written and in ISO 8601; no text occurs twice."""
    held_out = held_out_years(seed)
    years = [year for year in YEARS if year not in held_out]
    return _rows(rows, Random(f"dates {seed}"), years, languages)


def date_test_rows(rows: int, seed: int, languages: int) -> list[tuple[str, str]]:
    """Return a quarter as many test dates, in years that training does not have."""
    return _rows(-(-rows // 4), Random(f"test of dates {seed}"), sorted(held_out_years(seed)), languages)


def date_alignments(rows: int, seed: int, languages: int) -> Iterator[Alignment]:
    """Yield dates of the held-out years, a tenth of `rows`, with the spans of year, month and day aligned."""
    random, years = Random(f"alignments of dates {seed}"), sorted(held_out_years(seed))
    for marked, day in _different(-(-rows // ROWS_PER_ALIGNMENT), random, years, languages).values():
        text, parts = unmark(marked)
        rest = list(text)
        for start, end in parts:
            rest[start:end] = " " * (end - start)
        others = (word.span() for word in re.finditer(r"\S+", "".join(rest)))  # weekdays, punctuation, 年
        spans = tuple(sorted([*parts, *others]))
        links = frozenset((spans.index(part), number) for number, part in enumerate(parts))
        yield Alignment(text, day.isoformat(), spans, ISO_SPANS, links)


def held_out_years(seed: int) -> frozenset[int]:
    return frozenset(Random(f"years of dates {seed}").sample(YEARS, HELD_OUT))


def _rows(rows: int, random: Random, years: Sequence[int], languages: int) -> list[tuple[str, str]]:
    return [(text, day.isoformat()) for text, (_, day) in _different(rows, random, years, languages).items()]


def _different(rows: int, random: Random, years: Sequence[int], languages: int) -> dict[str, tuple[str, date]]:
    """Return distinct texts of one date each, with their marked form and the date."""
    spoken = list(LANGUAGES)[:languages]
    made: dict[str, tuple[str, date]] = {}
    while len(made) < rows:
        ways = ways_of_writing(random.choice(spoken))
        day, marked = _draw(random, ways, years)
        while (text := unmark(marked)[0]) in made or meanings(text) != {day}:
            day, marked = _draw(random, ways, years)
        made[text] = marked, day
    return made


def _draw(random: Random, ways: "Sequence[Way]", years: Sequence[int]) -> tuple[date, str]:
    """Return a day, and a marked text for it."""
    first = date(random.choice(years), 1, 1)
    day = first + timedelta(random.randrange((first.replace(year=first.year + 1) - first).days))
    text = random.choice(ways).write_marked(day)
    if random.random() < 0.25:
        text = COMMAS.sub("", text)
    case = random.random()
    if case < 0.25:
        text = text.lower()
    elif case < 0.4:
        text = UNMARKED.sub(lambda sign: sign[0].title(), text, count=1)
    return day, text


def unmark(marked: str) -> tuple[str, list[Span]]:
    """Return a text without the marks around its parts, and the spans of year, month and day."""
    text = ""
    borders: dict[str, list[int]] = {mark: [] for mark in PART_MARKS}
    for sign in marked:
        if sign in borders:
            borders[sign].append(len(text))
        else:
            text += sign
    return text, [(start, end) for start, end in borders.values()]


# --- formats ---


@dataclass(frozen=True)
class Way:
    """A format of dates."""

    locale: "Locale"
    pattern: "DateTimePattern"
    digits: dict[int, str]
    """Native digits by the digits 0 to 9; empty for a format without them."""

    def write(self, day: date) -> str:
        return "".join(UNMARKED.findall(self.write_marked(day)))

    def write_marked(self, day: date) -> str:
        """Write the date with marks around year, month and day."""
        text = MARKS.sub("", self.pattern.apply(day, self.locale).translate(self.digits))
        return " ".join(unicodedata.normalize("NFC", text).split())


@functools.cache
def ways_of_writing(language: str) -> tuple[Way, ...]:
    """Return the formats of a language: with names or numbers, long or short, in each kind of digits."""
    from babel import Locale
    from babel.dates import parse_pattern

    ways = []
    for place in LANGUAGES[language]:
        locale = Locale.parse(place)
        patterns = [parse_pattern(_mark(pattern)) for pattern in sorted(_patterns(locale))]
        ways += [Way(locale, pattern, digits) for digits in _digits(locale) for pattern in patterns]
    # Vietnamese numbers its weekdays; with a fourth number, a date would be ambiguous.
    return tuple(way for way in ways if len(NUMBER.findall(way.write(MONDAY))) <= 3)


def _patterns(locale: "Locale") -> set[str]:
    known = [pattern.pattern for pattern in locale.date_formats.values()]
    known += [pattern.pattern for name, pattern in locale.datetime_skeletons.items() if {*name} - {"E"} == {*"yMd"}]
    return {pattern for pattern in known if all(WRITTEN.fullmatch(field) for field in _fields(pattern))}


def _mark(pattern: str) -> str:
    """Put marks around the fields of year, month and day."""
    return QUOTED_OR_FIELD.sub(lambda field: field[0].join([FIELD_MARKS.get(field[1], "")] * 2), pattern)


def _fields(pattern: str) -> Iterator[str]:
    return (field.group() for field in FIELD.finditer(QUOTED.sub("", pattern)))


def _digits(locale: "Locale") -> list[dict[int, str]]:
    """Return the translations of digits: none, and native digits if there are any."""
    zero = ZEROS.get(locale.other_numbering_systems.get("native", ""))
    return [{}] + ([{ord("0") + digit: chr(ord(zero) + digit) for digit in range(10)}] if zero else [])


# --- the possible meanings of a text ---

Reading = tuple[int, int]
"""Position of the day among the numbers other than the year, and the month; 0: the other number is the month."""


def meanings(text: str) -> set[date]:
    """Return every date that a text with a year means in any language."""
    numbers = [int(number) for number in NUMBER.findall(text)]
    year = next(number for number in numbers if number in YEARS)
    numbers.remove(year)
    found = set()
    for place, month in readings().get(shape_of(text), ()):
        try:
            found.add(date(year, month or numbers[1 - place], numbers[place]))
        except ValueError:  # there is no such day
            continue
    return found


def shape_of(text: str) -> str:
    """Return a text without its digits, commas and capitals."""
    return NUMBER.sub(lambda number: "#" * (4 if len(number.group()) == 4 else 1), COMMAS.sub("", text).lower())


@functools.cache
def readings() -> dict[str, set[Reading]]:
    """Return the readings of each shape. A week from the 13th has every weekday, and no day that could be a month."""
    week = [[date(2023, month, day) for day in range(13, 20)] for month in range(1, 13)]
    found: dict[str, set[Reading]] = defaultdict(set)
    for language in LANGUAGES:
        for way in ways_of_writing(language):
            for days in week:
                for day in days if re.search("[Ec]", QUOTED.sub("", way.pattern.pattern)) else days[:1]:
                    text = way.write(day)
                    numbers = [int(number) for number in NUMBER.findall(text)]
                    numbers.remove(day.year)
                    reading = numbers.index(day.day), 0 if len(numbers) == 2 else day.month
                    found[shape_of(text)].add(reading)
    return dict(found)
