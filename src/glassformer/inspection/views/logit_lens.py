"""Logit lens: the predictions of a model from the vectors after each of its layers."""

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor, nn

from glassformer.bricks.capabilities import capability
from glassformer.config.arrays import Array
from glassformer.config.errors import Misuse
from glassformer.data.wording import counted
from glassformer.families.base import Loaded
from glassformer.families.requests import ModelInput
from glassformer.inspection.capture import INPUT, OUTPUT, vectors_by_layer
from glassformer.inspection.views.registry import DECODING, LookRequest, register_view, sentence
from glassformer.models.capabilities import LayerOutputs, ScoresTokens
from glassformer.models.inputs import words_of
from glassformer.rendering.panels import Guesses, Lines, Panel
from glassformer.rendering.takeaways import course, leaders, listed
from glassformer.rendering.view import View
from glassformer.text.display import quoted


def scores_tokens(loaded: Loaded) -> bool:
    """Return whether the head of a run's model scores tokens."""
    return loaded.capability(ScoresTokens) is not None


def has_lens(loaded: Loaded) -> bool:
    """Return whether the head can score the vectors after each layer."""
    return scores_tokens(loaded) and loaded.capability(LayerOutputs) is not None


@register_view("logit-lens", options=DECODING, quick=True, needs=has_lens)
def logit_lens(request: LookRequest) -> View:
    example = request.example
    seen = lens_of(request.model, example.inputs, answers=example.follows, never=request.never)
    return lens_view(guesses_panel(request.loaded, example, seen), chances=seen.chances, entropy=seen.entropy)


def guesses_panel(loaded: Loaded, example: ModelInput, seen: "Lens | None" = None) -> Guesses:
    """Return the likeliest tokens of every layer: the next ones, or those at each position of a masked model."""
    seen = lens_of(loaded.model, example.inputs, answers=example.follows) if seen is None else seen
    tokens, shown = example.written or example.tokens, loaded.output_tokenizer.shown
    return guesses_of(seen, tokens, shown, example.answers, at=example.stand is not None)


# --- predictions by layer ---


@dataclass(frozen=True)
class Lens:
    """The likeliest tokens after every layer at each token, and the rank and probability of the right one."""

    layers: list[str]
    ids: Int[Array, "L T k"]
    """The likeliest tokens, in descending order of probability."""
    probabilities: Float[Array, "L T k"]
    entropy: Float[Array, "L T"]
    """Entropy of the distribution, in nats."""
    ranks: Int[Array, "L T"]
    """Rank of the right token, from 1; 0 if it is unknown."""
    chances: Float[Array, "L T"]
    """Probability of the right token; NaN if it is unknown."""
    tied: bool = False
    """Whether the word vectors are the first layer and the head shares their weights."""

    def words(self, shown: Callable[[int], str]) -> list[list[list[str]]]:
        """Return the likeliest tokens as text, by layer and token."""
        return [[[shown(id) for id in place] for place in layer] for layer in self.ids.tolist()]


class Next(NamedTuple):
    """The likeliest next tokens after the last token."""

    ids: list[int]
    probabilities: list[float]


@torch.inference_mode()
def lens_of(
    model: nn.Module,
    inputs: Sequence[Any],
    *,
    most: int = 5,
    answers: Sequence[int | None] | None = None,
    never: Collection[int] = (),
) -> Lens:
    """Return the predictions after every layer for the first example of a batch, in a translator those of its decoder.

    `answers` holds the right token at each position, None if it is unknown; missing ones at the end are unknown. By
    default it is the next token of the input. Ids in `never`, such as START, are omitted from the likeliest tokens. The
    probabilities remain those of the model.
    """
    scorer = _scorer(model)
    written: list[int] = inputs[scorer.output_side().place][0].tolist()
    follows = list(written[1:] if answers is None else answers)
    if len(follows) > len(written):
        raise ValueError(f"{len(follows)} answers for {len(written)} tokens")
    follows += [None] * (len(written) - len(follows))
    layers = {name: _read(scores, follows, most, never) for name, scores in layer_scores(model, inputs)}
    ids, probabilities, entropy, ranks, chances = (np.stack(part) for part in zip(*layers.values(), strict=True))
    tied = INPUT in layers and is_tied(scorer)
    return Lens(list(layers), ids, probabilities, entropy, ranks, chances, tied)


def is_tied(model: ScoresTokens) -> bool:
    """Return whether the head shares its weights with the word vectors."""
    words = words_of(model.output_side().embed)
    return words is not None and model.head.weight is words.table.weight


@torch.inference_mode()
def layer_scores(model: nn.Module, inputs: Sequence[Any]) -> Iterator[tuple[str, Float[Tensor, "T V"]]]:
    """Yield the scores after every layer, one layer at a time to save memory; the last are those of the model.

    The vectors of a layer pass through the final norm, if there is one, and the head. Layers whose width does not fit
    the head are omitted. If the encoder or decoder changes the vectors of its last layer further, `output` is an
    additional layer.
    """
    scorer, layers = _scorer(model), capability(model, LayerOutputs)
    assert layers is not None
    side = scorer.output_side()
    mask = inputs[side.place + 1] if len(inputs) > side.place + 1 else None
    vectors = vectors_by_layer(layers, side.path, inputs)
    output = vectors.pop()[1]
    last: Tensor | None = None
    for name, x in vectors:
        if x.shape[-1] == scorer.head.in_features:
            last = side.encoder.final_norm(x, mask)
            yield name, scorer.head(scorer.ready(last))[0]
    if last is None or not torch.equal(last, output):
        yield OUTPUT, scorer.head(scorer.ready(output))[0]


@torch.inference_mode()
def next_of(model: nn.Module, inputs: Sequence[Any], *, most: int = 10, never: Collection[int] = ()) -> Next:
    """Return the likeliest tokens after the last one; ids in `never` are omitted."""
    scorer = _scorer(model)
    ids, probabilities, *_ = _read(scorer.head(scorer.features(*inputs)[0, -1:]), [None], most, never)
    return Next(ids[0].tolist(), probabilities[0].tolist())


def _scorer(model: nn.Module) -> ScoresTokens:
    if (scorer := capability(model, ScoresTokens)) is None:
        raise Misuse(f"the lens needs a head that scores the next token; {type(model).__name__} has none")
    return scorer


def _read(
    scores: Float[Tensor, "T V"], follows: Sequence[int | None], most: int, never: Collection[int]
) -> tuple[NDArray[Any], ...]:
    """Return the ids, probabilities, entropy, ranks and chances of one layer, as in `Lens`."""
    logs = scores.float().log_softmax(-1)
    left = logs.clone()
    left[:, list(never)] = -torch.inf
    best = left.topk(min(most, logs.shape[-1] - len(set(never))), -1)
    entropy = torch.special.entr(logs.exp()).sum(-1)
    known = torch.tensor([id is not None for id in follows], device=logs.device)
    answers = torch.tensor([id or 0 for id in follows], device=logs.device).unsqueeze(1)
    right = logs.gather(1, answers)
    ranks = (1 + (logs > right).sum(-1)).masked_fill(~known, 0)
    chances = right.squeeze(1).exp().masked_fill(~known, math.nan)
    return tuple(tensor.cpu().numpy() for tensor in (best.indices, best.values.exp(), entropy, ranks, chances))


# --- the views ---


def lens_view(
    guesses: Guesses, *, chances: Float[Array, "L T"] | None = None, entropy: Float[Array, "L T"] | None = None
) -> View:
    """Return the guesses, and charts of the right token's probability and the entropy, layer by layer.

    `chances` is NaN at tokens whose right token is unknown.
    """
    panels: list[Panel] = [guesses]
    if chances is not None and not np.isnan(chances).all():
        right = "the token that stands there" if guesses.at else "the token that did follow"
        mean = np.nanmean(chances, 1).tolist()
        title, takeaway = "Probability of the right token", f"The right token's probability {course(mean)}"
        note = f"mean over {counted(int((~np.isnan(chances[-1])).sum()), 'token')}"
        facts = {"title": title, "takeaway": takeaway, "y_name": "probability", "note": note}
        panels.append(Lines.by_layer(guesses.layers, [(right, mean)], **facts))
    if entropy is not None:
        y = entropy.mean(1).tolist()
        facts = {"title": "How undecided it is", "takeaway": f"The entropy {course(y, 'nats')}"}
        panels.append(Lines.by_layer(guesses.layers, [("entropy", y)], y_name="entropy (nats)", **facts))
    return View("What it would say after each layer", panels)


def guesses_of(
    seen: Lens,
    tokens: Sequence[str],
    shown: Callable[[int], str],
    answers: Sequence[str] | None = None,
    *,
    at: bool = False,
) -> Guesses:
    """Return the likeliest tokens of every layer as a panel; `at` marks guesses of the tokens themselves."""
    panel = Guesses(
        title=f"What it would {'guess' if at else 'say next'}, layer by layer",
        tokens=tokens,
        layers=seen.layers,
        guesses=seen.words(shown),
        probabilities=seen.probabilities,
        answers=answers,
        at=at,
        note=sentence("tied") if seen.tied else "",
    )
    return replace(panel, takeaway=_leads(panel))


def _leads(panel: Guesses) -> str:
    """Return a sentence about the layer from which the final guess leads.

    It is about the last token, or about the first masked one.
    """
    tokens, layers, guesses = panel.tokens, panel.layers, panel.guesses
    place = len(tokens) - 1
    if panel.at and panel.answers is not None:
        place = next((place for place, answer in enumerate(panel.answers) if not answer), place)
    if not len(tokens) or not len(guesses) or not guesses[-1][place]:
        return ""
    where, last = f"{'At' if panel.at else 'After'} {quoted(tokens[place])}", panel.probabilities[-1, place]
    first = leaders(last)
    if len(first) > 1:
        return f"{where}, {listed([quoted(guesses[-1][place][one]) for one in first])} are equally likely"
    token = guesses[-1][place][0]
    lead = [layer[place][:1] == [token] for layer in guesses]
    since = next(number for number in range(len(lead)) if all(lead[number:]))
    return f"{where}, {quoted(token)} leads from {layers[since]} on ({last[0]:.2f} in the end)"
