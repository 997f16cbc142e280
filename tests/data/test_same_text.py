"""Which texts are the same, and which nearly so."""

import re
import sys
import unicodedata
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.data.same_text import LOOKALIKES, NormalDigest, digests_of, near_pairs, normal_form, sketch_of


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("  The CAT\t sat\r\n\x1f", "the cat sat"),
        ("Straße", "strasse"),
        ("ＦＵＬＬ\u3000ｗｉｄｔｈ", "full width"),
        ("ﬁne\u00a0print\u2028", "fine print"),
        ("cafe\u0301", "caf\u00e9"),
        ("\u0390", "\u0390"),  # its capital is taken apart when it is folded
        ("\u0390".upper(), "\u0390"),
        ("", ""),
        (" \x85 ", ""),
        ("zero\u200bwidth, soft\u00adhyphen \u200e\ufeffmark \u2764\ufe0f", "zerowidth, softhyphen mark \u2764"),
        ("12.300 kg, -0.50, $3.00.", "12.3 kg, -0.5, $3."),
        ("v1.10, 1.10.2, 10.0.0.0, 1.50,20, 10.30.2024", "v1.10, 1.10.2, 10.0.0.0, 1.50,20, 10.30.2024"),
        ("Tom &amp; Jerry&#39;s caf&Eacute;&nbsp;&amp;quot;", "tom & jerry's caf\u00e9 \""),
        ("R&D; AT&T", "r&d; at&t"),
        ("\u0441o\u0440\u0443 \u0410B\u0421", "copy abc"),  # Cyrillic es, er, u; a, es
    ],
)
def test_normal_form(text: str, form: str) -> None:
    assert normal_form(text) == form
    assert normal_form(form) == form


@pytest.mark.parametrize(
    ("first", "last"),
    [
        (0x115F, 0x1160), (0x180B, 0x180F), (0x200B, 0x200F), (0x206A, 0x206F), (0x3164, 0x3164), (0xFE00, 0xFE0F),
        (0xFFA0, 0xFFA0), (0xFFF9, 0xFFFB), (0xE0000, 0xE007F), (0xE0100, 0xE01EF),
    ],
)  # fmt: skip
def test_invisible_characters(first: int, last: int) -> None:
    for place in range(first, last + 1):
        assert normal_form(f"a{chr(place)}b&#{place};c") == "abc", hex(place)


def test_every_format_character_is_invisible_or_a_sign() -> None:
    """Signs of category Cf that are drawn: Arabic, Syriac and Kaithi number signs, and Egyptian joiners."""
    drawn = "ARABIC (NUMBER|SIGN|FOOTNOTE|POUND|PIASTRE|END|DISPUTED)|SYRIAC|KAITHI|EGYPTIAN"
    for character in map(chr, range(sys.maxunicode + 1)):
        if unicodedata.category(character) == "Cf" and not re.match(drawn, unicodedata.name(character, "")):
            assert normal_form(f"a{character}b") == "ab", hex(ord(character))


@pytest.mark.parametrize(
    ("text", "copy"),
    [
        ("1,234.50 and 12,345,678.00", "1,234.5 and 12,345,678"),
        (".5, -.50, ($.25) .0", "0.5, -0.5, ($0.25) 0"),
        ("ATEOPXYKMNHIZB", "ΑΤΕΟΡΧΥΚΜΝΗΙΖΒ"),
        ("A TOP Move", "Α ΤΟΡ Μονe"),
        ("A very good copy: I say you", "Α νery gοοd cοрy: Ӏ sаy үօu"),
        ("ΝΑΙ, ΜΗΝ", "ναι, μην"),
        ("кӀант", "КӏАНТ"),
        ("<b>", "&amp;amp;#38;AMP;lt;b&amp;amp;amp;gt;"),
    ],
)
def test_copies(text: str, copy: str) -> None:
    assert normal_form(text) == normal_form(copy)


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("1,23.50", "1,23.5"),
        ("1,2,345.50", "1,2,345.5"),
        ("a1,234.50", "a1,234.5"),
        ("v.5", "v0.5"),
        ("1..5", "1.0.5"),
        ("5 µg", "5 mg"),
        ("TNF-α", "TNF-a"),
        ("νους", "υους"),
        ("тус", "түс"),  # Kazakh: falling, colour
        ("кӏант", "кіант"),
    ],
)
def test_no_copies(text: str, other: str) -> None:
    assert normal_form(text) != normal_form(other)


@pytest.mark.parametrize("alphabet", ["CYRILLIC", "GREEK", "ARMENIAN"])
def test_no_two_lookalikes_of_one_alphabet_become_one_letter(alphabet: str) -> None:
    found = [latin for letter, latin in LOOKALIKES.items() if alphabet in unicodedata.name(letter)]
    assert len({*found}) == len(found) > 0


@given(st.lists(st.text("αβεζηθικλμνοπρςστυφχψωάέήίόύώϊϋΐΰ", min_size=2), min_size=2, max_size=2))
def test_words_of_one_alphabet_stay_different(words: list[str]) -> None:
    forms = [unicodedata.normalize("NFKC", word.casefold()) for word in words]
    assert (normal_form(words[0]) == normal_form(words[1])) is (forms[0] == forms[1])
    assert normal_form(words[0]) == normal_form(words[0].upper())


def test_references_that_were_escaped_many_times_take_no_time() -> None:
    assert normal_form("&" + "amp;" * 100_000 + "lt;") == "<"


@given(st.text())
def test_a_normal_form_is_its_own(text: str) -> None:
    form = normal_form(text)
    assert form == normal_form(form) == normal_form(f" {text}\n")


@given(st.lists(st.text("aB \n\u00c9\u3000.\u200b", max_size=6)))
def test_pieces_of_a_text_have_the_digest_of_the_whole(pieces: list[str]) -> None:
    normal = NormalDigest()
    for piece in pieces:
        normal.update(piece)
    assert normal.number == int(digests_of([normal_form("".join(pieces)).encode()])[0])


# --- near-duplicates ---


def sentences(count: int, words: int = 10, seed: int = 0) -> list[str]:
    random = Random(seed)
    letters = "abcdefghijklmnopqrstuvwxyz"
    known = ["".join(random.choices(letters, k=random.randint(3, 8))) for _ in range(997)]
    return [" ".join(random.choices(known, k=words)) for _ in range(count)]


def with_another_word(text: str, place: int) -> str:
    words = text.split()
    return " ".join([*words[:place], "elsewhere", *words[place + 1 :]])


def pairs_of(texts: list[str]) -> list[list[int]]:
    return near_pairs(sketch_of(normal_form(text)) for text in texts).tolist()


def test_a_word_changed_is_found_and_nothing_else() -> None:
    texts = sentences(499)
    copies = [with_another_word(text, place % 10) for place, text in enumerate(texts[:101])]
    found = pairs_of([*texts, *copies])
    assert all(pair in [[row, 499 + row] for row in range(101)] for pair in found)
    assert len(found) >= 99


def test_long_texts_are_known_by_a_few_pieces() -> None:
    books = [" ".join(sentences(200, seed=seed)) for seed in range(5)]
    assert pairs_of([*books, with_another_word(books[3], 977)]) == [[3, 5]]


def test_short_texts_and_such_of_few_letters_are_never_near() -> None:
    assert pairs_of(["good film", "good films", "w " * 50, "w " * 51, "", "x"]) == []
    assert pairs_of([]) == []


def test_what_is_read_beside_a_text_tells_it_apart() -> None:
    text = normal_form(sentences(1)[0])
    assert near_pairs([sketch_of(text, 1), sketch_of(text, 2), sketch_of(text, 1)]).tolist() == [[0, 2]]


def test_many_of_one_kind_are_all_found() -> None:
    """Each is compared with two others of a band, not with all, and yet none is lost."""
    kind = [f"the parcel number {number} could not be brought to its door" for number in range(1000, 1307)]
    assert np.unique(np.array(pairs_of(kind))[:, 1]).tolist() == list(range(1, 307))
