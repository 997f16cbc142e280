"""What others wrote, made harmless: on a screen, in JSON, in Markdown, in a spreadsheet."""

import json

import pytest

from glassformer.text.escaping import encodable, json_line, markdown, on_one_line, printable, spreadsheet_cell

STEERING = ["\x1b]0;title\x07", "\x1b[2J", "\x9b31m", "\x00", "\x7f", "\u202e", "\u2066", "\r"]


@pytest.mark.parametrize("text", STEERING)
def test_nothing_steers_a_terminal(text: str) -> None:
    shown = printable(f"a{text}b\n\tc")
    assert not set(shown) & {"\x1b", "\x07", "\x9b", "\x00", "\x7f", "\u202e", "\u2066", "\r"}
    assert shown.startswith("a·") and shown.endswith("b\n\tc")


def test_a_line_is_one_line() -> None:
    assert on_one_line("a\nb\tc\u2028d") == "a⏎b⇥c⏎d"


@pytest.mark.parametrize("text", [*STEERING, "café 🍲", "half \ud800 a character"])
@pytest.mark.parametrize("encoding", ["utf-8", "ascii", None])
def test_json_holds_the_text_and_steers_nothing(text: str, encoding: str | None) -> None:
    line = json_line({"text": text}, encoding)
    assert json.loads(line) == {"text": text}
    assert printable(line) == line
    line.encode(encoding or "utf-8")


def test_json_of_numbers_that_are_none() -> None:
    assert json_line({"a": float("nan"), "b": [1.5]}) == '{"a": null, "b": [1.5]}'


def test_what_an_encoding_lacks() -> None:
    assert encodable("é→", "ascii") == r"\xe9\u2192"
    assert encodable("é\udcff", "utf-8") == r"é\udcff"


def test_markdown_shows_texts_as_they_are() -> None:
    assert markdown("<script>alert(1)</script>") == "&lt;script>alert(1)&lt;/script>"
    assert markdown("[x](javascript:alert(1))") == r"\[x\](javascript:alert(1))"
    assert markdown("a|b\nc`d\\") == r"a\|b c\`d\\"


@pytest.mark.parametrize("text", ["=1+1", "@SUM(A1)", "+cmd|' /C calc'!A0", "-2+3", "\t=1", "-good"])
def test_cells_are_not_computed(text: str) -> None:
    assert spreadsheet_cell(text) == f"'{text}"


@pytest.mark.parametrize("value", ["-1.5", "+3", "-84,44", "1e-3", "-5 %", "-", "- not good", "a=b", "", -1.5, None])
def test_numbers_and_texts_stay(value: object) -> None:
    assert spreadsheet_cell(value) == value
