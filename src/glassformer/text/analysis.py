"""Analysis of tokenizers: the merges of BPE on a text, and a comparison of kinds of tokenizers on unseen text."""

import json
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from itertools import chain, islice, pairwise
from typing import NamedTuple

import tokenizers

from glassformer.config.errors import DataError, Misuse
from glassformer.config.json_types import JsonObject
from glassformer.config.messages import listening, silent
from glassformer.config.sections import TokenizerSettings
from glassformer.text.pieces import utf8
from glassformer.text.tokenizer import Tokenizer

MAX_MERGED_CHARS = 2_000
"""Maximum length of a text whose merges are listed."""


class Merge(NamedTuple):
    """A text after one merge at all its positions; the first entry is the text in single bytes."""

    rank: int | None
    """Number of merges learned before this one; None for the first entry."""
    pair: tuple[str, str] | None
    ids: list[int]
    pieces: list[str]


def merges_of(tokenizer: Tokenizer, text: str) -> list[Merge]:
    """Return the merges of BPE on a text, always the earliest learned first, until none applies.

    The ids of the last entry are the tokens of the text.
    """
    if tokenizer.kind != "bpe":
        raise Misuse(f"this tokenizer ({tokenizer.kind}) has no merges: only bpe has (--tokenizer.kind bpe)")
    if not text:
        raise Misuse("there is no text to merge")
    if len(text) > MAX_MERGED_CHARS:
        raise Misuse(f"{len(text):,} characters are too many to follow merge by merge: {MAX_MERGED_CHARS:,} at most")
    spec = json.loads(tokenizer.to_json())
    merge_of = _ranked(spec)
    parts = _single_bytes(spec, text)
    name = cache(tokenizer.token)

    def merge(rank: int | None, pair: tuple[str, str] | None) -> Merge:
        ids = list(chain.from_iterable(parts))
        return Merge(rank, pair, ids, [name(id) for id in ids])

    merges = [merge(None, None)]
    while candidates := [
        (merge_of[pair][0], part, position)
        for part, ids in enumerate(parts)
        for position, pair in enumerate(pairwise(ids))
        if pair in merge_of
    ]:
        rank, part, position = min(candidates)
        left, right = parts[part][position : position + 2]
        parts[part][position : position + 2] = [merge_of[left, right][1]]
        if rank == merges[-1].rank:
            merges.pop()  # the same merge at another place
        merges.append(merge(rank, (name(left), name(right))))
    if merges[-1].ids != tokenizer.encode(text):
        raise Misuse("this tokenizer does more than merge: its tokens are not those that its merges lead to")
    return merges


def learned_merges(tokenizer: Tokenizer) -> list[tuple[str, str]]:
    """Return the merges of BPE as readable pairs in learned order; an empty list for other kinds."""
    table = _ranked(json.loads(tokenizer.to_json())) if tokenizer.kind == "bpe" else {}
    return [(tokenizer.token(left), tokenizer.token(right)) for left, right in table]


def _ranked(spec: JsonObject) -> dict[tuple[int, int], tuple[int, int]]:
    """Return the merges of a tokenizer.json in order, from a pair of ids to (rank, id of the merged token)."""
    vocabulary: dict[str, int] = spec["model"]["vocab"]
    merges = enumerate(spec["model"]["merges"])
    return {(vocabulary[a], vocabulary[b]): (rank, vocabulary[a + b]) for rank, (a, b) in merges}


def _single_bytes(spec: JsonObject, text: str) -> list[list[int]]:
    """Return the ids of the text's bytes, one list per pre-token. Merges stay within a pre-token."""
    utf8(text)
    vocabulary = spec["model"]["vocab"]
    parts = tokenizers.Tokenizer.from_str(json.dumps(spec)).pre_tokenizer.pre_tokenize_str(text)
    try:
        return [[vocabulary[mark] for mark in part] for part, _ in parts]
    except KeyError:
        raise Misuse("this tokenizer lacks some of the text's bytes, which merges start from") from None


# --- comparison of tokenizers ---

HOLD_OUT_EVERY = 10


class Comparison(NamedTuple):
    """Measurements of one tokenizer on text that it was not trained on."""

    kind: str
    vocab_size: int
    tokens: int
    tokens_per_word: float
    """Tokens per whitespace-separated word, the same words for every kind."""
    bytes_per_token: float
    unknown_rate: float
    """Share of the tokens that are `<unk>`."""


def compare_tokenizers(texts_factory: Callable[[], Iterable[str]], kinds: list[TokenizerSettings]) -> list[Comparison]:
    """Train one tokenizer per settings and measure it on unseen text.

    The second of every ten texts is for measuring, the other nine are for training. A single text is split into lines
    first. The texts are read once for their size, then twice per tokenizer.
    """
    sizes, words = {True: 0, False: 0}, 0  # bytes, by whether the text is in the test part
    for text, held_out in _divided(texts_factory):
        sizes[held_out] += len(utf8(text))
        words += len(text.split()) if held_out else 0
    if not words:
        raise DataError("too little text to compare tokenizers: nothing is left to measure them on")
    comparisons = []
    for settings in kinds:
        train = (text for text, held_out in _divided(texts_factory) if not held_out)
        with listening(silent):
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
    """Yield each text, or each line of a single text, and whether it is in the test part."""
    texts = iter(texts_factory())
    beginning = list(islice(texts, 2))
    if len(beginning) == 1:
        beginning = beginning[0].splitlines(keepends=True)
    for number, text in enumerate(chain(beginning, texts)):
        yield text, number % HOLD_OUT_EVERY == 1
