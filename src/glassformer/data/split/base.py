"""What every split is made of, whatever it divides: which parts are asked for, what goes into which, and the words."""

import datetime
import hashlib
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from glassformer.config.sections import DataSettings
from glassformer.data.order import Numbers, mix, number
from glassformer.data.wording import counted

# --- rows that must stay together, and which of them are held out ---

Rows = NDArray[np.int64]
"""A number for each row."""


def group_rows(texts: NDArray[Any], values: Sequence[str] | None = None, pairs: Sequence[Sequence[int]] = ()) -> Rows:
    """Each row's group: rows of one text are together, those of one value too, and `pairs` of rows; an empty value
    binds nothing."""
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


def number_values(values: NDArray[Any]) -> Rows:
    """Equal values have equal numbers, from 0 on without gaps."""
    out: Rows = np.unique(values, return_inverse=True)[1].astype(np.int64)
    return out


def count_groups(digests: Numbers, groups: Rows, classes: Rows, seed: int) -> tuple[list[dict[int, int]], Numbers]:
    """How many rows of each class a group has, and a number by chance for it, made of its content and the seed."""
    counts: list[dict[int, int]] = [{} for _ in range(int(groups.max(initial=-1)) + 1)]
    for group, label in zip(groups.tolist(), classes.tolist(), strict=True):
        counts[group][label] = counts[group].get(label, 0) + 1
    keys = np.full(len(counts), np.iinfo(np.uint64).max, dtype=np.uint64)
    np.minimum.at(keys, groups, digests)
    return counts, mix(keys, number(seed))


def hold_out_by_chance(
    digests: Numbers, groups: Rows, classes: Rows, fractions: Mapping[str, float], seed: int
) -> dict[str, NDArray[np.bool_]] | None:
    """Which rows each part holds out: whole groups, each class by its share, in an order of content and seed.

    Every class leaves at least one row to training. The order of the rows plays no part. None: there are too few.
    """
    counts, chance = count_groups(digests, groups, classes, seed)
    waiting: list[int] = np.argsort(chance).tolist()
    total = Counter(classes.tolist())
    left = Counter(total)
    taken: dict[str, list[int]] = {}
    for part, fraction in fractions.items():
        taken[part] = _pick(counts, waiting, _shares(total, fraction, seed), left)
        if not taken[part]:  # an earlier part gives one of its groups away, if it has two
            giver = next((groups for groups in taken.values() if len(groups) > 1), None)
            if giver is None:
                return None
            taken[part] = [giver.pop()]
        chosen = set(taken[part])
        waiting = [group for group in waiting if group not in chosen]
    return {part: np.isin(groups, chosen) for part, chosen in taken.items()}


def _shares(total: Counter[int], fraction: float, seed: int) -> Counter[int]:
    """Whole rows of each class, together as many as the fraction says: the largest remainders are rounded up.

    Among equal ones, the seed decides.
    """
    exact = {label: fraction * count for label, count in sorted(total.items())}
    shares = Counter({label: int(share) for label, share in exact.items()})
    missing = max(1, round(fraction * total.total())) - shares.total()
    chance = dict(zip(exact, mix(np.array(list(exact), np.uint64), number(seed)).tolist(), strict=True))
    by_remainder = sorted(exact, key=lambda label: (shares[label] - exact[label], chance[label]))
    shares.update(by_remainder[: max(0, missing)])
    return shares


def _pick(counts: list[dict[int, int]], waiting: list[int], wanted: Counter[int], left: Counter[int]) -> list[int]:
    """Groups, in their order, that fit; then those that bring the classes nearer to what is wanted; one at least."""
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
    texts: Rows, times: Sequence[datetime.datetime], fractions: Mapping[str, float]
) -> dict[str, NDArray[np.bool_]] | None:
    """The latest rows: train, then validation, then test. Rows of one moment stay together; a text (`texts`: the number
    of each row's) that comes again later stays where it came first. None: there are too few moments."""
    moments, row_moment = np.unique([time.timestamp() for time in times], return_inverse=True)
    if len(moments) < len(fractions) + 1:
        return None
    counts = np.bincount(row_moment)
    stop = len(moments)
    place = np.zeros(len(moments), dtype=np.int64)
    for part in range(len(fractions), 0, -1):
        wanted = list(fractions.values())[part - 1] * len(times)
        held = np.cumsum(counts[part:stop][::-1])  # of the last one, two … moments; `part` of them stay for the others
        size = int(np.argmin(np.abs(held - wanted))) + 1
        place[stop - size : stop] = part
        stop -= size
    earliest = np.full(int(texts.max()) + 1, len(fractions), dtype=np.int64)
    np.minimum.at(earliest, texts, place[row_moment])
    return {name: earliest[texts] == part for part, name in enumerate(fractions, 1)}


# --- folds, and smaller training parts, each inside the next larger one ---

ALWAYS_TRAINED = -1
"""The fold of rows that are always trained on: the only ones of their class."""

SALT = 0x5EED
"""The salt of a share, so that which rows are learned from has nothing to do with which were held out."""


def folds_of(digests: Numbers, groups: Rows, classes: Rows, folds: int, seed: int) -> Rows | None:
    """The fold of each row: whole groups, each class spread evenly, by content and seed. None: there are too few.

    The order of the rows plays no part. A class all of whose rows would be in one fold could not be learned for it:
    their groups are ALWAYS_TRAINED.
    """
    counts, by_chance = count_groups(digests, groups, classes, seed)
    chance: list[int] = by_chance.tolist()
    total = Counter(classes.tolist())
    have: list[Counter[int]] = [Counter() for _ in range(folds)]
    sizes = [0] * folds
    homes: dict[int, set[int]] = defaultdict(set)
    """The folds of each class."""
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
    out: Rows = fold_of[groups]
    return out if len(np.unique(out[out != ALWAYS_TRAINED])) == folds else None


def first_share(digests: Numbers, classes: Rows, fraction: float, seed: int) -> NDArray[np.bool_]:
    """This part of the rows, each class by its share and one row of it at least, by content and seed.

    All rows stand in one order, in which every class is spread evenly, and a share is its beginning: a smaller one is
    inside a larger one.
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


# --- parts, and what is said of them ---

P = TypeVar("P")

Mask = NDArray[np.bool_]
"""Whether each row or document is in a part."""

PURPOSES = {"validation": "for validation", "test": "for the test"}
"""The parts that can be held out, and how a sentence names them."""

REFITTED = "the validation part is learned from too (data.refit): nothing here tells how good this training is"


@dataclass(frozen=True, eq=False)
class Corpus(Generic[P]):
    """Data and its parts, whatever they hold."""

    fingerprint: str
    """The same for the same data, validation and test files included."""
    parts: dict[str, P]
    """`train`, and where asked for `validation` and `test`."""
    remarks: tuple[str, ...]
    """What was divided and how, in words for a person."""
    skipped: Mapping[str, int] | None = field(default=None, kw_only=True)
    """Number of rows of all files that were skipped, by reason; None if the data are not rows."""

    def report(self) -> str:
        """All remarks in a line."""
        return "; ".join(self.remarks)


def requested_parts(settings: DataSettings) -> tuple[dict[str, str], dict[str, float]]:
    """The parts that come from files, with these, and those that are split off, with their fractions."""
    files = {name: path for name in PURPOSES if (path := getattr(settings, name)) is not None}
    fractions = {name: getattr(settings, f"{name}_fraction") for name in PURPOSES if name not in files}
    if settings.folds is not None:
        fractions.pop("validation", None)
    return files, {name: fraction for name, fraction in fractions.items() if fraction > 0}


@dataclass(frozen=True, eq=False)
class Assignment:
    """Which rows are in which part."""

    parts: dict[str, Mask]
    """The training part comes first."""
    in_every_fold: int
    """Rows that are always trained on: the only ones of their class."""
    before_share: int
    """Rows of the training part before `data.train_fraction` made it smaller."""


def assign(
    held_out: Mapping[str, Mask], digests: Numbers, groups: Rows, classes: Rows, settings: DataSettings
) -> Assignment | None:
    """The parts of all rows, some of which are held out already. None: there are too few for the folds.

    One fold of the others is the validation part; a refit learns from that part too; and of the training part, a share
    may be all that is learned from.
    """
    held = dict(held_out)
    train = ~np.any([np.zeros(len(digests), dtype=np.bool_), *held.values()], axis=0)
    in_every_fold = 0
    if settings.folds is not None and not settings.refit:
        folds = folds_of(
            digests[train], number_values(groups[train]), classes[train], settings.folds, settings.split_seed
        )
        if folds is None:
            return None
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


def training_in_words(settings: DataSettings, learned: str, in_every_fold: int = 0) -> list[str]:
    """What the training part is, where it is not all that is not held out. `learned`: how much a share of it is."""
    remarks = []
    if settings.folds is not None and not settings.refit:
        remarks.append(f"validation is fold {settings.fold + 1} of {settings.folds} (data.fold {settings.fold})")
    if in_every_fold:
        rows = counted(in_every_fold, "row")
        remarks.append(f"in training in every fold: {rows}, the only ones of their class that can be told apart")
    if settings.refit and settings.validation is None:
        remarks.append(REFITTED)
    if settings.train_fraction < 1:
        share = f"{100 * settings.train_fraction:g} % of the training part is learned from"
        remarks.append(f"{share}: {learned} (data.train_fraction)")
    return remarks


def overlap(name: str, texts: Numbers, train: Numbers, noun: str) -> list[str]:
    """A warning of held-out rows that were trained on, which makes the score too good."""
    seen = int(np.isin(texts, train).sum())
    return [f"warning: {seen:,} of {counted(len(texts), noun)} of {name} also in training"] if seen else []


def digest(*texts: str) -> str:
    """One fingerprint for several texts."""
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()
