"""Continued training of a language model on other text: its learning rate, and how much of the old text it forgets."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

import torch
from torch import nn

from glassformer.config.errors import GlassformerError
from glassformer.config.json_types import JsonObject
from glassformer.config.messages import say
from glassformer.config.presets import reads_stream
from glassformer.config.resolve import Config
from glassformer.diagnosis.layers import training_loss
from glassformer.families.base import FAMILIES, Prepared
from glassformer.families.build import prepare_again
from glassformer.families.language import StreamFamily
from glassformer.finetuning.settings import usual_rate
from glassformer.reporting.reference_losses import unigram_entropy
from glassformer.runs.run import ForgettingCard, Run
from glassformer.tasks.language_model import WindowTask

FAMILIAR = 0.55
"""Share of the unigram entropy below which a start loss means that the model already knows such text."""
MAX_UNKNOWN = 0.01
"""Share of unknown tokens above which `train` warns of an unsuited tokenizer."""
SAMPLE_TOKENS = 2**13
"""Tokens of the old validation text on which forgetting is measured."""
MAX_OLD_TOKENS = 2**24
"""Maximum number of tokens in an old run's data for reading it again, which should take only seconds."""


def continued_run(config: Config, source: JsonObject | None) -> Run | None:
    """Return the run whose task, language modelling or masked language modelling, a training run continues.

    `source`: the card's entry about the run whose weights were copied; None if the model is new.
    """
    if source is None or not reads_stream(config.task) or source["task"] != config.task:
        return None
    return Run(Path(source["run"]))


@torch.no_grad()
def start_loss(model: nn.Module, prepared: Prepared) -> float | None:
    """Return the mean loss on some batches of the new training text before the first update."""
    model.eval()
    return training_loss(model, prepared.task)


def with_chosen_rate(config: Config, prepared: Prepared, name: str, loss: float) -> Config:
    """Return the configuration with the learning rate that suits how well the model knows the new text.

    It is the usual rate if the initial loss is not far below the unigram entropy of the text, because the model still
    has to learn most of it. `name`: the old run. `loss`: see `start_loss`.
    """
    unigram, training = unigram_entropy(prepared), config.training
    if unigram is None or training.lr is None:
        return config
    chosen = training if loss < FAMILIAR * unigram else replace(training, lr=usual_rate(training.lr))
    say(
        f"learning rate {chosen.lr:g}: at the start, the loss of {name} on the new text is {loss:.2f} "
        f"{prepared.task.unit}, and the unigram entropy of the text {unigram:.2f}; the usual rate is "
        f"{usual_rate(training.lr):g}, and a tenth of it changes the model less (--lr)"
    )
    return replace(config, training=chosen)


def warn_of_misfit(prepared: Prepared, name: str, loss: float) -> None:
    """Warn when a model trained without `--from` would probably be better. `loss`: see `start_loss`."""
    unigram, task = unigram_entropy(prepared), prepared.task
    assert isinstance(task, WindowTask)
    train = task.parts["train"]
    unknown = train.unknown / max(1, len(train))
    advice = "a model trained without --from, with a tokenizer made for this text, may be better"
    if unknown > MAX_UNKNOWN:
        say(f"warning: {unknown:.1%} of the new text's tokens are unknown to the tokenizer of {name}; {advice}")
    if unigram is not None and loss > unigram:
        losses = f"loss {loss:.2f}, unigram entropy {unigram:.2f}"
        say(f"warning: {name} predicts the new text worse than token frequencies do ({losses}); {advice}")


@dataclass(frozen=True)
class OldText:
    """A sample of the validation text of the run that a training run continues."""

    task: WindowTask
    windows: int

    @classmethod
    def of(cls, run: Run, new: Prepared, config: Config) -> Self | None:
        """Return the sample; if the old text cannot be read in a few seconds, report the reason and return None.

        `new`, `config`: those of the new run. The sample uses its tokenizer, context length and masking.
        """
        try:
            return cls._read(Run.open(run.path), new, config)
        except (GlassformerError, OSError) as error:
            say(f"forgetting is not measured: {error}")
            return None

    @classmethod
    def _read(cls, run: Run, new: Prepared, config: Config) -> Self:
        tokens = run.card().get("data", {}).get("tokens", {})
        if sum(tokens.values()) > MAX_OLD_TOKENS:
            raise GlassformerError(f"{run.path} has too much data to read again ({sum(tokens.values()):,} tokens)")
        prepared = prepare_again(run)
        old, family = prepared.task, FAMILIES[config.task]
        assert isinstance(family, StreamFamily)
        tokenizer = prepared.tokenizer
        assert new.tokenizer is not None
        if not isinstance(old, WindowTask) or tokenizer is None or tokenizer.hash != new.tokenizer.hash:
            raise GlassformerError(f"{run.path} is not the run that was continued: its task or tokenizer changed")
        if "validation" not in old.parts:
            raise GlassformerError(f"{run.path} has no validation text")
        parts = {"validation": old.parts["validation"]}
        task = family.task_on(config, parts, tokenizer, config.model.context)
        task = task.sample(SAMPLE_TOKENS / len(parts["validation"]))
        windows = task.record_count("validation")
        return cls(task, windows if task.share >= 1 else max(1, round(task.share * windows)))

    @torch.no_grad()
    def loss(self, model: nn.Module) -> float:
        """Return the mean loss of a model on the sample."""
        return self.task.evaluate(model.eval(), "validation").metrics["loss"]

    def before(self, model: nn.Module) -> ForgettingCard:
        """Return the fields of a card that are known before the first update."""
        return {"before": self.loss(model), "unit": self.task.unit, "windows": self.windows}


def with_loss_after(source: JsonObject, after: float) -> JsonObject:
    """Return the card's entry for the old run, with the loss on its validation text after the training run."""
    return {**source, "forgetting": {**source["forgetting"], "after": after}}
