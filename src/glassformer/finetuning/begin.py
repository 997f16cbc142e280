"""Begin from another run: its settings into a configuration, and its tokens."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from glassformer.config.errors import SettingError
from glassformer.config.presets import LABELLING, LANGUAGE_MODEL, MIXED, PACKED, TRANSLATION
from glassformer.config.resolve import Config
from glassformer.finetuning.body import first_settings, fixed_settings, refuse_others
from glassformer.finetuning.source import Sources
from glassformer.finetuning.starts import first_training, slower
from glassformer.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class Beginning:
    """What a person asked to begin from."""

    sources: Sources
    said: Mapping[str, Any]

    @staticmethod
    def of(said: Mapping[str, Any]) -> "Beginning | None":
        """By dotted key; None where nothing is begun from."""
        sources = Sources.of(said.get("model.from_run"), said.get("model.decoder_from"))
        return None if sources is None else Beginning(sources, said)

    @property
    def task(self) -> str | None:
        """What is learned of a text without labels, where nobody says."""
        if self.sources.decoder is not None:
            return TRANSLATION
        return self.sources.first.task if self.sources.first.task in PACKED else None

    @property
    def encoder(self) -> str:
        return self.sources.first.config.model.encoder

    def found(self, task: str | None, rows: int | None = None) -> dict[str, Any]:
        """The settings that follow, by dotted key; what was said and cannot be is refused."""
        task = task or LANGUAGE_MODEL
        fixed = fixed_settings(self.sources, task)
        refuse_others(self.sources, fixed, self.said)
        first = first_settings(self.sources, task, self.said)
        return {**first, **first_training(self.sources, task, self.said, rows), **fixed}

    def settled(self, config: Config) -> Config:
        """What only the whole configuration tells."""
        if config.task in LABELLING and config.data.kind == MIXED:
            raise SettingError(
                f"{self.sources.first} reads texts alone, and the data has other columns: leave them out (--data.kind "
                "text), or --from"
            )
        return slower(config, self.said)


def tokens_of(config: Config) -> tuple[Tokenizer, Tokenizer | None]:
    """The tokenizers of the runs that a training begins from: of what is read, and of the targets."""
    sources = Sources.of(config.model.from_run, config.model.decoder_from)
    assert sources is not None
    return sources.tokenizers(config.task)
