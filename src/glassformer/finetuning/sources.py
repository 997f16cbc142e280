"""The runs from which a model is fine-tuned, and the files that are copied from them."""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from glassformer.config.encoders import is_own_model
from glassformer.config.errors import Misuse, NotARun, RunError, SettingError
from glassformer.config.json_types import JsonObject
from glassformer.config.presets import TEXT, has_decoder, labels_examples, predicts_next_token
from glassformer.config.resolve import KINDS_IN_WORDS, Config
from glassformer.runs.folders import writing
from glassformer.runs.run import CHAT_TEMPLATE, ORIGINAL, Run
from glassformer.runs.weight_files import digest_of
from glassformer.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class FinetuneSource:
    """A run whose weights and tokenizer initialise a new model."""

    run: Run
    flag: str
    """The flag that names it: --from or --decoder-from."""

    @staticmethod
    def open(where: str, flag: str) -> "FinetuneSource":
        """Open a run; refuse one without an encoder of texts."""
        try:
            run = Run.open(where)
        except NotARun as error:
            raise NotARun(f"{flag}: {error}") from None
        source = FinetuneSource(run, flag)
        encoder, kind = source.config.model.encoder, source.config.data.kind
        if is_own_model(encoder):
            raise SettingError(f"{source} is a person's own nn.Module, which a run does not hold: train it in Python")
        if labels_examples(source.task) and kind != TEXT:
            raise SettingError(f"{source} reads {KINDS_IN_WORDS[kind]}, but must read only texts")
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
    def card(self) -> JsonObject:
        return self.run.card()

    @property
    def task(self) -> str:
        return self.config.task

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer of its inputs."""
        tokenizer = self.run.tokenizer()
        assert tokenizer is not None
        return tokenizer

    @property
    def rows(self) -> int:
        """Number of rows of its embedding table, which may exceed the number of tokens."""
        return self.config.model.vocab or self.tokenizer.vocab_size

    def about(self) -> JsonObject:
        """Return the entry of a card about it."""
        return {"run": str(self.run.path), "task": self.task, "weights": digest_of(self.run.path)}


@dataclass(frozen=True)
class FinetuneSources:
    """The runs from which a model is fine-tuned: at least one of the two."""

    body: FinetuneSource | None
    decoder: FinetuneSource | None
    """A language model that becomes the decoder of a translator."""

    @staticmethod
    def of(from_run: str | None, decoder_from: str | None) -> "FinetuneSources":
        body = FinetuneSource.open(from_run, "--from") if from_run is not None else None
        decoder = FinetuneSource.open(decoder_from, "--decoder-from") if decoder_from is not None else None
        if decoder is not None and not predicts_next_token(decoder.task):
            raise SettingError(f"{decoder} learned {decoder.task}: only a language model can become a decoder")
        return FinetuneSources(body, decoder)

    @property
    def runs(self) -> list[FinetuneSource]:
        """The one or two runs."""
        return [source for source in (self.body, self.decoder) if source is not None]

    @property
    def first(self) -> FinetuneSource:
        return self.runs[0]

    @property
    def whole(self) -> bool:
        """Whether a translator is continued as a whole, without new parts."""
        return self.decoder is None and has_decoder(self.first.task)

    def tokenizers(self, task: str) -> tuple[Tokenizer, Tokenizer | None]:
        """Return the tokenizers of the inputs and of the targets; None if the targets share that of the inputs."""
        if not has_decoder(task) or self.decoder is None or self.body is None:
            target = self.first.run.target_tokenizer() if has_decoder(task) and self.whole else None
            return self.first.tokenizer, target
        same = self.body.tokenizer.hash == self.decoder.tokenizer.hash
        return self.body.tokenizer, None if same else self.decoder.tokenizer


def source_tokenizers(config: Config) -> tuple[Tokenizer, Tokenizer | None]:
    """Return the tokenizers of the runs from which a model is fine-tuned: of the inputs and of the targets."""
    return FinetuneSources.of(config.model.from_run, config.model.decoder_from).tokenizers(config.task)


def refuse_out(settings: Mapping[str, Any], out: Path) -> None:
    """Refuse an output folder that is or contains a run to fine-tune from, or that has the name of the data."""
    for flag, key in (("--from", "model.from_run"), ("--decoder-from", "model.decoder_from")):
        where = settings.get(key)
        if where is not None and Path(where).resolve().is_relative_to(out.resolve()):
            raise SettingError(f"--out {out} is or holds the run that {flag} begins from: name another folder")
    data = str(settings.get("data.path") or "")
    if data and out.resolve() in (Path(data).resolve(), Path(data.split(":")[0]).resolve()):
        raise Misuse(f"--out {out} is named as the data is: name another --out")


def copy_extras(config: Config, run: Run) -> None:
    """Copy the chat template and the original token files of the fine-tuned run into a new run's folder."""
    if not config.is_finetuned:
        return
    source = FinetuneSources.of(config.model.from_run, config.model.decoder_from).first
    if source.task != config.task:
        return
    before = source.run
    with writing(run.path):
        if (before.path / CHAT_TEMPLATE).is_file():
            shutil.copyfile(before.path / CHAT_TEMPLATE, run.path / CHAT_TEMPLATE)
        if (before.path / ORIGINAL).is_dir():
            shutil.copytree(before.path / ORIGINAL, run.path / ORIGINAL)
    if specials := source.card.get("specials"):
        run.update_card(specials=specials)
