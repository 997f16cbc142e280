"""The one decoding loop, against one that computes everything again for each token."""

import itertools
from collections.abc import Sequence
from typing import Any

import pytest
import torch

from glassformer.config.presets import STYLES
from glassformer.config.resolve import resolve
from glassformer.decoding.beam import beam_continuation
from glassformer.decoding.options import Sampling
from glassformer.decoding.running import generate, guesses
from glassformer.decoding.sampling import GREEDY
from glassformer.models.build import build_language_model
from glassformer.models.modules import LanguageModel
from helpers.running import CAUSAL, tiny
from helpers.support import ready, same, softmax
from helpers.writing import CONTEXT, SAMPLED, VOCAB, by_hand, every_model, model_of, prompt_of


@pytest.mark.parametrize("encoder", CAUSAL)
def test_a_beam_that_is_wide_enough_finds_the_best_of_all_texts(encoder: str) -> None:
    """Every text of three tokens of four, and those that END ends before, each scored from the whole of it."""
    model, prompt, ends = model_of(encoder), prompt_of(5), (3, 4)
    letters, most = (3, 4, 5, 6), 3
    never = [id for id in range(VOCAB) if id not in letters]
    texts = [
        text
        for length in range(1, most + 1)
        for text in itertools.product(letters, repeat=length)
        if not any(id in ends for id in text[:-1]) and (length == most or text[-1] in ends)
    ]

    def score(text: tuple[int, ...]) -> float:
        with torch.no_grad():
            chances = model(torch.tensor([[*prompt, *text]]))[0].log_softmax(-1)
        return sum(float(chances[len(prompt) - 1 + at, id]) for at, id in enumerate(text))

    best = max(texts, key=lambda text: score(text) / len(text))
    found = beam_continuation(model, prompt, beam=64, max_tokens=most, ends=ends, never=never)
    in_place = beam_continuation(model, prompt, beam=64, max_tokens=most, ends=ends, never=never, fixed=True)
    assert in_place.ids == found.ids == [id for id in best if id not in ends]
    assert found.ended == (best[-1] in ends)
    assert found.score == pytest.approx(score(best), rel=1e-6)
    greedy = [row[0] for row in generate(model, [prompt], GREEDY, max_tokens=most, end=ends, never=never)]
    one = beam_continuation(model, prompt, beam=1, max_tokens=most, ends=ends, never=never)
    assert one.ids == [id for id in greedy if id is not None]


def written(model: LanguageModel, prompts: Sequence[Sequence[int]], how: Sampling, **more: Any) -> list[list[int]]:
    """What comes out for each prompt, up to the end of each."""
    steps = list(generate(model, prompts, how, **more))
    rows = [[step[row] for step in steps] for row in range(len(prompts))]
    for row in rows:
        ended = [token is None for token in row]
        assert ended == sorted(ended)  # ended once is ended for good
    return [[token for token in row if token is not None] for row in rows]


@pytest.mark.sample(5)
@every_model
@pytest.mark.parametrize("how", [GREEDY, SAMPLED], ids=["greedy", "sampled"])
def test_a_state_gives_what_computing_the_past_again_gives(flags: dict[str, Any], how: Sampling) -> None:
    model = model_of(**flags)
    chosen = set()
    for length, most in ((1, 15), (5, 12), (9, 7)):  # as much as fits into the context
        prompt = prompt_of(length, seed=length)
        (got,) = written(model, [prompt], how, max_tokens=most, seed=3)
        assert got == by_hand(model, prompt, how, most, seed=3)
        assert len(got) == most
        chosen |= set(got)
    assert len(chosen) > 1, "a model that repeats itself shows little"


@pytest.mark.sample(3)
@every_model
def test_past_the_context(flags: dict[str, Any]) -> None:
    """More than twice over. An encoder whose state does not grow just goes on."""
    model = model_of(**flags)
    for length in (3, CONTEXT + 1, 3 * CONTEXT) if model.encoder.limit else (3,):
        prompt = prompt_of(length)
        (got,) = written(model, [prompt], SAMPLED, max_tokens=30, seed=2)
        assert got == by_hand(model, prompt, SAMPLED, 30, seed=2)


@every_model
def test_prompts_together_are_each_alone(flags: dict[str, Any]) -> None:
    model = model_of(**flags)
    prompts = [prompt_of(length, seed=length) for length in (4, 1, 7, 4, 2)]
    together = written(model, prompts, GREEDY, max_tokens=9)
    assert together == [by_hand(model, prompt, GREEDY, 9) for prompt in prompts]
    assert len({tuple(row) for row in together}) > 1, "models that do not care for their prompt show little"


@pytest.mark.sample(3)
@pytest.mark.parametrize("flags", [{}, *({"model__style": style} for style in STYLES)], ids=str)
def test_prompts_together_are_each_alone_past_the_context_too(flags: dict[str, Any]) -> None:
    """A short one forgets nothing only because a long one beside it must."""
    model = model_of(**flags)
    assert model.encoder.limit == CONTEXT
    prompts = [prompt_of(length, seed=length) for length in (4, 1, 16, 13, 25)]
    together = written(model, prompts, GREEDY, max_tokens=20)
    assert together == [by_hand(model, prompt, GREEDY, 20) for prompt in prompts]


def test_end_stops_a_row_and_the_others_go_on() -> None:
    model = model_of("lstm")
    prompts = [prompt_of(3, seed=seed) for seed in range(6)]
    alone = [by_hand(model, prompt, GREEDY, 12) for prompt in prompts]
    end = alone[0][4]  # let a token that some of them come to mean the end
    expected = [row[: row.index(end)] if end in row else row for row in alone]
    assert len({len(row) for row in expected}) > 1
    assert written(model, prompts, GREEDY, max_tokens=12, end=end) == expected
    steps = list(generate(model, prompts[:1], GREEDY, max_tokens=12, end=end))
    assert steps[-1] == [None]
    assert len(steps) == len(expected[0]) + 1  # nothing is computed once all have ended


@pytest.mark.slow
def test_what_must_never_appear_does_not() -> None:
    model = model_of()
    never = [0, 3, 4, 8, 11]
    for how in (GREEDY, Sampling(5.0), Sampling(0.0, repetition_penalty=3.0)):
        (got,) = written(model, [prompt_of(4)], how, max_tokens=25, never=never, seed=1)
        assert not set(got) & set(never)
        assert got == by_hand(model, prompt_of(4), how, 25, never=never, seed=1)
    (free,) = written(model, [prompt_of(4)], Sampling(5.0), max_tokens=60, seed=1)
    assert set(free) & set(never)


def test_the_penalty_remembers_prompt_and_text() -> None:
    """Without mercy: a token that was there before scores next to 0 or far below it; a new one above 0 wins."""
    for encoder in ("gru", "transformer"):
        model, prompt = model_of(encoder), [1, 2, 3]
        (got,) = written(model, [prompt], Sampling(0.0, repetition_penalty=100.0), max_tokens=8)
        assert got == by_hand(model, prompt, Sampling(0.0, repetition_penalty=100.0), 8)
        (free,) = written(model, [prompt], GREEDY, max_tokens=8)
        assert len(set(got)) > len(set(free))
        assert got[0] not in prompt


def test_seeds_reproduce_and_leave_others_random_numbers_alone() -> None:
    model = model_of()
    before = torch.random.get_rng_state()
    one, again, other = (written(model, [prompt_of(3)], Sampling(), max_tokens=12, seed=seed) for seed in (1, 1, 2))
    assert one == again != other
    assert torch.equal(torch.random.get_rng_state(), before)


def test_generating_changes_nothing() -> None:
    model = model_of()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    written(model, [prompt_of(3)], Sampling(), max_tokens=30)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_a_context_of_one() -> None:
    settings = resolve({}, {**tiny(), "model.context": 1}).model
    model = ready(build_language_model(settings, vocab=VOCAB))
    text = [5]
    for _ in range(6):
        text.append(int(model(torch.tensor([text[-1:]]))[0, -1].argmax()))
    assert written(model, [[5]], GREEDY, max_tokens=6) == [text[1:]]


@every_model
def test_guesses(flags: dict[str, Any]) -> None:
    model = model_of(**flags)
    ids = prompt_of(CONTEXT)
    with torch.no_grad():
        probabilities = softmax(model(torch.tensor([ids]))[0].numpy())
    found = guesses(model, ids, VOCAB)
    assert len(found) == CONTEXT
    for place, (guess, row) in enumerate(zip(found, probabilities, strict=True)):
        values = [value for _, value in guess.best]
        assert sum(values) == pytest.approx(1, abs=1e-5)
        assert values == sorted(values, reverse=True)
        same(torch.tensor(values), [row[token] for token, _ in guess.best], 1e-5)
        if place + 1 < CONTEXT:
            assert guess.following == pytest.approx(row[ids[place + 1]], abs=1e-6)
    assert found[-1].following is None
    assert [guess.best for guess in guesses(model, ids, 3)] == [guess.best[:3] for guess in found]
    assert len(guesses(model, ids[:1], 500)[0].best) == VOCAB


def test_inference_mode_stays_inside() -> None:
    steps = generate(model_of(), [[1, 5]], GREEDY, max_tokens=3)
    next(steps)
    assert not torch.is_inference_mode_enabled()
