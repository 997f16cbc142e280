import itertools
import re
from collections import Counter

import pytest

from glassformer.data.datasets import opinions
from glassformer.data.datasets.opinions import (
    DENIALS,
    FACTS,
    LABELS,
    MAX_WORDS,
    ORDER_PAIRS,
    SHARES,
    TEMPLATES,
    TEST_TEMPLATES,
    TEST_THINGS,
    THINGS,
    opinion_rows,
    opinion_test_rows,
)

TRAIN = opinion_rows(rows=12_000, seed=0)
TEST = opinion_test_rows(rows=12_000, seed=0)
GOOD = {word for thing in THINGS for word in thing.good} | set(FACTS["verbs_good"])
BAD = {word for thing in THINGS for word in thing.bad} | set(FACTS["verbs_bad"])


def words(sentence: str) -> list[str]:
    return re.findall(r"\w+", sentence)


def bag(sentence: str) -> tuple[tuple[str, int], ...]:
    """Its words counted; `a` and `an` are one word."""
    return tuple(sorted(Counter("a" if word == "an" else word for word in words(sentence)).items()))


@pytest.mark.parametrize(("rows", "many"), [(TRAIN, 12_000), (TEST, 3000)])
def test_as_many_as_promised_all_different_and_half_positive(rows: list[tuple[str, str]], many: int) -> None:
    assert len({sentence for sentence, _ in rows}) == len(rows) == many
    assert Counter(label for _, label in rows) == {"positive": many // 2, "negative": many // 2}


def test_labels_are_mixed() -> None:
    labels = [label for _, label in TRAIN]
    assert 400 < labels[:1000].count("positive") < 600
    assert 5000 < sum(one != next_ for one, next_ in itertools.pairwise(labels)) < 7000


@pytest.mark.parametrize("many", [1, 2, 7])
def test_odd_numbers_of_rows(many: int) -> None:
    assert len(opinion_rows(many, 0)) == many
    assert len(opinion_test_rows(many, 0)) == (many + 3) // 4


def test_no_sentence_of_the_test_can_be_learned_by_heart() -> None:
    assert not {sentence for sentence, _ in TRAIN} & {sentence for sentence, _ in TEST}
    assert not {template for group in TEMPLATES for template in group} & {
        template for group in TEST_TEMPLATES for template in group
    }


def test_only_things_are_new_in_the_test() -> None:
    known = {word for sentence, _ in TRAIN for word in words(sentence)}
    new = {word for sentence, _ in TEST for word in words(sentence)} - known
    assert new == {thing.noun for thing in TEST_THINGS}
    assert known >= GOOD | BAD


def test_good_words_are_not_bad() -> None:
    assert not GOOD & BAD
    assert {word for thing in TEST_THINGS for word in thing.good} <= GOOD
    assert {word for thing in TEST_THINGS for word in thing.bad} <= BAD


def test_lengths() -> None:
    lengths = {len(sentence.split()) for sentence, _ in TRAIN + TEST}
    assert min(lengths) >= 4
    assert 20 < max(lengths) <= MAX_WORDS == 30


def test_many_sentences_have_a_twin_of_the_same_words_and_the_other_label() -> None:
    labels: dict[tuple[tuple[str, int], ...], set[str]] = {}
    for sentence, label in TRAIN:
        labels.setdefault(bag(sentence), set()).add(label)
    torn = sum(len(labels[bag(sentence)]) == 2 for sentence, _ in TRAIN)
    assert 0.4 < torn / len(TRAIN) < 0.7


def test_counting_good_and_bad_words_is_little_better_than_chance() -> None:
    for rows in (TRAIN, TEST):
        right = 0.0
        for sentence, label in rows:
            said = words(sentence)
            sum_ = sum(word in GOOD for word in said) - sum(word in BAD for word in said)
            right += 0.5 if sum_ == 0 else (sum_ > 0) == (label == "positive")
        assert 0.52 < right / len(rows) < 0.7


@pytest.mark.parametrize(
    ("pattern", "turned"),
    [
        (r"the (\w+) (?:was|were) (\w+), not \w+ at all", 0),
        (r"(\w+) is the word for the (\w+), not \w+", 0),
        (r"I expected (?:an? )?(\w+) \w+ but got", 1),
        (r"the (\w+) used to be (\w+), now", 1),
        (r"^the (\w+) (?:was|were) (?:far from|hardly|by no means|anything but) (\w+)$", 1),
        (r"the (\w+) (?:was|were) not only (\w+) but", 0),
        (r"I would call the (\w+) (\w+)$", 0),
        (r"I would not call the (\w+) (\w+)$", 1),
        (r"^the (\w+) (?:was|were) (\w+), but the", 1),
        (r"^although the (\w+) (?:was|were) (\w+), (?:the|what counts)", 1),
        (r"people say the \w+ (?:is|are) \w+, but I found (?:it|them) (?:far from|hardly|by no means) (\w+)", 1),
        (r"^although the \w+ (?:was|were) (?:far from|hardly|by no means|anything but) (\w+),", 0),
        (r"never mind that the (\w+) (?:was|were) (\w+):", 1),
        (r"^I (\w+) the (\w+), although my friend", 0),
    ],
)
def test_what_sentences_mean(pattern: str, turned: int) -> None:
    """`turned` is 1 where the sentence means the opposite of the word that is found in it."""
    found = 0
    for text, said in TRAIN:
        for match in re.findall(pattern, text):
            (word,) = {match, *match} & (GOOD | BAD) if isinstance(match, tuple) else {match}
            assert said == LABELS[turned ^ (word in BAD)], text
            found += 1
    assert found > 10


def test_little_words_follow_the_noun() -> None:
    sentences = " | ".join(sentence for sentence, _ in TRAIN + TEST)
    numbers = {thing.noun: thing.number for thing in (*THINGS, *TEST_THINGS)}
    said = re.findall(r"\bthe (\w+) (was|were|is|are)\b", sentences)
    assert len(said) > 5000
    assert {(numbers[noun] == "many", verb in ("were", "are")) for noun, verb in said} == {(True, True), (False, False)}
    articles = re.findall(r"\b(an?) (\w+) (\w+)", sentences)
    assert {numbers[noun] for _, word, noun in articles if word in GOOD | BAD and noun in numbers} == {"one"}
    assert {(article, word[0] in "aeiou") for article, word, _ in articles} == {("a", False), ("an", True)}
    assert not re.search(r"[{}]|  |,,| ,", sentences)


def test_each_denial_is_seen_often() -> None:
    assert len(SHARES) == len(TEMPLATES) == len(TEST_TEMPLATES)
    assert sum(SHARES) == pytest.approx(1)
    assert all(sum(denial.split()[0] in words(text) for text, _ in TRAIN) > 300 for denial in DENIALS)


@pytest.mark.parametrize("pair", ORDER_PAIRS)
def test_pairs_that_only_order_tells_apart(pair: tuple[tuple[str, str], tuple[str, str]]) -> None:
    (one, label), (other, other_label) = pair
    assert one != other
    assert Counter(words(one)) == Counter(words(other))
    assert {label, other_label} == set(LABELS)
    assert not {one, other} & {sentence for sentence, _ in TRAIN + TEST}


def test_sentences_are_kept_back_with_their_twins(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = {sentence for pair in ORDER_PAIRS for sentence, _ in pair}
    assert kept == opinions._KEPT_BACK
    known = {word for sentence, _ in TRAIN for word in words(sentence)}
    assert all(set(words(sentence)) <= known for sentence in kept)
    monkeypatch.setattr(opinions, "_KEPT_BACK", {sentence for sentence, _ in TRAIN[:100]})
    assert not {sentence for sentence, _ in opinion_rows(rows=12_000, seed=0)} & opinions._KEPT_BACK
