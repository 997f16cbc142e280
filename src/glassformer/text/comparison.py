"""Kinds of tokenizers compared, on text that none of them was trained on."""

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from typing import NamedTuple

from glassformer.config.errors import DataError
from glassformer.config.sections import TokenizerSettings
from glassformer.text.pieces import utf8
from glassformer.text.tokenizer import Tokenizer

HOLD_OUT_EVERY = 10


class Comparison(NamedTuple):
    """One tokenizer, measured on text it was not trained on."""

    kind: str
    vocab_size: int
    tokens: int
    tokens_per_word: float
    """Words here are what blanks separate, the same for every kind."""
    bytes_per_token: float
    unknown_rate: float
    """The part of the tokens that are `<unk>`."""


def compare_tokenizers(texts_factory: Callable[[], Iterable[str]], kinds: list[TokenizerSettings]) -> list[Comparison]:
    """Train one tokenizer for each of the settings, and measure it on text it has not seen.

    Of every ten texts the second is measured on, and the other nine are trained on. A single text is split into its
    lines first, and these are divided the same way. The texts are read once to measure their size, and once for
    training and once for measuring each tokenizer.
    """
    sizes, words = {True: 0, False: 0}, 0  # bytes of the text that is held out, and of the rest
    for text, held_out in _divided(texts_factory):
        sizes[held_out] += len(utf8(text))
        words += len(text.split()) if held_out else 0
    if not words:
        raise DataError(
            "too little text to compare tokenizers: some is held out to measure on, and none was left for it"
        )
    comparisons = []
    for settings in kinds:
        train = (text for text, held_out in _divided(texts_factory) if not held_out)
        tokenizer = Tokenizer.train(train, settings, total_bytes=sizes[False])
        tokens = unknown = 0
        for text in (text for text, held_out in _divided(texts_factory) if held_out):
            ids = tokenizer.encode_batch([text])[0]
            tokens += len(ids)
            unknown += int((ids == tokenizer.unk).sum()) if tokenizer.unk is not None else 0
        comparisons.append(
            Comparison(
                kind=tokenizer.kind,
                vocab_size=tokenizer.vocab_size,
                tokens=tokens,
                tokens_per_word=tokens / words,
                bytes_per_token=sizes[True] / tokens,
                unknown_rate=unknown / tokens,
            )
        )
    return comparisons


def _divided(texts_factory: Callable[[], Iterable[str]]) -> Iterator[tuple[str, bool]]:
    """Every text, or every line of a single text, and whether it is held out."""
    texts = iter(texts_factory())
    beginning = list(islice(texts, 2))
    if len(beginning) == 1:
        beginning = beginning[0].splitlines(keepends=True)
    for number, text in enumerate(chain(beginning, texts)):
        yield text, number % HOLD_OUT_EVERY == 1
