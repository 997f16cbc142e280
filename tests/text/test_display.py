"""Texts as they are shown."""

from glassformer.text.display import bare, cut, visible


def test_blanks_as_signs() -> None:
    assert visible(" a\n\tb \r") == "␣a⏎⇥b␣␍"


def test_bare_tokens() -> None:
    assert bare("  New York ") == "New York"
    assert bare(" a\tb\r\n") == "a⇥b␍⏎"
    assert [bare(token) for token in (" ", "", "\n")] == ["␣", "␣", "⏎"]


def test_cut() -> None:
    assert cut("abc", 3) == "abc"
    assert cut("abcd", 3) == "ab…"
    assert len(cut("a" * 1000)) == 400
