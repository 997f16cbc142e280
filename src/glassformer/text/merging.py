"""How BPE makes tokens of a text: merge by merge."""

from itertools import chain, pairwise
from typing import NamedTuple

from glassformer.config.errors import Misuse
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
    table = tokenizer.merge_table
    stretches = tokenizer.single_bytes(text)
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


def _together(stretches: list[list[int]]) -> list[int]:
    return list(chain.from_iterable(stretches))
