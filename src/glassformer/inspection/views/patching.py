"""Activation patching: insert the vector of one text, after a layer and at a token, into the pass over another text.

The vector carries the information that decides if the answer changes to that of the text from which it comes.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

from glassformer.bricks.capabilities import capability
from glassformer.bricks.pooling import KnownPool
from glassformer.config.arrays import Array
from glassformer.config.errors import Misuse
from glassformer.config.progress import may_stop
from glassformer.families.base import Loaded
from glassformer.families.requests import ModelInput
from glassformer.inspection.capture import INPUT, capture, numbers_of
from glassformer.inspection.change import replace
from glassformer.inspection.intervene import intervene
from glassformer.inspection.views.registry import LookRequest, leader, register_view, sentence
from glassformer.models.capabilities import HasDecoder, LayerOutputs, PoolsTokens, PredictsNext
from glassformer.rendering.panels import Grid, Table
from glassformer.rendering.takeaways import three
from glassformer.rendering.view import View
from glassformer.tasks.answers import Classes
from glassformer.text.display import quoted

BATCH_TOKENS = 2**14
"""Maximum number of tokens in a batch of patched passes."""
ROUNDING = 1e-5
"""Log-probabilities that differ by at most this much count as equal."""
MAX_NUMBERED_TOKENS = 24
"""Maximum number of tokens for which the cells of the grid show their numbers."""
MIN_SHARE, MIN_CARRYING_SHARE = 0.01, 0.5
"""Minimum share to report, and minimum share at which a vector carries the answer."""
ROUNDED_SHARE = 0.0005
"""Shares below this are rounding errors and are set to 0."""


def has_patches(loaded: Loaded) -> bool:
    """Return whether a run reads tokens, has known layers, and predicts a distribution of tokens or classes."""
    chooses = loaded.capability(PredictsNext) is not None or classes_of(loaded) is not None
    return chooses and loaded.tokenizer is not None and loaded.capability(LayerOutputs) is not None


def classes_of(loaded: Loaded) -> Classes | None:
    """Return the classes of a classifier; None for other runs."""
    return loaded.answers if isinstance(loaded.answers, Classes) else None


def restored(loaded: Loaded, a: ModelInput, b: ModelInput, answer: int) -> tuple[list[str], Float[Array, "L T"]]:
    """Return the names of the layers, and the share of the answer that each vector of `b` restores in `a`.

    The answer's log-probability differs between the texts. A share is the part of this difference that appears when one
    token of `a` gets the vector of `b` after one layer; 1 is the whole difference. All shares are 0 if the
    log-probabilities are equal.
    """
    states = _states(loaded, a, b)
    before, there = (chances_of(loaded, one.inputs)[0, answer] for one in (a, b))
    one_each = torch.eye(len(a.tokens), dtype=torch.bool)
    layers = [INPUT, *(f"layer {number}" for number in range(len(states) - 1))]
    gained = torch.stack([_patched(loaded, a.inputs, layer, one_each)[:, answer] - before for layer in states])
    if (there - before).abs() <= ROUNDING:
        return layers, np.zeros(gained.shape, np.float32)
    return layers, numbers_of(gained / (there - before))


@torch.inference_mode()
def chances_of(loaded: Loaded, inputs: Sequence[Any]) -> Float[Tensor, "B V"]:
    """Return the log-probabilities of the next token after the last one, or of the classes."""
    if (writer := loaded.capability(PredictsNext)) is not None:
        return writer.head(writer.features(*inputs)[:, -1]).float().log_softmax(-1)
    scores = loaded.model(*inputs).float()
    if scores.shape[-1] > 1:
        return scores.log_softmax(-1)
    return torch.cat([F.logsigmoid(-scores), F.logsigmoid(scores)], -1)


@torch.inference_mode()
def layer_states(model: nn.Module, inputs: Sequence[Any]) -> list[dict[str, Tensor]]:
    """Return the tensors before the first layer and after each layer, by the names that `intervene` accepts."""
    known = capability(model, LayerOutputs)
    if known is None or capability(model, HasDecoder) is not None:
        raise Misuse(f"{type(model).__name__} has no one encoder whose layers could be patched")
    layers = [[f"encoder.{name}" for name in names] for names in known.encoder.layer_outputs()]
    with capture(model, [name for names in layers for name in names]) as seen:
        model(*inputs)
        return [{name: seen[name] for name in names} for names in layers]


def reading_place(model: nn.Module, tokens: int) -> int | None:
    """Return the position of the token from which the answer is computed; None if all tokens contribute."""
    if capability(model, PredictsNext) is not None:
        return tokens - 1
    reader = capability(model, PoolsTokens)
    known = None if reader is None else capability(reader.pool, KnownPool)
    return None if known is None else {"last": tokens - 1, "first": 0}.get(known.kind)


def _states(loaded: Loaded, a: ModelInput, b: ModelInput) -> list[dict[str, Tensor]]:
    if len(a.tokens) != len(b.tokens):
        raise Misuse(
            f"the two texts must have as many tokens, not {len(a.tokens)} and {len(b.tokens)}: what one has at a "
            "token is put into the other at the same place"
        )
    return layer_states(loaded.model, b.inputs)


@torch.inference_mode()
def _patched(
    loaded: Loaded, inputs: Sequence[Any], states: Mapping[str, Tensor], chosen: Bool[Tensor, "R T"]
) -> Float[Tensor, "R V"]:
    """Return the log-probabilities of the answers per row, where the `chosen` tokens of the row have other states."""
    found = []
    for some in torch.split(chosen, max(1, BATCH_TOKENS // chosen.shape[1])):
        may_stop()
        rows = [one if one is None else one.expand(len(some), *one.shape[1:]) for one in inputs]
        with intervene(loaded, {name: replace(other, positions=some) for name, other in states.items()}):
            found.append(chances_of(loaded, rows))
    return torch.cat(found)


# --- the view ---


@register_view("patching", options=("versus",), needs=has_patches)
def patching(request: LookRequest) -> View:
    if request.versus is None:
        raise Misuse('the view patching needs a second text: look RUN "A" --versus "B" --view patching')
    loaded, a, b = request.loaded, request.example, request.encode(request.versus)
    before, there = chances_of(loaded, a.inputs), chances_of(loaded, b.inputs)
    classes = classes_of(loaded)
    allowed = there.clone()
    if classes is None:
        allowed[:, list(request.never)] = -torch.inf
    answer = int(allowed.argmax())
    layers, shares = restored(loaded, a, b, answer)
    return patching_view(
        [one if one == other else f"{one} → {other}" for one, other in zip(a.tokens, b.tokens, strict=True)],
        layers,
        shares,
        answer=request.tokenizer.shown(answer) if classes is None else classes.names[answer],
        chances=(float(before[0, answer].exp()), float(there[0, answer].exp())),
        reads=reading_place(loaded.model, len(a.tokens)),
    )


def patching_view(
    columns: Sequence[str],
    layers: Sequence[str],
    shares: Float[Array, "L T"],
    *,
    answer: str,
    chances: tuple[float, float],
    reads: int | None = None,
) -> View:
    """Return a grid of the shares and a table of the answer's probabilities.

    `chances` holds the probability of the answer in the first and in the second text. `reads` is the position of the
    token from which the answer is computed; None if all tokens contribute.
    """
    shares = np.where(np.abs(shares) < ROUNDED_SHARE, 0, shares)
    first, second = map(three, chances)
    answers = Table(
        title="the likeliest answer to the second text",
        takeaway=f"{quoted(answer)} has {first} in the first text, {second} in the second",
        columns=("answer", "first text", "second text"),
        rows=[(answer, *chances)],
        bars=("first text", "second text"),
    )
    grid = Grid(
        title="how much of the answer each vector brings along",
        takeaway=_carries(shares, columns, layers, reads),
        values=shares,
        rows=list(layers),
        columns=columns,
        row_name="layer",
        column_name="token",
        signed=True,
        numbers=len(columns) <= MAX_NUMBERED_TOKENS,
        formula="(log p with the vector - log p of the first text) / (log p of the second - log p of the first)",
        note="1: the first text answers as the second does; 0: nothing changes; below 0: the answer is less likely",
    )
    return View("Where the answer is held", [grid, answers])


def _carries(shares: Float[Array, "L T"], columns: Sequence[str], layers: Sequence[str], reads: int | None) -> str:
    """Return a sentence about the last layer after which a token other than `reads` still carries the answer."""
    if not shares.any():
        return "No vector changes the answer"
    elsewhere = shares.copy()
    if reads is not None:
        elsewhere[:, reads] = 0.0  # The whole answer arrives at this token in any case.
    start = int(len(layers) > 1)
    inside, names = elsewhere[start:], layers[start:]
    if inside.max() < MIN_SHARE:
        token = "no one vector" if reads is None else quoted(columns[reads])
        return sentence("all at one token", after=_after(names[0]), token=token)
    still = np.flatnonzero(inside.max(1) >= MIN_CARRYING_SHARE)
    at = int(still[-1]) if len(still) else int(inside.max(1).argmax())
    wording = "carries the answer" if len(still) else "brings most"
    percent = f"{inside[at].max():.0%}"
    return leader(wording, list(map(quoted, columns)), inside[at], after=_after(names[at]), percent=percent)


def _after(layer: str) -> str:
    return "At the input" if layer == INPUT else f"After {layer}"
