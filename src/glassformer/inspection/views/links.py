"""Links: which word should look at which, known beforehand, and the heads that do.

A file holds a JSON object a line, `{"text": "mara met tobin . he fishes", "links": [[4, 2]]}`: words are what stands
between blanks, counted from 0, and word 4 should look at word 2. Pronouns and whom they stand for, verbs and their
subjects: whatever somebody knows.

A head looks from the last token of the one word (that holds a letter or digit, if any does) to all tokens of the other,
and has found it when that word gets more weight than any other word. START, END and blanks belong to no word. Where the
future is hidden, a link to a later word is looked for from the later word to the earlier. Links of words that were cut
off, or that no token stands for, are left out and counted.
"""

import json
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from glassformer.config.arrays import Array
from glassformer.config.errors import DataError, Misuse
from glassformer.config.limits import parse_json
from glassformer.data.datasets.embedded import DATASETS, open_dataset
from glassformer.data.io.place import find
from glassformer.data.io.reading import numbered_lines
from glassformer.data.wording import counted
from glassformer.inspection.attention import SOURCE_ATTENTION, sizes_of
from glassformer.inspection.views.head_roles import TextAttention, attention_by_text, check_sizes, visible_to
from glassformer.inspection.views.registry import LookRequest, register_view
from glassformer.rendering.panels import Grid, Table
from glassformer.rendering.view import View
from glassformer.text.alignment import tokens_of
from glassformer.text.tokenizer import Tokenizer

FORM = '{"text": "mara met tobin . he fishes", "links": [[4, 2]]}'
BEST = 10
"""Heads in the table, at most."""


@register_view(
    "links",
    options=("links",),
    texts="none",
    needs=lambda loaded: (
        loaded.tokenizer is not None and any(stack in SOURCE_ATTENTION for stack in sizes_of(loaded.model))
    ),
)
def links(request: LookRequest) -> View:
    if request.links is None:
        raise Misuse("the view links needs links that somebody annotated: --links FILE")
    stack = next(stack for stack in sizes_of(request.model) if stack in SOURCE_ATTENTION)
    texts = read_links(request.links)
    remarks: list[str] = []  # of hundreds of texts, one is enough
    quiet = replace(request, say=remarks.append)
    seen = list(attention_by_text(request.loaded, (quiet.encode(linked.text) for linked in texts), stack))
    for remark in remarks[:1]:
        more = f" (and {len(remarks) - 1:,} more such remarks)" if len(remarks) > 1 else ""
        request.say(f"{remark}{more}")
    return links_view(link_scores(zip(texts, seen, strict=True), request.source_tokenizer))


@dataclass(frozen=True)
class LinkedText:
    """A text, and which of its words should look at which."""

    text: str
    links: tuple[tuple[int, int], ...]


# --- reading ---


def read_links(path_or_name: str | os.PathLike[str]) -> list[LinkedText]:
    """The links of a .jsonl file, or of an embedded data set that knows some: `pronouns`, or `pronouns:seed=7`."""
    name = os.fspath(path_or_name)
    path = find(name)
    if path is not None:
        return _of_file(path)
    links = open_dataset(name).links
    if links is None:
        knowing = ", ".join(other for other, info in DATASETS.items() if info.links)
        raise DataError(f"the data set '{name}' has no links (others have: {knowing}); or give a .jsonl file of them")
    return [LinkedText(text, tuple(pairs)) for text, pairs in links()]


def _of_file(path: Path) -> list[LinkedText]:
    if path.is_dir():
        raise DataError(f"{path} is a folder: links come from a .jsonl file, a line such as {FORM}")
    lines = numbered_lines(path, "utf-8")
    linked = [_read_line(line, f"{path}, line {number:,}") for number, line in lines if line.strip()]
    if not any(text.links for text in linked):
        raise DataError(f"{path} holds no links: write a line such as {FORM}")
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
    if not isinstance(links, list):
        raise DataError(f"{where}: 'links' must be a list of pairs such as [[4, 2]], not {json.dumps(links)[:40]}")
    return LinkedText(
        text, tuple(_read_link(link, number, len(text.split()), where) for number, link in enumerate(links))
    )


def _read_link(link: Any, number: int, words: int, where: str) -> tuple[int, int]:
    if not isinstance(link, list) or len(link) != 2 or any(type(place) is not int for place in link):
        raise DataError(f"{where}: links[{number}] must be two whole numbers, from and to, not {json.dumps(link)[:40]}")
    for place in link:
        if not 0 <= place < words:
            has = f"the text has {counted(words, 'word')}, counted from 0: 0 to {words - 1}"
            raise DataError(f"{where}: links[{number}] names word {place}, but {has}")
    if link[0] == link[1]:
        raise DataError(f"{where}: links[{number}] links word {link[0]} to itself: name two different words")
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
        by_found = sorted(np.ndindex(self.found.shape), key=lambda at: (-self.found[at], -self.weight[at]))
        return [(layer, head) for layer, head in by_found]


def link_scores(texts: Iterable[tuple[LinkedText, TextAttention]], tokenizer: Tokenizer) -> LinkScores:
    """Each text with its links, and as the model saw it."""
    found: Any = 0.0
    weight: Any = 0.0
    count = previous = first = turned = left_out = 0
    even = 0.0
    for linked, (weights, ids) in texts:
        check_sizes(weights, ids)
        words = words_of(linked.text, tokenizer, ids)
        ahead = bool(visible_to(weights).all())
        for source, target in linked.links:
            if not words[source] or not words[target]:
                left_out += 1
                continue
            if target > source and not ahead:
                source, target, turned = target, source, turned + 1
            at = _speaking(words[source], tokenizer, ids)
            by_token = weights[:, :, at]
            looks = np.stack([by_token[..., places].sum(-1, dtype=np.float64) for places in words], -1)
            found = found + (looks[..., target] > np.delete(looks, target, -1).max(-1))
            weight = weight + looks[..., target]
            even += len(words[target]) / (len(ids) if ahead else at + 1)
            count += 1
            previous += target == source - 1
            first += target == 0
    if not count:
        raise DataError(
            f"none of the {left_out:,} links could be looked for: their words were cut off, or are no tokens here"
        )
    return LinkScores(
        found=found / count,
        weight=weight / count,
        count=count,
        previous=previous / count,
        first=first / count,
        turned=turned,
        even=even / count,
        left_out=left_out,
    )


def words_of(text: str, tokenizer: Tokenizer, ids: Sequence[int]) -> list[list[int]]:
    """The places of each word's tokens among the ids that a model read; none for a word that was cut off."""
    spans = [match.span() for match in re.finditer(r"\S+", text)]
    return [word.places for word in tokens_of(spans, text, tokenizer, ids)]


def _speaking(places: Sequence[int], tokenizer: Tokenizer, ids: Sequence[int]) -> int:
    """The last token of a word: what follows it, a comma, does not speak for it."""
    spoken = [place for place in places if any(mark.isalnum() for mark in tokenizer.token(ids[place]))]
    return (spoken or places)[-1]


def links_view(scores: LinkScores, *, title: str = "Heads that find the links") -> View:
    """The best heads beside those that always look at one place, and every head as a picture."""
    best = scores.ranking()[:BEST]
    rows: list[list[str | float | None]] = [
        [f"{layer}.{head}", float(scores.found[layer, head]), float(scores.weight[layer, head])] for layer, head in best
    ]
    rows += [["always the previous word", scores.previous, None], ["always the first word", scores.first, None]]
    layers, heads = (list(map(str, range(count))) for count in scores.found.shape)
    return View(
        title,
        [
            Table(
                title="The best heads",
                takeaway=_best_heads(scores),
                columns=["head", "found", "weight"],
                rows=rows,
                bars=["found", "weight"],
                note="found: links whose word gets more weight than any other word; weight: what it gets on average.",
            ),
            Grid(
                title="Links found",
                takeaway=_better(scores),
                values=scores.found,
                rows=layers,
                columns=heads,
                row_name="layer",
                column_name="head",
                high=1.0,
                numbers=True,
                formula="part of the links that a head finds",
            ),
        ],
        note=_in_words(scores),
    )


def _best_heads(scores: LinkScores) -> str:
    layer, head = scores.best
    if not scores.found.any():
        return f"No head finds any of {counted(scores.count, 'link')}"
    equal = int((scores.found == scores.found.max()).sum())
    share = f"{_percent(scores.found[layer, head])} of {counted(scores.count, 'link')}"
    return f"{equal} heads find {share} each" if equal > 1 else f"Head {layer}.{head} finds {share}"


def _better(scores: LinkScores) -> str:
    """How many heads do better than one that always looks at the previous word, or at the first."""
    always, which = max((scores.previous, "previous"), (scores.first, "first"))
    better = int((scores.found > always).sum())
    return f"{better} of {counted(scores.found.size, 'head')} beat always the {which} word ({_percent(always)})"


def _in_words(scores: LinkScores) -> str:
    layer, head = scores.best
    note = (
        f"Head {layer}.{head} finds {_percent(scores.found[layer, head])} of {counted(scores.count, 'link')}; "
        f"always the previous word {_percent(scores.previous)}, always the first {_percent(scores.first)}"
    )
    if scores.turned:
        note += f". {counted(scores.turned, 'link')} to a later word, looked for from the later to the earlier"
    if scores.left_out:
        note += f". {counted(scores.left_out, 'link')} left out: words cut off, or no tokens here"
    return note + "."


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
