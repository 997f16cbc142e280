"""A trained model, ready for use."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import overload

from torch import nn

from glassformer.config.errors import Misuse
from glassformer.config.presets import LANGUAGE_MODEL
from glassformer.config.resolve import Config
from glassformer.config.say import Say, silent
from glassformer.models.build import parameter_count
from glassformer.models.language_model import LanguageModel
from glassformer.runs.run import CARD, Run
from glassformer.tasks.answers import Answers, read_answers
from glassformer.text.tokenizer import Tokenizer
from glassformer.training.device import choose_device
from glassformer.verbs.build import OwnModel, build_model
from glassformer.verbs.embed import Embedded, embed
from glassformer.verbs.predict import Prediction, predict
from glassformer.verbs.write import Writer


@dataclass(frozen=True, repr=False)
class Loaded:
    """A run's model, with everything that belongs to it."""

    model: nn.Module
    tokenizer: Tokenizer
    run: Run
    config: Config

    @property
    def parameters(self) -> int:
        return parameter_count(self.model)

    @overload
    def embed(self, texts: str, *, tokens: bool = False) -> Embedded: ...  # type: ignore[overload-overlap]
    @overload
    def embed(self, texts: Sequence[str], *, tokens: bool = False) -> list[Embedded]: ...
    def embed(self, texts: str | Sequence[str], *, tokens: bool = False) -> Embedded | list[Embedded]:
        """The vector of a text, or of each of several; and of their tokens, if asked for."""
        if isinstance(texts, str):
            return self.embed([texts], tokens=tokens)[0]
        return embed(self.model, self.tokenizer, self.config, texts, tokens=tokens)

    def __repr__(self) -> str:
        name = self.config.model.encoder
        return f"{self.run.path}: {self.config.task}, {name}, {self.parameters:,} parameters, {self.tokenizer!r}"


@dataclass(frozen=True, repr=False)
class LoadedWriter(Writer, Loaded):
    """A language model: it writes."""


@dataclass(frozen=True, repr=False)
class LoadedPredictor(Loaded):
    """A classifier or regressor: it predicts."""

    answers: Answers

    @overload
    def predict(self, texts: str, *, say: Say = silent) -> Prediction: ...  # type: ignore[overload-overlap]
    @overload
    def predict(self, texts: Sequence[str], *, say: Say = silent) -> list[Prediction]: ...
    def predict(self, texts: str | Sequence[str], *, say: Say = silent) -> Prediction | list[Prediction]:
        """What the model says of a text, or of each of several."""
        if isinstance(texts, str):
            return self.predict([texts], say=say)[0]
        return predict(self.model, self.tokenizer, self.answers, self.config, texts, say)


def load(
    run: "str | os.PathLike[str] | Run", device: str = "auto", *, model: OwnModel | None = None
) -> LoadedWriter | LoadedPredictor:
    """A run's best weights, its tokenizer and its settings; nothing outside the folder is needed.

    But for a run of a person's own `model`, which must be given again.
    """
    run = run if isinstance(run, Run) else Run.open(run)
    config = run.config()
    tokenizer = run.tokenizer()
    answers = None
    if config.task != LANGUAGE_MODEL:
        answers = read_answers(run.card().get("labels"), config.training.loss, str(run.path / CARD))
    built = build_model(config, vocab=tokenizer.vocab_size, answers=answers, own=model)
    run.load_weights(built)
    built.to(choose_device(device)).eval()
    if answers is None:
        assert isinstance(built, LanguageModel)
        return LoadedWriter(built, tokenizer, run, config)
    return LoadedPredictor(built, tokenizer, run, config, answers)


def load_writer(run: "str | os.PathLike[str] | Run", device: str = "auto") -> LoadedWriter:
    """A run that writes, or one line that says what this one does."""
    loaded = load(run, device)
    if not isinstance(loaded, LoadedWriter):
        raise Misuse(f"{loaded.run.path} learned {loaded.config.task}, not to write: glassformer predict {run} TEXT")
    return loaded
