import pytest
import torch

from glassformer.bricks.embedding import WordDropout
from helpers.support import numbers, same

B, T, D = 37, 41, 5


@pytest.mark.parametrize("rest", [(), (D,)])
def test_whole_words_are_dropped_and_the_rest_scaled(rest: tuple[int, ...]) -> None:
    x = numbers(B, T, *rest)
    dropped = WordDropout(0.3).train()(x)
    gone = (dropped == 0).view(B, T, -1)
    assert torch.equal(gone.all(-1), gone.any(-1))
    assert 0.25 < gone.all(-1).double().mean().item() < 0.35
    assert 0 < gone.all(-1)[0].sum() < T  # words are dropped, not texts
    kept = ~gone.all(-1)
    same(dropped[kept], x[kept] / 0.7, 1e-6)


def test_each_time_others() -> None:
    brick, x = WordDropout(0.3).train(), numbers(B, T, D)
    assert not torch.equal(brick(x), brick(x))


def test_nothing_happens_in_use_or_at_zero() -> None:
    x = numbers(B, T, D)
    assert torch.equal(WordDropout(0.3).eval()(x), x)
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    assert torch.equal(WordDropout(0.0).train()(x), x)
    assert torch.equal(torch.rand(1), expected)
