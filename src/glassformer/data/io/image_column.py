"""Images that a column of a table names."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from glassformer.config.errors import DataError
from glassformer.config.sections import DataSettings
from glassformer.data.columns.heuristics import existing
from glassformer.data.io.pictures import gathered
from glassformer.data.io.table import Table


def read_images(table: Table, column: str, rows: list[int], settings: DataSettings) -> NDArray[np.uint8]:
    """The images of these rows; a path that is not whole leads from the folder of the table."""
    names = table.columns[existing(table.name, column, table.columns, "--image")]
    if (bare := next((row for row in rows if not names[row].strip()), None)) is not None:
        raise DataError(f"{table.name}, line {table.lines[bare]:,}: no image in column '{column}': take such rows out")
    if not rows:
        return np.empty((0, 1, 1, 1), np.uint8)
    folder = Path(table.name).expanduser().parent
    files = [names[row].strip() for row in rows]
    for row, file in zip(rows, files, strict=True):
        if not (folder / file).is_file():
            raise DataError(f"{table.name}, line {table.lines[row]:,}, column '{column}': no image at {folder / file}")
    return gathered(table.name, folder, files, settings.size_of_images())
