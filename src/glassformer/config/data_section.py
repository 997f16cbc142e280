"""The section of a configuration on data: where it is, what is held out of it, and what its columns are for."""

from dataclasses import dataclass

from glassformer.config.errors import SettingError
from glassformer.config.presets import KINDS, TEXT
from glassformer.config.setting import TINY, check, setting

NORMAL, EXACT = "normal", "exact"
"""Texts are the same if they have one normal form (`data/same_text.py`), or only if they are equal letter by letter."""

POINT, COMMA = ".", ","
"""Signs between a whole number and its fraction."""

IGNORE, APART = "ignore", "apart"

BETWEEN_FILES = " + "
"""The separator of several files in `data.path`."""

ERROR, SKIP = "error", "skip"
"""Ways to treat rows that cannot be used."""

ALL_COLUMNS = "all"
"""The value of `data.extra_columns` that reads every column."""

LARGEST_SIDE = 4096
"""The largest side of an image, in pixels."""


@dataclass(frozen=True)
class DataSettings:
    path: str | None = setting(None)
    """a text file, a folder of them, a table (.csv, .tsv, .jsonl, .parquet), an embedded data set, or hf:NAME"""
    validation: str | None = setting(None)
    """a file to validate on, instead of a part split off"""
    test: str | None = setting(None)
    """a file to test on, instead of a part split off"""
    validation_fraction: float = setting(0.1, least=0.0, most=0.9)
    """part of the data held out for validation"""
    test_fraction: float = setting(0.0, least=0.0, most=0.9)
    """part of the data held out for the test"""
    train_fraction: float = setting(1.0, least=TINY, most=1.0)
    """learn from this part of the training part alone; what is held out stays as it is"""
    folds: int | None = setting(None, least=2)
    """divide what is not the test into so many folds and validate on one of them (train --folds: on each)"""
    fold: int = setting(0, least=0)
    """which of the folds is the validation part, from 0 on"""
    refit: bool = setting(False)
    """learn from the validation part too (train --refit sets it for its last training)"""
    documents_apart: bool = setting(False)
    """language models: a token sees only its own document, where a window holds several"""
    split_seed: int = setting(0, least=0)
    """which documents or rows are held out (one text is split at its tail)"""
    split_by: str | None = setting(None)
    """rows alike in this column stay together; if it holds dates, the latest are held out"""
    same_text: str = setting(NORMAL, choices=(NORMAL, EXACT))
    """normal: keep texts in one part if they differ only in letter case, white space, letter forms, lookalikes,
    invisible characters, HTML entities or zeros of decimals; exact: only equal texts"""
    near_duplicates: str = setting(IGNORE, choices=(IGNORE, APART))
    """apart: texts that share more than half of their pieces stay together too"""
    encoding: str = setting("utf-8")
    """encoding of the text files"""
    text: str | None = setting(None)
    """column that holds the text, or several to join, title,body; unset: found by its name and looks"""
    label: str | None = setting(None)
    """column that holds the label or number; unset: found by its name and looks; multilabel: also several, a,b,c"""
    label_separator: str | None = setting(None)
    """what parts several labels in one cell; unset: ; or |, whichever there is"""
    bad_rows: str | None = setting(None, choices=(ERROR, SKIP))
    """skip: ignore any number of rows without a text or a label; error: fail at the first one, or at a label not
    seen in training; unset: skip up to a tenth of the rows"""
    decimal: str | None = setting(None, choices=(COMMA, POINT))
    """decimal sign where 1,234 and 1.234 could be either; unset: as the columns show"""
    kind: str = setting(TEXT, choices=KINDS)
    """what an example is; found by its looks"""
    extra_columns: str | None = setting(None)
    """read these number and category columns beside the text, such as price,country; without a text, only these;
    all: every column, including ids and names"""
    rare_values: int = setting(5, least=1)
    """in a column of more than 50 categories, those of fewer rows than this count as one (1: none do)"""
    image: str | None = setting(None)
    """column that names an image file, to read beside the others"""
    image_size: str | None = setting(None)
    """bring images to this size: 32, or 32x48 (height by width)"""
    shift: int = setting(0, least=0)
    """images: move each in training by up to so many pixels"""
    flip: bool = setting(False)
    """images: mirror half of them in training"""
    source: str | None = setting(None)
    """column (of TMX: language) to translate from; unset: found by its name"""
    target: str | None = setting(None)
    """column (of TMX: language) to translate to; unset: found by its name"""
    source_file: str | None = setting(None)
    """a file to translate from, a text a line"""
    target_file: str | None = setting(None)
    """its translation, line by line"""
    too_long: str = setting("drop", choices=("drop", "cut"))
    """what to do with a pair longer than the context"""

    def __post_init__(self) -> None:
        check("data", self)
        if self.validation_fraction + self.test_fraction >= 1:
            fractions = f"{self.validation_fraction:g} and data.test_fraction {self.test_fraction:g}"
            raise SettingError(f"data.validation_fraction {fractions} leave nothing to train on")
        if self.folds is not None and self.fold >= self.folds:
            raise SettingError(f"data.fold {self.fold} is none of data.folds {self.folds}: they count from 0 on")
        if self.folds is not None and self.validation is not None:
            raise SettingError(f"data.folds divides the data itself: leave --validation {self.validation} away")
        if self.refit and self.train_fraction < 1:
            share = f"data.train_fraction {self.train_fraction:g}"
            raise SettingError(f"{share} leaves rows out, and a refit learns from all")
        if (self.source_file is None) != (self.target_file is None):
            given, other = ("source", "target") if self.target_file is None else ("target", "source")
            raise SettingError(f"--{given}-file needs its other half: --{other}-file")
        if self.path is not None and self.source_file is not None:
            raise SettingError(f"give {self.path}, or --source-file and --target-file, not both")
        self.size_of_images()

    def size_of_images(self) -> tuple[int, int] | None:
        """Height and width."""
        if self.image_size is None:
            return None
        sides = self.image_size.lower().split("x")
        if len(sides) > 2 or not all(side.isascii() and side.isdigit() and int(side) > 0 for side in sides):
            raise SettingError(f"data.image_size wants a number of pixels, 32 or 32x48, not '{self.image_size}'")
        if max(map(int, sides)) > LARGEST_SIDE:
            raise SettingError(f"data.image_size is {self.image_size}, but a side has {LARGEST_SIDE} pixels at most")
        return int(sides[0]), int(sides[-1])

    @property
    def all_columns(self) -> bool:
        """Whether every column is read."""
        return self.extra_columns == ALL_COLUMNS

    @property
    def beside(self) -> tuple[str, ...]:
        """The columns that `extra_columns` names; none if it is `all`."""
        if self.all_columns:
            return ()
        return tuple(name.strip() for name in (self.extra_columns or "").split(",") if name.strip())
