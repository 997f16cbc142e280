"""Which column is the text and which the label: inferred where it is obvious, asked for where it is not."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from glassformer.config.errors import DataError, SettingError
from glassformer.config.names import nearest, unknown
from glassformer.config.presets import CLASSIFICATION, LANGUAGE_MODEL, REGRESSION, TASKS
from glassformer.config.sections import DataSettings
from glassformer.data.table import Table

TEXT_NAMES = (
    "text", "sentence", "review", "content", "message", "tweet", "question", "comment", "body", "document", "post",
    "utterance", "paragraph", "passage", "description", "headline", "query", "abstract", "article", "story", "sms",
)  # fmt: skip
"""Well-known names of the text; the first wins over the others."""

CLASS_NAMES = (
    "label", "class", "category", "target", "sentiment", "y", "answer", "emotion", "topic", "intent", "genre", "spam",
    "viral",
)  # fmt: skip
AMOUNT_NAMES = ("rating", "score", "stars")

SAMPLE = 100
"""Rows that are looked at to find the text."""

FEW = 20
"""Whole numbers with more different values than this are amounts, not classes."""


@dataclass(frozen=True)
class Columns:
    """What each column is for."""

    text: str
    label: str | None
    """None in a language model's data."""
    task: str
    why: str
    """For a person: what was found, and the flags that change it."""


def text_column(where: str, sample: Mapping[str, Sequence[str]], named: str | None) -> str:
    """The column that was named, or has a well-known name, or is plainly prose. `sample`: some rows' values."""
    if named is not None:
        return existing(where, named, sample, "--text")
    if found := _by_name(sample, TEXT_NAMES):
        return _the_one(where, found, "the text", "--text")
    texts = [name for name, values in sample.items() if _is_varied_text(values) and not _is_id(name, values)]
    prose = [name for name in texts if _words(sample[name]) >= 2]
    found = prose or texts
    if len(found) > 1:
        lengths = {name: sum(map(len, sample[name])) for name in found}
        first, second = sorted(found, key=lengths.__getitem__, reverse=True)[:2]
        if lengths[first] >= 4 * lengths[second]:
            found = [first]
    if not found:
        raise DataError(
            f"{where}: no column looks like text (columns: {_listed(sample)}; the first line names them): "
            "name one with --text"
        )
    return _the_one(where, found, "the text", "--text")


def choose_columns(table: Table, settings: DataSettings, task: str | None) -> Columns:
    """`task`: the one that was asked for, which decides; None: the one that the labels show."""
    if task is not None and task not in TASKS:
        raise SettingError(unknown("task", task, TASKS))
    spread = slice(None, None, -(-len(table) // SAMPLE))
    if settings.text is None and (odd := next((name for name in table.columns if len(name.split()) > 5), None)):
        raise DataError(
            f"{table.name}: the first line looks like data, not like names of columns ('{odd[:30]}…'): "
            "write names such as text,label above it, or say --text and --label"
        )
    others = (settings.label,) if settings.text is None else ()
    sample = {name: values[spread] for name, values in table.columns.items() if name not in others}
    text = text_column(table.name, sample, settings.text)
    label = None if task == LANGUAGE_MODEL else _label_column(table, text, settings, task)
    if label is None:
        if task not in (None, LANGUAGE_MODEL):
            raise DataError(
                f"{table.name}: no column looks like a label: name one of {_listed(table.columns)} with --label"
            )
        why = f"text column '{text}' (--text), no label column (--label); task: language-model (--task)"
        return Columns(text, None, LANGUAGE_MODEL, why)
    if label == text:
        raise DataError(f"{table.name}: column '{text}' cannot be both the text and the label: see --text and --label")
    values = [value for value in labels_of(table, text, label) if value]
    if task is None:
        task = _task(table, label, values)
    kinds = f"{len(set(values)):,} classes" if task == CLASSIFICATION else "numbers"
    why = f"text column '{text}', label column '{label}' with {kinds} (--text, --label); task: {task} (--task)"
    return Columns(text, label, task, why)


def may_hold_labels(table: Table, settings: DataSettings) -> bool:
    """Whether some rows leave it open that there is a label column; asked before a whole corpus is read."""
    try:
        text = text_column(table.name, table.columns, settings.text)
        return _label_column(table, text, settings, None) is not None
    except DataError:  # all rows may tell what some do not
        return True


def labels_of(table: Table, text: str, label: str) -> list[str]:
    """The labels of all rows that have a text, blanks around them dropped."""
    pairs = zip(table.columns[text], table.columns[label], strict=True)
    return [value.strip() for words, value in pairs if words.strip()]


def check_labels(table: Table, columns: Columns) -> None:
    """Refuse a table that lacks a column, or a label, or a number where one is wanted."""
    assert columns.label is not None
    text = table.columns[existing(table.name, columns.text, table.columns, "--text")]
    label = table.columns[existing(table.name, columns.label, table.columns, "--label")]
    filled = [place for place, words in enumerate(text) if words.strip()]
    if empty := [place for place in filled if not label[place].strip()]:
        rows = "1 row has" if len(empty) == 1 else f"{len(empty):,} rows have"
        raise DataError(
            f"{table.name}, line {table.lines[empty[0]]:,}: no label in column '{columns.label}' ({rows} none): "
            "fill it in, take such rows out, or choose another column with --label"
        )
    if columns.task == REGRESSION:
        for place in filled:
            if number_in(label[place]) is None:
                raise DataError(
                    f"{table.name}, line {table.lines[place]:,}, column '{columns.label}': text where a number is "
                    f"wanted: '{label[place].strip()[:40]}' ({_advice(label[place])})"
                )


def _advice(value: str) -> str:
    if number_in(plain := re.sub(r"[^\d,.-]", "", value).replace(",", ".")) is not None:
        return f"write {plain}"
    return "--task classification takes any value"


def existing(where: str, name: str, names: Iterable[str], flag: str) -> str:
    """The name, if there is such a column."""
    if name in names:
        return name
    meant = nearest(name, names)
    hint = f"; did you mean {meant}?" if meant else ""
    raise DataError(f"{where}: no column '{name}'{hint} (columns: {_listed(names)}): name one with {flag}")


def number_in(value: str) -> float | None:
    """The number that a value is, if it is one."""
    try:
        number = float(value)
    except ValueError:
        return None
    return number if math.isfinite(number) and "_" not in value else None


def _label_column(table: Table, text: str, settings: DataSettings, task: str | None) -> str | None:
    if settings.label is not None:
        return existing(table.name, settings.label, table.columns, "--label")
    others = {name: values for name, values in table.columns.items() if name not in (text, settings.split_by)}
    found = _by_name(others, CLASS_NAMES + AMOUNT_NAMES)
    if not found:
        shown = {name: values for name, values in others.items() if not _is_id(name, values) and not _are_dates(values)}
        numbers = [name for name, values in shown.items() if _are_numbers(values)]
        found = numbers if task == REGRESSION else [name for name, values in shown.items() if _are_few(values)]
        if not found and task is None and len(numbers) == 1:
            found = numbers
    return _the_one(table.name, found, "the label", "--label") if found else None


def _task(table: Table, label: str, values: list[str]) -> str:
    """Numbers are amounts, unless they are whole and few, or count classes from 0 or 1 on; text names classes."""
    different = set(values)
    numbers = [number for value in different if (number := number_in(value)) is not None]
    if different and len(numbers) == len(different):
        whole = sorted(int(number) for number in numbers if number.is_integer())
        if len(whole) < len(numbers):
            return REGRESSION
        counted = label.lower() in CLASS_NAMES and whole[0] in (0, 1) and whole == list(range(whole[0], whole[-1] + 1))
        few = len(different) <= FEW and len(values) >= 2 * len(different)
        return CLASSIFICATION if few or (counted and len(values) >= 5 * len(different)) else REGRESSION
    if len(different) > 2 and len(different) > 0.8 * len(values):
        if len(numbers) > len(different) / 2:  # amounts, with something else among them that will be pointed out
            return REGRESSION
        raise DataError(
            f"{table.name}: column '{label}' has {len(different):,} different values in {len(values):,} rows, a name "
            "or an id and no label: choose another with --label, or --task language-model to learn the text alone"
        )
    return CLASSIFICATION


def _by_name(names: Iterable[str], known: Sequence[str]) -> list[str]:
    """Columns with a well-known name; where the best known one is there, it alone."""
    found = [name for name in names if name.lower() in known]
    return [name for name in found if name.lower() == known[0]] or found


def _the_one(where: str, found: list[str], what: str, flag: str) -> str:
    if len(found) > 1:
        listed = " or ".join(f"'{name}'" for name in found[:5])
        raise DataError(f"{where}: {what} could be column {listed}: say which with {flag}")
    return found[0]


def _listed(names: Iterable[str]) -> str:
    names = list(names)
    return ", ".join(names[:12]) + (", …" if len(names) > 12 else "")


def _is_varied_text(values: Sequence[str]) -> bool:
    filled = [value for value in values if value.strip()]
    different = len(set(filled))
    return (different > FEW or different > len(filled) / 2) and not _are_numbers(filled) and not _are_dates(filled)


def _words(values: Sequence[str]) -> float:
    filled = [value for value in values if value.strip()]
    return sum(len(value.split()) for value in filled) / max(1, len(filled))


def _is_id(name: str, values: Sequence[str]) -> bool:
    """By its name, or by values that are single words with digits in them, no broken numbers, and all different."""
    if re.fullmatch(r"(?:.*[ _-])?(?:id|uuid|guid)|idx|index|key", name.lower()) or re.search("[a-z]I[dD]$", name):
        return True
    if len(set(values)) < len(values) or not all(re.fullmatch(r"\S*\d\S*", value) for value in values):
        return False
    return all((number_in(value) or 0.0).is_integer() for value in values)


def _are_few(values: Sequence[str]) -> bool:
    different = len({value.strip() for value in values})
    return 2 <= different <= FEW and len(values) >= 2 * different


def _are_numbers(values: Sequence[str]) -> bool:
    return bool(values) and all(number_in(value) is not None for value in values)


def _are_dates(values: Sequence[str]) -> bool:
    return bool(values) and all(re.match(r"\d{4}-\d\d-\d\d(?:$|[T ])", value) for value in values)
