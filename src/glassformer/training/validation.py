"""Validations during training: when one is due, on how many examples, which weights to keep, and when to stop."""

import math
from collections.abc import Sequence

from glassformer.config.units import duration
from glassformer.data.wording import counted
from glassformer.tasks.base import Among, Evaluation, Task
from glassformer.training.budget import (
    MIN_EXAMPLES,
    OVERFIT_MARGIN,
    VALIDATION_SHARE,
    fit_sample,
)
from glassformer.training.context import TrainingContext
from glassformer.training.events import Validated


class Validator:
    """The validations of a training run, which select the weights to keep."""

    def __init__(self, context: TrainingContext) -> None:
        self.context, self.processes = context, context.options.processes
        self.task = context.task.among(Among(self.processes.rank, self.processes.world))
        self.last_done = 0.0
        """Part of the training run that was done at the last validation."""
        self.seconds = 0.0
        """Seconds of the last validation."""
        self.sampled: Task | None = None
        """The task on the sample of the last validation, which caches what it computed of its examples."""

    def due(self, before: float, done: float) -> bool:
        """Return whether to validate now.

        A validation is due every `validate_every` updates, or else at each tenth of the run; with minutes, as often as
        the budget allows. `before`, `done`: parts of the run that were done before and after the last update.
        """
        settings, progress, budget = self.context.settings, self.context.progress, self.context.budget
        if settings.validate_every:
            return progress.step % settings.validate_every == 0
        if budget is not None:
            return budget.validation_due(progress, self.last_done, done, self.task.steps_per_epoch)
        return int(10 * before) < int(10 * done)

    def fit_sample(self) -> float:
        """Choose the share of the validation set that fits into the minutes; return the seconds that this took.

        Return 0 if there is no budget of minutes, or if the share was chosen already: all validations use the same one.
        """
        context, task, clock = self.context, self.task, self.context.options.clock
        progress, budget, began = context.progress, context.budget, clock()
        if budget is None or progress.sample is not None or not task.validates:
            return 0.0
        count = task.record_count("validation")
        max_share = task.token_share("validation", context.settings.validation_tokens)
        context.model.eval()
        with context.average.in_use(), context.parallel.whole_weights():
            seconds = VALIDATION_SHARE * budget.left(progress)
            fit = fit_sample(self._seconds_of, count, max_share, seconds, max(MIN_EXAMPLES, task.min_sample))
        progress.sample, progress.growing = fit
        sampled = max(1, round(progress.sample * count))
        if sampled < count:
            context.say(
                f"each validation uses {sampled:,} of {counted(count, task.record)}, to take a tenth of the time"
            )
        return self.processes.from_first(clock() - began)

    def validate(self) -> str | None:
        """Evaluate the model and keep its weights if they are the best.

        Returns a message if the score is not finite, so that the caller can search the trained weights for the cause.
        """
        context = self.context
        if not self.task.validates:
            with context.average.in_use():
                self._keep(Evaluation({}, "", lower_is_better=True))
            return None
        context.model.eval()
        with context.average.in_use(), context.parallel.whole_weights():
            evaluation = self._evaluation()
            score = self.processes.from_first(evaluation.score)  # the first process decides which weights to keep
            if not math.isfinite(score):
                return f"the validation {evaluation.primary} became {score} after step {context.progress.step}"
            self._compare(evaluation, score)
        return None

    def _evaluation(self) -> Evaluation:
        """Evaluate the validation set; with minutes, a sample of it that is the same each time."""
        progress, clock, task = self.context.progress, self.context.options.clock, self.task
        began = clock()
        max_tokens: int | None = self.context.settings.validation_tokens
        if self.context.budget is not None:
            share, max_tokens = progress.sample or 1.0, None
            if self.sampled is None or self.sampled.share != share:
                self.sampled = task.sample(share)
            task = self.sampled
        evaluation = self._evaluate(task, max_tokens)
        self.seconds = self.processes.from_first(clock() - began)
        # features are computed at the first validation, and again for the last evaluation
        progress.evaluating = max(self.seconds, progress.evaluating) if task.on_features else self.seconds
        return evaluation

    def _seconds_after(self) -> float:
        """Estimate the seconds of the evaluation of all held-out parts that follows the last step."""
        context, task = self.context, self.task
        if context.budget is not None:
            return context.budget.reserve(context.progress)
        whole = self.seconds / task.token_share("validation", context.settings.validation_tokens)
        records = sum(task.record_count(part) for part in task.parts if part != "train")
        return whole * records / max(1, task.record_count("validation"))

    def _evaluate(self, task: Task, max_tokens: int | None) -> Evaluation:
        with self.context.precision.autocast():
            return task.evaluate(self.context.model, "validation", most=max_tokens)

    def _seconds_of(self, share: float) -> float:
        """Measure the seconds that the evaluation of a share of the validation set takes."""
        clock = self.context.options.clock
        began = clock()
        self._evaluate(self.task.sample(share), None)
        return self.processes.from_first(clock() - began)  # all processes must choose the same sample

    def _keep(self, evaluation: Evaluation) -> None:
        """Store the current weights as those of the run."""
        weights, checkpointer = self.context.parallel.take_weights(), self.context.options.checkpointer
        self.processes.first_does(lambda: checkpointer.best(weights, evaluation, self.context.progress.step))

    def _compare(self, evaluation: Evaluation, score: float) -> None:
        """Keep the weights if they are the best so far or the last ones are wanted, and count validations."""
        progress, keeps_last = self.context.progress, self.context.settings.keep == "last"
        loss = self.processes.from_first(evaluation.metrics.get("loss", score))
        lower = progress.best_loss is None or loss < progress.best_loss
        best = progress.best_score
        better = keeps_last or best is None or score < best
        noise = self._noise()
        better |= best is not None and lower and noise > 0 and score - best <= noise
        if better:
            # The best score, not that of the kept weights: otherwise it could fall a little at every validation.
            progress.best_score = score if best is None or keeps_last else min(score, best)
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
        self.context.options.listen(Validated(progress.step, evaluation, better, self._seconds_after()))

    def _noise(self) -> float:
        """Return the difference in scores that is not significant on so few records, so that the loss decides."""
        task, settings = self.task, self.context.settings
        share = self.context.progress.sample or task.token_share("validation", settings.validation_tokens)
        return task.noise * math.sqrt(task.min_sample / max(1.0, share * task.record_count("validation")))

    def _is_clearly_worse(self, score: float, loss: float) -> bool:
        """Return whether both the score and the loss are clearly worse than the best so far.

        The loss alone is not enough: a classifier's accuracy often improves while its loss rises.
        """
        progress = self.context.progress
        pairs = ((score, progress.best_score), (loss, progress.best_loss))
        return all(best is not None and value > best + OVERFIT_MARGIN * abs(best) for value, best in pairs)

    def last_task(self, parts: Sequence[str], elapsed: float, *, whole: bool) -> Task:
        """Return the task for the last evaluation of `parts`.

        It uses a sample if the complete parts do not fit into the minutes left, unless `whole`.
        """
        budget, progress, task = self.context.budget, self.context.progress, self.task
        share = 1.0 if budget is None else budget.last_share(progress, self.processes.from_first(elapsed))
        if share >= 1 or budget is None:
            return task
        if whole:
            self.context.say(f"the last evaluation takes about {duration(sum(budget.evaluation_seconds(progress)))}")
            return task
        share = min(1.0, max(share, *(MIN_EXAMPLES / task.record_count(part) for part in parts)))
        self.context.say(
            f"the last evaluation uses a random {share:.0%} of the rows, to end in time; `evaluate` uses all"
        )
        return task.sample(share)

    def had_enough(self) -> bool:
        """Return whether to stop early: after `patience` validations without a better one.

        With minutes and no patience, stop once the model overfits or has converged.
        """
        progress, settings, budget, reason = self.context.progress, self.context.settings, self.context.budget, ""
        if settings.patience is not None:
            if progress.since_best >= settings.patience:
                reason = f"no better in {counted(settings.patience, 'validation')}"
        elif budget is not None and settings.keep != "last":
            if budget.has_overfitted(progress, self.task.steps_per_epoch):
                reason = f"overfitted: the validation loss has risen since step {progress.best_step}"
            elif budget.has_converged(progress):
                reason = f"converged: neither score nor loss improved in {progress.stale} validations"
        if reason:
            self.context.say(f"stopped early: {reason} (--training.patience N waits for N validations)")
        return bool(reason)
