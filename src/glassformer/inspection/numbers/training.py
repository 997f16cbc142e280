"""One training step on one example: scores, loss, gradients and the update of the weights."""

import copy
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import singledispatch
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from glassformer.bricks.capabilities import capability
from glassformer.bricks.losses import logistic_loss, softmax_loss, squared_loss
from glassformer.config.arrays import Array
from glassformer.config.errors import Misuse
from glassformer.config.presets import LABEL_SET
from glassformer.families.base import Loaded
from glassformer.inspection.numbers.steps import (
    SHOWN_NUMBERS,
    Term,
    Vector,
    added,
    answer_name,
    array,
    check_index,
    check_length,
    grid,
    lines,
    number,
    products,
    worked,
)
from glassformer.inspection.views.registry import DECODING, LookRequest, leader, register_view, sentence, wording
from glassformer.models.capabilities import HasHead
from glassformer.models.modules import BagPredictor
from glassformer.rendering.panels import Grid, Panel, Rows, Table, Words
from glassformer.rendering.takeaways import course
from glassformer.rendering.view import View
from glassformer.text.display import bare, quoted


class Loss(NamedTuple):
    """A loss of scores y and answers t; the terms have braces for the numbers of the example prediction."""

    function: Callable[[Tensor, Tensor], Tensor]
    loss: Term
    gradient: Term
    """Gradient of the loss with respect to the scores."""
    probability: Term | None = None


LOSSES = {
    "softmax": Loss(
        softmax_loss,
        Term("loss = −ln p(answer)", "−ln {p}"),
        Term("p − t, t 1 at the answer, else 0", "({p} − 1)"),
        Term("p = e^y / Σ e^y", "e^{y} / {total}"),
    ),
    "logistic": Loss(
        logistic_loss,
        Term("loss = −ln p where t is 1, −ln (1 − p) where it is 0", "−ln {right}"),
        Term("p − t", "({p} − {t})"),
        Term("p = σ(y)", "σ({y})"),
    ),
    "squared": Loss(squared_loss, Term("loss = (y − t)²", "({y} − {t})²"), Term("2 (y − t)", "2·({y} − {t})")),
}

OPTIMISERS: Mapping[str, str] = wording("optimisers")
"""Description of how each optimiser differs from plain gradient descent."""

RATE = 0.1
"""Learning rate of the step that is shown."""
NOTE = "On a copy of the model, without dropout, label smoothing and class weights; the run is as it was."


@dataclass(frozen=True, kw_only=True)
class Predictions:
    """The N predictions of one example that have an answer, one of which is worked out."""

    scores: Float[Array, "N C"]
    answers: Vector
    """Index of the right output, or the right number in regression."""
    losses: Vector
    gradient: Float[Array, "N C"]
    """Gradient of the mean loss with respect to the scores."""
    gradients: Mapping[str, Tensor]
    """Gradient of the mean loss with respect to each trainable parameter, by name."""
    at: int
    """Index of the prediction that is worked out."""
    answer: int
    """Column of its right answer."""
    rows: Sequence[str]
    outputs: Sequence[str]
    """Names of the outputs."""
    shown: int
    """Maximum number of values shown of a vector."""

    def name(self, column: int) -> str:
        return answer_name(self.outputs, column, self.scores.shape[1])

    @property
    def of(self) -> str:
        """The right answer in parentheses, for formulas; empty in regression."""
        is_number = self.scores.shape[1] == 1 and len(self.outputs) != 2
        return "" if is_number else f"({bare(self.name(self.answer))})"


def training_step(
    model: nn.Module,
    inputs: Sequence[Tensor | None],
    answers: Tensor,
    *,
    loss: str = "softmax",
    tokens: Sequence[str] = (),
    words: Sequence[str] = (),
    outputs: Sequence[str] = (),
    position: int | None = None,
    lr: float = 0.1,
    optimizer: str = "sgd",
    shown: int = SHOWN_NUMBERS,
) -> View:
    """Show a step of plain gradient descent on the mean loss of one example, on a copy of the model.

    A model that scores every token has one answer per token, any other model has a single answer. A negative answer
    excludes the token from the loss.

    - `tokens`: the token before each answer
    - `words`: the tokens of the input
    - `outputs`: names of the outputs
    - `position`: token whose prediction is worked out; None for the last prediction
    """
    check_length(tokens)
    twin = copy.deepcopy(model).cpu().eval()
    given = tuple(None if part is None else part.cpu() for part in inputs)
    weights = {name: weight for name, weight in twin.named_parameters() if weight.requires_grad}
    read: list[Tensor] = []
    linear = last_linear(twin)
    hook = (linear or nn.Identity()).register_forward_hook(lambda _, args, out: read.append(args[0].detach()))
    with hook, torch.enable_grad():
        scores, right, asked = asked_scores(twin, given, answers.cpu())
        losses = losses_of(loss, scores, right)
        by_scores, *rest = torch.autograd.grad(losses.mean(), [scores, *weights.values()], materialize_grads=True)
    gradients = dict(zip(weights, rest, strict=True))
    at = len(right) - 1 if position is None else place_of(position, asked)
    rows = ["example"]
    if len(asked) == len(tokens) or len(asked) > 1:
        before = [bare(token) for token in tokens or map(str, range(len(asked)))]
        follows = [bare(answer_name(outputs, int(answer), scores.shape[1])) for answer in right]
        rows = [f"{before[place]} → {name}" for place, name in zip(np.flatnonzero(asked), follows, strict=True)]
    predictions = Predictions(
        scores=array(scores),
        answers=array(right),
        losses=array(losses),
        gradient=array(by_scores),
        gradients=gradients,
        at=at,
        answer=int(right[at]) if loss == "softmax" else 0,
        rows=rows,
        outputs=outputs,
        shown=shown,
    )
    panels = loss_panels(
        predictions, LOSSES[loss], array(scores.softmax(-1) if loss == "softmax" else scores.sigmoid())
    )
    x = array(read[-1].reshape(-1, read[-1].shape[-1])) if read else np.zeros((0, 0))
    if linear is not None and linear.out_features == scores.shape[1] and len(x) == len(asked):
        panels += linear_panels(twin, linear, predictions, x[asked], lr)
    else:
        panels += bag_panels(twin, given, predictions, words or tokens, lr)
    panels.append(norm_table(weights, gradients))
    with torch.no_grad():
        for name, weight in weights.items():
            weight.sub_(lr * gradients[name])
        new = losses_of(loss, asked_scores(twin, given, answers.cpu())[0], right)
    change = change_table(float(predictions.losses.mean()), float(new.double().mean()), gradients, lr)
    own = Words(title="The run's own optimiser", text=OPTIMISERS[optimizer])
    return View("One training step", [*panels, change, own], NOTE)


def has_written_out_loss(loaded: Loaded) -> bool:
    return loaded.family.is_trained and loaded.family.label_kind != LABEL_SET


@register_view(
    "step",
    options=("position", "answer", *DECODING),
    needs=lambda loaded: loaded.family.text_loss and has_written_out_loss(loaded),
)
def step(request: LookRequest) -> View:
    """Show the loss, gradients and update on one example; the run stays unchanged."""
    example, loaded = request.example, request.loaded
    target, loss = loaded.family.training_target(loaded, example, request.answer)
    return training_step(
        request.model,
        example.inputs,
        target,
        loss=loss,
        tokens=() if loaded.family.labels_examples else example.written or example.tokens,
        words=example.tokens,
        outputs=loaded.family.output_names(loaded),
        position=request.position,
        lr=RATE,
        optimizer=loaded.config.training.optimizer,
    )


def asked_scores(
    model: nn.Module, inputs: Sequence[Tensor | None], answers: Tensor
) -> tuple[Float[Tensor, "N C"], Tensor, Bool[Array, "T"]]:
    """Return the scores that have an answer, their answers, and the mask of the tokens with an answer."""
    scores: Tensor = model(*inputs)
    if scores.dim() == 2:
        return scores, answers.flatten(), np.ones(1, dtype=bool)
    asked = answers.flatten() >= 0
    if not asked.any():
        raise Misuse("there is nothing to learn from this text: it holds no token that follows another")
    return scores[0][asked], answers.flatten()[asked], asked.numpy()


def losses_of(loss: str, scores: Float[Tensor, "N C"], answers: Tensor) -> Float[Tensor, "N"]:
    function = LOSSES[loss].function
    return function(scores, answers.long()) if loss == "softmax" else function(scores[:, 0], answers.to(scores))


def place_of(position: int, asked: Bool[Array, "T"]) -> int:
    """Return the index of a token among the tokens that have an answer."""
    check_index("position", position, len(asked))
    if not asked[position]:
        raise Misuse(f"--position {position}: nothing is asked for after this token; choose another")
    return int(asked[:position].sum())


def last_linear(model: nn.Module) -> nn.Linear | None:
    """Return the last linear layer of the head, which computes the scores; None if there is none."""
    known = capability(model, HasHead)
    last: nn.Module = model if known is None else known.head
    return next((module for module in reversed(list(last.modules())) if isinstance(module, nn.Linear)), None)


# --- from scores to the loss and back to the gradient of the scores ---


def loss_panels(predictions: Predictions, loss: Loss, probabilities: Float[Array, "N C"]) -> list[Panel]:
    """Return grids of the scores, their probabilities, the loss, and its gradient with respect to the scores."""
    at, answer, several = predictions.at, predictions.answer, len(predictions.rows) > 1
    own = predictions.answers.astype(int)
    others = [int(column) for column in np.argsort(-predictions.scores[at], kind="stable") if column != answer]
    order = [answer, *others][: predictions.shown - several]
    names = [*["right token"] * several, *(predictions.name(column) for column in order)]
    y, p, t = predictions.scores[at, answer], probabilities[at, answer], predictions.answers[at]
    total = float(np.exp(np.logaddexp.reduce(predictions.scores[at])))
    numbers = {"y": number(y), "p": number(p), "t": number(t), "total": number(total)}
    numbers["right"] = numbers["p"] if t == 1 else f"(1 − {numbers['p']})"

    def work(name: str, term: Term, result: float, over: str = "") -> str:
        return worked(f"{name}{predictions.of}", term.numbers.format(**numbers).replace("− −", "+ ") + over, result)

    def columns(title: str, values: Float[Array, "N C"], formula: str, note: str) -> Grid:
        right = values[np.arange(len(values)), own][:, None] if several else values[:, :0]
        values = np.hstack([right, values[:, order]])
        return grid(title, values, predictions.rows, formula=formula, note=note, columns=names, shown=predictions.shown)

    note = sentence("step: several", row=predictions.rows[at]) if several else sentence("step: one")
    panels: list[Panel] = [columns("Scores", predictions.scores, "y", note)]
    if loss.probability is not None:
        shares = columns("Probabilities", probabilities, loss.probability.letters, work("p", loss.probability, p))
        panels.append(replace(shares, signed=False, low=0.0, high=1.0))
    note, formula, over = work("loss", loss.loss, predictions.losses[at]), loss.gradient.letters, ""
    if several:
        over = f" / {len(predictions.rows)}"
        mean = f"({added([number(each) for each in predictions.losses])}){over}"
        note = lines(note, worked("mean loss", mean, predictions.losses.mean()))
        formula = f"{formula};{over}, for the mean"
    lost = predictions.losses[:, None]
    lost_panel = grid("Loss", lost, predictions.rows, formula=loss.loss.letters, note=note, columns=["loss"])
    back = work("∂loss/∂y", loss.gradient, predictions.gradient[at, answer], over)
    gradient = columns("Gradient at the scores", predictions.gradient, formula, back)
    return [*panels, replace(lost_panel, signed=False), gradient]


# --- from the gradient of the scores to those of the weights, and the update ---


def linear_panels(
    model: nn.Module, linear: nn.Linear, predictions: Predictions, x: Float[Array, "N d"], lr: float
) -> list[Panel]:
    """Return the gradient and update of the last layer's row for the answer; no panel if the layer is frozen."""
    names = [name for name, weight in model.named_parameters(remove_duplicate=False) if weight is linear.weight]
    if names[0] not in predictions.gradients:
        return []
    row, w = predictions.answer, array(linear.weight[predictions.answer])
    g = array(predictions.gradients[names[0]][row])
    formula = "g = Σ ∂loss/∂y · x, over the predictions"
    note = worked("g₀", products(predictions.gradient[:, row], x[:, 0]), g[0])
    if len(names) > 1:
        formula, note = "g = ∂loss/∂w", sentence("step: tied")
    of = f" of {predictions.name(row)}" if predictions.scores.shape[1] > 1 else ""
    return [update_panel(f"{names[0]}, the row{of}", w, g, lr, formula, note, predictions.shown)]


@singledispatch
def bag_panels(
    model: nn.Module, inputs: Sequence[Tensor | None], predictions: Predictions, tokens: Sequence[str], lr: float
) -> list[Panel]:
    """Return the update of the row of a bag-of-words table for the first word; no panel for other models."""
    return []


@bag_panels.register
def bag_predictor_panels(
    model: BagPredictor, inputs: Sequence[Tensor | None], predictions: Predictions, tokens: Sequence[str], lr: float
) -> list[Panel]:
    ids, mask = (*inputs, None)[:2]
    assert ids is not None
    features, real = model.bag.features(ids, mask)
    row = int(features[0, 0])
    x = float((model.bag.weights(features, real)[0] * (features[0] == row)).sum())
    w, g = array(model.bag.table.weight[row]), array(predictions.gradients["bag.table.weight"][row])
    note = worked("g₀", f"{number(x)}·{number(predictions.gradient[0, 0])}", g[0])
    title = f"bag.table.weight, the row of {quoted(tokens[0]) if tokens else row}"
    panel = update_panel(title, w, g, lr, "g = x · ∂loss/∂y", note, predictions.shown)
    columns = [answer_name(predictions.outputs, column, len(w)) for column in range(len(w))]
    return [replace(panel, columns=columns[: predictions.shown], column_name="")]


def update_panel(title: str, w: Vector, g: Vector, lr: float, formula: str, note: str, shown: int) -> Grid:
    rows = {"w": w, "gradient g": g, "w − η·g": w - lr * g}
    step = worked("w₀ − η·g₀", f"{number(w[0])} − {number(lr)}·{number(g[0])}", w[0] - lr * g[0])
    values, formula = np.stack(list(rows.values())), f"{formula};  w ← w − η·g"
    return grid(title, values, list(rows), formula=formula, note=note, worked=step, shown=shown)


def norm_table(weights: Mapping[str, Tensor], gradients: Mapping[str, Tensor]) -> Table:
    """Return a table of the norms of weights and gradients, layer by layer."""
    layers: dict[str, list[str]] = {}
    for name in weights:
        layers.setdefault(layer_of(name), []).append(name)
    rows = [
        [
            layer,
            sum(weights[name].numel() for name in names),
            *(squared_length(tensors[name] for name in names) ** 0.5 for tensors in (weights, gradients)),
        ]
        for layer, names in layers.items()
    ]
    longest = leader("longest gradient", list(layers), [row[3] for row in rows])
    columns, note = ["where", "weights", "‖w‖", "‖g‖"], "‖g‖ = √(Σ g²)"
    return Table(title="The gradient, layer by layer", takeaway=longest, columns=columns, rows=rows, note=note)


def squared_length(tensors: Iterable[Tensor]) -> float:
    return float(sum(tensor.detach().double().square().sum() for tensor in tensors))


def layer_of(name: str) -> str:
    """Return the layer of a parameter: `encoder.blocks.0` for `encoder.blocks.0.attend.query.weight`.

    In recurrent modules, PyTorch's `PATH.cell.weight_ih_l1` belongs to `PATH.1`.
    """
    if found := re.match(r"(.*)\.cell\.\w+_l(\d+)", name):
        return f"{found[1]}.{found[2]}"
    if found := re.match(r".*?\.\d+(?=\.)", name):
        return found[0]
    return name.rpartition(".")[0] or name


def change_table(before: float, after: float, gradients: Mapping[str, Tensor], lr: float) -> Table:
    """Return a table of the loss before and after the step, and the change predicted by the gradient."""
    rows: Rows = [
        ["loss before", before],
        ["loss after", after],
        ["change", after - before],
        ["promised by the gradient, −η·‖g‖²", -lr * squared_length(gradients.values())],
    ]
    note = f"All weights at once, w ← w − η·g with η = {number(lr)}, then the same example again."
    takeaway = f"The loss {course([before, after])}"
    return Table(title="After the step", takeaway=takeaway, columns=["", "loss"], rows=rows, note=note)
