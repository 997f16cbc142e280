"""A third-party model on disk: config, tokens and weights, which are read later."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from torch import Tensor

from glassformer.config.json_types import JsonObject
from glassformer.text.tokenizer import Tokenizer


class Weights(ABC):
    """Tensors by their names in the files. Shapes are known before values are read."""

    shapes: Mapping[str, tuple[int, ...]]

    @property
    def kind(self) -> str:
        """Most frequent number format of the tensors."""
        kinds = [self.kind_of(name) for name in self.shapes]
        return max(sorted(set(kinds)), key=kinds.count, default="")

    @abstractmethod
    def kind_of(self, name: str) -> str:
        """Return the number format of a tensor."""

    @abstractmethod
    def read(self, name: str) -> Tensor:
        """Return a tensor in single precision."""


@dataclass(frozen=True)
class ExternalTokens:
    """The tokens of a third-party model."""

    tokenizer: Tokenizer
    target_tokenizer: Tokenizer | None = None
    """Tokenizer of the targets, if it differs from that of the sources."""
    chat_template: str | None = None
    specials: dict[str, str] = field(default_factory=dict)
    """Special tokens by their names in the chat template: `bos_token`, `eos_token` …"""
    files: tuple[Path, ...] = ()
    """Original files that the run keeps and an export writes back unchanged."""


@dataclass(frozen=True)
class ExternalModel:
    """Everything that an import needs. `config` and the weights have Hugging Face's names in any format."""

    name: str
    """Name in errors and cards: the folder, file or hub name."""
    format: str
    """"huggingface" or "gguf"."""
    config: JsonObject
    weights: Weights
    tokens: ExternalTokens
    settings: JsonObject = field(default_factory=dict)
    """Settings by dotted key from files other than config.json, such as the pooling of text vectors."""
