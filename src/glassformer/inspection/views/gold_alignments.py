"""Gold alignments of translations, and how well the heads of cross-attention agree with them.

A file has a sentence pair per line with its alignment in Pharaoh format, `source ||| target ||| 0-0 1-2`; tabs may take
the place of `|||`. Words are separated by whitespace and counted from 0. `1-2` is a sure link from source word 1 to
target word 2, `1?2` or `1p2` a possible one.

A head aligns each target word with the source word that gets the most weight while the target word is written. START
and END belong to no word. A is the set of a head's links, S the set of sure links, P that of sure and possible links.
The scores are those of Och and Ney (2003): precision = |A ∩ P| / |A|, recall = |A ∩ S| / |S|, and the alignment error
rate AER = 1 − (|A ∩ S| + |A ∩ P|) / (|A| + |S|).
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from glassformer.config.arrays import Array
from glassformer.config.errors import DataError
from glassformer.data.datasets.dataset import Alignment
from glassformer.data.io.reading import numbered_lines
from glassformer.data.wording import counted
from glassformer.inspection.views.head_roles import TextAttention, head_grid, head_name
from glassformer.inspection.views.registry import sentence
from glassformer.rendering.panels import Cell, Table
from glassformer.rendering.view import View
from glassformer.text.alignment import tokens_of
from glassformer.text.tokenizer import Tokenizer

FORM = "source ||| target ||| 0-0 1-2"
LINK = re.compile(r"(\d+)([-?p])(\d+)")
MAX_HEADS = 10
"""Heads in the table."""


# --- reading ---


def read_alignments(path: Path) -> list[Alignment]:
    """Read the sentence pairs of a file, each with its gold alignment."""
    lines = numbered_lines(path, "utf-8")
    pairs = [_read_line(line, f"{path}, line {number:,}") for number, line in lines if line.strip()]
    if not any(pair.sure for pair in pairs):
        raise DataError(f"{path} holds no sure alignment link: write lines such as {FORM}")
    return pairs


def _read_line(line: str, where: str) -> Alignment:
    fields = [field.strip() for field in re.split(r"\|\|\|" if "|||" in line else "\t", line.strip("\r\n"))]
    if len(fields) != 3:
        has = f"this line has {counted(len(fields), 'field')}"
        raise DataError(f"{where}: write three fields with ||| or tabs between them, as in {FORM}; {has}")
    source_spans, target_spans = (tuple(word.span() for word in re.finditer(r"\S+", text)) for text in fields[:2])
    if not source_spans or not target_spans:
        raise DataError(f"{where}: the {'target' if source_spans else 'source'} is empty")
    sure, possible = set[tuple[int, int]](), set[tuple[int, int]]()
    for link in fields[2].split():
        parts = LINK.fullmatch(link)
        if parts is None:
            raise DataError(f"{where}: '{link}' is not a link such as 0-2 (sure) or 0?2 (possible)")
        pair = int(parts[1]), int(parts[3])
        if pair[0] >= len(source_spans) or pair[1] >= len(target_spans):
            has = f"{counted(len(source_spans), 'word')} in the source, {len(target_spans)} in the target"
            raise DataError(f"{where}: '{link}' is out of range: there are {has}, counted from 0")
        (sure if parts[2] == "-" else possible).add(pair)
    return Alignment(
        source=fields[0],
        target=fields[1],
        source_spans=source_spans,
        target_spans=target_spans,
        sure=frozenset(sure),
        possible=frozenset(possible),
    )


# --- scoring ---


class AlignmentQuality(NamedTuple):
    """Agreement with the gold alignments: of one aligner, or of every head as L×h arrays."""

    aer: Any
    precision: Any
    recall: Any


@dataclass(frozen=True)
class AlignmentScores:
    """Agreement of the heads with the gold alignments, beside two baselines."""

    heads: AlignmentQuality
    weight: Float[Array, "L h"]
    """Weight on the source words of the sure links, averaged over the target words that have such a link."""
    mean_of_heads: AlignmentQuality
    """Agreement of the weights averaged over all heads."""
    diagonal: AlignmentQuality
    even: float
    """`weight` of a head that spreads its weights evenly over the source tokens."""
    pairs: int
    links: int
    """Sure links."""
    left_out: int
    """Words that were cut off, or that have no token."""

    def ranking(self) -> list[tuple[int, int]]:
        """Return layer and head of every head, the lowest error rate first."""
        aer, _, recall = self.heads
        heads = [(layer, head) for layer, head in np.ndindex(aer.shape)]
        return sorted(heads, key=lambda at: (aer[at], -recall[at]))


def alignment_scores(
    pairs: Iterable[tuple[Alignment, TextAttention]], source_tokenizer: Tokenizer, target_tokenizer: Tokenizer
) -> AlignmentScores:
    """Score cross-attention for pairs, each with its weights and its source ids."""
    sure_hits: Any = 0  # of every head, of the mean of all heads, and of the diagonal
    possible_hits: Any = 0
    weight: Any = 0.0
    even = 0.0
    count = links = made = linked = left_out = 0
    for pair, (weights, ids) in pairs:
        sources = [span.places for span in tokens_of(pair.source_spans, pair.source, source_tokenizer, ids)]
        targets = [span.places for span in tokens_of(pair.target_spans, pair.target, target_tokenizer)]
        read = [number for number, places in enumerate(sources) if places]
        written = [number for number, places in enumerate(targets) if places and places[-1] < weights.shape[-2]]
        left_out += len(sources) - len(read) + len(targets) - len(written)
        sure = _matrix(pair, pair.sure)[np.ix_(read, written)]
        if not sure.any():
            continue
        possible = _matrix(pair, pair.sure | pair.possible)[np.ix_(read, written)]
        words = word_weights(weights, [targets[number] for number in written], [sources[number] for number in read])
        *size, targets_seen, sources_seen = words.shape
        diagonal = (np.arange(targets_seen) + 0.5) * sources_seen // targets_seen
        aligned = np.vstack([words.argmax(-1).reshape(-1, targets_seen), words.mean((0, 1)).argmax(-1), diagonal])
        made_links = aligned.astype(np.int64), np.arange(targets_seen)
        sure_hits = sure_hits + sure[made_links].sum(-1)
        possible_hits = possible_hits + possible[made_links].sum(-1)
        made += targets_seen
        links += int(sure.sum())
        weight = weight + (words * sure.T).sum((-2, -1))
        even += float((np.array([len(sources[number]) for number in read]) @ sure).sum()) / len(ids)
        linked += int(sure.any(0).sum())
        count += 1
    if not count:
        raise DataError("no gold link could be scored: the words were cut off, or have no tokens")
    of_all = 1 - (sure_hits + possible_hits) / (made + links), possible_hits / made, sure_hits / links
    return AlignmentScores(
        heads=AlignmentQuality(*(each[:-2].reshape(size) for each in of_all)),
        weight=weight / linked,
        mean_of_heads=AlignmentQuality(*(float(each[-2]) for each in of_all)),
        diagonal=AlignmentQuality(*(float(each[-1]) for each in of_all)),
        even=even / linked,
        pairs=count,
        links=links,
        left_out=left_out,
    )


def word_weights(
    weights: Float[Array, "*heads T S"], targets: Sequence[Sequence[int]], sources: Sequence[Sequence[int]]
) -> Float[Array, "*heads J I"]:
    """Return the weights between words: summed over the source word's tokens, averaged over the target word's."""
    columns = np.stack([weights[..., list(places)].sum(-1, dtype=np.float64) for places in sources], -1)
    return np.stack([columns[..., list(places), :].mean(-2) for places in targets], -2)


def _matrix(pair: Alignment, links: Iterable[tuple[int, int]]) -> Bool[Array, "I J"]:
    matrix = np.zeros((len(pair.source_spans), len(pair.target_spans)), bool)
    for link in links:
        matrix[link] = True
    return matrix


# --- the view ---


def alignments_view(scores: AlignmentScores) -> View:
    """Return a table of the best heads and the baselines, and the error rate of every head."""
    aer, precision, recall = scores.heads
    columns = {"AER": aer, "precision": precision, "recall": recall, "weight": scores.weight}
    ranking = scores.ranking()
    rows: list[list[Cell]] = [
        [head_name(*head), *(float(values[head]) for values in columns.values())] for head in ranking[:MAX_HEADS]
    ]
    rows += [
        ["mean of all heads", *scores.mean_of_heads, float(scores.weight.mean())],
        ["always the diagonal", *scores.diagonal, None],
        ["spread evenly", None, None, None, scores.even],
    ]
    table = Table(
        title="The best heads",
        takeaway=sentence("lowest error rate", head=head_name(*ranking[0]), aer=aer[ranking[0]]),
        columns=["head", *columns],
        rows=rows,
        bars=list(columns),
        note="AER: alignment error rate, 0 is best; weight: average attention weight on the right source words.",
    )
    better = f"{int((aer < scores.diagonal.aer).sum())} of {counted(aer.size, 'head')}"
    takeaway = f"{better} beat the diagonal ({scores.diagonal.aer:.1%})"
    formula = "AER = 1 − (|A ∩ S| + |A ∩ P|) / (|A| + |S|)"
    grid = head_grid("Alignment error rate", aer, takeaway=takeaway, formula=formula)
    return View("Heads that find the alignment", [table, grid], note=sentence("alignment", scores=scores))
