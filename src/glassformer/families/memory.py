"""How a run reads what a program holds in memory: by which columns, and spelled as it learned them."""

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from glassformer.config.data_section import POINT
from glassformer.config.presets import IMAGE
from glassformer.config.sections import DataSettings
from glassformer.data.columns.labels import label_columns
from glassformer.data.features.build import MixedFeatures
from glassformer.data.features.inputs import Features
from glassformer.data.io.aligned import SOURCE, TARGET
from glassformer.data.io.memory import MemoryReader
from glassformer.data.io.table import Table
from glassformer.families.predict import read_columns, read_decimals, table_in


def reader_of(loaded: Any, verb: str, settings: DataSettings | None = None) -> MemoryReader:
    """How a run reads what a program holds. `settings`: of the data, where they differ from the run's."""
    data: DataSettings = settings or loaded.config.data
    if loaded.family.has_decoder:
        return MemoryReader(verb, data.source or SOURCE, apart=(data.target or TARGET,))
    names = getattr(loaded.answers, "names", ())
    single, several = data.label or "", [name.strip() for name in (data.label or "").split(",")]
    spellings = {**_categories(loaded.features), **dict.fromkeys(several, ("0", "1")), single: names}
    mixed = loaded.features if isinstance(loaded.features, MixedFeatures) else None
    image = data.image if mixed is not None and mixed.image is not None else None
    columns = tuple(name for name in (*read_columns(loaded.features), image) if name is not None)
    text = None if columns and (mixed is None or mixed.text is None) else data.text
    decimals = learned_decimals(loaded, data.label)
    return MemoryReader(verb, text, columns, (single, *several), spellings, decimals, files=data.kind == IMAGE)


def learned_decimals(loaded: Any, label: str | None) -> dict[str, str]:
    """The decimal signs with which a run learned its columns of numbers, and its label if that is one."""
    of_label = {} if label is None else {label: getattr(loaded.answers, "decimal", POINT)}
    return {**read_decimals(loaded.features), **of_label}


def _categories(features: Features | None) -> dict[str, Collection[str]]:
    table = table_in(features)
    return {} if table is None else {one.name: one.values for one in table.categories}


def labelled_table(loaded: Any, data: Any, settings: DataSettings) -> tuple[Table, DataSettings]:
    """A table to evaluate a run on, with its labels; and how to read it, its text by the name that it has here."""
    reader = reader_of(loaded, "evaluate", settings)
    frame = reader.frame(data)
    text = reader.text if reader.columns else reader.text_column(frame)
    labels = [name for name in frame.names if name != text]
    if settings.label is not None:
        labels = label_columns(frame.name, settings.label, frame.names)
    texts = [] if text is None else [text]
    return frame.table(texts, [*reader.columns, *labels], reader.spellings, reader.decimals), replace(
        settings, text=text
    )
