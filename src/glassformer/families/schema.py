"""The schema of a run: the columns that it learned from, as its settings and features have them."""

from dataclasses import replace
from typing import Any

from glassformer.config.presets import label_kind_of
from glassformer.config.resolve import Config
from glassformer.config.sections import DataSettings
from glassformer.data.columns.inference import Columns
from glassformer.data.columns.schema import Schema
from glassformer.data.features.build import MixedFeatures
from glassformer.data.features.inputs import Features
from glassformer.data.features.tables import TableFeatures
from glassformer.data.io.table import Table, text_parts


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
    """Return the column with the names of image files that a run reads beside other columns."""
    return data.image if isinstance(features, MixedFeatures) and features.image is not None else None


def needed(features: Features, config: Config, table: Table) -> Columns:
    """Return the columns that a run reads; raise `DataError` if the table lacks one."""
    schema = schema_of(config, features)
    text = schema.match(table.name, table.columns)
    image = image_column(features, config.data)
    return Columns(text, None, label_kind_of(config.task), "", config.data.kind, read_columns(features), image)


def as_learned(features: Features, settings: DataSettings) -> DataSettings:
    """Return reading options for the data of a run: its columns, and its image size."""
    changes: dict[str, Any] = {"extra_columns": ",".join(read_columns(features)) or None}
    if isinstance(features, MixedFeatures) and features.image is not None:
        changes["image_size"] = "x".join(map(str, features.image.size))
    return replace(settings, **changes)


def read_columns(features: Features | None) -> tuple[str, ...]:
    """The number, category and date columns that a run reads."""
    table = table_in(features)
    return () if table is None else table.columns


def read_decimals(features: Features | None) -> dict[str, str]:
    """The decimal signs of the number columns that a run reads."""
    table = table_in(features)
    return {} if table is None else table.decimals


def table_in(features: Features | None) -> TableFeatures | None:
    """How a run reads columns of numbers, categories and dates, if it does."""
    table = features.table if isinstance(features, MixedFeatures) else features
    return table if isinstance(table, TableFeatures) else None
