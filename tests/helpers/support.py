"""What many tests need: random numbers, weights that are not at their start, settings tried in pairs."""

import itertools
import math
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from glassformer.bricks.attention import Attention
from glassformer.encoders.blocks import Block

Module = TypeVar("Module", bound=nn.Module)
Options = Mapping[str, Sequence[Any]]


def numbers(*shape: int, seed: int = 0, scale: float = 1.0, dtype: torch.dtype = torch.float64) -> Tensor:
    """Normal random numbers, the same for the same seed."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype) * scale


def tokens(*shape: int, vocab: int, seed: int = 0) -> Tensor:
    return torch.randint(vocab, shape, generator=torch.Generator().manual_seed(seed))


def randomise(module: Module, seed: int = 0) -> Module:
    """Give every learned weight, and every running average, a random value that depends on its name and shape alone.

    Models start with zeros at the end of each residual branch and ones in their norms: compared like that, two of them
    are equal for the wrong reason. What is not learned (an h0 fixed at zero) stays as it is.
    """
    with torch.no_grad():
        for name, weight in module.named_parameters():
            if weight.requires_grad:
                drawn = numbers(*weight.shape, seed=seed + zlib.crc32(name.encode())).to(weight.dtype)
                weight.copy_(drawn / math.sqrt(weight[0].numel()) if weight.dim() > 1 else 1 + 0.5 * drawn)
                if name.endswith("bias") or "bias_" in name:
                    weight.sub_(1)
        for name, buffer in module.named_buffers():
            drawn = numbers(*buffer.shape, seed=seed + zlib.crc32(name.encode()))
            if name.endswith("running_mean"):
                buffer.copy_(drawn)
            elif name.endswith("running_var"):
                buffer.copy_(drawn.square() + 0.5)
    return module


def ready(module: Module, seed: int = 0) -> Module:
    """Random weights, double precision, in use rather than in training."""
    return randomise(module.double(), seed).eval()


def same(actual: Tensor, expected: Any, tolerance: float = 1e-9) -> None:
    """Equal to rounding. In double precision nothing that is meant to be equal differs by more."""
    expected = torch.as_tensor(expected)
    torch.testing.assert_close(actual, expected, atol=tolerance, rtol=tolerance, check_dtype=False)


def differs(one: Tensor, other: Tensor, least: float = 1e-4) -> bool:
    """Really different, not by rounding."""
    return one.shape != other.shape or (one - other).abs().max().item() > least


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


ACTIVATIONS_WRITTEN_OUT: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "sigmoid": sigmoid,
    "tanh": lambda x: (np.exp(x) - np.exp(-x)) / (np.exp(x) + np.exp(-x)),
    "relu": lambda x: np.where(x > 0, x, 0),
    "gelu": lambda x: x * 0.5 * (1 + np.vectorize(math.erf)(x / np.sqrt(2))),
    "gelu-tanh": lambda x: x * 0.5 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
    "silu": lambda x: x * sigmoid(x),
    "relu2": lambda x: np.where(x > 0, x * x, 0),
    "swiglu": lambda x: x * sigmoid(x),
}


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


class Seen:
    """Records what passes through modules (taps, mostly), by a name given here."""

    def __init__(self, **modules: nn.Module) -> None:
        self.tensors: dict[str, Tensor] = {}
        self._hooks = [module.register_forward_hook(self._keep(name)) for name, module in modules.items()]

    def _keep(self, name: str) -> Callable[[nn.Module, Any, Tensor], None]:
        def keep(module: nn.Module, inputs: Any, output: Tensor) -> None:
            self.tensors[name] = output.detach().clone()

        return keep

    def __getitem__(self, name: str) -> Tensor:
        return self.tensors[name]

    def __enter__(self) -> "Seen":
        return self

    def __exit__(self, *_: object) -> None:
        for hook in self._hooks:
            hook.remove()


def copy_attention(ours: Attention, theirs: nn.MultiheadAttention) -> None:
    """Torch's weights into ours."""
    with torch.no_grad():
        parts = zip(theirs.in_proj_weight.chunk(3), theirs.in_proj_bias.chunk(3), strict=True)
        for mine, (weight, bias) in zip((ours.query, ours.key, ours.value), parts, strict=True):
            mine.weight.copy_(weight)
            mine.bias.copy_(bias)
    ours.output.load_state_dict(theirs.out_proj.state_dict())


def copy_block(ours: Block, theirs: nn.TransformerEncoderLayer | nn.TransformerDecoderLayer) -> None:
    """A layer of torch's Transformer, with memory or without, into a block of ours."""
    copy_attention(ours.attend, theirs.self_attn)
    norms = [ours.around_attend.norm, ours.around_feed.norm]
    if isinstance(theirs, nn.TransformerDecoderLayer):
        copy_attention(ours.cross_attention, theirs.multihead_attn)
        norms.insert(1, ours.around_cross_attention.norm)
    for number, norm in enumerate(norms, 1):
        norm.load_state_dict(getattr(theirs, f"norm{number}").state_dict())
    ours.feed.input.load_state_dict(theirs.linear1.state_dict())
    ours.feed.output.load_state_dict(theirs.linear2.state_dict())


def pairwise(options: Options, possible: Callable[[dict[str, Any]], bool] = lambda _: True) -> list[dict[str, Any]]:
    """Few choices of options in which every possible pair of values occurs: a whole product would be too many.

    Greedy: start from a pair not yet seen, then give every other option the value that brings most new pairs.
    `possible` is asked about unfinished choices too, and says no as soon as it can.
    """
    names = list(options)
    pairs = [
        ((a, x), (b, y))
        for a, b in itertools.combinations(names, 2)
        for x in options[a]
        for y in options[b]
    ]  # fmt: skip
    waiting = dict.fromkeys(pairs)
    chosen: list[dict[str, Any]] = []
    for pair in pairs:
        if pair not in waiting:
            continue
        case = _completed(dict(pair), names, options, possible, waiting)
        if case is None:  # these two cannot be together
            del waiting[pair]
            continue
        chosen.append({name: case[name] for name in names})
        for a, b in itertools.combinations(names, 2):
            waiting.pop(((a, case[a]), (b, case[b])), None)
    return chosen


def _completed(
    case: dict[str, Any],
    names: list[str],
    options: Options,
    possible: Callable[[dict[str, Any]], bool],
    waiting: Mapping[Any, None],
) -> dict[str, Any] | None:
    if not possible(case):
        return None
    missing = next((name for name in names if name not in case), None)
    if missing is None:
        return case

    def new_pairs(value: Any) -> int:
        others = [(name, case[name]) for name in names if name in case]
        at = names.index(missing)
        joined = [
            (other, (missing, value)) if names.index(other[0]) < at else ((missing, value), other) for other in others
        ]
        return sum(pair in waiting for pair in joined)

    for value in sorted(options[missing], key=new_pairs, reverse=True):
        whole = _completed({**case, missing: value}, names, options, possible, waiting)
        if whole is not None:
            return whole
    return None


def named(case: Mapping[str, Any]) -> str:
    """A test's name from its choices."""
    return "-".join(f"{key}={value}" for key, value in case.items())
