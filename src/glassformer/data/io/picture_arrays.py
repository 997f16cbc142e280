"""Pictures in arrays: pixels and labels of a .npz file, or in memory."""

import functools
import math
import re
import warnings
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glassformer.config.errors import DataError, read_failure
from glassformer.config.limits import refuse_beyond, refuse_endless
from glassformer.data.io.table import Pictures

PARTS = {"train": "train", "val": "validation", "valid": "validation", "validation": "validation", "test": "test"}
"""Parts by the names that people use for them."""

IMAGES = ("images", "image", "x", "pictures", "pixels", "data")
LABELS = ("labels", "label", "y", "targets", "target")
"""Words in the names of arrays: `x_train`, `test_labels`."""

RANGES = {1: 255.0, 16: 255 / 16, 255: 1.0, 65535: 1 / 257}
"""Largest possible values of pixels, and the factor that maps them to 255."""

HELD = "the arrays"
"""Name of arrays in memory."""
REMEDY = "numpy.savez writes one"
ROUNDING = 1e-3
"""Tolerance for values outside their range."""


def read_arrays(path: Path) -> Pictures:
    """Read the arrays `images` and `labels`, or `x_train`, `y_train`, `x_test`, `y_test` and the like."""
    found = _load(path)
    parts = [part for part in dict.fromkeys(PARTS.values()) if (part, "images") in found]
    labels, files, of_part = [], [], []
    images: dict[str, NDArray[Any]] = {}
    for part in parts:
        key, values = found[part, "images"]
        images[key] = _channels_last(path, key, values)
        texts = _texts(path, *found[part, "labels"], images=len(values))
        labels += texts
        files += [f"image {place}" if len(parts) == 1 else f"{part} image {place}" for place in range(len(texts))]
        of_part += [part] * len(texts)
    (first, one), *others = images.items()
    for key, other in others:
        if other.shape[1:] != one.shape[1:]:
            shapes = f"images in '{first}' are {_shape(one.shape[1:])} and those in '{key}' {_shape(other.shape[1:])}"
            raise DataError(f"{path}: {shapes}: all must be alike")
    pixels, note, top = _scale(path, images)
    return Pictures(str(path), pixels, labels, files, of_part if len(parts) > 1 else None, note, top)


@dataclass(frozen=True)
class ArrayReader:
    """A reader of images in memory for a run."""

    size: tuple[int, int]
    channels: int
    top: int | None = None
    """The value of white in training; None for image files."""

    def is_one(self, data: object) -> bool:
        """Return whether data is the array of one image."""
        shape = tuple(getattr(data, "shape", ()))
        alone = [(*self.size, self.channels), *([self.size] if self.channels == 1 else [(self.channels, *self.size)])]
        return shape in alone

    def pixels(self, data: Any) -> NDArray[np.uint8] | None:
        """Return the images as N×H×W×C with values 0–255; None if data is not an array of images."""
        several = isinstance(data, list | tuple) and data and all(getattr(one, "ndim", 0) >= 2 for one in data)
        if not several and getattr(data, "ndim", 0) < 2:
            return None
        if several and (odd := next((one.shape for one in data if one.shape != data[0].shape), None)) is not None:
            raise DataError(f"{HELD}: one is {_shape(data[0].shape)} and one {_shape(odd)}: all must be alike")
        values = np.stack([np.asarray(one) for one in data]) if several else np.asarray(data)
        if self.is_one(data):
            values = values[np.newaxis]
        if not len(values) and values.ndim > 2:
            return np.empty((0, *self.size, self.channels), np.uint8)
        images = _channels_last(HELD, "images", values) if values.ndim > 2 else None
        if images is None or images.shape[1:] != (*self.size, self.channels):
            shape = _shape(values.shape[1:] if values.ndim > 2 else values.shape)
            wanted = (
                f"{_shape(self.size)} pixels (height × width), {'grey' if self.channels == 1 else 'with 3 channels'}"
            )
            raise DataError(f"{HELD}: images are {shape}, and this run reads {wanted}")
        return _scale(HELD, {"images": images}, self.learned_top(values))[0]

    def learned_top(self, values: NDArray[Any]) -> int | None:
        """Return the value of white; None if the arrays must show it."""
        return 255 if self.top is None and values.dtype == np.uint8 else self.top

    def pictures(self, images: Any, labels: Any) -> Pictures:
        """Return images in memory with their labels."""
        pixels = self.pixels(images)
        if pixels is None:
            raise DataError(f"{HELD}: images are N×H×W, N×H×W×C or N×C×H×W")
        texts = _texts(HELD, "labels", np.asarray(labels), images=len(pixels))
        return Pictures(HELD, pixels, texts, [f"image {place}" for place in range(len(texts))])


def labelled_images(data: Any) -> tuple[Any, Any] | None:
    """Return the arrays of pixels and labels in a pair of arrays or in a mapping of names; None for other data."""
    if isinstance(data, Mapping):
        names = {str(name).lower(): name for name in data}
        found = [next((names[one] for one in known if one in names), None) for known in (IMAGES, LABELS)]
        pair = None if None in found else tuple(data[name] for name in found)
    else:
        pair = data if isinstance(data, tuple) and len(data) == 2 else None
    if pair is None or getattr(pair[0], "ndim", 0) < 3:
        return None
    return pair[0], pair[1]


def _load(path: Path) -> dict[tuple[str, str], tuple[str, NDArray[Any]]]:
    """Return the name of an array and the array, by part and by images or labels."""
    try:
        packed = refuse_endless(path)
        with warnings.catch_warnings(action="ignore"), path.open("rb") as opened:
            if not zipfile.is_zipfile(opened):
                raise DataError(f"{path} is damaged, or no .npz file: {REMEDY}")
            opened.seek(0)
            with np.load(opened, allow_pickle=False) as file:
                roles = _roles(path, file.files)
                unpacked = sum(map(functools.partial(_bytes_of, file.zip), roles.values()))
                refuse_beyond("unpacked_bytes", unpacked, f"{path} unpacks to {{}}", file_bytes=packed)
                return {role: (key, file[key]) for role, key in roles.items()}
    except (DataError, MemoryError):
        raise
    except Exception as error:  # damaged files raise any kind of error
        raise DataError(read_failure(path, error, ".npz file of numbers", REMEDY)) from None


def _bytes_of(archive: zipfile.ZipFile, key: str) -> int:
    """Return the bytes of an array by its own header or by that of the archive, whichever is larger."""
    name = key if key in archive.namelist() else f"{key}.npy"
    with archive.open(name) as file:
        version = np.lib.format.read_magic(file)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = read(file)
    return max(archive.getinfo(name).file_size, math.prod(shape) * dtype.itemsize)


def _roles(path: Path, keys: Sequence[str]) -> dict[tuple[str, str], str]:
    """Return the names of the arrays by part and by images or labels; raise `DataError` if one is missing."""
    found: dict[tuple[str, str], str] = {}
    for key in keys:
        role = _role(key)
        if role in found:
            both = f"'{found[role]}' and '{key}'"
            raise DataError(f"{path}: arrays {both} could both be the {' '.join(role)}: keep one")
        if role is not None:
            found[role] = key
    for part in ("train", *(part for part, _ in found)):
        for kind, common in (("images", "x"), ("labels", "y")):
            if (part, kind) not in found:
                wanted = f"'{kind}' or '{common}'" if part == "train" else f"'{common}_{part}'"
                raise DataError(f"{path} has no array named {wanted} (arrays: {', '.join(keys) or 'none'})")
    return found


def _role(key: str) -> tuple[str, str] | None:
    """Return the part of an array (by default train), and "images" or "labels", by the words of its name."""
    words = re.split(r"[^a-z]+", key.lower())
    part = next((PARTS[word] for word in words if word in PARTS), "train")
    for kind, names in (("labels", LABELS), ("images", IMAGES)):
        if any(word in names for word in words):
            return part, kind
    return None


def _channels_last(path: object, key: str, images: NDArray[Any]) -> NDArray[Any]:
    """Return images as N×H×W×C."""
    if images.dtype.kind not in "buif":
        raise DataError(f"{path}: '{key}' holds {images.dtype} values, and pixels are numbers")
    if images.ndim == 3:
        images = images[..., np.newaxis]
    if images.ndim == 4 and images.shape[3] not in (1, 3) and images.shape[1] in (1, 3):
        images = np.moveaxis(images, 1, 3)
    if images.ndim != 4 or images.shape[3] not in (1, 3):
        wanted = "N×H×W, N×H×W×C or N×C×H×W with C 1 or 3"
        raise DataError(f"{path}: '{key}' is {_shape(images.shape)}, and images are {wanted}: reshape it")
    if not images.size:
        raise DataError(f"{path}: '{key}' is {_shape(images.shape)}: there are no images in it")
    return images


def _scale(
    path: object, images: dict[str, NDArray[Any]], learned: int | None = None
) -> tuple[NDArray[np.uint8], str, int]:
    """Return all images with values 0–255, a message on their scaling, and the value of white in all parts.

    `learned`: the value of white in training.
    """
    for key, values in images.items():
        bad = np.flatnonzero(~np.isfinite(values).reshape(len(values), -1).all(1))
        if len(bad):
            raise DataError(f"{path}: image {bad[0]} of '{key}' holds a value that is no number")
    lowest = min(float(values.min()) for values in images.values())
    highest = max(float(values.max()) for values in images.values())
    top = learned or next((top for top in RANGES if highest <= top * (1 + ROUNDING)), None)
    if top is None or not -ROUNDING <= lowest <= highest <= top * (1 + ROUNDING):
        wanted = (
            "0 to 1, 16, 255 or 65535 are understood" if learned is None else f"this run learned from 0 to {learned}"
        )
        raise DataError(f"{path}: pixels from {lowest:g} to {highest:g}, and {wanted}: scale them")
    if top == 255 and all(values.dtype == np.uint8 for values in images.values()):
        return np.concatenate(list(images.values())), "", top
    scaled = [np.rint(values * RANGES[top]).astype(np.uint8) for values in images.values()]
    note = "" if top == 255 else f"pixels from {lowest:g} to {highest:g} taken as 0–{top} and scaled to 0–255"
    return np.concatenate(scaled), note, top


def _texts(path: object, key: str, labels: NDArray[Any], *, images: int) -> list[str]:
    """Return the labels as text, one per image; whole numbers have no decimal point."""
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim != 1 or labels.dtype.kind not in "buifUS":
        shape = f"{_shape(labels.shape)} ({labels.dtype})"
        raise DataError(f"{path}: '{key}' is {shape}, and one number or name per image is wanted")
    if len(labels) != images:
        raise DataError(f"{path}: {images:,} images, but {len(labels):,} labels in '{key}'")
    texts = [_text(value) for value in labels.tolist()]
    if "" in texts:
        raise DataError(f"{path}: image {texts.index('')} has no label in '{key}'")
    return texts


def _text(value: Any) -> str:
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else "" if value != value else str(value)
    return value.decode("utf-8", "replace").strip() if isinstance(value, bytes) else str(value).strip()


def _shape(shape: Sequence[int]) -> str:
    return "×".join(map(str, shape)) or "one value"
