"""What is counted from the formulas is what the models do."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from glassformer.config.model_section import ModelSettings
from glassformer.config.resolve import resolve
from glassformer.encoders.base import State, TensorState
from glassformer.encoders.blocks import TransformerState
from glassformer.models.build import build_language_model
from glassformer.models.counting import (
    multiplications,
    path_length,
    reach,
    serial_additions,
    serial_order,
    serial_steps,
    state_numbers,
    tree_depth,
)
from helpers.support import randomise

VOCAB, T = 13, 11

CASES: dict[str, dict[str, Any]] = {
    "rnn": {"layers": 3, "width": 7},
    "lstm": {"layers": 2, "width": 7},
    "gru": {"layers": 2, "width": 7},
    "window": {"layers": 3, "width": 7, "window": 5, "hidden": 17},
    "cnn": {"layers": 3, "width": 7, "kernel": 3, "dilation": 2},
    "transformer": {"layers": 3, "width": 24, "heads": 6, "kv_heads": 2, "hidden": 17},
    "transformer:bert": {"layers": 2, "width": 24, "heads": 3},
    "transformer:gpt2": {"layers": 2, "width": 24, "heads": 3, "head_width": 5},
}
every_case = pytest.mark.parametrize("name", CASES)


def settings_of(name: str, **more: Any) -> ModelSettings:
    chosen = {"context": 64, **CASES.get(name, {}), **more}
    return resolve({}, {"model": name, **{f"model.{key}": value for key, value in chosen.items()}}).model


@every_case
def test_as_many_multiplications_as_torch_counts(name: str) -> None:
    settings = settings_of(name)
    model = build_language_model(settings, vocab=VOCAB).double()  # in single precision an LSTM is one kernel, uncounted
    counter = FlopCounterMode(display=False)
    with sdpa_kernel(SDPBackend.MATH), counter:
        model(torch.zeros(1, T, dtype=torch.long))
    assert counter.get_total_flops() == 2 * multiplications(settings, vocab=VOCAB, tokens=T)  # a product and a sum


@every_case
def test_the_state_holds_as_many_numbers(name: str) -> None:
    settings = settings_of(name)
    model = build_language_model(settings, vocab=VOCAB).eval()
    state = model.init_state(1, T)
    with torch.no_grad():
        model.extend(torch.zeros(1, T, dtype=torch.long), state)
    assert sum(part.numel() for part in held(state)) == state_numbers(settings, T)


def test_a_wider_cell_is_counted() -> None:
    settings = settings_of("lstm", cells=19)
    state = build_language_model(settings, vocab=VOCAB).init_state(1, T)
    assert sum(part.numel() for part in held(state)) == state_numbers(settings, T) == 2 * (7 + 19)


def held(state: State) -> list[Tensor]:
    if isinstance(state, TensorState):
        return list(state.parts)
    assert isinstance(state, TransformerState)
    return [part for layer in state.past for part in layer]


@every_case
def test_an_output_depends_on_what_is_within_reach(name: str) -> None:
    settings = settings_of(name)
    back = reach(settings)
    sizes = influence(settings, 33)
    assert bool((sizes[: (33 if back is None else back + 1)] > 0).all())
    assert back is None or not sizes[back + 1 :].any()
    assert back == {"cnn": 2 * (1 + 2 + 4), "window": 4}.get(name)


def influence(settings: ModelSettings, tokens: int) -> Tensor:
    """The gradient of the last output by each input, the last first."""
    encoder = randomise(build_language_model(settings, vocab=VOCAB)).encoder
    x = torch.randn(1, tokens, settings.width).requires_grad_()
    encoder(x)[0, -1].sum().backward()
    assert x.grad is not None
    return x.grad[0].abs().sum(-1).flip(0)


@pytest.mark.parametrize(("kernel", "dilation"), [(3, 1), (3, 2), (4, 3)])
@pytest.mark.parametrize("tokens", [1, 2, 3, 4, 8, 9, 29])
def test_as_many_convolutions_as_the_way_needs(kernel: int, dilation: int, tokens: int) -> None:
    sizes = {"kernel": kernel, "dilation": dilation}
    needed = path_length(settings_of("cnn", **sizes), tokens)
    assert needed is not None
    assert influence(settings_of("cnn", **sizes, layers=needed), tokens)[-1] > 0
    assert needed == 1 or influence(settings_of("cnn", **sizes, layers=needed - 1), tokens)[-1] == 0


def test_ways_of_the_others() -> None:
    assert [path_length(settings_of(name), 29) for name in ("rnn", "lstm", "gru")] == [29, 29, 29]
    assert path_length(settings_of("transformer"), 29) == 1
    assert [path_length(settings_of("window"), tokens) for tokens in (5, 6)] == [1, None]
    assert path_length(settings_of("cnn", kernel=1), 2) is None


def test_a_state_waits_for_the_one_before_it() -> None:
    assert [serial_steps(settings_of(name), 29) for name in ("rnn", "lstm")] == [28 + 3, 28 + 2]
    assert [serial_steps(settings_of(name), 29) for name in ("cnn", "window", "transformer")] == [3, 3, 3]


def test_a_tree_sums_n_inputs_in_log_n_additions() -> None:
    def summed(inputs: int) -> int:
        """Add neighbours in pairs until one number is left, and count the rounds."""
        numbers, rounds = list(range(inputs)), 0
        while len(numbers) > 1:
            numbers, rounds = [sum(numbers[at : at + 2]) for at in range(0, len(numbers), 2)], rounds + 1
        assert numbers == [sum(range(inputs))]
        return rounds

    assert [tree_depth(inputs) for inputs in range(1, 70)] == [summed(inputs) for inputs in range(1, 70)]


def test_attention_sums_in_log_t_and_recurrent_layers_in_t_additions() -> None:
    assert [serial_additions(settings_of(name), 29) for name in ("rnn", "lstm")] == [28 + 3, 28 + 2]
    assert serial_additions(settings_of("transformer"), 29) == 3 * 5
    assert serial_additions(settings_of("transformer"), 2**20) == 3 * 20
    assert serial_additions(settings_of("cnn", kernel=3), 29) == serial_additions(settings_of("cnn", kernel=3), 58) == 6
    assert serial_additions(settings_of("window", window=5), 29) == 3
    assert serial_order(settings_of("rnn")) == "O(T)"
    assert serial_order(settings_of("transformer")) == "O(1) + O(log T) to sum"
