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

import json
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
from glassformer.inspection.views.registry import LookRequest, leader, register_view, sentence
from glassformer.rendering.panels import Cell, Grid, Table
from glassformer.rendering.view import View
from glassformer.text.alignment import tokens_of
from glassformer.text.tokenizer import Tokenizer

FORM = '{"text": "mara met tobin . he fishes", "links": [[4, 2]]}'
CROSS = "cross"
"""The stack of attention from a translation to its source."""
BEST = 10
"""Heads in the table, at most."""
COLUMNS_NOTE = "found: links whose word gets more weight than any other word; weight: average weight on that word."


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
        seen = _attention(request, ((pair.source, pair.target) for pair in pairs), CROSS)
        return alignments_view(
            alignment_scores(zip(pairs, seen, strict=True), request.source_tokenizer, request.tokenizer)
        )
    stack = next((stack for stack in stacks if stack in SOURCE_ATTENTION), None)
    if stack is None:
        raise Misuse(f"{request.loaded.run.path} has no self-attention: give gold alignments, as in --links dates")
    texts = read_links(annotated)
    seen = _attention(request, ((linked.text, request.translation) for linked in texts), stack)
    scores = link_scores(zip(texts, seen, strict=True), request.source_tokenizer)
    return relations_view(scores) if len(scores) > 1 else links_view(*scores.values())


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
    except ValueError as error:
        raise DataError(f"{where}: not JSON: write {FORM} ({error})") from None
    if not isinstance(value, dict):
        raise DataError(f"{where}: a line must be an object such as {FORM}, not {line.strip()[:40]}")
    for name in ("text", "links"):
        if name not in value:
            raise DataError(f"{where}: no field '{name}' (fields: {', '.join(value) or 'none'}); write {FORM}")
    text, links = value["text"], value["links"]
    if not isinstance(text, str) or not text.strip():
        raise DataError(f"{where}: 'text' must be a text with words in it, not {json.dumps(text)[:40]}")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise DataError(f"{where}: half a character (a lone surrogate) at position {error.start:,}") from None
    words = len(text.split())
    if not isinstance(links, dict):
        return LinkedText(text, {"": _read_pairs(links, "links", words, where)})
    return LinkedText(text, {name: _read_pairs(pairs, f"links.{name}", words, where) for name, pairs in links.items()})


def _read_pairs(pairs: Any, name: str, words: int, where: str) -> list[tuple[int, int]]:
    if not isinstance(pairs, list):
        raise DataError(f"{where}: '{name}' must be a list of pairs such as [[4, 2]], not {json.dumps(pairs)[:40]}")
    return [_read_link(link, f"{name}[{number}]", words, where) for number, link in enumerate(pairs)]


def _read_link(link: Any, name: str, words: int, where: str) -> tuple[int, int]:
    if not isinstance(link, list) or len(link) != 2 or any(type(place) is not int for place in link):
        raise DataError(f"{where}: {name} must be two whole numbers, from and to, not {json.dumps(link)[:40]}")
    for place in link:
        if not 0 <= place < words:
            has = f"the text has {counted(words, 'word')}, counted from 0: 0 to {words - 1}"
            raise DataError(f"{where}: {name} names word {place}, but {has}")
    if link[0] == link[1]:
        raise DataError(f"{where}: {name} links word {link[0]} to itself: name two different words")
    return link[0], link[1]


# --- scoring ---


@dataclass(frozen=True)
class LinkScores:
    """How well every head finds the links."""

    found: Float[Array, "L h"]
    """The part of the links that it finds."""
    weight: Float[Array, "L h"]
    """What it gives to the right word, on average."""
    count: int
    previous: float
    """The part that one finds who always looks at the previous word."""
    first: float
    """The part that one finds who always looks at the first."""
    turned: int
    """Links to a later word that cannot be seen, looked for the other way round."""
    even: float
    """What a head gives to the right word that spreads its weights evenly over all it may see."""
    left_out: int
    """Links of words that were cut off, or that no token stands for."""

    @property
    def best(self) -> tuple[int, int]:
        """Layer and head of the one that finds most; of equal ones that with the larger weight."""
        return self.ranking()[0]

    def ranking(self) -> list[tuple[int, int]]:
        """All heads, that which finds most first."""
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
    found, weight, previous, first, turned, even = zip(*scored, strict=True)
    return LinkScores(
        found=np.mean(found, 0),
        weight=np.mean(weight, 0),
        count=len(scored),
        previous=float(np.mean(previous)),
        first=float(np.mean(first)),
        turned=sum(turned),
        even=float(np.mean(even)),
        left_out=left_out,
    )


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


def links_view(scores: LinkScores, *, title: str = "Heads that find the links") -> View:
    """Return a table of the best heads and the trivial baselines, and a grid of all heads."""
    rows: list[list[Cell]] = [
        [head_name(*head), float(scores.found[head]), float(scores.weight[head])] for head in scores.ranking()[:BEST]
    ]
    rows += [["always the previous word", scores.previous, None], ["always the first word", scores.first, None]]
    table = Table(
        title="The best heads",
        takeaway=_best_heads(scores),
        columns=["head", "found", "weight"],
        rows=rows,
        bars=["found", "weight"],
        note=COLUMNS_NOTE,
    )
    return View(title, [table, _grid("Links found", scores)], note=_in_words(scores))


def relations_view(scores: Mapping[str, LinkScores]) -> View:
    """Return a table of the best head of each relation, and a grid of all heads per relation."""
    best = {relation: (score, score.best, float(score.found[score.best])) for relation, score in scores.items()}
    table = Table(
        title="The best head of each relation",
        takeaway=", ".join(
            f"{relation}: head {head_name(*head)} ({found:.0%})" for relation, (_, head, found) in best.items()
        ),
        columns=["relation", "head", "found", "weight", "always the previous word", "always the first word", "links"],
        rows=[
            [relation, head_name(*head), found, float(score.weight[head]), score.previous, score.first, score.count]
            for relation, (score, head, found) in best.items()
        ],
        bars=["found", "weight"],
        note=COLUMNS_NOTE,
    )
    grids = [_grid(f"Links found: {relation}", score) for relation, score in scores.items()]
    note = " ".join(f"{relation}: {_in_words(score)}" for relation, score in scores.items())
    return View("Heads that find the links", [table, *grids], note=note)


def _grid(title: str, scores: LinkScores) -> Grid:
    """Every head's share of links, and how many do better than always the previous word, or always the first."""
    always, which = max((scores.previous, "previous"), (scores.first, "first"))
    better = int((scores.found > always).sum())
    takeaway = f"{better} of {counted(scores.found.size, 'head')} beat always the {which} word ({always:.0%})"
    return head_grid(title, scores.found, takeaway=takeaway, formula="share of the links that a head finds")


def _best_heads(scores: LinkScores) -> str:
    names = [head_name(*head) for head in np.ndindex(*scores.found.shape)]
    wording = "finds most" if scores.found.any() else "finds none"
    return leader(wording, names, scores.found, share=f"{scores.found.max():.0%}", links=counted(scores.count, "link"))


def _in_words(scores: LinkScores) -> str:
    parts = [
        sentence(
            "links found",
            head=head_name(*scores.best),
            found=scores.found[scores.best],
            scores=scores,
            links=counted(scores.count, "link"),
        ),
        sentence("links turned", links=counted(scores.turned, "link")) if scores.turned else "",
        sentence("links left out", links=counted(scores.left_out, "link")) if scores.left_out else "",
    ]
    return " ".join(filter(None, parts))
