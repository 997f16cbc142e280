"""Where data lies: at a path that exists, or under the name of an embedded data set or one of the hub."""

import os
import stat
from pathlib import Path

from glassformer.config.errors import DataError, nearest
from glassformer.data.datasets.dataset import is_hub
from glassformer.data.datasets.embedded import DATASETS

SHEETS = (".xlsx", ".xls", ".ods", ".numbers")
HELD_DIGITS = 16
"""Of the digest that names the folder of a file that was written from memory."""
PACKED = (".zst", ".bz2", ".xz", ".zip", ".7z", ".rar")
"""Ways to pack a file that are not read here; .gz is."""


def find(path_or_name: str) -> Path | None:
    """The file or folder, or None where it is the name of a data set (hf:NAME too); one that is neither is refused."""
    if not path_or_name.strip():
        raise DataError("no data given: name a text file, a folder, a table or an embedded data set")
    path = Path(path_or_name).expanduser()
    try:
        mode = path.stat().st_mode
    except PermissionError:
        raise DataError(f"cannot read {path_or_name}: Permission denied") from None
    except (OSError, ValueError):  # no such file, or a name that no file could have
        if path_or_name.partition(":")[0] in DATASETS or is_hub(path_or_name):
            return None
        raise _missing(path_or_name, path) from None
    if path.suffix.lower() in SHEETS:
        raise DataError(f"{path_or_name} is a spreadsheet: save it as .csv first")
    if path.suffix.lower() in PACKED and not stat.S_ISDIR(mode):
        raise DataError(f"{path_or_name} is packed in a way that is not read here: unpack it, or pack it as .gz")
    if not stat.S_ISDIR(mode) and not stat.S_ISREG(mode):
        raise DataError(f"{path_or_name} is a pipe or a device, which can be read only once: save it as a file first")
    return path


def is_held(path: Path) -> bool:
    """Whether a file was written from memory."""
    return path.stem == "data" and len(path.parent.name) == HELD_DIGITS and path.parent.parent.name == "data"


def short_name(path_or_name: str) -> str:
    """What data is called in a title."""
    path = Path(path_or_name)
    return "data in memory" if is_held(path) else path.name


def files_below(folder: Path) -> list[Path]:
    """Every file below a folder, sorted; hidden folders are not entered."""

    def refuse(error: OSError) -> None:
        raise DataError(f"cannot read {error.filename}: {error.strerror}")

    files = []
    for parent, folders, names in os.walk(folder, onerror=refuse):
        folders[:] = [name for name in folders if not name.startswith(".")]
        files += [Path(parent, name) for name in names]
    return sorted(files)


def _missing(name: str, path: Path) -> DataError:
    try:
        neighbours = [str(path.with_name(other)) for other in sorted(os.listdir(path.parent))]
    except (OSError, ValueError):
        neighbours = []
    meant = nearest(name.partition(":")[0], [*neighbours, *DATASETS])
    hint = f"; did you mean {meant}?" if meant else ""
    if is_held(path):
        return DataError("this was learned from data in memory that is not kept: give the data again")
    if path.suffix:  # no data set is called so
        return DataError(f"no file '{name}'{hint}")
    return DataError(f"no file '{name}' and no data set of that name{hint} (data sets: {', '.join(DATASETS)})")
