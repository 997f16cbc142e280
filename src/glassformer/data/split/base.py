"""Steps that all splits share: grouping rows, holding groups out, folds, and the messages on them."""

import datetime
import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from glassformer.config.errors import DataError
from glassformer.config.sections import DataSettings
from glassformer.data.order import Ints, UInts, mix, number
from glassformer.data.wording import counted

# --- groups of rows that stay together, and the groups that are held out ---


def group_rows(texts: NDArray[Any], values: Sequence[str] | None = None, pairs: Sequence[Sequence[int]] = ()) -> Ints:
    """Return each row's group. Rows with equal texts, equal values or in one of the `pairs` are in one group.

    Empty values do not join rows.
    """
    numbers = number_values(texts)
    if values is None and not len(pairs):
        return numbers
    parent = list(range(len(numbers)))

    def root(row: int) -> int:
        while parent[row] != row:
            parent[row] = row = parent[parent[row]]
        return row

    first: dict[int | str, int] = {}
    for row, text in enumerate(numbers.tolist()):
        value = "" if values is None else values[row]
        for tie in (text, value) if value else (text,):
            parent[root(row)] = root(first.setdefault(tie, row))
    for one, other in pairs:
        parent[root(one)] = root(other)
    return number_values(np.array([root(row) for row in range(len(parent))], dtype=np.int64))


def number_values(values: NDArray[Any]) -> Ints:
    """Return a number for each value, from 0 without gaps; equal values have equal numbers."""
    out: Ints = np.unique(values, return_inverse=True)[1].astype(np.int64)
    return out


def count_groups(digests: UInts, groups: Ints, classes: Ints, seed: int) -> tuple[list[dict[int, int]], UInts]:
    """Return the rows per class of each group, and a random number per group, from its content and the seed."""
    counts: list[dict[int, int]] = [{} for _ in range(int(groups.max(initial=-1)) + 1)]
    for group, label in zip(groups.tolist(), classes.tolist(), strict=True):
        counts[group][label] = counts[group].get(label, 0) + 1
    keys = np.full(len(counts), np.iinfo(np.uint64).max, dtype=np.uint64)
    np.minimum.at(keys, groups, digests)
    return counts, mix(keys, number(seed))


def hold_out_by_chance(
    digests: UInts, groups: Ints, classes: Ints, fractions: Mapping[str, float], seed: int
) -> dict[str, NDArray[np.bool_]] | None:
    """Return the rows of each part: whole groups, stratified by class, in a random order from content and seed.

    At least one row of every class stays in training. The order of the rows does not matter. None: too few rows.
    """
    counts, chance = count_groups(digests, groups, classes, seed)
    waiting: list[int] = np.argsort(chance).tolist()
    total = Counter(classes.tolist())
    left = Counter(total)
    taken: dict[str, list[int]] = {}
    for part, fraction in fractions.items():
        taken[part] = _pick(counts, waiting, _shares(total, fraction, seed), left)
        if not taken[part]:  # take a group of an earlier part that has two
            giver = next((groups for groups in taken.values() if len(groups) > 1), None)
            if giver is None:
                return None
            taken[part] = [giver.pop()]
        chosen = set(taken[part])
        waiting = [group for group in waiting if group not in chosen]
    return {part: np.isin(groups, chosen) for part, chosen in taken.items()}


def _shares(total: Counter[int], fraction: float, seed: int) -> Counter[int]:
    """Return the number of rows of each class: together the fraction of all rows, the largest remainders rounded up.

    The seed decides among equal remainders.
    """
    exact = {label: fraction * count for label, count in sorted(total.items())}
    shares = Counter({label: int(share) for label, share in exact.items()})
    missing = max(1, round(fraction * total.total())) - shares.total()
    chance = dict(zip(exact, mix(np.array(list(exact), np.uint64), number(seed)).tolist(), strict=True))
    by_remainder = sorted(exact, key=lambda label: (shares[label] - exact[label], chance[label]))
    shares.update(by_remainder[: max(0, missing)])
    return shares


def _pick(counts: list[dict[int, int]], waiting: list[int], wanted: Counter[int], left: Counter[int]) -> list[int]:
    """Return groups in their order that fit, then groups that improve the class counts; at least one group."""
    picked: list[int] = []

    def nearer(group: int) -> int:
        return sum(abs(wanted[label]) - abs(wanted[label] - count) for label, count in counts[group].items())

    def take(group: int) -> None:
        picked.append(group)
        wanted.subtract(counts[group])
        left.subtract(counts[group])

    def can_leave(group: int) -> bool:
        return all(count < left[label] for label, count in counts[group].items())

    for group in waiting:
        if all(count <= wanted[label] for label, count in counts[group].items()) and can_leave(group):
            take(group)
    done = set(picked)
    rest = [group for group in waiting if group not in done]
    for group in rest:
        if nearer(group) > 0 and can_leave(group):
            take(group)
    if not picked and (free := [group for group in rest if can_leave(group)]):
        take(max(free, key=nearer))
    return picked


def hold_out_by_time(
    texts: Ints, times: Sequence[datetime.datetime], fractions: Mapping[str, float]
) -> dict[str, NDArray[np.bool_]] | None:
    """Return the rows of each part, the latest ones: train, then validation, then test. None: too few moments.

    Rows of one moment stay together. Rows with a text of earlier rows (equal numbers in `texts`) stay with these.
    """
    moments, row_moment = np.unique([time.timestamp() for time in times], return_inverse=True)
    if len(moments) < len(fractions) + 1:
        return None
    counts = np.bincount(row_moment)
    stop = len(moments)
    place = np.zeros(len(moments), dtype=np.int64)
    for part in range(len(fractions), 0, -1):
        wanted = list(fractions.values())[part - 1] * len(times)
        held = np.cumsum(counts[part:stop][::-1])  # rows of the last 1, 2 … moments; `part` moments remain
        size = int(np.argmin(np.abs(held - wanted))) + 1
        place[stop - size : stop] = part
        stop -= size
    earliest = np.full(int(texts.max()) + 1, len(fractions), dtype=np.int64)
    np.minimum.at(earliest, texts, place[row_moment])
    return {name: earliest[texts] == part for part, name in enumerate(fractions, 1)}


# --- folds, and nested smaller training parts ---

ALWAYS_TRAINED = -1
"""The fold of rows that are always in training, because no other row has their class."""

SALT = 0x5EED
"""Salt of `first_share`, so that the smaller training part is independent of the held-out rows."""


def folds_of(digests: UInts, groups: Ints, classes: Ints, folds: int, seed: int) -> Ints | None:
    """Return the fold of each row: whole groups, each class spread evenly, by content and seed. None: too few rows.

    The order of the rows does not matter. If all rows of a class would be in one fold, their groups are ALWAYS_TRAINED,
    so that the class can be learned.
    """
    counts, by_chance = count_groups(digests, groups, classes, seed)
    chance: list[int] = by_chance.tolist()
    total = Counter(classes.tolist())
    have: list[Counter[int]] = [Counter() for _ in range(folds)]
    sizes = [0] * folds
    homes: dict[int, set[int]] = defaultdict(set)  # the folds of each class
    fold_of = np.zeros(len(counts), dtype=np.int64)
    for group in sorted(range(len(counts)), key=lambda group: (-sum(counts[group].values()), chance[group])):
        labels = counts[group]

        def costs(fold: int, labels: dict[int, int] = labels) -> tuple[int, float, int]:
            alone = sum(homes[label] == {fold} for label in labels)
            return alone, sum(count * have[fold][label] / total[label] for label, count in labels.items()), sizes[fold]

        fold = min(range(folds), key=costs)
        fold_of[group] = fold
        have[fold].update(labels)
        sizes[fold] += sum(labels.values())
        for label in labels:
            homes[label].add(fold)
    for group, labels in enumerate(counts):
        if any(len(homes[label]) == 1 for label in labels):
            fold_of[group] = ALWAYS_TRAINED
    out: Ints = fold_of[groups]
    return out if len(np.unique(out[out != ALWAYS_TRAINED])) == folds else None


def first_share(digests: UInts, classes: Ints, fraction: float, seed: int) -> NDArray[np.bool_]:
    """Return a fraction of the rows, stratified by class and with at least one row of each, by content and seed.

    It is the beginning of one order of all rows, in which every class is spread evenly. Smaller shares are therefore
    contained in larger ones.
    """
    chance = mix(mix(digests, number(seed)), number(SALT))
    place = np.zeros(len(digests))
    for label in np.unique(classes):
        rows = np.flatnonzero(classes == label)
        place[rows[np.argsort(chance[rows], kind="stable")]] = (np.arange(len(rows)) + 0.5) / len(rows)
    chosen = np.zeros(len(digests), dtype=np.bool_)
    chosen[np.lexsort((chance, place))[: max(1, round(fraction * len(digests)))]] = True
    sizes = np.bincount(classes)[classes]
    return chosen | (place * sizes < 1)


# --- parts ---

P = TypeVar("P")

RowMask = NDArray[np.bool_]
"""True for the rows or documents of a part."""

PURPOSES = {"validation": "for validation", "test": "for the test"}
"""The parts that can be held out, and their names in a sentence."""

REFITTED = "the validation part is learned from too (data.refit): nothing here tells how good this training is"


@dataclass(eq=False)
class Corpus(Generic[P]):
    """Data divided into parts."""

    fingerprint: str
    """Digest of all data, including validation and test files."""
    parts: dict[str, P]
    """`train`, and as requested `validation` and `test`."""
    remarks: list[str]
    """Messages on the split and on anomalies of the data."""
    skipped: Mapping[str, int] | None = field(default=None, kw_only=True)
    """Number of skipped rows of all files, by reason; None if the data are not rows."""

    def report(self) -> str:
        """Return all remarks in one line."""
        return "; ".join(self.remarks)


def requested_parts(settings: DataSettings) -> tuple[dict[str, str], dict[str, float]]:
    """Return the files of parts that have their own, and the fractions of the parts to hold out."""
    files = {name: path for name in PURPOSES if (path := getattr(settings, name)) is not None}
    fractions = {name: getattr(settings, f"{name}_fraction") for name in PURPOSES if name not in files}
    if settings.folds is not None:
        fractions.pop("validation", None)
    return files, {name: fraction for name, fraction in fractions.items() if fraction > 0}


def too_few(where: str, size: str, fractions: Mapping[str, float]) -> DataError:
    """Return the error for data that cannot be divided into the requested parts."""
    parts = ["train", *fractions]
    return DataError(f"{where} has {size}: too few for {len(parts)} parts ({', '.join(parts)})")


@dataclass(frozen=True, eq=False)
class Assignment:
    """The part of each row."""

    parts: dict[str, RowMask]
    """The training part comes first."""
    in_every_fold: int
    """Number of rows that are in training in every fold, because no other row has their class."""
    before_share: int
    """Number of training rows before `data.train_fraction` reduced them."""


def assign(
    where: str,
    size: str,
    held_out: Mapping[str, RowMask],
    digests: UInts,
    groups: Ints,
    classes: Ints,
    settings: DataSettings,
) -> Assignment:
    """Return the part of each row; raise `DataError` if there are too few rows for the folds.

    Of the rows that are not in `held_out`, one fold is the validation part. A refit also learns from the validation
    part. `data.train_fraction` reduces the training part. `size`: number of rows, for the error.
    """
    held = dict(held_out)
    train = ~np.any([np.zeros(len(digests), dtype=np.bool_), *held.values()], axis=0)
    in_every_fold = 0
    if settings.folds is not None and not settings.refit:
        own_groups = number_values(groups[train])
        folds = folds_of(digests[train], own_groups, classes[train], settings.folds, settings.split_seed)
        if folds is None:
            raise DataError(f"{where} has {size}: too few for {settings.folds} folds (--folds)")
        held["validation"] = np.zeros_like(train)
        held["validation"][train] = folds == settings.fold
        in_every_fold = int((folds == ALWAYS_TRAINED).sum())
        train &= ~held["validation"]
    if settings.refit:
        train |= held.pop("validation", False)
    rows = np.flatnonzero(train)
    if settings.train_fraction < 1:
        share = first_share(digests[rows], classes[rows], settings.train_fraction, settings.split_seed)
        train[rows[~share]] = False
    return Assignment({"train": train, **held}, in_every_fold, len(rows))


def training_in_words(settings: DataSettings, learned: str, in_every_fold: int = 0) -> Iterator[str]:
    """Yield remarks on folds, refits and smaller training parts. `learned`: size of the smaller training part."""
    if settings.folds is not None and not settings.refit:
        yield f"validation is fold {settings.fold + 1} of {settings.folds} (data.fold {settings.fold})"
    if in_every_fold:
        rows = counted(in_every_fold, "row")
        yield f"in training in every fold: {rows}, the only ones of their class that can be told apart"
    if settings.refit and settings.validation is None:
        yield REFITTED
    if settings.train_fraction < 1:
        share = f"{100 * settings.train_fraction:g} % of the training part is learned from"
        yield f"{share}: {learned} (data.train_fraction)"


def overlap(name: str, texts: UInts, train: UInts, noun: str) -> list[str]:
    """Return a warning if rows of a held-out part are also in training."""
    seen = int(np.isin(texts, train).sum())
    return [f"warning: {seen:,} of {counted(len(texts), noun)} of {name} also in training"] if seen else []


def digest(*texts: str) -> str:
    """Return one fingerprint of several texts."""
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()
