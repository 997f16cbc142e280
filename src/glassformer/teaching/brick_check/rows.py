"""Checks of what must hold for every brick: shapes, gradients, causality, padding and more, a row each."""

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.checks.result import CheckResult, Deviation, DoesNotApply
from glassformer.config.errors import first_line
from glassformer.teaching.brick_check.contract import TOKENS
from glassformer.teaching.brick_check.forward import apart
from glassformer.teaching.brick_check.steps import Case, with_x
from glassformer.teaching.brick_check.subject import Subject
from glassformer.teaching.exercise import TOLERANCE, StudentError
from glassformer.training.update_rules import AdamW


class Fails(Exception):
    """Raised by a check that fails; says why."""


def checked(name: str, check: Callable[[], Deviation]) -> CheckResult:
    """Return the row of a check, which fails if it raises."""
    try:
        found = check()
    except DoesNotApply as why:
        return CheckResult(name, None, TOLERANCE, None, str(why))
    except (Fails, StudentError) as why:
        return CheckResult(name, None, TOLERANCE, False, str(why))
    return CheckResult(name, found.difference, TOLERANCE, found.difference <= TOLERANCE, found.words)


def with_inputs(case: Case, change: Callable[[str, Tensor], Tensor]) -> Case:
    """Return the same call with other tensors."""
    inputs = {name: change(name, one) if isinstance(one, Tensor) else one for name, one in case.inputs.items()}
    return replace(case, inputs=inputs)


def first_tokens(case: Case, rows: slice, tokens: slice) -> Case:
    """Return some rows and tokens of a case whose inputs are B×T×…."""
    batch, length = case.inputs["x"].shape[:2]

    def cut(name: str, tensor: Tensor) -> Tensor:
        if tensor.shape[:2] == (batch, length):
            return tensor[rows, tokens]
        if tensor.shape[0] == length:
            return tensor[tokens]
        return tensor[rows] if tensor.shape[0] == batch else tensor

    return with_inputs(case, cut)


def shapes(subject: Subject) -> Deviation:
    cases = subject.plain_cases()
    if subject.contract.time == 1:
        cases += [first_tokens(cases[0], slice(1), slice(tokens)) for tokens in (1, 3)]
    for case in cases:
        right, given = subject.contract.shape(case), tuple(subject.run(case).output.shape)
        if right != given:
            raise Fails(f"gives {_shape(given)}, not {_shape(right)}")
    return Deviation(0.0, subject.contract.signature)


def causality(subject: Subject) -> Deviation:
    """Change each token; no output before it may move."""
    if not subject.contract.causal:
        raise DoesNotApply(f"{subject.contract.name} may see every token")
    always = subject.contract.causal == "always"
    case = next((one for one in subject.plain_cases() if always or one.options["causal"]), None)
    if case is None:
        raise DoesNotApply("it is not causal, and has no argument `causal`")
    before = subject.run(case).output
    most = 0.0
    for t in range(1, before.shape[1]):
        other = with_x(case, _changed(case.inputs["x"], t))
        after = subject.run(other).output
        moved = (before - after)[:, :t].abs().amax((0, 2))
        if moved.isnan().any() or float(moved.max()) > TOLERANCE:
            first = int((~(moved <= TOLERANCE)).nonzero()[0])
            raise Fails(f"changing token {t} moves output {first} by {float(moved[first]):.3g}: it sees the future")
        most = max(most, float(moved.max()))
    return Deviation(most, f"tokens 1 to {before.shape[1] - 1} changed one by one; nothing before them moves")


def _changed(x: Tensor, t: int) -> Tensor:
    other = x.clone()
    other[:, t] += 1.5
    other[:, t, ::2] *= -1
    return other


def padding(subject: Subject) -> Deviation:
    """Compare each row with padding behind it with the row alone."""
    if "mask" not in subject.takes or (subject.contract.is_function and "x" not in subject.contract.arguments):
        raise DoesNotApply("it takes no padding mask")
    most = 0.0
    for case in subject.plain_cases(padded=True):
        real = case.inputs["mask"]
        whole = subject.run(case).output
        for row, length in enumerate(real.sum(1).tolist()):
            alone = _without_padding(case, row, length, subject.contract.masked)
            out = subject.run(replace(alone, inputs={**alone.inputs, "mask": None})).output[0]
            cut = whole.dim() == 3 and subject.contract.masked == "x"
            padded = whole[row, :length] if cut else whole[row]
            if (far := apart(out, padded)) > TOLERANCE:
                raise Fails(
                    f"row {row} with {real.shape[1] - length} paddings behind it is {_far(far)} what it is alone"
                )
            most = max(most, far)
    form = "" if subject.mask_form == "B×T" else f"; its mask is {subject.mask_form}, and a model gives B×T"
    return Deviation(most, f"rows of {', '.join(map(str, real.sum(1).tolist()))} tokens together and alone{form}")


def _without_padding(case: Case, row: int, length: int, masked: str) -> Case:
    """Return one row of a case, its masked input cut to the real tokens."""
    if masked == "x":
        return first_tokens(case, slice(row, row + 1), slice(length))
    tokens = {masked: slice(length)}
    return with_inputs(case, lambda name, one: one[row : row + 1, tokens.get(name, slice(None))])


def permutation(subject: Subject) -> Deviation:
    contract = subject.contract
    if not contract.permutes:
        raise DoesNotApply("order matters to it" if contract.time is not None else "there are no tokens")
    case = next((one for one in subject.plain_cases() if not one.options.get("causal")), None)
    if case is None:
        raise DoesNotApply("it is causal: order matters to it")
    assert contract.time is not None
    length = case.inputs[contract.permuted[0]].shape[contract.time]
    order = torch.randperm(length, generator=torch.Generator().manual_seed(3))
    axis, permuted = contract.time, contract.permuted
    moved = with_inputs(case, lambda name, one: one.index_select(axis, order) if name in permuted else one)
    before, after = subject.run(case).output, subject.run(moved).output
    if contract.permutes == "with":
        before = before[:, order]
        return Deviation(apart(before, after), "tokens that change places take their outputs with them")
    return Deviation(apart(before, after), f"{' and '.join(contract.permuted)} change places together: nothing moves")


def batch_rows(subject: Subject) -> Deviation:
    case = subject.plain_cases()[0]
    tensors = [one for one in case.inputs.values() if isinstance(one, Tensor)]
    whole = subject.run(case).output
    rows = tensors[0].shape[0]
    if whole.dim() < 2 or subject.contract.time is None or (subject.contract.is_function and tensors[0].dim() < 3):
        raise DoesNotApply("there is no batch")
    most = 0.0
    for row in range(rows):
        alone = with_inputs(case, partial(_one_row, row, rows))
        if (far := apart(whole[row : row + 1], subject.run(alone).output)) > TOLERANCE:
            raise Fails(f"row {row} is {_far(far)} what it is alone: rows of a batch must not know each other")
        most = max(most, far)
    return Deviation(most, "each row of the batch alone gives the same")


def _one_row(row: int, rows: int, name: str, tensor: Tensor) -> Tensor:
    return tensor[row : row + 1] if tensor.shape[0] == rows else tensor


def in_place(subject: Subject) -> Deviation:
    case = subject.plain_cases()[0]
    ran = subject.run(case)
    for name, one in case.inputs.items():
        if isinstance(one, Tensor) and not torch.equal(one, ran.inputs[name]):
            raise Fails(
                f"it changes {name}, which others still need: is there an operation in place (+=, masked_fill_)?"
            )
    return Deviation(0.0, "what it is given stays as it was")


def deterministic(subject: Subject) -> Deviation:
    case = subject.plain_cases()[0]
    module = None if subject.contract.is_function else subject.with_weights(case.options)
    first, second = subject.call(case, module).output, subject.call(case, module).output
    if not torch.equal(first, second):
        raise Fails(f"the same call gives something else the second time{_left_over(subject, case, second)}")
    return Deviation(0.0, "twice the same call, in eval: bit for bit")


def _left_over(subject: Subject, case: Case, second: Tensor) -> str:
    """Return the reason: a recurrent layer that continues from the state of the call before, or dropout."""
    if subject.contract.group != "recurrent":
        return ": is there dropout that does not ask for self.training?"
    known = next((one for one in subject.cases() if one.what == case.what), case)
    twice = with_inputs(known, lambda name, one: torch.cat([one, one], 1) if name == "x" else one)
    went_on = subject.contract.expected(twice)["output"][:, second.shape[1] :]
    return ": the state is not reset between two batches" if apart(went_on, second) < TOLERANCE else ""


def cached(subject: Subject) -> Deviation:
    """Compare `extend` in several pieces with `forward` on the whole."""
    if subject.contract.name != "encoder":
        raise DoesNotApply("it has no `extend`")
    case = next((one for one in subject.plain_cases() if one.options["causal"]), None)
    if case is None:
        raise DoesNotApply("it is not causal")
    module, x = subject.with_weights(case.options), case.inputs["x"]
    extend, init_state = getattr(module, "extend", None), getattr(module, "init_state", None)
    if extend is None or init_state is None:
        raise DoesNotApply("it has no `extend`")
    whole, most = subject.call(case, module).output, 0.0
    for pieces in ([TOKENS], [1] * TOKENS, [3, 1, 1]):
        with torch.no_grad():
            state = subject.safely(init_state, len(x), TOKENS)
            out = torch.cat([subject.safely(extend, piece, state) for piece in x.split(pieces, 1)], 1)
        if (far := apart(whole, out)) > TOLERANCE:
            raise Fails(f"extend in pieces of {', '.join(map(str, pieces))} is {far:.2g} off forward on the whole")
        most = max(most, far)
    return Deviation(most, "extend in pieces of 5, of 1, of 3, 1, 1 = forward on the whole")


def _far(difference: float) -> str:
    return f"{difference:.2g} off" if math.isfinite(difference) else "no number, unlike"


def _shape(sizes: tuple[int, ...]) -> str:
    return "×".join(map(str, sizes)) or "one number"


MAX_UPDATES, LEARNING_RATE, FIRST_SPREAD = 100, 0.05, 0.2
"""For overfitting one batch; the spread is that of the first weights."""
OVERFITTED_LOSS = 0.05
CUT_OFF = "is there a detach(), .data, .item() or no_grad() on the way?"


def gradients(subject: Subject) -> Deviation:
    """Compare the gradients of inputs and weights, for the output times random numbers."""
    case = subject.cases()[0] if subject.contract.steps else subject.plain_cases()[0]
    module = None if subject.contract.is_function else subject.with_weights(case.options)
    ran = subject.call(case, module, learn=True)
    if not subject.contract.steps:
        return _gradients_come(ran.output, module)
    right = with_inputs(case, lambda name, one: one.clone().requires_grad_() if one.is_floating_point() else one)
    weights = {name: None if one is None else one.clone().requires_grad_() for name, one in case.weights.items()}
    expected = subject.contract.expected(replace(right, weights=weights))["output"]
    loud = torch.randn(expected.shape, generator=torch.Generator().manual_seed(5))
    if not ran.output.requires_grad:
        if module is not None or _floats(right.inputs):
            raise Fails(f"nothing can be learned through it: {CUT_OFF}")
        raise DoesNotApply("it learns nothing")
    _backward((ran.output * loud).sum())
    if expected.requires_grad:
        _backward((expected * loud).sum())
    most, worst = 0.0, ""
    by_name: dict[str, tuple[Tensor | None, Tensor | None]] = {
        name: (one.grad, ran.inputs[name].grad) for name, one in _floats(right.inputs).items()
    }
    if module is not None:
        given = {name: one.grad for name, one in module.named_parameters()}
        for name, one in given.items():
            if one is None:
                raise Fails(f"no gradient comes to {name}: {CUT_OFF}")
        read = subject.bridge.read({name: one for name, one in given.items() if one is not None})
        by_name |= {name: (one.grad, read[name]) for name, one in weights.items() if one is not None}
    for name, (mine, theirs) in by_name.items():
        if mine is not None and theirs is None:
            raise Fails(f"no gradient comes to {name}: {CUT_OFF}")
        if mine is not None and theirs is not None and (far := apart(mine, theirs)) > most:
            most, worst = far, name
    if most > TOLERANCE:
        raise Fails(f"the gradient of {worst} is {most:.2g} off")
    called = {name: words for one in subject.contract.weights for name, words in one.labels().items()}
    return Deviation(most, f"of {', '.join(called.get(name, name) for name in by_name)}")


def _gradients_come(output: Tensor, module: nn.Module | None) -> Deviation:
    """Check without a reference that every weight has a finite gradient."""
    assert module is not None
    if not output.requires_grad:
        raise Fails(f"nothing can be learned through it: {CUT_OFF}")
    _backward(output.square().sum())
    for name, weight in module.named_parameters():
        if weight.grad is None or not weight.grad.isfinite().all():
            raise Fails(
                f"no gradient comes to {name}" if weight.grad is None else f"the gradient of {name} is no number"
            )
    return Deviation(0.0, f"come to all {len(list(module.parameters()))} weights")


def _backward(loss: Tensor) -> None:
    try:
        torch.autograd.backward(loss)
    except RuntimeError as error:  # as torch says of what was changed in place
        raise Fails(f"the way back fails: {first_line(error)[:160]}") from error


def _floats(inputs: Any) -> dict[str, Tensor]:
    return {name: one for name, one in inputs.items() if isinstance(one, Tensor) and one.is_floating_point()}


def overfits(subject: Subject) -> Deviation:
    """Learn a class for each of a few tokens through the brick alone: the map from its outputs to classes is fixed."""
    tokens = subject.contract.learns
    if not tokens or subject.contract.is_function:
        raise DoesNotApply("it has too few weights, or none")
    case = subject.plain_cases()[0]
    rows = 1 if subject.contract.learns < case.inputs["x"].shape[1] else len(case.inputs["x"])
    case = first_tokens(case, slice(rows), slice(tokens))
    module = subject.with_weights(case.options, spread=FIRST_SPREAD).train()
    if not any(weight.requires_grad for weight in module.parameters()):
        raise DoesNotApply("it has no weights")
    drawn = torch.Generator().manual_seed(7)
    losses = list(_losses(subject, module, case, drawn))
    if not math.isfinite(losses[-1]) or losses[-1] > OVERFITTED_LOSS:
        raise Fails(f"after {MAX_UPDATES} updates on one batch the loss is {losses[-1]:.3g} (at first {losses[0]:.3g})")
    return Deviation(0.0, f"loss {losses[0]:.3g} → {losses[-1]:.2g} in {len(losses) - 1} updates")


def _losses(subject: Subject, module: nn.Module, case: Case, drawn: torch.Generator) -> Iterator[float]:
    weights = [weight for weight in module.parameters() if weight.requires_grad]
    adam = AdamW([{"params": weights}], lr=LEARNING_RATE, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0)
    read_off: Tensor | None = None
    for _ in range(MAX_UPDATES + 1):
        with torch.enable_grad():
            out = subject.call(case, module, learn=True, watched=False).output
            if read_off is None:
                read_off = torch.randn(out.shape[-1], 3, generator=drawn) * 4 / math.sqrt(out.shape[-1])
                answers = torch.randint(3, out.shape[:-1], generator=drawn)
            loss = F.cross_entropy((out @ read_off).flatten(0, -2), answers.flatten())
            yield loss.item()
            if loss.item() < OVERFITTED_LOSS / 2:
                return
            adam.zero_grad()
            _backward(loss)
        adam.step()


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
"""The checks after `shapes` and `forward`."""
