"""What somebody asks to look at: a run, some texts, and how."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from torch import nn

from glassformer.config.errors import Misuse, Say, silent
from glassformer.config.views import LookOptions
from glassformer.families.base import Loaded
from glassformer.families.evaluate import encode_example
from glassformer.families.requests import Example, ModelInput
from glassformer.text.tokenizer import Tokenizer


@dataclass(frozen=True, kw_only=True)
class LookRequest(LookOptions):
    loaded: Loaded
    texts: Sequence[Example]
    second_run: Loaded | None = None
    say: Say = field(default=silent, repr=False)

    @property
    def model(self) -> nn.Module:
        return self.loaded.model

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer of the tokens which are written, or else read."""
        return self.loaded.output_tokenizer

    @property
    def source_tokenizer(self) -> Tokenizer:
        """The tokenizer of the tokens which are read."""
        assert self.loaded.tokenizer is not None
        return self.loaded.tokenizer

    @property
    def text(self) -> Example:
        """The one text of a view that takes no more."""
        if not self.texts:
            raise Misuse('there is no text to look at: glassformer look RUN "a text"')
        if len(self.texts) > 1:
            raise Misuse(f"this view is of one text, and there are {len(self.texts)}: put quotes around it")
        return self.texts[0]

    @cached_property
    def example(self) -> ModelInput:
        return self.encode(self.text)

    def encode(self, text: Example) -> ModelInput:
        return encode_example(self.loaded, text, target=self.target, beam=self.beam, say=self.say)

    def encode_all(self) -> list[ModelInput]:
        return [self.encode(text) for text in self.texts]

    @property
    def marks(self) -> set[int]:
        """START and END, which belong to no text."""
        tokenizer = self.loaded.tokenizer
        return set() if tokenizer is None else set(tokenizer.roles.marks)

    @property
    def never(self) -> set[int]:
        """Tokens that are no answer: all that stand for no text, but for END, and rows that no token has."""
        assert isinstance(self.model.head, nn.Linear)
        return set(self.tokenizer.never(self.model.head.out_features))
