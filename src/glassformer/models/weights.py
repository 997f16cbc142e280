"""Weights: initialisation, and access by name. Shared weights are listed under their first name.

Initialisation:

| how | linear maps | maps that end a residual branch | word vectors, learned positions | |---|---|---|---| | `zero`
(default) | normal, 1/√(fan-in) | 0: every block starts as the identity (not without residual) | normal, 0.02 | | `gpt2`
| normal, 0.02 | normal, 0.02/√(2·layers) | normal, 0.02 | | `xavier` (classic) | uniform, ±√(6/(fan-in + fan-out)) |
the same | normal, 1/√width |

Biases start at 0, norms at 1. An encoder initialises its own weights (`Encoder.init_weights`):

- the Transformer as in the table;
- recurrent, convolutional and window encoders as torch does, except for orthogonal recurrent matrices and a bias of 1
  for an LSTM's forget gate. Their word vectors, and the maps from the memory of a recurrent decoder, are `xavier`.

An untied head is initialised like the word vectors, and a masked model's map before it like other linear maps. Word
vectors shared by both sides follow the decoder.

The head of a classifier or regressor is normal, 0.02, so that its first answers are almost uniform. Hidden layers
before it are normal, √(2 / fan-in). A linear model of words or columns starts at 0, because its loss is convex. A bag
of words before hidden layers is initialised like `xavier` word vectors.

Image patches, table columns and the vectors for kinds of input are initialised like word vectors. The convolutions of
an image are normal, √(2 / fan-in).
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from glassformer.bricks.bag import BagOfWords
from glassformer.bricks.convolution import ConvolutionStack, Patches
from glassformer.bricks.feed_forward import MultilayerPerceptron
from glassformer.bricks.int8 import to_int8
from glassformer.config.errors import Misuse, RunError
from glassformer.encoders.base import init_vectors

DRAWS_INTO_TENSORS = frozenset(
    {
        *(Tensor.normal_, Tensor.uniform_, Tensor.random_, Tensor.bernoulli_, Tensor.exponential_),
        *(nn.init.normal_, nn.init.uniform_, nn.init.kaiming_uniform_),
    }
)
"""Functions that draw random numbers into their first argument and that torch reports to function modes."""


def take_weights(model: nn.Module) -> dict[str, Tensor]:
    """Return the weights by name, detached; a shared weight once."""
    names: dict[int, str] = {}
    state = model.state_dict(keep_vars=True)
    for name, value in state.items():
        names.setdefault(id(value), name)
    return {name: state[name].detach() for name in names.values()}


def trained_weights(model: nn.Module) -> dict[str, Tensor]:
    """Return the trainable weights by name; a shared weight once."""
    return {name: weight for name, weight in model.named_parameters() if weight.requires_grad}


def put_weights(model: nn.Module, weights: dict[str, Tensor], source: str) -> None:
    """Load weights into a model, which they must fit exactly; errors refer to them as `source`."""
    refuse_misfit(model, {name: tuple(weight.shape) for name, weight in weights.items()}, source)
    model.load_state_dict(weights, strict=False)


def refuse_misfit(model: nn.Module, shapes: Mapping[str, tuple[int, ...]], source: str) -> None:
    """Raise `RunError` unless the names and shapes are exactly those of the model, which may be on the meta device."""
    wanted, names = take_weights(model), model.state_dict().keys()
    if missing := sorted(wanted.keys() - shapes.keys()):
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise RunError(f"{source} does not fit the model: it lacks {missing[0]}{more}")
    if extra := sorted(shapes.keys() - names):
        raise RunError(f"{source} does not fit the model: it holds {extra[0]}, which the model has not")
    for name in sorted(wanted):
        actual, expected = shapes[name], tuple(wanted[name].shape)
        if actual != expected:
            raise RunError(f"{source} does not fit the model: {name} is {actual}, but must be {expected}")


class UndrawnWeights(TorchFunctionMode):
    """Context without random initialisation, for models whose weights are loaded next."""

    def __torch_function__(
        self, function: Callable[..., Any], types: Sequence[type], args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if function in DRAWS_INTO_TENSORS:
            weight = kwargs["tensor"] if "tensor" in kwargs else args[0]
            if isinstance(weight, nn.Parameter) or weight.is_meta:
                return weight
        return function(*args, **kwargs)


@contextmanager
def shapes_alone() -> Iterator[None]:
    """Build models on the meta device: with shapes, without numbers.

    Random initialisation there would make torch load its compiler.
    """
    with torch.device("meta"), UndrawnWeights():
        yield


# --- initialisation ---


def initialise_scores(head: nn.Linear, how: str, *, tied: bool) -> None:
    """Initialise the map to vocabulary scores; a tied one shares the word vectors."""
    if not tied:
        init_vectors(head.weight, how)
    if head.bias is not None:
        nn.init.zeros_(head.bias)


def initialise_input(embed: nn.Module, how: str) -> None:
    """Initialise an input layer with the scale of word vectors."""
    for module in embed.modules():
        if isinstance(module, nn.Embedding):
            init_vectors(module.weight, how)
            if module.padding_idx is not None:
                nn.init.zeros_(module.weight[module.padding_idx])
        elif isinstance(module, Patches):
            size = module.map.out_channels**-0.5 if how == "xavier" else 0.02
            nn.init.normal_(module.map.weight, std=size / math.sqrt(module.map.weight[0].numel()))
            if module.map.bias is not None:
                nn.init.zeros_(module.map.bias)
        elif isinstance(module, ConvolutionStack):
            for layer in module.convolutions:
                assert isinstance(layer, nn.Conv2d)
                nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
                if layer.bias is not None:
                    nn.init.zeros_(layer.bias)


def initialise_head(head: MultilayerPerceptron, *, linear: bool = False) -> None:
    """Initialise a head; `linear` if the model has no other learned part."""
    for layer in [*head.hidden, head.output]:
        assert isinstance(layer, nn.Linear)
        last = 0.0 if linear else 0.02
        std = last if layer is head.output else math.sqrt(2 / layer.in_features)
        nn.init.normal_(layer.weight, std=std)
        if layer.bias is not None:
            nn.init.zeros_(layer.bias)


def initialise_bag(bag: BagOfWords, *, linear: bool) -> None:
    if linear:
        nn.init.zeros_(bag.table.weight)
    else:
        init_vectors(bag.table.weight, "xavier")


def lower_precision(model: nn.Module, precision: str) -> str:
    """Convert a model's weights to bf16 or int8 in place and return a description."""
    if precision == "bf16":
        weights = list(model.state_dict(keep_vars=True).values())
        if not weights[0].is_cuda and any(isinstance(part, nn.Conv1d | nn.Conv2d) for part in model.modules()):
            raise Misuse("convolutions in bf16 come out wrong on some CPUs: use this model in fp32 or int8")
        # unsaved buffers (the frequencies of rotary positions) need full precision
        for weight in weights:
            weight.data = weight.data.to(torch.bfloat16) if weight.is_floating_point() else weight.data
        for part in model.modules():
            if isinstance(part, nn.RNNBase):
                part.to(torch.bfloat16)  # also its unsaved zeros, and contiguous in memory, as cuDNN requires
        return "weights and products in bf16"
    total, count = sum(weight.numel() for weight in model.parameters()), to_int8(model)
    if not count:
        raise Misuse("this model has no linear maps to be put in 8 bits: use it in fp32")
    return f"{count:,} of {total:,} weights in 8 bits"
