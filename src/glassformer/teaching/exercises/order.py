"""Exercises on word order: an Elman layer, an LSTM step, and the receptive field of stacked convolutions."""

import torch
from torch import Generator, Tensor, nn

from glassformer.teaching.exercise import Case, Exercise, answer, drawn, exercise, normal


class Elman(nn.Module):
    """Reference solution; a subclass with `mistake` set makes a known mistake."""

    mistake = ""

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__()
        self.w_x = nn.Parameter(torch.randn(width, inputs) * 0.1)
        self.w_h = nn.Parameter(torch.randn(width, width) * 0.1)
        self.b = nn.Parameter(torch.zeros(width))

    def forward(self, x: Tensor) -> Tensor:
        h = x.new_zeros(len(x), len(self.b))
        states = []
        for word in x.unbind(1):
            before = h.detach() if self.mistake == "detached" else h
            w_h = self.w_h.T if self.mistake == "turned" else self.w_h
            total = word @ self.w_x.T + before @ w_h.T + self.b
            h = total if self.mistake == "linear" else total.tanh()
            states.append(h)
            if self.mistake == "no state":
                h = torch.zeros_like(h)
        return torch.stack(states, 1)


def lstm_step(
    x: Tensor, h: Tensor, c: Tensor, w: Tensor, u: Tensor, b: Tensor, *, mistake: str = ""
) -> tuple[Tensor, Tensor]:
    """Return the right result, or the result of a known mistake."""
    i, f, g, o = (x @ w.T + h @ u.T + b).chunk(4, -1)
    if mistake == "order":
        i, f, o, g = i, f, g, o
    if mistake == "i and f":
        i, f = f, i
    i, f, o = i.sigmoid(), f.sigmoid(), o.sigmoid()
    g = g.sigmoid() if mistake == "g" else g.tanh()
    new = f * c + i * g
    out = o * (new if mistake == "no tanh" else new.tanh())
    return (new, out) if mistake == "exchanged" else (out, new)


@drawn
def _step(
    chance: Generator, rows: int, inputs: int, width: int, *, empty: bool = False, keep: float = 0.0
) -> tuple[Tensor, ...]:
    x = torch.randn(rows, inputs, generator=chance)
    h, c = torch.randn(2, rows, width, generator=chance) * (not empty)
    w, u = torch.randn(4 * width, inputs, generator=chance), torch.randn(4 * width, width, generator=chance)
    b = torch.randn(4 * width, generator=chance)
    b[width : 2 * width] += keep
    b[:width] -= keep
    return x, h, c, w, u, b


EXERCISES: list[Exercise] = [
    answer(__name__, "reach"),
    exercise(
        Elman,
        Case("two texts of five words", normal((2, 5, 3)), points=2, build={"inputs": 3, "width": 4}),
        Case("gradients", normal((1, 4, 3)), build={"inputs": 3, "width": 2}, learn=True),
        Case("one word", normal((3, 1, 2)), build={"inputs": 2, "width": 5}, visible=False),
    ),
    answer(__name__, "left"),
    exercise(
        lstm_step,
        Case("one step of two texts", _step(2, 3, 4), points=2),
        Case("from an empty cell", _step(3, 2, 3, empty=True), visible=False),
        Case("a cell that is kept", _step(2, 3, 3, keep=9.0), visible=False),
    ),
]
