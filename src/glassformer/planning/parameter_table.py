"""Parameter counts of several models side by side, by embedding, encoder, decoder and head."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import nn

from glassformer.bricks.bag import BagOfWords
from glassformer.bricks.embedding import WordVectors
from glassformer.bricks.positions import LearnedPositions, OneHotPositions
from glassformer.config.model_section import LayerSettings, SequenceSettings
from glassformer.config.units import count
from glassformer.models.build import parameter_count
from glassformer.planning.compute import parameters_by_part, tied, training_compute
from glassformer.planning.plan import sentence
from glassformer.planning.setup import PlannedTraining
from glassformer.planning.training_step import StepDevice, fake_tensors
from glassformer.rendering.panels import Cell, Table
from glassformer.rendering.view import Renderable, View

GROUPS = ("embedding", "encoder", "decoder", "head")
EMBEDDINGS = (WordVectors, LearnedPositions, OneHotPositions, BagOfWords)


@dataclass(frozen=True)
class ModelSize:
    """Size of one model."""

    name: str
    width: int | None
    layers: int | None
    """Number of layers; None if the model has no such setting, as for `width`."""
    parameters: int
    groups: dict[str, int]
    """Number of parameters by group (GROUPS); shared weights count only in the first group that has them."""
    parts: dict[str, int]
    """Number of parameters by part, as in a plan of one model."""
    tied: bool
    """Whether the head shares the weights of the word vectors."""
    flops: float | None
    """FLOPs of a forward pass per unit; None if they could not be counted."""
    unit: str
    """Unit of the FLOPs: `token`, or `example` for data without text."""

    def row(self, groups: Sequence[str]) -> list[Cell]:
        """Return the cells of a table row with the given groups."""
        flops = None if self.flops is None else count(round(self.flops))
        return [self.name, self.width, self.layers, *(self.groups[group] for group in groups), self.parameters, flops]

    def to_dict(self) -> dict[str, Any]:
        """Return all numbers for programs; the key of the FLOPs contains their unit."""
        values = asdict(self)
        flops, unit = values.pop("flops"), values.pop("unit")
        return {**values, f"flops_per_{unit}": flops}


@dataclass(frozen=True)
class ParameterTable(Renderable):
    """Sizes of several models for the same data."""

    about: str
    models: Sequence[ModelSize]
    notes: Sequence[str] = ()

    def view(self) -> View:
        groups = [group for group in GROUPS if any(model.groups[group] for model in self.models)]
        unit = self.models[0].unit  # all models read the same data
        shared = [model.name for model in self.models if model.tied]
        notes = [sentence(unit), sentence("flops", unit=unit), *self.notes]
        if shared:
            notes.append(sentence("tied models", models=", ".join(shared)))
        table = Table(
            title="Parameters",
            columns=["model", "width", "layers", *groups, "all", f"FLOPs per {unit}"],
            rows=[model.row(groups) for model in self.models],
            note=" ".join(notes),
        )
        return View(f"Model sizes: {self.about}", [table], about=self.about)

    def to_dict(self) -> dict[str, Any]:
        """Return all numbers, for programs."""
        return {"about": self.about, "models": [model.to_dict() for model in self.models], "notes": list(self.notes)}


def model_size(name: str, planned: PlannedTraining) -> ModelSize:
    """Count the parameters of a model without allocating them."""
    settings = planned.config.model
    tokens = planned.task.tokens_per_example  # a row or an image counts as one token per column or patch
    with fake_tensors(StepDevice(torch.device("cpu"), "fp32")):
        model = planned.build(planned.config)
        products = training_compute(planned, None).products
        return ModelSize(
            name=name,
            width=settings.width if isinstance(settings, SequenceSettings) else None,
            layers=settings.layers if isinstance(settings, LayerSettings) else None,
            parameters=parameter_count(model),
            groups=parameters_by_group(model),
            parts=parameters_by_part(model),
            tied=tied(model),
            flops=None if products is None else 2 * products * (tokens or 1),
            unit="token" if tokens is None else "example",
        )


def parameters_by_group(model: nn.Module) -> dict[str, int]:
    """Return the number of parameters by group; shared weights count once."""
    embedded = {
        id(weight) for module in model.modules() if isinstance(module, EMBEDDINGS) for weight in module.parameters()
    }
    groups = Counter(dict.fromkeys(GROUPS, 0))
    for path, weight in model.named_parameters():
        top = path.partition(".")[0]
        is_embedding = id(weight) in embedded or top.startswith("embed")
        groups["embedding" if is_embedding else top if top in GROUPS else "head"] += weight.numel()
    return dict(groups)
