"""A trained model, ready for use."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_args, overload

from torch import nn

from glassformer.config.errors import Misuse, NotThisRun, RunError
from glassformer.config.presets import LABELLING, TEXT, VECTORS
from glassformer.config.resolve import Config
from glassformer.config.say import Say, silent
from glassformer.data.features.build import read_features, text_features
from glassformer.data.features.inputs import Features
from glassformer.decoding.translate import Search
from glassformer.families.build import OwnModel, build_model
from glassformer.families.embed import Embedded, embed, embed_examples
from glassformer.families.fill import LIKELIEST, Filled, fill
from glassformer.families.generate import Writer
from glassformer.families.predict import Example, Prediction, predict
from glassformer.families.translate import Translation, translate_texts
from glassformer.models.build import parameter_count
from glassformer.models.language_model import LanguageModel
from glassformer.models.masked_model import MaskedLanguageModel
from glassformer.models.reader import TextReader
from glassformer.models.seq2seq import Seq2Seq
from glassformer.runs.run import CARD, CHAT_TEMPLATE, Run
from glassformer.tasks.answers import Answers, read_answers
from glassformer.text.tokenizer import Tokenizer
from glassformer.training.device import choose_device


@dataclass(frozen=True, repr=False)
class Loaded:
    """A run's model, with everything that belongs to it."""

    model: nn.Module
    tokenizer: Tokenizer | None
    """None where no words are read."""
    run: Run
    config: Config
    features: Features | None
    """How an example becomes what is read, where something is said of it."""

    @property
    def parameters(self) -> int:
        return parameter_count(self.model)

    @overload
    def embed(self, texts: str | Mapping[str, Any], *, tokens: bool = False) -> Embedded: ...  # type: ignore[overload-overlap]
    @overload
    def embed(self, texts: Sequence[Example], *, tokens: bool = False) -> list[Embedded]: ...
    def embed(self, texts: Example | Sequence[Example], *, tokens: bool = False) -> Embedded | list[Embedded]:
        """The vector of an example, or of each of several; and of a text's tokens, if asked for."""
        if isinstance(texts, str | Mapping):
            return self.embed([texts], tokens=tokens)[0]
        if self.features is not None and self.config.data.kind != TEXT:
            if tokens:
                raise Misuse(f"{self.run.path} reads more than texts: it has a vector for each example, not for tokens")
            return embed_examples(self.model, self.features, self.config, texts)
        assert self.tokenizer is not None
        return embed(self.model, self.tokenizer, self.config, [str(text) for text in texts], tokens=tokens)

    def __repr__(self) -> str:
        name = self.config.model.encoder
        reads = repr(self.tokenizer) if self.features is None or self.config.data.kind == TEXT else self.features.words
        return f"{self.run.path}: {self.config.task}, {name}, {self.parameters:,} parameters, {reads}"

    def __fspath__(self) -> str:
        return os.fspath(self.run)

    if not TYPE_CHECKING:  # a checker of types knows what each kind has

        def __getattr__(self, name: str) -> Any:
            """What only runs of another task can do is refused with what this one can."""
            if not any(name in _methods(kind) for kind in get_args(AnyLoaded)):
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            can = ", ".join(_methods(type(self)))
            raise NotThisRun(f"{self.run.path} is a run of {self.config.task}, which has no {name}; it has {can}")


@dataclass(frozen=True, repr=False)
class LoadedWriter(Writer, Loaded):
    """A language model: it writes."""

    tokenizer: Tokenizer


@dataclass(frozen=True, repr=False)
class LoadedPredictor(Loaded):
    """A classifier or regressor: it predicts."""

    features: Features
    answers: Answers

    @overload
    def predict(self, texts: str | Mapping[str, Any], *, say: Say = silent) -> Prediction: ...  # type: ignore[overload-overlap]
    @overload
    def predict(self, texts: Sequence[Example], *, say: Say = silent) -> list[Prediction]: ...
    def predict(self, texts: Example | Sequence[Example], *, say: Say = silent) -> Prediction | list[Prediction]:
        """What the model says of a text, or of each of several.

        A run of images takes their files instead, one of tables or of texts with other columns rows: the values by the
        names of their columns.
        """
        if isinstance(texts, str | Mapping):
            return self.predict([texts], say=say)[0]
        return predict(self.model, self.features, self.answers, self.config, texts, say)


@dataclass(frozen=True, repr=False)
class LoadedMasked(Loaded):
    """A masked language model: it guesses what is missing."""

    model: MaskedLanguageModel
    tokenizer: Tokenizer

    @overload
    def fill(self, texts: str, *, most: int = LIKELIEST, say: Say = silent) -> Filled: ...  # type: ignore[overload-overlap]
    @overload
    def fill(self, texts: Sequence[str], *, most: int = LIKELIEST, say: Say = silent) -> list[Filled]: ...
    def fill(self, texts: str | Sequence[str], *, most: int = LIKELIEST, say: Say = silent) -> Filled | list[Filled]:
        """The likeliest tokens for each `<mask>` of a text, or of each of several."""
        if isinstance(texts, str):
            return self.fill([texts], most=most, say=say)[0]
        if not isinstance(texts, Sequence) or not all(isinstance(text, str) for text in texts):
            raise Misuse("fill takes a text, or a list of texts")
        return fill(self.model, self.tokenizer, texts, context=self.config.model.context, most=most, say=say)

    predict = fill


@dataclass(frozen=True, repr=False)
class LoadedVectors(Loaded):
    """A model made elsewhere that gives a vector for each text: `embed` is what it is for."""

    model: TextReader
    tokenizer: Tokenizer
    features: Features


@dataclass(frozen=True, repr=False)
class LoadedTranslator(Loaded):
    """A translator: it says texts another way."""

    model: Seq2Seq
    tokenizer: Tokenizer
    target_tokenizer: Tokenizer

    @overload
    def translate(  # type: ignore[overload-overlap]
        self, texts: str, *, beam: int = 5, length_penalty: float = 1.0, nbest: int = 1, say: Say = silent
    ) -> Translation: ...
    @overload
    def translate(
        self, texts: Sequence[str], *, beam: int = 5, length_penalty: float = 1.0, nbest: int = 1, say: Say = silent
    ) -> list[Translation]: ...
    def translate(
        self,
        texts: str | Sequence[str],
        *,
        beam: int = 5,
        length_penalty: float = 1.0,
        nbest: int = 1,
        say: Say = silent,
    ) -> Translation | list[Translation]:
        """The translation of a text, or of each of several; `beam` 1 is greedy."""
        if not isinstance(texts, Sequence) or not all(isinstance(text, str) for text in texts):
            raise Misuse("translate takes a text, or a list of texts")
        how = Search(beam, length_penalty, nbest)
        several = [texts] if isinstance(texts, str) else texts
        context = self.config.model.context
        found = translate_texts(
            self.model, self.tokenizer, self.target_tokenizer, several, how, context=context, say=say
        )
        return found[0] if isinstance(texts, str) else found


AnyLoaded = LoadedWriter | LoadedMasked | LoadedPredictor | LoadedTranslator | LoadedVectors


def _methods(kind: type) -> list[str]:
    """What a person can ask of runs of a kind."""
    return [name for name in dir(kind) if not name.startswith("_") and callable(getattr(kind, name))]


def load(run: "str | os.PathLike[str] | Run", device: str = "auto", *, model: OwnModel | None = None) -> AnyLoaded:
    """A run's best weights, its tokenizer and its settings; nothing outside the folder is needed.

    But for a run of a person's own `model`, which must be given again.
    """
    run = run if isinstance(run, Run) else Run.open(run)
    config = run.config()
    tokenizer = run.tokenizer()
    answers, features = None, None
    if config.task in LABELLING:
        card, where = run.card(), str(run.path / CARD)
        answers = read_answers(card.get("labels"), config.training.loss, where)
        features = read_features(card.get("features"), tokenizer, config, where)
    target = run.target_tokenizer()
    built = build_model(
        config,
        tokenizer=tokenizer,
        target_tokenizer=target,
        features=features,
        answers=answers,
        own=model,
    )
    run.load_weights(built)
    built.to(choose_device(device)).eval()
    if answers is not None and features is not None:
        return LoadedPredictor(built, tokenizer, run, config, features, answers)
    assert tokenizer is not None
    if isinstance(built, Seq2Seq):
        return LoadedTranslator(built, tokenizer, run, config, None, target or tokenizer)
    if isinstance(built, MaskedLanguageModel):
        return LoadedMasked(built, tokenizer, run, config, None)
    if config.task == VECTORS:
        assert isinstance(built, TextReader)
        return LoadedVectors(built, tokenizer, run, config, text_features(tokenizer, config))
    assert isinstance(built, LanguageModel)
    template, specials = _chat(run)
    return LoadedWriter(built, tokenizer, run, config, None, chat_template=template, specials=specials)


def _chat(run: Run) -> tuple[str | None, dict[str, str]]:
    """A run's chat template, if it has one, and the special tokens by the names that it has for them."""
    path, specials = run.path / CHAT_TEMPLATE, run.card().get("specials", {})
    if not path.is_file():
        return None, {}
    try:
        template = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise RunError(f"{path} is damaged: it is not text") from None
    if not isinstance(specials, dict) or not all(isinstance(one, str) for pair in specials.items() for one in pair):
        raise RunError(f"{run.path / CARD} is damaged: its specials are no names of tokens")
    return template, specials


def load_writer(run: "str | os.PathLike[str] | Run", device: str = "auto") -> LoadedWriter:
    """A run that writes, or one line that says what this one does."""
    loaded = load(run, device)
    if not isinstance(loaded, LoadedWriter):
        verb = _verb(loaded)
        raise Misuse(f"{loaded.run.path} learned {loaded.config.task}, not to write: glassformer {verb} {run} TEXT")
    return loaded


def load_translator(run: "str | os.PathLike[str] | Run", device: str = "auto") -> LoadedTranslator:
    """A run that translates, or one line that says what this one does."""
    loaded = load(run, device)
    if not isinstance(loaded, LoadedTranslator):
        verb = _verb(loaded)
        raise Misuse(f"{loaded.run.path} learned {loaded.config.task}, not to translate: glassformer {verb} {run} TEXT")
    return loaded


def _verb(loaded: AnyLoaded) -> str:
    """What a run is for."""
    verbs = {LoadedWriter: "generate", LoadedTranslator: "translate", LoadedVectors: "embed"}
    return verbs.get(type(loaded), "predict")
