"""Which heads find links that somebody annotated."""

from glassformer.config.errors import Misuse
from glassformer.data.wording import counted
from glassformer.families.base import Loaded
from glassformer.inspection.attention import SOURCE_ATTENTION, sizes_of
from glassformer.inspection.links import LinkScores, link_scores, read_links
from glassformer.inspection.views.head_roles import attention_by_text
from glassformer.inspection.views.registry import register_view
from glassformer.inspection.views.request import LookRequest
from glassformer.rendering.panels import Grid, Table
from glassformer.rendering.view import View

BEST = 10
"""Heads in the table, at most."""


def _has_links(loaded: Loaded) -> bool:
    return loaded.tokenizer is not None and any(stack in SOURCE_ATTENTION for stack in sizes_of(loaded.model))


@register_view("links", options=("links",), texts="none", needs=_has_links)
def links(request: LookRequest) -> View:
    if request.links is None:
        raise Misuse("the view links needs links that somebody annotated: --links FILE")
    stack = next(stack for stack in sizes_of(request.model) if stack in SOURCE_ATTENTION)
    texts = read_links(request.links)
    seen = attention_by_text(request.loaded, (request.encode(one.text) for one in texts), stack)
    return links_view(link_scores(zip(texts, seen, strict=True), request.source_tokenizer))


def links_view(scores: LinkScores, *, title: str = "Heads that find the links") -> View:
    """The best heads beside those that always look at one place, and every head as a picture."""
    best = scores.ranking()[:BEST]
    rows: list[list[str | float | None]] = [
        [f"{layer}.{head}", float(scores.found[layer, head]), float(scores.weight[layer, head])] for layer, head in best
    ]
    rows += [["always the previous word", scores.previous, None], ["always the first word", scores.first, None]]
    layers, heads = scores.found.shape
    return View(
        title,
        [
            Table(
                title="The best heads",
                columns=["head", "found", "weight"],
                rows=rows,
                bars=["found", "weight"],
                note="found: links whose word gets more weight than any other word; weight: what it gets on average.",
            ),
            Grid(
                title="Links found",
                values=scores.found,
                rows=[str(layer) for layer in range(layers)],
                columns=[str(head) for head in range(heads)],
                row_name="layer",
                column_name="head",
                high=1.0,
                numbers=True,
                formula="part of the links that a head finds",
            ),
        ],
        note=_in_words(scores),
    )


def _in_words(scores: LinkScores) -> str:
    layer, head = scores.best
    words = (
        f"Head {layer}.{head} finds {_percent(scores.found[layer, head])} of {counted(scores.count, 'link')}; "
        f"always the previous word {_percent(scores.previous)}, always the first {_percent(scores.first)}"
    )
    if scores.turned:
        words += f". {counted(scores.turned, 'link')} to a later word, looked for from the later to the earlier"
    if scores.left_out:
        words += f". {counted(scores.left_out, 'link')} left out: words cut off, or no tokens here"
    return words + "."


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
