"""Weights: how they start, and by name out of a model and back into one; of shared ones, the first name stands
for all.

How they start:

| how | linear maps | maps that end a residual branch | word vectors, learned positions |
|---|---|---|---|
| `zero` (default) | normal, 1/√(fan-in) | 0: every block starts as the identity (not without residual) | normal, 0.02 |
| `gpt2` | normal, 0.02 | normal, 0.02/√(2·layers) | normal, 0.02 |
| `xavier` (classic) | uniform, ±√(6/(fan-in + fan-out)) | the same | normal, 1/√width |

Biases start at 0, norms at 1. An encoder starts its weights itself (`Encoder.init_weights`): the Transformer as the
table says; recurrent, convolutional and window encoders as torch starts them, but for the recurrent matrices, which
start orthogonal, and an LSTM's forget gate, whose bias starts at 1; their word vectors as `xavier`'s, and so do the
maps with which a recurrent decoder takes up a memory. A head of its own starts like the word vectors, the map before a
masked model's like the other linear maps; word vectors that two sides share start like the decoder's.

The head of a classifier or regressor starts small (normal, 0.02), so that its first answers say next to nothing; hidden
layers before it start normal, √(2 / fan-in). A bag of words or other columns start at 0 where the model is linear, for
its loss has no other valley; a bag before hidden layers like `xavier`'s word vectors.

The patches of an image, the columns of a table and what tells one kind from another start like word vectors, the
convolutions of an image normal, √(2 / fan-in).
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
    names: dict[int, str] = {}
    held = model.state_dict(keep_vars=True)
    for name, value in held.items():
        names.setdefault(id(value), name)
    return {name: held[name].detach() for name in names.values()}


def trained_weights(model: nn.Module) -> dict[str, Tensor]:
    """What is learned, by name; a shared weight once."""
    return {name: weight for name, weight in model.named_parameters() if weight.requires_grad}


def put_weights(model: nn.Module, weights: dict[str, Tensor], source: str) -> None:
    """Weights into a model that they must fit exactly; `source` is what an error calls them."""
    refuse_misfit(model, {name: tuple(weight.shape) for name, weight in weights.items()}, source)
    model.load_state_dict(weights, strict=False)


def refuse_misfit(model: nn.Module, shapes: Mapping[str, tuple[int, ...]], source: str) -> None:
    """Refuse weights of these names and shapes for a model that needs others; its own need no numbers yet."""
    wanted, names = take_weights(model), model.state_dict().keys()
    if missing := sorted(wanted.keys() - shapes.keys()):
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise RunError(f"{source} does not fit the model: it lacks {missing[0]}{more}")
    if extra := sorted(shapes.keys() - names):
        raise RunError(f"{source} does not fit the model: it holds {extra[0]}, which the model has not")
    for name in sorted(wanted):
        has, wants = shapes[name], tuple(wanted[name].shape)
        if has != wants:
            raise RunError(f"{source} does not fit the model: {name} is {has}, but must be {wants}")


class UndrawnWeights(TorchFunctionMode):
    """Weights of models built in here are not drawn at random: those of a file replace them next."""

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
    """Models built in here have shapes and no numbers; to draw what is not there, torch would load its compiler."""
    with torch.device("meta"), UndrawnWeights():
        yield


# --- how they start ---


def initialise_scores(head: nn.Linear, how: str, *, tied: bool) -> None:
    """The map to a score for each token; one that is tied starts as the word vectors do."""
    if not tied:
        init_vectors(head.weight, how)
    if head.bias is not None:
        nn.init.zeros_(head.bias)


def initialise_input(embed: nn.Module, how: str) -> None:
    """Whatever an example is made of: its vectors start as large as word vectors."""
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
    """`linear`: it is all of the model that is learned."""
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
    """Put a model's weights in bf16 or int8, in place; gives what was done, in words."""
    if precision == "bf16":
        weights = list(model.state_dict(keep_vars=True).values())
        if not weights[0].is_cuda and any(isinstance(part, nn.Conv1d | nn.Conv2d) for part in model.modules()):
            raise Misuse("convolutions in bf16 come out wrong on some CPUs: use this model in fp32 or int8")
        # what is not saved (the angles of rotary positions) is made of other numbers, and needs all its digits
        for weight in weights:
            weight.data = weight.data.to(torch.bfloat16) if weight.is_floating_point() else weight.data
        for part in model.modules():
            if isinstance(part, nn.RNNBase):
                part.to(torch.bfloat16)  # its unsaved zeros too, and all of it contiguous in memory, as cuDNN requires
        return "weights and products in bf16"
    total, count = sum(weight.numel() for weight in model.parameters()), to_int8(model)
    if not count:
        raise Misuse("this model has no linear maps to be put in 8 bits: use it in fp32")
    return f"{count:,} of {total:,} weights in 8 bits"
