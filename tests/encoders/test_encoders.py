"""The truths of every encoder: pieces equal the whole, the future is hidden, padding is nothing, order matters."""

import pytest
import torch
from torch import Tensor

from glassformer.bricks.attention import Memory
from glassformer.bricks.recurrent import Recurrent
from glassformer.config.encoders import ENCODERS, EncoderInfo
from glassformer.config.errors import SettingError
from glassformer.config.model_section import POSITIONS, LayerSettings, ModelSettings
from glassformer.config.presets import TEXT
from glassformer.config.resolve import resolve
from glassformer.encoders import registry
from glassformer.encoders.base import Encoder, State
from glassformer.encoders.recurrent import RecurrentEncoder
from glassformer.encoders.registry import BUILDERS, Place, build_encoder, register_encoder
from glassformer.inspection.capture import capture
from helpers.cases import CAUSAL, CONTEXT, PAIRS, WHOLE, WITH_MEMORY, Flags, build, label, small
from helpers.support import differs, numbers, same

B, T = 3, 7

causal_encoders = pytest.mark.parametrize("flags", CAUSAL, ids=label)
whole_encoders = pytest.mark.parametrize("flags", WHOLE, ids=label)
looking_around = pytest.mark.parametrize("flags", [one for one in WHOLE if ENCODERS[one["encoder"]].ordered], ids=label)
"""Encoders whose output at a token depends on other tokens."""
every_encoder = pytest.mark.parametrize(
    ("flags", "causal"),
    [(flags, True) for flags in CAUSAL] + [(flags, False) for flags in WHOLE],
    ids=lambda value: label(value) if isinstance(value, dict) else ("causal" if value else "whole"),
)


def extended(encoder: Encoder, x: Tensor, state: State, pieces: tuple[int, ...]) -> Tensor:
    return torch.cat([encoder.extend(piece, state) for piece in x.split(list(pieces), 1)], 1)


def ragged(lengths: tuple[int, ...]) -> Tensor:
    return torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]


class Rows:
    """Texts of different lengths that grow piece by piece; an encoder is given them together, and each alone."""

    def __init__(self, encoder: Encoder, batch: int) -> None:
        self.encoder = encoder
        self.texts = [numbers(0, encoder.width) for _ in range(batch)]
        self.outs = [numbers(0, encoder.width) for _ in range(batch)]

    def grow(self, state: State, lengths: tuple[int, ...], seed: int, *, masked: bool = True) -> None:
        """New tokens for every row, with something loud where a row has none."""
        x = numbers(len(lengths), max(lengths), self.encoder.width, seed=seed)
        mask = ragged(lengths)
        x[~mask] = 100.0
        out = self.encoder.extend(x, state, mask if masked else None)
        assert out.isfinite().all()
        for row, length in enumerate(lengths):
            self.texts[row] = torch.cat([self.texts[row], x[row, :length]])
            self.outs[row] = torch.cat([self.outs[row], out[row, :length]])

    def select(self, rows: list[int]) -> "Rows":
        chosen = Rows(self.encoder, len(rows))
        chosen.texts, chosen.outs = [self.texts[row] for row in rows], [self.outs[row] for row in rows]
        return chosen

    def check(self) -> None:
        for text, out in zip(self.texts, self.outs, strict=True):
            same(out, self.encoder(text.unsqueeze(0))[0])


@pytest.mark.sample(7)
@causal_encoders
def test_pieces_equal_the_whole(flags: Flags) -> None:
    encoder = build(flags, causal=True)
    x = numbers(B, T, encoder.width)
    whole = encoder(x)
    for pieces in [(T,), (1,) * T, (3, 1, 3), (1, 4, 2)]:
        same(extended(encoder, x, encoder.init_state(B, T), pieces), whole)


@pytest.mark.sample(7)
@causal_encoders
def test_ragged_rows_equal_each_alone(flags: Flags) -> None:
    encoder = build(flags, causal=True)
    rows, state = Rows(encoder, B), encoder.init_state(B, CONTEXT)
    rows.grow(state, (5, 2, 0), seed=1)
    rows.grow(state, (0, 3, 1), seed=2)
    rows.grow(state, (1, 1, 1), seed=3, masked=False)
    rows.grow(state, (1, 4, 2), seed=4)
    rows.grow(state, (2, 2, 2), seed=5, masked=False)
    rows.check()


@pytest.mark.parametrize(
    "flags",
    [*(small(name) for name in BUILDERS), *(small("transformer", positions=kind) for kind in POSITIONS)],
    ids=label,
)
def test_padding_may_take_columns_beyond_the_context(flags: Flags) -> None:
    """No row is longer than the context, though together, with their padding, they take more columns."""
    encoder = build({**flags, "context": 8}, causal=True)
    rows, state = Rows(encoder, 2), encoder.init_state(2, 13)
    rows.grow(state, (5, 1), seed=1)
    rows.grow(state, (1, 5), seed=2)
    rows.grow(state, (1, 1), seed=3, masked=False)
    rows.grow(state, (1, 0), seed=4)  # the first row is full
    rows.grow(state, (0, 1), seed=5)
    rows.check()


@pytest.mark.sample(7)
@pytest.mark.parametrize(
    ("flags", "start"),
    [(flags, (5, 2, 4)) for flags in CAUSAL] + [(flags, (3, 3, 3)) for flags in CAUSAL if flags not in PAIRS],
    ids=lambda value: label(value) if isinstance(value, dict) else str(value),
)
def test_selected_rows_go_on_as_themselves(flags: Flags, start: tuple[int, ...]) -> None:
    encoder = build(flags, causal=True)
    rows, state = Rows(encoder, B), encoder.init_state(B, CONTEXT)
    rows.grow(state, start, seed=1, masked=len(set(start)) > 1)
    choices = [[2, 0, 0], [1]]  # reordered, doubled, dropped; all but one dropped
    branches = [(rows.select(choice), state.select(torch.tensor(choice))) for choice in choices]
    rows.grow(state, (1, 1, 1), seed=2, masked=False)  # goes on too, and disturbs none of them
    for seed, (branch, chosen) in enumerate(branches, 3):
        size = len(branch.texts)
        branch.grow(chosen, (1,) * size, seed=seed, masked=False)
        branch.grow(chosen, tuple(1 + row % 2 for row in range(size)), seed=seed + 10)
        branch.check()
    rows.check()


@pytest.mark.sample(7)
@causal_encoders
def test_the_future_is_hidden(flags: Flags) -> None:
    encoder = build(flags, causal=True)
    assert encoder.causal
    x = numbers(B, T, encoder.width)
    before = encoder(x)
    for t in (1, T - 1):
        other = x.clone()
        other[:, t] = numbers(B, encoder.width, seed=t + 1)
        after = encoder(other)
        assert torch.equal(before[:, :t], after[:, :t])
        assert differs(before[:, t], after[:, t])


def sees_the_future(flags: Flags) -> bool:
    """Not so a recurrent network that reads one way only."""
    return "bidirectional" not in ENCODERS[flags["encoder"]].keys or bool(flags.get("bidirectional"))


@looking_around
def test_without_hiding_the_future_is_seen(flags: Flags) -> None:
    encoder = build(flags, causal=False)
    x = numbers(B, T, encoder.width)
    other = x.clone()
    other[:, 5] = numbers(B, encoder.width, seed=1)
    before, after = encoder(x), encoder(other)
    assert differs(before[:, :5], after[:, :5]) == sees_the_future(flags)
    assert differs(before[:, 6:], after[:, 6:])


@pytest.mark.sample(5)
@every_encoder
def test_padding_changes_nothing(flags: Flags, causal: bool) -> None:
    encoder = build(flags, causal=causal)
    x = numbers(B, T, encoder.width)
    lengths = (T, 4, 1)
    mask = ragged(lengths)
    x[~mask] = 100.0
    out = encoder(x, mask)
    for row, length in enumerate(lengths):
        same(out[row, :length], encoder(x[row : row + 1, :length])[0])


@pytest.mark.sample(5)
@every_encoder
def test_a_row_of_nothing_but_padding_harms_no_one(flags: Flags, causal: bool) -> None:
    encoder = build(flags, causal=causal)
    x = numbers(B, T, encoder.width).requires_grad_()
    mask = ragged((T, 0, 3))
    out = encoder(x, mask)
    assert out.isfinite().all()
    same(out[:1], encoder(x[:1]))
    (out * mask.unsqueeze(-1)).square().sum().backward()
    for name, weight in [*encoder.named_parameters(), ("x", x)]:
        assert weight.grad is None or weight.grad.isfinite().all(), name


@pytest.mark.sample(5)
@every_encoder
def test_every_weight_is_learned(flags: Flags, causal: bool) -> None:
    encoder = build(flags, causal=causal)
    x = numbers(B, T, encoder.width).requires_grad_()
    encoder(x).pow(3).sum().backward()
    for name, weight in [*encoder.named_parameters(), ("x", x)]:
        if weight.requires_grad:
            assert weight.grad is not None, name
            assert (weight.grad != 0).any(), name


@whole_encoders
def test_order(flags: Flags) -> None:
    """A Transformer without positions sees a bag of words, and so does what looks at each word alone."""
    encoder = build(flags, causal=False)
    x, order = numbers(B, T, encoder.width), torch.randperm(T, generator=torch.Generator().manual_seed(3))
    blind = not ENCODERS[flags["encoder"]].ordered or flags.get("positions") == "none"
    if blind:
        same(encoder(x[:, order]), encoder(x)[:, order])
    else:
        assert differs(encoder(x[:, order]), encoder(x)[:, order])


@pytest.mark.parametrize("name", [name for name in BUILDERS if ENCODERS[name].ordered])
def test_dropout_in_training_only(name: str) -> None:
    encoder, without = (build(small(name, dropout=dropout), causal=True) for dropout in (0.3, 0.0))
    x = numbers(B, T, encoder.width)
    assert torch.equal(encoder(x), without(x))
    assert differs(encoder.train()(x), without(x))
    assert differs(encoder(x), encoder(x))
    same(without.train()(x), without.eval()(x))


@pytest.mark.parametrize("name", [name for name, info in ENCODERS.items() if info.any_width])
def test_any_width_comes_in(name: str) -> None:
    settings = resolve({}, {f"model.{key}": value for key, value in small(name).items()}).model
    encoder = build_encoder(settings, Place(input_width=5, causal=True))
    assert encoder(torch.zeros(B, T, 5)).shape == (B, T, encoder.width)


# A second sequence


with_memory = pytest.mark.parametrize("flags", WITH_MEMORY, ids=label)
S = 5


def build_with_memory(flags: Flags, *, causal: bool = True) -> tuple[Encoder, Memory]:
    """Only learned keys let the memory have a width of its own."""
    own = flags.get("scores", "query-key") == "query-key" and flags.get("attention") not in ("dot", "scaled")
    width = 7 if own else flags["width"]
    return build(flags, causal=causal, memory_width=width), Memory(numbers(B, S, width, seed=1), ragged((2, 5, 3)))


@pytest.mark.sample(5)
@with_memory
def test_memory_in_pieces(flags: Flags) -> None:
    encoder, memory = build_with_memory(flags)
    x = numbers(B, T, encoder.width)
    whole = encoder(x, memory=memory)
    for pieces in [(1,) * T, (3, 1, 3)]:
        same(extended(encoder, x, encoder.init_state(B, T, memory), pieces), whole)
    open_memory = Memory(memory.states)
    same(extended(encoder, x, encoder.init_state(B, T, open_memory), (4, 3)), encoder(x, memory=open_memory))


@with_memory
def test_memory_follows_the_selected_rows(flags: Flags) -> None:
    encoder, memory = build_with_memory(flags)
    x, rows = numbers(B, T, encoder.width), torch.tensor([2, 0, 0, 1])
    state = encoder.init_state(B, T, memory)
    encoder.extend(x[:, :4], state)
    out = encoder.extend(x[rows, 4:], state.select(rows))
    same(out, encoder(x, memory=memory)[rows, 4:])


@pytest.mark.sample(5)
@with_memory
def test_memory_is_read_where_it_is_real(flags: Flags) -> None:
    encoder, memory = build_with_memory(flags)
    x = numbers(B, T, encoder.width)
    out = encoder(x, memory=memory)
    for row, length in enumerate((2, 5, 3)):
        alone = Memory(memory.states[row : row + 1, :length])
        same(out[row], encoder(x[row : row + 1], memory=alone)[0])
    loud = memory.states.clone()
    loud[~memory.mask] = 100.0
    same(encoder(x, memory=Memory(loud, memory.mask)), out)
    other = memory.states.clone()
    other[:, 0] += 1
    assert differs(encoder(x, memory=Memory(other, memory.mask)), out)


@pytest.mark.sample(5)
@with_memory
def test_memory_and_the_future(flags: Flags) -> None:
    """The past is hidden from no one and the future from everyone; the memory is seen whole by every token."""
    encoder, memory = build_with_memory(flags)
    x = numbers(B, T, encoder.width)
    other = x.clone()
    other[:, 4] = numbers(B, encoder.width, seed=2)
    assert torch.equal(encoder(x, memory=memory)[:, :4], encoder(other, memory=memory)[:, :4])
    later = memory.states.clone()
    later[1, 4] += 1
    changed = encoder(x, memory=Memory(later, memory.mask)) - encoder(x, memory=memory)
    assert (changed[1].abs().amax(-1) > 1e-6).all()
    assert (changed[[0, 2]] == 0).all()


@pytest.mark.sample(5)
@with_memory
def test_padded_rows_with_memory(flags: Flags) -> None:
    for causal in (True, False) if flags["encoder"] == "transformer" else (True,):
        encoder, memory = build_with_memory(flags, causal=causal)
        x, mask = numbers(B, T, encoder.width), ragged((T, 4, 1))
        x[~mask] = 100.0
        out = encoder(x, mask, memory=memory)
        for row, length in enumerate((T, 4, 1)):
            alone = Memory(memory.states[row : row + 1], memory.mask[row : row + 1])
            same(out[row, :length], encoder(x[row : row + 1, :length], memory=alone)[0])


# What cannot be


@pytest.mark.parametrize("name", BUILDERS)
def test_a_memory_that_was_not_built_for_is_refused(name: str) -> None:
    encoder = build(small(name), causal=True)
    x, memory = numbers(B, T, encoder.width), Memory(numbers(B, S, encoder.width))
    with pytest.raises(ValueError, match="memory"):
        encoder(x, memory=memory)
    with pytest.raises(ValueError, match="memory"):
        encoder.init_state(B, T, memory)
    if not ENCODERS[name].memory:
        with pytest.raises(SettingError, match=f"{name} cannot attend to a second text"):
            build(small(name), causal=True, memory_width=7)


@pytest.mark.parametrize("name", [name for name, info in ENCODERS.items() if info.memory])
def test_a_memory_that_was_built_for_is_needed(name: str) -> None:
    encoder = build(small(name), causal=True, memory_width=7)
    with pytest.raises(ValueError, match="memory"):
        encoder(numbers(B, T, encoder.width))
    with pytest.raises(ValueError, match="memory"):
        encoder.init_state(B, T)


@pytest.mark.parametrize("scores", ["plain", "shared", "bilinear"])
def test_scores_that_compare_vectors_need_a_memory_of_the_same_width(scores: str) -> None:
    flags = {"width": 10, "heads": 5, "scores": scores, "encoder": "transformer"}
    with pytest.raises(SettingError, match=r"model\.scores"):
        build(flags, causal=True, memory_width=7)
    build(flags, causal=True, memory_width=10)


@pytest.mark.parametrize("positions", ["rotary", "learned", "none"])
def test_plain_scores_are_those_of_the_tokens_themselves(positions: str) -> None:
    """x_n·x_m: no parameters, and two tokens think alike of each other."""
    flags = {"width": 12, "heads": 3, "scores": "plain", "encoder": "transformer", "positions": positions}
    encoder = build(flags, causal=False)
    attend = encoder.own_blocks()[0].attend  # type: ignore[operator]
    assert [name for name, _ in attend.named_parameters()] == ["output.weight"]
    with capture(encoder, only=["blocks.0.attend.scores"]) as seen:
        encoder(numbers(B, T, 12))
    scores = seen["blocks.0.attend.scores"]
    same(scores, scores.transpose(-1, -2))


@pytest.mark.parametrize("name", [name for name, info in ENCODERS.items() if "bidirectional" in info.keys])
def test_bidirectional_cannot_hide_the_future(name: str) -> None:
    with pytest.raises(SettingError, match=r"model\.bidirectional"):
        build(small(name, bidirectional=True), causal=True)
    with pytest.raises(SettingError, match="13 is odd"):
        build(small(name, bidirectional=True, width=13), causal=False)


@pytest.mark.parametrize("name", [name for name in BUILDERS if not ENCODERS[name].any_width])
def test_one_hot_is_not_for_every_encoder(name: str) -> None:
    settings = resolve({}, {f"model.{key}": value for key, value in small(name).items()}).model
    with pytest.raises(SettingError, match=rf"onehot.*\(average, rnn, lstm, gru\), not {name}"):
        build_encoder(settings, Place(input_width=5, causal=True))


def test_too_many_tokens_for_the_room() -> None:
    encoder = build(small("transformer"), causal=True)
    state = encoder.init_state(B, 4)
    encoder.extend(numbers(B, 3, encoder.width), state)
    with pytest.raises(ValueError, match="room for 4 tokens, but 5 came"):
        encoder.extend(numbers(B, 2, encoder.width), state)


def test_the_registry_is_whole() -> None:
    """A bag of words has no vectors for an encoder to turn, and what reads no text none either."""
    assert set(BUILDERS) == {name for name, info in ENCODERS.items() if TEXT in info.reads} - {"bag"}


def test_average_is_the_identity() -> None:
    encoder = build(small("average"), causal=True)
    x = numbers(B, T, encoder.width)
    assert torch.equal(encoder(x), x)
    assert torch.equal(encoder.extend(x, encoder.init_state(B, T)), x)
    assert list(encoder.parameters()) == []


def test_an_encoder_of_ones_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "BUILDERS", dict(BUILDERS))
    monkeypatch.setitem(ENCODERS, "mine", EncoderInfo("forgotten after the test"))
    del ENCODERS["mine"]
    info = EncoderInfo("reads the whole text", LayerSettings, causal=False, layers=1)

    @register_encoder("mine", info)
    def build_mine(settings: ModelSettings, place: Place) -> Encoder:
        return RecurrentEncoder(
            layers=Recurrent(kind="gru", input_width=place.input_width, width=settings.width),
            width=settings.width,
            causal=False,
        )

    settings = resolve({}, {"model": "mine", "model.width": 6}).model
    encoder = build_encoder(settings, Place(6, causal=False))
    assert encoder(torch.zeros(B, T, 6)).shape == (B, T, 6)
    with pytest.raises(SettingError, match="mine reads the whole text at once"):
        build_encoder(settings, Place(6, causal=True))
    register_encoder("mine", info)(build_mine)  # as a cell of a notebook that is run twice
    with pytest.raises(ValueError, match="there is an encoder lstm already: choose another name"):
        register_encoder("lstm", info)(build_mine)
