"""Beam search, against one written out with lists that reads every text again for each token."""

import itertools
import math
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from glassformer.decoding.beam import Hypothesis, Marks, beam_search
from glassformer.decoding.options import Search
from glassformer.encoders.base import State
from glassformer.encoders.blocks import TransformerState
from glassformer.encoders.recurrent import RecurrentDecoderState
from glassformer.models.modules import Seq2Seq
from helpers.support import randomise, ready, same, tokens
from helpers.translators import SOURCE_VOCAB, TARGET_VOCAB, Flags, label, translator

START, END, NEVER = 1, 2, (0, 1)
MODELS: list[Flags] = [
    {"encoder": "transformer", "decoder": "transformer"},
    {"encoder": "gru", "decoder": "transformer", "style": "classic", "bidirectional": True},
    {"encoder": "lstm", "decoder": "lstm", "attention": "none"},
    {"encoder": "transformer", "decoder": "lstm", "attention": "additive", "input_feeding": True},
    {"encoder": "cnn", "decoder": "gru", "attention": "dot"},
    {"encoder": "rnn", "decoder": "rnn", "attention": "bilinear", "input_feeding": True},
]
every_model = pytest.mark.parametrize("flags", MODELS, ids=label)
LENGTHS = (5, 2, 3, 4)
SOURCE = tokens(len(LENGTHS), max(LENGTHS), vocab=SOURCE_VOCAB, seed=1)
MASK = torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS)[:, None]


def opinionated(model: Seq2Seq, seed: int, strength: float = 3.0) -> Seq2Seq:
    """Weights that prefer something: a model to which all texts are alike would show little."""
    randomise(model, seed).eval()
    with torch.no_grad():
        model.head.weight.mul_(strength)
    return model


def model_of(flags: Flags, seed: int = 0, **more: Any) -> Seq2Seq:
    return opinionated(translator(**flags, tied=False, **more).double(), seed)


def search(model: Seq2Seq, beam: int, most: Sequence[int] | int = 9, **more: Any) -> list[list[Hypothesis]]:
    limits = [most] * len(LENGTHS) if isinstance(most, int) else most
    marks = Marks((START,), END, more.pop("never", NEVER))
    fixed = more.pop("fixed", None)
    return beam_search(model, SOURCE, MASK, Search(beam, **more), marks, limits, fixed=fixed)


MARKS = Marks((START,), END, NEVER)


Text = tuple[int, ...]
"""Tokens, END among them if it was reached."""


class WrittenOut:
    """One source, and a text's chances computed from the whole of it every time."""

    def __init__(self, model: Seq2Seq, row: int) -> None:
        self.model = model
        self.source = SOURCE[row : row + 1, : LENGTHS[row]]

    def chances(self, texts: list[Text]) -> list[list[float]]:
        """What may follow each of these texts, all of one length."""
        read = torch.tensor([[START, *text] for text in texts])
        with torch.no_grad():
            scores = self.model(self.source.expand(len(texts), -1), None, read)[:, -1]
        scores = scores.log_softmax(-1)
        scores[:, list(NEVER)] = -math.inf
        return scores.tolist()

    def scores(self, texts: list[Text]) -> list[float]:
        """The log-probability of each of these texts, all of one length."""
        read = torch.tensor([[START, *text] for text in texts])
        with torch.no_grad():
            chances = self.model(self.source.expand(len(texts), -1), None, read[:, :-1]).log_softmax(-1)
        return chances.gather(-1, read[:, 1:].unsqueeze(-1)).sum((1, 2)).tolist()

    def greedy(self, most: int) -> Text:
        text: Text = ()
        while len(text) < most and END not in text:
            [chances] = self.chances([text])
            text = (*text, chances.index(max(chances)))
        return text

    def beam(self, size: int, most: int, penalty: float, best: int) -> list[tuple[Text, float]]:
        greedy = self.greedy(most)
        living: list[tuple[Text, float]] = [((), 0.0)]
        finished: list[tuple[Text, float]] = []

        def rank(one: tuple[Text, float]) -> float:
            return one[1] / len(one[0]) ** penalty

        while living:
            longer = [
                ((*text, word), score + chance)
                for (text, score), chances in zip(living, self.chances([text for text, _ in living]), strict=True)
                for word, chance in enumerate(chances)
                if chance > -math.inf
            ]
            longer.sort(key=lambda one: -one[1])
            left = size - len(finished)
            chosen = longer[:left]
            path = [one for one in longer if one[0] == greedy[: len(one[0])]]
            if path and path[0] not in chosen:
                chosen[-1] = path[0]
            finished += [one for one in chosen if one[0][-1] == END or len(one[0]) == most]
            living = [one for one in chosen if one not in finished]
            finished.sort(key=rank, reverse=True)
            if living and len(finished) >= best:
                reachable = max(score for _, score in living) / most**penalty
                if reachable <= rank(finished[best - 1]):
                    break
        return finished[:best]


def text_of(one: Hypothesis) -> Text:
    return (*one.ids, END) if one.ended else tuple(one.ids)


def rank(one: Hypothesis, penalty: float) -> float:
    return one.score / len(text_of(one)) ** penalty


@pytest.mark.sample(5)
@every_model
@pytest.mark.parametrize(
    ("beam", "best", "penalty"), [(1, 1, 1.0), (2, 1, 0.0), (3, 3, 1.0), (5, 2, 0.6), (4, 4, 0.0), (13, 5, 2.0)]
)
@pytest.mark.parametrize("fixed", [False, True])
def test_written_out(flags: Flags, beam: int, best: int, penalty: float, fixed: bool) -> None:
    """By a state that moves, and by one that is held in place, as on a GPU."""
    most = (9, 3, 1, 12)
    model = model_of(flags, seed=beam)
    found = search(model, beam, most, best=best, length_penalty=penalty, fixed=fixed)
    for row, hypotheses in enumerate(found):
        expected = WrittenOut(model, row).beam(beam, most[row], penalty, best)
        assert [text_of(one) for one in hypotheses] == [text for text, _ in expected]
        assert [one.score for one in hypotheses] == pytest.approx([score for _, score in expected], abs=1e-9)


@pytest.mark.sample(3)
@every_model
def test_a_beam_of_one_is_greedy(flags: Flags) -> None:
    for seed in range(2):
        model = model_of(flags, seed)
        for row, [only] in enumerate(search(model, 1)):
            assert text_of(only) == WrittenOut(model, row).greedy(9)


@pytest.mark.sample(3)
@every_model
def test_scores_are_those_of_the_texts(flags: Flags) -> None:
    model = model_of(flags, seed=2)
    for row, hypotheses in enumerate(search(model, 4, best=4)):
        for one in hypotheses:
            assert one.score == pytest.approx(WrittenOut(model, row).scores([text_of(one)])[0], abs=1e-9)


@pytest.mark.slow
def test_no_beam_finds_worse_than_greedy() -> None:
    saved = 0
    for seed in range(36):
        model = opinionated(translator("gru", ("gru", "transformer")[seed % 2], tied=False), seed, strength=4.0)
        penalty = (0.0, 1.0, 1.7)[seed % 3]
        greedy = search(model, 1, 14, length_penalty=penalty)
        for beam in (2, 3):
            for [alone], [found] in zip(greedy, search(model, beam, 14, length_penalty=penalty), strict=True):
                assert rank(found, penalty) >= rank(alone, penalty) - 1e-5
                saved += found.ids != alone.ids
    assert saved > 50  # and it often finds better


@pytest.mark.parametrize("penalty", [0.0, 1.0])
@pytest.mark.parametrize("decoder", ["transformer", "lstm"])
def test_a_beam_of_everything_finds_the_best(decoder: str, penalty: float) -> None:
    """Of all texts of a tiny vocabulary, the best ones in their order."""
    most, vocab = 4, 5
    model = model_of({"encoder": "gru", "decoder": decoder}, target_vocab=vocab)
    words = [word for word in range(vocab) if word not in (*NEVER, END)]
    ended = [[(*text, END) for text in itertools.product(words, repeat=length)] for length in range(most)]
    cut = list(itertools.product(words, repeat=most))
    found = search(model, 40, most, best=7, length_penalty=penalty)
    for row, hypotheses in enumerate(found):
        chances = WrittenOut(model, row)
        ranked = [
            (-score / len(text) ** penalty, text)
            for texts in (*ended, cut)
            for text, score in zip(texts, chances.scores(texts), strict=True)
        ]
        assert len(ranked) == 1 + 2 + 4 + 8 + 16
        assert [text_of(one) for one in hypotheses] == [text for _, text in sorted(ranked)[:7]]


def test_fewer_texts_than_were_asked_for() -> None:
    """One word and END, two tokens at most: there are three texts."""
    model = model_of({"encoder": "gru", "decoder": "gru"}, target_vocab=4)
    for hypotheses in search(model, 8, 2, best=8):
        assert sorted(text_of(one) for one in hypotheses) == [(END,), (3, END), (3, 3)]


@every_model
def test_batched_and_alone(flags: Flags) -> None:
    model, most = model_of(flags, seed=5), (3, 14, 9, 1)
    together = search(model, 3, most, best=2)
    for row, length in enumerate(LENGTHS):
        alone = beam_search(model, SOURCE[row : row + 1, :length], None, Search(3, best=2), MARKS, [most[row]])[0]
        assert [text_of(one) for one in alone] == [text_of(one) for one in together[row]]
        same(torch.tensor([one.score for one in alone]), torch.tensor([one.score for one in together[row]]), 1e-6)


@every_model
def test_texts_are_distinct_sorted_and_not_too_long(flags: Flags) -> None:
    most, penalty = (2, 5, 9, 1), 0.8
    cut = 0
    for seed in range(3):
        for row, hypotheses in enumerate(search(model_of(flags, seed), 6, most, best=6, length_penalty=penalty)):
            texts = [text_of(one) for one in hypotheses]
            assert len(set(texts)) == len(texts) == 6
            ranks = [rank(one, penalty) for one in hypotheses]
            assert ranks == sorted(ranks, reverse=True)
            for one, text in zip(hypotheses, texts, strict=True):
                assert not {START, END, *NEVER} & set(one.ids)
                assert len(text) <= most[row]
                assert one.ended or len(text) == most[row]
                cut += not one.ended
    assert cut


# How it goes about it


class Watched:
    """The rows that a decoder reads at each step, and the states it goes on from."""

    def __init__(self, model: Seq2Seq, monkeypatch: pytest.MonkeyPatch) -> None:
        self.rows: list[int] = []
        self.states: list[State] = []
        extend = model.extend

        def watched(ids: Tensor, state: State, mask: Tensor | None = None) -> Tensor:
            self.rows.append(len(ids))
            self.states.append(state)
            return extend(ids, state, mask)

        monkeypatch.setattr(model, "extend", watched)


@pytest.mark.parametrize("decoder", ["transformer", "lstm"])
def test_sources_that_are_done_are_left_behind(decoder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = model_of({"encoder": "gru", "decoder": decoder})
    with torch.no_grad():
        model.head.weight[END] = 0.0
    watched = Watched(model, monkeypatch)
    search(model, 3, (12, 2, 4, 1), length_penalty=5.0)
    # one row a source, then three; at half of the sources the others go, and then again
    assert watched.rows == [4, 12, 6, 6, *[3] * 8]


@pytest.mark.parametrize("decoder", ["transformer", "lstm"])
def test_the_memory_is_shared_by_the_beam(decoder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = model_of({"encoder": "gru", "decoder": decoder})
    watched = Watched(model, monkeypatch)
    search(model, 3, 5, length_penalty=5.0, best=3)
    pointers = set()
    for state in watched.states[:3]:
        if isinstance(state, TransformerState):
            pointers.add(state.cross[0].keys.data_ptr())
        else:
            assert isinstance(state, RecurrentDecoderState)
            pointers.add(state.memory.states.data_ptr())
    assert len(pointers) == 1


def test_it_stops_when_nothing_better_can_come(monkeypatch: pytest.MonkeyPatch) -> None:
    model = model_of({"encoder": "gru", "decoder": "gru"})
    with torch.no_grad():
        model.decoder.join.bias.fill_(5.0)
        model.head.weight.mul_(0.1)
        model.head.weight[END] = 0.3  # END, very probably, at once
    watched = Watched(model, monkeypatch)
    found = search(model, 4, 20, length_penalty=0.0)
    assert [text_of(one) for [one] in found] == [(END,)] * len(LENGTHS)
    assert len(watched.rows) == 1
    search(model, 4, 20, length_penalty=0.0, best=4)
    assert len(watched.rows) > 2


def scripted(chances: list[dict[int, float]], monkeypatch: pytest.MonkeyPatch) -> Seq2Seq:
    """A model whose chances at each step are given, whatever stands before it."""
    model = ready(translator("gru", "gru", tied=False))
    model.head = torch.nn.Linear(len(chances), TARGET_VOCAB, bias=False)
    with torch.no_grad():
        model.head.weight.fill_(-30.0)
        for step, known in enumerate(chances):
            for word, chance in known.items():
                model.head.weight[word, step] = math.log(chance)
    steps = iter(range(len(chances)))

    def extend(ids: Tensor, state: State, mask: Tensor | None = None) -> Tensor:
        return torch.nn.functional.one_hot(torch.tensor(next(steps)), len(chances)).float().expand(len(ids), 1, -1)

    monkeypatch.setattr(model, "extend", extend)
    return model


@pytest.mark.parametrize(("penalty", "expected"), [(1.0, (3, 4, 5, END)), (0.0, (END,))])
def test_it_goes_on_while_something_better_can_come(
    penalty: float, expected: Text, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To end at once is likelier than any whole text, but by the token a longer one is likelier."""
    chances = [{END: 0.5, 3: 0.45, 4: 0.05}, {4: 0.9, END: 0.1}, {5: 0.9, END: 0.1}, {END: 0.9, 6: 0.1}]
    found = search(scripted(chances, monkeypatch), 3, 4, length_penalty=penalty)
    assert [text_of(one) for [one] in found] == [expected] * len(LENGTHS)


def test_never_more_than_the_decoder_was_made_for() -> None:
    model = model_of({"encoder": "gru", "decoder": "transformer", "positions": "learned", "context": 6})
    found = search(model, 3, 50, best=3, never=(*NEVER, END))
    assert {len(one.ids) for hypotheses in found for one in hypotheses} == {6}


def test_chances_in_single_precision_at_least() -> None:
    model = opinionated(translator("gru", "gru", tied=False).bfloat16(), 0)
    with torch.inference_mode():
        scores = model(SOURCE, MASK, torch.full((len(LENGTHS), 1), START))[:, 0]
    chances = scores.float().log_softmax(-1)
    for row, [one] in enumerate(search(model, 2, 1)):
        assert one.score == pytest.approx(max(chances[row, word].item() for word in range(2, TARGET_VOCAB)), abs=1e-6)


def test_scores_that_are_no_numbers() -> None:
    model = model_of({"encoder": "gru", "decoder": "gru"})
    with torch.no_grad():
        model.head.weight.fill_(math.nan)
    assert search(model, 3, 5, best=2) == [[Hypothesis([], -math.inf, False)]] * len(LENGTHS)


def test_no_source_at_all() -> None:
    model = ready(translator("gru", "gru"))
    assert beam_search(model, SOURCE[:0], None, Search(2), MARKS, []) == []
