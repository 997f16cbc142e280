"""What a language model learns from: a sentence seen as questions and answers."""

from collections.abc import Sequence


def training_pairs(pieces: Sequence[str], between: str = "") -> list[tuple[str, str]]:
    """One sentence as its training pairs: each prefix, and the piece that comes next.

    Byte pairs bring their own spaces, words need one `between` them. With START and END among the pieces, the first and
    the last pair say how a text begins and that it ends.

    >>> training_pairs(["the", " cat", " sat"])
    [('the', ' cat'), ('the cat', ' sat')]
    """
    return [(between.join(pieces[:end]), pieces[end]) for end in range(1, len(pieces))]
