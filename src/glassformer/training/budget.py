"""A budget of minutes: how the time of a whole command is shared among what a training does.

Reading and building take as long as they need. Validations get a tenth of the remaining time, half a percent each.
The last evaluation gets a fifth at most, and what follows it (the doctor, pictures, the report) some seconds. Updates
get the rest. Where a validation or the last evaluation would take longer, it evaluates a random sample.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:  # the command line starts a clock before torch is there
    from glassformer.training.checkpointer import Progress

VALIDATIONS, EACH, LAST = 0.1, 0.005, 0.2
"""Parts of the time after reading: for all validations on the way, for one of them, for the last evaluation."""
PAPERS_SECONDS, PAPERS_SHARE = 5.0, 0.25
"""Seconds for what follows the last evaluation, and at most this part of the time after reading."""
DOCTOR = 6
"""Updates that the doctor's look at a model takes as long as."""
FEWEST = 16
"""Examples, windows or pairs that an evaluation has at least, however long they take."""
GROWTH, TRIAL = 4, 2
"""By how much a sample grows while it is found out how much fits; and how much longer than may be a trial may take."""
LEAST_GROWING = 0.05
"""What grows with a sample is no less of its time, whatever was measured."""
FIRST, LONGEST, RARER = 0.01, 0.05, 0.1
"""Part of a training run between two validations: minimum, maximum, and as a share of the part already done."""
ENOUGH, NO_BETTER = 5, 0.2
"""A model has converged when this number of validations, over this part of the time, brought neither a better score nor
a smaller loss."""
RISE, RISEN, RISING = 0.03, 3, 0.05
"""A model overfits when score and validation loss were worse than their best by this share in this number of
consecutive validations, and the last improvement was this part of the time ago."""

Clock = Callable[[], float]
"""Seconds since a command began."""


class Stopwatch:
    """The clock of a command."""

    def __init__(self) -> None:
        self.began = time.perf_counter()

    def __call__(self) -> float:
        return time.perf_counter() - self.began


@dataclass(frozen=True)
class Budget:
    """The seconds of a whole command, and what is to follow the loop. What was measured so far is in `Progress`: all
    that is decided here follows from the two.
    """

    seconds: float
    parts: int = 0
    """How many the last evaluation judges."""
    held_out: float = 0.0
    """How large they are together, in multiples of the validation part."""
    papers: float = 0.0
    """Seconds that are kept for what follows it."""

    def left(self, progress: "Progress") -> float:
        """Seconds after reading and building."""
        return max(0.0, self.seconds - progress.preparing)

    def reserve(self, progress: "Progress") -> float:
        """Seconds that are kept for what follows the next update; that itself among them, so that it ends in time."""
        training = progress.elapsed - progress.preparing - progress.validating  # one clock for all processes
        update = training / max(1, progress.step)
        return update + progress.between + self.last_evaluation(progress) + self.papers_of(progress)

    def papers_of(self, progress: "Progress") -> float:
        """Seconds for what follows the last evaluation."""
        return min(self.papers, PAPERS_SHARE * self.left(progress))

    def last_evaluation(self, progress: "Progress") -> float:
        """Seconds for the last evaluation; as many as it may have, while nobody knows how long it takes."""
        if not self.parts:
            return 0.0
        same, growing = self.evaluation_seconds(progress)
        most = LAST * self.left(progress)
        return most if progress.sample is None else min(most, same + growing)

    def evaluation_seconds(self, progress: "Progress") -> tuple[float, float]:
        """What the last evaluation of all that is held out would take: seconds that are the same however much is
        judged, and seconds that grow with it.
        """
        took = progress.evaluating
        same = self.parts * (1 - progress.growing) * took
        return same, self.held_out * progress.growing * took / (progress.sample or 1.0)

    def part_done(self, progress: "Progress") -> float:
        """How far through the training, 0 to 1."""
        if self.seconds <= progress.spent:
            return 1.0
        training = self.left(progress) - self.reserve(progress)
        return (progress.elapsed - progress.preparing) / training if training > 0 else math.inf

    def validation_due(self, progress: "Progress", last: float, done: float, per_epoch: float) -> bool:
        """Return whether to validate now: often at first, where fast models are soon at their best, then less often.

        There are at least twenty validations in a training run, as far as their share of the time allows. `last`: the
        part of the run that was done at the previous validation.
        """
        if progress.validating + progress.between > VALIDATIONS * (progress.elapsed - progress.preparing):
            return False
        epoch = per_epoch * done / progress.step
        return done - last >= min(LONGEST, max(FIRST, RARER * last, epoch))

    def has_converged(self, progress: "Progress") -> bool:
        since = progress.elapsed - progress.improved
        return progress.stale >= ENOUGH and since >= NO_BETTER * self.left(progress)

    def has_overfitted(self, progress: "Progress", per_epoch: float) -> bool:
        """Return whether the validation loss has clearly turned.

        Within the first epoch, a rising loss is not overfitting: a high learning rate may cause it, and its decay may
        end it.
        """
        since = progress.elapsed - progress.improved
        return progress.risen >= RISEN and since >= RISING * self.left(progress) and progress.best_step >= per_epoch

    def last_share(self, progress: "Progress", elapsed: float) -> float:
        """The part of what is held out that the last evaluation judges in what is left of the time."""
        reserved = self.last_evaluation(progress)  # also of a run that was killed after its last update
        room = max(reserved, self.seconds - elapsed - self.papers_of(progress))
        same, growing = self.evaluation_seconds(progress)
        return 1.0 if same + growing <= room else max(0.0, room - same) / growing

    def allows_doctor(self, progress: "Progress", elapsed: float) -> bool:
        """Whether the doctor can look at the model without making the command much longer."""
        return DOCTOR * progress.seconds / max(1, progress.step) <= max(PAPERS_SECONDS, self.seconds - elapsed)


class Fit(NamedTuple):
    """How much is judged by each validation."""

    share: float
    """The part of what is held out."""
    growing: float
    """The part of a validation's time that grows with how much is judged."""


def fit_sample(measure: Callable[[float], float], count: int, most: float, seconds: float, fewest: int = FEWEST) -> Fit:
    """Find how many of `count` examples each validation evaluates: at least `fewest`, at most the part `most`.

    `measure` returns the seconds that an evaluation of a part takes. A sample grows while the next one would not take
    far too long. Some of the time is the same for every sample (translations are written token by token): what comes on
    top of that may take `seconds`.
    """
    least = fewest / count
    share = min(most, least)
    if share >= 1:
        return Fit(1.0, 1.0)
    took = measure(share)
    if took > seconds:  # the first time, much is loaded
        took = measure(share)
    each = took / share
    """Seconds for all, by what more of them took more."""
    while share < most and GROWTH * share * each <= TRIAL * seconds:
        before, share_before = took, share
        share = min(most, GROWTH * share)
        took = measure(share)
        each = max(0.0, took - before) / (share - share_before)
    fits = most if each * most <= seconds else seconds / each
    chosen = min(most, GROWTH * share, max(least, fits))
    return Fit(chosen, min(1.0, max(LEAST_GROWING, each * share / took if took > 0 else 1.0)))
