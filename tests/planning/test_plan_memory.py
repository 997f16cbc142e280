"""What a plan says a step holds, beside what torch records of the real loop."""

from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from glassformer.config.encoders import ENCODERS
from glassformer.config.model_section import RECURRENT
from glassformer.config.resolve import flatten
from glassformer.models.build import parameter_count
from glassformer.planning import training_step
from glassformer.planning.setup import PlannedTraining, from_data
from glassformer.planning.training_step import (
    Step,
    StepDevice,
    StepMemory,
    TensorMeter,
    layered_step_memory,
    measure_step_memory,
    step_memory,
)
from helpers.profiled import most_of_training
from helpers.running import CAUSAL

CPU = torch.device("cpu")
HERE = StepDevice(CPU, "fp32")
TEXTS, PAIRS, WRITING = "opinions:rows=80", "reverse-pairs:rows=200", "reverse:rows=300"


def planned_of(data: str, **settings: Any) -> PlannedTraining:
    flags = {key.replace("__", "."): value for key, value in settings.items()}
    return from_data(flatten({"data.path": data, **flags}), None, gpus=None)


def said(planned: PlannedTraining, where: StepDevice = HERE) -> StepMemory:
    model, training = planned.config.model, planned.config.training
    recurrent = any(name in RECURRENT for name in (model.encoder, model.decoder))
    rows = -(-planned.batch // training.accumulation_steps)
    find = measure_step_memory if recurrent else step_memory
    build = partial(planned.build, planned.config)
    return find(Step(build, planned.task, planned.rows(rows), training, where, training.accumulation_steps))


def agrees(planned: PlannedTraining, within: float = 0.2) -> None:
    """Everything but the weights, which are there before."""
    found = said(planned)
    task, config = planned.task, planned.config
    batch = max((task.batch(k) for k in range(64)), key=lambda one: sum(t.numel() for t in one.tensors(CPU)))
    real = most_of_training(planned.model(), task, batch, config.training)
    assert found.peak - found.weights - found.average == pytest.approx(real, rel=within)
    assert found.kept > 2 * found.weights, "too small a batch: the weights would hide what activations take"


@pytest.mark.sample(3)
@pytest.mark.parametrize("encoder", CAUSAL)
def test_a_language_model(encoder: str) -> None:
    layers = {} if encoder == "average" else {"model__layers": 1}
    agrees(planned_of(WRITING, model=encoder, model__width=32, model__context=64, batch_size=16, **layers))


@pytest.mark.parametrize("encoder", ["transformer:bert", "lstm"])
def test_a_masked_model(encoder: str) -> None:
    sizes = {"model__width": 32, "model__layers": 1, "model__context": 64, "batch_size": 16}
    agrees(planned_of(WRITING, task="masked-language-model", model=encoder, **sizes))


@pytest.mark.sample(3)
@pytest.mark.parametrize("encoder", [name for name, info in ENCODERS.items() if "text" in info.reads and name != "bag"])
def test_a_reader_of_texts(encoder: str) -> None:
    agrees(planned_of(TEXTS, model=encoder, model__width=24, batch_size=64))


def test_a_bag_of_words() -> None:
    """Its weights are nearly all there is."""
    planned = planned_of(TEXTS, model="bag:bigrams", batch_size=64)
    found = said(planned)
    real = most_of_training(planned.model(), planned.task, planned.task.batch(0), planned.config.training)
    assert found.peak - found.weights == pytest.approx(real, rel=0.2)


@pytest.mark.slow
@pytest.mark.parametrize("encoder", ["transformer", "lstm", "cnn"])
def test_a_translator(encoder: str) -> None:
    agrees(planned_of(PAIRS, model=encoder, model__width=24, batch_tokens=2000))


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("data", "encoder"), [("digits", "transformer"), ("digits", "cnn"), ("digits", "mlp"), ("iris", "transformer")]
)
def test_images_and_tables(data: str, encoder: str) -> None:
    agrees(planned_of(data, model=encoder, batch_size=128, **({"model__width": 16} if encoder != "mlp" else {})))


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [
        {"training__accumulation_steps": 4},
        {"optimizer": "adamw", "training__average": 10, "training__l2": 0.1, "training__grad_clip": None},
        {"optimizer": "sgd", "model__style": "gpt2", "dropout": 0.1},
        {"optimizer": "momentum", "training__precision": "bf16"},
        {"model__norm": "batch", "model__kv_heads": 2},
    ],
    ids=str,
)
def test_ways_to_train(settings: dict[str, Any]) -> None:
    planned = planned_of(WRITING, model__width=32, model__layers=1, model__context=64, batch_size=16, **settings)
    found = said(planned, StepDevice(CPU, "bf16") if "training__precision" in settings else HERE)
    batch = planned.task.batch(0)
    real = most_of_training(planned.model(), planned.task, batch, planned.config.training)
    assert found.peak - found.weights - found.average == pytest.approx(real, rel=0.2)


@pytest.mark.parametrize(("optimiser", "numbers"), [("sgd", 0), ("momentum", 1), ("adamw", 2), ("muon", None)])
def test_what_each_optimiser_remembers(optimiser: str, numbers: int | None) -> None:
    planned = planned_of(WRITING, model__width=32, model__layers=1, optimizer=optimiser, training__average=5)
    model = planned.build(planned.config)
    found = said(planned)
    size = 4 * parameter_count(model)
    assert (found.gradients, found.average) == (size, size)
    matrices = sum(
        weight.numel() for name, weight in model.named_parameters() if weight.dim() == 2 and "table" not in name
    )
    expected = numbers * size if numbers is not None else 2 * size - 4 * matrices
    assert 0 <= found.optimiser - expected <= 4 * len(list(model.parameters()))  # Adam counts its steps


def test_twice_the_pieces_take_half_the_activations() -> None:
    whole, halves = (
        said(planned_of(WRITING, model__width=32, model__layers=1, batch_size=16, training__accumulation_steps=count))
        for count in (1, 2)
    )
    assert halves.kept == pytest.approx(whole.kept / 2, rel=0.05)  # what is kept of weights and positions stays
    assert halves.gradients == whole.gradients


def test_real_steps_on_some_examples_stand_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Proportion and measurement say the same."""
    planned = planned_of(WRITING, model="gru", model__width=32, model__context=32, batch_size=64)
    few = said(planned)
    monkeypatch.setattr(training_step, "FEW_EXAMPLES", 32)
    whole = said(planned)
    assert whole.batch == few.batch
    assert few.peak == pytest.approx(whole.peak, rel=0.1)


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [
        {"model__context": 64, "batch_size": 16},  # activations are most of it: a pass is fullest between the two
        {"model__context": 16, "batch_size": 4, "training__accumulation_steps": 2},  # gradients are: it is at the end
        {"model__style": "gpt2", "optimizer": "adamw", "training__average": 10},
    ],
    ids=str,
)
def test_a_few_layers_stand_for_many(settings: dict[str, Any]) -> None:
    planned = planned_of(WRITING, model__width=32, model__layers=7, **settings)
    training = planned.config.training
    pieces = training.accumulation_steps
    for where in (HERE, StepDevice(torch.device("cuda"), "bf16", stand_in=True)):

        def step(layers: int, where: StepDevice = where) -> Step:
            build = partial(planned.build, planned.with_blocks(layers))
            return Step(build, planned.task, planned.rows(planned.batch // pieces), training, where, pieces)

        assert layered_step_memory(step, 7) == step_memory(step(7))


# --- counting ---


def test_held_counts_shared_memory_once_and_notices_what_goes() -> None:
    there = torch.zeros(7, 5)
    with TensorMeter() as held:
        held.add([there])
        assert held.now == 140
        view = there.T[:3]
        assert held.now == 140
        made = torch.ones(11)
        assert held.now == 140 + 44
        held.begin("later")
        del made
        assert (held.now, held.peaks["later"]) == (140, 184)
        del there
        assert held.now == 140, "a view still looks at it"
        del view
    assert held.now == 0


def test_no_number_is_computed_and_no_random_number_drawn() -> None:
    state = torch.get_rng_state()
    build = partial(planned_of, WRITING, model__width=32)
    planned = build()

    class Large(nn.Module):
        """More than any machine holds."""

        def __init__(self) -> None:
            super().__init__()
            self.inner = planned.build(planned.config)
            self.more = nn.Parameter(torch.empty(2**40))

    class Asking:
        def loss(self, model: nn.Module, *tensors: Tensor) -> Tensor:
            assert isinstance(model, Large)
            return planned.task.loss(model.inner, *tensors) + model.more.sum()

    training = planned.config.training
    found = step_memory(Step(Large, Asking(), planned.rows(4), training, HERE))  # type: ignore[arg-type]
    assert found.weights > 4 * 2**40
    assert torch.equal(state, torch.get_rng_state())
