"""Head ablation: the loss with and without each attention head."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from torch import nn

from glassformer.config.errors import Misuse, unknown
from glassformer.config.progress import may_stop
from glassformer.families.evaluate import loss_on
from glassformer.inspection.attention import Head, heads_turn, sizes_of, without
from glassformer.inspection.views.head_roles import head_grid
from glassformer.inspection.views.registry import DECODING, LookRequest, leader, register_view, sentence
from glassformer.rendering.panels import Panel, Table
from glassformer.rendering.takeaways import three
from glassformer.rendering.view import View

MIN_CHANGE = 0.01
"""A head matters little if removing it raises the loss by less than this share."""


@register_view(
    "head-ablation",
    options=("ablate_heads", "answer", *DECODING),
    texts="any",
    needs=lambda loaded: heads_turn(loaded.model) and loaded.family.is_trained,
)
def head_ablation(request: LookRequest) -> View:
    heads = None if request.ablate_heads is None else parse_heads(request.ablate_heads, sizes_of(request.model))
    loss, what = loss_on(request.loaded, request.encode_all(), request.answer)
    return ablation_view(ablate_each(loss, request.model, heads), what=what)


@dataclass(frozen=True)
class HeadAblation:
    """The loss with all heads and without each one."""

    whole: float
    """Loss with all heads."""
    lacking: dict[Head, float]
    """Loss without each head."""

    def cost(self, head: Head) -> float:
        """Return how much the loss rises without a head; negative if it falls."""
        return self.lacking[head] - self.whole


def ablate_each(evaluate: Callable[[], float], model: nn.Module, heads: Iterable[Head] | None = None) -> HeadAblation:
    """Return the losses with each head switched off in turn.

    `evaluate` returns the loss of the model. `heads` are the heads to switch off; None for all.
    """
    whole = evaluate()
    lacking = {}
    for head in all_heads(sizes_of(model)) if heads is None else heads:
        may_stop()
        with without(model, [head]):
            lacking[head] = evaluate()
    return HeadAblation(whole, lacking)


def all_heads(stacks: Mapping[str, tuple[int, int]]) -> list[Head]:
    """Return every head of stacks with these numbers of layers and heads."""
    return [(stack, layer, head) for stack, sizes in stacks.items() for layer, head in np.ndindex(sizes)]


def ablation_view(ablation: HeadAblation, *, what: str = "loss") -> View:
    """Return a table of the heads in descending order of cost, and a grid of layers and heads per stack."""
    if not ablation.lacking:
        raise Misuse("no head was switched off: name one, such as 0.1")
    costs = {head: ablation.cost(head) for head in sorted(ablation.lacking, key=ablation.cost, reverse=True)}
    best, dearest = next(iter(costs.items()))
    facts = {"what": what, "before": three(ablation.whole), "after": three(ablation.lacking[best])}
    takeaway = leader("most missed", list(map(head_name, costs)), list(costs.values()), **facts)
    panels: list[Panel] = [
        Table(
            title="Without one head",
            takeaway=takeaway if dearest > 0 else sentence("no head is missed", what=what),
            columns=["head", f"{what} without it", "more than with all"],
            rows=[[head_name(head), ablation.lacking[head], cost] for head, cost in costs.items()],
            note=f"With all heads the {what} is {ablation.whole:.4f}.",
        )
    ]
    for stack in dict.fromkeys(stack for stack, _, _ in ablation.lacking):
        own = {(layer, head): cost for (other, layer, head), cost in costs.items() if other == stack}
        layers, heads = (sorted(set(places)) for places in zip(*own, strict=True))
        if len(own) == len(layers) * len(heads) > 1:
            values = np.array([[own[layer, head] for head in heads] for layer in layers])
            few = int((values < MIN_CHANGE * abs(ablation.whole)).sum())
            takeaway = f"{few} of {len(own)} heads cost less than {100 * MIN_CHANGE:.0f} %"
            title, formula = f"Cost of a head{'' if stack == 'self' else f' ({stack})'}", f"{what} without - with all"
            grid = head_grid(title, values, takeaway=takeaway, formula=formula)
            panels.append(replace(grid, high=None, signed=True))
    return View("What each head is worth", panels)


def head_name(head: Head) -> str:
    """Return the name of a head, such as `2.3`, or `cross:0.1` in a translator."""
    stack, layer, number = head
    return f"{layer}.{number}" if stack == "self" else f"{stack}:{layer}.{number}"


def parse_heads(text: str, stacks: Mapping[str, tuple[int, int]]) -> list[Head]:
    """Parse names of heads such as `0.1,2.3`, or `cross:0.1` in a translator.

    `stacks` has the numbers of layers and heads of each stack.
    """
    return list(dict.fromkeys(_parse_head(part.strip(), stacks) for part in text.split(",")))


def _parse_head(text: str, stacks: Mapping[str, tuple[int, int]]) -> Head:
    named, _, place = text.rpartition(":")
    if not named and len(stacks) > 1:
        choices = " or ".join(f"{name}:{text or '0.1'}" for name in stacks)
        raise Misuse(f"'{text}' could be a head of several attentions here: write {choices}")
    stack = named or next(iter(stacks))
    if stack not in stacks:
        raise Misuse(unknown("attention", stack, stacks))
    match = re.fullmatch(r"([0-9]+)\.([0-9]+)", place)
    if match is None:
        raise Misuse(f"'{text}' is no head: write LAYER.HEAD, counted from 0, such as 0.1, or several as 0.1,2.3")
    layer, head, (layers, heads) = int(match[1]), int(match[2]), stacks[stack]
    if layer >= layers or head >= heads:
        raise Misuse(f"there is no head {text}: this model has heads 0.0 to {layers - 1}.{heads - 1}")
    return stack, layer, head
