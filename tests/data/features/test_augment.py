import numpy as np
import pytest
import torch

from glassformer.data.features.images import draw_shifts, flip_pixels, shift_pixels


def pixels(dtype: torch.dtype = torch.uint8) -> torch.Tensor:
    return torch.arange(3 * 2 * 5 * 7).reshape(3, 2, 5, 7).to(dtype)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
def test_shifted_repeats_the_edges(dtype: torch.dtype) -> None:
    before, offsets = pixels(dtype), [(0, 0), (2, -1), (-6, 3)]
    after = shift_pixels(before, torch.tensor(offsets))
    assert after.dtype == dtype
    for b, c, y, x in np.ndindex(*before.shape):
        down, right = offsets[b]
        assert after[b, c, y, x] == before[b, c, min(max(y - down, 0), 4), min(max(x - right, 0), 6)]


def test_shifted_goes_down_and_right() -> None:
    dot = torch.zeros(1, 1, 5, 7)
    dot[0, 0, 1, 2] = 1
    assert shift_pixels(dot, torch.tensor([[2, 3]])).nonzero().tolist() == [[0, 0, 3, 5]]


def test_flipped_mirrors_left_and_right() -> None:
    before = pixels()
    after = flip_pixels(before, torch.tensor([True, False, True]))
    for b, c, y, x in np.ndindex(*before.shape):
        assert after[b, c, y, x] == before[b, c, y, x if b == 1 else 6 - x]


def test_draw_is_a_function_of_seed_and_step() -> None:
    def drawn(seed: int, step: int) -> list[object]:
        offsets, which = draw_shifts(seed, step, 50, shift=3, flip=True)
        return [offsets.tolist(), which.tolist()]

    assert drawn(7, 11) == drawn(7, 11)
    np.random.seed(1)
    torch.manual_seed(1)
    assert drawn(7, 11) == drawn(7, 11)
    several = [drawn(0, 0), drawn(0, 1), drawn(1, 0), drawn(1, 1), drawn(2**40, 0), drawn(0, 2**40)]
    for place in (0, 1):
        assert len({str(both[place]) for both in several}) == len(several)


def test_draw_takes_every_offset_equally_often() -> None:
    offsets, which = draw_shifts(0, 0, 70_000, shift=3, flip=True)
    assert offsets.shape == (70_000, 2)
    for way in offsets.T:
        values, counts = way.unique(return_counts=True)
        assert values.tolist() == [-3, -2, -1, 0, 1, 2, 3]
        assert counts.min() > 9_500
    assert (offsets[:, 0] == offsets[:, 1]).float().mean() < 0.16
    assert 0.49 < which.float().mean() < 0.51


def test_draw_without_either() -> None:
    offsets, which = draw_shifts(3, 5, 20, shift=0, flip=False)
    assert not offsets.any()
    assert which.dtype == torch.bool
    assert not which.any()
    assert draw_shifts(3, 5, 20, shift=0, flip=True)[1].any()
    before = pixels()
    assert torch.equal(shift_pixels(flip_pixels(before, which[:3]), offsets[:3]), before)
