"""What deserves attention in pairs of texts before a translation is learned from them."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from glassformer.config.data_section import NORMAL
from glassformer.data.check.tables import Spread, finding, occurrences_of, spread_of
from glassformer.data.columns.heuristics import require_column
from glassformer.data.io.table import Table
from glassformer.data.same_text import in_other_letters, near_finding
from glassformer.data.split.rows import RowPart
from glassformer.data.wording import EXAMPLES, counted, lines_in_words

Lengths = Callable[[list[str]], list[int]]
"""Counts the tokens of texts, END among them."""

TIMES_OFF = 3
"""A target so many times as long, or as short, as the pairs' usual one is odd …"""

CHARACTERS_OFF = 10
"""… if it is also off by so many characters: "Hi." may well be "Guten Tag!"."""


@dataclass(frozen=True)
class PairCheck:
    """Counts of a table of pairs. But for the first three, they are those of the pairs without an empty side."""

    rows: int
    empty_sources: int
    empty_targets: int
    repeated_pairs: int
    """Rows that an earlier row equals, by the rule of `data.same_text`."""
    ambiguous_sources: int
    """Sources that occur with different targets."""
    near_duplicates: int
    """Sources that are nearly the same as an earlier one."""
    copies: int
    """Rows whose target is their source."""
    usual_ratio: float | None
    """Characters of a target for one of its source: the median."""
    odd_lengths: int
    """Rows whose target is far too long or too short for their source."""
    odd_lines: list[int]
    """Some lines with such a target, the oddest first."""
    source_words: Spread | None
    target_words: Spread | None
    source_tokens: Spread | None
    target_tokens: Spread | None
    too_long: int | None
    """Rows with a side of more tokens than the context."""
    findings: list[str]
    """One sentence for each thing that is odd; empty where all is well."""

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
    same_text: str = NORMAL,
) -> PairCheck:
    """`source`, `target`: columns; `target_lengths`: where the targets' tokens are not the sources'; `same_text`: the
    setting."""
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
    again = [lines[row] for pairs in occurrences.values() for row in pairs[1:]]
    ambiguous = [
        rows[0] for rows in occurrences_of(source_keys).values() if len({target_keys[row] for row in rows}) > 1
    ]
    near = part.near_duplicates()
    copies = [line for line, one, other in filled if one == other]
    ratio, odd = _odd_lengths(lines, sources, targets)
    source_tokens = lengths(sources) if lengths is not None and filled else None
    count = target_lengths or lengths
    target_tokens = count(targets) if count is not None and filled else None
    long = _longer(lines, [side for side in (source_tokens, target_tokens) if side is not None], context)
    some_sources = counted(len(ambiguous), "source occurs", "sources occur")
    first = lines_in_words([lines[row] for row in ambiguous])
    off = (
        f"more than {TIMES_OFF} times longer or shorter than usual ({ratio or 0:.2f} characters for one of the source)"
    )
    too_long = f"longer than {context or 0:,} tokens and would be left out, or cut there"
    return PairCheck(
        rows=len(table),
        empty_sources=len(no_source),
        empty_targets=len(no_target),
        repeated_pairs=len(again),
        ambiguous_sources=len(ambiguous),
        near_duplicates=len(np.unique(near[:, 1])),
        copies=len(copies),
        usual_ratio=ratio,
        odd_lengths=len(odd),
        odd_lines=odd[:EXAMPLES],
        source_words=spread_of([len(text.split()) for text in sources]) if filled else None,
        target_words=spread_of([len(text.split()) for text in targets]) if filled else None,
        source_tokens=spread_of(source_tokens) if source_tokens is not None else None,
        target_tokens=spread_of(target_tokens) if target_tokens is not None else None,
        too_long=len(long) if long is not None else None,
        findings=[  # the gravest first
            *finding(no_source, "source is", "sources are", "empty and would be left out"),
            *finding(no_target, "target is", "targets are", "empty and would be left out"),
            *finding(odd, "target is", "targets are", f"{off} and may not be a translation"),
            *finding(copies, "target is", "targets are", "the source over again"),
            *finding(
                sorted(again),
                "row repeats",
                "rows repeat",
                f"an earlier pair{in_other_letters(exact - len(occurrences))}",
            ),
            *near_finding(near, "source", sources, lines),
            *([f"{some_sources} with different targets, first on {first}"] if ambiguous else []),
            *finding(long or [], "pair is", "pairs are", f"{too_long} (--model.context, --data.too_long)"),
        ],
    )


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
