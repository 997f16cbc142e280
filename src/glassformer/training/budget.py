"""A budget of minutes: how the time of a command is divided among the phases of a training run.

Reading and building take as long as they need. Validations get a tenth of the remaining time, half a percent each.
The last evaluation gets a fifth at most. The steps after it (the doctor, pictures, the report) get some seconds, and
updates get the rest. If a validation or the last evaluation would take longer, it evaluates a random sample.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:  # the command line starts a clock before torch is imported
    from glassformer.training.checkpointer import Progress

ALL_VALIDATIONS_SHARE = 0.1
"""Maximum share of the time after reading for all validations together."""
VALIDATION_SHARE = 0.005
"""Share of the time after reading for one validation."""
LAST_EVALUATION_SHARE = 0.2
"""Maximum share of the time after reading for the last evaluation."""
REPORT_SECONDS = 5.0
"""Seconds for the work after the last evaluation."""
MAX_REPORT_SHARE = 0.25
"""Maximum share of the time after reading for the work after the last evaluation."""
DOCTOR_UPDATES = 6
"""Number of updates that take as long as the doctor's checks of a model."""
MIN_EXAMPLES = 16
"""Minimum number of examples, windows or pairs of an evaluation, regardless of their time."""
SAMPLE_GROWTH = 4
"""Factor by which a trial sample grows."""
MAX_TRIAL_FACTOR = 2
"""Maximum expected time of a trial evaluation as a multiple of the time of a validation."""
MIN_GROWING = 0.05
"""Minimum share of a validation's time that is assumed to grow with its sample, whatever was measured."""
MIN_INTERVAL, MAX_INTERVAL = 0.01, 0.05
"""Minimum and maximum part of a training run between two validations."""
INTERVAL_GROWTH = 0.1
"""Part of a training run between two validations as a share of the part already done."""
CONVERGED_VALIDATIONS, CONVERGED_SHARE = 5, 0.2
"""A model has converged when this number of validations, over this share of the time, brought neither a better score
nor a smaller loss."""
OVERFIT_MARGIN, OVERFIT_VALIDATIONS, OVERFIT_SHARE = 0.03, 3, 0.05
"""A model overfits when two conditions hold. Score and validation loss were worse than their best by OVERFIT_MARGIN in
this number of consecutive validations, and the last improvement was OVERFIT_SHARE of the time ago."""

Clock = Callable[[], float]
"""Seconds since a command began."""


class Stopwatch:
    """A clock that counts seconds since it was made."""

    def __init__(self) -> None:
        self.began = time.perf_counter()

    def __call__(self) -> float:
        return time.perf_counter() - self.began


@dataclass(frozen=True)
class Budget:
    """The seconds of a command and the work after the loop.

    Every decision is a function of the budget and of the measurements in `Progress`.
    """

    seconds: float
    parts: int = 0
    """Number of parts in the last evaluation."""
    held_out: float = 0.0
    """Their total size in multiples of the validation part."""
    report: float = 0.0
    """Seconds reserved for the work after the last evaluation."""

    def left(self, progress: "Progress") -> float:
        """Return the seconds that reading and building have left."""
        return max(0.0, self.seconds - progress.preparing)

    def reserve(self, progress: "Progress") -> float:
        """Return the seconds to reserve for the next update and everything after it."""
        training = progress.elapsed - progress.preparing - progress.validating  # one clock for all processes
        update = training / max(1, progress.step)
        return update + progress.between + self.last_evaluation(progress) + self.report_seconds(progress)

    def report_seconds(self, progress: "Progress") -> float:
        """Return the seconds for the work after the last evaluation."""
        return min(self.report, MAX_REPORT_SHARE * self.left(progress))

    def last_evaluation(self, progress: "Progress") -> float:
        """Return the seconds for the last evaluation; the maximum while nothing was measured."""
        if not self.parts:
            return 0.0
        same, growing = self.evaluation_seconds(progress)
        most = LAST_EVALUATION_SHARE * self.left(progress)
        return most if progress.sample is None else min(most, same + growing)

    def evaluation_seconds(self, progress: "Progress") -> tuple[float, float]:
        """Return the seconds of a last evaluation of all held-out rows: the constant part and the growing part."""
        took = progress.evaluating
        same = self.parts * (1 - progress.growing) * took
        return same, self.held_out * progress.growing * took / (progress.sample or 1.0)

    def part_done(self, progress: "Progress") -> float:
        """Return the part of the training run that is done; 1 or more at its end."""
        if self.seconds <= progress.spent:
            return 1.0
        training = self.left(progress) - self.reserve(progress)
        return (progress.elapsed - progress.preparing) / training if training > 0 else math.inf

    def validation_due(self, progress: "Progress", last: float, done: float, per_epoch: float) -> bool:
        """Return whether to validate now: often at first, when fast models reach their best, then less often.

        A training run has at least twenty validations, as far as their share of the time allows. `last`: the
        part of the run that was done at the previous validation.
        """
        if progress.validating + progress.between > ALL_VALIDATIONS_SHARE * (progress.elapsed - progress.preparing):
            return False
        epoch = per_epoch * done / progress.step
        return done - last >= min(MAX_INTERVAL, max(MIN_INTERVAL, INTERVAL_GROWTH * last, epoch))

    def has_converged(self, progress: "Progress") -> bool:
        since = progress.elapsed - progress.improved
        return progress.stale >= CONVERGED_VALIDATIONS and since >= CONVERGED_SHARE * self.left(progress)

    def has_overfitted(self, progress: "Progress", per_epoch: float) -> bool:
        """Return whether the validation loss is clearly rising.

        Within the first epoch, a rising loss is not overfitting: a high learning rate may cause it, and its decay may
        end it.
        """
        since = progress.elapsed - progress.improved
        return (
            progress.risen >= OVERFIT_VALIDATIONS
            and since >= OVERFIT_SHARE * self.left(progress)
            and progress.best_step >= per_epoch
        )

    def last_share(self, progress: "Progress", elapsed: float) -> float:
        """Return the share of the held-out rows that the last evaluation can use in the time left."""
        reserved = self.last_evaluation(progress)  # also after a resumed run was killed after its last update
        room = max(reserved, self.seconds - elapsed - self.report_seconds(progress))
        same, growing = self.evaluation_seconds(progress)
        return 1.0 if same + growing <= room else max(0.0, room - same) / growing

    def allows_doctor(self, progress: "Progress", elapsed: float) -> bool:
        """Return whether the doctor can check the model without making the command much longer."""
        return DOCTOR_UPDATES * progress.seconds / max(1, progress.step) <= max(REPORT_SECONDS, self.seconds - elapsed)


class Fit(NamedTuple):
    """The sample of each validation."""

    share: float
    """Share of the validation set."""
    growing: float
    """Share of a validation's time that grows with the sample."""


def fit_sample(
    measure: Callable[[float], float], count: int, max_share: float, seconds: float, min_count: int = MIN_EXAMPLES
) -> Fit:
    """Choose how many of `count` examples each validation evaluates: at least `min_count`, at most `max_share`.

    `measure` returns the seconds that an evaluation of a part takes. The sample grows until the next size would take
    far too long. Some of the time is the same for every sample, as translations are written token by token. The time
    beyond that may be `seconds`.
    """
    least = min_count / count
    share = min(max_share, least)
    if share >= 1:
        return Fit(1.0, 1.0)
    took = measure(share)
    if took > seconds:  # the first evaluation also loads code
        took = measure(share)
    each = took / share
    """Seconds for all examples, estimated from the additional ones."""
    while share < max_share and SAMPLE_GROWTH * share * each <= MAX_TRIAL_FACTOR * seconds:
        before, share_before = took, share
        share = min(max_share, SAMPLE_GROWTH * share)
        took = measure(share)
        each = max(0.0, took - before) / (share - share_before)
    fits = max_share if each * max_share <= seconds else seconds / each
    chosen = min(max_share, SAMPLE_GROWTH * share, max(least, fits))
    return Fit(chosen, min(1.0, max(MIN_GROWING, each * share / took if took > 0 else 1.0)))
