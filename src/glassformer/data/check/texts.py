"""Findings about plain texts or pairs of texts before a model learns from them."""

from collections.abc import Callable, Sequence
from itertools import compress

import numpy as np

from glassformer.config.data_section import EXACT, NORMAL
from glassformer.config.sentences import sentence
from glassformer.data.check.tables import DataCheck, finding, occurrences_of, spread_of
from glassformer.data.columns.heuristics import require_column
from glassformer.data.io.source import Source
from glassformer.data.io.survey import survey
from glassformer.data.io.table import Table
from glassformer.data.same_text import in_other_letters, near_duplicates, near_finding, near_in_words
from glassformer.data.split.rows import RowPart


def check_texts(source: Source, same_text: str = NORMAL) -> DataCheck:
    """Check texts without labels. Documents have the numbers 1, 2 … in the order in which they are read.

    `same_text`: the setting.
    """
    found = survey(source, near_duplicates=True)
    filled, numbers = found.filled, np.flatnonzero(found.filled) + 1
    keys, sketches = found.keys[filled], list(compress(found.sketches, filled))
    near = near_duplicates(keys, sketches.__getitem__)
    digests = found.digests[filled]
    occurrences = occurrences_of((digests if same_text == EXACT else keys).tolist())
    again = sorted(int(numbers[row]) for rows in occurrences.values() for row in rows[1:])
    empty = (np.flatnonzero(~filled) + 1).tolist()
    differently = in_other_letters(len(np.unique(digests)) - len(occurrences))
    findings = finding("empty document", empty, "number")
    findings += finding("repeat", again, "number", row="document", noun="document", differently=differently)
    if len(near):
        findings.append(sentence(__name__, "near documents", near=near_in_words(near, "document")))
    counts = {
        "documents": len(filled),
        "characters": int(found.characters[filled].sum()),
        "empty_documents": len(empty),
        "repeated_documents": len(again),
        "near_duplicates": len(np.unique(near[:, 1])),
    }
    return DataCheck(counts, {"characters": spread_of(found.characters[filled].tolist())}, findings)


# --- pairs ---

Lengths = Callable[[list[str]], list[int]]
"""Returns the number of tokens of each text, with END."""

MIN_RATIO = 3
"""Ratio of a target's length to its usual length (or the inverse) from which the length is odd …"""
MIN_DIFFERENCE = 10
"""… if the difference is also at least this number of characters: "Hi." may be "Guten Tag!"."""


def check_pairs(
    table: Table,
    source: str,
    target: str,
    lengths: Lengths | None = None,
    context: int | None = None,
    *,
    target_lengths: Lengths | None = None,
    same_text: str = NORMAL,
) -> DataCheck:
    """Check a table of pairs. Pairs with an empty side are counted separately and not checked further.

    `source`, `target`: columns. `target_lengths`: None if `lengths` counts the tokens of both sides. `same_text`: the
    setting.
    """
    all_sources = table.columns[require_column(table.name, source, table.columns, "--source")]
    all_targets = table.columns[require_column(table.name, target, table.columns, "--target")]
    cells = zip(table.lines, all_sources, all_targets, strict=True)
    rows = [(line, one.strip(), other.strip()) for line, one, other in cells]
    no_source, no_target = [row[0] for row in rows if not row[1]], [row[0] for row in rows if not row[2]]
    filled = [row for row in rows if row[1] and row[2]]
    lines = [line for line, _, _ in filled]
    sources, targets = [one for _, one, _ in filled], [other for _, _, other in filled]
    part, other_side = (RowPart("whole", texts, texts, lines, table.name) for texts in (sources, targets))
    source_keys, target_keys = (side.same(same_text).tolist() for side in (part, other_side))
    exact = len(set(zip(sources, targets, strict=True)))
    occurrences = occurrences_of(zip(source_keys, target_keys, strict=True))
    again = sorted(lines[row] for pairs in occurrences.values() for row in pairs[1:])
    same_source = occurrences_of(source_keys).values()
    ambiguous = [lines[rows[0]] for rows in same_source if len({target_keys[row] for row in rows}) > 1]
    near = part.near_duplicates()
    copies = [line for line, one, other in filled if one == other]
    ratio, odd = _odd_lengths(lines, sources, targets)
    count = target_lengths or lengths
    source_tokens = lengths(sources) if lengths is not None and filled else []
    target_tokens = count(targets) if count is not None and filled else []
    long = _longer(lines, [side for side in (source_tokens, target_tokens) if side], context)
    differently = in_other_letters(exact - len(occurrences))
    findings = [
        *finding("empty source", no_source),
        *finding("empty target", no_target),
        *finding("odd length", odd, times=MIN_RATIO, ratio=ratio),
        *finding("copy", copies),
        *finding("repeat", again, row="row", noun="pair", differently=differently),
        *near_finding(near, "source", sources, lines),
        *finding("ambiguous source", ambiguous),
        *finding("long pair", long, context=context),
    ]
    counts = {
        "rows": len(table),
        "empty_sources": len(no_source),
        "empty_targets": len(no_target),
        "repeated_pairs": len(again),
        "ambiguous_sources": len(ambiguous),
        "near_duplicates": len(np.unique(near[:, 1])),
        "copies": len(copies),
        "odd_lengths": len(odd),
        "too_long": len(long),
    }
    spreads = {
        "source words": spread_of([len(text.split()) for text in sources]),
        "source tokens": spread_of(source_tokens),
        "target words": spread_of([len(text.split()) for text in targets]),
        "target tokens": spread_of(target_tokens),
    }
    return DataCheck(counts, spreads, findings)


def _odd_lengths(
    lines: Sequence[int], sources: Sequence[str], targets: Sequence[str]
) -> tuple[float | None, list[int]]:
    """Return the usual ratio of lengths, and the lines of pairs with an odd length, the oddest first."""
    if not lines:
        return None, []
    source = np.array([len(text) for text in sources], dtype=np.float64)
    target = np.array([len(text) for text in targets], dtype=np.float64)
    usual = float(np.median(target / source))
    expected = usual * source
    off = np.maximum(target / expected, expected / target)
    odd = np.flatnonzero((off > MIN_RATIO) & (np.abs(target - expected) >= MIN_DIFFERENCE))
    return usual, [lines[row] for row in odd[np.argsort(-off[odd], kind="stable")].tolist()]


def _longer(lines: Sequence[int], sides: Sequence[Sequence[int]], context: int | None) -> list[int]:
    """Return the lines of the pairs with a side of more tokens than the context."""
    if not sides or context is None:
        return []
    return [lines[row] for row in np.flatnonzero(np.max(sides, axis=0) > context).tolist()]
