"""How a run reads what a program holds in memory: by which columns, and spelled as it learned them."""

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from glassformer.config.data_section import POINT
from glassformer.config.errors import Misuse, with_article
from glassformer.config.sections import DataSettings
from glassformer.data.columns.labels import label_columns
from glassformer.data.features.build import MixedFeatures
from glassformer.data.features.images import ImageFeatures
from glassformer.data.features.inputs import Features
from glassformer.data.io.aligned import SOURCE, TARGET
from glassformer.data.io.memory import MemoryReader
from glassformer.data.io.picture_arrays import ArrayReader, labelled_images
from glassformer.data.io.pictures import read_pictures
from glassformer.data.io.table import Pictures, Table
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
    return MemoryReader(verb, text, columns, (single, *several), spellings, decimals, arrays_of(loaded.features))


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
