"""Pictures in a .npz file: arrays of pixels and of labels, one pair of them or one for each part."""

import functools
import math
import re
import warnings
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glassformer.config.errors import DataError, read_failure
from glassformer.config.limits import refuse_beyond, refuse_endless
from glassformer.data.io.table import Pictures

PARTS = {"train": "train", "val": "validation", "valid": "validation", "validation": "validation", "test": "test"}
"""What people call the parts of their data, and what they are called here."""

IMAGES = ("images", "image", "x", "pictures", "pixels", "data")
LABELS = ("labels", "label", "y", "targets", "target")
"""Words in an array's name that say what it holds: `x_train`, `test_labels`."""

RANGES = {1: 255.0, 16: 255 / 16, 255: 1.0, 65535: 1 / 257}
"""The largest value that pixels may have, and what leads it to 255."""

REMEDY = "numpy.savez writes one"
ROUNDING = 1e-3
"""A value this little outside its range lies at its border."""


def read_arrays(path: Path) -> Pictures:
    """`images` and `labels`, or `x_train`, `y_train`, `x_test`, `y_test` and the like."""
    found = _load(path)
    parts = [part for part in dict.fromkeys(PARTS.values()) if (part, "images") in found]
    labels, files, of_part = [], [], []
    images: dict[str, NDArray[Any]] = {}
    for part in parts:
        key, values = found[part, "images"]
        images[key] = _channels_last(path, key, values)
        texts = _texts(path, *found[part, "labels"])
        if len(texts) != len(values):
            raise DataError(
                f"{path}: {len(values):,} images in '{key}', but {len(texts):,} labels in '{found[part, 'labels'][0]}'"
            )
        labels += texts
        files += [f"image {place}" if len(parts) == 1 else f"{part} image {place}" for place in range(len(texts))]
        of_part += [part] * len(texts)
    (first, one), *others = images.items()
    for key, other in others:
        if other.shape[1:] != one.shape[1:]:
            raise DataError(
                f"{path}: images in '{first}' are {_shape(one.shape[1:])} and those in '{key}' "
                f"{_shape(other.shape[1:])}: all must be alike"
            )
    pixels, note = _scale(path, images)
    return Pictures(str(path), pixels, labels, files, of_part if len(parts) > 1 else None, note)


def _load(path: Path) -> dict[tuple[str, str], tuple[str, NDArray[Any]]]:
    """(part, images or labels) → the array's name and the array."""
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
    except Exception as error:  # what is damaged can fail in any way
        raise DataError(read_failure(path, error, ".npz file of numbers", REMEDY)) from None


def _bytes_of(archive: zipfile.ZipFile, key: str) -> int:
    """The bytes of an array, by its own header and by the archive's: whichever says more."""
    name = key if key in archive.namelist() else f"{key}.npy"
    with archive.open(name) as file:
        version = np.lib.format.read_magic(file)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = read(file)
    return max(archive.getinfo(name).file_size, math.prod(shape) * dtype.itemsize)


def _roles(path: Path, keys: Sequence[str]) -> dict[tuple[str, str], str]:
    """(part, images or labels) → an array's name; each part has both, and train is one of them."""
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
    """Which part's images or labels an array holds, by the words of its name; without a part's name, those of train."""
    words = re.split(r"[^a-z]+", key.lower())
    part = next((PARTS[word] for word in words if word in PARTS), "train")
    for kind, names in (("labels", LABELS), ("images", IMAGES)):
        if any(word in names for word in words):
            return part, kind
    return None


def _channels_last(path: Path, key: str, images: NDArray[Any]) -> NDArray[Any]:
    """The images as N×H×W×C."""
    if images.dtype.kind not in "buif":
        raise DataError(f"{path}: '{key}' holds {images.dtype} values, and pixels are numbers")
    if images.ndim == 3:
        images = images[..., np.newaxis]
    if images.ndim == 4 and images.shape[3] not in (1, 3) and images.shape[1] in (1, 3):
        images = np.moveaxis(images, 1, 3)
    if images.ndim != 4 or images.shape[3] not in (1, 3):
        raise DataError(
            f"{path}: '{key}' is {_shape(images.shape)}, and images are N×H×W, N×H×W×C or N×C×H×W with C 1 or 3: "
            "reshape it"
        )
    if not images.size:
        raise DataError(f"{path}: '{key}' is {_shape(images.shape)}: there are no images in it")
    return images


def _scale(path: Path, images: dict[str, NDArray[Any]]) -> tuple[NDArray[np.uint8], str]:
    """All images with values 0–255, and how they came to be so; all parts by the same rule."""
    for key, values in images.items():
        bad = np.flatnonzero(~np.isfinite(values).reshape(len(values), -1).all(1))
        if len(bad):
            raise DataError(f"{path}: image {bad[0]} of '{key}' holds a value that is no number")
    lowest = min(float(values.min()) for values in images.values())
    highest = max(float(values.max()) for values in images.values())
    top = next((top for top in RANGES if highest <= top * (1 + ROUNDING)), None)
    if top is None or lowest < -ROUNDING:
        raise DataError(
            f"{path}: pixels from {lowest:g} to {highest:g}, and 0 to 1, 16, 255 or 65535 are understood: scale them"
        )
    if top == 255 and all(values.dtype == np.uint8 for values in images.values()):
        return np.concatenate(list(images.values())), ""
    scaled = [np.rint(values * RANGES[top]).astype(np.uint8) for values in images.values()]
    note = "" if top == 255 else f"pixels from {lowest:g} to {highest:g} taken as 0–{top} and scaled to 0–255"
    return np.concatenate(scaled), note


def _texts(path: Path, key: str, labels: NDArray[Any]) -> list[str]:
    """Labels as text, whole numbers without a point."""
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim != 1 or labels.dtype.kind not in "buifUS":
        raise DataError(
            f"{path}: '{key}' is {_shape(labels.shape)} ({labels.dtype}), and one number or name an image is wanted"
        )
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
