"""Measure how time, memory, gradients and learning change with the length of the texts (`gf.scaling`)."""

import platform
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any

import torch

from glassformer.config.arguments import check_arguments
from glassformer.config.messages import Say, say, takes_listener
from glassformer.data.wording import counted
from glassformer.experiments import request
from glassformer.experiments.associative_recall import recall_part
from glassformer.experiments.at_start import start_part
from glassformer.experiments.cost import REPEATS, gradient_part, time_part
from glassformer.experiments.growth import Section, growth_view
from glassformer.experiments.variants import attention_part, beyond_part
from glassformer.rendering.view import Renderable, View
from glassformer.training.device import choose_device

MEASURES: dict[str, Callable[[request.ScalingRequest, torch.device], Section]] = {
    "time": time_part,
    "gradient": gradient_part,
    "recall": recall_part,
    "beyond": beyond_part,
    "attention": attention_part,
    "start": start_part,
}


@dataclass(frozen=True)
class Growth(Renderable):
    """Measurements of each part, with a view for notebooks."""

    plan: request.ScalingRequest
    device: str
    threads: int
    parts: dict[str, Section]

    @property
    def findings(self) -> list[str]:
        """One or two sentences about each part."""
        return [section.finding for section in self.parts.values()]

    @property
    def how(self) -> str:
        """The hardware, and the number of repeats."""
        machine = f"{platform.machine()}, {counted(self.threads, 'thread')}, torch {torch.__version__}"
        memory = " Memory is the most that a step held at once." if self.device.startswith("cuda") else ""
        return (
            f"Measured on {self.device} ({machine}), one text at a time; times are medians of {REPEATS} repeats or "
            f"more; one seed ({self.plan.seed}): another gives other numbers.{memory}"
        )

    def view(self) -> View:
        return growth_view(list(self.parts.values()), self.how)

    def to_dict(self) -> dict[str, Any]:
        """Return all numbers, JSON-serialisable."""
        return {
            "how": self.how,
            "settings": asdict(self.plan),
            "device": self.device,
            "threads": self.threads,
            "repeats": REPEATS,
            "findings": self.findings,
            **{name: section.numbers for name, section in self.parts.items()},
        }


@check_arguments
@takes_listener
def scaling(
    *,
    models: str | Iterable[str] = request.CHOSEN,
    lengths: str | Iterable[int] = request.LENGTHS,
    parts: str | Iterable[str] | None = None,
    width: int = request.WIDTH,
    layers: int = request.LAYERS,
    minutes: float = request.MINUTES,
    seed: int = 0,
    device: str = "auto",
    say: Say = say,
) -> Growth:
    """Measure models of similar size on texts of increasing length.

    `parts`: None means all parts that measure one of the `models`. `width` and `layers` are those of the Transformer;
    other models have a similar size. `minutes`: approximate time for all parts on two cores; more minutes allow longer
    training.
    """
    plan = request.scaling_request(
        models=models,
        lengths=lengths,
        parts=parts,
        width=width,
        layers=layers,
        minutes=minutes,
        seed=seed,
        device=device,
    )
    where = choose_device(device)
    gpu = f", {torch.cuda.get_device_name(where)}" if where.type == "cuda" else ""
    measurements = {}
    for name in (part for part in request.PARTS if part in plan.parts):
        say(f"{name}: {request.PARTS[name]}")
        measurements[name] = MEASURES[name](plan, where)
    return Growth(plan, f"{where}{gpu}", torch.get_num_threads(), measurements)
