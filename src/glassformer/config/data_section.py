"""The section of a configuration on data: its location, its split into parts, and the roles of its columns."""

from dataclasses import dataclass

from glassformer.config.errors import SettingError
from glassformer.config.presets import KINDS, TEXT
from glassformer.config.setting import TINY, check, setting

NORMAL, EXACT = "normal", "exact"
"""Rules by which texts are the same: by their normal form (`data/same_text.py`), or only if all letters are equal."""

POINT, COMMA = ".", ","
"""Decimal signs, between a whole number and its fraction."""

IGNORE, TOGETHER = "ignore", "together"

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
    """read a text file, a folder of text files, a table (.csv, .tsv, .jsonl, .parquet), an embedded data set, or
    hf:NAME"""
    validation: str | None = setting(None, metavar="FILE")
    """validate on this file instead of a split of the data"""
    test: str | None = setting(None, metavar="FILE")
    """test on this file instead of a split of the data"""
    validation_fraction: float = setting(0.1, least=0.0, most=0.9)
    """hold out this fraction of the data for validation"""
    test_fraction: float = setting(0.0, least=0.0, most=0.9)
    """hold out this fraction of the data for the test"""
    train_fraction: float = setting(1.0, least=TINY, most=1.0)
    """train on only this fraction of the training set; validation and test sets stay the same"""
    folds: int | None = setting(None, least=2)
    """divide all rows outside the test set into N folds and validate on one of them (train --folds: on each)"""
    fold: int = setting(0, least=0)
    """validate on this fold, counted from 0"""
    refit: bool = setting(False)
    """train on the validation set too (train --refit sets it for its last run)"""
    documents_apart: bool = setting(False)
    """language models: let each token see only its own document if a window holds several"""
    split_seed: int = setting(0, least=0)
    """seed the choice of the rows or documents that are held out (a single text is split at its end)"""
    split_by: str | None = setting(None, metavar="COLUMN")
    """keep rows with the same value of this column together; hold out the latest if it holds dates"""
    same_text: str = setting(NORMAL, choices=(NORMAL, EXACT))
    """keep copies of a text in one set; normal: also texts that differ only in letter case, white space, letter
    forms, lookalikes, invisible characters, HTML entities or zeros of decimals; exact: only equal texts"""
    near_duplicates: str = setting(IGNORE, choices=(IGNORE, TOGETHER))
    """keep texts that share more than half of their character n-grams in one set (together), or not (ignore)"""
    encoding: str = setting("utf-8")
    """read text files in this encoding"""
    text: str | None = setting(None, metavar="COLUMN")
    """read the text from this column, or join several: title,body; unset: detected by name and content"""
    label: str | None = setting(None, metavar="COLUMN")
    """read the label or number from this column; multilabel: or from several: a,b,c; unset: detected by name and
    content"""
    label_separator: str | None = setting(None, metavar="TEXT")
    """split several labels in one cell at this separator; unset: ; or |, whichever occurs"""
    bad_rows: str | None = setting(None, choices=(ERROR, SKIP))
    """skip all rows without a text or a label, or fail at the first one or at a label not seen in training
    (error); unset: skip up to a tenth of the rows"""
    decimal: str | None = setting(None, choices=(COMMA, POINT))
    """use this decimal sign where 1,234 and 1.234 are ambiguous; unset: detected from the columns"""
    kind: str = setting(TEXT, choices=KINDS)
    """set what an example is; unset: detected"""
    extra_columns: str | None = setting(None, metavar="COLUMNS")
    """read these number and category columns in addition to the text, such as price,country; without a text,
    only these; all: every column, including ids and names"""
    rare_values: int = setting(5, least=1)
    """merge categories with fewer rows than this, in columns with more than 50 categories (1: never)"""
    image: str | None = setting(None, metavar="COLUMN")
    """read the image files named in this column, in addition to the other columns"""
    image_size: str | None = setting(None, metavar="SIZE")
    """resize images to this size: 32, or 32x48 (height by width)"""
    shift: int = setting(0, least=0)
    """images: shift each by up to N pixels during training"""
    flip: bool = setting(False)
    """images: mirror half of them during training"""
    source: str | None = setting(None, metavar="COLUMN")
    """translate from this column (TMX: language); unset: detected by name"""
    target: str | None = setting(None, metavar="COLUMN")
    """translate to this column (TMX: language); unset: detected by name"""
    source_file: str | None = setting(None, metavar="FILE")
    """translate from this file, one text per line"""
    target_file: str | None = setting(None, metavar="FILE")
    """translate to this file, line by line"""
    too_long: str = setting("drop", choices=("drop", "cut"))
    """drop or cut pairs longer than the context"""

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
