"""Escaping of untrusted text for terminals, JSON, Markdown and spreadsheets."""

import json
import re

SIGN = "·"
"""Replacement for characters that would control a terminal."""
TEXT = dict.fromkeys((code for code in (*range(32), *range(127, 160)) if chr(code) not in "\n\t\r"), SIGN)
"""Translation table for every output: removes ESC and the other control characters."""
SCREEN = TEXT | dict.fromkeys((ord("\r"), *range(0x202A, 0x202F), *range(0x2066, 0x206A)), SIGN)
"""Translation table for a terminal: also removes carriage returns and bidirectional overrides."""
LINES = str.maketrans({"\n": "⏎", "\t": "⇥", "\r": "␍", "\u2028": "⏎", "\u2029": "⏎"})
UNSAFE_IN_JSON = re.compile("[\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
UNSAFE_IN_MARKDOWN = re.compile(r"[\\`\[\]|]")
FORMULA = re.compile(r"[=@\t\r]|[+-][^\s+-]")
"""Beginning of a cell that a spreadsheet would compute."""
NUMBER = re.compile(r"[+-]?[\d.,]*\d(e[+-]?\d+)?\s?%?", re.IGNORECASE)


def printable(text: str, table: dict[int, str] = SCREEN) -> str:
    """Replace characters that would control a terminal. Model names, labels and file names may contain any."""
    return text.translate(table)


def on_one_line(text: str) -> str:
    """Replace line ends and tabs by visible signs."""
    return text.translate(LINES)


def encodable(text: str, encoding: str | None) -> str:
    """Replace each character that the encoding lacks by its escape, such as lone surrogates in UTF-8."""
    encoding = encoding or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)


def printable_line(text: str) -> str:
    """Return the text as one line of valid UTF-8 without terminal control characters."""
    return encodable(printable(on_one_line(text)), "utf-8")


def json_line(value: object, encoding: str | None = "utf-8") -> str:
    """Return JSON on one line; escape characters that would control a terminal or that the encoding lacks.

    Infinity and NaN, which JSON lacks, become null.
    """
    is_utf8 = (encoding or "utf-8").lower().replace("-", "") == "utf8"
    try:
        text = json.dumps(value, ensure_ascii=not is_utf8, allow_nan=False)
    except ValueError:  # infinity or NaN
        value = json.loads(json.dumps(value), parse_constant=lambda _: None)
        text = json.dumps(value, ensure_ascii=not is_utf8)
    return UNSAFE_IN_JSON.sub(lambda character: f"\\u{ord(character[0]):04x}", text)


def markdown(text: str) -> str:
    """Escape a text for Markdown: no HTML, no links, no table columns."""
    line = printable(text.replace("\n", " ").replace("\t", " "))
    return UNSAFE_IN_MARKDOWN.sub(r"\\\g<0>", line).replace("<", "&lt;")


def spreadsheet_cell(value: object) -> object:
    """Return the value of a CSV cell; prefix text that a spreadsheet would compute with an apostrophe."""
    if isinstance(value, str) and FORMULA.match(value) and not NUMBER.fullmatch(value):
        return f"'{value}"
    return value
