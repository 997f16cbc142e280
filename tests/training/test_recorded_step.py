"""On a CUDA GPU: a training whose steps are recorded and replayed, beside one whose steps are run as they are."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from glassformer.config.errors import TrainingFailed
from glassformer.config.resolve import resolve
from glassformer.models.build import build_language_model
from glassformer.tasks.language_model import LanguageModelling
from glassformer.training.context import TrainerOptions
from glassformer.training.events import Stepped
from glassformer.training.loop import Trainer
from helpers.fitting import Memory
from helpers.running import tiny

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA GPU here")
VOCAB = 13


def trainer(steps: int = 12, **flags: Any) -> tuple[Trainer, list[float], list[bool]]:
    """On tokens at random, with dropout and an average of the weights; and the losses that it
    will tell, and whether each step was replayed."""
    config = resolve({}, {"model.dropout": 0.2, **tiny(**flags), "steps": steps, "training.average": 5})
    ids = np.random.default_rng(0).integers(4, VOCAB, 4000, dtype=np.uint16)
    part = SimpleNamespace(ids=ids, bytes=len(ids), unknown=0)
    task = LanguageModelling(
        {"train": part, "validation": part}, context=config.model.context, batch_size=config.training.batch_size,
        start=1, seed=0,
    )  # fmt: skip
    model = build_language_model(config.model, vocab=VOCAB)
    losses, replayed = list[float](), list[bool]()

    def listen(event: object) -> None:
        if isinstance(event, Stepped):
            losses.append(event.loss)
            replayed.append(made.step.recording is not None)

    made = Trainer(
        model, task, config.training, TrainerOptions(torch.device("cuda"), checkpointer=Memory(), listen=listen)
    )  # fmt: skip
    return made, losses, replayed


@pytest.mark.parametrize("optimizer", ["muon", "adamw"])
@pytest.mark.parametrize("encoder", ["transformer", "lstm"])
def test_it_trains_as_it_would_without(optimizer: str, encoder: str) -> None:
    dropout = 0.2 if encoder == "transformer" else 0.0  # that of cuDNN's recurrent layers cannot be recorded
    recorded, losses, replayed = trainer(encoder=encoder, training__optimizer=optimizer, model__dropout=dropout)
    plain, wanted, _ = trainer(encoder=encoder, training__optimizer=optimizer, model__dropout=dropout)
    assert recorded.step.recorder is not None
    plain.step.recorder = None
    recorded.run()
    plain.run()
    assert replayed[-1]
    assert losses == pytest.approx(wanted, abs=2e-3)
    assert len(set(losses)) == len(losses)


def test_where_a_step_cannot_be_recorded_it_is_run_as_it_is() -> None:
    made, losses, replayed = trainer(encoder="lstm")
    made.run()
    assert not any(replayed)
    assert len(losses) == 12


def test_what_is_not_finite_is_seen_before_the_weights_are_touched() -> None:
    recorded, _, _ = trainer(steps=40)
    recorded.done = 0.0
    for _ in range(5):
        recorded._step()
    assert recorded.step.recording is not None
    with torch.no_grad():
        recorded.context.model.get_parameter("head.weight").fill_(torch.inf)
    before = {name: weight.detach().clone() for name, weight in recorded.context.model.named_parameters()}
    with pytest.raises(TrainingFailed):
        recorded._step()
    assert all(torch.equal(weight, before[name]) for name, weight in recorded.context.model.named_parameters())


@pytest.mark.parametrize(("settings", "is_recorded"), [({}, True), ({"training.accumulation_steps": 2}, False),
                                                       ({"training.optimizer": "sgd"}, False)])  # fmt: skip
def test_when_steps_are_recorded(settings: dict[str, Any], is_recorded: bool) -> None:
    made, _, _ = trainer(**{name.replace(".", "__"): value for name, value in settings.items()})
    assert (made.step.recorder is not None) == is_recorded
