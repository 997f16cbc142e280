"""What each head does: its role in words and numbers, over texts or the validation part."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from glassformer.families.base import Loaded
from glassformer.families.evaluate import validation_examples
from glassformer.families.requests import ModelInput
from glassformer.inspection.attention import SELF_ATTENTION, attention_of, sizes_of
from glassformer.inspection.roles import ROLES, HeadRole, TextAttention, head_roles
from glassformer.inspection.views.registry import DECODING, register_view
from glassformer.inspection.views.request import LookRequest
from glassformer.rendering.panels import Grid, Heads, Panel, Table
from glassformer.rendering.view import View

HELD_OUT = 64
"""Texts of the validation part over which roles are measured."""


@register_view(
    "roles",
    options=DECODING,
    texts="any",
    needs=lambda loaded: any(stack in SELF_ATTENTION for stack in sizes_of(loaded.model)),
)
def roles(request: LookRequest) -> View:
    """Over the texts given, which are shown with what each head does, or over the validation part."""
    own = request.encode_all()
    examples = own or validation_examples(request.loaded, HELD_OUT, request.say)
    stacks = [stack for stack in sizes_of(request.model) if stack in SELF_ATTENTION]
    panels: list[Panel] = []
    notes = []
    for stack in stacks:
        heads = head_roles(attention_by_text(request.loaded, examples, stack))
        view = roles_view(heads)
        notes.append(view.note if len(stacks) == 1 else f"{stack.capitalize()}: {view.note}")
        panels += view.panels
        if len(own) == 1:
            weights = attention_of(request.model, own[0].inputs)[stack]
            rows, columns = own[0].sides[stack]
            panels.append(
                Heads(
                    title="In this text",
                    weights=weights,
                    rows=rows,
                    columns=columns,
                    names=names_of(heads),
                    mode="all",
                )
            )
    return View("What each head does", panels, " ".join(notes))


def attention_by_text(loaded: Loaded, examples: Iterable[ModelInput], stack: str) -> Iterator[TextAttention]:
    for example in examples:
        yield attention_of(loaded.model, example.inputs)[stack], _ids(example, stack)


def _ids(example: ModelInput, stack: str) -> list[int]:
    """What tells tokens apart; those that are no words are all different."""
    if stack == "target":
        written = example.inputs[2]
        assert written is not None
        ids: list[int] = written[0].tolist()
        return ids
    others = len(example.tokens) - len(example.ids)
    return [*range(-others, 0), *example.ids]


def names_of(roles: Sequence[Sequence[HeadRole]]) -> list[list[str]]:
    """What each head does in words, by layer and head."""
    return [[one.name for one in layer] for layer in roles]


def roles_view(roles: Sequence[Sequence[HeadRole]], *, title: str = "What each head does") -> View:
    """Every head's role in words and numbers, and all of them as one picture."""
    heads = [one for layer in roles for one in layer]
    even, counting = heads[0].even, list(heads[0].counts)
    labels = [f"{one.layer}.{one.head}" for one in heads]
    lines = [("spread evenly", "what such a head would score", even)]
    lines = [*((label, one.name, one.own) for label, one in zip(labels, heads, strict=True)), *lines]
    table = Table(
        title="Heads",
        columns=["head", "what it does", *counting, "distance", "tokens"],
        rows=[
            [label, words, *(of.shares[role] for role in counting), round(of.distance, 2), round(of.tokens, 2)]
            for label, words, of in lines
        ],
        bars=counting,
        note="Shares of a head's weights, averaged over tokens. distance: how far away it looks, in tokens; tokens: "
        "how many it looks at, exp of the entropy.",
    )
    grid = Grid(
        title="Where heads look",
        values=np.array([[of.shares[role] for role in counting] for _, _, of in lines]),
        rows=[*map(_called, heads), lines[-1][0]],
        columns=counting,
        row_name="head",
        column_name="looks at",
        high=1.0,
        numbers=True,
        formula="share of a head's weights, averaged over the tokens at which a role can be",
    )
    return View(title, [table, grid], note=_in_words(heads))


def _called(one: HeadRole) -> str:
    """0.3 looks at the previous token; without a role, its number alone."""
    return f"{one.layer}.{one.head}" + (f" {ROLES[one.role]}" if one.role is not None else "")


def _in_words(heads: Sequence[HeadRole]) -> str:
    """How many heads have which role, the most frequent first."""
    plain = Counter(one.role for one in heads if one.role is not None)
    listed = "; ".join(_counted(count, ROLES[role]) for role, count in plain.most_common())
    return (
        f"{sum(plain.values())} of {len(heads)} heads have a plain role{f': {listed}' if listed else ''}. "
        f"Measured at {heads[0].tokens:,} tokens."
    )


def _counted(count: int, does: str) -> str:
    """1 looks at itself, 2 look at itself."""
    verb, rest = does.split(" ", 1)
    return f"{count} {verb if count == 1 else verb.removesuffix('s')} {rest}"
