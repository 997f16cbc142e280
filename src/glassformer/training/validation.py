"""Validations on the way: when one is due, on how much, which weights are kept, and when it is enough."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from glassformer.config.units import duration
from glassformer.data.wording import counted
from glassformer.tasks.base import Among, Evaluation, Task
from glassformer.training.budget import EACH, FEWEST, RISE, fit_sample
from glassformer.training.events import Validated
from glassformer.training.step import TrainingContext


@dataclass
class Validator(TrainingContext):
    """Judges a model as it is trained, and keeps the best weights."""

    last: float = 0.0
    """How much of the training was done at the last validation."""
    took: float = 0.0
    """Seconds of the last validation."""
    sampled: Task | None = None
    """The task on the sample that was judged last: what was computed once of its examples stays with it."""

    def __post_init__(self) -> None:
        self.task = self.task.among(Among(self.processes.rank, self.processes.world))

    def due(self, before: float, done: float) -> bool:
        """Every so many updates, or when a tenth of the budget is through; of minutes, as often as these allow.

        `before`, `done`: how much of the training was done before the last update, and after it.
        """
        if self.settings.validate_every:
            return self.progress.step % self.settings.validate_every == 0
        if self.budget is not None:
            return self.budget.validation_due(self.progress, self.last, done, self.task.steps_per_epoch)
        return int(10 * before) < int(10 * done)

    def fit_sample(self) -> float:
        """With minutes, the part of what is held out that validations judge, found out at the first of them; gives the
        seconds that this took.
        """
        progress, task, began = self.progress, self.task, self.clock()
        if self.budget is None or progress.sample is not None or not task.validates:
            return 0.0
        count = task.record_count("validation")
        most = task.token_share("validation", self.settings.validation_tokens)
        self.model.eval()
        with self.average.in_use(), self.parallel.whole_weights():
            seconds = EACH * self.budget.left(progress)
            share, growing = fit_sample(self._seconds, count, most, seconds, max(FEWEST, task.min_sample))
        progress.sample, progress.growing = share, growing
        judged = max(1, round(progress.sample * count))
        if judged < count:
            self.say(f"each validation uses {judged:,} of {counted(count, task.record)}, to take a tenth of the time")
        return self.processes.from_first(self.clock() - began)

    def validate(self) -> str | None:
        """One validation; gives what is no longer finite, if so: the caller looks for the culprit in the trained
        weights.
        """
        if not self.task.validates:
            with self.average.in_use():
                self._keep(Evaluation({}, "", lower_is_better=True))
            return None
        self.model.eval()
        with self.average.in_use(), self.parallel.whole_weights():
            evaluation = self._evaluation()
            score = self.processes.from_first(evaluation.score)  # it is the first one's weights that are kept
            if not math.isfinite(score):
                return f"the validation {evaluation.primary} became {score} after step {self.progress.step}"
            self._judge(evaluation, score)
        return None

    def _evaluation(self) -> Evaluation:
        """Evaluate the validation set; with minutes, a sample of it that is the same each time."""
        began, task = self.clock(), self.task
        most: int | None = self.settings.validation_tokens
        if self.budget is not None:
            share, most = self.progress.sample or 1.0, None
            if self.sampled is None or self.sampled.share != share:
                self.sampled = task.sample(share)
            task = self.sampled
        evaluation = self._evaluate(task, most)
        self.took = self.processes.from_first(self.clock() - began)
        # features are computed at the first validation, and for the last evaluation of all
        self.progress.evaluating = max(self.took, self.progress.evaluating) if task.on_features else self.took
        return evaluation

    def _seconds_after(self) -> float:
        """Estimate the seconds of the evaluation of all held-out parts that follows the last step."""
        if self.budget is not None:
            return self.budget.reserve(self.progress)
        whole = self.took / self.task.token_share("validation", self.settings.validation_tokens)
        records = sum(self.task.record_count(part) for part in self.task.parts if part != "train")
        return whole * records / max(1, self.task.record_count("validation"))

    def _evaluate(self, task: Task, most: int | None) -> Evaluation:
        with self.precision.autocast():
            return task.evaluate(self.model, "validation", most=most)

    def _seconds(self, share: float) -> float:
        """Seconds that judging a part of what is held out takes."""
        began = self.clock()
        self._evaluate(self.task.sample(share), None)
        return self.processes.from_first(self.clock() - began)  # all go on with the same sample

    def _keep(self, evaluation: Evaluation) -> None:
        """The weights as they are, for the run."""
        weights = self.parallel.take_weights()
        self.processes.first_does(lambda: self.checkpointer.best(weights, evaluation, self.progress.step))

    def _judge(self, evaluation: Evaluation, score: float) -> None:
        """Keep these weights if they are the best so far or the last ones are wanted; count the others."""
        progress = self.progress
        loss = self.processes.from_first(evaluation.metrics.get("loss", score))
        lower = progress.best_loss is None or loss < progress.best_loss
        best = progress.best_score
        better = self.settings.keep == "last" or best is None or score < best
        noise = self._noise()
        better |= best is not None and lower and noise > 0 and score - best <= noise
        if better:
            # The best score, not that of the kept weights: otherwise it could fall a little at every validation.
            progress.best_score = score if best is None or self.settings.keep == "last" else min(score, best)
            progress.best_step, progress.since_best = progress.step, 0
            self._keep(evaluation)
        else:
            progress.since_best += 1
        progress.best_loss = loss if lower else progress.best_loss
        if better or lower:
            progress.stale, progress.improved = 0, progress.elapsed
        else:
            progress.stale += 1
        progress.risen = progress.risen + 1 if self._is_clearly_worse(score, loss) else 0
        self.listen(Validated(progress.step, evaluation, better, self._seconds_after()))

    def _noise(self) -> float:
        """Return the difference in scores that is not significant on so few records, so that the loss decides."""
        task = self.task
        share = self.progress.sample or task.token_share("validation", self.settings.validation_tokens)
        return task.noise * math.sqrt(task.min_sample / max(1.0, share * task.record_count("validation")))

    def _is_clearly_worse(self, score: float, loss: float) -> bool:
        """Return whether both the score and the loss are clearly worse than the best so far.

        The loss alone is not enough: a classifier's accuracy often improves while its loss rises.
        """
        pairs = ((score, self.progress.best_score), (loss, self.progress.best_loss))
        return all(best is not None and value > best + RISE * abs(best) for value, best in pairs)

    def last_task(self, parts: Sequence[str], elapsed: float, *, whole: bool) -> Task:
        """The task as it is judged at the end, on these parts: what fits into the time that is left of the minutes; or
        all of it, if it has to be `whole`.
        """
        budget, progress, task = self.budget, self.progress, self.task
        share = 1.0 if budget is None else budget.last_share(progress, self.processes.from_first(elapsed))
        if share >= 1 or budget is None:
            return task
        if whole:
            self.say(f"the last evaluation takes about {duration(sum(budget.evaluation_seconds(progress)))}")
            return task
        share = min(1.0, max(share, *(FEWEST / task.record_count(part) for part in parts)))
        self.say(f"the last evaluation uses a random {share:.0%} of the rows, to end in time; `evaluate` uses all")
        return task.sample(share)

    def had_enough(self) -> bool:
        """Return whether to stop early: after `patience` validations without a better one.

        With minutes and no patience, stop once the model overfits or has converged.
        """
        progress, patience, reason = self.progress, self.settings.patience, ""
        if patience is not None:
            if progress.since_best >= patience:
                reason = f"no better in {counted(patience, 'validation')}"
        elif self.budget is not None and self.settings.keep != "last":
            if self.budget.has_overfitted(progress, self.task.steps_per_epoch):
                reason = f"overfitted: the validation loss has risen since step {progress.best_step}"
            elif self.budget.has_converged(progress):
                reason = f"converged: neither score nor loss improved in {progress.stale} validations"
        if reason:
            self.say(f"stopped early: {reason} (--training.patience N waits for N validations)")
        return bool(reason)
