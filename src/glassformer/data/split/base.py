"""What every split is made of, whatever it divides: which parts are asked for, what goes into which, and the words."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from glassformer.config.sections import DataSettings
from glassformer.data.mixing import Numbers
from glassformer.data.split.groups import ALWAYS_TRAINED, Rows, first_share, folds_of, number_values
from glassformer.data.wording import counted

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


def overlap(name: str, digests: Numbers, train: Numbers, noun: str) -> list[str]:
    """A warning of held-out rows that were trained on, which makes the score too good."""
    seen = int(np.isin(digests, train).sum())
    return [f"warning: {seen:,} of {counted(len(digests), noun)} of {name} also in training"] if seen else []


def digest(*texts: str) -> str:
    """One fingerprint for several texts."""
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()
