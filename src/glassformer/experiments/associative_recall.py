"""Associative recall: after a letter with its digit and other pairs, predict the digit of the repeated letter."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from string import ascii_lowercase, digits

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Int
from torch import Tensor, nn

from glassformer.config.messages import say
from glassformer.config.resolve import resolve
from glassformer.data.datasets.generated import recall_rows
from glassformer.experiments.growth import Curve, Curves, Section, by_model, lines, plain, sentence
from glassformer.experiments.models import brief_training, same_size_models, sizes_of, train_briefly
from glassformer.experiments.request import ScalingRequest
from glassformer.models.build import build_language_model
from glassformer.models.modules import TokenModel
from glassformer.rendering.panels import Line, Lines
from glassformer.tasks.base import Batch, Evaluation, Task

SIGNS = ascii_lowercase + digits + "?"
DISTANCES = (1, 2, 4, 8, 16, 32, 64, 128)
UPDATES, BATCH = 320, 16
ROWS, HELD_OUT = 1000, 200
"""Numbers of training rows and held-out rows per distance."""
CHANCE = 1 / len(digits)


@dataclass(frozen=True)
class Questions(Batch):
    """Batch of rows with the same distance. The last sign of each row is the answer."""

    ids: Int[Tensor, "B T"]

    @property
    def size(self) -> int:
        return len(self.ids)

    @property
    def count(self) -> int:
        return len(self.ids)

    @property
    def tokens(self) -> int:
        return self.ids.numel()

    def rows(self, first: int, last: int) -> "Questions":
        return Questions(self.ids[first:last])

    def tensors(self, device: torch.device) -> tuple[Tensor, ...]:
        ids = self.ids.to(device)
        return ids[:, :-1], ids[:, -1]


class AssociativeRecall(Task):
    """Predict the last digit of each row. The batches cycle through the distances."""

    steady = False

    def __init__(
        self,
        distances: Sequence[int],
        *,
        seed: int,
        rows: int = ROWS,
        held_out: int = HELD_OUT,
        batch_size: int = BATCH,
    ) -> None:
        self.distances, self.seed, self.batch_size = distances, seed, batch_size
        self.steps_per_epoch = len(distances) * rows / batch_size
        drawn = {distance: _encoded(recall_rows(held_out + rows, seed, distance)) for distance in distances}
        self.asked = {distance: ids[:held_out] for distance, ids in drawn.items()}
        self.learned = {distance: ids[held_out:] for distance, ids in drawn.items()}

    def batch(self, step: int) -> Questions:
        rows = self.learned[self.distances[step % len(self.distances)]]
        some = np.random.default_rng((self.seed, step)).integers(len(rows), size=self.batch_size)
        return Questions(rows[torch.from_numpy(some)])

    def loss(self, model: nn.Module, *tensors: Tensor) -> Tensor:
        inputs, answers = tensors
        return F.cross_entropy(_scores(model, inputs), answers, reduction="sum")

    @torch.no_grad()
    def evaluate(self, model: nn.Module, part: str, *, most: int | None = None) -> Evaluation:
        """Return the accuracy on held-out rows, over all distances."""
        right = self.accuracies(model)
        return Evaluation({"accuracy": sum(right) / len(right)}, "accuracy", lower_is_better=False)

    @torch.no_grad()
    def accuracies(self, model: nn.Module) -> list[float]:
        """Return the accuracy per distance."""
        device = next(model.parameters()).device
        questions = [Questions(rows).tensors(device) for rows in self.asked.values()]
        return [float((_scores(model, inputs).argmax(-1) == answers).float().mean()) for inputs, answers in questions]


def _scores(model: nn.Module, inputs: Int[Tensor, "B T"]) -> Tensor:
    assert isinstance(model, TokenModel)
    return torch.as_tensor(model.head(model.features(inputs)[:, -1]))


def _encoded(rows: Iterable[str]) -> Int[Tensor, "N T"]:
    return torch.tensor([[SIGNS.index(sign) for sign in row] for row in rows])


def recall_part(plan: ScalingRequest, device: torch.device) -> Section:
    vocab, updates, longest = len(SIGNS), plan.updates(UPDATES), 2 * max(DISTANCES) + 5
    models = same_size_models(plan.models, width=plan.width, layers=plan.layers, vocab=vocab, context=longest)
    task = AssociativeRecall(DISTANCES, seed=plan.seed)
    training = resolve({}, brief_training(updates, plan.seed)).training
    curves = {}
    for name, settings in models.items():
        model = build_language_model(settings, vocab=vocab, seed=plan.seed)
        train_briefly(model, task, training, device)
        curves[name] = Curve([float(distance) for distance in task.distances], task.accuracies(model))
        say(f"{name}, {updates:,} updates: " + ", ".join(f"{y:.2f}" for y in curves[name].y))
    section = recall_section(curves, updates=updates, asked=HELD_OUT, chance=CHANCE)
    return replace(section, numbers={"models": sizes_of(models), "updates": updates, "accuracy": plain(curves)})


def recall_section(curves: Curves, *, updates: int, asked: int, chance: float) -> Section:
    """Return the chart of accuracies by distance."""
    distances = [float(x) for x in next(iter(curves.values())).x]
    longest = distances[-1]
    chart = Lines(
        title="Remembered over a distance",
        series=[*lines(curves), Line(name="chance", x=distances, y=[chance] * len(distances), faint=True)],
        x_name="other pairs in between",
        y_name="answered rightly",
        log_x=True,
        note=sentence("note recall", updates=updates, asked=asked),
    )
    last = by_model({model: f"{curve.y[-1]:.2f}" for model, curve in curves.items()})
    finding = sentence("finding recall", updates=updates, longest=longest, last=last, chance=chance)
    return Section([chart], finding)
