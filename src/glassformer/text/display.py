"""Texts and probabilities as people see them: blanks as signs, long ones cut, no powers of ten."""

import re

SIGNS = str.maketrans({"\n": "⏎", "\t": "⇥", "\r": "␍"})
BLANK = "␣"
MOST_LETTERS = 400
"""The length of a text in a table."""
LONGEST_QUOTE = 24
"""The length of a token in a sentence."""


def visible(text: str) -> str:
    """Every blank, tab and line end as a sign."""
    return text.translate(SIGNS).replace(" ", BLANK)


def bare(token: str) -> str:
    """A token without the blanks around it, on one line; a blank alone as an open box."""
    return token.strip(" ").translate(SIGNS) or BLANK


def quoted(token: str) -> str:
    """A token in a sentence: a blank before or after it as ·, a blank alone as an open box."""
    blanks = re.sub("^ +| +$", lambda found: "·" * len(found[0]), token) if token.strip(" ") else visible(token)
    return f"“{cut(blanks.translate(SIGNS), LONGEST_QUOTE)}”"


def chance(probability: float) -> str:
    """A probability in three digits."""
    return "<0.001" if 0 < probability < 0.001 else f"{probability:.3g}"


def cut(text: str, most: int = MOST_LETTERS) -> str:
    """A text of at most so many letters, … the last of them."""
    return text if len(text) <= most else text[: most - 1] + "…"
