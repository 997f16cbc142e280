"""Which texts are the same, and which nearly so."""

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


def test_no_two_lookalikes_of_one_alphabet_become_one_letter() -> None:
    cyrillic = [latin for letter, latin in LOOKALIKES.items() if "CYRILLIC" in unicodedata.name(letter)]
    assert len({*cyrillic}) == len(cyrillic)


def test_references_that_were_escaped_many_times_take_no_time() -> None:
    assert normal_form("&" + "amp;" * 100_000).startswith("&amp;")


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
