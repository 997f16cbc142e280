"""How a text becomes tokens, merge by merge, and how it becomes what a language model learns from."""

from collections.abc import Sequence

from glassformer.data.packing.windows import training_pairs
from glassformer.inspection.views.registry import LookRequest, register_view
from glassformer.rendering.panels import Panel, Table
from glassformer.rendering.view import View
from glassformer.text.display import cut, visible
from glassformer.text.merging import Merge, learned_merges, merges_of

FIRST = 30
"""Merges of the whole tokenizer that are shown."""


@register_view("merges", needs=lambda loaded: loaded.tokenizer is not None and loaded.tokenizer.kind == "bpe")
def merges(request: LookRequest) -> View:
    text, tokenizer = str(request.text), request.source_tokenizer
    return merges_view(text, merges_of(tokenizer, text), learned_merges(tokenizer))


@register_view("pairs", needs=lambda loaded: loaded.family.predicts_next)
def pairs(request: LookRequest) -> View:
    tokenizer, example = request.tokenizer, request.example
    is_whole = len(example.ids) == len(tokenizer.encode(example.text)) + (tokenizer.start is not None)
    end = (
        [] if tokenizer.end is None or not is_whole else [tokenizer.shown(tokenizer.end)]
    )  # a text that is cut goes on
    return pairs_view([*example.tokens, *end], between=" " if tokenizer.kind == "word" else "")


def merges_view(text: str, steps: Sequence[Merge], learned: Sequence[tuple[str, str]]) -> View:
    """A text after every merge, and the first of all merges that were learned. Merges count from 1, in their order."""
    rows: list[tuple[int, int | None, str, str]] = [
        (
            number,
            None if step.rank is None else step.rank + 1,
            "single bytes" if step.pair is None else _joined(step.pair),
            "|".join(map(visible, step.pieces)),
        )
        for number, step in enumerate(steps)
    ]
    first = [(rank, _joined(pair), visible("".join(pair))) for rank, pair in enumerate(learned[:FIRST], 1)]
    panels: list[Panel] = [
        Table(title="Merge by merge", columns=("step", "merge", "pair", "pieces"), rows=rows),
        Table(
            title="What was learned first",
            columns=("merge", "pair", "together"),
            rows=first,
            note=f"the first {len(first)} of {len(learned):,} merges",
        ),
    ]
    start, end = len(steps[0].pieces), len(steps[-1].pieces)
    note = f"{start} bytes become {end} {'token' if end == 1 else 'tokens'} in {len(steps) - 1} steps."
    return View(f"“{cut(text, 60)}” merge by merge", panels, note)


def _joined(pair: tuple[str, str]) -> str:
    return f"{visible(pair[0])} + {visible(pair[1])}"


def pairs_view(tokens: Sequence[str], *, between: str = "") -> View:
    """What a language model learns from one sentence."""
    pairs = training_pairs(tokens, between)
    rows = [(number, prefix, visible(answer)) for number, (prefix, answer) in enumerate(pairs, 1)]
    table = Table(columns=("pair", "given", "comes next"), rows=rows)
    note = f"{len(tokens)} tokens make {len(pairs)} training {'pair' if len(pairs) == 1 else 'pairs'}."
    return View("One sentence as its training pairs", [table], note)
