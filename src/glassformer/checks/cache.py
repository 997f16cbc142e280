"""Token after token over a state, against the whole at once."""

from collections.abc import Sequence
from functools import singledispatch
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from glassformer.checks.result import Deviation, DoesNotApply
from glassformer.checks.subject import Subject, largest_share, present, relative_difference
from glassformer.decoding.generate import generate
from glassformer.decoding.sampling import Sampling
from glassformer.decoding.translate import GREEDY, marks_of, translate
from glassformer.families.base import Family
from glassformer.families.language import LanguageFamily
from glassformer.families.translation import TranslationFamily
from glassformer.models.modules import LanguageModel, Seq2Seq

MAX_PROMPT, WRITTEN = 16, 12
"""Tokens that writing begins after, and those that are written greedily."""


@torch.inference_mode()
def check_cached(subject: Subject) -> Deviation:
    """Scores in pieces and of the whole; and that greedy writing takes what the whole would take."""
    difference = cache_difference(subject.loaded.family, subject)
    return Deviation(difference, "scores in pieces and of the whole, and what is written greedily with a cache")


@singledispatch
def cache_difference(family: Family, subject: Subject) -> float:
    """The largest difference that a cache makes, as a share of the largest number."""
    raise DoesNotApply("it reads an example as a whole and keeps nothing")


@cache_difference.register
def _(family: LanguageFamily, subject: Subject) -> float:
    model: Any = subject.model
    if not model.encoder.causal:
        raise DoesNotApply("it was trained without its mask and reads the future: it cannot go token by token")
    texts = [present(call[0]) for call in subject.calls]
    pieces = [_score_in_pieces(model, ids, model.init_state(1, ids.shape[1])) for ids in texts]
    in_pieces = relative_difference(subject.scores(), pieces)
    return max(in_pieces, _rows_of_text(subject, model), _writing(subject, model))


@cache_difference.register
def _(family: TranslationFamily, subject: Subject) -> float:
    model: Any = subject.model
    if not model.decoder.causal:
        raise DoesNotApply("its decoder was trained without its mask and reads the future")
    pairs = [(present(call[0]), present(call[2])) for call in subject.calls]
    pieces = [
        _score_in_pieces(model, target, model.init_state(model.encode(source), target.shape[1]))
        for source, target in pairs
    ]
    in_pieces = relative_difference(subject.scores(), pieces)
    return max(in_pieces, _translating(subject, model, [source for source, _ in pairs]))


def _score_in_pieces(model: LanguageModel | Seq2Seq, tokens: Tensor, state: Any) -> Tensor:
    """Half of it at once, two single tokens, the rest."""
    length = tokens.shape[1]
    borders = sorted({0, length // 2, min(length, length // 2 + 1), min(length, length // 2 + 2), length})
    pieces = [model.extend(tokens[:, first:last], state) for first, last in pairwise(borders)]
    scores: Tensor = model.head(torch.cat(pieces, 1))[0]
    return scores


def _rows_of_text(subject: Subject, model: LanguageModel) -> float:
    """Texts of different lengths in one state: all but their last tokens at once, then these."""
    texts = [call for call in subject.calls if subject.lengths(call)[0] > 1]
    if not texts:
        return 0.0
    ids, mask = subject.batch([subject.truncate(text, [subject.lengths(text)[0] - 1]) for text in texts])
    state = model.init_state(len(texts), present(ids).shape[1] + 1)
    model.extend(present(ids), state, mask)
    last = torch.cat([present(text[0])[:, -1:] for text in texts])
    rows = list(model.head(model.extend(last, state))[:, -1])
    return relative_difference([row[-1] for row in subject.scores(texts)], rows)


def _writing(subject: Subject, model: LanguageModel) -> float:
    """By how much the best of the whole is better than what was taken with a cache."""
    never, limit = subject.loaded.output_tokenizer.never(model.head.out_features), model.encoder.limit
    room = WRITTEN if limit is None else min(WRITTEN, limit - 1)
    most = max(1, min(MAX_PROMPT, (limit or MAX_PROMPT + WRITTEN) - room))
    gaps = []
    for ids, *_ in subject.calls:
        prompt: list[int] = present(ids)[0, :most].tolist()
        steps = generate(model, [prompt], Sampling(0.0), most=room, never=never)  # an END is a token like any other
        taken = [token for (token,) in steps if token is not None]
        whole = torch.tensor([[*prompt, *taken[:-1]]], device=subject.device)
        gaps.append(_gap(model(whole)[0, len(prompt) - 1 :], taken, never))
    return max(gaps)


def _translating(subject: Subject, model: Seq2Seq, sources: Sequence[Tensor]) -> float:
    marks = marks_of(subject.loaded.output_tokenizer, model)
    opening, context = marks["opening"], min(WRITTEN, subject.loaded.config.model.context)
    written = translate(model, [source[0].tolist() for source in sources], GREEDY, context=context, **marks)
    gaps = []
    for source, (best, *_) in zip(sources, written, strict=True):
        taken = [*best.ids, marks["end"]] if best.ended else best.ids
        if taken:
            before = torch.tensor([[*opening, *taken[:-1]]], device=source.device)
            gaps.append(_gap(model(source, None, before)[0, len(opening) - 1 :], taken, marks["never"]))
    return max(gaps, default=0.0)


def _gap(scores: Tensor, taken: Sequence[int], never: Sequence[int]) -> float:
    """Close scores may change places by rounding; so it is not the tokens that are compared but what they scored."""
    forbidden = torch.tensor(list(never), dtype=torch.long, device=scores.device)
    allowed = scores.double().index_fill(-1, forbidden, -torch.inf)
    chosen = allowed.gather(-1, torch.tensor(taken, device=scores.device).unsqueeze(-1))[:, 0]
    return largest_share(allowed.max(-1).values - chosen, scores)
