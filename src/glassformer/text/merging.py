"""How BPE makes tokens of a text: merge by merge."""

import json
from itertools import chain, pairwise
from typing import Any, NamedTuple

import tokenizers

from glassformer.config.errors import Misuse
from glassformer.text.pieces import utf8
from glassformer.text.tokenizer import Tokenizer

LONGEST = 2_000
"""Characters of a text that can still be followed merge by merge."""


class Merge(NamedTuple):
    """A text after one merge at all its places. The first has no merge: single bytes."""

    rank: int | None
    """How many merges were learned before this one."""
    pair: tuple[str, str] | None
    ids: list[int]
    pieces: list[str]


Step = tuple[int | None, tuple[int, int] | None, list[int]]
"""The same without names."""


def merges_of(tokenizer: Tokenizer, text: str) -> list[Merge]:
    """BPE at work: from single bytes, always the merge that was learned first, until none applies.

    What is left in the end are the tokens of the text.
    """
    if tokenizer.kind != "bpe":
        raise Misuse(f"this tokenizer ({tokenizer.kind}) has no merges: only bpe has (--tokenizer.kind bpe)")
    if not text:
        raise Misuse("there is no text to merge")
    if len(text) > LONGEST:
        raise Misuse(f"{len(text):,} characters are too many to follow merge by merge: {LONGEST:,} at most")
    spec = json.loads(tokenizer.to_json())
    table = _ranked(spec)
    stretches = _single_bytes(spec, text)
    steps: list[Step] = [(None, None, _together(stretches))]
    while places := [
        (table[pair][0], stretch, place)
        for stretch, ids in enumerate(stretches)
        for place, pair in enumerate(pairwise(ids))
        if pair in table
    ]:
        rank, stretch, place = min(places)
        left, right = stretches[stretch][place : place + 2]
        stretches[stretch][place : place + 2] = [table[left, right][1]]
        if rank == steps[-1][0]:
            steps.pop()  # the same merge at another place
        steps.append((rank, (left, right), _together(stretches)))
    if steps[-1][2] != tokenizer.encode(text):
        raise Misuse("this tokenizer does more than merge: its tokens are not those that its merges lead to")
    names = {id: tokenizer.token(id) for _, _, ids in steps for id in set(ids)}
    return [
        Merge(rank, None if pair is None else (names[pair[0]], names[pair[1]]), ids, [names[id] for id in ids])
        for rank, pair, ids in steps
    ]


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


def _together(stretches: list[list[int]]) -> list[int]:
    return list(chain.from_iterable(stretches))
