"""Texts as people see them: blanks as signs, long ones cut."""

SIGNS = str.maketrans({"\n": "⏎", "\t": "⇥", "\r": "␍"})
BLANK = "␣"
MOST_LETTERS = 400
"""The length of a text in a table."""


def visible(text: str) -> str:
    """Every blank, tab and line end as a sign."""
    return text.translate(SIGNS).replace(" ", BLANK)


def bare(token: str) -> str:
    """A token without the blanks around it, on one line; a blank alone as an open box."""
    return token.strip(" ").translate(SIGNS) or BLANK


def cut(text: str, most: int = MOST_LETTERS) -> str:
    """A text of at most so many letters, … the last of them."""
    return text if len(text) <= most else text[: most - 1] + "…"
