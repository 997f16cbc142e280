"""Annotated links between words, and the heads that find them.

A file of links has a JSON object per line, such as `{"text": "mara met tobin . he fishes", "links": [[4, 2]]}`. Words
are separated by whitespace and counted from 0. Here, word 4 should attend to word 2. Links of several relations have
names: `"links": {"subject": [[1, 0]], "object": [[1, 2]]}`. Every relation is scored separately.

A link is measured from the last token of its first word to all tokens of its second word. Final tokens without a letter
or digit, such as commas, are skipped if possible. A head finds the link if the second word gets more weight than every
other word of the text. START, END and blanks are not part of a word. In a causal model, a link to a later word is
scored from the later word to the earlier one. Links of words that were cut off, or that have no token, are left out and
counted.

A file of gold alignments scores the cross-attention of a translator. It has a sentence pair per line with its alignment
in Pharaoh format, `source ||| target ||| 0-0 1-2`, with `|||` or tabs as separators. Words are separated by whitespace
and counted from 0. `1-2` is a sure link from source word 1 to target word 2, `1?2` or `1p2` a possible one.

A head aligns each target word with the source word that gets the most weight while the target word is generated. START
and END are not part of a word. A is the set of a head's links, S the set of sure links, and P the set of sure and
possible links. The scores are those of Och and Ney (2003):

- precision = |A ∩ P| / |A|
- recall = |A ∩ S| / |S|
- alignment error rate AER = 1 − (|A ∩ S| + |A ∩ P|) / (|A| + |S|)
"""

import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from glassformer.config.arrays import Array
from glassformer.config.errors import DataError, Misuse
from glassformer.config.limits import parse_json
from glassformer.config.messages import listening, say
from glassformer.data.datasets.dataset import Alignment, Relations
from glassformer.data.datasets.embedded import LINKED_DATASETS, open_dataset
from glassformer.data.io.place import find
from glassformer.data.io.reading import numbered_lines
from glassformer.data.wording import counted
from glassformer.families.base import Loaded
from glassformer.families.requests import ModelInput
from glassformer.inspection.attention import SOURCE_ATTENTION, sizes_of
from glassformer.inspection.views.head_roles import (
    TextAttention,
    attention_by_text,
    check_sizes,
    head_grid,
    head_name,
    visible_to,
)
from glassformer.inspection.views.registry import LookRequest, register_view, sentence
from glassformer.rendering.panels import Cell, Grid, Panel, Table
from glassformer.rendering.view import View
from glassformer.text.alignment import tokens_of
from glassformer.text.tokenizer import Tokenizer

FORM = '{"text": "mara met tobin . he fishes", "links": [[4, 2]]}'
ALIGNMENT_FORM = "source ||| target ||| 0-0 1-2"
ALIGNMENT_LINK = re.compile(r"(\d+)([-?p])(\d+)")
CROSS = "cross"
"""The stack of attention from a translation to its source."""
MAX_HEADS = 10
"""Maximum number of heads in a table."""


@register_view(
    "links",
    options=("links",),
    texts="none",
    needs=lambda loaded: (
        loaded.tokenizer is not None and any(stack in (*SOURCE_ATTENTION, CROSS) for stack in sizes_of(loaded.model))
    ),
)
def links(request: LookRequest) -> View:
    annotated = request.links or linked_dataset(request.loaded)
    if annotated is None:
        raise Misuse("the view links needs annotated links: --links FILE")
    stacks = sizes_of(request.model)
    if (pairs := read_gold_alignments(annotated)) is not None:
        if CROSS not in stacks:
            raise Misuse(f"{request.loaded.run.path} has no cross-attention: gold alignments are for translators")
        seen = zip(pairs, _attention(request, ((pair.source, pair.target) for pair in pairs), CROSS), strict=True)
        return alignments_view(alignment_scores(seen, request.source_tokenizer, request.tokenizer))
    stack = next((stack for stack in stacks if stack in SOURCE_ATTENTION), None)
    if stack is None:
        raise Misuse(f"{request.loaded.run.path} has no self-attention: give gold alignments, as in --links dates")
    texts = read_links(annotated)
    attention = _attention(request, ((linked.text, request.translation) for linked in texts), stack)
    return links_view(link_scores(zip(texts, attention, strict=True), request.source_tokenizer))


def linked_dataset(loaded: Loaded) -> str | None:
    """Return the training data of a run if it is a built-in data set with links, else None."""
    data = loaded.config.data.path or ""
    return data if data.partition(":")[0] in LINKED_DATASETS and find(data) is None else None


def _attention(request: LookRequest, examples: Iterable[tuple[str, str | None]], stack: str) -> Iterator[TextAttention]:
    """Yield the attention of a stack for each text, with its translation if there is one."""
    remarks: list[str] = []  # Only the first remark is printed, because there may be one per text.

    def encode(text: str, translation: str | None) -> ModelInput:
        with listening(remarks.append):
            return replace(request, translation=translation).encode(text)

    encoded = (encode(*example) for example in examples)
    yield from attention_by_text(request.loaded, encoded, stack)
    for remark in remarks[:1]:
        more = f" (and {len(remarks) - 1:,} more such remarks)" if len(remarks) > 1 else ""
        say(f"{remark}{more}")


@dataclass(frozen=True)
class LinkedText:
    """A text with annotated links between its words."""

    text: str
    links: Relations
    """Pairs of word indices (from, to) by relation; "" is the relation of links without a name."""

    def named_links(self) -> list[tuple[str, int, int]]:
        """Return the relation and both word indices (from, to) of every link."""
        return [(relation, *pair) for relation, pairs in self.links.items() for pair in pairs]


# --- reading ---


def read_gold_alignments(path_or_name: str | os.PathLike[str]) -> list[Alignment] | None:
    """Return the gold alignments of a file or of a built-in data set (`dates`); None if it has no gold alignments."""
    name = os.fspath(path_or_name)
    if (path := find(name)) is None:
        alignments = open_dataset(name).alignments
        return None if alignments is None else list(alignments())
    if path.is_dir():
        return None
    first = next((line for _, line in numbered_lines(path, "utf-8") if line.strip()), FORM)
    is_json = first.lstrip().startswith("{")
    return read_alignments(path) if not is_json and ("|||" in first or "\t" in first) else None


def read_links(path_or_name: str | os.PathLike[str]) -> list[LinkedText]:
    """Return the links of a .jsonl file, or of a built-in data set with links (`pronouns`, `pronouns:seed=7`)."""
    name = os.fspath(path_or_name)
    path = find(name)
    if path is not None:
        return _of_file(path)
    links = open_dataset(name).links
    if links is None:
        others = ", ".join(LINKED_DATASETS)
        raise DataError(f"the data set '{name}' has no links: use {others}, or a .jsonl file of links")
    return [LinkedText(text, relations) for text, relations in links()]


def _of_file(path: Path) -> list[LinkedText]:
    if path.is_dir():
        raise DataError(f"{path} is a folder: links come from a .jsonl file, a line such as {FORM}")
    lines = numbered_lines(path, "utf-8")
    linked = [_read_line(line, f"{path}, line {number:,}") for number, line in lines if line.strip()]
    relations = {relation for text in linked for relation, _, _ in text.named_links()}
    if not relations:
        raise DataError(f"{path} holds no links: write a line such as {FORM}")
    if "" in relations and len(relations) > 1:
        raise DataError(f"{path}: some links name their relation and some do not; name it in all lines, or in none")
    return linked


def _read_line(line: str, where: str) -> LinkedText:
    try:
        value: Any = parse_json(line, where)
        text, links = value["text"], value["links"]
        text.encode()
    except (AttributeError, LookupError, TypeError, ValueError):
        raise _not_links(line, where) from None
    relations = links if isinstance(links, dict) else {"": links}
    words = len(text.split())
    if not words or not all(isinstance(pairs, list) and all(map(_is_pair, pairs)) for pairs in relations.values()):
        raise _not_links(line, where)
    for first, second in (pair for pairs in relations.values() for pair in pairs):
        if not 0 <= min(first, second) < max(first, second) < words:
            has = f"{counted(words, 'word')}, counted from 0"
            raise DataError(f"{where}: [{first}, {second}] must name two different words of the text, which has {has}")
    return LinkedText(text, {name: [(first, second) for first, second in pairs] for name, pairs in relations.items()})


def _is_pair(link: Any) -> bool:
    return isinstance(link, list) and len(link) == 2 and all(type(place) is int for place in link)


def _not_links(line: str, where: str) -> DataError:
    return DataError(f"{where}: write a line such as {FORM}, not {line.strip()[:60]}")


# --- scoring ---


@dataclass(frozen=True)
class LinkScores:
    """Scores of all heads for the links of a relation, with trivial baselines."""

    found: Float[Array, "L h"]
    """Share of the links that each head finds."""
    weight: Float[Array, "L h"]
    """Average weight of each head on the right word."""
    count: int
    """Number of scored links."""
    previous: float
    """Share of the links that a head finds if it always attends to the previous word."""
    first: float
    """Share of the links that a head finds if it always attends to the first word."""
    turned: int
    """Number of links to a later, hidden word, which are scored from the later word to the earlier one."""
    even: float
    """Average weight on the right word of a head that spreads its weights evenly over all visible tokens."""
    left_out: int
    """Number of links of words that were cut off or have no token."""

    def ranking(self) -> list[tuple[int, int]]:
        """Return layer and number of every head, by share of links found and then by weight, in descending order."""
        heads = [(layer, head) for layer, head in np.ndindex(self.found.shape)]
        return sorted(heads, key=lambda at: (-self.found[at], -self.weight[at]))


class _Link(NamedTuple):
    """Measurements of one link; `LinkScores` has their averages."""

    found: Bool[Array, "L h"]
    weight: Float[Array, "L h"]
    previous: bool
    first: bool
    turned: bool
    even: float


def _averages(links: Sequence[_Link | None]) -> LinkScores:
    """Average over the links of a relation; None denotes a link that was left out."""
    scored = [link for link in links if link is not None]
    left_out = len(links) - len(scored)
    if not scored:
        raise DataError(
            f"none of the {left_out:,} links could be scored: their words were cut off, or have no tokens here"
        )
    found, weight, *means = (np.mean(values, 0) for values in zip(*scored, strict=True))
    previous, first, _, even = map(float, means)
    turned = sum(link.turned for link in scored)
    return LinkScores(found, weight, len(scored), previous, first, turned, even, left_out)


def link_scores(texts: Iterable[tuple[LinkedText, TextAttention]], tokenizer: Tokenizer) -> dict[str, LinkScores]:
    """Return the scores of each relation for texts with their attention."""
    by_relation = defaultdict[str, list[_Link | None]](list)
    for linked, (weights, ids) in texts:
        check_sizes(weights, ids)
        words = words_of(linked.text, tokenizer, ids)
        ahead = bool(visible_to(weights).all())
        for relation, source, target in linked.named_links():
            if not words[source] or not words[target]:
                by_relation[relation].append(None)
                continue
            turned = target > source and not ahead
            source, target = (target, source) if turned else (source, target)
            at = _speaking(words[source], tokenizer, ids)
            by_token = weights[:, :, at]
            looks = np.stack([by_token[..., places].sum(-1, dtype=np.float64) for places in words], -1)
            found = looks[..., target] > np.delete(looks, target, -1).max(-1)
            even = len(words[target]) / (len(ids) if ahead else at + 1)
            link = _Link(found, looks[..., target], target == source - 1, target == 0, turned, even)
            by_relation[relation].append(link)
    return {relation: _averages(links) for relation, links in by_relation.items()}


def words_of(text: str, tokenizer: Tokenizer, ids: Sequence[int]) -> list[list[int]]:
    """Return the positions of each word's tokens among `ids`; empty for a word that was cut off."""
    spans = [match.span() for match in re.finditer(r"\S+", text)]
    return [word.positions for word in tokens_of(spans, text, tokenizer, ids)]


def _speaking(places: Sequence[int], tokenizer: Tokenizer, ids: Sequence[int]) -> int:
    """Return the position of the last token of a word that has a letter or digit, so that a comma does not count."""
    spoken = [place for place in places if any(mark.isalnum() for mark in tokenizer.token(ids[place]))]
    return (spoken or places)[-1]


def links_view(by_relation: Mapping[str, LinkScores]) -> View:
    """Return a table of the best heads and the trivial baselines, and a grid of all heads, for each relation."""
    panels: list[Panel] = []
    notes = []
    for relation, scores in by_relation.items():
        ranking, of_relation = scores.ranking(), f": {relation}" if relation else ""
        rows: list[list[Cell]] = [
            [head_name(*head), float(scores.found[head]), float(scores.weight[head])] for head in ranking[:MAX_HEADS]
        ]
        rows += [["always the previous word", scores.previous, None], ["always the first word", scores.first, None]]
        best, links = ranking[0], counted(scores.count, "link")
        note = sentence("links found", head=head_name(*best), found=scores.found[best], links=links, scores=scores)
        notes.append(f"{relation}: {note}" if relation else note)
        panels += [
            Table(
                title=f"The best heads{of_relation}",
                columns=["head", "found", "weight"],
                rows=rows,
                bars=["found", "weight"],
                note=sentence("links counted", scores=scores),
            ),
            _grid(f"Links found{of_relation}", scores),
        ]
    return View("Heads that find the links", panels, note=" ".join(notes))


def _grid(title: str, scores: LinkScores) -> Grid:
    """Return a grid with the share of links that each head finds, compared with the better trivial baseline."""
    always, which = max((scores.previous, "previous"), (scores.first, "first"))
    better = int((scores.found > always).sum())
    takeaway = f"{better} of {counted(scores.found.size, 'head')} beat always the {which} word ({always:.0%})"
    return head_grid(title, scores.found, takeaway=takeaway, formula="share of the links that a head finds")


# --- gold alignments ---


def read_alignments(path: Path) -> list[Alignment]:
    """Read the sentence pairs of a file, each with its gold alignment."""
    lines = numbered_lines(path, "utf-8")
    pairs = [_read_alignment(line, f"{path}, line {number:,}") for number, line in lines if line.strip()]
    if not any(pair.sure for pair in pairs):
        raise DataError(f"{path} holds no sure alignment link: write lines such as {ALIGNMENT_FORM}")
    return pairs


def _read_alignment(line: str, where: str) -> Alignment:
    fields = [field.strip() for field in re.split(r"\|\|\|" if "|||" in line else "\t", line.strip("\r\n"))]
    if len(fields) != 3:
        has = f"this line has {counted(len(fields), 'field')}"
        raise DataError(f"{where}: write three fields with ||| or tabs between them, as in {ALIGNMENT_FORM}; {has}")
    source_spans, target_spans = (tuple(word.span() for word in re.finditer(r"\S+", text)) for text in fields[:2])
    if not source_spans or not target_spans:
        raise DataError(f"{where}: the {'target' if source_spans else 'source'} is empty")
    sure, possible = set[tuple[int, int]](), set[tuple[int, int]]()
    for link in fields[2].split():
        parts = ALIGNMENT_LINK.fullmatch(link)
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


class AlignmentQuality(NamedTuple):
    """Agreement with the gold alignments: numbers for one aligner, or L×h arrays for all heads."""

    aer: Any
    precision: Any
    recall: Any


@dataclass(frozen=True)
class AlignmentScores:
    """Agreement of the heads with the gold alignments, with baselines."""

    heads: AlignmentQuality
    weight: Float[Array, "L h"]
    """Weight on the source words of the sure links, averaged over the target words that have such a link."""
    mean_of_heads: AlignmentQuality
    """Agreement of the weights averaged over all heads."""
    diagonal: AlignmentQuality
    """Agreement of a diagonal alignment."""
    even: float
    """`weight` of a head that spreads its weights evenly over the source tokens."""
    pairs: int
    """Number of scored sentence pairs."""
    links: int
    """Number of sure links."""
    left_out: int
    """Number of words that were cut off or have no token."""

    def ranking(self) -> list[tuple[int, int]]:
        """Return layer and number of every head, the lowest error rate first."""
        aer, _, recall = self.heads
        heads = [(layer, head) for layer, head in np.ndindex(aer.shape)]
        return sorted(heads, key=lambda at: (aer[at], -recall[at]))


def alignment_scores(
    pairs: Iterable[tuple[Alignment, TextAttention]], source_tokenizer: Tokenizer, target_tokenizer: Tokenizer
) -> AlignmentScores:
    """Return the scores of cross-attention for sentence pairs, each with its weights and its source ids."""
    sure_hits: Any = 0  # Array over all heads, followed by the mean of all heads and the diagonal.
    possible_hits: Any = 0
    weight: Any = 0.0
    even = 0.0
    count = links = made = linked = left_out = 0
    for pair, (weights, ids) in pairs:
        sources = [span.positions for span in tokens_of(pair.source_spans, pair.source, source_tokenizer, ids)]
        targets = [span.positions for span in tokens_of(pair.target_spans, pair.target, target_tokenizer)]
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
    """Return the weights between words: summed over a source word's tokens, averaged over a target word's tokens."""
    columns = np.stack([weights[..., list(places)].sum(-1, dtype=np.float64) for places in sources], -1)
    return np.stack([columns[..., list(places), :].mean(-2) for places in targets], -2)


def _matrix(pair: Alignment, links: Iterable[tuple[int, int]]) -> Bool[Array, "I J"]:
    matrix = np.zeros((len(pair.source_spans), len(pair.target_spans)), bool)
    for link in links:
        matrix[link] = True
    return matrix


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
