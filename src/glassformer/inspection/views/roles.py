"""The view of what each head does: in words, in numbers, and where the data set knows whom pronouns mean, that too."""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from glassformer.data.datasets.embedded import open_dataset
from glassformer.families.evaluate import validation_examples
from glassformer.inspection.attention import SELF_ATTENTION, SOURCE_ATTENTION, attention_of, causal_stacks, sizes_of
from glassformer.inspection.views.head_roles import (
    IN_WORDS,
    HeadRole,
    attention_by_text,
    head_roles,
    names_of,
    separators_of,
)
from glassformer.inspection.views.links import link_scores, linked_dataset, read_links
from glassformer.inspection.views.registry import DECODING, LookRequest, register_view
from glassformer.rendering.panels import Grid, Heads, Panel, Table
from glassformer.rendering.view import View

HELD_OUT = 64
"""Texts over which roles are measured."""


@register_view(
    "roles",
    options=DECODING,
    texts="any",
    needs=lambda loaded: any(stack in SELF_ATTENTION for stack in sizes_of(loaded.model)),
)
def roles(request: LookRequest) -> View:
    """The roles over the texts given, which are shown with what each head does, or over the validation part."""
    own = request.encode_all()
    examples = own or validation_examples(request.loaded, HELD_OUT, request.say)
    stacks = [stack for stack in sizes_of(request.model) if stack in SELF_ATTENTION]
    panels: list[Panel] = []
    notes = []
    for stack in stacks:
        separators = separators_of(request.loaded.tokenizer if stack in SOURCE_ATTENTION else request.tokenizer)
        heads = head_roles(attention_by_text(request.loaded, examples, stack), separators)
        heads = _with_relations(request, stack, heads)
        view = roles_view(heads)
        notes.append(view.note if len(stacks) == 1 else f"{stack.capitalize()}: {view.note}")
        panels += view.panels
        if len(own) == 1:
            rows, columns = own[0].sides[stack]
            panels.append(
                Heads(
                    title="In this text",
                    takeaway=_plainest([head for layer in heads for head in layer]),
                    weights=attention_of(request.model, own[0].inputs)[stack],
                    rows=rows,
                    columns=columns,
                    names=names_of(heads),
                    causal=stack in causal_stacks(request.model),
                    mode="all",
                )
            )
    return View("What each head does", panels, " ".join(notes))


def _with_relations(request: LookRequest, stack: str, roles: list[list[HeadRole]]) -> list[list[HeadRole]]:
    """Add a role for each relation that the run's data set has links for."""
    data = linked_dataset(request.loaded)
    if stack not in SOURCE_ATTENTION or data is None or open_dataset(data).links is None:
        return roles
    texts = read_links(data)[:HELD_OUT]
    seen = attention_by_text(request.loaded, (request.encode(linked.text) for linked in texts), stack)
    for relation, scores in link_scores(zip(texts, seen, strict=True), request.source_tokenizer).items():
        roles = [
            [
                head.with_role(relation, float(scores.weight[head.layer, head.head]), scores.even, scores.count)
                for head in layer
            ]
            for layer in roles
        ]
    return roles


def roles_view(roles: Sequence[Sequence[HeadRole]], *, title: str = "What each head does") -> View:
    """Every head's role in words and numbers, and all of them as one picture."""
    heads = [head for layer in roles for head in layer]
    even, counting = heads[0].even, list(heads[0].counts)
    lines = [(f"{head.layer}.{head.head}", head.name, head.own) for head in heads]
    lines.append(("spread evenly", "what such a head would score", even))
    table = Table(
        title="Heads",
        takeaway=f"{sum(head.role is not None for head in heads)} of {len(heads)} heads have a plain role",
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
        takeaway=_plainest(heads),
        values=np.array([[of.shares[role] for role in counting] for _, _, of in lines]),
        rows=[*map(_label, heads), lines[-1][0]],
        columns=counting,
        row_name="head",
        column_name="looks at",
        high=1.0,
        numbers=True,
        formula="share of a head's weights, averaged over the tokens at which a role can be",
    )
    return View(title, [table, grid], note=_in_words(heads))


def _label(head: HeadRole) -> str:
    """0.3 looks at the previous token; without a role, its number alone."""
    return f"{head.layer}.{head.head}" + (f" {IN_WORDS[head.role]}" if head.role is not None else "")


def _plainest(heads: Sequence[HeadRole]) -> str:
    plain = [(head, head.plainness(head.role)) for head in heads if head.role is not None]
    if not plain:
        return "No head has a plain role"
    head = max(plain, key=lambda pair: pair[1])[0]
    return f"The plainest: head {head.layer}.{head.head} {head.name}"


def _in_words(heads: Sequence[HeadRole]) -> str:
    """How many heads have which role, the most frequent first."""
    plain = Counter(head.role for head in heads if head.role is not None)
    listed = "; ".join(_counted(count, IN_WORDS[role]) for role, count in plain.most_common())
    far = sum(head.is_long_range for head in heads)
    others = f" Of the others, {far} {'is' if far == 1 else 'are'} long range." if far else ""
    return (
        f"{sum(plain.values())} of {len(heads)} heads have a plain role{f': {listed}' if listed else ''}.{others} "
        f"Measured at {heads[0].tokens:,} tokens."
    )


def _counted(count: int, does: str) -> str:
    """1 looks at itself, 2 look at itself."""
    verb, rest = does.split(" ", 1)
    return f"{count} {verb if count == 1 else verb.removesuffix('s')} {rest}"
