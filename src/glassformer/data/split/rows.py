"""Rows of a table, or pictures, divided into parts."""

import datetime
import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar, Generic, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from glassformer.config.data_section import ERROR, EXACT, TOGETHER
from glassformer.config.errors import DataError
from glassformer.config.sections import DataSettings
from glassformer.data import same_text
from glassformer.data.columns.dates import are_other_dates, times_of
from glassformer.data.columns.heuristics import require_column
from glassformer.data.io.table import Table
from glassformer.data.order import Ints, UInts, mix
from glassformer.data.split import base
from glassformer.data.split.base import PURPOSES, Corpus, RowMask, digest
from glassformer.data.wording import counted, lines_in_words

T = TypeVar("T")

MIN_SCORED_ROWS = 10
"""Number of rows in a part below which a warning calls its scores unreliable."""


@dataclass(frozen=True, eq=False)
class RowPart:
    """One part of the rows: texts, labels and columns."""

    name: str
    texts: list[str]
    """The text of each row; for rows without a text, their values or the name of their file."""
    labels: list[str]
    """The label of each row, or its translation."""
    lines: list[int]
    """Line on which each row begins in its file."""
    origin: str
    """The file or data set."""
    columns: dict[str, list[str]] = field(default_factory=dict)
    """The values of number and category columns."""
    pixels: NDArray[np.uint8] | None = None
    """N×H×W×C; None without images."""
    top: int | None = None
    """The value that was white in the original arrays; None for image files."""
    remarks: tuple[str, ...] = ()
    """One line per anomaly of the part."""
    skipped: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """Line numbers of skipped rows of its file, by reason."""
    ignored: tuple[str, ...] = ()
    """Columns of its file that the run does not read."""

    noun: ClassVar[str] = "row"
    has_text: ClassVar[bool] = True
    """Whether the model reads `texts`, and does not only show them to people."""

    def __len__(self) -> int:
        return len(self.texts)

    @cached_property
    def digests(self) -> UInts:
        """Digests of the texts, which ignore white space around them."""
        return same_text.digests_of(text.strip().encode() for text in self.texts)

    @cached_property
    def keys(self) -> UInts:
        """Digests of all that the model reads: texts and columns in their normal form, and images."""
        if not self.has_text:
            return self.beside
        return mix(same_text.digests_of(same_text.normal_form(text).encode() for text in self.texts), self.beside)

    @cached_property
    def beside(self) -> UInts:
        """Digests of all that the model reads besides the text; zeros if it reads nothing else."""
        if not self.columns and self.pixels is None:
            return np.zeros(len(self), dtype=np.uint64)

        def content(row: int) -> bytes:
            values = "\0".join(same_text.normal_form(values[row]) for values in self.columns.values()).encode()
            return values if self.pixels is None else values + b"\0" + self.pixels[row].tobytes()

        return same_text.digests_of(map(content, range(len(self))))

    def same(self, rule: str) -> UInts:
        """Return keys that are equal for rows that must share a part, by `data.same_text`.

        The key of a row without a text is made of the values in all other columns.
        """
        if rule != EXACT:
            return self.keys
        blank = np.array([not text.strip() for text in self.texts], np.bool_)
        return np.where(blank, self.keys, self.digests) if blank.any() else self.digests

    def in_other_letters(self, rule: str) -> str:
        """Return a remark on the number of repeated rows that are written differently; empty for none."""
        if rule == EXACT or not self.has_text:
            return ""
        return same_text.in_other_letters(len(np.unique(mix(self.digests, self.beside))) - len(np.unique(self.keys)))

    def near_duplicates(self) -> Ints:
        """Return pairs of rows with nearly the same text, the earlier first; of equal rows, only the first counts."""
        if not self.has_text:
            return same_text.NO_PAIRS
        beside = self.beside.tolist()
        return same_text.near_duplicates(
            self.keys, lambda row: same_text.sketch_of(same_text.normal_form(self.texts[row]), beside[row])
        )

    @property
    def fingerprint(self) -> str:
        """Digest of all rows."""
        whole = hashlib.sha256()
        for text, label in zip(self.texts, self.labels, strict=True):
            whole.update(f"{len(text)}:{len(label)}:{text}{label}".encode())
        beside = [digest(name, *values) for name, values in self.columns.items()]
        if self.pixels is not None:
            beside.append(hashlib.sha256(self.pixels.tobytes()).hexdigest())
        return digest(whole.hexdigest(), *beside) if beside else whole.hexdigest()

    def select(self, name: str, rows: list[int]) -> Self:
        """Return these rows as a part with this name."""

        def of(values: list[T]) -> list[T]:
            return [values[row] for row in rows]

        columns = {column: of(values) for column, values in self.columns.items()}
        pixels = None if self.pixels is None else self.pixels[rows]
        return type(self)(name, of(self.texts), of(self.labels), of(self.lines), self.origin, columns, pixels, self.top)

    def join(self, other: Self) -> Self:
        """Return these rows and then those of the other part, under this name."""
        columns = {name: values + other.columns[name] for name, values in self.columns.items()}
        pixels = None
        if self.pixels is not None and other.pixels is not None:
            if self.pixels.shape[1:] != other.pixels.shape[1:]:
                sizes = f"{other.origin}: images of another size than those of {self.origin}"
                raise DataError(f"{sizes}: --data.image_size brings all to one size")
            pixels = np.concatenate([self.pixels, other.pixels])
        texts, labels, lines = self.texts + other.texts, self.labels + other.labels, self.lines + other.lines
        return type(self)(self.name, texts, labels, lines, self.origin, columns, pixels, self.top)


P = TypeVar("P", bound=RowPart)


@dataclass(eq=False)
class RowCorpus(Corpus[P], Generic[P]):
    """Rows divided into parts."""

    same_text: str = field(kw_only=True)
    """The setting `data.same_text`."""
    skipped: Counter[str] = field(default_factory=Counter, kw_only=True)

    def warn(self, further: Callable[[P], list[str]] = lambda part: []) -> None:
        """Add warnings about small parts, and those that `further` returns."""
        for name in list(self.parts)[1:]:
            part = self.parts[name]
            if len(part) < MIN_SCORED_ROWS:
                self.remarks.append(f"warning: a score over {counted(len(part), 'row')} of {name} says little")
            self.remarks += further(part)

    def take(self, part: P) -> None:
        """Add a part that was not split off, with remarks on its origin and its overlap with training."""
        self.parts[part.name] = part
        self.remarks += [f"{part.name} from {part.origin}: {counted(len(part), part.noun)}"]
        self.remarks += [*skipped_lines(part.skipped, part.noun), *part.remarks]
        self.skipped.update(_counts(part))
        texts, train = (one.same(self.same_text) for one in (part, self.parts["train"]))
        self.remarks += base.overlap(part.name, texts, train, part.noun)

    def take_files(self, parts: Iterable[P], settings: DataSettings) -> None:
        """Add the parts with files of their own; a refit also learns from the validation part."""
        for part in parts:
            self.fingerprint = digest(self.fingerprint, part.name, part.fingerprint)
            self.take(part)
        if settings.refit and "validation" in self.parts:
            self.parts["train"] = self.parts["train"].join(self.parts.pop("validation"))
            self.remarks.append(base.REFITTED)
        self.parts = in_order(self.parts)


def split_rows(
    whole: P,
    table: Table,
    rows: Sequence[int],
    settings: DataSettings,
    *,
    alike: str,
    facts: Sequence[str],
    notes: Sequence[str] = (),
    kinds: Ints | None = None,
) -> RowCorpus[P]:
    """Divide rows into the training part and the parts that are held out.

    `rows`: their positions in the table. `kinds`: classes by which the split is stratified. `alike`: name of what equal
    rows have in common. `facts` are remarks after the number of rows, `notes` remarks after the split.
    """
    same, column = whole.same(settings.same_text), settings.split_by
    is_mixed = whole.has_text and (bool(whole.columns) or whole.pixels is not None)
    digests = same if is_mixed else whole.digests  # of the exact letters, so that both rules draw the same rows
    texts, near = base.number_values(same), same_text.NO_PAIRS
    if settings.near_duplicates == TOGETHER:
        near = whole.near_duplicates()
        texts = base.group_rows(whole.keys, pairs=near.tolist())
    fractions = base.requested_parts(settings)[1]
    values, times = _split_by(table, rows, settings)
    classes = np.zeros(len(rows), dtype=np.int64) if kinds is None else kinds
    groups = base.group_rows(texts, values)
    size = f"{counted(len(rows), 'row')}, {len(np.unique(texts)):,} of them different"
    if values is not None and not times:
        size = f"{counted(len(np.unique(groups)), 'group')} in column '{column}'"
    held: dict[str, RowMask] | None = {}
    if fractions and times:
        held = base.hold_out_by_time(texts, times, fractions)
    elif fractions:
        held = base.hold_out_by_chance(digests, groups, classes, fractions, settings.split_seed)
    if held is None or not all(inside.any() for inside in held.values()):
        raise base.too_few(table.name, size, fractions)
    if times and settings.folds is not None and not settings.refit:
        raise DataError(
            f"{table.name}: data.folds would learn from rows later than those held out by column '{column}'"
        )
    assignment = base.assign(table.name, size, held, digests, groups, classes, settings)
    parts = in_order({name: whole.select(name, np.flatnonzero(of).tolist()) for name, of in assignment.parts.items()})
    shares = [f"{counted(len(parts[name]), whole.noun)} held out {PURPOSES[name]}" for name in list(parts)[1:]]
    remarks = [counted(len(whole), whole.noun) + (f": {' and '.join(shares)}" if shares else ""), *facts]
    if values is not None and (held or settings.folds):
        remarks.append(_in_words(held, times, column))
    learned = f"{len(parts['train']):,} of {counted(assignment.before_share, 'row')}"
    remarks += base.training_in_words(settings, learned, assignment.in_every_fold)
    remarks += [*notes, *skipped_lines(whole.skipped, whole.noun), *whole.remarks]
    if again := len(whole) - len(np.unique(same)):
        repeats = f"{counted(again, f'{whole.noun} repeats', f'{whole.noun}s repeat')} an earlier {alike}"
        remarks.append(f"{repeats}{whole.in_other_letters(settings.same_text)}")
    if len(near):
        remarks.append(f"{same_text.near_in_words(near, alike)} {same_text.KEPT_TOGETHER}")
    fingerprint = whole.fingerprint if values is None else digest(whole.fingerprint, *values)
    return RowCorpus(fingerprint, parts, remarks, same_text=settings.same_text, skipped=_counts(whole))


def _counts(part: RowPart) -> Counter[str]:
    """Return the number of rows skipped, by reason."""
    return Counter({reason: len(lines) for reason, lines in part.skipped.items() if lines})


def _split_by(
    table: Table, rows: Sequence[int], settings: DataSettings
) -> tuple[list[str] | None, list[datetime.datetime]]:
    """Return the values of the column `data.split_by`, and the moments if they are dates."""
    column = settings.split_by
    if column is None:
        return None, []
    cells = table.columns[require_column(table.name, column, table.columns, "--data.split_by")]
    values = [cells[row].strip() for row in rows]
    moments = times_of(values)
    times = [moment for moment in moments if moment is not None]
    if len(times) < len(values) and (times or are_other_dates(values)):
        odd = moments.index(None)
        problem = f"'{values[odd][:40]}' among dates: write it as 2024-05-31 (--data.split_by)"
        raise DataError(f"{table.at(rows[odd], column)}: {problem}")
    return values, times


def _in_words(held: Mapping[str, RowMask], times: Sequence[datetime.datetime], column: str | None) -> str:
    """Return the remark on the column `data.split_by`."""
    if not times:
        return f"split by column '{column}': rows alike in it stay together"
    begins = ", ".join(
        f"{name} from {min(time for time, here in zip(times, inside, strict=True) if here):%Y-%m-%d}"
        for name, inside in held.items()
    )
    return f"split by time, column '{column}': {begins}"


def given_tables(
    table: Table, settings: DataSettings, read: Callable[[str, DataSettings], Table]
) -> Iterable[tuple[str, Table]]:
    """Return the tables of the files for parts, and a data set's own test rows if there is no other test set."""
    given = {name: read(path, settings) for name, path in base.requested_parts(settings)[0].items()}
    if table.test is not None and settings.test is None and settings.test_fraction == 0:
        given["test"] = table.test()
    return given.items()


NO_TEXT, NO_LABEL, NO_PAIR = "without a text", "without a label", "without a source or target"
"""Reasons why a row is skipped."""
MAX_SKIPPED = 0.1
"""Share of the rows that may be skipped unless `data.bad_rows` is set."""


def skip_rows(
    where: str, rows: int, skipped: Mapping[str, Sequence[int]], bad_rows: str | None
) -> dict[str, list[int]]:
    """Return the line numbers of the skipped rows by reason; raise `DataError` if `bad_rows` allows fewer of them.

    `rows`: the total number of rows.
    """
    kept = {reason: list(lines) for reason, lines in skipped.items() if lines}
    count = sum(map(len, kept.values()))
    allowed = {ERROR: 0.0, None: MAX_SKIPPED * rows}.get(bad_rows, rows)
    if count > allowed:
        reasons = "; ".join(f"{len(lines):,} {reason}, {lines_in_words(lines)}" for reason, lines in kept.items())
        some = f"{count:,} of {counted(rows, 'row')}"
        raise DataError(f"{where}: {some} cannot be used ({reasons}): fix them, or pass --bad-rows skip")
    return kept


def skipped_lines(skipped: Mapping[str, Sequence[int]], noun: str = "row") -> list[str]:
    """Return one line per reason for skipping rows."""
    place = "number" if noun == "picture" else "line"
    return [
        f"skipped: {counted(len(lines), noun)} {reason}, {lines_in_words(lines, place)}"
        for reason, lines in skipped.items()
        if lines
    ]


def in_order(parts: Mapping[str, T]) -> dict[str, T]:
    """Return the parts in the order in which they are always listed."""
    return {name: parts[name] for name in ("train", *PURPOSES) if name in parts}
