"""Which column is the text and which the label: inferred where it is obvious, asked for where it is not."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from glassformer.config.errors import DataError, SettingError
from glassformer.config.names import unknown
from glassformer.config.presets import CLASSIFICATION, LANGUAGE_MODEL, MIXED, REGRESSION, TABLE, TASKS, TEXT
from glassformer.config.sections import DataSettings
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

SOURCE_NAMES = ("source", "src", "source_text", "src_text", "input_text")
_LANGUAGES = """
ar arabic bg bulgarian bn bengali cs czech da danish de german el greek en english es spanish et estonian fa persian fi
finnish fr french he hebrew hi hindi hr croatian hu hungarian id indonesian it italian ja japanese ko korean lt
lithuanian lv latvian nb no norwegian nl dutch pl polish pt portuguese ro romanian ru russian sk slovak sl slovenian
sr serbian sv swedish sw swahili th thai tr turkish uk ukrainian ur urdu vi vietnamese zh chinese
"""
LANGUAGES = frozenset(_LANGUAGES.split())
"""Two columns of such names, and no others, are a text and its translation."""
TARGET_NAMES = ("target", "tgt", "target_text", "tgt_text", "output_text", "translation")
"""Well-known names of a text to translate and of its translation. Many a label is called target: they come in twos."""

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
        others = (settings.label, *also, image) if settings.text is None else ()
        sample = {name: values[spread] for name, values in table.columns.items() if name not in others}
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
    values = [value for value in labels_of(table, text, label) if value]
    task = task or _task(table, label, values)
    read = [f"text column '{text}'"]
    if also:
        read.append(f"beside it {', '.join(also)} (--also)")
    if image is not None:
        read.append(f"images named in column '{image}' (--image)")
    read.append(f"label column '{label}' with {_kinds(task, values)} (--text, --label); task: {task} (--task)")
    why = ", ".join(read)
    not_read = readable_beside(table, {text, label, image, settings.split_by, *also})
    if not_read:
        why += f"; not read: {listed(not_read)} (--also)"
    return Columns(text, label, task, why, MIXED if also or image else TEXT, also, image)


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
        also, left_out = readable(table, {label, settings.split_by})
    else:
        left_out = []
    values = [value for value in labels_of(table, None, label) if value]
    task = task or _task(table, label, values)
    what = "a table without text" if image is None else f"images named in column '{image}' (--image)"
    columns = f"{counted(len(also), 'column')} read (--also)"
    why = (
        f"{what}, {columns}, label column '{label}'{', the last one,' if last else ''} with {_kinds(task, values)} "
        f"(--label); task: {task} (--task)"
    )
    if left_out:
        why += f"; not read: {listed(left_out)}"
    return Columns(None, label, task, why, TABLE if image is None else MIXED, also, image)


def _kinds(task: str, values: list[str]) -> str:
    return f"{len(set(values)):,} classes" if task == CLASSIFICATION else "numbers"


def may_hold_labels(table: Table, settings: DataSettings) -> bool:
    """Whether some rows leave it open that there is a label column; asked before a whole corpus is read."""
    try:
        text = text_column(table.name, table.columns, settings.text)
        return _label_column(table, text, settings, None) is not None
    except DataError:  # all rows may tell what some do not
        return True


def pair_columns(where: str, names: Iterable[str], settings: DataSettings) -> tuple[str, str] | None:
    """The columns of a text and its translation: those that were named, or that have well-known names.

    None: nobody named one, and not both are found; or there is another text or label, named or of a well-known name.
    """
    names = list(names)
    if settings.source is None and settings.target is None:
        if len(names) == 2 and all(name.lower() in LANGUAGES for name in names):
            return names[0], names[1]
        found = by_name(names, SOURCE_NAMES), by_name(names, TARGET_NAMES)
        if not all(found) or by_name(names, TEXT_NAMES) or settings.text or settings.label:
            return None
    source, target = settings.source, settings.target
    if source is not None:
        source = existing(where, source, names, "--source")
    if target is not None:
        target = existing(where, target, names, "--target")
    source = source or _other_side(where, [name for name in names if name != target], SOURCE_NAMES, "source")
    target = target or _other_side(where, [name for name in names if name != source], TARGET_NAMES, "target")
    if source == target:
        raise DataError(
            f"{where}: column '{source}' cannot be both the source and the target: see --source and --target"
        )
    return source, target


def _other_side(where: str, names: list[str], known: Sequence[str], side: str) -> str:
    """By its name, or because it is the only one left."""
    found = by_name(names, known) or (names if len(names) == 1 else [])
    if not found:
        others = f"name one of {listed(names)}" if names else "there is no other column: name one"
        raise DataError(f"{where}: no column looks like the {side}: {others} with --{side}")
    return the_one(where, found, f"the {side}", f"--{side}")


def filled_rows(table: Table, text: str | None) -> list[int]:
    """The rows that have a text; without a text column, all."""
    if text is None:
        return list(range(len(table)))
    return [row for row, words in enumerate(table.columns[text]) if words.strip()]


def labels_of(table: Table, text: str | None, label: str) -> list[str]:
    """The labels of all rows that have a text, blanks around them dropped."""
    values = table.columns[label]
    return [values[row].strip() for row in filled_rows(table, text)]


def check_labels(table: Table, columns: Columns) -> None:
    """Refuse a table that lacks a column, or a label, or a number where one is wanted."""
    assert columns.label is not None
    if columns.text is not None:
        existing(table.name, columns.text, table.columns, "--text")
    label = table.columns[existing(table.name, columns.label, table.columns, "--label")]
    filled = filled_rows(table, columns.text)
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
        return existing(table.name, settings.label, table.columns, "--label")
    taken = (text, settings.split_by, settings.image, *settings.beside)
    others = {name: values for name, values in table.columns.items() if name not in taken}
    found = by_name(others, CLASS_NAMES + AMOUNT_NAMES)
    if not found:
        shown = {name: values for name, values in others.items() if not is_id(name, values) and not are_dates(values)}
        numbers = [name for name, values in shown.items() if are_numbers(values)]
        found = numbers if task == REGRESSION else [name for name, values in shown.items() if are_few(values)]
        if not found and task is None and len(numbers) == 1:
            found = numbers
    return the_one(table.name, found, "the label", "--label") if found else None


def _task(table: Table, label: str, values: list[str]) -> str:
    """Numbers are amounts, unless they are whole and few, or count classes from 0 or 1 on; text names classes."""
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
