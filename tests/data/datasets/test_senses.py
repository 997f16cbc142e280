"""Words of two meanings: the things before the word tell its sense, and neither the word nor the sentences do."""

from collections import Counter

from glassformer.data.datasets.embedded import DATASETS, open_dataset
from glassformer.data.datasets.generated import SENSES, VERBS, sense_rows

ROWS = list(sense_rows(rows=6000, seed=0))
THINGS = {
    thing: f"{word}/{sense}" for word, senses in SENSES.items() for sense, (things, _) in senses.items()
    for thing in things.split()
}  # fmt: skip


def test_every_word_has_two_senses_with_ten_things_of_their_own() -> None:
    assert all(len(senses) == 2 for senses in SENSES.values())
    assert len(THINGS) == 2 * 10 * len(SENSES)
    deeds = {
        part for senses in SENSES.values() for _, does in senses.values() for part in does.replace(",", "").split()
    }
    assert not {*THINGS, *deeds} & set(SENSES)
    assert not set(THINGS) & deeds


def test_the_word_stands_once_and_things_of_its_sense_before_it() -> None:
    for text, word, sense in ROWS:
        words = text.split()
        assert words.count(word) == 1
        assert not set(words) & (set(SENSES) - {word})
        assert {THINGS[each] for each in words if each in THINGS} == {sense}
        assert any(each in THINGS for each in words[: words.index(word)])


def test_what_follows_the_word_hangs_on_its_sense() -> None:
    for text, word, sense in ROWS:
        deeds = SENSES[word][sense.partition("/")[2]][1].split(", ")
        assert any(f" {word} {does} ." in text for does in deeds)


def test_the_two_senses_of_a_word_do_different_things() -> None:
    for senses in SENSES.values():
        begun = [[does.split()[0] for does in deeds.split(", ")] for _, deeds in senses.values()]
        assert all(len(set(words)) == 4 for words in begun)
        assert not set(begun[0]) & set(begun[1])


def test_senses_are_equally_frequent() -> None:
    counts = Counter(sense for _, _, sense in ROWS)
    assert set(counts) == set(THINGS.values())
    assert min(counts.values()) / (6000 / 16) > 0.8
    assert max(counts.values()) / (6000 / 16) < 1.2


def test_neither_length_nor_place_gives_the_sense_away() -> None:
    for senses in ({sense for _, word, sense in ROWS if word == one} for one in SENSES):
        first, second = (
            [text.split().index(word) for text, word, sense in ROWS if sense == name] for name in sorted(senses)
        )
        assert abs(sum(first) / len(first) - sum(second) / len(second)) < 0.8


def test_texts_are_different_and_hang_on_the_seed() -> None:
    assert len({text for text, _, _ in ROWS}) == 6000
    assert all(len(row) == len(DATASETS["senses"].columns) for row in ROWS)
    assert ROWS[:50] == list(sense_rows(rows=50, seed=0)) != list(sense_rows(rows=50, seed=1))
    assert not any(sign in text for text, _, _ in ROWS for sign in ("{", "}", "  "))


def test_a_word_as_a_verb() -> None:
    rows = list(open_dataset("senses:rows=3000,seed=2,verbs=1").rows())
    verbs = [text for text, _, sense in rows if sense == "bank/rely"]
    assert any("they should not bank on the result ." in text for text in verbs)
    things, deeds = VERBS["bank"]["rely"]
    assert not {*things.split(), *deeds.replace(",", "").split()} & {*THINGS, *SENSES}
    for text in verbs:
        assert "not bank " in text
        assert any(f" bank {does} ." in text for does in deeds.split(", "))
        assert any(word in things.split() for word in text.split(" bank ")[0].split())
    counts = Counter(sense for _, word, sense in rows if word == "bank")
    assert len(counts) == 3
    assert min(counts.values()) > 0.7 * max(counts.values())
    assert list(open_dataset("senses:rows=50,seed=0,verbs=0").rows()) == ROWS[:50]
