"""Which column is the text and which the label: inferred where it is obvious, asked for where it is not."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from glassformer.config.errors import DataError, SettingError
from glassformer.config.names import unknown
from glassformer.config.presets import CLASSIFICATION, LANGUAGE_MODEL, MIXED, MULTILABEL, REGRESSION, TABLE, TASKS, TEXT
from glassformer.config.sections import DataSettings
from glassformer.data.label_sets import (
    SET_NAMES,
    label_columns,
    list_in,
    look_like_sets,
    separator_in,
    set_of,
    sets_of,
)
from glassformer.data.looks import (
    AMOUNT_NAMES,
    FEW,
    LABEL_NAMES,
    are_dates,
    are_few,
    are_numbers,
    by_name,
    existing,
    is_id,
    is_varied_text,
    number_in,
    the_one,
    words_in,
)
from glassformer.data.table import Table
from glassformer.data.table_columns import named_beside, readable, readable_beside, table_label
from glassformer.data.wording import counted, listed

TEXT_NAMES = (
    "text", "sentence", "review", "content", "message", "tweet", "question", "comment", "body", "document", "post",
    "utterance", "paragraph", "passage", "description", "headline", "query", "abstract", "article", "story", "sms",
)  # fmt: skip
"""Well-known names of the text; the first wins over the others."""

CLASS_NAMES = (*LABEL_NAMES, "emotion", "topic", "intent", "genre")

SAMPLE = 100
"""Rows that are looked at to find the text."""


@dataclass(frozen=True)
class Columns:
    """What each column is for."""

    text: str | None
    """None in a table without text."""
    label: str | None
    """None in a language model's data."""
    task: str
    why: str
    """For a person: what was found, and the flags that change it."""
    kind: str = TEXT
    also: tuple[str, ...] = ()
    """Number and category columns that are read."""
    image: str | None = None
    """The column that names image files."""
    separator: str | None = None
    """What parts the labels of a cell, where there may be several."""

    @property
    def labels(self) -> str:
        """The label column, or those of several, in words."""
        assert self.label is not None
        return f"column '{self.label}'" if "," not in self.label else f"columns {self.label}"


def text_column(where: str, sample: Mapping[str, Sequence[str]], named: str | None) -> str:
    """The column that was named, or has a well-known name, or is plainly prose. `sample`: some rows' values."""
    found = _find_text(where, sample, named)
    if found is None:
        raise DataError(
            f"{where}: no column looks like text (columns: {listed(sample)}; the first line names them): "
            "name one with --text"
        )
    return found


def _find_text(where: str, sample: Mapping[str, Sequence[str]], named: str | None) -> str | None:
    if named is not None:
        return existing(where, named, sample, "--text")
    if found := by_name(sample, TEXT_NAMES):
        return the_one(where, found, "the text", "--text")
    texts = [name for name, values in sample.items() if is_varied_text(values) and not is_id(name, values)]
    prose = [name for name in texts if words_in(sample[name]) >= 2]
    found = prose or texts
    if len(found) > 1:
        lengths = {name: sum(map(len, sample[name])) for name in found}
        first, second = sorted(found, key=lengths.__getitem__, reverse=True)[:2]
        if lengths[first] >= 4 * lengths[second]:
            found = [first]
    return the_one(where, found, "the text", "--text") if found else None


def choose_columns(table: Table, settings: DataSettings, task: str | None) -> Columns:
    """`task`: the one that was asked for, which decides; None: the one that the labels show."""
    if task is not None and task not in TASKS:
        raise SettingError(unknown("task", task, TASKS))
    spread = slice(None, None, -(-len(table) // SAMPLE))
    image = None if settings.image is None else existing(table.name, settings.image, table.columns, "--image")
    also = named_beside(table, settings)
    text = None
    if settings.kind != TABLE:
        if settings.text is None:
            _refuse_data_as_names(table)
        others = (*_named_labels(table, settings), *also, image) if settings.text is None else ()
        sample = {name: values[spread] for name, values in table.columns.items() if name not in others}
        if settings.text is None:
            sample = {name: values for name, values in sample.items() if not _are_lists(values)} or sample
        text = _find_text(table.name, sample, settings.text)
        if text is None and image is None and (task == LANGUAGE_MODEL or len(table.columns) < 2):
            text = text_column(table.name, sample, settings.text)  # says what is wrong
    if text is None:
        return _without_text(table, settings, task, also, image)
    label = None if task == LANGUAGE_MODEL else _label_column(table, text, settings, task)
    if label is None:
        if task not in (None, LANGUAGE_MODEL):
            raise DataError(
                f"{table.name}: no column looks like a label: name one of {listed(table.columns)} with --label"
            )
        why = f"text column '{text}' (--text), no label column (--label); task: language-model (--task)"
        return Columns(text, None, LANGUAGE_MODEL, why)
    if label == text:
        raise DataError(f"{table.name}: column '{text}' cannot be both the text and the label: see --text and --label")
    task = task or _task(table, text, label)
    read = [f"text column '{text}'"]
    if also:
        read.append(f"beside it {', '.join(also)} (--also)")
    if image is not None:
        read.append(f"images named in column '{image}' (--image)")
    separator = _separator(table, text, label, task, settings)
    said = f"{_labels_in_words(label)} with {_kinds(table, text, label, task, separator)}"
    read.append(f"{said} (--text, --label); task: {task} (--task)")
    why = ", ".join(read)
    taken = label_columns(table.name, label, table.columns)
    not_read = readable_beside(table, {text, *taken, image, settings.split_by, *also})
    if not_read:
        why += f"; not read: {listed(not_read)} (--also)"
    return Columns(text, label, task, why, MIXED if also or image else TEXT, also, image, separator)


def _refuse_data_as_names(table: Table) -> None:
    if odd := next((name for name in table.columns if len(name.split()) > 5), None):
        raise DataError(
            f"{table.name}: the first line looks like data, not like names of columns ('{odd[:30]}…'): "
            "write names such as text,label above it, or say --text and --label"
        )


def _without_text(
    table: Table, settings: DataSettings, task: str | None, also: tuple[str, ...], image: str | None
) -> Columns:
    """Of a table of numbers and categories, or of images with some beside them."""
    label, last = table_label(table, settings, image)
    if not also and image is None:
        also, left_out = readable(table, {*label_columns(table.name, label, table.columns), settings.split_by})
    else:
        left_out = []
    task = task or _task(table, None, label)
    separator = _separator(table, None, label, task, settings)
    what = "a table without text" if image is None else f"images named in column '{image}' (--image)"
    columns = f"{counted(len(also), 'column')} read (--also)"
    why = (
        f"{what}, {columns}, {_labels_in_words(label)}{', the last one,' if last else ''} with "
        f"{_kinds(table, None, label, task, separator)} "
        f"(--label); task: {task} (--task)"
    )
    if left_out:
        why += f"; not read: {listed(left_out)}"
    return Columns(None, label, task, why, TABLE if image is None else MIXED, also, image, separator)


def _kinds(table: Table, text: str | None, label: str, task: str, separator: str | None) -> str:
    """What the labels are, in words."""
    if task == MULTILABEL:
        rows = filled_rows(table, text)
        different = {name for one in sets_of(table, label, rows, separator) for name in set_of(one)}
        how = f", several of a row parted by '{separator}' (--data.label_separator)" if separator else ""
        return f"{counted(len(different), 'label')}{how}"
    values = {value for value in labels_of(table, text, label) if value}
    return f"{len(values):,} classes" if task == CLASSIFICATION else "numbers"


def _separator(table: Table, text: str | None, label: str, task: str, settings: DataSettings) -> str | None:
    """What parts the labels of a cell: as asked for, or as found."""
    several = label_columns(table.name, label, table.columns)
    if task != MULTILABEL or len(several) > 1:
        return None
    return settings.label_separator or separator_in(
        [table.columns[several[0]][row] for row in filled_rows(table, text)]
    )


def _labels_in_words(label: str) -> str:
    return f"label column '{label}'" if "," not in label else f"label columns {label}"


def _named_labels(table: Table, settings: DataSettings) -> list[str]:
    """The columns that --label names, as far as they are there."""
    if settings.label is None:
        return []
    return [settings.label, *(name.strip() for name in settings.label.split(","))]


def _are_lists(values: Sequence[str]) -> bool:
    """Whether they are lists of labels, and no texts."""
    filled = [value for value in values if value.strip()]
    return bool(filled) and all(list_in(value) is not None for value in filled)


def may_hold_labels(table: Table, settings: DataSettings) -> bool:
    """Whether some rows leave it open that there is a label column; asked before a whole corpus is read."""
    try:
        text = text_column(table.name, table.columns, settings.text)
        return _label_column(table, text, settings, None) is not None
    except DataError:  # all rows may tell what some do not
        return True


def filled_rows(table: Table, text: str | None) -> list[int]:
    """The rows that have a text; without a text column, all."""
    if text is None:
        return list(range(len(table)))
    return [row for row, words in enumerate(table.columns[text]) if words.strip()]


def labels_of(table: Table, text: str | None, label: str) -> list[str]:
    """The labels of all rows that have a text, blanks around them dropped; of several columns, those of the first."""
    values = table.columns[label_columns(table.name, label, table.columns)[0]]
    return [values[row].strip() for row in filled_rows(table, text)]


def check_labels(table: Table, columns: Columns) -> None:
    """Refuse a table that lacks a column, or a label, or a number where one is wanted."""
    assert columns.label is not None
    if columns.text is not None:
        existing(table.name, columns.text, table.columns, "--text")
    filled = filled_rows(table, columns.text)
    if columns.task == MULTILABEL:
        sets_of(table, columns.label, filled, columns.separator)  # says what is wrong
        return
    label = table.columns[existing(table.name, columns.label, table.columns, "--label")]
    if empty := [place for place in filled if not label[place].strip()]:
        rows = counted(len(empty), "row has", "rows have")
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


def _label_column(table: Table, text: str, settings: DataSettings, task: str | None) -> str | None:
    if settings.label is not None:
        several = label_columns(table.name, settings.label, table.columns)
        if len(several) > 1 and task not in (None, MULTILABEL):
            raise DataError(f"{table.name}: --label {settings.label} names several columns: {task} learns one of them")
        return ",".join(several)
    taken = (text, settings.split_by, settings.image, *settings.beside)
    others = {name: values for name, values in table.columns.items() if name not in taken}
    if task == MULTILABEL and (named := by_name(others, SET_NAMES)):
        return the_one(table.name, named, "the labels", "--label")
    found = by_name(others, CLASS_NAMES + AMOUNT_NAMES)
    if not found and task in (None, MULTILABEL):
        found = [name for name, values in others.items() if look_like_sets(values)]
    if not found:
        shown = {name: values for name, values in others.items() if not is_id(name, values) and not are_dates(values)}
        numbers = [name for name, values in shown.items() if are_numbers(values)]
        found = numbers if task == REGRESSION else [name for name, values in shown.items() if are_few(values)]
        if not found and task is None and len(numbers) == 1:
            found = numbers
    return the_one(table.name, found, "the label", "--label") if found else None


def _task(table: Table, text: str | None, label: str) -> str:
    """Numbers are amounts, unless they are whole and few, or count classes from 0 or 1 on; text names classes, or
    several labels of one row.
    """
    values = [value for value in labels_of(table, text, label) if value]
    if len(label_columns(table.name, label, table.columns)) > 1 or look_like_sets(values):
        return MULTILABEL
    different = set(values)
    numbers = [number for value in different if (number := number_in(value)) is not None]
    if different and len(numbers) == len(different):
        whole = sorted(int(number) for number in numbers if number.is_integer())
        if len(whole) < len(numbers):
            return REGRESSION
        in_a_row = whole[0] in (0, 1) and whole == list(range(whole[0], whole[-1] + 1))
        numbered = label.lower() in CLASS_NAMES and in_a_row and len(values) >= 5 * len(different)
        few = len(different) <= FEW and len(values) >= 2 * len(different)
        return CLASSIFICATION if few or numbered else REGRESSION
    if len(different) > 2 and len(different) > 0.8 * len(values):
        if len(numbers) > len(different) / 2:  # amounts, with something else among them that will be pointed out
            return REGRESSION
        raise DataError(
            f"{table.name}: column '{label}' has {len(different):,} different values in {len(values):,} rows, a name "
            "or an id and no label: choose another with --label, or --task language-model to learn the text alone"
        )
    return CLASSIFICATION
