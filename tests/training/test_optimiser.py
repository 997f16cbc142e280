"""Updates against their formulas, and who is decayed."""

import copy
import subprocess
import sys
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from glassformer.config.model_section import POSITIONS
from glassformer.config.resolve import resolve
from glassformer.models.build import build_language_model, build_predictor
from glassformer.training.optimiser import Optimiser, decayed
from glassformer.training.update_rules import Muon
from helpers.fitting import Fit, linear, trained
from helpers.running import CAUSAL, labelled, tiny
from helpers.settings import training_settings
from helpers.support import numbers, randomise, same

OPTIMISERS = ("muon", "adamw", "momentum", "sgd")


def gradients_at(step: int, model: nn.Module) -> dict[str, Tensor]:
    weights = model.named_parameters()
    return {n: numbers(*w.shape, seed=31 * step + k, dtype=w.dtype) for k, (n, w) in enumerate(weights)}


def give(model: nn.Module, gradients: dict[str, Tensor]) -> None:
    for name, weight in model.named_parameters():
        weight.grad = gradients[name].clone()


def copied(model: nn.Module) -> dict[str, Tensor]:
    return {name: weight.detach().clone() for name, weight in model.named_parameters()}


@pytest.mark.parametrize("decay", [0.0, 0.3])
@pytest.mark.parametrize(("name", "momentum"), [("sgd", 0.0), ("momentum", 0.8)])
def test_gradient_descent_written_out(name: str, momentum: float, decay: float) -> None:
    """m ← μ m + g;  w ← (1 − ηλ) w − η m, the decay for the matrix alone."""
    model = linear().double()
    optimiser = Optimiser(model, training_settings(optimizer=name, lr=0.2, momentum=0.8, weight_decay=decay))
    expected, memory = copied(model), {key: torch.zeros_like(value) for key, value in copied(model).items()}
    for step, factor in enumerate([1.0, 0.5, 0.25, 2.0]):
        gradients = gradients_at(step, model)
        give(model, gradients)
        optimiser.step(factor)
        for key, gradient in gradients.items():
            memory[key] = momentum * memory[key] + gradient
            kept = 1 - 0.2 * factor * decay if key == "weight" else 1.0
            expected[key] = kept * expected[key] - 0.2 * factor * memory[key]
            same(model.get_parameter(key), expected[key])


def test_adamw_written_out() -> None:
    """m and v are running averages of g and g², freed of their bias; w ← (1 − ηλ) w − η m̂ / (√v̂ + ε)."""
    model = linear().double()
    b1, b2, lr, decay = 0.7, 0.9, 0.05, 0.6
    settings = training_settings(optimizer="adamw", lr=lr, beta1=b1, beta2=b2, weight_decay=decay)
    optimiser = Optimiser(model, settings)
    expected = copied(model)
    m = {key: torch.zeros_like(value) for key, value in expected.items()}
    v = {key: torch.zeros_like(value) for key, value in expected.items()}
    for step in range(1, 5):
        gradients = gradients_at(step, model)
        give(model, gradients)
        optimiser.step(1.0)
        for key, gradient in gradients.items():
            m[key] = b1 * m[key] + (1 - b1) * gradient
            v[key] = b2 * v[key] + (1 - b2) * gradient**2
            update = (m[key] / (1 - b1**step)) / ((v[key] / (1 - b2**step)).sqrt() + 1e-8)
            kept = 1 - lr * decay if key == "weight" else 1.0
            expected[key] = kept * expected[key] - lr * update
            same(model.get_parameter(key), expected[key])


def adamw(model: nn.Module) -> torch.optim.Optimizer:
    matrices = list(decayed(model).values())
    rest = [weight for weight in model.parameters() if all(weight is not matrix for matrix in matrices)]
    groups = [{"params": matrices, "weight_decay": 0.5}, {"params": rest, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=0.01, betas=(0.9, 0.99), fused=True)


TORCHS: dict[str, Callable[[nn.Module], torch.optim.Optimizer]] = {
    "adamw": adamw,
    "sgd": lambda model: torch.optim.SGD(model.parameters(), lr=0.01),
    "momentum": lambda model: torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9),
}


@pytest.mark.parametrize("optimizer", TORCHS)
def test_updates_are_those_of_torch_bit_for_bit(optimizer: str) -> None:
    """And so is what is remembered: a run that torch's own began can go on."""
    model = build_language_model(resolve({}, tiny("lstm")).model, vocab=13)
    other = copy.deepcopy(model)
    decay = 0.5 if optimizer == "adamw" else 0.0
    ours = Optimiser(model, training_settings(optimizer=optimizer, lr=0.01, momentum=0.9, weight_decay=decay))
    theirs = TORCHS[optimizer](other)
    for step in range(5):
        give(model, gradients_at(step, model))
        give(other, gradients_at(step, other))
        ours.step(1.0)
        theirs.step()
    for name, weight in model.named_parameters():
        assert torch.equal(weight, other.get_parameter(name))
    memory = {
        f"{name}/{key}": value
        for name, weight in other.named_parameters()
        for key, value in theirs.state[weight].items()
        if value is not None
    }
    state = ours.state()
    assert state.keys() == memory.keys()
    assert all(torch.equal(state[key], value) and state[key].dtype == value.dtype for key, value in memory.items())


@pytest.mark.slow
def test_an_update_does_without_the_compiler() -> None:
    """Importing it takes longer than a small training."""
    code = """
import sys, torch
from glassformer.config.sections import TrainingSettings
from glassformer.training.optimiser import Optimiser
for name in ("adamw", "muon", "momentum"):
    model = torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.Linear(5, 2))
    optimiser = Optimiser(model, TrainingSettings.complete({"optimizer": name, "lr": 0.1}))
    model(torch.ones(2, 3)).sum().backward()
    optimiser.step(1.0)
    optimiser.zero()
print("torch._dynamo" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_muon_is_for_matrices_and_adamw_for_the_rest() -> None:
    model = build_language_model(resolve({}, tiny(model__tied=False)).model, vocab=13)
    optimiser = Optimiser(model, training_settings(optimizer="muon"))
    by_muon = [w for part in optimiser.parts if isinstance(part, Muon) for group in part.groups for w in group.weights]
    names = {optimiser.names[id(weight)] for weight in by_muon}
    blocks = {name for name, weight in model.encoder.blocks.named_parameters() if weight.dim() == 2}
    assert names == {f"encoder.blocks.{name}" for name in blocks}
    held = [id(weight) for part in optimiser.parts for group in part.groups for weight in group.weights]
    assert sorted(held) == sorted(map(id, model.parameters()))  # each by exactly one


@pytest.mark.parametrize("optimizer", ["muon", "adamw"])
def test_the_rate_can_be_a_tensor(optimizer: str) -> None:
    """One that is filled anew before each step, as a CUDA graph needs it."""
    model = randomise(build_language_model(resolve({}, tiny()).model, vocab=13))
    twin = copy.deepcopy(model)
    settings = training_settings(optimizer=optimizer, lr=0.03, weight_decay=0.2)
    one, other = Optimiser(model, settings), Optimiser(twin, settings)
    for group in other.groups:
        group.lr = torch.zeros(())
    for step, value in enumerate((1.0, 0.5, 0.25)):
        give(model, gradients_at(step, model))
        give(twin, gradients_at(step, twin))
        one.step(value)
        other.step(value)
    for name, weight in model.named_parameters():
        same(weight, twin.get_parameter(name), 1e-6)


# --- decay ---


def matrices_of(model: nn.Module) -> set[str]:
    """Told by the kind of module, not by shapes: linear maps, convolutions, and what a recurrent layer multiplies."""
    tables = {id(module.weight) for module in model.modules() if isinstance(module, nn.Embedding)}
    found = set()
    for prefix, module in model.named_modules():
        names: list[str] = []
        if isinstance(module, (nn.Linear, nn.Conv1d)):
            names = ["weight"]
        elif isinstance(module, nn.RNNBase):
            names = [name for name, _ in module.named_parameters() if name.startswith("weight_")]
        found |= {f"{prefix}.{name}" for name in names if id(getattr(module, name)) not in tables}
    return found


VARIANTS = [
    *(tiny(encoder) for encoder in CAUSAL),
    *(tiny(encoder, model__tied=False) for encoder in CAUSAL),
    *(tiny(model__style=style) for style in ("classic", "gpt2", "llama")),
    *(tiny(model__positions=positions) for positions in POSITIONS),
    tiny("lstm", model__cells=9),
    tiny("lstm", model__embed="onehot"),
    tiny("cnn", model__norm="batch"),
]


@pytest.mark.parametrize("optimizer", OPTIMISERS)
@pytest.mark.parametrize("settings", VARIANTS, ids=lambda s: "-".join(map(str, list(s.values())[:1])))
def test_only_matrices_are_decayed(settings: dict[str, object], optimizer: str) -> None:
    """With no gradient, what decay touches is all that changes; by the factor 1 − ηλ, whatever the optimiser."""
    model = randomise(build_language_model(resolve({}, settings).model, vocab=13))
    optimiser = Optimiser(model, training_settings(optimizer=optimizer, lr=0.1, weight_decay=0.5))
    before = copied(model)
    for weight in model.parameters():
        weight.grad = torch.zeros_like(weight)
    optimiser.step(1.0)
    changed = {name for name, weight in model.named_parameters() if not torch.equal(weight, before[name])}
    assert changed == matrices_of(model)
    for name in changed:
        same(model.get_parameter(name), before[name] * (1 - 0.1 * 0.5), 1e-6)


@pytest.mark.parametrize("optimizer", OPTIMISERS)
@pytest.mark.parametrize("flags", [{}, {"model.head_layers": 1}], ids=str)
def test_a_bags_table_is_a_matrix_and_decayed(flags: dict[str, object], optimizer: str) -> None:
    """Its rows are what a word adds to the scores: weights of a linear map, not vectors of words."""
    config = resolve({}, {"model": "bag", "task": "classification", **flags})
    model = randomise(build_predictor(config.model, vocab=13, outputs=3))
    optimiser = Optimiser(model, training_settings(optimizer=optimizer, lr=0.1, weight_decay=0.5))
    before = copied(model)
    for weight in model.parameters():
        weight.grad = torch.zeros_like(weight)
    optimiser.step(1.0)
    changed = {name for name, weight in model.named_parameters() if not torch.equal(weight, before[name])}
    assert changed == {"bag.table.weight", *matrices_of(model)}
    assert len(changed) == 1 + len(flags)


@pytest.mark.parametrize("encoder", [name for name in CAUSAL if name != "average"])
def test_muon_in_a_reader(encoder: str) -> None:
    """The encoder's matrices by Muon; word vectors, the bag's table and the head by AdamW."""
    config = resolve({}, {**labelled(encoder), "task": "classification", "model.head_layers": 1})
    assert "encoder." in " ".join(by_muon(build_predictor(config.model, vocab=13, outputs=3)))
    names = by_muon(build_predictor(config.model, vocab=13, outputs=3))
    assert all(name.startswith("encoder.") for name in names)
    config = resolve({}, {"model": "bag", "task": "classification", "model.head_layers": 2})
    assert not by_muon(build_predictor(config.model, vocab=13, outputs=3))


def by_muon(model: nn.Module) -> set[str]:
    optimiser = Optimiser(model, training_settings(optimizer="muon"))
    held = [id(weight) for part in optimiser.parts for group in part.groups for weight in group.weights]
    assert sorted(held) == sorted(map(id, model.parameters()))  # each by exactly one
    parts = [part for part in optimiser.parts if isinstance(part, Muon)]
    return {optimiser.names[id(weight)] for part in parts for group in part.groups for weight in group.weights}


def test_frozen_vectors_are_left_alone() -> None:
    config = resolve({}, {**labelled("lstm"), "task": "classification", "model.vectors_frozen": True})
    model = build_predictor(config.model, vocab=13, outputs=3)
    for name in OPTIMISERS:
        optimiser = Optimiser(model, training_settings(optimizer=name))
        held = {optimiser.names[id(w)] for part in optimiser.parts for group in part.groups for w in group.weights}
        assert held == {name for name, _ in model.named_parameters()} - {"embed.table.weight"}


def test_first_states_are_parameters_and_not_decayed() -> None:
    for encoder in ("rnn", "lstm", "gru"):
        model = build_language_model(resolve({}, tiny(encoder)).model, vocab=13)
        first = [name for name, _ in model.named_parameters() if ".first." in name]
        assert len(first) == (2 if encoder == "lstm" else 1)
        assert not decayed(model).keys() & set(first)


def test_decay_is_decoupled_and_l2_is_not() -> None:
    """Momentum remembers the gradient of l2 · ‖w‖², 2 l2 w; a decoupled decay it never sees. Step by step by hand."""
    task, lr, momentum, strength = Fit(), 0.05, 0.9, 0.4
    for setting in ("weight_decay", "l2"):
        values = {"weight_decay": 0.0, "l2": 0.0, setting: strength}
        start = linear()
        got = trained(copy.deepcopy(start), task, optimizer="momentum", lr=lr, grad_clip=None, steps=6, **values).model
        w, b = start.weight.detach().double(), start.bias.detach().double()
        memory_w, memory_b = torch.zeros_like(w), torch.zeros_like(b)
        for step in range(6):
            batch = task.batch(step)
            judged = ~batch.y.isnan().any(1)
            x, y = batch.x[judged].double(), batch.y[judged].double()
            error = 2 * (x @ w.T + b - y) / batch.count
            by_w, by_b = error.T @ x, error.sum(0)
            if setting == "l2":
                by_w = by_w + 2 * strength * w
            else:
                w = w * (1 - lr * strength)
            memory_w, memory_b = momentum * memory_w + by_w, momentum * memory_b + by_b
            w, b = w - lr * memory_w, b - lr * memory_b
        same(got.weight, w, 1e-5)
        same(got.bias, b, 1e-5)


# --- memory ---


@pytest.mark.parametrize("optimizer", OPTIMISERS)
def test_state_by_name_brings_another_to_the_same_place(optimizer: str) -> None:
    settings = training_settings(optimizer=optimizer, lr=0.03)
    model = randomise(build_language_model(resolve({}, tiny("lstm")).model, vocab=13))
    one = Optimiser(model, settings)
    for step in range(3):
        give(model, gradients_at(step, model))
        one.step(1.0)
    twin = copy.deepcopy(model)
    other = Optimiser(twin, settings)
    state = {name: value.clone() for name, value in one.state().items()}
    assert all(name.split("/")[0] in dict(model.named_parameters()) for name in state)
    assert bool(state) == (optimizer != "sgd")
    other.load(state)
    for step in range(3, 6):
        for at, optimiser in ((model, one), (twin, other)):
            give(at, gradients_at(step, at))
            optimiser.step(0.7)
    for name, weight in model.named_parameters():
        assert torch.equal(weight, twin.get_parameter(name)), name
    assert other.state().keys() == one.state().keys()
