"""Tokenization of a text, merge by merge, and the training pairs that a language model learns from it."""

from collections.abc import Sequence
from itertools import accumulate, pairwise

from glassformer.data.packing.windows import training_pairs
from glassformer.data.wording import counted
from glassformer.inspection.views.registry import LookRequest, register_view
from glassformer.rendering.panels import Chips, Panel, Table
from glassformer.rendering.view import View
from glassformer.text.analysis import Merge, learned_merges, merges_of
from glassformer.text.display import cut, visible

FIRST = 30
"""Maximum number of learned merges that are shown."""


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
    )  # A truncated text does not end here.
    return pairs_view([*example.tokens, *end], between=" " if tokenizer.kind == "word" else "")


def merges_view(text: str, steps: Sequence[Merge], learned: Sequence[tuple[str, str]]) -> View:
    """Return the pieces of a text after every merge, and the first merges of the tokenizer, numbered from 1."""
    bytes_of = _bytes_of(steps)
    # The final token of each byte.
    tokens = [place for place, count in enumerate(bytes_of[-1]) for _ in range(count)]
    spans = [list(zip([0, *accumulate(counts)], counts, strict=False)) for counts in bytes_of]
    merged = [[place for place, span in enumerate(line) if span not in before] for before, line in pairwise(spans)]
    first = [(rank, _joined(pair), visible("".join(pair))) for rank, pair in enumerate(learned[:FIRST], 1)]
    start, end = counted(len(steps[0].pieces), "byte"), counted(len(steps[-1].pieces), "token")
    panels: list[Panel] = [
        Chips(
            title="Merge by merge",
            takeaway=f"{start} become {end} in {counted(len(steps) - 1, 'step')}",
            lines=[[visible(piece) for piece in step.pieces] for step in steps],
            names=[_name(step) for step in steps],
            groups=[[tokens[start] for start, _ in line] for line in spans],
            marked=[[], *merged],
            note="Pieces of one colour become one token; what has just been merged is darker.",
        ),
        Table(
            title="What was learned first",
            columns=("merge", "pair", "together"),
            rows=first,
            note=f"the first {len(first)} of {len(learned):,} merges",
        ),
    ]
    return View(f"“{cut(text, 60)}” merge by merge", panels)


def _bytes_of(steps: Sequence[Merge]) -> list[list[int]]:
    """Return the number of bytes of each piece, at every step; a new piece joins two earlier ones."""
    counts = [[1] * len(steps[0].ids)]
    for earlier, later in pairwise(steps):
        old = iter(zip(earlier.ids, counts[-1], strict=True))
        line = []
        for id in later.ids:
            was, count = next(old)
            line.append(count if was == id else count + next(old)[1])
        counts.append(line)
    return counts


def _name(step: Merge) -> str:
    return (
        "single bytes" if step.pair is None or step.rank is None else f"{_joined(step.pair)} (merge {step.rank + 1:,})"
    )


def _joined(pair: tuple[str, str]) -> str:
    return f"{visible(pair[0])} + {visible(pair[1])}"


def pairs_view(tokens: Sequence[str], *, between: str = "") -> View:
    """Return a table of the training pairs of one sentence: a prefix and the token that follows it."""
    pairs = training_pairs(tokens, between)
    rows = [(number, prefix, visible(answer)) for number, (prefix, answer) in enumerate(pairs, 1)]
    made = f"{counted(len(tokens), 'token')} make {counted(len(pairs), 'training pair')}"
    table = Table(title="Pairs", takeaway=made, columns=("pair", "given", "comes next"), rows=rows)
    return View("One sentence as its training pairs", [table])
