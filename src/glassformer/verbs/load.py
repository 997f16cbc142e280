"""A trained model, ready for use."""

import os
from dataclasses import dataclass

from glassformer.config.resolve import Config
from glassformer.models.build import build_language_model, parameter_count
from glassformer.runs.run import Run
from glassformer.training.device import choose_device
from glassformer.verbs.write import Writer


@dataclass(frozen=True)
class Loaded(Writer):
    """A run's model, with everything that belongs to it."""

    run: Run
    config: Config

    @property
    def parameters(self) -> int:
        return parameter_count(self.model)

    def __repr__(self) -> str:
        settings = self.config.model
        return (
            f"{self.run.path}: {self.config.task}, {settings.encoder}, {settings.layers} layers, "
            f"width {settings.width}, {self.parameters:,} parameters, {self.tokenizer.vocab_size:,} tokens"
        )


def load(run: "str | os.PathLike[str] | Run", device: str = "auto") -> Loaded:
    """A run's best weights, its tokenizer and its settings; nothing outside the folder is needed."""
    run = run if isinstance(run, Run) else Run.open(run)
    config = run.config()
    tokenizer = run.tokenizer()
    model = build_language_model(config.model, vocab=tokenizer.vocab_size)
    run.load_weights(model)
    model.to(choose_device(device)).eval()
    return Loaded(model, tokenizer, run, config)
