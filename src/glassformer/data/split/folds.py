"""Folds: every row is held out once. And smaller training parts, each inside the next larger one."""

from collections import Counter, defaultdict

import numpy as np
from numpy.typing import NDArray

from glassformer.data.mixing import Numbers, mix, number
from glassformer.data.split.groups import Rows, count_groups

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
    for group in sorted(range(len(counts)), key=lambda group: (-counts[group].total(), chance[group])):
        labels = counts[group]

        def costs(fold: int, labels: Counter[int] = labels) -> tuple[int, float, int]:
            alone = sum(homes[label] == {fold} for label in labels)
            return alone, sum(count * have[fold][label] / total[label] for label, count in labels.items()), sizes[fold]

        fold = min(range(folds), key=costs)
        fold_of[group] = fold
        have[fold].update(labels)
        sizes[fold] += labels.total()
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
