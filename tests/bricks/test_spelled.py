"""Words in texts of characters, and the bag that counts them."""

from collections import Counter

import pytest
import torch
from torch import Tensor

from glassformer.bricks.bag import BagOfWords, find_words
from helpers.support import ready, same

LETTERS = " abcd"
TEXTS = ["ab cab  ab d", "", " ", "a", "cab ab", "ba ab", "  d", "abcd abcd abcd", "dd d dd"]
OUT, BUCKETS = 3, 10_007


def written(texts: list[str]) -> tuple[Tensor, Tensor]:
    """Ids, of padding that of a letter, and the mask."""
    width = max(map(len, texts), default=0) + 2
    ids = [[LETTERS.index(letter) for letter in text] + [2] * (width - len(text)) for text in texts]
    mask = torch.arange(width) < torch.tensor([len(text) for text in texts])[:, None]
    return torch.tensor(ids), mask


def test_words_are_what_stands_between_spaces() -> None:
    ids, mask = written(TEXTS)
    found = find_words(ids, mask, 0)
    for row, text in enumerate(TEXTS):
        words = text.split()
        assert int(found.real[row].sum()) == len(words)
        assert found.letters[row][found.real[row]].tolist() == [len(word) for word in words]
        assert [LETTERS[id] for id in ids[row][found.letter[row]].tolist()] == list("".join(words))
        assert found.place[row][found.letter[row]].tolist() == [n for n, word in enumerate(words) for _ in word]


def test_a_word_has_one_number_wherever_it_stands() -> None:
    ids, mask = written(TEXTS)
    found = find_words(ids, mask, 0)
    numbers: dict[str, set[int]] = {}
    for row, text in enumerate(TEXTS):
        for word, number in zip(text.split(), found.numbers[row].tolist(), strict=False):
            numbers.setdefault(word, set()).add(number)
    assert all(len(of) == 1 for of in numbers.values())
    assert len(set.union(*numbers.values())) == len(numbers)


def test_letters_in_another_order_are_another_word() -> None:
    words = [f"{a}{b}{c}{d}" for a in "abcd" for b in "abcd" for c in "abcd" for d in "abcd"]
    ids, mask = written(words)
    assert len(set(find_words(ids, mask, 0).numbers[:, 0].tolist())) == len(words)


def features_of(text: str, ngrams: int, words: int) -> Counter[str]:
    runs = [text[start : start + n] for n in range(1, ngrams + 1) for start in range(len(text) - n + 1)]
    runs = [run for run in runs if " " not in run[1:-1]]
    whole = text.split()
    of_words = [" ".join(whole[first : first + n]) for n in range(1, words + 1) for first in range(len(whole) - n + 1)]
    return Counter([*(f"letters {run}" for run in runs), *(f"words {run}" for run in of_words)])


@pytest.mark.parametrize(("ngrams", "words"), [(1, 1), (3, 2), (2, 3)])
def test_the_bag_counts_runs_of_both(ngrams: int, words: int) -> None:
    """As many features as written out, alike where these are."""
    bag = BagOfWords(vocab=len(LETTERS), out=OUT, ngrams=ngrams, buckets=BUCKETS, words=words, space=0)
    ids, mask = written(TEXTS)
    rows: dict[str, set[int]] = {}
    found, real = bag.features(ids, mask)
    for row, text in enumerate(TEXTS):
        expected = features_of(text, ngrams, words)
        there = Counter(found[row][real[row]].tolist())
        assert sorted(there.values()) == sorted(expected.values())
    for text in TEXTS:
        (only,), whole = bag.features(*written([text]))
        spans = bag.spans(written([text])[0][0])
        assert len(spans) == len(only)
        for span, feature, exists in zip(spans, only.tolist(), whole[0].tolist(), strict=True):
            if exists:
                rows.setdefault(text[slice(*span)], set()).add(feature)
    assert max(map(len, rows.values())) <= 2  # the run of letters, and the word of the same letters


@pytest.mark.parametrize("weighting", ["tfidf", "counts"])
def test_what_the_letters_add_is_all_of_it(weighting: str) -> None:
    brick = ready(BagOfWords(vocab=5, out=OUT, ngrams=3, buckets=BUCKETS, weighting=weighting, words=2, space=0))
    ids, mask = written(TEXTS)
    brick.learn_frequencies([(ids, mask)])
    each, whole = brick.contributions(ids, mask), brick(ids, mask)
    same(each.sum(1), whole, 1e-6)
    assert (each[~mask] == 0).all()
    for row, text in enumerate(TEXTS):
        if text:
            same(whole[row], brick(*written([text]))[0], 1e-6)


def test_words_and_characters_count_alike() -> None:
    """TF-IDF: each kind of feature has length 1."""
    brick = BagOfWords(vocab=5, out=1, ngrams=3, buckets=BUCKETS, words=2, space=0)
    ids, mask = written(TEXTS)
    brick.learn_frequencies([(ids, mask)])
    found, real = brick.features(ids, mask)
    weights = brick.weights(found, real)
    for row, text in enumerate(TEXTS):
        squares = {False: 0.0, True: 0.0}
        for feature in set(found[row][real[row]].tolist()):
            squares[feature >= brick.words_from] += float(weights[row][found[row] == feature].sum()) ** 2
        assert squares[False] == pytest.approx(float(bool(text)), abs=1e-5)
        assert squares[True] == pytest.approx(float(bool(text.split())), abs=1e-5)
