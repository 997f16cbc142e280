"""A run to begin from."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from glassformer.config.encoders import OWN
from glassformer.config.errors import NotARun, RunError, SettingError
from glassformer.config.presets import LABELLING, LANGUAGE_MODEL, TEXT, TRANSLATION, VECTORS
from glassformer.config.resolve import KINDS_IN_WORDS, Config
from glassformer.runs.files import digest
from glassformer.runs.run import Run
from glassformer.text.tokenizer import Tokenizer

READERS = (*LABELLING, VECTORS)
"""The tasks whose models pool the vectors of a text."""


@dataclass(frozen=True)
class Source:
    """A run whose body and tokens are taken."""

    run: Run
    flag: str
    """What named it: --from, --decoder-from."""

    @staticmethod
    def open(where: str, flag: str) -> "Source":
        """Refuses what has no body that reads texts."""
        try:
            run = Run.open(where)
        except NotARun as error:
            raise NotARun(f"{flag}: {error}") from None
        source = Source(run, flag)
        encoder, kind = source.config.model.encoder, source.config.data.kind
        if encoder == OWN:
            raise SettingError(f"{source} is a person's own nn.Module, which a run does not hold: train it in Python")
        if source.config.task in LABELLING and kind != TEXT:
            raise SettingError(f"{source} reads {KINDS_IN_WORDS[kind]}: only what reads texts alone can be begun from")
        if encoder == "bag":
            raise SettingError(f"{source} is a bag of words: it has no word vectors and no encoder to begin from")
        if not run.weights_path.is_file():
            raise RunError(f"{source}: {run.weights_path} is missing: its training never came to a validation")
        return source

    def __str__(self) -> str:
        return f"{self.flag} {self.run.path}"

    @cached_property
    def config(self) -> Config:
        return self.run.config()

    @cached_property
    def card(self) -> dict[str, Any]:
        return self.run.card()

    @property
    def task(self) -> str:
        return self.config.task

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """Of what it reads."""
        tokenizer = self.run.tokenizer()
        assert tokenizer is not None
        return tokenizer

    @property
    def rows(self) -> int:
        """Of its table of word vectors: there may be more than tokens."""
        return self.config.model.vocab or self.tokenizer.vocab_size

    @property
    def about(self) -> dict[str, Any]:
        """What a card says of it."""
        return {"run": str(self.run.path), "task": self.task, "weights": weights_digest(self.run.path)}


@dataclass(frozen=True)
class Sources:
    """What a training begins from: at least one of the two."""

    body: Source | None
    decoder: Source | None
    """A language model that becomes the decoder of a translation."""

    @staticmethod
    def of(from_run: str | None, decoder_from: str | None) -> "Sources | None":
        if from_run is None and decoder_from is None:
            return None
        body = None if from_run is None else Source.open(from_run, "--from")
        decoder = None if decoder_from is None else Source.open(decoder_from, "--decoder-from")
        if decoder is not None and decoder.task != LANGUAGE_MODEL:
            raise SettingError(f"{decoder} learned {decoder.task}: only a language model can become a decoder")
        return Sources(body, decoder)

    @property
    def first(self) -> Source:
        source = self.body or self.decoder
        assert source is not None
        return source

    @property
    def whole(self) -> bool:
        """A translator goes on as one: nothing of it is new."""
        return self.decoder is None and self.first.task == TRANSLATION

    def tokenizers(self, task: str) -> tuple[Tokenizer, Tokenizer | None]:
        """Of what is read, and of the targets, where a translation has one for each side."""
        first = self.first
        if task != TRANSLATION or self.decoder is None or self.body is None:
            return first.tokenizer, first.run.target_tokenizer() if task == TRANSLATION and self.whole else None
        same = self.body.tokenizer.hash == self.decoder.tokenizer.hash
        return self.body.tokenizer, None if same else self.decoder.tokenizer


def weights_digest(run: Path) -> str:
    """Of the weights that a run ended with: another digest, other weights."""
    return digest(Run(run).weights_path)
