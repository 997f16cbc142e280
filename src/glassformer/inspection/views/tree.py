"""Decoding as a tree: the candidates for the next token, and the paths of beam search and sampling.

All numbers are those of the decoding functions themselves.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from glassformer.config.errors import Misuse
from glassformer.config.progress import may_stop
from glassformer.data.wording import counted
from glassformer.decoding.beam import Hypothesis, Marks, beam_continuation, beam_search
from glassformer.decoding.options import Sampling, Search, check_writing
from glassformer.decoding.running import Request, RunningBatch
from glassformer.decoding.sampling import SamplingPlan, SamplingRows, distribution, keep_top_k, keep_top_p, temper
from glassformer.decoding.translate import longest_translation, marks_of, translate
from glassformer.families.base import Loaded
from glassformer.families.evaluate import encode_example
from glassformer.families.generate import within_context
from glassformer.families.translation import source_ids
from glassformer.inspection.views.logit_lens import scores_tokens
from glassformer.inspection.views.registry import LookRequest, leader, register_view, sentence
from glassformer.models.capabilities import HasDecoder, PredictsNext, ScoresTokens
from glassformer.models.modules import device_of
from glassformer.rendering.panels import Branch, Choices, Panel, Table, Tree
from glassformer.rendering.view import View
from glassformer.text.display import bare, chance, quoted

PLAIN_SAMPLING, DEFAULT_SEARCH = Sampling(), Search()
CHOSEN, KEPT, PRUNED = "chosen", "kept", "pruned"
SHOWN_DROPPED = 3
"""Dropped continuations that are shown at each step of a beam search, besides the kept ones."""
SHOWN_ALTERNATIVES = 4
"""Likeliest tokens that are shown at each step of a sampled text."""

MAX_CHOICES = 12
"""Maximum number of candidates for the next token."""
MAX_HIDDEN_PLACES = 4
"""Maximum number of masked positions that are shown."""
MAX_ROOT_CHARS = 20
"""Maximum number of characters of the prompt at the root of a tree."""
SAMPLES, MAX_SAMPLES = 3, 16
SAMPLING_OPTIONS = ("temperature", "top_k", "top_p")


# --- the next token ---


@dataclass(frozen=True)
class Choice:
    """A candidate for the next token."""

    id: int
    token: str
    pruned: str
    """Reason why it cannot be drawn; empty if it can."""
    score: float
    """Logit of the model's head."""
    tempered: float
    """Score minus the highest score, divided by the temperature; −∞ for tokens that are never generated."""
    probability: float
    """Probability at this temperature, before top-k and top-p."""
    drawn: float
    """Probability with which it is sampled."""
    log_probability: float
    """Log-probability at temperature 1, which beam search adds up."""


@dataclass(frozen=True)
class Node:
    """A token of a tree; it follows the token of its parent, or the prompt if the parent is None."""

    id: int
    parent: int | None
    probability: float
    total: float
    """Sum of the log-probabilities from the first token after the prompt to this one."""
    length: int
    """Number of tokens after the prompt, this one included."""
    fate: str = PRUNED
    why: str = ""
    """Reason for the fate; may be empty."""
    drawn: float | None = None
    """Probability after temperature, top-k and top-p; None in a beam search."""


@dataclass
class DecodingTree:
    """The tree of a beam search or of sampled texts."""

    nodes: list[Node] = field(default_factory=list)
    """Nodes in an order in which each node comes after its parent."""
    finished: list[tuple[int, Hypothesis]] = field(default_factory=list)
    """The last node of each finished text, and the text; best first in a beam search, by seed in sampling."""

    def path(self, node: int | None) -> list[int]:
        """Return the nodes from the first token to this one; None is the prompt and has no nodes."""
        out: list[int] = []
        while node is not None:
            out.append(node)
            node = self.nodes[node].parent
        return out[::-1]

    def ids(self, node: int | None) -> list[int]:
        return [self.nodes[at].id for at in self.path(node)]

    def mark(self, node: int, fate: str, why: str = "") -> None:
        self.nodes[node] = replace(self.nodes[node], fate=fate, why=why)


def translates(loaded: Loaded) -> bool:
    """Return whether the model of a run translates the text instead of continuing it."""
    return loaded.capability(HasDecoder) is not None


# --- candidates for the next token ---


def choices_of(
    scores: Float[Tensor, "V"],
    how: Sampling,
    loaded: Loaded,
    *,
    most: int,
    never: Collection[int],
    unnamed: Collection[int] = (),
    also: Sequence[int] = (),
) -> list[Choice]:
    """Return the likeliest next tokens with their scores after each step of sampling.

    `never` are ids that cannot be chosen, `unnamed` ids that are only omitted from the list, `also` ids to add to it.
    """
    rows, plan, scores = SamplingRows.of([how], scores.device), SamplingPlan.of([how]), scores.float()
    able = scores.unsqueeze(0).clone()
    able[:, list(never)] = -torch.inf
    tempered = temper(able, rows.temperature)
    among_k = keep_top_k(tempered, rows.top_k, plan.top_k) if plan.top_k else tempered
    among_p = keep_top_p(among_k, rows.top_p) if plan.top_p else among_k
    drawn = distribution(able, rows, plan)[0]
    numbers = torch.stack([scores, tempered[0], tempered[0].softmax(-1), drawn, scores.log_softmax(-1)], 1)
    # `topk` orders equal scores as `keep_top_k` does.
    able[:, list(unnamed)] = -torch.inf
    likeliest = able[0].topk(min(most, int((able > -torch.inf).sum()))).indices.tolist()
    likeliest += [id for id in also if id not in likeliest]

    def pruned(id: int) -> str:
        if how.greedy:
            return "" if drawn[id] else "not the likeliest"
        if among_k[0, id] == -torch.inf:
            return f"below top-k {how.top_k}"
        return f"outside top-p {how.top_p:g}" if among_p[0, id] == -torch.inf else ""

    shown = loaded.output_tokenizer.shown
    return [Choice(id, shown(id), pruned(id), *numbers[id].tolist()) for id in likeliest]


@torch.inference_mode()
def branches(
    loaded: Any, text: str, path: Sequence[int], how: Sampling = PLAIN_SAMPLING, width: int = 6
) -> list[Choice]:
    """Return the candidates after a prompt and a path of tokens, likeliest first; none after the end of a text."""
    if path and path[-1] in loaded.output_tokenizer.roles.ends:
        return []
    return choices_of(scores_along(loaded, text, path)[-1], how, loaded, most=width, never=_never(loaded))


@torch.inference_mode()
def scores_along(loaded: Any, text: str, path: Sequence[int]) -> Float[Tensor, "T V"]:
    """Return the scores of the next token after a prompt, and after each token of the path.

    They are computed as in generation. For a translator, `text` is the source; a language model continues it.
    """
    model, device = loaded.model, device_of(loaded.model)
    if translates(loaded):
        before, limit = list(loaded.output_tokenizer.roles.opening), model.decoder.limit
        source = torch.tensor([source_ids(loaded.tokenizer, text, loaded.config.model.context)[0]], device=device)
        state = model.init_state(
            model.encode(source, torch.ones_like(source, dtype=torch.bool)), len(before) + len(path)
        )
    else:
        before, limit = loaded.prompt_ids(text), model.encoder.limit
        if limit is not None and len(before) > limit:
            before = before[-max(1, limit // 2) :]
        state = model.init_state(1, len(before) + len(path))
    if limit is not None and len(before) + len(path) > limit:
        raise Misuse(f"nothing more fits: this model reads {limit} tokens")
    tokens = torch.tensor([[*before, *path]], device=device)
    return model.head(model.extend(tokens, state)[0, len(before) - 1 :])


def _never(loaded: Any) -> list[int]:
    return list(loaded.output_tokenizer.never(loaded.model.head.out_features))


# --- beam search ---


class _Recorder:
    """Callback that records the tree of a beam search of one text."""

    def __init__(self) -> None:
        self.tree = DecodingTree()
        self.steps = 0
        self.living: list[int | None] = [None]
        """Last node of each beam; None at the prompt and for empty beams."""

    def __call__(self, living: Tensor, chances: Tensor, totals: Tensor, index: Tensor) -> None:
        may_stop()
        vocab, beam = chances.shape[-1], totals.shape[-1]
        joint, logs = (living[0].unsqueeze(-1) + chances[0]).flatten(), chances[0].flatten()
        places = [at if total > -torch.inf else None for at, total in zip(index[0].tolist(), totals[0], strict=True)]
        taken = dict.fromkeys(at for at in places if at is not None)
        ranked = joint.topk(min(beam + SHOWN_DROPPED, len(joint))).indices.tolist()
        self.steps += 1
        nodes: dict[int, int] = {}
        for at in dict.fromkeys([*taken, *ranked[: len(taken) + SHOWN_DROPPED]]):
            total = float(joint[at])
            if not total > -torch.inf:
                continue
            rank = ranked.index(at) + 1 if at in ranked else int((joint > joint[at]).sum()) + 1
            fate, why = (KEPT, "") if at in taken else (PRUNED, f"{ordinal(rank)} of {len(taken)}: {figure(total)}")
            if (at in taken) != (rank <= len(taken)):  # Beam search reserves one beam for greedy decoding.
                why = f"{ordinal(rank)}, but greedy" if at in taken else "gave way to greedy"
            nodes[at] = len(self.tree.nodes)
            parent = self.living[at // vocab]
            self.tree.nodes.append(Node(at % vocab, parent, float(logs[at].exp()), total, self.steps, fate, why))
        self.living = [None if at is None else nodes.get(at) for at in places]


def beam_tree(loaded: Any, text: str, how: Search = DEFAULT_SEARCH, *, tokens: int = 12) -> DecodingTree:
    """Return the tree of a beam search, as `translate` runs it, or `generate` with a beam for a language model.

    `tokens` is the maximum length for a language model. The nodes of the best texts are marked as chosen; every dropped
    node has a reason.
    """
    recorder, model, roles = _Recorder(), loaded.model, loaded.output_tokenizer.roles
    never = _never(loaded)
    if translates(loaded):
        context = loaded.config.model.context
        source = torch.tensor([source_ids(loaded.tokenizer, text, context)[0]], device=device_of(model))
        most = longest_translation(source.shape[1], context)
        if model.decoder.limit is not None:
            most = min(most, max(1, model.decoder.limit - len(roles.opening) + 1))
        ends = [loaded.output_tokenizer.end]
        marks = Marks(roles.opening, ends[0], never)
        mask = torch.ones_like(source, dtype=torch.bool)
        (best,) = beam_search(model, source, mask, how, marks, [most], watch=recorder)
    else:
        read, most = within_context(model.encoder.limit, loaded.prompt_ids(text), tokens)
        ends = list(roles.ends)
        best = [beam_continuation(model, read, beam=how.beam, max_tokens=most, ends=ends, never=never, watch=recorder)]
    return _judged(recorder.tree, best, ends, most, how)


def _judged(tree: DecodingTree, best: list[Hypothesis], ends: Sequence[int], most: int, how: Search) -> DecodingTree:
    """Return the tree after marking the result of every kept node and the nodes of the best texts."""
    followed = {node.parent for node in tree.nodes if node.fate == KEPT}
    last = max((node.length for node in tree.nodes), default=0)
    found: list[tuple[int, Hypothesis]] = []
    for at, node in enumerate(tree.nodes):
        if node.fate == KEPT and (node.id in ends or node.length == most):
            ids, ended = tree.ids(at), node.id in ends
            found.append((at, Hypothesis(ids[:-1] if ended else ids, node.total, ended)))
        elif node.fate == KEPT and at not in followed:
            why = "cannot win any more" if node.length == last else "all after it dropped"
            tree.mark(at, KEPT, why)
    found.sort(key=lambda one: -one[1].rank(how.length_penalty))
    for place, (at, text) in enumerate(found, 1):
        how_it_ended = "ended" if text.ended else "cut"
        tree.mark(at, KEPT, f"{how_it_ended}, {ordinal(place)}: {figure(text.rank(how.length_penalty))}")
    for text in best:
        chosen = next((at for at, other in found if (other.ids, other.ended) == (text.ids, text.ended)), None)
        for at in tree.path(chosen):
            tree.mark(at, CHOSEN, tree.nodes[at].why)
    tree.finished = found
    return tree


# --- sampling ---


@torch.inference_mode()
def sampling_tree(
    loaded: Any, text: str, how: Sampling = PLAIN_SAMPLING, *, samples: int = 3, tokens: int = 12
) -> DecodingTree:
    """Return the tree of texts that `generate` or `translate` samples with seeds 0, 1 …, with likely alternatives.

    `tokens` is the maximum length for a language model.
    """
    never = _never(loaded)
    if translates(loaded):
        ends = {loaded.output_tokenizer.end}
        written = [_sampled_translation(loaded, text, how, seed) for seed in range(samples)]
    else:
        ends = set(loaded.output_tokenizer.roles.ends)
        written = _sampled_continuations(loaded, text, how, samples, tokens)
    tree, places = DecodingTree(), dict[tuple[int, ...], int]()
    for seed, ids in enumerate(written):
        scores = scores_along(loaded, text, ids[:-1])
        at: int | None = None
        for length, id in enumerate(ids, 1):
            total = 0.0 if at is None else tree.nodes[at].total
            for choice in choices_of(scores[length - 1], how, loaded, most=SHOWN_ALTERNATIVES, never=never, also=[id]):
                here = (*ids[: length - 1], choice.id)
                if here not in places:
                    places[here] = len(tree.nodes)
                    node = Node(choice.id, at, choice.probability, total + choice.log_probability, length)
                    tree.nodes.append(replace(node, why=choice.pruned, drawn=choice.drawn))
            at = places[tuple(ids[:length])]
            tree.mark(at, CHOSEN, tree.nodes[at].why)
        if at is not None:
            before = f"{tree.nodes[at].why}, " if tree.nodes[at].why else ""
            tree.mark(at, CHOSEN, f"{before}seed {seed}")
            ended = ids[-1] in ends
            tree.finished.append((at, Hypothesis(ids[:-1] if ended else ids, tree.nodes[at].total, ended)))
    return tree


def _sampled_translation(loaded: Any, text: str, how: Sampling, seed: int) -> list[int]:
    """Return the ids that `translate` samples with a seed, END included."""
    context, tokenizer = loaded.config.model.context, loaded.output_tokenizer
    source, search = source_ids(loaded.tokenizer, text, context)[0], Search(1, sampling=how, seed=seed)
    ((sampled,),) = translate(loaded.model, [source], search, marks_of(tokenizer, loaded.model), context=context)
    return [*sampled.ids, *([tokenizer.end] if sampled.ended else [])]


def _sampled_continuations(loaded: Any, text: str, how: Sampling, samples: int, tokens: int) -> list[list[int]]:
    """Return the ids that `generate` samples with seeds 0, 1 …, including the token that ends a text."""
    model, ends = loaded.model, set(loaded.output_tokenizer.roles.ends)
    prompt, most = within_context(model.encoder.limit, loaded.prompt_ids(text), tokens, "a tree of samples")
    batch = RunningBatch(model, samples, len(prompt) + most, never=_never(loaded))
    batch.join({seed: Request(prompt, how, most, ends, seed) for seed in range(samples)})
    written: list[list[int]] = [[] for _ in range(samples)]
    while step := batch.step():
        may_stop()
        for seed, one in step.items():
            written[seed].append(one.token)
    return written


# --- formatting and the view of the next token ---


def ordinal(number: int) -> str:
    teens = 10 <= number % 100 <= 20
    return f"{number}{'th' if teens else {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th')}"


def figure(value: float) -> str:
    """Return a number with three significant digits."""
    return f"{value:.3g}".replace("-", "−")


@register_view("next", options=(*SAMPLING_OPTIONS, "translation"), quick=True, needs=scores_tokens)
def next_token(request: LookRequest) -> View:
    how, model = request.sampling, request.loaded.capability(ScoresTokens)
    assert model is not None
    example = request.example
    if translates(request.loaded):  # The next token follows the translation so far, which is empty by default.
        example = encode_example(request.loaded, request.text, target=request.translation or "")
    never, unnamed, places, title = request.never, set[int](), [-1], "What comes next"
    if example.stand is not None:
        words = [at for at, id in enumerate(example.ids) if id not in request.marks]
        hidden = [at for at in words if example.stand[at] is None]
        # As in `fill`, other tokens keep their share of the probability, but are not an answer.
        never, unnamed = set(), set(range(model.head.out_features)) - set(request.tokenizer.texts)
        places, title = hidden[:MAX_HIDDEN_PLACES] or words[-1:], "What stands there"
    with torch.inference_mode():
        scores = model.head(model.features(*example.inputs)[0, places])
    names = example.written or example.tokens
    panels, notes = list[Panel](), list[str]()
    for at, row in zip(places, scores, strict=True):
        choices = choices_of(row, how, request.loaded, most=MAX_CHOICES, never=never, unnamed=unnamed)
        if not choices:
            raise Misuse("the model's scores are not finite numbers: run glassformer doctor RUN to find the cause")
        where = f"At token {at + 1}, {quoted(names[at])}" if example.stand is not None else f"After {quoted(names[at])}"
        panels.append(choices_panel(choices, request, where))
        notes.append(_openness(row, choices))
    return View(title, panels, notes[0])


def choices_panel(choices: list[Choice], request: LookRequest, title: str) -> Choices:
    """Return the likeliest tokens with their scores after temperature, top-k or top-p, and softmax."""
    how = request.sampling
    by = "1: greedy" if how.greedy else f"{how.temperature:g}"
    columns = ["score (logit)", f"(score − highest) ÷ {by}", " and ".join(_cuts(how)) or "nothing cut", "probability"]
    raw, lowest = [one.score for one in choices], min(one.tempered for one in choices)
    below = (1.1 * lowest, 0.0) if lowest < 0 else (-1.0, 0.0)
    values = [[one.score, one.tempered, -math.inf if one.pruned else one.tempered, one.drawn] for one in choices]
    tokens = [choice.token for choice in choices]
    return Choices(
        title=title,
        takeaway=leader("likeliest choice", list(map(quoted, tokens)), [choice.drawn for choice in choices]),
        name="token",
        rows=tokens,
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
    equally_likely = math.exp(float(torch.special.entr(logs.exp()).sum()))
    drawn = sum(choice.drawn for choice in choices)
    return sentence("openness", count=len(choices), drawn=drawn, equally_likely=equally_likely)


# --- the tree ---


@register_view(
    "tree",
    options=("beam", "length_penalty", *SAMPLING_OPTIONS, "samples", "tokens"),
    needs=lambda loaded: translates(loaded) or loaded.capability(PredictsNext) is not None,
)
def tree(request: LookRequest) -> View:
    how, text, loaded = request.sampling, str(request.text), request.loaded
    if not text.strip():
        raise Misuse("there is no text to look at")
    translated, samples = translates(loaded), SAMPLES if request.samples is None else request.samples
    if not 1 <= samples <= MAX_SAMPLES:
        raise Misuse(f"--samples is {samples}, but must lie between 1 and {MAX_SAMPLES}")
    if request.beam is not None and request.asks_for_sampling:
        raise Misuse("--beam shows a beam search, but --temperature, --top-k, --top-p and --samples sample: choose one")
    check_writing(how, tokens=request.tokens, beam=request.beam, seed=0)
    root = " ".join(request.tokenizer.shown(id) for id in request.tokenizer.roles.opening) if translated else text
    root = root if len(root) <= MAX_ROOT_CHARS else "…" + root[1 - MAX_ROOT_CHARS :]
    if request.beam is not None or (translated and not request.asks_for_sampling):
        return _beam_view(beam_tree(loaded, text, request.search, tokens=request.tokens), request, root)
    grown = sampling_tree(loaded, text, how, samples=samples, tokens=request.tokens)
    return _sampling_view(grown, request, root)


def _beam_view(grown: DecodingTree, request: LookRequest, root: str) -> View:
    beam, penalty, texts = request.search.beam, request.length_penalty, [text for _, text in grown.finished]
    decoded = [request.tokenizer.decode(text.ids) for text in texts]
    lengths = [len(text.ids) + text.ended for text in texts]
    search = Tree(
        title="The search",
        takeaway=f"{quoted(decoded[0])} wins" if texts else "",
        root=root,
        branches=_branches(grown, request),
        note=sentence("beam lines", beam=beam, next=ordinal(beam + 1)),
    )
    table = Table(
        title="The best texts",
        columns=["text", "sum of log-probabilities", "length (END counts)", f"length^{penalty:g}", "sum ÷ length^α"],
        rows=[
            [bare(words), text.score, length, max(1, length) ** penalty, text.rank(penalty)]
            for words, text, length in zip(decoded, texts, lengths, strict=True)
        ],
        note="The highest score wins. Dividing by length keeps long texts from losing only because they are long.",
    )
    return View("Beam search, token by token", [search, table], sentence("beam search", beam=beam))


def _sampling_view(grown: DecodingTree, request: LookRequest, root: str) -> View:
    how, texts = request.sampling, [text for _, text in grown.finished]
    different = counted(len({tuple(text.ids) for text in texts}), "different text")
    drawn = Tree(
        title="Sampled texts",
        takeaway=f"{different} from {counted(len(texts), 'seed')}",
        root=root,
        branches=_branches(grown, request),
        note=sentence("sampling lines"),
    )
    table = Table(
        title="What was written",
        takeaway=leader("likeliest text", list(map(str, range(len(texts)))), [text.score for text in texts]),
        columns=["seed", "text", "sum of log-probabilities"],
        rows=[[seed, bare(request.tokenizer.decode(text.ids)), text.score] for seed, text in enumerate(texts)],
    )
    at = ", ".join([f"temperature {how.temperature:g}", *_cuts(how)])
    return View("Sampling, token by token", [drawn, table], sentence("sampling", at=at))


def _branches(grown: DecodingTree, request: LookRequest) -> list[Branch]:
    out = []
    for node in grown.nodes:
        told = f"probability {chance(node.probability)}, sum of log-probabilities {figure(node.total)}"
        if node.drawn is not None:
            told += f", drawn with {chance(node.drawn)} after the cut"
        facts = {name: getattr(node, name) for name in ("id", "parent", "probability", "fate", "why")}
        out.append(Branch(token=request.tokenizer.shown(node.id), told=told, **facts))
    return out
