"""One pass over a source: what it holds, without holding it."""

import hashlib
from array import array
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from glassformer.data.io.source import Source


@dataclass(frozen=True, eq=False)
class Survey:
    """A few numbers a document, so that millions of them fit in memory."""

    source: Source
    fingerprint: str
    """The same for the same texts and borders between documents; blank documents do not count."""
    characters: NDArray[np.int64]
    bytes: NDArray[np.int64]
    """Bytes of each document as UTF-8."""
    digests: NDArray[np.uint64]
    """Equal documents have equal ones."""
    filled: NDArray[np.bool_]
    """A document of nothing but white space is not learned from."""


def survey(source: Source) -> Survey:
    characters, sizes, digests, filled = array("q"), array("q"), array("Q"), array("b")
    whole = hashlib.sha256()
    for chunk in source.chunks():
        if chunk.starts:
            one = hashlib.sha256()
            for column in (characters, sizes, filled):
                column.append(0)
        text = chunk.text.encode()
        one.update(text)
        characters[-1] += len(chunk.text)
        sizes[-1] += len(text)
        filled[-1] |= bool(chunk.text.strip())
        if chunk.ends:
            digests.append(int.from_bytes(one.digest()[:8], "little"))
            if filled[-1]:
                whole.update(one.digest())
    return Survey(
        source,
        whole.hexdigest(),
        np.array(characters, dtype=np.int64),
        np.array(sizes, dtype=np.int64),
        np.array(digests, dtype=np.uint64),
        np.array(filled, dtype=np.bool_),
    )
