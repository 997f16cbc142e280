"""A folder that an export fills: whole, or not there."""

import contextlib
import os
import shutil
from collections.abc import Collection, Iterator
from pathlib import Path

from glassformer.config.errors import Misuse
from glassformer.runs.files import flush, writing
from glassformer.runs.run import CARD


def check_empty(folder: Path, *, overwrite: bool = False) -> None:
    """Whether an export may be written here: what is there is never replaced unasked."""
    if folder.exists() and not folder.is_dir():
        raise Misuse(f"{folder} is a file: name a folder to export to")
    if (folder / CARD).exists():
        raise Misuse(
            f"{folder} is a run, which an export would spoil: name another folder, such as {folder / 'export'}"
        )
    if folder.is_dir() and any(folder.iterdir()) and not overwrite:
        raise Misuse(f"{folder} is not empty: replace what is in it with --overwrite, or name another folder")


@contextlib.contextmanager
def filling(folder: Path, *, overwrite: bool = False, owned: Collection[str] = ()) -> Iterator[Path]:
    """A folder beside `folder` to write to. At the end it takes its place; after an error nothing is left of it.

    Where there is one to be overwritten, the new files replace those of their names, and of the others in it those
    `owned` go, which an export of this kind may have left.
    """
    check_empty(folder, overwrite=overwrite)
    whole = Path(os.path.abspath(folder))  # "." has no name
    temporary = whole.with_name(f".{whole.name}.{os.getpid()}.part")
    with writing(folder):
        try:
            temporary.mkdir(parents=True)
            yield temporary
            new = sorted(temporary.iterdir())
            for file in new:
                flush(file)
            if not folder.is_dir():
                os.replace(temporary, folder)
            else:
                for file in new:
                    if (folder / file.name).is_dir():
                        shutil.rmtree(folder / file.name)
                    os.replace(file, folder / file.name)
                for name in set(owned) - {file.name for file in new}:
                    (folder / name).unlink(missing_ok=True)
            flush(folder)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
