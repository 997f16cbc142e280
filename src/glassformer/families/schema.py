"""The schema of a run: the columns that it learned from, and how it reads them from data in memory."""

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from glassformer.config.data_section import POINT
from glassformer.config.errors import Misuse, with_article
from glassformer.config.presets import label_kind_of
from glassformer.config.resolve import Config
from glassformer.config.sections import DataSettings
from glassformer.data.columns.inference import Columns
from glassformer.data.columns.labels import label_columns
from glassformer.data.columns.schema import Schema
from glassformer.data.features.build import MixedFeatures
from glassformer.data.features.images import ImageFeatures
from glassformer.data.features.inputs import Features
from glassformer.data.features.tables import TableFeatures
from glassformer.data.io.memory import MemoryReader
from glassformer.data.io.picture_arrays import ArrayReader, labelled_images
from glassformer.data.io.pictures import read_pictures
from glassformer.data.io.table import Pictures, Table, text_parts


def schema_of(config: Config, features: Features | None, data: DataSettings | None = None) -> Schema:
    """Return the schema of a run that reads examples or texts. `data`: settings that differ from the run's own."""
    data = data or config.data
    table, image = table_in(features), image_column(features, data)
    columns: dict[str, Any] = {} if table is None else dict(table.described)
    if image is not None:
        columns[image] = {"type": "image"}
    reads_text = features.text is not None if isinstance(features, MixedFeatures) else table is None
    labels = () if data.label is None else (data.label, *text_parts(data.label, ()))
    return Schema(data.text if reads_text else None, columns, tuple(dict.fromkeys(labels)))


def image_column(features: Features | None, data: DataSettings) -> str | None:
    """Return the column of image file names that a run reads together with other columns, or None."""
    return data.image if isinstance(features, MixedFeatures) and features.image is not None else None


def needed(features: Features, config: Config, table: Table) -> Columns:
    """Return the columns that a run reads; raise `DataError` if the table lacks one."""
    schema = schema_of(config, features)
    text = schema.match(table.name, table.columns)
    image = image_column(features, config.data)
    return Columns(text, None, label_kind_of(config.task), "", config.data.kind, read_columns(features), image)


def as_learned(features: Features, settings: DataSettings) -> DataSettings:
    """Return data settings with the columns and the image size of the run."""
    changes: dict[str, Any] = {"extra_columns": ",".join(read_columns(features)) or None}
    if isinstance(features, MixedFeatures) and features.image is not None:
        changes["image_size"] = "x".join(map(str, features.image.size))
    return replace(settings, **changes)


def read_columns(features: Features | None) -> tuple[str, ...]:
    """Return the names of the number, category and date columns that a run reads."""
    table = table_in(features)
    return () if table is None else table.columns


def read_decimals(features: Features | None) -> dict[str, str]:
    """Return the decimal sign of each number column that a run reads."""
    table = table_in(features)
    return {} if table is None else table.decimals


def table_in(features: Features | None) -> TableFeatures | None:
    """Return the features of number, category and date columns; None if the run reads no such columns."""
    table = features.table if isinstance(features, MixedFeatures) else features
    return table if isinstance(table, TableFeatures) else None


# --- data in memory ---


def reader_of(loaded: Any, verb: str, settings: DataSettings | None = None) -> MemoryReader:
    """Return the reader for data in memory. `settings`: data settings if they differ from the run's."""
    data: DataSettings = settings or loaded.config.data
    schema = loaded.family.schema(loaded, data)
    if loaded.family.has_decoder:
        return MemoryReader(verb, schema)
    names = getattr(loaded.answers, "names", ())
    spellings = {**_categories(loaded.features), **dict.fromkeys(schema.labels, ("0", "1")), data.label or "": names}
    return MemoryReader(verb, schema, spellings, learned_decimals(loaded, data.label), arrays_of(loaded.features))


def arrays_of(features: Features | None) -> ArrayReader | None:
    """Return the reader for arrays of pixels; None if the run does not read images alone."""
    if not isinstance(features, ImageFeatures):
        return None
    return ArrayReader(features.size, len(features.mean), features.top)


def learned_decimals(loaded: Any, label: str | None) -> dict[str, str]:
    """Return the decimal sign of each number column that the run learned from, including its label."""
    of_label = {} if label is None else {label: getattr(loaded.answers, "decimal", POINT)}
    return {**read_decimals(loaded.features), **of_label}


def _categories(features: Features | None) -> dict[str, Collection[str]]:
    table = table_in(features)
    return {} if table is None else {one.name: one.values for one in table.categories}


def labelled_table(loaded: Any, data: Any, settings: DataSettings) -> tuple[Table, DataSettings, list[str]]:
    """Return the columns of a table that a run reads, with the labels; the data settings; and all column names.

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
    """Return labelled images to evaluate a run on. `data`: a folder, a file, or arrays (images, labels)."""
    if isinstance(data, str):
        return read_pictures(data, loaded.features.size)
    reader, arrays = arrays_of(loaded.features), labelled_images(data)
    if reader is None or arrays is None:
        raise Misuse(f"evaluate wants a folder of images, or arrays (images, labels), not {with_article(data)}")
    return reader.pictures(*arrays)
