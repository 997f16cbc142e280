"""Whether a brick can be learned through: its gradients, and one batch that it must overfit."""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.checks.result import Deviation, DoesNotApply
from glassformer.config.errors import first_line
from glassformer.teaching.brick_check.contract import Case
from glassformer.teaching.brick_check.forward import apart
from glassformer.teaching.brick_check.rows import Fails, first_tokens, with_inputs
from glassformer.teaching.brick_check.subject import Subject
from glassformer.teaching.exercise import TOLERANCE
from glassformer.training.update_rules import AdamW

STEPS, RATE, NEAR, FIRST = 100, 0.05, 0.05, 0.2
"""Updates in which one batch must be learned, how far each goes, the loss that is near enough to 0, and how far the
first weights are spread.
"""
CUT_OFF = "is there a detach(), .data, .item() or no_grad() on the way?"


def gradients(subject: Subject) -> Deviation:
    """Of the inputs and of the weights, of the output times random numbers."""
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
    """Where there is no reference: to every weight, and numbers."""
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
    """A class for each of a few tokens, learned through the brick alone: what reads them off is fixed."""
    tokens = subject.contract.learns
    if not tokens or subject.contract.is_function:
        raise DoesNotApply("it has too few weights, or none")
    case = subject.plain_cases()[0]
    rows = 1 if subject.contract.learns < case.inputs["x"].shape[1] else len(case.inputs["x"])
    case = first_tokens(case, slice(rows), slice(tokens))
    module = subject.with_weights(case.options, spread=FIRST).train()
    if not any(weight.requires_grad for weight in module.parameters()):
        raise DoesNotApply("it has no weights")
    drawn = torch.Generator().manual_seed(7)
    losses = list(_losses(subject, module, case, drawn))
    if not math.isfinite(losses[-1]) or losses[-1] > NEAR:
        raise Fails(f"after {STEPS} updates on one batch the loss is {losses[-1]:.3g} (at first {losses[0]:.3g})")
    return Deviation(0.0, f"loss {losses[0]:.3g} → {losses[-1]:.2g} in {len(losses) - 1} updates")


def _losses(subject: Subject, module: nn.Module, case: Case, drawn: torch.Generator) -> Iterator[float]:
    weights = [weight for weight in module.parameters() if weight.requires_grad]
    adam = AdamW([{"params": weights}], lr=RATE, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0)
    read_off: Tensor | None = None
    for _ in range(STEPS + 1):
        with torch.enable_grad():
            out = subject.call(case, module, learn=True, watched=False).output
            if read_off is None:
                read_off = torch.randn(out.shape[-1], 3, generator=drawn) * 4 / math.sqrt(out.shape[-1])
                answers = torch.randint(3, out.shape[:-1], generator=drawn)
            loss = F.cross_entropy((out @ read_off).flatten(0, -2), answers.flatten())
            yield loss.item()
            if loss.item() < NEAR / 2:
                return
            adam.zero_grad()
            _backward(loss)
        adam.step()
