"""Read pictures with a class: a folder of class folders, the arrays of a .npz file, or an embedded data set."""

import contextlib
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from glassformer.config.errors import DataError, read_failure
from glassformer.config.limits import refuse_beyond, refuse_endless
from glassformer.config.sections import DataSettings
from glassformer.data.columns.heuristics import require_column
from glassformer.data.datasets.embedded import open_dataset
from glassformer.data.io.picture_arrays import PARTS, read_arrays
from glassformer.data.io.place import files_below, find
from glassformer.data.io.source import RUN_FILE
from glassformer.data.io.table import Pictures, Table
from glassformer.data.wording import counted, listed

ENDINGS = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff")
"""Endings of image files."""

FORMATS = ("PNG", "JPEG", "BMP", "GIF", "WEBP", "TIFF")
"""Pillow's names of the formats that are read. For some other formats it runs a program."""

TRANSPARENT = ("RGBA", "LA", "PA", "RGBa", "La")
"""Pillow's names of pixel formats with an alpha channel."""

REMEDY = "save it again, or take it out"
MAX_NAMED = 3
"""Maximum number of files that a message names."""

Pixels = NDArray[np.uint8]


def is_picture(path: Path) -> bool:
    """Return whether a file is an image, by its name alone."""
    return path.suffix.lower() in ENDINGS


def holds_pictures(path_or_name: str) -> bool:
    """Return whether there are pictures to learn from, without decoding one.

    Since a folder of texts may contain pictures too, at least half of its files must be pictures in subfolders.
    """
    path = find(path_or_name, several=True)
    if path is None:
        return open_dataset(path_or_name).images is not None
    if not path.is_dir():
        return path.suffix.lower() == ".npz"
    if (path / RUN_FILE).exists():
        return False
    files = _files(path)
    pictures = [file for file in files if is_picture(file)]
    others = len(files) - len(pictures)
    return bool(pictures) and sum(file.parent != path for file in pictures) >= others


def read_pictures(path_or_name: str, size: tuple[int, int] | None = None) -> Pictures:
    """Read all pictures and resize them to `size` (height and width); without it, they must have one size."""
    path = find(path_or_name)
    try:
        if path is None:
            images = open_dataset(path_or_name).images
            if images is None:
                raise DataError(f"data set '{path_or_name}' holds no pictures")
            pixels, labels = images()
            pictures = Pictures(path_or_name, pixels, labels, [f"image {place}" for place in range(len(labels))])
        elif path.is_dir():
            pictures = _folder(path_or_name, path, size)
        elif path.suffix.lower() == ".npz":
            pictures = replace(read_arrays(path), name=path_or_name)
        else:
            raise DataError(
                f"{path_or_name} holds no labelled pictures: pass a folder of class folders, or a .npz file"
            )
        if size is not None and pictures.pixels.shape[1:3] != size:
            pixels = np.stack([resize_picture(picture, size) for picture in pictures.pixels])
            pictures = replace(pictures, pixels=pixels)
    except MemoryError:
        raise DataError(f"{path_or_name}: so many pixels do not fit into memory: lower --data.image_size") from None
    if len(set(pictures.labels)) == 1:
        label = pictures.labels[0]
        wrapped = path is not None and path.is_dir() and len(_folders(path / label)) > 1
        hint = f"; did you mean {Path(path_or_name, label)}?" if wrapped else ""
        raise DataError(f"all pictures of {path_or_name} are of one class, '{label}': nothing to tell apart{hint}")
    return pictures


def _folder(name: str, folder: Path, size: tuple[int, int] | None) -> Pictures:
    parts = _part_folders(name, folder)
    classes = [(part, below) for part, within in parts for below in _folders(within)]
    found = {below: [file for file in _files(below) if is_picture(file)] for _, below in classes}
    files = [file for _, below in classes for file in found[below]]
    if not files:
        raise DataError(_no_pictures(name, folder))
    relative = [file.relative_to(folder).as_posix() for file in files]
    remarks = [f"no pictures in class folder {below.relative_to(folder)}" for below in found if not found[below]]
    left_out = sorted({file.relative_to(folder).as_posix() for file in _files(folder)} - set(relative))
    if left_out:
        some = counted(len(left_out), "file that is no picture", "files that are no pictures")
        remarks.append(f"left out: {some} in a class folder ({listed(left_out, MAX_NAMED)})")
    labels = [below.name for _, below in classes for _ in found[below]]
    of_part = [part for part, below in classes for _ in found[below]] if len(parts) > 1 else None
    return Pictures(name, read_files(name, folder, relative, size), labels, relative, of_part, "; ".join(remarks))


def _part_folders(name: str, folder: Path) -> list[tuple[str, Path]]:
    """Return the folders of class folders, each with its part; most often, the folder itself is the only one."""
    inside = _folders(folder)
    named = [below for below in inside if below.name.lower() in PARTS]
    if not named or (len(named) < len(inside) and not any(map(_folders, named))):
        return [("train", folder)]
    parts = {PARTS[below.name.lower()]: below for below in named}
    others = [below for below in inside if below not in named and any(map(is_picture, _files(below)))]
    if others or len(parts) < len(named) or "train" not in parts:
        raise DataError(
            f"{name} holds the folders {listed(below.name for below in [*named, *others])}: there must be either class "
            "folders, or train, and at most one validation and one test folder, with class folders in them"
        )
    for below in parts.values():
        if not any(is_picture(file) for inner in _folders(below) for file in _files(inner)):
            raise DataError(_no_pictures(str(Path(name, below.name)), below))
    return [(part, parts[part]) for part in dict.fromkeys(PARTS.values()) if part in parts]


def _no_pictures(name: str, folder: Path) -> str:
    if any(map(is_picture, _files(folder))):
        return f"{name} holds pictures, but no class folders: put those of each class into a folder named after it"
    return f"no pictures in {name}: a folder for each class is wanted, with files that end in {', '.join(ENDINGS)}"


def _folders(folder: Path) -> list[Path]:
    """Return the folders in a folder, sorted, except hidden ones."""
    try:
        return sorted(below for below in folder.iterdir() if below.is_dir() and not below.name.startswith("."))
    except OSError as error:
        raise DataError(f"cannot read {folder}: {error.strerror}") from None


def _files(folder: Path) -> list[Path]:
    """Return every file below a folder, sorted, except hidden ones."""
    return [file for file in files_below(folder) if not file.name.startswith(".")]


def read_images(table: Table, column: str, rows: list[int], settings: DataSettings) -> Pixels:
    """Read the images that a column names in these rows; paths are relative to the folder of the table."""
    names = table.columns[require_column(table.name, column, table.columns, "--image")]
    if not rows:
        return np.empty((0, 1, 1, 1), np.uint8)
    folder = Path(table.name).expanduser().parent
    files = [names[row].strip() for row in rows]
    for row, file in zip(rows, files, strict=True):
        if not (folder / file).is_file():
            missing = f"no image at {folder / file}" if file else "no image: take such rows out"
            raise DataError(f"{table.at(row, column)}: {missing}")
    return read_files(table.name, folder, files, settings.size_of_images())


def read_files(name: str, folder: Path, files: Sequence[str], size: tuple[int, int] | None) -> Pixels:
    """Read files of one size. The array has one channel until the first picture with colours."""
    pixels: Pixels | None = None
    for place, file in enumerate(files):
        picture = read_picture(folder / file, size)
        if pixels is None or picture.shape[2] > pixels.shape[3]:
            packed = sum((folder / file).stat().st_size for file in files if (folder / file).is_file())
            what = f"{name}: {len(files):,} images take {{}} (--data.image_size makes them smaller)"
            refuse_beyond("unpacked_bytes", len(files) * picture.size, what, file_bytes=packed)
        if pixels is None:
            pixels = np.empty((len(files), *picture.shape), np.uint8)
        height, width = pixels.shape[1:3]
        if picture.shape[:2] != (height, width):
            raise DataError(
                f"{name}: {files[0]} is {height}×{width} pixels (height × width) and {file} is {picture.shape[0]}×"
                f"{picture.shape[1]}: --data.image_size {height}x{width} resizes all to one size"
            )
        if picture.shape[2] > pixels.shape[3]:
            pixels = np.repeat(pixels, picture.shape[2], axis=3)
        pixels[place] = picture
    assert pixels is not None
    return pixels


def read_picture(path: Path, size: tuple[int, int] | None = None) -> Pixels:
    """Read one image file as H×W×C, resized to `size` (height and width); of an animation, the first picture.

    C is 1 for a grey picture, else 3.
    """
    picture = _decode(path)
    return picture if size is None else resize_picture(picture, size)


def fit_picture(picture: Pixels, size: tuple[int, int], channels: int) -> Pixels:
    """Return a picture (H×W×C) with this size and number of channels."""
    picture = resize_picture(picture, size)
    if picture.shape[2] == channels:
        return picture
    if channels == 3:
        return np.repeat(picture, 3, axis=2)
    from PIL import Image

    return np.array(Image.fromarray(picture).convert("L"))[..., np.newaxis]


def resize_picture(picture: Pixels, size: tuple[int, int]) -> Pixels:
    """Resize a picture (H×W×C) to this height and width (bilinear)."""
    if picture.shape[:2] == size:
        return picture
    from PIL import Image

    image = Image.fromarray(picture[..., 0] if picture.shape[2] == 1 else picture)
    return np.array(image.resize((size[1], size[0]), Image.Resampling.BILINEAR)).reshape(*size, -1)


def _decode(path: Path) -> Pixels:
    """Decode an image: upright, on white, with one channel if it is grey."""
    from PIL import Image, ImageOps, UnidentifiedImageError

    try:
        refuse_endless(path)
        with warnings.catch_warnings(action="ignore"), _own_limit(), Image.open(path, formats=FORMATS) as file:
            refuse_beyond("pixels", file.width * file.height, f"{path} has {{}} pixels")
            image = ImageOps.exif_transpose(file)
            if image.mode.startswith(("I", "F")):
                return _from_deep(path, np.array(image, np.float64))
            if image.mode in TRANSPARENT or "transparency" in image.info:
                image = image.convert("RGBA")
                image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
            picture = np.array(image.convert("RGB"))
    except (DataError, MemoryError):
        raise
    except UnidentifiedImageError:
        raise DataError(f"{path} is damaged, or no picture: {REMEDY}") from None
    except Exception as error:  # damaged files raise any kind of error
        raise DataError(read_failure(path, error, "picture", REMEDY)) from None
    grey = (picture == picture[..., :1]).all()
    return picture[..., :1].copy() if grey else picture


@contextlib.contextmanager
def _own_limit() -> Iterator[None]:
    """Disable Pillow's own limit on pixels, which --limit cannot raise; ours is compared with the header."""
    from PIL import Image

    before, Image.MAX_IMAGE_PIXELS = Image.MAX_IMAGE_PIXELS, None
    try:
        yield
    finally:
        Image.MAX_IMAGE_PIXELS = before


def _from_deep(path: Path, values: NDArray[np.float64]) -> Pixels:
    """Return a grey picture of 16 bits with 8 bits."""
    if values.min() < 0 or values.max() > 65535 or (values % 1).any():
        raise DataError(f"{path}: pixels from {values.min():g} to {values.max():g}: save it with 8 or 16 bits")
    return np.rint(values / 257).astype(np.uint8)[..., np.newaxis]
