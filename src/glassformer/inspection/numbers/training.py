"""One training step on one example: from scores to the loss, back to the gradients, and on to better weights."""

import copy
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from glassformer.bricks.losses import logistic_loss, softmax_loss, squared_loss
from glassformer.config.arrays import Array
from glassformer.config.errors import Misuse
from glassformer.inspection.numbers.update import (
    Judged,
    bag_panels,
    linear_panels,
    norm_table,
    update_panels,
)
from glassformer.inspection.numbers.writing import (
    SHOWN,
    Vector,
    added,
    answer_name,
    array,
    check_length,
    chosen,
    grid,
    number,
    worked,
)
from glassformer.models.reader import BagReader
from glassformer.rendering.panels import Panel, Words
from glassformer.rendering.view import View
from glassformer.text.display import bare

LOSSES = ("softmax", "logistic", "squared")

OPTIMISERS = {
    "sgd": "This run learns in just this way, from many examples at once: w − η·g, g the mean of their gradients.",
    "momentum": "This run learns with momentum: it keeps v ← μ·v + g from step to step and takes w − η·v, so that "
    "what many gradients agree on adds up.",
    "adamw": "This run learns with AdamW: it keeps running averages m of g and v of g² for each weight and takes "
    "w − η·m / (√v + ε), so that every weight moves by about η, however small its gradient; and it shrinks matrices by "
    "η·λ·w.",
    "muon": "This run learns with Muon: of each matrix inside the model it keeps a running average of the gradients, "
    "makes that orthogonal, so that the step is as long in every direction, and takes η times it; all else learns by "
    "AdamW, w − η·m / (√v + ε).",
}

NOTE = "On a copy of the model, without dropout, label smoothing and class weights; the run is as it was."


def training_step(
    model: nn.Module,
    inputs: Sequence[Tensor | None],
    answers: Tensor,
    *,
    loss: str = "softmax",
    tokens: Sequence[str] = (),
    outputs: Sequence[str] = (),
    position: int | None = None,
    lr: float = 0.1,
    optimizer: str = "sgd",
    shown: int = SHOWN,
) -> View:
    """Plain gradient descent on the mean loss of one example; `answers` as they are learned, negative: none is asked.

    A model that scores every token has an answer for each, any other has one. `tokens`: what each answer follows;
    `outputs`: names of what is scored; `position`: the prediction that is worked out, None: the last.
    """
    if loss not in LOSSES:
        raise Misuse(f"the loss must be one of {', '.join(LOSSES)}, not '{loss}'")
    check_length(tokens)
    twin = copy.deepcopy(model).cpu().eval()
    given = tuple(None if part is None else part.cpu() for part in inputs)
    weights = {name: weight for name, weight in twin.named_parameters() if weight.requires_grad}
    linear = last_linear(twin)
    shared = linear is not None and _uses(twin, linear.weight) > 1
    read: list[Tensor] = []
    hook = None if linear is None else linear.register_forward_hook(lambda _, args, out: read.append(args[0].detach()))
    try:
        with torch.enable_grad():
            scores, right, asked = asked_scores(twin, given, answers.cpu())
            losses = losses_of(loss, scores, right)
            by_scores, *rest = torch.autograd.grad(losses.mean(), [scores, *weights.values()], materialize_grads=True)
    finally:
        if hook is not None:
            hook.remove()
    gradients = dict(zip(weights, rest, strict=True))
    probabilities = {"softmax": scores.softmax(-1), "logistic": scores.sigmoid()}.get(loss)
    judged = Judged(
        scores=array(scores),
        probabilities=None if probabilities is None else array(probabilities),
        answers=array(right),
        losses=array(losses),
        by_scores=array(by_scores),
    )
    at = len(right) - 1 if position is None else place_of(position, asked)
    rows, context = ["example"], ""
    if len(asked) == len(tokens) or len(asked) > 1:
        said = [bare(token) for token in tokens or map(str, range(len(asked)))]
        follows = [bare(answer_name(outputs, int(one), scores.shape[1])) for one in right]
        rows = [f"{said[place]} → {one}" for place, one in zip(np.flatnonzero(asked), follows, strict=True)]
        last = int(np.flatnonzero(asked)[at])
        context = said[last] if last == 0 and len(given) == 1 else f"… {said[last]}"  # a translator has read the source
    panels = loss_panels(judged, loss, rows, outputs, at, shown, context)
    x = array(read[-1].reshape(-1, read[-1].shape[-1])) if read else np.zeros((0, 0))
    if linear is not None and linear.out_features == scores.shape[1] and len(x) == len(asked):
        panels += linear_panels(linear, weights, gradients, judged, x[asked], outputs, at, lr, shown, shared=shared)
    elif isinstance(twin, BagReader):
        panels += bag_panels(twin, given, gradients, judged, tokens, outputs, lr, shown)
    panels.append(norm_table(weights, gradients))
    with torch.no_grad():
        for name, weight in weights.items():
            weight.sub_(lr * gradients[name])
        after = losses_of(loss, asked_scores(twin, given, answers.cpu())[0], right)
    panels += update_panels(float(judged.losses.mean()), float(after.double().mean()), gradients, lr)
    panels.append(Words(title="The run's own optimiser", text=OPTIMISERS[optimizer]))
    return View("One training step", panels, NOTE)


def asked_scores(
    model: nn.Module, inputs: Sequence[Tensor | None], answers: Tensor
) -> tuple[Float[Tensor, "N C"], Tensor, Bool[Array, "T"]]:
    """Scores where an answer is asked for, the answers, and where that is."""
    scores: Tensor = model(*inputs)
    if scores.dim() == 2:
        return scores, answers.flatten(), np.ones(1, dtype=bool)
    asked = answers.flatten() >= 0
    if not asked.any():
        raise Misuse("there is nothing to learn from this text: it holds no token that follows another")
    return scores[0][asked], answers.flatten()[asked], asked.numpy()


def losses_of(loss: str, scores: Float[Tensor, "N C"], answers: Tensor) -> Float[Tensor, "N"]:
    if loss == "softmax":
        return softmax_loss(scores, answers.long())
    one = scores[:, 0]
    return (logistic_loss if loss == "logistic" else squared_loss)(one, answers.to(one))


def place_of(position: int, asked: Bool[Array, "T"]) -> int:
    """A token's place among those that have an answer."""
    chosen("position", position, len(asked))
    if not asked[position]:
        raise Misuse(f"--position {position}: nothing is asked for after this token; choose another")
    return int(asked[:position].sum())


def last_linear(model: nn.Module) -> nn.Linear | None:
    """The map that makes the scores."""
    head = getattr(model, "head", model)
    return next((module for module in reversed(list(head.modules())) if isinstance(module, nn.Linear)), None)


def _uses(model: nn.Module, weight: Tensor) -> int:
    return sum(one is weight for _, one in model.named_parameters(remove_duplicate=False))


def loss_panels(
    judged: Judged, loss: str, rows: Sequence[str], names: Sequence[str], at: int, shown: int, after: str = ""
) -> list[Panel]:
    """Scores, probabilities, the loss, and its gradient at the scores. `after`: what the one worked out follows."""
    count, several = len(rows), len(rows) > 1
    scores, p, losses, back = judged.scores, judged.probabilities, judged.losses, judged.by_scores
    answer = int(judged.answers[at]) if loss == "softmax" else 0
    order = _columns(scores[at], answer, shown - several)
    called = [*["right token"] * several, *(answer_name(names, column, scores.shape[1]) for column in order)]
    note = "Columns: the answer, and what else scores highest." if scores.shape[1] > shown else ""
    if several:
        note = "The first column is each row's own right token; the others are that of the row worked out, "
        note += f"{rows[at]}, and what else scores highest there."
    of, over = _of(names, answer, scores.shape[1], after), f" / {count}" if several else ""
    formulas, how = _formulas(judged, loss, at, answer)

    def columns(values: Float[Array, "N C"]) -> Float[Array, "N c"]:
        own = values[np.arange(count), judged.answers.astype(int)][:, None] if several else values[:, :0]
        return np.hstack([own, values[:, order]])

    panels: list[Panel] = [grid("Scores", columns(scores), rows, formula="y", note=note, columns=called, shown=shown)]
    if p is not None:
        sentence = worked(f"p{of}", how["p"], float(p[at, answer]))
        shares = grid("Probabilities", columns(p), rows, formula=formulas["p"], worked=sentence, columns=called,
                      shown=shown)  # fmt: skip
        panels.append(replace(shares, signed=False, low=0.0, high=1.0))
    each = worked(f"loss{of}" if loss == "softmax" else "loss", how["loss"], float(losses[at]))
    mean = worked("mean loss", f"({added([number(one) for one in losses])}) / {count}", float(losses.mean()))
    lost = grid("Loss", losses[:, None], rows, formula=formulas["loss"], note=each, worked=mean if several else "",
                columns=["loss"], shown=shown)  # fmt: skip
    panels.append(replace(lost, signed=False))
    sentence = worked(f"∂loss/∂y{of}", f"{how['back']}{over}", float(back[at, order[0]]))
    formula = f"{formulas['back']}; divided by {count}, for the mean" if several else formulas["back"]
    panels.append(grid("Gradient at the scores", columns(back), rows, formula=formula, worked=sentence,
                       columns=called, shown=shown))  # fmt: skip
    return panels


def _of(names: Sequence[str], answer: int, count: int, after: str) -> str:
    """Of what, and after what: ('.' | … sails); a number that is predicted has no name."""
    if count == 1 and len(names) != 2:
        return ""
    name = bare(answer_name(names, answer, count))
    said = f"'{name}'" if names else name
    return f"({said} | {after})" if after else f"({said})"


def _formulas(judged: Judged, loss: str, at: int, answer: int) -> tuple[dict[str, str], dict[str, str]]:
    """What each step is called, and how the chosen one comes about."""
    y, true = float(judged.scores[at, answer]), float(judged.answers[at])
    if loss == "squared":
        apart = f"({number(y)} − {number(true)})".replace("− −", "+ ")
        return {"loss": "loss = (y − t)²", "back": "2 (y − t)"}, {"loss": f"{apart}²", "back": f"2·{apart}"}
    assert judged.probabilities is not None
    p = float(judged.probabilities[at, answer])
    if loss == "softmax":
        total = float(np.exp(np.logaddexp.reduce(judged.scores[at])))
        formulas = {"p": "p = e^y / Σ e^y", "loss": "loss = −ln p(answer)", "back": "p − t, t 1 at the answer, else 0"}
        how = {"p": f"e^{number(y)} / {number(total)}", "loss": f"−ln {number(p)}", "back": f"({number(p)} − 1)"}
        return formulas, how
    formulas = {"p": "p = σ(y)", "loss": "loss = −ln p where t is 1, −ln (1 − p) where it is 0", "back": "p − t"}
    said = f"−ln {number(p)}" if true == 1 else f"−ln (1 − {number(p)})"
    return formulas, {"p": f"σ({number(y)})", "loss": said, "back": f"({number(p)} − {number(true)})"}


def _columns(scores: Vector, answer: int, shown: int) -> list[int]:
    """All, the answer first; or that and the highest."""
    order = [int(at) for at in np.argsort(-scores, kind="stable") if at != answer]
    return [answer, *order][:shown]
