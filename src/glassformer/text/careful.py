"""A pipeline of the Rust library at work: no special token is read out of a text that only spells its name."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import tokenizers

from glassformer.text import outside


class Careful:
    """Texts in, ids out. Where a pipeline would take a text for a special token, another reads it that does not."""

    def __init__(
        self,
        rust: tokenizers.Tokenizer,
        spec: dict[str, Any],
        specials: Mapping[int, tokenizers.AddedToken],
        unk: int | None,
    ) -> None:
        """`spec`: what the pipeline's tokenizer.json says."""
        self._rust = rust
        self._spec = spec
        self._specials = {id: token.content for id, token in specials.items()}
        self._unk = unk

    def ids(self, texts: Sequence[str]) -> Iterator[list[int]]:
        """One text after the other: as Python's numbers they take much more memory than Rust's."""
        for text, encoding in zip(texts, self._rust.encode_batch_fast(texts, add_special_tokens=False), strict=True):
            yield self._again(text, encoding).ids

    def placed(self, text: str) -> tokenizers.Encoding:
        """With the places of the tokens in the text, where their blanks stand too."""
        return self._again(text, self._placed.encode(text, add_special_tokens=False))

    def _again(self, text: str, encoding: tokenizers.Encoding) -> tokenizers.Encoding:
        return self._wary.encode(text, add_special_tokens=False) if self._misread(text, encoding.ids) else encoding

    def _misread(self, text: str, ids: list[int]) -> bool:
        """Whether special tokens were read out of a text that only spells their names."""
        if not outside.misreads(self._spec):
            return False
        found = self._specials.keys() & ids
        return bool(found) and (found != {self._unk} or self._specials[min(found)] in text)

    @cached_property
    def _wary(self) -> tokenizers.Tokenizer:
        """The pipeline for a text that spells the name of a special token."""
        return outside.pipeline(outside.without_specials(self._spec, set(self._specials.values())))

    @cached_property
    def _placed(self) -> tokenizers.Tokenizer:
        """The pipeline whose tokens stand where their blanks stand too."""
        return outside.pipeline({**self._spec, "post_processor": None}) if outside.trims(self._spec) else self._rust
