"""Display forms of texts and probabilities: visible whitespace, truncated texts, no exponents."""

import re

SIGNS = str.maketrans({"\n": "⏎", "\t": "⇥", "\r": "␍"})
BLANK = "␣"
MAX_CELL_CHARS = 400
"""Length of a text in a table."""
MAX_QUOTE_CHARS = 24
"""Length of a token quoted in a sentence."""


def visible(text: str) -> str:
    """Replace each blank, tab and line end by a visible sign."""
    return text.translate(SIGNS).replace(" ", BLANK)


def bare(token: str) -> str:
    """Strip the blanks around a token and keep it on one line; a lone blank becomes an open box."""
    return token.strip(" ").translate(SIGNS) or BLANK


def quoted(token: str) -> str:
    """Quote a token in a sentence: blanks around it become ·, a lone blank becomes an open box."""
    blanks = re.sub("^ +| +$", lambda match: "·" * len(match[0]), token) if token.strip(" ") else visible(token)
    return f"“{cut(blanks.translate(SIGNS), MAX_QUOTE_CHARS)}”"


def chance(probability: float) -> str:
    """Format a probability with three significant digits."""
    return "<0.001" if 0 < probability < 0.001 else f"{probability:.3g}"


def cut(text: str, most: int = MAX_CELL_CHARS) -> str:
    """Truncate a text to at most `most` characters, the last of them an ellipsis."""
    return text if len(text) <= most else text[: most - 1] + "…"
