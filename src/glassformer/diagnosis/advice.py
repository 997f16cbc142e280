"""The facts of a training that stand before it begins, and what to try, from where its settings stand: what is set
already, or does nothing here, is not advised.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from glassformer.config.presets import SIZES
from glassformer.config.resolve import Config, resolve
from glassformer.config.sentences import sentence
from glassformer.config.setting import value_text
from glassformer.families.base import FAMILIES, Family
from glassformer.finetuning.settings import FREE, FURTHER, finetuning_rate
from glassformer.training.events import Finding, lower_rate

DROPOUTS = (0.1, 0.2, 0.3, 0.5)
"""The steps of dropout; beyond the last, more of it seldom helps."""
CLIP, DECAY, PATIENCE = 1.0, 0.1, 3
"""Where these three usually stand."""
UNEVEN = 1.5
"""Times the smallest class that the largest must be, for weights of classes to change anything."""
FEW_ROWS = 2000
"""Rows in all, below which folds make more of them than a larger validation part does."""
LARGE_VOCABULARY = 100_000
"""Tokens beyond which a vocabulary is not made larger: rare words are better cut, or counted from the first."""
MOST_HELD = 0.3
"""The largest share of the rows for validation."""
LEAST_WIDTH = 16


def joined(*parts: str | None) -> str:
    """Join several things to try, without those that do not apply."""
    return ", ".join(part for part in parts if part)


def finding(key: str, severity: str, advice: str, numbers: Mapping[str, Any], **facts: object) -> Finding:
    """Return a finding with the sentence `key` filled from `numbers`, which the log keeps, and other `facts`.

    Its kind is the key up to a colon. The doctor adds the step.
    """
    words = sentence(__name__, key, **{**numbers, **facts})
    return Finding(key.partition(":")[0], 0, severity, words, advice, numbers)


@dataclass(frozen=True)
class Advice:
    """Each method names flags with the value to try, or nothing where there is nothing to change."""

    config: Config
    new: Sequence[str] = ()
    """What a model that begins from another run has beside what was taken."""

    @property
    def usual(self) -> float:
        """Where the learning rate starts for this task, model and optimiser, if nobody sets it."""
        config, family = self.config, FAMILIES[self.config.task]
        if config.is_finetuned and not family.reads_stream and config.training.optimizer in ("adamw", "muon"):
            whole = not family.has_decoder or not self.new
            return finetuning_rate(config.get("task"), config.model.width, config.training.last_blocks, whole=whole)
        stacks = {"model.encoder": config.model.encoder, "model.decoder": config.model.decoder}
        chosen = {key: name for key, name in stacks.items() if name is not None and config.idle(key) is None}
        usual = resolve(chosen, {}, {"task": config.task, "data.kind": config.data.kind}, strict=False).training
        if usual.optimizer != config.training.optimizer:
            usual = replace(config.training, lr=None)
        assert usual.lr is not None
        return FURTHER * usual.lr if config.is_finetuned else usual.lr

    @property
    def rate(self) -> float:
        return self.config.training.lr or 0.0

    def put(self, key: str, value: Any) -> str | None:
        """A setting that should have a value, and has another. A body that was taken from another run stays."""
        section, name = key.split(".")
        body = self.config.is_finetuned and section == "model" and name not in FREE
        if body or self.config.idle(key) is not None or self.config.get(key) == value:
            return None
        return f"--{key} {value_text(value)}"

    # --- the rate ---

    def lower_rate(self) -> str:
        return f"--lr {lower_rate(self.rate, self.usual):.1g}"

    def higher_rate(self) -> str:
        """Ten times as high; from far below, the usual one."""
        return f"--lr {max(10 * self.rate, self.usual):.1g}"

    def another_rate(self) -> str:
        """Where nobody knows whether it is too high or too low; from far off, the usual one."""
        usual = self.usual
        if not usual / 10 < self.rate < usual * 10:
            return f"the usual rate (--lr {usual:.1g})"
        return f"a rate ten times lower, then ten times higher (--lr {self.rate / 10:.1g}, --lr {self.rate * 10:.1g})"

    def warmup(self) -> str | None:
        """Twice as long; it never takes more than a tenth of the run."""
        settings = self.config.training
        longer = max(100, 2 * settings.warmup)
        longer = longer if settings.steps is None else min(longer, settings.steps // 10)
        return f"--training.warmup {longer}" if longer > settings.warmup else None

    def clip(self) -> str | None:
        limit = self.config.training.grad_clip
        return f"--training.grad_clip {CLIP:g}" if limit is None or limit > CLIP else None

    # --- the model ---

    def norm(self) -> str | None:
        """A norm, where there is none."""
        return self.put("model.norm", "rms") if self.config.model.norm == "none" else None

    def positions(self) -> str | None:
        """Positions, where the order of tokens cannot be seen: no training makes up for it."""
        rotary = self.put("model.positions", "rotary") if self.config.model.positions == "none" else None
        return rotary and f"positions, since the order of tokens is not seen ({rotary})"

    def read_source(self) -> str:
        """Against a translator that does not read its source."""
        blind = self.config.model.attention == "none"  # a decoder that sees only a summary of its source
        attention = self.put("model.attention", "additive") if blind else None
        return joined(self.positions(), f"a longer training ({self.longer()})", self.lower_rate(), attention)

    # --- less by heart ---

    def dropout(self) -> str | None:
        higher = next((step for step in DROPOUTS if step > self.config.model.dropout), None)
        return None if higher is None else self.put("model.dropout", higher)

    def decay(self) -> str | None:
        return f"--training.weight_decay {DECAY}" if self.config.training.weight_decay < DECAY else None

    def patience(self) -> str | None:
        settings = self.config.training
        return f"--training.patience {PATIENCE}" if settings.patience is None and settings.keep == "best" else None

    def smaller(self) -> str | None:
        """A size below the one that was named; else half the width."""
        config, model = self.config, self.config.model
        if config.is_finetuned:  # its body is what it is
            return None
        names = list(SIZES)[1:]  # the smallest is for reading its numbers, not for learning
        if model.size is not None and config.idle("model.size") is None:
            return f"--size {names[names.index(model.size) - 1]}" if model.size in names[1:] else None
        divisible = model.width >= 2 * LEAST_WIDTH and not model.width % (4 * model.heads)
        if config.idle("model.width") is None and divisible:
            return f"--model.width {model.width // 2}"
        hidden = model.head_hidden or 0
        return self.put("model.head_hidden", hidden // 2) if hidden >= 2 * LEAST_WIDTH else None

    def fewer(self, key: str) -> str | None:
        """Half as many, of layers and the like; where there is one, none fewer."""
        count = self.config.get(key)
        return self.put(key, count // 2) if isinstance(count, int) and count > 1 else None

    def by_heart(self) -> str:
        """Against learning by heart, all that there is."""
        return joined(self.dropout(), self.decay(), self.patience(), self.shorter(), self.smaller(), "more data")

    # --- how long ---

    def more_blocks(self) -> str | None:
        """Where a part of the model was left as it came."""
        blocks = self.config.training.last_blocks
        return (
            None if blocks is None else f"more blocks that learn (--training.last_blocks {blocks + 1}, or without it)"
        )

    def longer(self) -> str:
        flag, budget = self._budget()
        return f"{flag} {2 * budget:g}"

    def shorter(self) -> str | None:
        flag, budget = self._budget()
        return f"{flag} {max(1, budget // 2) if flag == '--steps' else budget / 2:g}" if budget > 1 else None

    def _budget(self) -> tuple[str, float]:
        budgets = ((name, getattr(self.config.training, name)) for name in ("epochs", "minutes", "steps"))
        return next((f"--{name}", budget) for name, budget in budgets if budget is not None)

    # --- data ---

    def right_data(self) -> str:
        """What to look at, where nothing is learned."""
        family = FAMILIES[self.config.task]
        if family.labels_examples:
            what = "labels belong to their examples"
        else:
            what = "targets belong to their sources" if family.has_decoder else "the text is the one you mean"
        return f"whether {what} (glassformer data show)"

    def balanced(self, counts: list[int]) -> str | None:
        """Weights for classes of these sizes."""
        there = [count for count in counts if count]
        if self.config.training.class_weights is not None or not there or max(there) < UNEVEN * min(there):
            return None
        return self.put("training.class_weights", "balanced")

    def more_held_out(self, rows: int | None) -> str:
        """What tells scores apart, with so many rows in all; None: nobody knows how many."""
        data, compared = self.config.data, "compare over several seeds (glassformer compare)"
        if data.folds is not None:
            return "judge by all folds together (train --folds)"
        if data.validation is not None:
            return f"a larger file for --validation, or {compared}"
        if FAMILIES[self.config.task].labels_examples and rows is not None and rows < FEW_ROWS:
            return "cross-validation, which judges every row once: train --folds 5"
        if data.validation_fraction >= MOST_HELD:
            return f"more data, or {compared}"
        more = min(MOST_HELD, 2 * data.validation_fraction)
        return f"hold out more (--data.validation_fraction {more:.2g}), or {compared}"

    def known_tokens(self, vocab: int) -> str:
        """Against unknown tokens, where so many were learned: fewer than there may be, and more room is of no use."""
        size = self.config.tokenizer.vocab_size
        useless = size is None or vocab < size or size > LARGE_VOCABULARY
        larger = None if size is None or useless else self.put("tokenizer.vocab_size", 2 * size)
        bpe = self.put("tokenizer.kind", "bpe")
        knows = f"{bpe} (which knows every text)" if bpe else None
        return joined(knows, larger, self.put("tokenizer.min_count", 1)) or "more text to learn tokens from"


@dataclass(frozen=True)
class TrainingFacts:
    family: Family
    advise: Advice
    guessing: float | None
    """The loss of guessing; None: it is not known."""
    guess: str
    """How one guesses, in words."""
    steps_per_epoch: float = 0.0
    """Updates that go through the training data once; 0: it is not known."""

    @property
    def judges_first(self) -> bool:
        """The first loss can be set against that of guessing: no class weighs more than another in it, and the model
        did not start from what another run has learned.
        """
        config = self.advise.config
        return self.guessing is not None and config.training.class_weights is None and not config.is_finetuned


def training_facts(config: Config, card: Mapping[str, Any]) -> TrainingFacts:
    family, advise = FAMILIES[config.task], Advice(config, card.get("from", {}).get("new", ()))
    return TrainingFacts(family, advise, *family.chance_level(config, card), card.get("steps_per_epoch") or 0.0)
