"""Many texts at once are each text alone, in the order in which they came."""

import math
from typing import Any

import pytest
import torch

from glassformer.config.errors import SettingError
from glassformer.decoding import translate as translate_room
from glassformer.decoding.beam import Hypothesis, Marks, beam_search
from glassformer.decoding.options import Search
from glassformer.decoding.translate import GREEDY, longest_translation, translate
from glassformer.models.modules import Seq2Seq
from helpers.support import ready, tokens
from helpers.translators import SOURCE_VOCAB, translator

START, END = 1, 2
LENGTHS = (3, 7, 1, 5, 7, 2, 3, 6, 1)
SOURCES = [tokens(length, vocab=SOURCE_VOCAB, seed=seed).tolist() for seed, length in enumerate(LENGTHS)]
MARKS = Marks((START,), END, (0, START))
ASKED: dict[str, Any] = {"context": 9, "marks": MARKS}


def alike(one: list[list[Hypothesis]], other: list[list[Hypothesis]]) -> None:
    assert [[best.ids for best in found] for found in one] == [[best.ids for best in found] for found in other]
    scores = [[best.score for found in side for best in found] for side in (one, other)]
    assert scores[0] == pytest.approx(scores[1], abs=1e-9)


def model_of(kind: str = "rnn") -> Seq2Seq:
    """One that has something else to say of every source."""
    model = ready(translator(kind, kind, tied=False, **({"attention": "bilinear"} if kind == "rnn" else {})))
    for name, weight in model.named_parameters():
        if name.startswith(("head", "embed_source", "decoder.join.weight")):
            weight.data.mul_(4)
    return model


@pytest.fixture(params=["rnn", "transformer"])
def model(request: pytest.FixtureRequest) -> Seq2Seq:
    return model_of(request.param)


SAMPLED = Search.of(temperature=0.9, top_k=7, nbest=2, seed=3)


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    "how", [GREEDY, Search(beam=3, best=2), Search(beam=4, length_penalty=0.0), SAMPLED], ids=lambda how: str(how.beam)
)
def test_many_are_one_by_one(model: Seq2Seq, how: Search, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = [translate(model, [source], how, **ASKED)[0] for source in SOURCES]
    assert len({tuple(found[0].ids) for found in alone}) > 3
    assert all(len(found) == how.best for found in alone)
    alike(translate(model, SOURCES, how, **ASKED), alone)
    monkeypatch.setattr(translate_room, "ROWS_AT_ONCE", 2 * how.beam)
    alike(translate(model, SOURCES, how, **ASKED), alone)
    monkeypatch.setattr(translate_room, "ROWS_AT_ONCE", 512)
    monkeypatch.setattr(translate_room, "TOKENS_AT_ONCE", 14 * how.beam)
    alike(translate(model, SOURCES, how, **ASKED), alone)
    backwards = translate(model, SOURCES[::-1], how, **ASKED)
    alike(backwards[::-1], alone)


def test_nothing_to_translate(model: Seq2Seq) -> None:
    assert translate(model, [], GREEDY, **ASKED) == []


def batches_of(monkeypatch: pytest.MonkeyPatch, how: Search, rows: int, room: int) -> list[list[int]]:
    """The lengths that go through the model together."""
    seen: list[list[int]] = []

    def search(model: Seq2Seq, source: Any, mask: Any, *more: Any) -> list[list[Hypothesis]]:
        seen.append(mask.sum(1).tolist())
        assert source.shape == mask.shape == (len(mask), max(seen[-1]))
        return beam_search(model, source, mask, *more)

    monkeypatch.setattr(translate_room, "beam_search", search)
    monkeypatch.setattr(translate_room, "ROWS_AT_ONCE", rows)
    monkeypatch.setattr(translate_room, "TOKENS_AT_ONCE", room)
    translate(model_of(), SOURCES, how, **ASKED)
    return seen


def test_batches_hold_so_many_rows_and_tokens_the_longest_first(monkeypatch: pytest.MonkeyPatch) -> None:
    assert batches_of(monkeypatch, GREEDY, 4, 999) == [[7, 7, 6, 5], [3, 3, 2, 1], [1]]
    assert batches_of(monkeypatch, Search(beam=2), 4, 999) == [[7, 7], [6, 5], [3, 3], [2, 1], [1]]
    assert batches_of(monkeypatch, GREEDY, 99, 14) == [[7, 7], [6, 5], [3, 3, 2, 1], [1]]
    assert batches_of(monkeypatch, Search(beam=2), 99, 28) == [[7, 7], [6, 5], [3, 3, 2, 1], [1]]
    assert batches_of(monkeypatch, GREEDY, 99, 1) == [[length] for length in sorted(LENGTHS, reverse=True)]


def test_how_long_a_translation_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    assert longest_translation(1, 1000) == 23
    assert longest_translation(10, 1000) == 50
    assert longest_translation(10, 40) == 40
    model = model_of()
    found = translate(model, SOURCES, GREEDY, MARKS._replace(never=(0, START, END)), context=4)
    assert [len(best[0].ids) for best in found] == [4] * len(SOURCES)
    assert not any(best[0].ended for best in found)
    monkeypatch.setattr(translate_room, "longest_translation", lambda source, context: source)
    found = translate(model, SOURCES, GREEDY, MARKS._replace(never=(0, START, END)), context=9)
    assert [len(best[0].ids) for best in found] == list(LENGTHS)  # each has its own limit, whoever is beside it


def test_what_is_never_written(model: Seq2Seq) -> None:
    free = translate(model, SOURCES, GREEDY, MARKS._replace(never=()), context=9)
    written = {id for found in free for id in found[0].ids}
    some = sorted(written - {START})[:2]
    assert some
    found = translate(model, SOURCES, GREEDY, MARKS._replace(never=some), context=9)
    assert not {id for best in found for id in best[0].ids} & set(some)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"beam": 0}, "--beam is 0, but must lie between 1 and 1,000"),
        ({"beam": -3}, "--beam is -3"),
        ({"length_penalty": -0.5}, "--length-penalty is -0.5, but must lie between 0 and 10"),
        ({"length_penalty": 11.0}, "--length-penalty is 11"),
        ({"length_penalty": math.nan}, "--length-penalty is nan"),
        ({"best": 0}, "--nbest is 0, but must lie between 1 and --beam 5"),
        ({"beam": 2, "best": 3}, "--nbest is 3, but must lie between 1 and --beam 2"),
    ],
)
def test_searches_that_cannot_be(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingError) as caught:
        Search(**settings)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_searches_that_just_can_be() -> None:
    assert (Search().beam, Search().length_penalty, Search().best, GREEDY.beam) == (5, 1.0, 1, 1)
    Search(beam=1, length_penalty=0.0, best=1)
    Search(beam=3, length_penalty=10.0, best=3)


def test_sampling_without_chance_is_greedy(model: Seq2Seq) -> None:
    greedy = translate(model, SOURCES, GREEDY, **ASKED)
    alike(translate(model, SOURCES, Search.of(temperature=0.0), **ASKED), greedy)
    alike(translate(model, SOURCES, Search.of(top_k=1), **ASKED), greedy)


@torch.no_grad()
def test_sampled_translations_follow_the_models_probabilities(model: Seq2Seq) -> None:
    """The first token is drawn with its probability; the score is the log-probability of the whole text."""
    how = Search.of(temperature=1.0, nbest=1000)
    found = translate(model, [SOURCES[0]], how, **ASKED)[0]
    source = torch.tensor([SOURCES[0]])
    scores = model(source, None, torch.tensor([[START]]))[0, -1].index_fill(-1, torch.tensor([0, START]), -torch.inf)
    counts = torch.zeros(len(scores))
    for one in found:
        counts[one.ids[0] if one.ids else END] += 1
    assert float((counts / len(found) - scores.softmax(-1)).abs().max()) < 0.05  # three standard deviations
    assert [one.rank(1.0) for one in found] == sorted((one.rank(1.0) for one in found), reverse=True)
    for one in found[::250]:
        written = [*one.ids, *([END] if one.ended else [])]
        logs = model(source, None, torch.tensor([[START, *written[:-1]]]))[0].log_softmax(-1)
        assert one.score == pytest.approx(float(logs[range(len(written)), written].sum()), abs=1e-4)


def test_seeds_of_sampled_translations(model: Seq2Seq) -> None:
    first, second, both = (
        translate(model, SOURCES, Search.of(temperature=1.5, seed=seed, nbest=nbest), **ASKED)
        for seed, nbest in ((4, 1), (5, 1), (4, 2))
    )
    assert first != second
    for one, other, two in zip(first, second, both, strict=True):
        assert sorted(tuple(text.ids) for text in two) == sorted(tuple(text.ids) for text in (*one, *other))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"beam": 2, "temperature": 0.5}, "--beam cannot be combined with --temperature, --top-k or --top-p"),
        ({"seed": 1}, "--seed is for sampling"),
        ({"top_k": 0}, "--top-k is 0"),
        ({"top_p": 0.5, "nbest": 0}, "--nbest is 0, but must lie between 1 and 1,000"),
        ({"top_p": 0.5, "nbest": 10**9}, "--nbest is 1000000000"),
        ({"beam": 10**9}, "--beam is 1000000000, but must lie between 1 and 1,000"),
        ({"top_k": 10**30}, r"--top-k is 10+, but must lie between 1 and 1,000,000"),
        ({"temperature": 1.0, "seed": -1}, "--seed is -1"),
    ],
)
def test_options_that_do_not_go_together(options: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        Search.of(**options)
