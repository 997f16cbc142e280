"""The update of the weights, their running average, and which weights are trained.

The optimiser is plain gradient descent, momentum, AdamW, or Muon for matrices and AdamW for the rest.
"""

import contextlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.config.errors import SettingError
from glassformer.config.sections import TrainingSettings
from glassformer.data.wording import counted
from glassformer.models.weights import trained_weights
from glassformer.training.update_rules import SGD, AdamW, Muon, UpdateRule

MUON_MOMENTUM = 0.95


def decayed(model: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters that weight decay and L2 shrink: matrices. Not biases, norms, first states and embeddings."""
    tables = {id(module.weight) for module in model.modules() if isinstance(module, nn.Embedding)}
    first = {id(weight) for name, weight in model.named_parameters() if ".first." in name}
    return {
        name: weight
        for name, weight in model.named_parameters()
        if weight.requires_grad and weight.dim() >= 2 and id(weight) not in tables | first
    }


class Optimiser:
    """One or two update rules as one, with state by parameter name. Deeper weights may learn more slowly."""

    def __init__(
        self,
        model: nn.Module,
        settings: TrainingSettings,
        new: Sequence[str] = (),
        weights: Mapping[str, Tensor] | None = None,
        muon: Callable[..., Muon] = Muon,
    ) -> None:
        """`new`: what a model that was trained before has beside what was taken; it learns at the full rate.
        `weights`: what is updated, by name, where it is not all of each weight; and `muon`: the Muon of such.
        """
        weights = trained_weights(model) if weights is None else weights
        self.lr = settings.lr or 0.0
        self._rate = self.lr
        self.names = {id(weight): name for name, weight in weights.items()}
        self.decay = settings.weight_decay
        self._rates = rates(model, settings.layer_decay, new)
        decaying = {name: weights[name] for name in decayed(model)}
        decay = list(decaying.values())
        rest = [weight for name, weight in weights.items() if name not in decaying]
        self._by_hand: list[tuple[float, list[Tensor]]] = []
        self.parts: list[UpdateRule] = []
        self.recordable = False
        if settings.optimizer in ("sgd", "momentum"):
            momentum = settings.momentum if settings.optimizer == "momentum" else 0.0
            self.parts.append(SGD(self._groups([*decay, *rest]), lr=self.lr, momentum=momentum))
            # decay is no part of the gradient, which would be L2
            self._by_hand = [(group["part"], group["params"]) for group in self._groups(decay)]
            return
        bags = {f"{name}.weight" for name, module in model.named_modules() if isinstance(module, nn.EmbeddingBag)}
        matrices = {
            name: weight
            for name, weight in decaying.items()
            if settings.optimizer == "muon" and not name.startswith("head.") and name not in bags
        }
        decay = [weight for name, weight in decaying.items() if name not in matrices]
        groups = [*self._groups(decay, weight_decay=self.decay), *self._groups(rest, weight_decay=0.0)]
        self.recordable = all(weight.device.type == "cuda" for weight in [*decay, *rest, *matrices.values()])
        if groups or not matrices:
            self.parts.append(AdamW(groups, lr=self.lr, betas=(settings.beta1, settings.beta2)))
        if matrices:
            groups = self._groups(matrices.values())
            self.parts.append(muon(groups, lr=self.lr, momentum=MUON_MOMENTUM, weight_decay=self.decay))
        if self.recordable:
            for group in self.groups:
                group["lr"] = torch.tensor(self.lr, device=group["params"][0].device)

    def _groups(self, weights: Iterable[Tensor], **more: Any) -> list[dict[str, Any]]:
        """Weights that learn at one rate together; `part`: of the whole rate."""
        by_rate: dict[float, list[Tensor]] = {}
        for weight in weights:
            by_rate.setdefault(self._rates[self.names[id(weight)]], []).append(weight)
        return [{"params": some, "part": part, **more} for part, some in by_rate.items()]

    @property
    def groups(self) -> list[dict[str, Any]]:
        """The groups of weights of all update rules."""
        return [group for part in self.parts for group in part.param_groups]

    @property
    def orthogonalised(self) -> list[Tensor]:
        """The weights whose update is made orthogonal."""
        muons = [part for part in self.parts if isinstance(part, Muon)]
        return [weight for part in muons for group in part.param_groups for weight in group["params"]]

    def set_rate(self, factor: float) -> None:
        """The next update is at `factor` times the learning rate."""
        self._rate = self.lr * factor
        for group in self.groups:
            rate = self._rate * group["part"]
            group["lr"] = group["lr"].fill_(rate) if isinstance(group["lr"], Tensor) else rate

    def step(self, factor: float) -> None:
        """One update at `factor` times the learning rate."""
        self.set_rate(factor)
        self.update()

    def update(self) -> None:
        """One update. Where it is `recordable`, rates are tensors, and nothing waits for the device."""
        if self.decay:
            for part, weights in self._by_hand:
                with torch.no_grad():
                    torch._foreach_mul_(weights, 1 - self._rate * part * self.decay)
        for optimiser in self.parts:
            optimiser.step()

    def zero(self) -> None:
        for part in self.parts:
            part.zero_grad()

    def state(self) -> dict[str, Tensor]:
        """Everything it remembers, as `parameter name/what` → tensor."""
        return {
            f"{self.names[id(weight)]}/{key}": value
            for part in self.parts
            for weight, memory in part.state.items()
            for key, value in memory.items()
        }

    def load(self, state: dict[str, Tensor]) -> None:
        for part in self.parts:
            for group in part.param_groups:
                for weight in group["params"]:
                    start = f"{self.names[id(weight)]}/"
                    memory = {key[len(start) :]: value for key, value in state.items() if key.startswith(start)}
                    if memory:
                        part.state[weight] = {key: value.to(weight.device) for key, value in memory.items()}


# --- running average ---


class Average:
    """The weights of about the last `span` updates, averaged; later ones count more. None: there is no average, and
    the weights are used as they are.

    `weights`: what is trained, by name, a shared weight once; buffers are always as they are.
    """

    def __init__(self, weights: Mapping[str, Tensor], span: int | None) -> None:
        self.span = span
        self.weights = {} if span is None else dict(weights)
        self.averages = {name: _exact(weight).clone() for name, weight in self.weights.items()}

    @torch.no_grad()
    def update(self, taken: int) -> int:
        """Take in the weights as they are now, after `taken` updates of the average; gives how many it then has."""
        if self.span is None:
            return 0
        weights = [_exact(weight) for weight in self.weights.values()]
        # little at first, so that the weights it started from are soon forgotten; in the end all but 1/span
        stays = min(1 - 1 / self.span, (1 + taken) / (10 + taken))
        torch._foreach_lerp_(list(self.averages.values()), weights, 1 - stays)
        return taken + 1

    @contextlib.contextmanager
    def in_use(self) -> Iterator[None]:
        """The averages stand in the model; afterwards the weights do again, bit for bit."""
        trained = {name: weight.detach().clone() for name, weight in self.weights.items()}
        try:
            self._put(self.averages)
            yield
        finally:
            self._put(trained)

    @torch.no_grad()
    def _put(self, values: dict[str, Tensor]) -> None:
        for name, weight in self.weights.items():
            weight.copy_(values[name])

    def state(self) -> dict[str, Tensor]:
        """The averages by parameter name; empty where there is none."""
        return dict(self.averages)

    def load(self, state: dict[str, Tensor]) -> None:
        for name, average in self.averages.items():
            if name in state:
                average.copy_(state[name])


def _exact(weight: Tensor) -> Tensor:
    """The weight in float32 at least: in half precision, what one update adds to an average would be lost."""
    return weight.detach().to(torch.promote_types(weight.dtype, torch.float32))


# --- trained weights and their learning rates ---


BLOCK = re.compile(r"^(encoder|decoder)\.(?:blocks|convolutions|around)\.(\d+)\.")
LAYER = re.compile(r"^(encoder|decoder)\.layers\.cell\.[a-z_]+_l(\d+)(?:_reverse)?$")
"""torch's names of the weights of a recurrent layer: weight_ih_l0."""
BOTTOM = re.compile(r"^(?:embed(?:_source|_target)?\.|(?:encoder|decoder)\.(?:positions|embed_norm|layers\.first)\.)")
"""What comes in: word vectors, positions, first states."""
ABOVE = 0
"""The distance of what lies above all blocks: the last norm, the pool, the head."""


def distances(model: nn.Module) -> dict[str, int]:
    """How far below the head each weight lies: 0 above all blocks, 1 in the last one, most where vectors come in."""
    names = [name for name, _ in model.named_parameters()]
    blocks = {name: found for name in names if (found := _block(name)) is not None}
    heights: dict[str, int] = {}
    for side, number in blocks.values():
        heights[side] = max(heights.get(side, 0), number + 1)
    out = {}
    for name in names:
        if name in blocks:
            side, number = blocks[name]
            out[name] = heights[side] - number
        elif BOTTOM.match(name):
            out[name] = heights.get(_side(name), 0) + 1
        else:
            out[name] = ABOVE
    return out


def _block(name: str) -> tuple[str, int] | None:
    """Which side a weight stands on, and in which of its blocks, counted from below."""
    found = BLOCK.match(name) or LAYER.match(name)
    if found is not None:
        return found[1], int(found[2])
    if name.startswith("encoder.read."):  # the window model: what reads, what thinks, and what gives the output
        return "encoder", 0
    return ("encoder", int(name.split(".")[2]) + 1) if name.startswith("encoder.deeper.") else None


def _side(name: str) -> str:
    return "decoder" if name.startswith(("decoder.", "embed_target.")) else "encoder"


def starred(name: str) -> str:
    """A weight's name for all blocks alike: encoder.blocks.*.attend.query.weight."""
    return ".".join("*" if part.isdigit() else part for part in name.split("."))


def is_new(name: str, new: Sequence[str]) -> bool:
    """Whether a weight is part of what was not taken from another run: `head`, `decoder.blocks.*.cross_attention`."""
    whole = starred(name)
    return any(f"{whole}.".startswith(f"{part}.") for part in new)


def refuse_too_many(model: nn.Module, last_blocks: int | None) -> None:
    """Where there are not so many blocks to train."""
    blocks = max((far for name, far in distances(model).items() if _block(name) is not None), default=0)
    if last_blocks is not None and last_blocks > blocks:
        raise SettingError(f"training.last_blocks is {last_blocks}, but the model has {counted(blocks, 'block')}")


def freeze(model: nn.Module, last_blocks: int | None, new: Sequence[str] = ()) -> None:
    """Only the head, so many last blocks with the norm after them, and what is new are trained; None: everything."""
    if last_blocks is None:
        return
    # weights that are shared, by each of their names: a head that is tied is a head
    names = model.named_parameters(remove_duplicate=False)
    head = {id(weight) for name, weight in names if not name.startswith(("embed", "encoder.", "decoder."))}
    far = distances(model)
    for name, weight in model.named_parameters():
        if not (id(weight) in head or is_new(name, new) or (last_blocks > 0 and far[name] <= last_blocks)):
            weight.requires_grad_(False)


def rates(model: nn.Module, layer_decay: float, new: Sequence[str] = ()) -> Mapping[str, float]:
    """What the learning rate of each weight is multiplied by."""
    return {name: 1.0 if is_new(name, new) else layer_decay**distance for name, distance in distances(model).items()}
