"""Texts through a translator, many at once: like lengths together, answers in the order of the questions."""

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Bool, Int
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from glassformer.config.progress import progress_of
from glassformer.decoding.beam import Hypothesis, beam_search
from glassformer.decoding.options import Search
from glassformer.models.modules import Seq2Seq, device_of
from glassformer.text.tokenizer import Tokenizer

ROWS_AT_ONCE, TOKENS_AT_ONCE = 512, 2**14
"""Living translations, and source tokens for each of them, that one batch may hold on a CPU."""
GPU_SCORES_AT_ONCE, GPU_TOKENS_AT_ONCE = 2**26, 2**19
"""Scores of living translations, and such tokens, on a GPU: it takes as long for one row as for a thousand."""


GREEDY = Search(beam=1)


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
) -> list[list[Hypothesis]]:
    """For each source, given as its tokens, the best translations. `opening`: what every target begins with."""
    out: list[list[Hypothesis]] = [[] for _ in sources]
    done, progress = 0, progress_of("text")
    progress(done, len(sources))
    most_rows, most_tokens = ROWS_AT_ONCE, TOKENS_AT_ONCE
    if device_of(model).type == "cuda":
        most_rows, most_tokens = max(1, GPU_SCORES_AT_ONCE // model.head.out_features), GPU_TOKENS_AT_ONCE
    for rows in _batches([len(source) for source in sources], how.beam, most_rows, most_tokens):
        ids, mask = _padded([sources[row] for row in rows], device_of(model))
        results = beam_search(
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
        for row, hypotheses in zip(rows, results, strict=True):
            out[row] = hypotheses
        done += len(rows)
        progress(done, len(sources))
    return out


def _batches(lengths: list[int], beam: int, most_rows: int, most_tokens: int) -> list[list[int]]:
    """The longest first: if memory is short, that shows at once."""
    batches: list[list[int]] = []
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
