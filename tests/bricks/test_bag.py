import math
from collections import Counter

import numpy as np
import pytest
import torch
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from torch import Tensor

from glassformer.bricks import bag as bag_module
from glassformer.bricks.bag import BagOfWords, ngram_hashes, select_values, sort_rows
from helpers.support import differs, numbers, ready, same, tokens

B, T, VOCAB, OUT = 17, 13, 11, 5
LENGTHS = torch.tensor([T, 1, 2, 0, 5, 3, 7, T, 4, 6, 1, 9, 2, 8, 10, 3, 12])
MASK = torch.arange(T) < LENGTHS[:, None]
LOUD = VOCAB - 1
"""A word that stands at all padding, and in no text."""

weightings = pytest.mark.parametrize("weighting", ["tfidf", "counts"])
gram_lengths = pytest.mark.parametrize("ngrams", [1, 2, 3])


def texts(seed: int = 0) -> Tensor:
    """Some words often, some rarely, LOUD never."""
    drawn = torch.rand(B, T, generator=torch.Generator().manual_seed(seed)).square() * (VOCAB - 1)
    return drawn.long().masked_fill(~MASK, LOUD)


def no_collisions(words: Tensor, length: int) -> Tensor:
    """A run's words as digits: a number of its own for each run of up to three words."""
    runs = words.unfold(1, length, 1)
    return (runs * VOCAB ** torch.arange(length)).sum(-1) + sum(VOCAB**shorter for shorter in range(2, length))


BUCKETS = VOCAB**2 + VOCAB**3


def written_as_text(words: Tensor, mask: Tensor = MASK) -> list[str]:
    return [" ".join(f"w{id}" for id in row[real].tolist()) for row, real in zip(words, mask, strict=True)]


def row_of(name: str) -> int:
    """The row of the table for a feature as scikit-learn writes it."""
    ids = torch.tensor([[int(word[1:]) for word in name.split()]])
    return int(ids[0, 0]) if ids.shape[1] == 1 else VOCAB + int(no_collisions(ids, ids.shape[1]))


def of_sklearn(kind: type, ngrams: int, learned: Tensor, asked: Tensor, table: np.ndarray) -> np.ndarray:
    vectorizer = kind(ngram_range=(1, ngrams), token_pattern=r"\S+")
    vectorizer.fit(written_as_text(learned))
    x = vectorizer.transform(written_as_text(asked)).toarray()
    return x @ table[[row_of(name) for name in vectorizer.get_feature_names_out()]]


@weightings
@gram_lengths
def test_it_is_scikit_learns(monkeypatch: pytest.MonkeyPatch, weighting: str, ngrams: int) -> None:
    monkeypatch.setattr(bag_module, "ngram_hashes", no_collisions)
    brick = ready(BagOfWords(vocab=VOCAB, out=OUT, ngrams=ngrams, buckets=BUCKETS, weighting=weighting))
    learned, asked = texts(), texts(1)
    brick.learn_frequencies([(learned[:6], MASK[:6]), (learned[6:], MASK[6:])])
    table = brick.table.weight.detach().numpy()
    kind = TfidfVectorizer if weighting == "tfidf" else CountVectorizer
    same(brick(learned, MASK), of_sklearn(kind, ngrams, learned, learned, table), 1e-6)
    if weighting == "tfidf":  # features that no training text has are left out
        same(brick(asked, MASK), of_sklearn(kind, ngrams, learned, asked, table), 1e-6)


def test_a_single_text_written_out() -> None:
    brick = ready(BagOfWords(vocab=VOCAB, out=OUT))
    words = torch.tensor([[3, 1, 3, 2], [3, 3, 2, 0], [2, 5, 0, 0]])
    real = torch.arange(4) < torch.tensor([4, 3, 2])[:, None]
    brick.learn_frequencies([(words, real)])
    idf = {1: math.log(4 / 2) + 1, 2: math.log(4 / 4) + 1, 3: math.log(4 / 3) + 1, 5: math.log(4 / 2) + 1}
    for word in range(VOCAB):
        assert brick.idf[word].item() == pytest.approx(idf.get(word, 0.0))
    x = np.array([idf[1], idf[2], 2 * idf[3]])
    same(brick(words, real)[0], x / np.sqrt((x * x).sum()) @ brick.table.weight[1:4].detach().numpy())


@gram_lengths
def test_real_hashes_against_features_written_out(ngrams: int) -> None:
    """With so few buckets that runs collide: those in one bucket are one feature."""
    brick = ready(BagOfWords(vocab=VOCAB, out=OUT, ngrams=ngrams, buckets=7))
    words = texts()

    def bag_of(row: int) -> Counter[int]:
        text = words[row, : int(LENGTHS[row])]
        found = Counter(text.tolist())
        for length in range(2, ngrams + 1):
            for start in range(len(text) - length + 1):
                found[VOCAB + int(ngram_hashes(text[None, start : start + length], length)) % 7] += 1
        return found

    bags = [bag_of(row) for row in range(B)]
    having = Counter(feature for found in bags for feature in found)
    brick.learn_frequencies([(words, MASK)])
    out = brick(words, MASK)
    for row, found in enumerate(bags):
        x = {feature: count * (math.log((1 + B) / (1 + having[feature])) + 1) for feature, count in found.items()}
        length = math.sqrt(sum(value * value for value in x.values())) or 1.0
        expected = sum((brick.table.weight[feature] * value / length for feature, value in x.items()), torch.zeros(OUT))
        same(out[row], expected.detach(), 1e-6)


@weightings
@gram_lengths
def test_padding_changes_nothing(weighting: str, ngrams: int) -> None:
    brick = ready(BagOfWords(vocab=VOCAB, out=OUT, ngrams=ngrams, buckets=101, weighting=weighting))
    words = texts()
    brick.learn_frequencies([(words, MASK)])
    out, states = brick(words, MASK), brick.contributions(words, MASK)
    assert out.isfinite().all()
    same(out[LENGTHS == 0], torch.zeros(1, OUT))
    assert (states[~MASK] == 0).all()
    for row, length in enumerate(LENGTHS.tolist()):
        if length:
            same(out[row], brick(words[row : row + 1, :length])[0])
            same(states[row, :length], brick.contributions(words[row : row + 1, :length])[0])


@gram_lengths
def test_padding_is_not_learned_from(ngrams: int) -> None:
    learned = [BagOfWords(vocab=VOCAB, out=OUT, ngrams=ngrams, buckets=101) for _ in range(2)]
    words = texts()
    learned[0].learn_frequencies([(words, MASK)])
    learned[1].learn_frequencies((words[row : row + 1, :length], None) for row, length in enumerate(LENGTHS.tolist()))
    assert learned[0].idf[LOUD] == 0
    assert torch.equal(learned[0].idf, learned[1].idf)


@weightings
@gram_lengths
def test_contributions_sum_to_the_whole(weighting: str, ngrams: int) -> None:
    brick = ready(BagOfWords(vocab=VOCAB, out=OUT, ngrams=ngrams, buckets=101, weighting=weighting))
    words = texts()
    brick.learn_frequencies([(words, MASK)])
    same(brick.contributions(words, MASK).sum(1), brick(words, MASK))


def test_contributions_lie_where_their_words_stand() -> None:
    brick = ready(BagOfWords(vocab=VOCAB, out=OUT, ngrams=2, buckets=101, weighting="counts"))
    words = torch.tensor([[4, 7, 2]])
    table = brick.table.weight
    first, second = (VOCAB + int(ngram_hashes(words[:, at : at + 2], 2)) % 101 for at in (0, 1))
    expected = torch.stack(
        [table[4] + table[first] / 2, table[7] + table[first] / 2 + table[second] / 2, table[2] + table[second] / 2]
    )
    same(brick.contributions(words)[0], expected.detach())


@weightings
def test_order_matters_to_runs_only(weighting: str) -> None:
    words, order = tokens(B, T, vocab=VOCAB), torch.randperm(T, generator=torch.Generator().manual_seed(1))
    for ngrams in (1, 2):
        brick = ready(BagOfWords(vocab=VOCAB, out=OUT, ngrams=ngrams, buckets=101, weighting=weighting))
        assert differs(brick(words), brick(words[:, order])) == (ngrams > 1)


def test_before_learning_every_word_weighs_alike() -> None:
    brick = ready(BagOfWords(vocab=VOCAB, out=OUT))
    assert (brick.idf == 1).all()
    words = torch.tensor([[2, 2, 5]])
    same(brick(words)[0], ((2 * brick.table.weight[2] + brick.table.weight[5]) / math.sqrt(5)).detach())


def test_counts_have_nothing_to_learn() -> None:
    brick = BagOfWords(vocab=VOCAB, out=OUT, weighting="counts")
    brick.learn_frequencies([(texts(), MASK)])
    assert (brick.idf == 1).all()


def test_frequencies_are_saved_with_the_weights() -> None:
    brick, other = (ready(BagOfWords(vocab=VOCAB, out=OUT)) for _ in range(2))
    brick.learn_frequencies([(texts(), MASK)])
    assert set(brick.state_dict()) == {"idf", "table.weight"}
    assert differs(brick(texts(), MASK), other(texts(), MASK))
    other.load_state_dict(brick.state_dict())
    assert torch.equal(brick(texts(), MASK), other(texts(), MASK))


@gram_lengths
def test_every_row_that_is_used_is_learned(ngrams: int) -> None:
    brick = ready(BagOfWords(vocab=VOCAB, out=OUT, ngrams=ngrams, buckets=101))
    words = texts()
    (brick(words, MASK) * numbers(B, OUT)).sum().backward()
    found, real = brick.features(words, MASK)
    used = torch.zeros(brick.table.num_embeddings, dtype=torch.bool)
    used[found[real]] = True
    assert brick.table.weight.grad is not None
    assert torch.equal((brick.table.weight.grad != 0).any(-1), used)
    assert not used[LOUD]


def test_words_are_dropped_in_training_only() -> None:
    brick = ready(BagOfWords(vocab=VOCAB, out=OUT, word_dropout=0.5))
    words = texts()
    whole = brick(words, MASK)
    assert torch.equal(brick(words, MASK), whole)
    brick.train()
    assert differs(brick(words, MASK), whole)
    many = brick(words.repeat(3000, 1), MASK.repeat(3000, 1)).view(3000, B, OUT).mean(0)
    assert (many - whole).abs().max() < 0.1


@pytest.mark.parametrize("length", [2, 3])
def test_hashes_are_spread_evenly(length: int) -> None:
    """Neighbouring ids, the hardest case: as many buckets are hit as chance would hit."""
    ids = torch.cartesian_prod(*[torch.arange(30 if length == 3 else 200)] * length)
    hashes = ngram_hashes(ids, length)
    assert hashes.shape == (len(ids), 1)
    assert len(hashes.unique()) == len(ids)
    for buckets in (2**15, 30_011):
        hit = len((hashes % buckets).unique())
        by_chance = buckets * (1 - math.exp(-len(ids) / buckets))
        assert hit == pytest.approx(by_chance, rel=0.02)


def test_hashes_know_order_and_length() -> None:
    pair = torch.tensor([[3, 8], [8, 3], [0, 0]])
    three = torch.tensor([[3, 8, 0], [0, 3, 8], [0, 0, 0]])
    hashes = torch.cat([ngram_hashes(pair, 2), ngram_hashes(three, 3)]).flatten()
    assert len(hashes.unique()) == 6


def test_hashes_are_the_same_on_every_machine() -> None:
    """Saved tables depend on them. Written out with Python's whole numbers."""

    def hash_of(run: list[int]) -> int:
        total = len(run)
        for word in run:
            total = ((total ^ word) * 0x9E3779B97F4A7C15) % 2**64
            signed = total - 2**64 if total >= 2**63 else total
            total = (signed ^ (signed >> 32)) % 2**64
        return total - 2**64 if total >= 2**63 else total

    words = tokens(3, 7, vocab=50_000)
    for length in (2, 3, 5):
        expected = [[hash_of(row[at : at + length]) for at in range(7 - length + 1)] for row in words.tolist()]
        assert ngram_hashes(words, length).tolist() == expected


@weightings
def test_texts_shorter_than_a_run(weighting: str) -> None:
    brick = ready(BagOfWords(vocab=VOCAB, out=OUT, ngrams=3, buckets=101, weighting=weighting))
    same(brick(torch.tensor([[4]])), brick.table.weight[4:5].detach())


def test_only_runs_need_buckets() -> None:
    assert BagOfWords(vocab=VOCAB, out=OUT, buckets=101).table.num_embeddings == VOCAB
    assert BagOfWords(vocab=VOCAB, out=OUT, buckets=101, ngrams=2).table.num_embeddings == VOCAB + 101


def test_small_integers_do() -> None:
    brick = ready(BagOfWords(vocab=VOCAB, out=OUT, ngrams=2, buckets=101))
    assert torch.equal(brick(texts().int(), MASK), brick(texts(), MASK))


def test_features_in_order_are_torchs() -> None:
    found = tokens(B, T, vocab=VOCAB)
    before = found.clone()
    assert torch.equal(sort_rows(found), found.sort(1).values)
    assert torch.equal(found, before)
    assert torch.equal(sort_rows(found.T), found.T.sort(1).values)


def test_values_are_picked_where_they_stand() -> None:
    values, found = numbers(VOCAB), tokens(B, T, vocab=VOCAB)
    assert torch.equal(select_values(values, found), values[found])
