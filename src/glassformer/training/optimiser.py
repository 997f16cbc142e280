"""The optimiser, the running average of weights, and the choice of trained weights.

The optimiser is plain gradient descent, momentum, AdamW, or Muon for matrices and AdamW for the other weights.
"""

import contextlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import torch
from torch import Tensor, nn

from glassformer.config.errors import SettingError
from glassformer.config.sections import TrainingSettings
from glassformer.data.wording import counted
from glassformer.models.weights import trained_weights
from glassformer.training.update_rules import SGD, AdamW, Muon, UpdateRule, WeightGroup

MUON_MOMENTUM = 0.95


def decayed(model: nn.Module) -> dict[str, nn.Parameter]:
    """Return the parameters that weight decay and L2 shrink.

    These are the matrices: not biases, norms, first states and embeddings.
    """
    tables = {id(module.weight) for module in model.modules() if isinstance(module, nn.Embedding)}
    first = {id(weight) for name, weight in model.named_parameters() if ".first." in name}
    return {
        name: weight
        for name, weight in model.named_parameters()
        if weight.requires_grad and weight.dim() >= 2 and id(weight) not in tables | first
    }


class Optimiser:
    """One or two update rules, with state by parameter name. Deeper weights may have a lower learning rate."""

    def __init__(
        self,
        model: nn.Module,
        settings: TrainingSettings,
        new_parts: Sequence[str] = (),
        weights: Mapping[str, Tensor] | None = None,
        muon: Callable[[Sequence[WeightGroup]], Muon] = Muon,
    ) -> None:
        """Create the update rules of the settings.

        `new_parts`: parts of a fine-tuned model that were not taken from the earlier run; they use the full rate.
        `weights`: the tensors to update by name, if they are shards; None: the model's. `muon`: Muon for these tensors.
        """
        weights = trained_weights(model) if weights is None else weights
        self.lr = settings.lr or 0.0
        self._rate = self.lr
        self.names = {id(weight): name for name, weight in weights.items()}
        self.decay = settings.weight_decay
        self._rates = rates(model, settings.layer_decay, new_parts)
        decaying = {name: weights[name] for name in decayed(model)}
        decay = list(decaying.values())
        rest = [weight for name, weight in weights.items() if name not in decaying]
        self._decayed_apart: list[WeightGroup] = []
        self.parts: list[UpdateRule] = []
        self.recordable = False
        if settings.optimizer in ("sgd", "momentum"):
            momentum = settings.momentum if settings.optimizer == "momentum" else 0.0
            self.parts.append(SGD(self._groups([*decay, *rest], momentum=momentum)))
            # weight decay is not added to the gradient: that would be L2
            self._decayed_apart = self._groups(decay)
            return
        bags = {f"{name}.weight" for name, module in model.named_modules() if isinstance(module, nn.EmbeddingBag)}
        matrices = {
            name: weight
            for name, weight in decaying.items()
            if settings.optimizer == "muon" and not name.startswith("head.") and name not in bags
        }
        decay = [weight for name, weight in decaying.items() if name not in matrices]
        betas = (settings.beta1, settings.beta2)
        groups = [*self._groups(decay, weight_decay=self.decay, betas=betas), *self._groups(rest, betas=betas)]
        self.recordable = all(weight.device.type == "cuda" for weight in [*decay, *rest, *matrices.values()])
        if groups or not matrices:
            self.parts.append(AdamW(groups))
        if matrices:
            self.parts.append(muon(self._groups(matrices.values(), weight_decay=self.decay, momentum=MUON_MOMENTUM)))
        if self.recordable:
            for group in self.groups:
                group.lr = torch.tensor(self.lr, device=group.weights[0].device)

    def _groups(
        self,
        weights: Iterable[Tensor],
        *,
        weight_decay: float = 0.0,
        momentum: float = 0.0,
        betas: tuple[float, float] = (0.9, 0.999),
    ) -> list[WeightGroup]:
        """Group weights by learning rate."""
        by_rate: dict[float, list[Tensor]] = {}
        for weight in weights:
            by_rate.setdefault(self._rates[self.names[id(weight)]], []).append(weight)
        return [WeightGroup(group, self.lr, factor, weight_decay, momentum, betas) for factor, group in by_rate.items()]

    @property
    def groups(self) -> list[WeightGroup]:
        """The groups of weights of all update rules."""
        return [group for part in self.parts for group in part.groups]

    @property
    def orthogonalised(self) -> list[Tensor]:
        """The weights whose update is orthogonalised."""
        muons = [part for part in self.parts if isinstance(part, Muon)]
        return [weight for part in muons for group in part.groups for weight in group.weights]

    def set_rate(self, factor: float) -> None:
        """Use `factor` times the learning rate in the next update."""
        self._rate = self.lr * factor
        for group in self.groups:
            rate = self._rate * group.rate_factor
            group.lr = group.lr.fill_(rate) if isinstance(group.lr, Tensor) else rate

    def step(self, factor: float) -> None:
        """Update the weights at `factor` times the learning rate."""
        self.set_rate(factor)
        self.update()

    def update(self) -> None:
        """Update the weights. If `recordable`, rates are tensors, and no operation waits for the device."""
        if self.decay:
            for group in self._decayed_apart:
                with torch.no_grad():
                    torch._foreach_mul_(group.weights, 1 - self._rate * group.rate_factor * self.decay)
        for optimiser in self.parts:
            optimiser.step()

    def zero(self) -> None:
        for part in self.parts:
            part.zero_grad()

    def state(self) -> dict[str, Tensor]:
        """Return the state by `PARAMETER/NAME`, such as `head.weight/exp_avg`."""
        return {
            f"{self.names[id(weight)]}/{key}": value
            for part in self.parts
            for weight, tensors in part.state.items()
            for key, value in tensors.items()
        }

    def load(self, state: dict[str, Tensor]) -> None:
        for part in self.parts:
            for group in part.groups:
                for weight in group.weights:
                    start = f"{self.names[id(weight)]}/"
                    tensors = {key[len(start) :]: value for key, value in state.items() if key.startswith(start)}
                    if tensors:
                        part.state[weight] = {key: value.to(weight.device) for key, value in tensors.items()}


# --- running average ---


class Average:
    """Running average of the weights over about the last `span` updates, in which later updates count more."""

    def __init__(self, weights: Mapping[str, Tensor], span: int | None) -> None:
        """Begin with copies of the weights.

        `weights`: trained weights by name, with each shared weight once; buffers are not averaged. `span`: None if
        there is no average.
        """
        self.span = span
        self.weights = {} if span is None else dict(weights)
        self.averages = {name: _exact(weight).clone() for name, weight in self.weights.items()}

    @torch.no_grad()
    def update(self, taken: int) -> int:
        """Add the current weights after `taken` updates of the average, and return the new number of updates."""
        if self.span is None:
            return 0
        weights = [_exact(weight) for weight in self.weights.values()]
        # low at first, so that the initial weights soon lose their influence; at last 1 - 1/span
        kept = min(1 - 1 / self.span, (1 + taken) / (10 + taken))
        torch._foreach_lerp_(list(self.averages.values()), weights, 1 - kept)
        return taken + 1

    @contextlib.contextmanager
    def in_use(self) -> Iterator[None]:
        """Replace the weights by their averages inside the context; restore them bit for bit afterwards."""
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
        """Return the averages by parameter name; empty if there is no average."""
        return dict(self.averages)

    def load(self, state: dict[str, Tensor]) -> None:
        for name, average in self.averages.items():
            if name in state:
                average.copy_(state[name])


def _exact(weight: Tensor) -> Tensor:
    """Return the weight in at least float32: half precision would lose the small change of one update."""
    return weight.detach().to(torch.promote_types(weight.dtype, torch.float32))


# --- trained weights and their learning rates ---


BLOCK_WEIGHT = re.compile(r"^(encoder|decoder)\.(?:blocks|convolutions|around)\.(\d+)\.")
RECURRENT_WEIGHT = re.compile(r"^(encoder|decoder)\.layers\.cell\.[a-z_]+_l(\d+)(?:_reverse)?$")
"""Weights of a recurrent layer in torch's naming, such as weight_ih_l0."""
INPUT_WEIGHT = re.compile(
    r"^(?:embed(?:_source|_target)?\.|(?:encoder|decoder)\.(?:positions|embed_norm|layers\.first)\.)"
)
"""Word vectors, positions and first states."""


def distances(model: nn.Module) -> dict[str, int]:
    """Return the distance of each weight from the head.

    It is 0 above all blocks (last norm, pool, head), 1 in the last block, and largest at the input.
    """
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
        elif INPUT_WEIGHT.match(name):
            out[name] = heights.get(_side(name), 0) + 1
        else:
            out[name] = 0
    return out


def _block(name: str) -> tuple[str, int] | None:
    """Return the side of a weight and the number of its block, counted from the input; None outside blocks."""
    found = BLOCK_WEIGHT.match(name) or RECURRENT_WEIGHT.match(name)
    if found is not None:
        return found[1], int(found[2])
    if name.startswith("encoder.read."):  # the first layer of the window model
        return "encoder", 0
    return ("encoder", int(name.split(".")[2]) + 1) if name.startswith("encoder.deeper.") else None


def _side(name: str) -> str:
    return "decoder" if name.startswith(("decoder.", "embed_target.")) else "encoder"


def starred(name: str) -> str:
    """Return a weight's name with block numbers starred: encoder.blocks.*.attend.query.weight."""
    return ".".join("*" if part.isdigit() else part for part in name.split("."))


def is_new(name: str, new_parts: Sequence[str]) -> bool:
    """Return whether a weight belongs to one of `new_parts`, such as `head` or `decoder.blocks.*.cross_attention`."""
    return any(f"{starred(name)}.".startswith(f"{part}.") for part in new_parts)


def refuse_too_many(model: nn.Module, last_blocks: int | None) -> None:
    """Refuse a `training.last_blocks` larger than the number of blocks."""
    blocks = max((far for name, far in distances(model).items() if _block(name) is not None), default=0)
    if last_blocks is not None and last_blocks > blocks:
        raise SettingError(f"training.last_blocks is {last_blocks}, but the model has {counted(blocks, 'block')}")


def freeze(model: nn.Module, last_blocks: int | None, new_parts: Sequence[str] = ()) -> None:
    """Freeze all weights but the head, the last blocks with the norm after them, and new parts.

    `last_blocks`: how many blocks stay trained; None: nothing is frozen.
    """
    if last_blocks is None:
        return
    # A shared weight counts under each of its names, so a tied head counts as a head.
    names = model.named_parameters(remove_duplicate=False)
    head = {id(weight) for name, weight in names if not name.startswith(("embed", "encoder.", "decoder."))}
    far = distances(model)
    for name, weight in model.named_parameters():
        if not (id(weight) in head or is_new(name, new_parts) or (last_blocks > 0 and far[name] <= last_blocks)):
            weight.requires_grad_(False)


def rates(model: nn.Module, layer_decay: float, new_parts: Sequence[str] = ()) -> Mapping[str, float]:
    """Return the multiplier of each weight's learning rate."""
    return {
        name: 1.0 if is_new(name, new_parts) else layer_decay**distance for name, distance in distances(model).items()
    }
