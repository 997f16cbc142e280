"""A step of a training: where its gradients begin, when it gives up, and what it leaves."""

import gc
import weakref
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor

from glassformer.config.errors import TrainingFailed
from glassformer.training.context import TrainerOptions
from glassformer.training.loop import Trainer
from glassformer.training.step import TrainingStep
from helpers.fitting import Fit, Memory, Training, linear
from helpers.settings import training_settings


def step_of() -> TrainingStep:
    return Training(linear(), Fit(), steps=9).trainer.step


def test_gradients_of_a_replayed_step_are_not_added_to() -> None:
    """As on a GPU: a recording has its gradients in place; the next step, of another shape, is run as it is."""
    step, plain = step_of(), step_of()

    def leave_gradients() -> None:
        for weight in step.weights:
            weight.grad = torch.full_like(weight, 100.0)

    replayed = SimpleNamespace(
        find_loss=lambda tensors, weight: torch.zeros(()),
        make_gradients=leave_gradients,
        update=SimpleNamespace(replay=lambda: None),
    )
    recordings = iter([replayed, None])
    step.recorder = SimpleNamespace(find=lambda tensors: next(recordings))  # type: ignore[assignment]
    step.make_gradients()
    step.update(1.0)
    step.make_gradients()
    plain.make_gradients()
    for weight, wanted in zip(step.weights, plain.weights, strict=True):
        assert weight.grad is not None
        assert wanted.grad is not None
        assert torch.equal(weight.grad, wanted.grad)


def test_a_gradient_that_no_scale_makes_finite() -> None:
    """As in fp16: the scale of the loss is halved, but not for ever."""
    training = Training(linear(), Fit(), steps=60)
    training.trainer.step.scaled = True

    def spoil(gradient: Tensor) -> Tensor:
        return gradient * torch.nan

    training.trainer.context.model.get_parameter("weight").register_hook(spoil)
    with pytest.raises(TrainingFailed, match=r"a gradient is not finite at step 1[78]"):
        training.run()


@pytest.mark.slow
def test_a_training_that_is_over_holds_nothing() -> None:
    """Several in one process, as folds are, would fill a GPU if only the collector of cycles took them away."""
    trainer = Trainer(
        linear(),
        Fit(),
        training_settings(batch_size=12, steps=3),
        TrainerOptions(torch.device("cpu"), checkpointer=Memory(), listen=[].append),
    )
    trainer.run()
    gc.collect()
    gc.disable()
    try:
        gone = weakref.ref(trainer)
        del trainer
        assert gone() is None
    finally:
        gc.enable()
