"""View of the roles of all heads; it includes relations such as antecedents if the data set annotates them."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from glassformer.data.datasets.embedded import open_dataset
from glassformer.families.evaluate import validation_examples
from glassformer.inspection.attention import SELF_ATTENTION, SOURCE_ATTENTION, attention_of, causal_stacks, sizes_of
from glassformer.inspection.views.head_roles import (
    ANY,
    IN_WORDS,
    HeadRole,
    attention_by_text,
    head_grid,
    head_name,
    head_roles,
    heads_panel,
    separators_of,
)
from glassformer.inspection.views.links import link_scores, linked_dataset, read_links
from glassformer.inspection.views.registry import DECODING, LookRequest, register_view, sentence
from glassformer.rendering.panels import Panel, Table
from glassformer.rendering.view import View

VALIDATION_TEXTS = 64
"""Maximum number of validation texts over which roles are measured."""


@register_view(
    "roles",
    options=DECODING,
    texts="any",
    needs=lambda loaded: any(stack in SELF_ATTENTION for stack in sizes_of(loaded.model)),
)
def roles(request: LookRequest) -> View:
    """Show the roles of heads in the given texts, or else in the validation set.

    A single text is also shown with the attention of each head.
    """
    own = request.encode_all()
    examples = own or validation_examples(request.loaded, VALIDATION_TEXTS)
    stacks = [stack for stack in sizes_of(request.model) if stack in SELF_ATTENTION]
    panels: list[Panel] = []
    for stack in stacks:
        separators = separators_of(request.loaded.tokenizer if stack in SOURCE_ATTENTION else request.tokenizer)
        heads = head_roles(attention_by_text(request.loaded, examples, stack), separators)
        heads = _with_relations(request, stack, heads)
        panels += role_panels(heads, f"{stack.capitalize()} · " if len(stacks) > 1 else "")
        if len(own) == 1:
            names, causal = [[head.name for head in layer] for layer in heads], stack in causal_stacks(request.model)
            weights, facts = attention_of(request.model, own[0].inputs)[stack], {"names": names, "mode": "all"}
            sides = own[0].sides[stack]
            panels.append(heads_panel("In this text", weights, sides, ANY, takeaway="", causal=causal, **facts))
    return View("What each head does", panels)


def _with_relations(request: LookRequest, stack: str, roles: list[list[HeadRole]]) -> list[list[HeadRole]]:
    """Return the heads with an additional role for each relation that the run's data set annotates."""
    data = linked_dataset(request.loaded)
    if stack not in SOURCE_ATTENTION or data is None or open_dataset(data).links is None:
        return roles
    texts = read_links(data)[:VALIDATION_TEXTS]
    seen = attention_by_text(request.loaded, (request.encode(linked.text) for linked in texts), stack)
    by_relation = link_scores(zip(texts, seen, strict=True), request.source_tokenizer)

    def with_relations(head: HeadRole) -> HeadRole:
        for relation, scores in by_relation.items():
            share = float(scores.weight[head.layer, head.head])
            head = head.with_role(relation, share, scores.even, scores.count)
        return head

    return [[with_relations(head) for head in layer] for layer in roles]


def role_panels(roles: Sequence[Sequence[HeadRole]], prefix: str = "") -> list[Panel]:
    """Return a table and a grid of the roles of all heads; `prefix` is the beginning of the titles."""
    heads = [head for layer in roles for head in layer]
    counting = list(heads[0].counts)
    lines = [(head_name(head.layer, head.head), head.name, head.own) for head in heads]
    lines.append(("spread evenly", "what such a head would score", heads[0].even))
    shares = [[of.shares[role] for role in counting] for _, _, of in lines]
    plain = [head for head in heads if head.role is not None]
    table = Table(
        title=f"{prefix}Heads, measured at {heads[0].tokens:,} tokens",
        takeaway=f"{len(plain)} of {len(heads)} heads have a plain role",
        columns=["head", "what it does", *counting, "distance", "tokens"],
        rows=[
            [label, words, *own, round(of.distance, 2), round(of.tokens, 2)]
            for (label, words, of), own in zip(lines, shares, strict=True)
        ],
        bars=counting,
        note=sentence("role columns"),
    )
    takeaway = "No head has a plain role"
    if plain:
        best = max(plain, key=lambda head: head.plainness(head.role or ""))
        takeaway = f"The plainest: head {head_name(best.layer, best.head)} {best.name}"
    formula = "share of a head's weights, averaged over the tokens at which a role can be"
    grid = head_grid(f"{prefix}Where heads look", np.array(shares), takeaway=takeaway, formula=formula)
    rows = [*map(_label, heads), lines[-1][0]]
    return [table, replace(grid, rows=rows, columns=counting, row_name="head", column_name="looks at")]


def _label(head: HeadRole) -> str:
    """Return a label such as `0.3 looks at the previous token`, or only the name of a head without a role."""
    return head_name(head.layer, head.head) + (f" {IN_WORDS[head.role]}" if head.role is not None else "")
