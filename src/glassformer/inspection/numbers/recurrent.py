"""One step of a recurrent layer: Elman's, an LSTM's, a GRU's."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from glassformer.bricks.recurrent import Hidden, Recurrent
from glassformer.config.arrays import Array
from glassformer.inspection.numbers.writing import (
    Sheet,
    Vector,
    array,
    grid,
    joined,
    linear,
    number,
    products,
    worked,
)
from glassformer.rendering.panels import Panel

Matrix = Float[Array, "g d"]


@dataclass(frozen=True, kw_only=True)
class Step:
    """What a layer has at one token, before and after it; matrices hold their gates one after the other."""

    x: Vector
    h: Vector
    """Of the token before."""
    w_x: Matrix
    w_h: Matrix
    b_x: Vector
    b_h: Vector
    """Zeros where there is no bias."""
    bias: bool
    out: Vector
    """The new h."""
    c: Vector | None = None
    """An LSTM's cell before, and after."""
    new_c: Vector | None = None
    gates: Mapping[str, Vector]
    projection: Matrix | None = None
    """Of an LSTM whose cell is wider than h."""
    backwards: bool = False
    relu: bool = False
    """An RNN's non-linearity, where it is not tanh."""


def step_at(layers: Recurrent, seen: Mapping[str, Tensor], path: str, layer: int, way: int, at: int, given: Tensor,
            first: Hidden) -> Step:  # fmt: skip
    """Of layer and way at token `at`; `given`: T×i, what the layer reads; `first`: states before the first token."""
    cell = layers.cell
    ways = 2 if cell.bidirectional else 1
    where = f"{path}.{layer}{'.back' if way else ''}"
    ending = f"l{layer}{'_reverse' if way else ''}"
    before = at + 1 if way else at - 1

    def old(what: str, number: int) -> Vector:
        states = seen[f"{where}.{what}"][0]
        return array(states[before] if 0 <= before < len(states) else first[number][layer * ways + way, 0])

    weights = {name: array(value) for name, value in cell.named_parameters() if name.endswith(ending)}
    w_x = weights[f"weight_ih_{ending}"]
    nothing = np.zeros(len(w_x))
    lstm = isinstance(cell, nn.LSTM)
    letters = "ifgo" if lstm else "rzn" if isinstance(cell, nn.GRU) else ""
    return Step(
        x=array(given[at]),
        h=old("states", 0),
        w_x=w_x,
        w_h=weights[f"weight_hh_{ending}"],
        b_x=weights.get(f"bias_ih_{ending}", nothing),
        b_h=weights.get(f"bias_hh_{ending}", nothing),
        bias=cell.bias,
        out=array(seen[f"{where}.states"][0, at]),
        c=old("cells", 1) if lstm else None,
        new_c=array(seen[f"{where}.cells"][0, at]) if lstm else None,
        gates={letter: array(seen[f"{where}.gates.{letter}"][0, at]) for letter in letters},
        projection=weights.get(f"weight_hr_{ending}"),
        backwards=way == 1,
        relu=getattr(cell, "nonlinearity", "tanh") == "relu",
    )


def step_panels(step: Step, where: str, token: str, shown: int) -> list[Panel]:
    """x and the last h; the gates; what is kept; the new h."""
    write = _Writer(step, where, token, shown)
    panels = [
        write.rows("what it reads", {"x": step.x}, f"x, the vector of {token}"),
        write.rows("what it remembers", {"h before": step.h}, f"h_{write.before}, the state at the token read before"),
    ]
    if len(step.gates) == 4:
        return panels + lstm_panels(write)
    return panels + (gru_panels(write) if step.gates else elman_panels(write))


def elman_panels(write: "_Writer") -> list[Panel]:
    return [write.gate("the new state", "h", "relu" if write.step.relu else "tanh", 0, write.step.out, plain=True)]


LSTM_GATES = {"i": "let in", "f": "keep", "g": "candidate", "o": "let out"}


def lstm_panels(write: "_Writer") -> list[Panel]:
    step = write.step
    assert step.c is not None
    assert step.new_c is not None
    i, f, g, o = (step.gates[letter] for letter in "ifgo")
    panels = [
        write.gate(f"{letter}, {word}", letter, "tanh" if letter == "g" else "σ", place, step.gates[letter])
        for place, (letter, word) in enumerate(LSTM_GATES.items())
    ]
    kept = joined(f"{number(f[0])}·{number(step.c[0])}", f"{number(i[0])}·{number(g[0])}")
    rows = {"f": f, "c before": step.c, "i": i, "g": g, "c": step.new_c}
    panels.append(write.rows("the cell", rows, f"c_t = f ⊙ c_{write.before} + i ⊙ g", ("c", kept)))
    said = np.tanh(step.new_c)
    let_out = f"{number(o[0])}·tanh({number(step.new_c[0])})"
    if step.projection is None:
        rows = {"o": o, "tanh c": said, "h": step.out}
        return [*panels, write.rows("the new state", rows, "h_t = o ⊙ tanh c_t", ("h", let_out))]
    rows = {"o": o, "tanh c": said, "u": o * said}
    return [
        *panels,
        write.rows("what it lets out", rows, "u = o ⊙ tanh c_t", ("u", let_out)),
        write.rows("the new state", {"h": step.out}, "h_t = W_hr u", ("h", products(step.projection[0], o * said))),
    ]


def gru_panels(write: "_Writer") -> list[Panel]:
    step = write.step
    r, z, n = (step.gates[letter] for letter in "rzn")
    panels = [write.gate("r, what counts of the past", "r", "σ", 0, r), write.gate("z, keep", "z", "σ", 1, z)]
    size = len(n)
    mine = slice(2 * size, 3 * size)
    from_x = step.w_x[mine] @ step.x + step.b_x[mine]
    from_h = step.w_h[mine] @ step.h + step.b_h[mine]
    bias, formula = (step.b_x[mine][0], step.b_h[mine][0]), f"n = tanh(W_n x + b_n + r ⊙ (U_n h_{write.before} + b′_n))"
    past = linear(step.w_h[mine][0], step.h, bias[1] if step.bias else None)
    how = f"tanh({linear(step.w_x[mine][0], step.x, bias[0] if step.bias else None)} + {number(r[0])} · ({past}))"
    rows = {"W x": from_x, "U h": from_h, "r": r, "n": n}
    if step.bias:
        rows = {"W x + b": from_x, "U h + b′": from_h, "r": r, "n": n}
    else:
        formula = f"n = tanh(W_n x + r ⊙ (U_n h_{write.before}))"
    panels.append(write.rows("n, candidate", rows, formula, ("n", how)))
    how = joined(f"(1 − {number(z[0])})·{number(n[0])}", f"{number(z[0])}·{number(step.h[0])}")
    rows = {"z": z, "n": n, "h before": step.h, "h": step.out}
    panels.append(write.rows("the new state", rows, f"h_t = (1 − z) ⊙ n + z ⊙ h_{write.before}", ("h", how)))
    return panels


@dataclass(frozen=True)
class _Writer:
    """Writes the panels of one step."""

    step: Step
    where: str
    token: str
    shown: int

    @property
    def before(self) -> str:
        return "(t+1)" if self.step.backwards else "(t−1)"

    def rows(
        self, title: str, rows: Mapping[str, Vector], formula: str, sentence: tuple[str, str] | None = None
    ) -> Panel:
        """Vectors by name; `sentence`: what the first number of the last of them is, and how it comes about."""
        values = np.stack(list(rows.values()))
        done = "" if sentence is None else worked(f"{sentence[0]}({self.token})₀", sentence[1], float(values[-1, 0]))
        return grid(f"{self.where}: {title}", values, list(rows), formula=formula, worked=done, shown=self.shown)

    def gate(self, title: str, letter: str, name: str, place: int, value: Vector, *, plain: bool = False) -> Panel:
        """A gate is one of several maps: its rows of the matrices come at `place`. `plain`: there is but one."""
        step, size = self.step, len(value)
        mine = slice(place * size, (place + 1) * size)
        from_x, from_h, bias = step.w_x[mine] @ step.x, step.w_h[mine] @ step.h, step.b_x[mine] + step.b_h[mine]
        index = "" if plain else f"_{letter}"
        rows, formula = {"W x": from_x, "U h": from_h}, f"W{index} x + U{index} h_{self.before}"
        how = joined(products(step.w_x[mine][0], step.x), products(step.w_h[mine][0], step.h))
        if step.bias:
            rows, formula, how = {**rows, "b": bias}, f"{formula} + b{index}", joined(how, number(bias[0]))
        rows |= {"sum": from_x + from_h + bias, letter: value}
        return self.rows(
            title, rows, f"{letter}{'_t' if plain else ''} = {name}({formula})", (letter, f"{name}({how})")
        )


def layer_panels(
    layers: Recurrent,
    seen: Mapping[str, Tensor],
    path: str,
    *,
    layer: int,
    sheet: Sheet,
    given: Float[Tensor, "T i"],
    first: Hidden,
) -> list[Panel]:
    """The step at the chosen token, each way; `given`: what the first layer reads."""
    ways = 2 if layers.cell.bidirectional else 1
    for below in range(layer):
        both = [seen[f"{path}.{below}{'.back' if way else ''}.states"][0] for way in range(ways)]
        given = torch.cat(both, -1)
    panels: list[Panel] = []
    for way in range(ways):
        direction = "" if ways == 1 else (", forwards", ", backwards")[way]
        step = step_at(layers, seen, path, layer, way, sheet.at, given, first)
        panels += step_panels(step, f"Layer {layer}{direction}", sheet.token, sheet.shown)
    return panels
