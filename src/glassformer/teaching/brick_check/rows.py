"""Checks that apply to every brick, one row each: shapes, gradients, causality, padding and more."""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from glassformer.checks.result import CheckResult, Deviation, DoesNotApply
from glassformer.config.errors import first_line
from glassformer.teaching.brick_check.contract import TOKENS, Contract
from glassformer.teaching.brick_check.forward import apart
from glassformer.teaching.brick_check.steps import Case, with_x
from glassformer.teaching.brick_check.subject import Subject
from glassformer.teaching.exercise import TOLERANCE, StudentError

MAX_UPDATES, LEARNING_RATE, FIRST_SPREAD = 100, 0.05, 0.2
"""Settings for overfitting one batch; FIRST_SPREAD is the standard deviation of the initial weights."""
OVERFITTED_LOSS = 0.05
ALL = slice(None)
CUT_OFF = "is there a detach(), .data, .item() or no_grad() on the way?"
NO_GRADIENT = "no gradient comes to {}: " + CUT_OFF


class Fails(Exception):
    """Raised by a check that fails, with the reason."""


def checked(name: str, check: Callable[[], Deviation]) -> CheckResult:
    """Run a check and return its row; a check that raises has failed or does not apply."""
    try:
        deviation = check()
    except (DoesNotApply, Fails, StudentError) as why:
        return CheckResult(name, None, TOLERANCE, None if isinstance(why, DoesNotApply) else False, str(why))
    return CheckResult(name, deviation.difference, TOLERANCE, deviation.difference <= TOLERANCE, deviation.words)


def within_tolerance(differences: Iterable[tuple[float, str]]) -> float:
    """Return the largest difference; raise `Fails`, with the accompanying text, if one is too large."""
    most = 0.0
    for difference, words in differences:
        if difference > TOLERANCE:
            raise Fails(words.format(difference))
        most = max(most, difference)
    return most


def with_inputs(case: Case, change: Callable[[str, Tensor], Tensor]) -> Case:
    """Return the case with every input tensor replaced by `change(name, tensor)`."""
    inputs = {name: change(name, one) if isinstance(one, Tensor) else one for name, one in case.inputs.items()}
    return replace(case, inputs=inputs)


def cut(case: Case, rows: slice, tokens: slice = ALL) -> Case:
    """Return a case with only some rows and tokens of its inputs, B×T×…."""
    first = next(one for one in case.inputs.values() if isinstance(one, Tensor))
    batch, length = first.shape[:2]

    def part(name: str, tensor: Tensor) -> Tensor:
        if tensor.shape[:2] == (batch, length):
            return tensor[rows, tokens]
        if tensor.shape[0] == length:
            return tensor[tokens]
        return tensor[rows] if tensor.shape[0] == batch else tensor

    return with_inputs(case, part)


def shapes(subject: Subject) -> Deviation:
    cases = subject.plain_cases()
    if subject.contract.time == 1:
        cases += [cut(cases[0], slice(1), slice(tokens)) for tokens in (1, 3)]
    for case in cases:
        right, actual = subject.contract.shape(case), tuple(subject.run(case).output.shape)
        if right != actual:
            raise Fails(f"gives {_shape(actual)}, not {_shape(right)}")
    return Deviation(0.0, subject.contract.signature)


def _shape(sizes: tuple[int, ...]) -> str:
    return "×".join(map(str, sizes)) or "one number"


def causality(subject: Subject) -> Deviation:
    """Change each token in turn, and check that no output before it changes."""
    if not subject.contract.causal:
        raise DoesNotApply(f"{subject.contract.name} may see every token")
    always = subject.contract.causal == "always"
    case = next((one for one in subject.plain_cases() if always or one.options["causal"]), None)
    if case is None:
        raise DoesNotApply("it is not causal, and has no argument `causal`")
    before = subject.run(case).output
    most = 0.0
    for t in range(1, before.shape[1]):
        x = case.inputs["x"].clone()
        x[:, t] = 1.5 - x[:, t]
        moved = (before - subject.run(with_x(case, x)).output)[:, :t].abs().amax((0, 2))
        if not (moved <= TOLERANCE).all():
            first = int((~(moved <= TOLERANCE)).nonzero()[0])
            raise Fails(f"changing token {t} moves output {first} by {float(moved[first]):.3g}: it sees the future")
        most = max(most, float(moved.max()))
    return Deviation(most, f"tokens 1 to {before.shape[1] - 1} changed one by one; nothing before them moves")


def padding(subject: Subject) -> Deviation:
    """Compare each row in a padded batch with the row alone."""
    contract = subject.contract
    if "mask" not in subject.takes or (contract.is_function and "x" not in contract.arguments):
        raise DoesNotApply("it takes no padding mask")
    cases = subject.plain_cases(padded=True)
    lengths = cases[-1].inputs["mask"].sum(1).tolist()

    def differences() -> Iterator[tuple[float, str]]:
        for case in cases:
            whole = subject.run(case).output
            has_tokens = whole.dim() == 3 and contract.masked == "x"
            for row, length in enumerate(lengths):
                alone = subject.run(_without_padding(case, row, length, contract.masked)).output[0]
                together = whole[row, :length] if has_tokens else whole[row]
                yield apart(alone, together), f"row {row} with padding behind it is {{:.2g}} off what it is alone"

    most = within_tolerance(differences())
    form = "" if subject.mask_form == "B×T" else f"; its mask is {subject.mask_form}, and a model gives B×T"
    return Deviation(most, f"rows of {', '.join(map(str, lengths))} tokens together and alone{form}")


def _without_padding(case: Case, row: int, length: int, masked: str) -> Case:
    """Return one row of a case without its mask, with the masked input cut to the real tokens."""
    alone = cut(case, slice(row, row + 1), slice(length) if masked == "x" else ALL)
    return replace(alone, inputs={**alone.inputs, masked: alone.inputs[masked][:, :length], "mask": None})


def permutation(subject: Subject) -> Deviation:
    contract, axis = subject.contract, subject.contract.time
    if not contract.permutes or axis is None:
        raise DoesNotApply("order matters to it" if axis is not None else "there are no tokens")
    case = next((one for one in subject.plain_cases() if not one.options.get("causal")), None)
    if case is None:
        raise DoesNotApply("it is causal: order matters to it")
    length = case.inputs[contract.permuted[0]].shape[axis]
    order = torch.randperm(length, generator=torch.Generator().manual_seed(3))
    moved = with_inputs(case, lambda name, one: one.index_select(axis, order) if name in contract.permuted else one)
    before, after = subject.run(case).output, subject.run(moved).output
    if contract.permutes == "with":
        return Deviation(apart(before[:, order], after), "tokens that change places take their outputs with them")
    return Deviation(apart(before, after), f"{' and '.join(contract.permuted)} change places together: nothing moves")


def batch_rows(subject: Subject) -> Deviation:
    case = subject.plain_cases()[0]
    first = next(one for one in case.inputs.values() if isinstance(one, Tensor))
    whole = subject.run(case).output
    if whole.dim() < 2 or subject.contract.time is None or (subject.contract.is_function and first.dim() < 3):
        raise DoesNotApply("there is no batch")
    rows = [slice(row, row + 1) for row in range(len(first))]
    alone = (subject.run(cut(case, row)).output for row in rows)
    words = "row {} is {{:.2g}} off what it is alone: rows of a batch must not know each other"
    differences = ((apart(whole[row], one), words.format(row.start)) for row, one in zip(rows, alone, strict=True))
    return Deviation(within_tolerance(differences), "each row of the batch alone gives the same")


def in_place(subject: Subject) -> Deviation:
    case = subject.plain_cases()[0]
    after = subject.run(case).inputs
    for name, one in case.inputs.items():
        if isinstance(one, Tensor) and not torch.equal(one, after[name]):
            raise Fails(f"it changes {name}: is there an operation in place (+=, masked_fill_)?")
    return Deviation(0.0, "what it is given stays as it was")


NOT_DETERMINISTIC = (
    "the same call gives something else the second time: is there dropout that does not ask for self.training, or a "
    "state that is not reset between two batches?"
)


def deterministic(subject: Subject) -> Deviation:
    case = subject.plain_cases()[0]
    module = None if subject.contract.is_function else subject.with_weights(case.options)
    if not torch.equal(subject.call(case, module).output, subject.call(case, module).output):
        raise Fails(NOT_DETERMINISTIC)
    return Deviation(0.0, "twice the same call, in eval: bit for bit")


def cached(subject: Subject) -> Deviation:
    """Compare `extend` on several chunks with `forward` on the whole sequence."""
    case = next((one for one in subject.plain_cases() if one.options.get("causal")), None)
    if subject.contract.name != "encoder" or getattr(subject.brick, "extend", None) is None:
        raise DoesNotApply("it has no `extend`")
    if case is None:
        raise DoesNotApply("it is not causal")
    x = case.inputs["x"]
    module: Any = subject.with_weights(case.options)
    whole = subject.call(case, module).output

    @torch.no_grad()
    def difference(pieces: list[int]) -> tuple[float, str]:
        state = subject.safely(module.init_state, len(x), TOKENS)
        out = torch.cat([subject.safely(module.extend, piece, state) for piece in x.split(pieces, 1)], 1)
        return apart(whole, out), f"extend in pieces of {', '.join(map(str, pieces))} is {{:.2g}} off forward"

    most = within_tolerance(map(difference, ([TOKENS], [1] * TOKENS, [3, 1, 1])))
    return Deviation(most, "extend in pieces of 5, of 1, of 3, 1, 1 = forward on the whole")


def gradients(subject: Subject) -> Deviation:
    """Compare the gradients of inputs and weights with the reference.

    The loss is the sum of the output times random numbers. Without a reference, check that every weight has a finite
    gradient.
    """
    contract = subject.contract
    case = subject.cases()[0] if contract.steps else subject.plain_cases()[0]
    module = None if contract.is_function else subject.with_weights(case.options)
    ran = subject.call(case, module, learn=True)
    inputs = {name for name, one in ran.inputs.items() if isinstance(one, Tensor) and one.is_floating_point()}
    if not ran.output.requires_grad:
        if module is None and not inputs:
            raise DoesNotApply("it learns nothing")
        raise Fails(f"nothing can be learned through it: {CUT_OFF}")
    factors = torch.randn(ran.output.shape, generator=torch.Generator().manual_seed(5))
    _backward((ran.output * factors).sum())
    actual: dict[str, Tensor | None] = {name: ran.inputs[name].grad for name in inputs}
    own = {} if module is None else {name: one.grad for name, one in module.named_parameters()}
    for name, one in own.items():
        if one is None or not one.isfinite().all():
            raise Fails(NO_GRADIENT.format(name) if one is None else f"{name} has a gradient of nan")
    if not contract.steps:
        return Deviation(0.0, f"come to all {len(own)} weights")
    if module is not None:
        actual |= subject.bridge.read({name: one for name, one in own.items() if one is not None})
    differences = dict[str, float]()
    for name, right in _right_gradients(contract, case, factors).items():
        gradient = actual[name]
        if gradient is None:
            raise Fails(NO_GRADIENT.format(name))
        differences[name] = apart(right, gradient)
    worst = max(differences, key=lambda name: differences[name])
    if differences[worst] > TOLERANCE:
        raise Fails(f"the gradient of {worst} is {differences[worst]:.2g} off")
    labels = {name: label for one in contract.weights for name, label in one.labels().items()}
    return Deviation(differences[worst], f"of {', '.join(labels.get(name, name) for name in differences)}")


def _right_gradients(contract: Contract, case: Case, factors: Tensor) -> dict[str, Tensor]:
    """Return the reference's gradients by the names of inputs and weights; unused tensors are omitted."""
    copied = with_inputs(case, lambda name, one: one.clone().requires_grad_() if one.is_floating_point() else one)
    weights = {name: None if one is None else one.clone().requires_grad_() for name, one in case.weights.items()}
    _backward((contract.expected(replace(copied, weights=weights))["output"] * factors).sum())
    leaves = {**copied.inputs, **weights}
    return {name: one.grad for name, one in leaves.items() if isinstance(one, Tensor) and one.grad is not None}


def _backward(loss: Tensor) -> None:
    try:
        torch.autograd.backward(loss)
    except RuntimeError as error:  # a tensor was changed in place
        raise Fails(f"the way back fails: {first_line(error)[:160]}") from error


def overfits(subject: Subject) -> Deviation:
    """Fit a class for each of a few tokens by training the brick alone; the map from outputs to classes is fixed."""
    tokens = subject.contract.learns
    if not tokens or subject.contract.is_function:
        raise DoesNotApply("it has too few weights, or none")
    case = subject.plain_cases()[0]
    rows = 1 if tokens < case.inputs["x"].shape[1] else len(case.inputs["x"])
    case = cut(case, slice(rows), slice(tokens))
    module = subject.with_weights(case.options, spread=FIRST_SPREAD).train()
    weights = [weight for weight in module.parameters() if weight.requires_grad]
    if not weights:
        raise DoesNotApply("it has no weights")
    optimiser = torch.optim.Adam(weights, lr=LEARNING_RATE)
    drawn, losses = torch.Generator().manual_seed(7), list[float]()
    width = subject.contract.shape(case)[-1]
    read_off = torch.randn(width, 3, generator=drawn) * 4 / math.sqrt(width)
    answers = torch.randint(3, (rows * tokens,), generator=drawn)
    for _ in range(MAX_UPDATES):
        with torch.enable_grad():
            out = subject.call(case, module, learn=True).output
            loss = F.cross_entropy((out @ read_off).flatten(0, -2), answers)
        losses.append(loss.item())
        if losses[-1] < OVERFITTED_LOSS:
            return Deviation(0.0, f"loss {losses[0]:.3g} → {losses[-1]:.2g} in {len(losses) - 1} updates")
        optimiser.zero_grad()
        _backward(loss)
        optimiser.step()
    raise Fails(f"after {MAX_UPDATES} updates on one batch the loss is {losses[-1]:.3g} (at first {losses[0]:.3g})")


ROWS: dict[str, Callable[[Subject], Deviation]] = {
    "gradients": gradients,
    "causality": causality,
    "padded = unpadded": padding,
    "permutation": permutation,
    "batch rows": batch_rows,
    "input unchanged": in_place,
    "same twice": deterministic,
    "cached = uncached": cached,
    "overfits one batch": overfits,
}
"""Checks that run after `shapes` and `forward`, by name."""
