"""Texts through a translator, many at once: like lengths together, answers in the order of the questions."""

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from jaxtyping import Bool, Int
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from glassformer.config.progress import counted_batches
from glassformer.decoding.beam import Hypothesis, beam_search
from glassformer.decoding.options import Search
from glassformer.models.modules import Seq2Seq, device_of
from glassformer.text.tokenizer import Tokenizer

ROWS_AT_ONCE, TOKENS_AT_ONCE = 512, 2**14
"""Living translations, and source tokens for each of them, that one batch may hold on a CPU."""
GPU_SCORES_AT_ONCE, GPU_TOKENS_AT_ONCE = 2**26, 2**19
"""Scores of living translations, and such tokens, on a GPU: it takes as long for one row as for a thousand."""


GREEDY = Search(beam=1)

Rows = list[int]
"""The sources of a batch, by their numbers."""
Best = list[list[Hypothesis]]
"""The best translations of each source."""


def in_turn(batches: Iterable[Rows], search: Callable[[Rows], Best]) -> list[Best]:
    return [search(rows) for rows in batches]


def longest_translation(source: int, context: int) -> int:
    """Tokens that the translation of so many may have, END among them."""
    return min(context, 3 * source + 20)


def marks_of(tokenizer: Tokenizer, model: Seq2Seq) -> dict[str, Any]:
    """Where a target starts and ends, and what is never written in it: as `translate` asks for them."""
    never = tokenizer.never(model.head.out_features)
    return {"opening": tokenizer.roles.opening, "end": tokenizer.end, "never": never}


@torch.inference_mode()
def translate(
    model: Seq2Seq,
    sources: Sequence[Sequence[int]],
    how: Search,
    *,
    context: int,
    opening: Sequence[int],
    end: int,
    never: Sequence[int] = (),
    spread: Callable[[Iterable[Rows], Callable[[Rows], Best]], list[Best]] = in_turn,
) -> Best:
    """For each source, given as its tokens, the best translations. `opening`: what every target begins with; `spread`:
    how the batches are gone through, where several processes share them.
    """
    most_rows, most_tokens = ROWS_AT_ONCE, TOKENS_AT_ONCE
    if device_of(model).type == "cuda":
        most_rows, most_tokens = max(1, GPU_SCORES_AT_ONCE // model.head.out_features), GPU_TOKENS_AT_ONCE

    def search(rows: Rows) -> Best:
        ids, mask = _padded([sources[row] for row in rows], device_of(model))
        return beam_search(
            model,
            ids,
            mask,
            beam=how.beam,
            most=[longest_translation(len(sources[row]), context) for row in rows],
            opening=opening,
            end=end,
            never=never,
            length_penalty=how.length_penalty,
            best=how.best,
        )

    batches = _batches([len(source) for source in sources], how.beam, most_rows, most_tokens)
    results = spread(counted_batches(batches, len, len(sources), "text"), search)
    by_row = dict(zip(itertools.chain(*batches), itertools.chain(*results), strict=True))
    return [by_row[row] for row in range(len(sources))]


def _batches(lengths: list[int], beam: int, most_rows: int, most_tokens: int) -> list[Rows]:
    """The longest first: if memory is short, that shows at once."""
    batches: list[Rows] = []
    for row in sorted(range(len(lengths)), key=lambda row: -lengths[row]):
        last = batches[-1] if batches else []
        rows = (len(last) + 1) * beam
        if not last or rows > most_rows or rows * lengths[last[0]] > most_tokens:
            batches.append([row])
        else:
            last.append(row)
    return batches


def _padded(rows: list[Sequence[int]], device: torch.device) -> tuple[Int[Tensor, "B S"], Bool[Tensor, "B S"]]:
    ids = pad_sequence([torch.tensor(row) for row in rows], batch_first=True)
    mask = torch.arange(ids.shape[1]) < torch.tensor([len(row) for row in rows]).unsqueeze(1)
    return ids.to(device), mask.to(device)
