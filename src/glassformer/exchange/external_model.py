"""An external model on disk: its config, its tokens, and its weights, none of them read yet."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from glassformer.text.tokenizer import Tokenizer


class Weights(ABC):
    """Tensors by the names in their files. Shapes are known before anything is read."""

    shapes: Mapping[str, tuple[int, ...]]

    @property
    def kind(self) -> str:
        """What most of the tensors are written as."""
        kinds = [self.kind_of(name) for name in self.shapes]
        return max(sorted(set(kinds)), key=kinds.count, default="")

    @abstractmethod
    def kind_of(self, name: str) -> str:
        """What the numbers of a tensor are written as."""

    @abstractmethod
    def read(self, name: str) -> Tensor:
        """The tensor of this name, in single precision."""


@dataclass(frozen=True)
class ExternalTokens:
    """The tokens of an external model."""

    tokenizer: Tokenizer
    target_tokenizer: Tokenizer | None = None
    """The targets' own, where they are cut in another way than the sources."""
    chat_template: str | None = None
    specials: dict[str, str] = field(default_factory=dict)
    """Special tokens by the names that a chat template has for them: `bos_token`, `eos_token` …"""
    files: tuple[Path, ...] = ()
    """Files to be kept beside them in the run and given back, as they came, by an export."""


@dataclass(frozen=True)
class ExternalModel:
    """All that an import needs. Whatever the format, `config` and the names of the weights are Hugging Face's."""

    name: str
    """What errors and cards call it: the folder, file or hub name."""
    format: str
    """`huggingface` or `gguf`."""
    config: dict[str, Any]
    weights: Weights
    tokens: ExternalTokens
    settings: dict[str, Any] = field(default_factory=dict)
    """Settings, by dotted key, that follow from other files than config.json (how a text's vectors are pooled)."""
