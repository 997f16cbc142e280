"""How the next token is chosen, and how decoding grows a tree of such choices."""

import math
from collections.abc import Sequence

import numpy as np
import torch

from glassformer.config.errors import Misuse
from glassformer.decoding.options import Sampling, check_writing
from glassformer.families.evaluate import encode_example
from glassformer.inspection.tree import (
    PRUNED,
    Choice,
    DecodingTree,
    beam_tree,
    choices_of,
    figure,
    ordinal,
    ranked,
    sampling_tree,
)
from glassformer.inspection.views.logit_lens import scores_tokens
from glassformer.inspection.views.registry import LookRequest, register_view
from glassformer.models.modules import LanguageModel, Seq2Seq
from glassformer.rendering.panels import Branch, Choices, Panel, Rows, Table, Tree
from glassformer.rendering.takeaways import leading
from glassformer.rendering.view import View
from glassformer.text.display import bare, chance, quoted

LIKELIEST = 12
"""Rows of the next token's choices."""
MOST_HIDDEN = 4
"""Hidden places of a text that are shown."""
LONGEST_ROOT = 20
"""Letters of the prompt at the root of a tree."""
SAMPLES, MOST_SAMPLES = 3, 16
SAMPLED = ("temperature", "top_k", "top_p")


# --- the next token ---


@register_view("next", options=(*SAMPLED, "translation"), quick=True, needs=scores_tokens)
def next_token(request: LookRequest) -> View:
    how, model = request.sampling, request.model
    example = request.example
    if isinstance(model, Seq2Seq):  # after what is written so far, which is nothing unless somebody says it
        example = encode_example(request.loaded, request.text, target=request.translation or "", say=request.say)
    never, unnamed, places, title = request.never, set[int](), [-1], "What comes next"
    if example.stand is not None:
        words = [at for at, id in enumerate(example.ids) if id not in request.marks]
        hidden = [at for at in words if example.stand[at] is None]
        # as `fill` has it: other tokens have their share of the probability, but are no answer
        never, unnamed = set(), set(range(model.head.out_features)) - set(request.tokenizer.texts)  # type: ignore[union-attr,arg-type]
        places, title = hidden[:MOST_HIDDEN] or words[-1:], "What stands there"
    with torch.inference_mode():
        scores = model.head(model.features(*example.inputs)[0, places])  # type: ignore[operator]
    names = example.written or example.tokens
    panels, notes = list[Panel](), list[str]()
    for at, row in zip(places, scores, strict=True):
        choices = choices_of(row, how, request.loaded, most=LIKELIEST, never=never, unnamed=unnamed)
        if not choices:
            raise Misuse("the model's scores are not finite numbers: run glassformer doctor RUN to find the cause")
        where = f"At token {at + 1}, {quoted(names[at])}" if example.stand is not None else f"After {quoted(names[at])}"
        panels.append(choices_panel(choices, request, where))
        notes.append(_openness(row, choices))
    return View(title, panels, notes[0])


def choices_panel(choices: list[Choice], request: LookRequest, title: str) -> Choices:
    """Likeliest tokens through temperature, cut and softmax."""
    how = request.sampling
    by = "1: greedy" if how.greedy else f"{how.temperature:g}"
    columns = ["score (logit)", f"(score − highest) ÷ {by}", " and ".join(_cuts(how)) or "nothing cut", "probability"]
    raw, lowest = [one.score for one in choices], min(one.tempered for one in choices)
    below = (1.1 * lowest, 0.0) if lowest < 0 else (-1.0, 0.0)
    kept = [-math.inf if choice.pruned else choice.tempered for choice in choices]
    values = [[one.score, one.tempered, left, one.drawn] for one, left in zip(choices, kept, strict=True)]
    return Choices(
        title=title,
        takeaway=leading(
            [quoted(choice.token) for choice in choices],
            [choice.drawn for choice in choices],
            does="is the likeliest",
            do="are equally likely",
            even="All {count} that are shown are equally likely ({number})",
            alone="{name} is all that can be drawn",
        ),
        name="token",
        rows=[choice.token for choice in choices],
        columns=columns,
        values=np.array(values, np.float64).reshape(-1, 4),
        scales=[(min(0.0, *raw), max(0.0, *raw)), below, below, (0.0, 1.0)],
        why=[choice.pruned for choice in choices],
        note="Each column is made of the one before it, and its bars share one scale. Grey tokens cannot be drawn.",
    )


def _cuts(how: Sampling) -> list[str]:
    return [
        *([] if how.top_k is None else [f"top-k {how.top_k}"]),
        *([] if how.top_p is None else [f"top-p {how.top_p:g}"]),
    ]


def _openness(scores: torch.Tensor, choices: list[Choice]) -> str:
    logs = scores.float().log_softmax(-1)
    entropy = float(torch.special.entr(logs.exp()).sum())
    drawn = sum(choice.drawn for choice in choices)
    return (
        f"These {len(choices)} have {drawn:.0%} of the probability that is drawn from. To the model itself the choice "
        f"is as open as one among {math.exp(entropy):,.1f} tokens that are equally likely."
    )


# --- the tree ---


@register_view(
    "tree",
    options=("beam", "length_penalty", *SAMPLED, "samples", "tokens"),
    needs=lambda loaded: isinstance(loaded.model, Seq2Seq | LanguageModel),
)
def tree(request: LookRequest) -> View:
    how, text = request.sampling, str(request.text)
    if not text.strip():
        raise Misuse("there is no text to look at")
    translates, samples = isinstance(request.model, Seq2Seq), SAMPLES if request.samples is None else request.samples
    if not 1 <= samples <= MOST_SAMPLES:
        raise Misuse(f"--samples is {samples}, but must lie between 1 and {MOST_SAMPLES}")
    if request.beam is not None and request.asks_for_sampling:
        raise Misuse(
            "--beam shows a beam search: remove it, or --temperature, --top-k, --top-p and --samples, which sample"
        )
    check_writing(how, tokens=request.tokens, beam=request.beam, seed=0)
    root = " ".join(request.tokenizer.shown(id) for id in request.tokenizer.roles.opening) if translates else text
    root = root if len(root) <= LONGEST_ROOT else "…" + root[1 - LONGEST_ROOT :]
    if request.beam is not None or (translates and not request.asks_for_sampling):
        penalty = request.length_penalty
        found = beam_tree(request.loaded, text, request.search, tokens=request.tokens, say=request.say)
        return _beam_view(found, request, root, penalty)
    found = sampling_tree(request.loaded, text, how, samples=samples, tokens=request.tokens, say=request.say)
    return _sampling_view(found, request, root)


def _beam_view(found: DecodingTree, request: LookRequest, root: str, penalty: float) -> View:
    beam = request.search.beam
    grown = Tree(
        title="The search",
        takeaway=f"{quoted(request.tokenizer.decode(found.finished[0][1].ids))} wins" if found.finished else "",
        root=root,
        branches=_branches(found, request, penalty),
        note="The thicker a line, the likelier the token. Blue: what is written; pale: followed for a while; grey: "
        f"dropped. “{ordinal(beam + 1)} of {beam}: −6.25”: {beam} are followed, and by the sum of log-probabilities it "
        "came after them.",
    )
    rows = [
        [
            bare(request.tokenizer.decode(text.ids)),
            text.score,
            len(text.ids) + text.ended,
            max(1, len(text.ids) + text.ended) ** penalty,
            text.rank(penalty),
        ]
        for _, text in found.finished
    ]
    table = Table(
        title="The best texts",
        takeaway=_ahead([text.rank(penalty) for _, text in found.finished]),
        columns=[
            "text",
            "sum of log-probabilities",
            "length (END counts)",
            f"length^{penalty:g}",
            "score: sum ÷ length^α",
        ],
        rows=rows,
        note="The highest score wins. Dividing by length keeps long texts from losing only because they are long.",
    )
    best = found.finished[0][1] if found.finished else None
    note = f"Beam search follows the {beam} best texts at once, by the sum of their tokens' log-probabilities."
    if best is not None:
        ended = sum(text.ended for _, text in found.finished)
        note += f" The best scores {figure(best.rank(penalty))}; {ended} of {len(found.finished)} came to an end."
    return View("Beam search, token by token", [grown, *([table] if rows else [])], note)


def _sampling_view(found: DecodingTree, request: LookRequest, root: str) -> View:
    how, count = request.sampling, len(found.finished)
    grown = Tree(
        title=f"{count} sampled {'text' if count == 1 else 'texts'}",
        takeaway=_unlike([tuple(text.ids) for _, text in found.finished]),
        root=root,
        branches=_branches(found, request, None),
        note="The thicker a line, the likelier the token, before anything is cut. Blue: what was drawn; grey: the "
        "likeliest that were not.",
    )
    rows: Rows = [
        [seed, bare(request.tokenizer.decode(text.ids)), text.score] for seed, (_, text) in enumerate(found.finished)
    ]
    table = Table(
        title="What was written",
        takeaway=leading(
            [f"Seed {seed}'s text" for seed, *_ in rows],
            [text.score for _, text in found.finished],
            does="is the likeliest",
            do="are the likeliest",
            even="All {count} are equally likely ({number})",
            alone="Its log-probability is {number}",
        ),
        columns=["seed", "text", "sum of log-probabilities"],
        rows=rows,
    )
    if how.greedy:
        note = "At temperature 0, each token is the most probable one, so all seeds write the same text."
        return View("Greedy decoding, token by token", [grown, table], note)
    at = ", ".join([f"temperature {how.temperature:g}", *_cuts(how)])
    note = f"Each token is drawn by chance, by its probability at {at}. Where seeds draw alike, they share a branch."
    return View("Sampling, token by token", [grown, table], note)


def _ahead(scores: Sequence[float]) -> str:
    """By how much the best text leads."""
    if len(scores) < 2:
        return f"One text, with a score of {figure(scores[0])}" if scores else ""
    first, second = sorted(scores, reverse=True)[:2]
    return f"The best is ahead by {figure(first - second)}" if first > second else "The best two score alike"


def _unlike(texts: Sequence[tuple[int, ...]]) -> str:
    different = len(set(texts))
    if len(texts) < 2:
        return ""
    if different in (1, len(texts)):
        return f"All {len(texts)} are {'the same' if different == 1 else 'different'}"
    return f"{different} of {len(texts)} are different"


def _branches(found: DecodingTree, request: LookRequest, penalty: float | None) -> list[Branch]:
    """`penalty`: of the lengths by which a beam search ranks."""
    out = []
    for node in found.nodes:
        cut = node.drawn is not None and abs(node.drawn - node.probability) > 1e-6
        after = f" ({chance(node.drawn)} after the cut)" if cut and node.drawn is not None else ""
        told = f"probability {chance(node.probability)}{after}, sum of log-probabilities {figure(node.total)}"
        if penalty is not None:
            told += f" (as a whole text {ranked(node.total, node.length, penalty)})"
        elif node.fate == PRUNED and not node.why:
            told += ", not drawn"
        out.append(
            Branch(
                token=request.tokenizer.shown(node.id),
                parent=node.parent,
                probability=node.probability,
                fate=node.fate,
                why=node.why,
                told=told,
                id=node.id,
            )
        )
    return out
