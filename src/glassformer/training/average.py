"""A running average of the weights: what is validated and kept, while the weights themselves go on being trained."""

import contextlib
from collections.abc import Iterator, Mapping

import torch
from torch import Tensor


class Average:
    """The weights of about the last `span` updates, averaged; later ones count more. None: there is no average, and
    the weights are used as they are.

    `weights`: what is trained, by name, a shared weight once; buffers are always as they are.
    """

    def __init__(self, weights: Mapping[str, Tensor], span: int | None) -> None:
        self.span = span
        self.weights = {} if span is None else dict(weights)
        self.averages = {name: _exact(weight).clone() for name, weight in self.weights.items()}

    @torch.no_grad()
    def update(self, taken: int) -> int:
        """Take in the weights as they are now, after `taken` updates of the average; gives how many it then has."""
        if self.span is None:
            return 0
        weights = [_exact(weight) for weight in self.weights.values()]
        # little at first, so that the weights it started from are soon forgotten; in the end all but 1/span
        stays = min(1 - 1 / self.span, (1 + taken) / (10 + taken))
        torch._foreach_lerp_(list(self.averages.values()), weights, 1 - stays)
        return taken + 1

    @contextlib.contextmanager
    def in_use(self) -> Iterator[None]:
        """The averages stand in the model; afterwards the weights do again, bit for bit."""
        trained = {name: weight.detach().clone() for name, weight in self.weights.items()}
        try:
            self._put(self.averages)
            yield
        finally:
            self._put(trained)

    @torch.no_grad()
    def _put(self, values: dict[str, Tensor]) -> None:
        for name, weight in self.weights.items():
            weight.copy_(values[name])

    def state(self) -> dict[str, Tensor]:
        """The averages by parameter name; empty where there is none."""
        return dict(self.averages)

    def load(self, state: dict[str, Tensor]) -> None:
        for name, average in self.averages.items():
            if name in state:
                average.copy_(state[name])


def _exact(weight: Tensor) -> Tensor:
    """The weight in float32 at least: in half precision, what one update adds to an average would be lost."""
    return weight.detach().to(torch.promote_types(weight.dtype, torch.float32))
