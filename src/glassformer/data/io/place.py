"""Find data by a path, or by the name of a data set, embedded or of the hub."""

import glob
import os
import re
import stat
from collections.abc import Iterable
from pathlib import Path

from glassformer.config.data_section import BETWEEN_FILES
from glassformer.config.errors import DataError, nearest
from glassformer.data.datasets.dataset import is_hub
from glassformer.data.datasets.embedded import DATASETS
from glassformer.data.io.rows import is_table

SHEETS = (".xlsx", ".xls", ".ods", ".numbers")
HELD_DIGITS = 16
"""Digits of the digest that names the folder of a file written from memory."""
PACKED = (".zst", ".bz2", ".xz", ".zip", ".7z", ".rar")
"""Endings of compressed files that cannot be read, unlike .gz."""

PATTERN = re.compile(r"[*?]|\[.+\]")


def join_paths(paths: Iterable[str | os.PathLike[str]]) -> str:
    """Return one name for several files; `files_of` returns them again."""
    return BETWEEN_FILES.join(os.fspath(path) for path in paths)


def files_of(path_or_name: str) -> list[Path] | None:
    """Return the files if a name stands for several: joined paths, or patterns such as *.txt; None if it does not.

    A path that exists is one path, whatever its name. Raise `DataError` for a pattern that matches no file, for a file
    that is given twice, and for tables together with other files.
    """
    if not is_several(path_or_name):
        return None
    files: dict[Path, Path] = {}
    for name in path_or_name.split(BETWEEN_FILES):
        if PATTERN.search(name) and not exists(name):
            found = sorted(glob.glob(os.path.expanduser(name), recursive=True))
            if not (matched := [Path(one) for one in found if os.path.isfile(one)]):
                raise DataError(f"no file matches '{name}'")
        else:
            path = find(name)
            if path is None or path.is_dir():
                raise DataError(f"{name} is not a file: pass several files, or only one folder or data set")
            matched = [path]
        for one in matched:
            if files.setdefault(one.resolve(), one) is not one:
                raise DataError(f"{one} is given twice: pass it once")
    tables = [file for file in files.values() if is_table(file)]
    if tables and len(tables) < len(files):  # the rows of tables would be read as plain texts
        other = next(file for file in files.values() if file not in tables)
        raise DataError(f"{tables[0]} is a table, but {other} is not: pass only tables, or only text files")
    return list(files.values())


def is_several(path_or_name: str) -> bool:
    """Return whether a name is that of several files: joined paths, or a pattern."""
    return (BETWEEN_FILES in path_or_name or PATTERN.search(path_or_name) is not None) and not exists(path_or_name)


FILE_ENDINGS = (".csv", ".tsv", ".jsonl", ".parquet", ".txt", ".json", ".gz")


def looks_like_file_name(text: str) -> bool:
    """Return whether a text without spaces has a file's ending, or a dot and a file of this name exists."""
    return " " not in text and (text.lower().endswith(FILE_ENDINGS) or ("." in text and is_file_name(text)))


def is_file_name(name: str | os.PathLike[str]) -> bool:
    """Return whether a text is the name of an existing file; most texts cannot be one."""
    return exists(os.fspath(name)) and Path(name).is_file()


def exists(name: str) -> bool:
    """Return whether a text is the name of an existing file or folder; most texts cannot be one."""
    try:
        return Path(name).expanduser().exists()
    except (OSError, ValueError):  # not a valid file name
        return False


def find(path_or_name: str, *, several: bool = False) -> Path | None:
    """Return the file or folder, or None for the name of a data set (also hf:NAME); raise `DataError` for other names.

    `several`: the name may stand for several files; return the first.
    """
    if not path_or_name.strip():
        raise DataError("no data given: name a text file, a folder, a table or an embedded data set")
    if (files := files_of(path_or_name)) is not None:
        if not several and len(files) > 1:
            raise DataError(f"{short_name(path_or_name)}: only texts and tables can be several files: name one")
        return find(str(files[0]))
    path = Path(path_or_name).expanduser()
    try:
        mode = path.stat().st_mode
    except PermissionError:
        raise DataError(f"cannot read {path_or_name}: Permission denied") from None
    except (OSError, ValueError):  # no such file, or not a valid file name
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
    """Return whether a file was written from memory."""
    return path.stem == "data" and len(path.parent.name) == HELD_DIGITS and path.parent.parent.name == "data"


def short_name(path_or_name: str) -> str:
    """Return the name of data for a title."""
    path = Path(path_or_name)
    if BETWEEN_FILES in path_or_name and is_several(path_or_name):
        first, *more = path_or_name.split(BETWEEN_FILES)
        return f"{Path(first).name} and {len(more)} more"
    return "data in memory" if is_held(path) else path.name


def files_below(folder: Path) -> list[Path]:
    """Return every file below a folder, sorted, except those in hidden folders."""

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
    if path.suffix:  # names of data sets have no ending
        return DataError(f"no file '{name}'{hint}")
    return DataError(f"no file '{name}' and no data set of that name{hint} (data sets: {', '.join(DATASETS)})")
