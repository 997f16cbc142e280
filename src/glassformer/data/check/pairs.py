"""What deserves attention in pairs of texts before a translation is learned from them."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from glassformer.data.check.tables import Spread, occurrences_of, spread_of
from glassformer.data.columns.heuristics import existing
from glassformer.data.io.table import Table
from glassformer.data.wording import EXAMPLES, counted, lines_in_words

Lengths = Callable[[list[str]], list[int]]
"""Counts the tokens of texts, END among them."""

TIMES_OFF = 3
"""A target so many times as long, or as short, as the pairs' usual one is odd …"""

CHARACTERS_OFF = 10
"""… if it is also off by so many characters: "Hi." may well be "Guten Tag!"."""


@dataclass(frozen=True)
class CheckedPairs:
    """Counts of a table of pairs. But for the first three, they are those of the pairs without an empty side."""

    rows: int
    empty_sources: int
    empty_targets: int
    repeated_pairs: int
    """Rows that an earlier row equals."""
    ambiguous_sources: int
    """Sources that occur with different targets."""
    copies: int
    """Rows whose target is their source."""
    usual_ratio: float | None
    """Characters of a target for one of its source: the median."""
    odd_lengths: int
    """Rows whose target is far too long or too short for their source."""
    odd_lines: list[int]
    """Some of them, the oddest first."""
    source_words: Spread | None
    target_words: Spread | None
    source_tokens: Spread | None
    target_tokens: Spread | None
    too_long: int | None
    """Rows with a side of more tokens than the context."""
    findings: list[str]
    """In words; empty where all is well."""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def check_pairs(
    table: Table,
    source: str,
    target: str,
    lengths: Lengths | None = None,
    context: int | None = None,
    *,
    target_lengths: Lengths | None = None,
) -> CheckedPairs:
    """`source`, `target`: columns; `target_lengths`: where the targets' tokens are not the sources'."""
    all_sources = table.columns[existing(table.name, source, table.columns, "--source")]
    all_targets = table.columns[existing(table.name, target, table.columns, "--target")]
    no_source = [line for line, text in zip(table.lines, all_sources, strict=True) if not text.strip()]
    no_target = [line for line, text in zip(table.lines, all_targets, strict=True) if not text.strip()]
    rows = zip(table.lines, all_sources, all_targets, strict=True)
    filled = [(line, one.strip(), other.strip()) for line, one, other in rows if one.strip() and other.strip()]
    lines = [line for line, _, _ in filled]
    sources, targets = [one for _, one, _ in filled], [other for _, _, other in filled]
    again = _repeated(lines, sources, targets)
    ambiguous = [rows for rows in occurrences_of(sources).values() if len({targets[row] for row in rows}) > 1]
    copies = [line for line, one, other in filled if one == other]
    ratio, odd = _odd_lengths(lines, sources, targets)
    source_tokens = lengths(sources) if lengths is not None and filled else None
    count = target_lengths or lengths
    target_tokens = count(targets) if count is not None and filled else None
    long = _longer(lines, [side for side in (source_tokens, target_tokens) if side is not None], context)
    found = CheckedPairs(
        rows=len(table),
        empty_sources=len(no_source),
        empty_targets=len(no_target),
        repeated_pairs=len(again),
        ambiguous_sources=len(ambiguous),
        copies=len(copies),
        usual_ratio=ratio,
        odd_lengths=len(odd),
        odd_lines=odd[:EXAMPLES],
        source_words=spread_of([len(text.split()) for text in sources]) if filled else None,
        target_words=spread_of([len(text.split()) for text in targets]) if filled else None,
        source_tokens=spread_of(source_tokens) if source_tokens is not None else None,
        target_tokens=spread_of(target_tokens) if target_tokens is not None else None,
        too_long=len(long) if long is not None else None,
        findings=[],
    )
    first = [lines[rows[0]] for rows in ambiguous]
    found.findings.extend(_findings(found, no_source, no_target, odd, copies, again, first, long or [], context))
    return found


def _repeated(lines: Sequence[int], sources: Sequence[str], targets: Sequence[str]) -> list[int]:
    """The lines of pairs that came before."""
    seen = set[tuple[str, str]]()
    again = []
    for line, pair in zip(lines, zip(sources, targets, strict=True), strict=True):
        if pair in seen:
            again.append(line)
        seen.add(pair)
    return again


def _odd_lengths(
    lines: Sequence[int], sources: Sequence[str], targets: Sequence[str]
) -> tuple[float | None, list[int]]:
    """The usual ratio, and the lines of pairs that are far from it, the farthest first."""
    if not lines:
        return None, []
    source = np.array([len(text) for text in sources], dtype=np.float64)
    target = np.array([len(text) for text in targets], dtype=np.float64)
    usual = float(np.median(target / source))
    expected = usual * source
    off = np.maximum(target / expected, expected / target)
    odd = np.flatnonzero((off > TIMES_OFF) & (np.abs(target - expected) >= CHARACTERS_OFF))
    return usual, [lines[row] for row in odd[np.argsort(-off[odd], kind="stable")].tolist()]


def _longer(lines: Sequence[int], sides: Sequence[Sequence[int]], context: int | None) -> list[int] | None:
    if not sides or context is None:
        return None
    longest = np.max([np.asarray(side) for side in sides], axis=0)
    return [lines[row] for row in np.flatnonzero(longest > context).tolist()]


def _findings(
    found: CheckedPairs,
    no_source: list[int],
    no_target: list[int],
    odd: list[int],
    copies: list[int],
    again: list[int],
    ambiguous: list[int],
    long: list[int],
    context: int | None,
) -> list[str]:
    """One line each, the gravest first."""
    findings = []
    for side, empty in (("source", no_source), ("target", no_target)):
        if empty:
            some = counted(len(empty), f"{side} is", f"{side}s are")
            findings.append(f"{some} empty and would be left out: {lines_in_words(empty)}")
    if odd:
        some = counted(len(odd), "target is", "targets are")
        findings.append(
            f"{some} more than {TIMES_OFF} times longer or shorter than usual ({found.usual_ratio:.2f} characters for "
            f"one of the source) and may not be a translation: {lines_in_words(odd)}"
        )
    if copies:
        some = counted(len(copies), "target is", "targets are")
        findings.append(f"{some} the source over again: {lines_in_words(copies)}")
    if again:
        findings.append(f"{counted(len(again), 'row repeats', 'rows repeat')} an earlier pair: {lines_in_words(again)}")
    if ambiguous:
        some = counted(len(ambiguous), "source occurs", "sources occur")
        findings.append(f"{some} with different targets, first on {lines_in_words(ambiguous)}")
    if long:
        findings.append(
            f"{counted(len(long), 'pair is', 'pairs are')} longer than {context:,} tokens and would be left out, "
            f"or cut there (--model.context, --data.too_long): {lines_in_words(long)}"
        )
    return findings
