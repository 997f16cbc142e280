"""Columns of a hub's data set as those of a table: every value as text."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from glassformer.data.io.rows import as_text

UNREADABLE = ("Image", "Audio", "Video", "Pdf", "Nifti", "Array2D", "Array3D", "Array4D", "Array5D")
"""Kinds of columns that are neither texts nor numbers; they are left out."""

PAIR = "translation"
"""A column of one text in several languages: it becomes a column for each of them."""


@dataclass(frozen=True)
class HubColumn:
    name: str
    origin: str
    """The column that it is read from."""
    inner: str | None
    """Which value, of a column that holds several by name."""
    feature: Any
    """What the data set says of its values."""

    def texts(self, values: Sequence[Any]) -> Iterator[str]:
        for value in values:
            if self.inner is not None:
                value = None if value is None else value.get(self.inner)
            yield as_text(_class_name(value, self.feature))


def hub_columns(features: Mapping[str, Any]) -> tuple[HubColumn, ...]:
    """The columns that can be read."""
    found: dict[str, HubColumn] = {}
    for name, feature in features.items():
        if type(feature).__name__ in UNREADABLE:
            continue
        if languages := _languages(name, feature):
            found |= {language: HubColumn(language, name, language, None) for language in languages}
        else:
            found[name] = HubColumn(name, name, None, feature)
    return tuple(found.values())


def labels_are_secret(split: Any) -> bool:
    """Whether a split has classes and tells none of them."""
    classes = [name for name, feature in split.features.items() if _is_class(feature)]
    return any(
        len(split) > 0 and all(value in (None, -1) for value in split.data.column(name).unique().to_pylist())
        for name in classes
    )


def _languages(name: str, feature: Any) -> list[str]:
    if name != PAIR:
        return []
    if isinstance(feature, Mapping):
        return list(feature)
    return list(getattr(feature, "languages", [])) if type(feature).__name__ == "Translation" else []


def _is_class(feature: Any) -> bool:
    return type(feature).__name__ == "ClassLabel"


def _class_name(value: Any, feature: Any) -> Any:
    """The number of a class as its name, wherever it stands in a list; one that is kept secret as nothing."""
    if isinstance(value, list):
        inner = feature[0] if isinstance(feature, list) and feature else getattr(feature, "feature", None)
        return [_class_name(one, inner) for one in value]
    if not _is_class(feature) or not isinstance(value, int):
        return value
    if value < 0:
        return None
    return feature.names[value] if value < len(feature.names or ()) else value
