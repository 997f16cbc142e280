"""Analysis of tokenizers: how BPE merges a text into tokens, and how kinds of tokenizers compare on unseen text."""

import json
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from itertools import chain, islice, pairwise
from typing import Any, NamedTuple

import tokenizers

from glassformer.config.errors import DataError, Misuse
from glassformer.config.sections import TokenizerSettings
from glassformer.text.pieces import utf8
from glassformer.text.tokenizer import Tokenizer

MAX_MERGED_CHARS = 2_000
"""Characters of a text that can still be followed merge by merge."""


class Merge(NamedTuple):
    """A text after one merge at all its places. The first has no merge: single bytes."""

    rank: int | None
    """How many merges were learned before this one."""
    pair: tuple[str, str] | None
    ids: list[int]
    pieces: list[str]


def merges_of(tokenizer: Tokenizer, text: str) -> list[Merge]:
    """BPE at work: from single bytes, always the merge that was learned first, until none applies.

    What is left in the end are the tokens of the text.
    """
    if tokenizer.kind != "bpe":
        raise Misuse(f"this tokenizer ({tokenizer.kind}) has no merges: only bpe has (--tokenizer.kind bpe)")
    if not text:
        raise Misuse("there is no text to merge")
    if len(text) > MAX_MERGED_CHARS:
        raise Misuse(f"{len(text):,} characters are too many to follow merge by merge: {MAX_MERGED_CHARS:,} at most")
    spec = json.loads(tokenizer.to_json())
    table = _ranked(spec)
    stretches = _single_bytes(spec, text)
    name = cache(tokenizer.token)

    def merge(rank: int | None, pair: tuple[str, str] | None) -> Merge:
        ids = list(chain.from_iterable(stretches))
        return Merge(rank, pair, ids, [name(id) for id in ids])

    merges = [merge(None, None)]
    while places := [
        (table[pair][0], stretch, place)
        for stretch, ids in enumerate(stretches)
        for place, pair in enumerate(pairwise(ids))
        if pair in table
    ]:
        rank, stretch, place = min(places)
        left, right = stretches[stretch][place : place + 2]
        stretches[stretch][place : place + 2] = [table[left, right][1]]
        if rank == merges[-1].rank:
            merges.pop()  # the same merge at another place
        merges.append(merge(rank, (name(left), name(right))))
    if merges[-1].ids != tokenizer.encode(text):
        raise Misuse("this tokenizer does more than merge: its tokens are not those that its merges lead to")
    return merges


def learned_merges(tokenizer: Tokenizer) -> list[tuple[str, str]]:
    """BPE's merges as a person reads them, first learned first; other kinds have none."""
    table = _ranked(json.loads(tokenizer.to_json())) if tokenizer.kind == "bpe" else {}
    return [(tokenizer.token(left), tokenizer.token(right)) for left, right in table]


def _ranked(spec: dict[str, Any]) -> dict[tuple[int, int], tuple[int, int]]:
    """The merges of a tokenizer.json in their order: the ids of a pair → (rank, id of the two as one)."""
    vocabulary: dict[str, int] = spec["model"]["vocab"]
    merges = enumerate(spec["model"]["merges"])
    return {(vocabulary[a], vocabulary[b]): (rank, vocabulary[a + b]) for rank, (a, b) in merges}


def _single_bytes(spec: dict[str, Any], text: str) -> list[list[int]]:
    """Where BPE starts: the ids of the text's bytes, one list for each stretch that merges stay within."""
    utf8(text)
    vocabulary = spec["model"]["vocab"]
    stretches = tokenizers.Tokenizer.from_str(json.dumps(spec)).pre_tokenizer.pre_tokenize_str(text)
    try:
        return [[vocabulary[mark] for mark in stretch] for stretch, _ in stretches]
    except KeyError:
        raise Misuse("this tokenizer lacks some of the text's bytes, which merges start from") from None


# --- kinds of tokenizers compared ---

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
        raise DataError("too little text to compare tokenizers: nothing is left to measure them on")
    comparisons = []
    for settings in kinds:
        train = (text for text, held_out in _divided(texts_factory) if not held_out)
        tokenizer = Tokenizer.train(train, settings, total_bytes=sizes[False])
        tokens = unknown = 0
        for text in (text for text, held_out in _divided(texts_factory) if held_out):
            ids = tokenizer.encode_batch([text])[0]
            tokens += len(ids)
            unknown += int((ids == tokenizer.unk).sum()) if tokenizer.unk is not None else 0
        kind, rates = tokenizer.kind, (tokens / words, sizes[True] / tokens, unknown / tokens)
        comparisons.append(Comparison(kind, tokenizer.vocab_size, tokens, *rates))
    return comparisons


def _divided(texts_factory: Callable[[], Iterable[str]]) -> Iterator[tuple[str, bool]]:
    """Every text, or every line of a single text, and whether it is held out."""
    texts = iter(texts_factory())
    beginning = list(islice(texts, 2))
    if len(beginning) == 1:
        beginning = beginning[0].splitlines(keepends=True)
    for number, text in enumerate(chain(beginning, texts)):
        yield text, number % HOLD_OUT_EVERY == 1
