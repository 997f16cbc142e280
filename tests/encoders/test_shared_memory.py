"""Several rows that look at one source: they spread, change places and are left behind, and each goes on as itself."""

import pytest
import torch
from torch import Tensor

from glassformer.bricks.attention import Memory
from glassformer.encoders.base import Encoder, State
from glassformer.encoders.blocks import TransformerState
from glassformer.encoders.recurrent import RecurrentDecoderState
from helpers.cases import CAUSAL, PAIRS, WITH_MEMORY, Flags, build, label
from helpers.support import differs, numbers, same

N, K, S, ROOM = 4, 3, 5, 13
LENGTHS = (2, 5, 3, 1)
with_memory = pytest.mark.parametrize("flags", WITH_MEMORY, ids=label)


def build_with_memory(flags: Flags) -> tuple[Encoder, Memory]:
    alike = flags.get("scores", "query-key") != "query-key" or flags.get("attention") in ("dot", "scaled")
    width = flags["width"] if alike else 7
    mask = torch.arange(S) < torch.tensor(LENGTHS)[:, None]
    return build(flags, causal=True, memory_width=width), Memory(numbers(N, S, width, seed=1), mask)


class Beams:
    """Rows with a source each; what they have read and given so far is kept, to be computed again on the whole."""

    def __init__(self, encoder: Encoder, memory: Memory | None, sources: list[int], state: State) -> None:
        self.encoder, self.memory, self.state = encoder, memory, state
        self.sources = torch.tensor(sources)
        self.texts = numbers(len(sources), 0, encoder.width)
        self.outs = numbers(len(sources), 0, encoder.width)

    def read(self, new: int, seed: int) -> "Beams":
        x = numbers(len(self.sources), new, self.encoder.width, seed=seed)
        self.texts = torch.cat([self.texts, x], 1)
        self.outs = torch.cat([self.outs, self.encoder.extend(x, self.state)], 1)
        return self

    def now(self, rows: Tensor, state: State) -> "Beams":
        after = Beams(self.encoder, self.memory, self.sources[rows].tolist(), state)
        after.texts, after.outs = self.texts[rows], self.outs[rows]
        return after

    def check(self) -> None:
        memory = None
        if self.memory is not None:
            mask = None if self.memory.mask is None else self.memory.mask[self.sources]
            memory = Memory(self.memory.states[self.sources], mask)
        same(self.outs, self.encoder(self.texts, memory=memory))


def begun(flags: Flags, *, masked: bool = True) -> Beams:
    encoder, memory = build_with_memory(flags)
    if not masked:
        memory = Memory(memory.states)
    return Beams(encoder, memory, list(range(N)), encoder.init_state(N, ROOM, memory))


def spread(beams: Beams, times: int = K) -> Beams:
    rows = torch.arange(len(beams.sources)).repeat_interleave(times)
    return beams.now(rows, beams.state.expand_beams(times))


def within(*places: tuple[int, ...]) -> Tensor:
    """For each source the places, of K, that its rows come from."""
    return torch.cat([source * K + torch.tensor(chosen) for source, chosen in enumerate(places)])


PLACES = within((2, 0, 0), (0, 1, 2), (1, 1, 1), (0, 2, 1))


@pytest.mark.sample(5)
@with_memory
def test_spread_rows_go_on_each_as_itself(flags: Flags) -> None:
    for masked in (True, False):
        beams = spread(begun(flags, masked=masked).read(2, seed=2)).read(1, seed=3).read(2, seed=4)
        beams.check()
        assert differs(beams.outs[0, -1], beams.outs[1, -1])


@pytest.mark.sample(5)
@with_memory
def test_rows_change_places(flags: Flags) -> None:
    before = spread(begun(flags)).read(2, seed=2)
    after = before.now(PLACES, before.state.reorder(PLACES))
    after.read(1, seed=3)
    before.read(2, seed=4)  # goes on too, and disturbs no one
    after.read(1, seed=5)
    before.check()
    after.check()


@pytest.mark.sample(5)
@with_memory
def test_sources_are_left_behind(flags: Flags) -> None:
    """Rows of sources 3 and 1 stay, in new places; then those of source 3 alone."""
    before = spread(begun(flags)).read(2, seed=2)
    rows = torch.cat([PLACES[9:], PLACES[3:6]])
    after = before.now(rows, before.state.select(rows)).read(1, seed=3)
    after.check()
    alone = after.now(torch.tensor([1, 0, 2]), after.state.select(torch.tensor([1, 0, 2]))).read(2, seed=4)
    alone.check()
    assert alone.sources.tolist() == [3] * K
    turned = alone.now(torch.tensor([2, 2, 0]), alone.state.reorder(torch.tensor([2, 2, 0]))).read(1, seed=5)
    turned.check()


@pytest.mark.sample(5)
@with_memory
def test_spread_again(flags: Flags) -> None:
    beams = spread(begun(flags).read(1, seed=2), 2)
    beams = spread(beams.read(1, seed=3), 3).read(1, seed=4)
    assert len(beams.sources) == 6 * N
    beams.check()


@with_memory
def test_the_memory_is_never_copied(flags: Flags) -> None:
    state = begun(flags).state

    def memory_of(state: State) -> list[int]:
        if isinstance(state, TransformerState):
            return [part.data_ptr() for layer in state.cross for part in layer] + [state.memory_mask.data_ptr()]
        assert isinstance(state, RecurrentDecoderState)
        keys = [] if state.keys is None else [state.keys.data_ptr()]
        return [state.memory.states.data_ptr(), state.memory.mask.data_ptr(), *keys]

    many = state.expand_beams(K)
    assert memory_of(state) == memory_of(many) == memory_of(many.reorder(PLACES))


@with_memory
def test_part_of_a_source_cannot_stay(flags: Flags) -> None:
    state = begun(flags).state.expand_beams(K)
    with pytest.raises(ValueError, match="4 rows, but each source has 3"):
        state.select(torch.tensor([0, 1, 2, 3]))


@pytest.mark.parametrize("flags", [flags for flags in CAUSAL if flags not in PAIRS], ids=label)
def test_without_a_memory(flags: Flags) -> None:
    encoder = build(flags, causal=True)
    beams = spread(Beams(encoder, None, list(range(N)), encoder.init_state(N, ROOM)).read(2, seed=2)).read(1, seed=3)
    after = beams.now(PLACES, beams.state.reorder(PLACES)).read(2, seed=4)
    beams.check()
    after.check()
