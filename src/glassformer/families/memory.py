"""How a run reads what a program holds in memory: by which columns, and spelled as it learned them."""

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from glassformer.config.data_section import POINT
from glassformer.config.errors import Misuse, with_article
from glassformer.config.sections import DataSettings
from glassformer.data.columns.labels import label_columns
from glassformer.data.features.images import ImageFeatures
from glassformer.data.features.inputs import Features
from glassformer.data.io.memory import MemoryReader
from glassformer.data.io.picture_arrays import ArrayReader, labelled_images
from glassformer.data.io.pictures import read_pictures
from glassformer.data.io.table import Pictures, Table
from glassformer.families.schema import read_decimals, table_in


def reader_of(loaded: Any, verb: str, settings: DataSettings | None = None) -> MemoryReader:
    """How a run reads what a program holds. `settings`: of the data, where they differ from the run's."""
    data: DataSettings = settings or loaded.config.data
    schema = loaded.family.schema(loaded, data)
    if loaded.family.has_decoder:
        return MemoryReader(verb, schema)
    names = getattr(loaded.answers, "names", ())
    spellings = {**_categories(loaded.features), **dict.fromkeys(schema.labels, ("0", "1")), data.label or "": names}
    return MemoryReader(verb, schema, spellings, learned_decimals(loaded, data.label), arrays_of(loaded.features))


def arrays_of(features: Features | None) -> ArrayReader | None:
    """How a run of images reads arrays of pixels."""
    if not isinstance(features, ImageFeatures):
        return None
    return ArrayReader(features.size, len(features.mean), features.top)


def learned_decimals(loaded: Any, label: str | None) -> dict[str, str]:
    """The decimal signs with which a run learned its columns of numbers, and its label if that is one."""
    of_label = {} if label is None else {label: getattr(loaded.answers, "decimal", POINT)}
    return {**read_decimals(loaded.features), **of_label}


def _categories(features: Features | None) -> dict[str, Collection[str]]:
    table = table_in(features)
    return {} if table is None else {one.name: one.values for one in table.categories}


def labelled_table(loaded: Any, data: Any, settings: DataSettings) -> tuple[Table, DataSettings, list[str]]:
    """Return the columns of a table that a run reads, with its labels; how to read it; and the names of all columns.

    The settings name the text column as it is called in this table.
    """
    reader = reader_of(loaded, "evaluate", settings)
    frame = reader.frame(data)
    text = reader.text_column(frame)
    labels = [name for name in frame.names if name != text]
    if settings.label is not None:
        labels = label_columns(frame.name, settings.label, frame.names)
    texts = [] if text is None else [text]
    table = frame.table(
        texts, [*reader.columns, *labels], reader.spellings, reader.decimals, optional=bool(reader.columns)
    )
    return table, replace(settings, text=text), list(frame.names)


def labelled_pictures(loaded: Any, data: Any) -> Pictures:
    """Images to evaluate a run on, with their labels: a folder, a file, or arrays."""
    if isinstance(data, str):
        return read_pictures(data, loaded.features.size)
    reader, arrays = arrays_of(loaded.features), labelled_images(data)
    if reader is None or arrays is None:
        raise Misuse(
            f"this run reads images: evaluate wants their folder, or arrays (images, labels), not {with_article(data)}"
        )
    return reader.pictures(*arrays)
