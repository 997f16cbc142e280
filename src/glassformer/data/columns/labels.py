"""Which column is the label, and what its values show: classes, several labels of a row, or numbers."""

from glassformer.config.errors import DataError
from glassformer.config.presets import ANY_LABEL, CLASS, LABEL_SET, NUMBER, TASK_OF_LABELS
from glassformer.config.sections import DataSettings
from glassformer.data.columns.heuristics import (
    AMOUNT_NAMES,
    FEW,
    LABEL_NAMES,
    are_dates,
    are_few,
    are_numbers,
    by_name,
    is_id,
    number_in,
    only_column,
)
from glassformer.data.columns.label_sets import SET_NAMES, label_columns, look_like_sets, separator_in, set_of, sets_of
from glassformer.data.io.table import Table
from glassformer.data.wording import counted

CLASS_NAMES = (*LABEL_NAMES, "emotion", "topic", "intent", "genre")


def label_column(table: Table, text: str, settings: DataSettings, label_kind: str) -> str | None:
    """The one that was named, has a well-known name, or looks like labels of this kind; None: there is none."""
    if settings.label is not None:
        several = label_columns(table.name, settings.label, table.columns)
        if len(several) > 1 and label_kind not in (ANY_LABEL, LABEL_SET):
            task = TASK_OF_LABELS[label_kind]
            raise DataError(f"{table.name}: --label {settings.label} names several columns: {task} learns one of them")
        return ",".join(several)
    taken = (text, settings.split_by, settings.image, *settings.beside)
    others = {name: values for name, values in table.columns.items() if name not in taken}
    if label_kind == LABEL_SET and (named := by_name(others, SET_NAMES)):
        return only_column(table.name, named, "the labels", "--label")
    found = by_name(others, CLASS_NAMES + AMOUNT_NAMES)
    if not found and label_kind in (ANY_LABEL, LABEL_SET):
        found = [name for name, values in others.items() if look_like_sets(values)]
    if not found:
        shown = {name: values for name, values in others.items() if not is_id(name, values) and not are_dates(values)}
        numbers = [name for name, values in shown.items() if are_numbers(values)]
        found = numbers if label_kind == NUMBER else [name for name, values in shown.items() if are_few(values)]
        if not found and label_kind == ANY_LABEL and len(numbers) == 1:
            found = numbers
    return only_column(table.name, found, "the label", "--label") if found else None


def label_kind_in(table: Table, text: str | None, label: str) -> str:
    """Numbers are amounts, unless they are whole and few, or count classes from 0 or 1 on; text names classes, or
    several labels of one row.
    """
    values = [value for value in labels_of(table, text, label) if value]
    if len(label_columns(table.name, label, table.columns)) > 1 or look_like_sets(values):
        return LABEL_SET
    different = set(values)
    numbers = [number for value in different if (number := number_in(value)) is not None]
    if different and len(numbers) == len(different):
        whole = sorted(int(number) for number in numbers if number.is_integer())
        if len(whole) < len(numbers):
            return NUMBER
        in_a_row = whole[0] in (0, 1) and whole == list(range(whole[0], whole[-1] + 1))
        numbered = label.lower() in CLASS_NAMES and in_a_row and len(values) >= 5 * len(different)
        few = len(different) <= FEW and len(values) >= 2 * len(different)
        return CLASS if few or numbered else NUMBER
    if len(different) > 2 and len(different) > 0.8 * len(values):
        if len(numbers) > len(different) / 2:  # amounts, with something else among them that will be pointed out
            return NUMBER
        raise DataError(
            f"{table.name}: column '{label}' has {len(different):,} different values in {len(values):,} rows, a name "
            "or an id and no label: choose another with --label, or --task language-model to learn the text alone"
        )
    return CLASS


def kinds_in_words(table: Table, text: str | None, label: str, label_kind: str | None, separator: str | None) -> str:
    """What the labels are, in words."""
    if label_kind == LABEL_SET:
        rows = filled_rows(table, text)
        different = {name for one in sets_of(table, label, rows, separator) for name in set_of(one)}
        how = f", several of a row parted by '{separator}' (--data.label_separator)" if separator else ""
        return f"{counted(len(different), 'label')}{how}"
    values = {value for value in labels_of(table, text, label) if value}
    return counted(len(values), "class", "classes") if label_kind == CLASS else "numbers"


def separator_of(
    table: Table, text: str | None, label: str, label_kind: str | None, settings: DataSettings
) -> str | None:
    """What parts the labels of a cell: as asked for, or as found."""
    several = label_columns(table.name, label, table.columns)
    if label_kind != LABEL_SET or len(several) > 1:
        return None
    return settings.label_separator or separator_in(
        [table.columns[several[0]][row] for row in filled_rows(table, text)]
    )


def label_in_words(label: str) -> str:
    return f"label column '{label}'" if "," not in label else f"label columns {label}"


def filled_rows(table: Table, text: str | None) -> list[int]:
    """The rows that have a text; without a text column, all."""
    if text is None:
        return list(range(len(table)))
    return [row for row, words in enumerate(table.columns[text]) if words.strip()]


def labels_of(table: Table, text: str | None, label: str) -> list[str]:
    """The labels of all rows that have a text, blanks around them dropped; of several columns, those of the first."""
    values = table.columns[label_columns(table.name, label, table.columns)[0]]
    return [values[row].strip() for row in filled_rows(table, text)]
