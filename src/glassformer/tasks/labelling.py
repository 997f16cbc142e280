"""Say something of a whole text: what classification and regression share."""

from abc import abstractmethod
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from glassformer.config.errors import DataError, SettingError
from glassformer.data.examples import Examples
from glassformer.data.order import LengthOrder
from glassformer.tasks.base import Batch, Evaluation, Task


@dataclass(frozen=True)
class Texts(Batch):
    """Texts of like length, padded to the longest, and the answer to each."""

    ids: Int[Tensor, "B T"]
    mask: Bool[Tensor, "B T"]
    answers: Tensor

    @property
    def size(self) -> int:
        return len(self.ids)

    @property
    def count(self) -> int:
        return self.size

    @property
    def tokens(self) -> int:
        return int(self.mask.sum())

    def rows(self, first: int, last: int) -> "Texts":
        longest = max(1, int(self.mask[first:last].sum(1).max()))
        return Texts(self.ids[first:last, :longest], self.mask[first:last, :longest], self.answers[first:last])

    def tensors(self, device: torch.device) -> tuple[Tensor, ...]:
        return self.ids.to(device), self.mask.to(device), self.answers.to(device)


class Labelling(Task):
    """A score, or several, for each text."""

    steady = False
    unit = "per text"

    def __init__(self, parts: dict[str, Examples], *, outputs: int, batch_size: int = 1, seed: int = 0) -> None:
        self.parts = parts
        self.outputs = outputs
        self._order = None
        if "train" in parts:
            self._order = LengthOrder(parts["train"].lengths, batch_size, seed)
            self.steps_per_epoch = self._order.steps_per_epoch

    def batch(self, step: int) -> Texts:
        assert self._order is not None
        rows = self._order.rows(step)
        train = self.parts["train"]
        return Texts(*train.padded(rows), torch.from_numpy(train.answers[rows]))

    def loss(self, model: nn.Module, *tensors: Tensor) -> Tensor:
        ids, mask, answers = tensors
        return self.losses(scores_of(model, ids, mask, self.outputs), answers).sum()

    @abstractmethod
    def losses(self, scores: Float[Tensor, "B outputs"], answers: Tensor) -> Float[Tensor, "B"]:
        """As the model learns from them."""

    @torch.no_grad()
    def evaluate(self, model: nn.Module, part: str, *, most: int | None = None) -> Evaluation:
        examples = self.parts[part]
        if not len(examples):
            raise DataError(f"the {part} part holds no text")
        return self.judge(examples, score(model, examples, self.outputs))

    @abstractmethod
    def judge(self, examples: Examples, scores: Float[Tensor, "N outputs"]) -> Evaluation:
        """Metrics, and a record per text."""


def scores_of(model: nn.Module, ids: Tensor, mask: Tensor, outputs: int) -> Float[Tensor, "B outputs"]:
    """The model's scores; a person's own model may give something else."""
    scores = model(ids, mask)
    if not isinstance(scores, Tensor) or scores.shape != (len(ids), outputs):
        gave = f"scores of shape {tuple(scores.shape)}" if isinstance(scores, Tensor) else f"a {type(scores).__name__}"
        raise SettingError(
            f"the model gave {gave} for {len(ids)} texts: it must give {outputs} for each, ({len(ids)}, {outputs})"
        )
    return scores.float()


@torch.no_grad()
def score(model: nn.Module, examples: Examples, outputs: int) -> Float[Tensor, "N outputs"]:
    """The scores of every text, in their order."""
    device = device_of(model)
    out = torch.empty(len(examples), outputs)
    for rows, ids, mask in examples.batches():
        out[torch.from_numpy(rows)] = scores_of(model, ids.to(device), mask.to(device), outputs).cpu()
    return out


def device_of(model: nn.Module) -> torch.device:
    return next((weight.device for weight in model.parameters()), torch.device("cpu"))
