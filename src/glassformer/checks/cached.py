"""Token after token over a state, against the whole at once."""

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor

from glassformer.checks.result import DoesNotApply, Found
from glassformer.checks.subject import Subject, apart, share_of
from glassformer.decoding.generate import generate
from glassformer.decoding.sampling import Sampling
from glassformer.decoding.translate import GREEDY, marks_of, translate
from glassformer.families.translation import LoadedTranslator
from glassformer.models.language_model import LanguageModel
from glassformer.models.seq2seq import Seq2Seq

WRITTEN = 12
"""Tokens that are written greedily."""


@torch.inference_mode()
def cached(subject: Subject) -> Found:
    """Scores in pieces and of the whole; and that greedy writing takes what the whole would take."""
    model = subject.model
    if isinstance(model, LanguageModel):
        if not model.encoder.causal:
            raise DoesNotApply("it was trained without its mask and reads the future: it cannot go token by token")
        difference = max(_pieces_of_text(subject, model), _rows_of_text(subject, model), _writing(subject, model))
    elif isinstance(model, Seq2Seq):
        if not model.decoder.causal:
            raise DoesNotApply("its decoder was trained without its mask and reads the future")
        difference = max(_pieces_of_translation(subject, model), _translating(subject, model))
    else:
        raise DoesNotApply("it reads an example as a whole and keeps nothing")
    return Found(difference, "scores in pieces and of the whole, and what is written greedily with a cache")


def _borders(length: int) -> list[int]:
    """Half of it at once, two single tokens, the rest."""
    return sorted({0, length // 2, min(length, length // 2 + 1), min(length, length // 2 + 2), length})


def _pieces_of_text(subject: Subject, model: LanguageModel) -> float:
    found = []
    for ids, *_ in subject.examples:
        assert ids is not None
        state = model.init_state(1, ids.shape[1])
        pieces = [model.extend(ids[:, first:last], state) for first, last in pairwise(_borders(ids.shape[1]))]
        found.append(model.head(torch.cat(pieces, 1))[0])
    return apart(subject.each(), found)


def _rows_of_text(subject: Subject, model: LanguageModel) -> float:
    """Texts of different lengths in one state: all but their last tokens at once, then these."""
    texts = [example for example in subject.examples if subject.lengths(example)[0] > 1]
    if not texts:
        return 0.0
    ids, mask = subject.together([subject.cut(text, [subject.lengths(text)[0] - 1]) for text in texts])
    assert ids is not None
    state = model.init_state(len(texts), ids.shape[1] + 1)
    model.extend(ids, state, mask)
    last = torch.cat([tokens[:, -1:] for tokens, *_ in texts if tokens is not None])
    return apart([row[-1] for row in subject.each(texts)], list(model.head(model.extend(last, state))[:, -1]))


def _writing(subject: Subject, model: LanguageModel) -> float:
    """By how much the best of the whole is better than what was taken with a cache."""
    tokenizer = subject.loaded.tokenizer
    assert tokenizer is not None
    never = tokenizer.never(model.head.out_features)
    gaps = []
    for example in subject.examples:
        room = WRITTEN if model.encoder.limit is None else min(WRITTEN, model.encoder.limit - 1)
        ids, _ = subject.cut(example, [max(1, min(MOST_READ, (model.encoder.limit or MOST_READ + WRITTEN) - room))])
        assert ids is not None
        prompt: list[int] = ids[0].tolist()
        steps = generate(model, [prompt], Sampling(0.0), most=room, never=never)  # an END is a token like any other
        taken = [token for (token,) in steps if token is not None]
        whole = torch.tensor([[*prompt, *taken[:-1]]], device=ids.device)
        gaps.append(_gap(model(whole)[0, len(prompt) - 1 :], taken, never))
    return max(gaps)


MOST_READ = 16
"""Tokens that writing begins after."""


def _gap(scores: Tensor, taken: Sequence[int], never: Sequence[int]) -> float:
    """Close scores may change places by rounding; so it is not the tokens that are compared but what they scored."""
    forbidden = torch.tensor(list(never), dtype=torch.long, device=scores.device)
    allowed = scores.double().index_fill(-1, forbidden, -torch.inf)
    chosen = allowed.gather(-1, torch.tensor(taken, device=scores.device).unsqueeze(-1))[:, 0]
    return share_of(allowed.max(-1).values - chosen, scores)


def _pieces_of_translation(subject: Subject, model: Seq2Seq) -> float:
    found = []
    for source, _, target, _ in subject.examples:
        assert source is not None
        assert target is not None
        state = model.init_state(model.encode(source), target.shape[1])
        pieces = [model.extend(target[:, first:last], state) for first, last in pairwise(_borders(target.shape[1]))]
        found.append(model.head(torch.cat(pieces, 1))[0])
    return apart(subject.each(), found)


def _translating(subject: Subject, model: Seq2Seq) -> float:
    assert isinstance(subject.loaded, LoadedTranslator)
    marks = marks_of(subject.loaded.target_tokenizer, model)
    opening, context = marks["opening"], min(WRITTEN, subject.loaded.config.model.context)
    sources = [source for source, *_ in subject.examples if source is not None]
    written = translate(model, [source[0].tolist() for source in sources], GREEDY, context=context, **marks)
    gaps = []
    for source, (best, *_) in zip(sources, written, strict=True):
        taken = [*best.ids, marks["end"]] if best.ended else best.ids
        if taken:
            before = torch.tensor([[*opening, *taken[:-1]]], device=source.device)
            gaps.append(_gap(model(source, None, before)[0, len(opening) - 1 :], taken, marks["never"]))
    return max(gaps, default=0.0)
