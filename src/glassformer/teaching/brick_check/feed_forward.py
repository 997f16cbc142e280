"""Contract of the feed-forward layer: two linear maps with a non-linearity between them, or gated."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from glassformer.bricks.feed_forward import ACTIVATIONS
from glassformer.teaching.brick_check.contract import Facts, contract, tokens
from glassformer.teaching.brick_check.names import Bridge, listed_weights, sizes
from glassformer.teaching.brick_check.steps import Case, Mistakes, Scope, Steps, mapped
from glassformer.teaching.exercise import StudentError

WIDTH, HIDDEN = 7, 13
ACTIVATION_NAMES = ("relu", "gelu", "gelu-tanh", "silu", "tanh", "sigmoid", "relu2")


def cases(facts: Facts, drawn: torch.Generator) -> list[Case]:
    return [Case("plain", facts.options, {"x": tokens(WIDTH, drawn)})]


def activate_and_gate(s: Scope) -> Tensor:
    out = ACTIVATIONS[s.activation](s.hidden)
    return out if s.w_3 is None else out * mapped(s.x, s.w_3, s.b_3)


def output(s: Scope) -> Tensor:
    return mapped(s.active, s.w_2, s.b_2)


STEPS: Steps = {"hidden": lambda s: mapped(s.x, s.w_1, s.b_1), "active": activate_and_gate, "output": output}
LINEAR: Steps = {"active": lambda s: s.hidden}
MISTAKES: Mistakes = {
    "activation: none": LINEAR,
    "activation: at the end": {**LINEAR, "output": lambda s: ACTIVATIONS[s.activation](output(s))},
    "residual inside": {"output": lambda s: output(s) + s.x},
}


def read_weights(module: nn.Module, options: Mapping[str, object], turned: set[str]) -> Bridge:
    """Find the weights by their shapes: d → hidden, once or twice, and hidden → d.

    `turned`: names of parameters that are used as x W instead of x Wᵀ.
    """
    shapes = {name: tuple(one.T.shape if name in turned else one.shape) for name, one in module.named_parameters()}
    into = [name for name, shape in shapes.items() if len(shape) == 2 and shape[1] == WIDTH != shape[0]]
    back = [name for name, shape in shapes.items() if len(shape) == 2 and shape[0] == WIDTH != shape[1]]
    biases = [name for name, shape in shapes.items() if len(shape) == 1]
    if len(back) != 1 or len(into) not in (1, 2) or len(into) + len(back) + len(biases) != len(shapes):
        expected = f"{WIDTH} → hidden (two with a gate) and hidden → {WIDTH}"
        raise StudentError(f"weights expected: {expected}; found: {listed_weights(module)}")
    if options["swap"]:
        into.reverse()
    places = dict(zip(("w_1", "w_3"), into, strict=False)) | {"w_2": back[0]}
    owners = {name.removesuffix("weight"): place for place, name in places.items()}
    for name in biases:
        by_size = "w_2" if shapes[name] == (WIDTH,) else "w_1"
        places[owners.get(name.removesuffix("bias"), by_size).replace("w", "b")] = name

    def read(tensors: Mapping[str, Tensor]) -> dict[str, Tensor | None]:
        found = {place: tensors[name].T if name in turned else tensors[name] for place, name in places.items()}
        return {name: found.get(name) for name in ("w_1", "w_2", "w_3", "b_1", "b_2", "b_3")}

    return Bridge(read)


CONTRACTS = [
    contract(
        "feed-forward",
        steps=STEPS,
        mistakes=MISTAKES,
        inputs=cases,
        sizes=sizes(width=WIDTH, hidden=HIDDEN, activation="relu", bias=True, dropout=0.0),
        unnamed={"activation": None, "swap": False},
        variants=[{"activation": name, "swap": swap} for swap in (False, True) for name in ACTIVATION_NAMES],
        read_weights=read_weights,
    )
]
