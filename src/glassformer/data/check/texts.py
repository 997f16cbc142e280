"""What deserves attention in plain texts before a language is learned from them."""

from dataclasses import asdict, dataclass
from itertools import compress
from typing import Any

import numpy as np

from glassformer.config.data_section import EXACT, NORMAL
from glassformer.data.check.tables import Spread, finding, occurrences_of, spread_of
from glassformer.data.io.source import Source
from glassformer.data.io.survey import survey
from glassformer.data.same_text import in_other_letters, near_duplicates, near_in_words


@dataclass(frozen=True)
class TextCheck:
    """Counts of a source of texts. Documents have the numbers 1, 2 … in the order in which they are read."""

    documents: int
    characters: int
    empty_documents: int
    repeated_documents: int
    """Documents that an earlier one equals, by the rule of `data.same_text`."""
    near_duplicates: int
    """Documents that are nearly the same as an earlier one."""
    lengths: Spread | None
    """Characters of a document that is not empty."""
    findings: list[str]
    """One sentence for each thing that is odd; empty where all is well."""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def check_texts(source: Source, same_text: str = NORMAL) -> TextCheck:
    """`same_text`: the setting. A single text has no other to be like."""
    found = survey(source, near_duplicates=True)
    filled, numbers = found.filled, np.flatnonzero(found.filled) + 1
    keys, sketches = found.keys[filled], list(compress(found.sketches, filled))
    near = near_duplicates(keys, sketches.__getitem__)
    digests = found.digests[filled]
    occurrences = occurrences_of((digests if same_text == EXACT else keys).tolist())
    again = sorted(int(numbers[row]) for rows in occurrences.values() for row in rows[1:])
    empty = (np.flatnonzero(~filled) + 1).tolist()
    other_letters = in_other_letters(len(np.unique(digests)) - len(occurrences))
    apart = "--data.near_duplicates apart keeps such documents in one part"
    return TextCheck(
        documents=len(filled),
        characters=int(found.characters[filled].sum()),
        empty_documents=len(empty),
        repeated_documents=len(again),
        near_duplicates=len(np.unique(near[:, 1])),
        lengths=spread_of(found.characters[filled].tolist()) if len(keys) else None,
        findings=[
            *finding(empty, "document is", "documents are", "empty and would be left out", "number"),
            *finding(again, "document repeats", "documents repeat", f"an earlier document{other_letters}", "number"),
            *([f"{near_in_words(near, 'document')}; {apart}"] if len(near) else []),
        ],
    )
