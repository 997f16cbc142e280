"""Texts as they are shown."""

from glassformer.text.display import bare, chance, cut, quoted, visible


def test_blanks_as_signs() -> None:
    assert visible(" a\n\tb \r") == "␣a⏎⇥b␣␍"


def test_bare_tokens() -> None:
    assert bare("  New York ") == "New York"
    assert bare(" a\tb\r\n") == "a⇥b␍⏎"
    assert [bare(token) for token in (" ", "", "\n")] == ["␣", "␣", "⏎"]


def test_tokens_in_sentences_show_their_blanks() -> None:
    assert [quoted(token) for token in (" was", "was", "  x ", " ", "\n", "'", "")] == [
        "“·was”", "“was”", "“··x·”", "“␣”", "“⏎”", "“'”", "“”"
    ]  # fmt: skip


def test_probabilities_are_no_powers_of_ten() -> None:
    assert [chance(one) for one in (0, 1.3e-6, 0.00123456, 0.5, 1)] == ["0", "<0.001", "0.00123", "0.5", "1"]


def test_cut() -> None:
    assert cut("abc", 3) == "abc"
    assert cut("abcd", 3) == "ab…"
    assert len(cut("a" * 1000)) == 400
