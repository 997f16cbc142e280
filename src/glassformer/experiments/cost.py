"""Time and memory of a model by text length, and the gradient that reaches a distant token."""

import math
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from glassformer.bricks.losses import vocabulary_loss
from glassformer.config.arrays import Array
from glassformer.config.messages import say
from glassformer.config.model_section import ModelSettings
from glassformer.experiments import growth
from glassformer.experiments.models import count, same_size_models, sizes_of
from glassformer.experiments.request import ScalingRequest
from glassformer.models import counting
from glassformer.models.build import build_language_model
from glassformer.models.modules import LanguageModel, device_of
from glassformer.rendering.panels import Cell, Lines, Table

VOCAB = 96
"""Vocabulary of the random texts, about the number of printable characters."""
MAX_STEP_SECONDS = 0.5
"""Maximum expected seconds of the next step, with the default --minutes; longer texts are skipped."""
FURTHEST = 256
"""Length of the texts for measuring gradients, in tokens."""
BYTES = 4
"""Bytes per number."""
REPEATS, MAX_REPEATS, ENOUGH_SECONDS = 3, 15, 0.05
"""Minimum and maximum number of repeats. After ENOUGH_SECONDS, no repeats beyond the minimum are made."""
LONG_TEXT = 2**40
"""Length in tokens at which only the highest power of T matters."""
SERIAL: dict[str, Callable[[ModelSettings, int], Any]] = {
    "serial_steps": counting.serial_steps,
    "serial_additions": counting.serial_additions,
    "path_length": counting.path_length,
}
"""Functions that count quantities without a chart; a path length of None means that there is no path."""
COUNTED = (
    "model", "weights", "serial steps", "serial additions", "serial steps grow as", "path from first to last",
    "reaches back",
)  # fmt: skip
TEXTS = 16
"""Number of random texts over which a gradient is averaged."""


@dataclass(frozen=True)
class Cost:
    """Cost of a model for a text of T tokens: median seconds, and bytes."""

    forward: float
    """Forward pass over the text."""
    step: float
    """Loss and gradients, without the update, which does not depend on T."""
    token: float
    """One more token after the text, with the state of the text."""
    kept: int
    """Bytes that the forward pass keeps for the gradients; on a CUDA GPU, the peak of a step."""

    def in_units(self) -> dict[str, float]:
        """Return the costs in milliseconds and megabytes, the units of the charts."""
        return {name: value / 1e6 if name == "kept" else 1e3 * value for name, value in vars(self).items()}


# --- time and memory ---


def time_part(plan: ScalingRequest, device: torch.device) -> growth.Section:
    """Measure time and memory by length, and count the same quantities by formula."""
    longest = plan.lengths[-1]
    models = same_size_models(plan.models, width=plan.width, layers=plan.layers, vocab=VOCAB, context=longest)
    curves: dict[str, dict[str, growth.Curve]] = {what: {} for what in growth.MEASURED}
    orders, stopped, rows = {}, {}, list[list[Cell]]()
    for name, settings in models.items():
        weights = count(settings, VOCAB)
        say(f"{name}: {weights:,} weights, width {settings.width}, {settings.layers} layers")
        costs, why = _costs_by_length(name, settings, plan, device)
        if why is not None:
            stopped[name] = why
        measured = {length: cost.in_units() for length, cost in costs.items()}
        formulas = {length: _by_formula(settings, length) for length in plan.lengths}  # counting takes no time
        for what, quantity in growth.MEASURED.items():
            values = formulas if quantity.counted else measured
            curves[what][name] = growth.Curve(list(map(float, values)), [value[what] for value in values.values()])
        orders[name] = _orders(settings)
        steps, additions, path = (number(settings, longest) for number in SERIAL.values())
        back = growth.reach_text(counting.reach(settings))
        rows.append(
            [growth.NAMES[name], weights, steps, additions, counting.serial_order(settings), path or "none", back]
        )
    note = growth.sentence("note counted")
    counted = Table(title=f"Counted, at T = {longest:,}", columns=COUNTED, rows=rows, note=note)
    numbers = {
        "models": sizes_of(models),
        **{what: growth.plain(of_models) for what, of_models in curves.items()},
        **{
            what: {
                name: {"x": list(plan.lengths), "y": [number(settings, length) for length in plan.lengths]}
                for name, settings in models.items()
            }
            for what, number in SERIAL.items()
        },
    }
    return replace(growth.time_section(curves, orders, counted, stopped), numbers=numbers)


def _costs_by_length(
    name: str, settings: ModelSettings, plan: ScalingRequest, device: torch.device
) -> tuple[dict[int, Cost], str | None]:
    """Return the cost by length, and the reason why longer texts were skipped (None if all were measured)."""
    model = build_language_model(settings, vocab=VOCAB, seed=plan.seed).to(device)
    costs: dict[int, Cost] = {}
    for length in plan.lengths:
        try:
            cost = measure(model, length, vocab=VOCAB, seed=plan.seed)
        except torch.OutOfMemoryError:
            if not costs:
                raise
            return costs, f"stopped after T = {max(costs):,}: the memory is too small for {length:,}"
        say(f"{name}, T = {length:,}: forward {1e3 * cost.forward:.1f} ms, with gradients {1e3 * cost.step:.1f} ms")
        costs[length] = cost
        longer = [other for other in plan.lengths if other > length]
        if longer and cost.step * longer[0] / length > plan.of_time(MAX_STEP_SECONDS):
            return costs, f"stopped after T = {length:,}, where a step took {cost.step:.2f} s (--minutes)"
    return costs, None


def _by_formula(settings: ModelSettings, length: int) -> dict[str, float]:
    """Return the quantities that formulas count, at one length."""
    return {
        "state": counting.state_numbers(settings, length) * BYTES / 1e3,
        "multiplications": counting.multiplications(settings, vocab=VOCAB, tokens=length) / 1e6,
        "serial": counting.serial_steps(settings, length) + counting.serial_additions(settings, length),
    }


def _orders(settings: ModelSettings) -> dict[str, int]:
    """Return the power of T with which each quantity grows for long texts, by the formulas."""

    def products(tokens: int) -> int:
        return counting.multiplications(settings, vocab=VOCAB, tokens=tokens)

    whole = _order(products)
    return {
        "multiplications": whole,
        "forward": whole,
        "step": whole,
        "token": _order(lambda tokens: products(tokens + 1) - products(tokens)),
        "kept": 1,
        "state": _order(lambda tokens: counting.state_numbers(settings, tokens)),
        "serial": _order(lambda tokens: counting.serial_steps(settings, tokens)),
    }


def _order(number: Callable[[int], int]) -> int:
    """Return the exponent p of growth as T^p, for very long texts."""
    return round(math.log2(number(2 * LONG_TEXT) / number(LONG_TEXT)))


def measure(model: LanguageModel, tokens: int, *, vocab: int, seed: int) -> Cost:
    """Measure the cost of one text of random tokens; the first call of each kind is a warm-up."""
    device = device_of(model)
    ids = torch.randint(vocab, (1, tokens + 1), generator=torch.Generator().manual_seed(seed)).to(device)
    inputs, following = ids[:, :-1], ids[:, 1:]

    def loss() -> Tensor:
        features = model.features(inputs)
        return vocabulary_loss(features.flatten(0, 1), model.head.weight, following.flatten(), bias=model.head.bias)

    def step() -> None:
        model.zero_grad(set_to_none=True)
        loss().backward()  # type: ignore[no-untyped-call]

    model.eval()
    with torch.inference_mode():
        forward = _median(lambda: model(inputs), device)
        state = model.init_state(1, tokens + MAX_REPEATS + 1)
        model.extend(inputs, state)
        token = _median(lambda: model.head(model.extend(following[:, -1:], state)), device)
    model.train()
    taken = _median(step, device)
    kept = _most_held(step, device) if device.type == "cuda" else kept_bytes(model, loss)
    model.zero_grad(set_to_none=True)
    return Cost(forward, taken, token, kept)


def kept_bytes(model: LanguageModel, loss: Callable[[], Tensor]) -> int:
    """Return the bytes saved for the backward pass, without weights; shared memory counts once."""
    weights = {weight.untyped_storage().data_ptr() for weight in model.parameters()}
    sizes: dict[int, int] = {}

    def note(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            sizes[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        _loss = loss()  # keeps the saved tensors alive, so that no address is used twice
    return sum(sizes.values())


def _median(act: Callable[[], object], device: torch.device) -> float:
    act()
    taken: list[float] = []
    while len(taken) < REPEATS or (len(taken) < MAX_REPEATS and sum(taken) < ENOUGH_SECONDS):
        _wait(device)
        began = time.perf_counter()
        act()
        _wait(device)
        taken.append(time.perf_counter() - began)
    return statistics.median(taken)


def _most_held(act: Callable[[], object], device: torch.device) -> int:
    before = torch.cuda.memory_allocated(device)
    torch.cuda.reset_peak_memory_stats(device)
    act()
    return torch.cuda.max_memory_allocated(device) - before


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif device.type == "mps":
        torch.mps.synchronize()


# --- gradients ---


def gradient_part(plan: ScalingRequest, device: torch.device) -> growth.Section:
    models = same_size_models(plan.models, width=plan.width, layers=plan.layers, vocab=VOCAB, context=FURTHEST)
    curves = {}
    for name, settings in models.items():
        sizes = gradient_by_distance(settings, vocab=VOCAB, tokens=FURTHEST, seed=plan.seed, device=device)
        curves[name] = growth.Curve([float(k) for k in range(len(sizes))], sizes.tolist())
        say(f"{name}: {FURTHEST - 1:,} tokens back {sizes[-1]:.2g} of the gradient is left")
    section = gradient_section(curves, {name: counting.reach(settings) for name, settings in models.items()})
    return replace(section, numbers={"models": sizes_of(models), "gradient": growth.plain(curves)})


def gradient_section(curves: growth.Curves, reaches: Mapping[str, int | None]) -> growth.Section:
    """Return the chart of gradients by distance, relative to the last token; zeros are not drawn."""
    furthest = int(max(curve.x[-1] for curve in curves.values()))
    chart = Lines(
        title="The gradient that reaches a token k back",
        series=growth.lines(curves, positive=True, dots=False),
        x_name="k, tokens back",
        y_name="of the gradient at k = 0",
        log_y=True,
        note=growth.sentence("note gradient"),
    )
    left = {
        model: growth.small(curve.y[furthest])
        + ("" if curve.y[furthest] else f" (it reads {growth.reach_text(reaches[model])} back)")
        for model, curve in curves.items()
    }
    finding = growth.sentence("finding gradient", furthest=furthest, left=growth.by_model(left))
    return growth.Section([chart], finding)


def gradient_by_distance(
    settings: ModelSettings, *, vocab: int, tokens: int, seed: int, device: torch.device, texts: int = TEXTS
) -> Float[Array, "T"]:
    """Return ‖∂y_T/∂x_(T−k)‖ relative to k = 0, for k = 0 … T − 1, with encoder inputs x and outputs y.

    The gradient is taken of the last output in a random direction, and averaged over random texts (root mean square).
    Weights have Xavier's or PyTorch's initialisation, because blocks that start as the identity pass on no gradient.
    """
    settings = settings.with_values(initialisation="xavier")
    model = build_language_model(settings, vocab=vocab, seed=seed).to(device).eval()
    draw = torch.Generator().manual_seed(seed)
    ids = torch.randint(vocab, (texts, tokens), generator=draw).to(device)
    direction = torch.randn(texts, model.encoder.width, generator=draw).to(device)
    vectors = model.embed(ids).detach().requires_grad_()
    last = model.encoder(vectors)[:, -1]
    gradient = torch.autograd.grad((last * direction).sum(), vectors)[0].cpu().double()
    sizes = gradient.square().sum(-1).mean(0).sqrt().flip(0).numpy()
    return sizes / sizes[0]
