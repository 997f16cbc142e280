"""Remedies for findings, chosen from the settings of the run, and facts known before training starts.

Settings that are already set or have no effect are omitted.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from glassformer.config.presets import SIZES
from glassformer.config.resolve import Config, resolve
from glassformer.config.sections import TrainingSettings
from glassformer.config.sentences import sentence, sentences
from glassformer.config.setting import value_text
from glassformer.families.base import FAMILIES, Family
from glassformer.finetuning.settings import FREE, FURTHER, finetuning_rate
from glassformer.training.events import Finding, lower_rate

DROPOUT_STEPS = (0.1, 0.2, 0.3, 0.5)
"""Values of dropout to try in order; higher ones seldom help."""
USUAL_GRAD_CLIP = 1.0
"""Usual limit of the gradient norm."""
MIN_IMBALANCE = 1.5
"""Minimum ratio of the largest to the smallest class at which class weights have an effect."""
MIN_WIDTH = 16


Findings = Iterator[Finding | None]
"""Results of checks; None if a check has nothing to report."""


def joined(*parts: str | None) -> str:
    """Join the parts that are not empty."""
    return ", ".join(part for part in parts if part)


def finding(
    advise: "Advice",
    key: str,
    severity: str,
    numbers: Mapping[str, Any],
    *,
    try_first: str | None = None,
    **facts: object,
) -> Finding:
    """Return a finding with the sentence `key` filled from `numbers`, which the log keeps, and other `facts`.

    Its kind is the key up to a colon. Its advice is `try_first` and the remedies for `key`. The doctor adds the step.
    """
    words = sentence(__name__, key, **{**numbers, **facts})
    return Finding(key.partition(":")[0], 0, severity, words, joined(try_first, advise.remedies(key)), numbers)


@dataclass(frozen=True)
class Advice:
    """Remedies for a run with these settings: flags with values, or None if no change would help."""

    config: Config
    new: Sequence[str] = ()
    """New parts of a model that is initialised from another run."""

    def remedies(self, key: str) -> str:
        """Return the remedies for the finding `key` that would change something in this run.

        An entry of the list in sentences.toml is a setting with its value, the name of a remedy, a setting to halve, or
        words.
        """
        lists: Any = sentences(__name__)["advice"]
        entries: Sequence[str] = lists.get(key) or lists.get(key.partition(":")[0], ())
        return joined(*map(self._remedy, entries))

    def _remedy(self, entry: str) -> str | None:
        if entry in REMEDIES:
            return REMEDIES[entry](self)
        name, _, value = entry.removeprefix("--").partition(" ")
        if entry.startswith("--"):
            return self.put(name, value)
        return self.fewer(value) if name == "halve" else entry

    @property
    def usual(self) -> float:
        """The default learning rate for this task, model and optimiser."""
        config, family = self.config, FAMILIES[self.config.task]
        if config.is_finetuned and not family.reads_stream and config.training.optimizer in ("adamw", "muon"):
            whole = not family.has_decoder or not self.new
            return finetuning_rate(config.get("task"), config.model.width, config.training.last_blocks, whole=whole)
        stacks = {"model.encoder": config.model.encoder, "model.decoder": config.model.decoder}
        chosen = {key: name for key, name in stacks.items() if name is not None and config.idle(key) is None}
        usual = resolve(chosen, {}, {"task": config.task, "data.kind": config.data.kind}, strict=False).training
        if usual.optimizer != config.training.optimizer:
            usual = TrainingSettings.complete({**vars(config.training), "lr": None})
        assert usual.lr is not None
        return FURTHER * usual.lr if config.is_finetuned else usual.lr

    @property
    def rate(self) -> float:
        return self.config.training.lr or 0.0

    def put(self, key: str, value: str) -> str | None:
        """Return the flag that sets a value; None if it is set already or has no effect.

        The body of a model that was initialised from another run cannot change.
        """
        section, name = key.split(".")
        body = self.config.is_finetuned and section == "model" and name not in FREE
        if body or self.config.idle(key) is not None or value_text(self.config.get(key)) == value:
            return None
        return f"--{key} {value}"

    def fewer(self, key: str) -> str | None:
        """Return the flag that halves a count, such as the number of layers; None if it cannot be halved."""
        count = self.config.get(key)
        return self.put(key, str(count // 2)) if isinstance(count, int) and count > 1 else None

    # --- the rate ---

    def lower_rate(self) -> str:
        return f"--lr {lower_rate(self.rate, self.usual):.1g}"

    def higher_rate(self) -> str:
        """Return a rate ten times as high, and at least the default."""
        return f"--lr {max(10 * self.rate, self.usual):.1g}"

    def another_rate(self) -> str:
        """Return a lower and a higher rate; the default if the present rate is far from it."""
        usual = self.usual
        if not usual / 10 < self.rate < usual * 10:
            return f"the usual rate (--lr {usual:.1g})"
        return f"a rate ten times lower, then ten times higher (--lr {self.rate / 10:.1g}, --lr {self.rate * 10:.1g})"

    def warmup(self) -> str | None:
        """Return a warm-up of twice as many updates, but at most a tenth of the run; None if that is not longer."""
        settings = self.config.training
        longer = max(100, 2 * settings.warmup)
        longer = longer if settings.steps is None else min(longer, settings.steps // 10)
        return f"--training.warmup {longer}" if longer > settings.warmup else None

    def clip(self) -> str | None:
        limit = self.config.training.grad_clip
        return f"--training.grad_clip {USUAL_GRAD_CLIP:g}" if limit is None or limit > USUAL_GRAD_CLIP else None

    # --- the model ---

    def norm(self) -> str | None:
        """Return a norm if the model has none."""
        return self.put("model.norm", "rms") if self.config.get("model.norm") == "none" else None

    def positions(self) -> str | None:
        """Return a kind of positions if the model cannot see the order of tokens."""
        rotary = self.put("model.positions", "rotary") if self.config.get("model.positions") == "none" else None
        return rotary and f"positions, since the order of tokens is not seen ({rotary})"

    def attention(self) -> str | None:
        """Return a kind of attention for a decoder that sees only a summary of its source."""
        return self.put("model.attention", "additive") if self.config.get("model.attention") == "none" else None

    def gated(self) -> str | None:
        return "--model lstm" if self.config.model.encoder == "rnn" and not self.config.is_finetuned else None

    def dropout(self) -> str | None:
        higher = next((step for step in DROPOUT_STEPS if step > self.config.model.dropout), None)
        return None if higher is None else self.put("model.dropout", value_text(higher))

    def smaller(self) -> str | None:
        """Return the next smaller size, or half the width; None if the model cannot be smaller."""
        config, model = self.config, self.config.model
        if config.is_finetuned:
            return None
        names = list(SIZES)[1:]  # the smallest size is for inspecting its numbers, not for training
        if model.size is not None and config.idle("model.size") is None:
            return f"--size {names[names.index(model.size) - 1]}" if model.size in names[1:] else None
        divisible = model.width >= 2 * MIN_WIDTH and not model.width % (4 * (config.get("model.heads") or 4))
        if config.idle("model.width") is None and divisible:
            return self.fewer("model.width")
        return self.fewer("model.head_hidden") if (model.head_hidden or 0) >= 2 * MIN_WIDTH else None

    # --- length of training ---

    def more_blocks(self) -> str | None:
        """Return one more trained block for a fine-tuned model; None if all blocks are trained."""
        blocks = self.config.training.last_blocks
        if blocks is None:
            return None
        return f"more blocks that learn (--training.last_blocks {blocks + 1}, or without it)"

    def longer(self) -> str:
        flag, budget = self._budget()
        return f"a longer training run ({flag} {2 * budget:g})"

    def shorter(self) -> str | None:
        flag, budget = self._budget()
        return f"{flag} {max(1, budget // 2) if flag == '--steps' else budget / 2:g}" if budget > 1 else None

    def _budget(self) -> tuple[str, float]:
        budgets = ((name, getattr(self.config.training, name)) for name in ("epochs", "minutes", "steps"))
        return next((f"--{name}", budget) for name, budget in budgets if budget is not None)

    # --- data ---

    def balanced(self, counts: list[int]) -> str | None:
        """Return class weights if classes of these sizes are uneven and have no weights yet."""
        sizes = [count for count in counts if count]
        if self.config.training.class_weights is not None or not sizes or max(sizes) < MIN_IMBALANCE * min(sizes):
            return None
        return self.put("training.class_weights", "balanced")


REMEDIES: Mapping[str, Callable[[Advice], str | None]] = {
    remedy.__name__: remedy
    for remedy in (
        Advice.another_rate, Advice.attention, Advice.clip, Advice.dropout, Advice.gated,
        Advice.higher_rate, Advice.longer, Advice.lower_rate, Advice.more_blocks, Advice.norm,
        Advice.positions, Advice.shorter, Advice.smaller, Advice.warmup,
    )
}  # fmt: skip
"""Remedies that depend on the settings, by the names that sentences.toml uses."""


@dataclass(frozen=True)
class TrainingFacts:
    """Facts about a training run that are known before its first step."""

    family: Family
    advise: Advice
    guessing: float | None
    """Loss of guessing; None if unknown."""
    guess: str
    """Description of the guess."""
    steps_per_epoch: float = 0.0
    """Updates per epoch; 0 if unknown."""

    @property
    def judges_first(self) -> bool:
        """Whether the first loss can be compared with that of guessing.

        It cannot with class weights, or if the model was initialised from another run.
        """
        config = self.advise.config
        return self.guessing is not None and config.training.class_weights is None and not config.is_finetuned


def training_facts(config: Config, card: Mapping[str, Any]) -> TrainingFacts:
    family, advise = FAMILIES[config.task], Advice(config, card.get("from", {}).get("new", ()))
    return TrainingFacts(family, advise, *family.chance_level(config, card), card.get("steps_per_epoch") or 0.0)
