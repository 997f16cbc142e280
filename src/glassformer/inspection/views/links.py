"""Annotated links between words, and the heads that find them.

A file has a JSON object per line, `{"text": "mara met tobin . he fishes", "links": [[4, 2]]}`. Words are separated by
whitespace and counted from 0; word 4 should look at word 2. Links of several relations are named, `"links": {"subject":
[[1, 0]], "object": [[1, 2]]}`; every relation is scored separately. A file of gold alignments (`gold_alignments.py`)
scores the cross-attention of a translator instead.

A head looks from the last token of one word (the last that holds a letter or digit, if any does) to all tokens of the
other. It has found the link if that word gets more weight than every other word of the text. START, END and blanks
belong to no word. In a causal model, a link to a later word is scored from the later word to the earlier. Links of
words that were cut off, or that have no token, are left out and counted.
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
from glassformer.data.datasets.dataset import Alignment, Relations
from glassformer.data.datasets.embedded import LINKED_DATASETS, open_dataset
from glassformer.data.io.place import find
from glassformer.data.io.reading import numbered_lines
from glassformer.data.wording import counted
from glassformer.families.base import Loaded
from glassformer.inspection.attention import SOURCE_ATTENTION, sizes_of
from glassformer.inspection.views.gold_alignments import alignment_scores, alignments_view, read_alignments
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
CROSS = "cross"
"""The stack of attention from a translation to its source."""
MAX_HEADS = 10
"""Heads in the table of a relation."""


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
    """Return the data set that a run was trained on if it is a built-in one with links, else None."""
    data = loaded.config.data.path or ""
    return data if data.partition(":")[0] in LINKED_DATASETS and find(data) is None else None


def _attention(request: LookRequest, examples: Iterable[tuple[str, str | None]], stack: str) -> Iterator[TextAttention]:
    """Yield the attention of a stack for each text, with its translation if there is one."""
    remarks: list[str] = []  # one remark is enough for hundreds of texts
    quiet = replace(request, say=remarks.append)
    encoded = (replace(quiet, translation=translation).encode(text) for text, translation in examples)
    yield from attention_by_text(request.loaded, encoded, stack)
    for remark in remarks[:1]:
        more = f" (and {len(remarks) - 1:,} more such remarks)" if len(remarks) > 1 else ""
        request.say(f"{remark}{more}")


@dataclass(frozen=True)
class LinkedText:
    """A text, and which of its words should look at which."""

    text: str
    links: Relations
    """Pairs of words, from and to, by relation; "" is the relation of links without a name."""

    def named_links(self) -> list[tuple[str, int, int]]:
        """Return relation, from and to of every link."""
        return [(relation, *pair) for relation, pairs in self.links.items() for pair in pairs]


# --- reading ---


def read_gold_alignments(path_or_name: str | os.PathLike[str]) -> list[Alignment] | None:
    """Return the gold alignments of a file or a built-in data set (`dates`); None if it has links of texts instead."""
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
    """Return the links of a .jsonl file, or of a built-in data set that has some (`pronouns`, `pronouns:seed=7`)."""
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
    """How well every head finds the links."""

    found: Float[Array, "L h"]
    """The share of the links that it finds."""
    weight: Float[Array, "L h"]
    """Its weight on the right word, on average."""
    count: int
    previous: float
    """The share that a head finds that always looks at the previous word."""
    first: float
    """The share that a head finds that always looks at the first word."""
    turned: int
    """Links to a later word that cannot be seen, scored from the later word to the earlier."""
    even: float
    """The weight on the right word of a head that spreads its weights evenly over all it may see."""
    left_out: int
    """Links of words that were cut off, or that no token stands for."""

    def ranking(self) -> list[tuple[int, int]]:
        """Return layer and head of every head: those that find most first, and of equal ones the larger weight."""
        heads = [(layer, head) for layer, head in np.ndindex(self.found.shape)]
        return sorted(heads, key=lambda at: (-self.found[at], -self.weight[at]))


class _Link(NamedTuple):
    """Measurements of one link, from whose averages `LinkScores` is made."""

    found: Bool[Array, "L h"]
    weight: Float[Array, "L h"]
    previous: bool
    first: bool
    turned: bool
    even: float


def _averages(links: Sequence[_Link | None]) -> LinkScores:
    """Average over the links of a relation; None stands for a link that was left out."""
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
    """Score every relation separately; each text comes with its attention."""
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
    """The places of each word's tokens among the ids that a model read; none for a word that was cut off."""
    spans = [match.span() for match in re.finditer(r"\S+", text)]
    return [word.places for word in tokens_of(spans, text, tokenizer, ids)]


def _speaking(places: Sequence[int], tokenizer: Tokenizer, ids: Sequence[int]) -> int:
    """The last token of a word: what follows it, a comma, does not speak for it."""
    spoken = [place for place in places if any(mark.isalnum() for mark in tokenizer.token(ids[place]))]
    return (spoken or places)[-1]


def links_view(by_relation: Mapping[str, LinkScores]) -> View:
    """Return for each relation a table of the best heads and the trivial baselines, and a grid of all heads."""
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
    """Every head's share of links, and how many do better than always the previous word, or always the first."""
    always, which = max((scores.previous, "previous"), (scores.first, "first"))
    better = int((scores.found > always).sum())
    takeaway = f"{better} of {counted(scores.found.size, 'head')} beat always the {which} word ({always:.0%})"
    return head_grid(title, scores.found, takeaway=takeaway, formula="share of the links that a head finds")
