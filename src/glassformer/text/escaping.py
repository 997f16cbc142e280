"""Texts that others wrote, made harmless where they go: on a screen, into JSON, Markdown or a spreadsheet."""

import json
import re
from typing import Any

SIGN = "·"
"""What stands for a character that would steer a terminal."""
TEXT = dict.fromkeys((code for code in (*range(32), *range(127, 160)) if chr(code) not in "\n\t\r"), SIGN)
"""What no output holds, wherever it goes: ESC and the other control characters."""
SCREEN = TEXT | dict.fromkeys((ord("\r"), *range(0x202A, 0x202F), *range(0x2066, 0x206A)), SIGN)
"""What no screen is shown: also what overwrites a line, or turns the direction of the letters after it."""
LINES = str.maketrans({"\n": "⏎", "\t": "⇥", "\r": "␍", "\u2028": "⏎", "\u2029": "⏎"})
UNSAFE_IN_JSON = re.compile("[\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
UNSAFE_IN_MARKDOWN = re.compile(r"[\\`\[\]|]")
FORMULA = re.compile(r"[=@\t\r]|[+-][^\s+-]")
"""How a cell begins that a spreadsheet would compute."""
NUMBER = re.compile(r"[+-]?[\d.,]*\d(e[+-]?\d+)?\s?%?", re.IGNORECASE)


def printable(text: str, table: dict[int, str] = SCREEN) -> str:
    """Without what would steer a terminal: a model, a label, a file's name may hold any character."""
    return text.translate(table)


def on_one_line(text: str) -> str:
    """Line ends and tabs as signs."""
    return text.translate(LINES)


def encodable(text: str, encoding: str | None) -> str:
    """What an encoding cannot hold, as its number: half a character in any, most letters in ASCII."""
    encoding = encoding or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)


def printable_line(text: str) -> str:
    """Return the text as one line that steers no terminal and that UTF-8 can hold."""
    return encodable(printable(on_one_line(text)), "utf-8")


def json_line(value: Any, encoding: str | None = "utf-8") -> str:
    """JSON on one line; characters that would steer a terminal, or that the encoding lacks, by their numbers."""
    whole = (encoding or "utf-8").lower().replace("-", "") == "utf8"
    try:
        text = json.dumps(value, ensure_ascii=not whole, allow_nan=False)
    except ValueError:  # JSON knows no infinity: null stands for it
        value = json.loads(json.dumps(value), parse_constant=lambda _: None)
        text = json.dumps(value, ensure_ascii=not whole)
    return UNSAFE_IN_JSON.sub(lambda character: f"\\u{ord(character[0]):04x}", text)


def markdown(text: str) -> str:
    """A text as Markdown shows it: no HTML, no link, no column of its own."""
    line = printable(text.replace("\n", " ").replace("\t", " "))
    return UNSAFE_IN_MARKDOWN.sub(r"\\\g<0>", line).replace("<", "&lt;")


def spreadsheet_cell(value: Any) -> Any:
    """A cell of a CSV file; one that a spreadsheet would compute gets an apostrophe, and is shown as it is."""
    if isinstance(value, str) and FORMULA.match(value) and not NUMBER.fullmatch(value):
        return f"'{value}"
    return value
