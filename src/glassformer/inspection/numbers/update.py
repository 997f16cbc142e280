"""From the gradient at the scores to the gradients of weights, and the update of them."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float
from torch import Tensor, nn

from glassformer.config.arrays import Array
from glassformer.inspection.numbers.writing import (
    Vector,
    answer_name,
    array,
    grid,
    lines,
    number,
    products,
    worked,
)
from glassformer.models.reader import BagReader
from glassformer.rendering.panels import Grid, Panel, Table
from glassformer.text.display import bare


@dataclass(frozen=True, kw_only=True)
class Judged:
    """Predictions of one example, N of them, as far as something was asked for."""

    scores: Float[Array, "N C"]
    probabilities: Float[Array, "N C"] | None
    """Of `squared` there are none."""
    answers: Vector
    """The number of the right one, or the number that is right."""
    losses: Vector
    by_scores: Float[Array, "N C"]
    """The gradient of the mean loss."""


def linear_panels(
    linear: nn.Linear,
    weights: Mapping[str, Tensor],
    gradients: Mapping[str, Tensor],
    judged: Judged,
    x: Float[Array, "N d"],
    names: Sequence[str],
    at: int,
    lr: float,
    shown: int,
    *,
    shared: bool = False,
) -> list[Panel]:
    """The row of the last map that scores the answer: its gradient, and the update. `shared`: it has another use."""
    name = next((name for name, weight in weights.items() if weight is linear.weight), None)
    if name is None:  # it is not learned
        return []
    count = judged.scores.shape[1]
    row = int(judged.answers[at]) if count > 1 else 0
    w, g = array(weights[name][row]), array(gradients[name][row])
    formula, note = "g = Σ ∂loss/∂y · x, over the predictions", ""
    sentence = worked("g₀", products(judged.by_scores[:, row], x[:, 0]), float(g[0]))
    if shared:
        formula, sentence = "g = ∂loss/∂w", ""
        note = "This table is the word vectors' too: its gradient is the sum of both uses."
    of = f" of {answer_name(names, row, count)}" if count > 1 else ""
    return [_update_panel(f"{name}, the row{of}", w, g, lr, formula, sentence, note, shown)]


def bag_panels(
    model: BagReader,
    inputs: Sequence[Tensor | None],
    gradients: Mapping[str, Tensor],
    judged: Judged,
    tokens: Sequence[str],
    names: Sequence[str],
    lr: float,
    shown: int,
) -> list[Panel]:
    """The row of the bag's table for the first word."""
    ids, mask = (*inputs, None)[:2]
    assert ids is not None
    found, real = model.bag.features(ids, mask)
    row = int(found[0, 0])
    x = float((model.bag.weights(found, real)[0] * (found[0] == row)).sum())
    w, g = array(model.bag.table.weight[row]), array(gradients["bag.table.weight"][row])
    sentence = worked("g₀", f"{number(x)}·{number(judged.by_scores[0, 0])}", float(g[0]))
    word = bare(tokens[0]) if tokens else str(row)
    columns = [answer_name(names, at, len(w)) for at in range(len(w))]
    panel = _update_panel(f"bag.table.weight, the row of {word}", w, g, lr, "g = x · ∂loss/∂y", sentence, "", shown)
    return [replace(panel, columns=columns[:shown], column_name="")]


def _update_panel(
    title: str, w: Vector, g: Vector, lr: float, formula: str, sentence: str, note: str, shown: int
) -> Grid:
    values = np.stack([w, g, w - lr * g])
    step = worked("w₀ − η·g₀", f"{number(w[0])} − {number(lr)}·{number(g[0])}", float(values[2, 0]))
    rows = ["w", "gradient g", "w − η·g"]
    formula = f"{formula};  w ← w − η·g"
    return grid(title, values, rows, formula=formula, note=lines(note, sentence), worked=step, shown=shown)


def norm_table(weights: Mapping[str, Tensor], gradients: Mapping[str, Tensor]) -> Table:
    """How long the gradient is, layer by layer."""
    layers: dict[str, list[str]] = {}
    for name in weights:
        layers.setdefault(layer_of(name), []).append(name)

    def length(tensors: Mapping[str, Tensor], names: Sequence[str]) -> float:
        return float(sum(tensors[name].detach().double().square().sum() for name in names)) ** 0.5

    rows: list[list[str | float | int | None]] = [
        [layer, sum(weights[name].numel() for name in names), length(weights, names), length(gradients, names)]
        for layer, names in layers.items()
    ]
    columns = ["where", "weights", "‖w‖", "‖g‖"]
    return Table(title="The gradient, layer by layer", columns=columns, rows=rows, note="‖g‖ = √(Σ g²)")


def layer_of(name: str) -> str:
    """encoder.blocks.0.attend.query.weight → encoder.blocks.0; torch's weight_ih_l1 → layer 1 of its kind."""
    if found := re.match(r"(.*)\.cell\.\w+_l(\d+)", name):
        return f"{found[1]}.{found[2]}"
    if found := re.match(r".*?\.\d+(?=\.)", name):
        return found[0]
    return name.rpartition(".")[0] or name


def update_panels(before: float, after: float, gradients: Mapping[str, Tensor], lr: float) -> list[Panel]:
    """What the step did to the loss, and what the gradient promised."""
    squared = float(sum(one.double().square().sum() for one in gradients.values()))
    rows: list[list[str | float | int | None]] = [
        ["loss before", before],
        ["loss after", after],
        ["change", after - before],
        ["promised by the gradient, −η·‖g‖²", -lr * squared],
    ]
    note = f"All weights at once, w ← w − η·g with η = {number(lr)}, then the same example again."
    return [Table(title="After the step", columns=["", "loss"], rows=rows, note=note)]
