"""Batched translation: sources of similar length together, results in the order of the sources."""

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from glassformer.config.progress import counted_batches
from glassformer.decoding.beam import Hypothesis, Marks, beam_search, decoder_room, score_dtype
from glassformer.decoding.options import Search
from glassformer.decoding.sampling import SamplingPlan, SamplingRows, choose
from glassformer.models.modules import Seq2Seq, device_of
from glassformer.text.tokenizer import Tokenizer

ROWS_AT_ONCE, TOKENS_AT_ONCE = 512, 2**14
"""Maximum number of living hypotheses, and of source tokens over all of them, per batch on a CPU."""
GPU_SCORES_AT_ONCE, GPU_TOKENS_AT_ONCE = 2**26, 2**19
"""Maximum number of scores, and of source tokens, per batch on a GPU.

A step takes as long for one row as for a thousand.
"""
DRAWS = 256
"""Steps whose random numbers are drawn at once."""
GREEDY = Search(beam=1)

Rows = list[int]
"""Numbers of the sources of a batch."""
Best = list[list[Hypothesis]]
"""Best translations of each source."""


def in_turn(batches: Iterable[Rows], search: Callable[[Rows], Best]) -> list[Best]:
    return [search(rows) for rows in batches]


def longest_translation(source: int, context: int) -> int:
    """Return the maximum number of target tokens for `source` source tokens, including END."""
    return min(context, 3 * source + 20)


def marks_of(tokenizer: Tokenizer, model: Seq2Seq) -> Marks:
    """Return the tokens that begin and end a target, and those that are never generated."""
    assert tokenizer.end is not None
    return Marks(tokenizer.roles.opening, tokenizer.end, tokenizer.never(model.head.out_features))


@torch.inference_mode()
def translate(
    model: Seq2Seq,
    sources: Sequence[Sequence[int]],
    search: Search,
    marks: Marks,
    *,
    context: int,
    spread: Callable[[Iterable[Rows], Callable[[Rows], Best]], list[Best]] = in_turn,
) -> Best:
    """Return the best translations of each source, a list of tokens.

    `spread`: a function that applies another to all batches, such as one that shares them among processes.
    """
    max_rows, max_source_tokens = ROWS_AT_ONCE, TOKENS_AT_ONCE
    if device_of(model).type == "cuda":
        max_rows, max_source_tokens = max(1, GPU_SCORES_AT_ONCE // model.head.out_features), GPU_TOKENS_AT_ONCE

    def translate_batch(rows: Rows) -> Best:
        ids, mask = _padded([sources[row] for row in rows], device_of(model))
        max_tokens = [longest_translation(len(sources[row]), context) for row in rows]
        find = beam_search if search.sampling is None else sample_translations
        return find(model, ids, mask, search, marks, max_tokens)

    batches = _batches([len(source) for source in sources], search.beam, max_rows, max_source_tokens)
    results = spread(counted_batches(batches, len, len(sources), "text"), translate_batch)
    by_row = dict(zip(itertools.chain(*batches), itertools.chain(*results), strict=True))
    return [by_row[row] for row in range(len(sources))]


@torch.inference_mode()
def sample_translations(
    model: Seq2Seq,
    source: Int[Tensor, "N S"],
    mask: Bool[Tensor, "N S"] | None,
    search: Search,
    marks: Marks,
    max_tokens: Sequence[int],
) -> Best:
    """Draw `search.best` translations of each source and return them best first, ranked as in beam search.

    The random numbers of a translation depend on its seed alone, not on the other sources of the batch. `max_tokens`
    has the maximum number of tokens for each source, END included.
    """
    assert search.sampling is not None
    device, samples, (opening, end, never) = source.device, search.best, marks
    room = decoder_room(model, max_tokens, marks)
    limits = torch.tensor(room, device=device).repeat_interleave(samples)
    state = model.init_state(model.encode(source, mask), len(opening) - 1 + max(room))
    features = model.extend(torch.tensor(list(opening), device=device).expand(len(source), -1), state)
    scores = model.head(features[:, -1]).repeat_interleave(samples, 0)
    state = state.expand_beams(samples)
    settings, plan = SamplingRows.of([search.sampling] * len(scores), device), SamplingPlan.of([search.sampling])
    draws = _draws(range(search.seed, search.seed + samples), len(source), device)
    written = torch.full((max(room), len(scores)), end, device=device)
    dtype = score_dtype(model)
    totals = torch.zeros(len(scores), dtype=dtype, device=device)
    done = torch.zeros(len(scores), dtype=torch.bool, device=device)
    rows = torch.arange(len(scores), device=device)
    forbidden = torch.tensor(list(never), dtype=torch.long, device=device)
    for step in range(max(room)):
        tokens = choose(scores.index_fill(-1, forbidden, -torch.inf), settings, plan, next(draws)[rows])
        logs = scores.to(dtype).log_softmax(-1).gather(1, tokens.unsqueeze(1)).squeeze(1)
        totals[rows] += logs.masked_fill(done[rows], 0.0)
        written[step, rows] = tokens.masked_fill(done[rows], end)
        done[rows] |= (tokens == end) | (step + 1 >= limits[rows])
        # a state can only drop all samples of a source together
        kept = (~done.view(len(source), samples).all(1)[rows // samples]).nonzero().squeeze(1)
        if not len(kept):
            break
        if len(kept) < len(rows):
            rows, tokens, state = rows[kept], tokens[kept], state.select(kept)
            settings = SamplingRows(*(column[kept] for column in settings))
        scores = model.head(model.extend(tokens.unsqueeze(1), state)[:, -1])
    texts = zip(written.T.tolist(), limits.tolist(), totals.tolist(), strict=True)
    drawn = [_hypothesis(ids[:limit], end, total) for ids, limit, total in texts]
    by_source = (drawn[first : first + samples] for first in range(0, len(drawn), samples))
    return [sorted(texts, key=lambda text: -text.rank(search.length_penalty)) for texts in by_source]


def _draws(seeds: Iterable[int], sources: int, device: torch.device) -> Iterator[Float[Tensor, "B 1"]]:
    """Yield random numbers for each step, the same for every source.

    They are drawn on the CPU, a block of steps at a time, so that neither the device nor the longest source of a batch
    changes them.
    """
    generators = [torch.Generator().manual_seed(seed) for seed in seeds]
    while True:
        rows = [torch.rand(DRAWS, generator=generator) for generator in generators]
        for column in torch.stack(rows).to(device).unbind(1):
            yield column.repeat(sources).unsqueeze(1)


def _hypothesis(ids: list[int], end: int, total: float) -> Hypothesis:
    """Return a sampled text; `ids` is padded with END."""
    ended = end in ids
    return Hypothesis(ids[: ids.index(end)] if ended else ids, total, ended)


def _batches(lengths: list[int], beam: int, max_rows: int, max_source_tokens: int) -> list[Rows]:
    """Return batches of sources, longest first, so that insufficient memory shows at once."""
    batches: list[Rows] = []
    for row in sorted(range(len(lengths)), key=lambda row: -lengths[row]):
        last = batches[-1] if batches else []
        rows = (len(last) + 1) * beam
        if not last or rows > max_rows or rows * lengths[last[0]] > max_source_tokens:
            batches.append([row])
        else:
            last.append(row)
    return batches


def _padded(rows: list[Sequence[int]], device: torch.device) -> tuple[Int[Tensor, "B S"], Bool[Tensor, "B S"]]:
    ids = pad_sequence([torch.tensor(row) for row in rows], batch_first=True)
    mask = torch.arange(ids.shape[1]) < torch.tensor([len(row) for row in rows]).unsqueeze(1)
    return ids.to(device), mask.to(device)
