"""The feed-forward part: two linear maps with a non-linearity between them, or gated."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.bricks.feed_forward import ACTIVATIONS
from glassformer.teaching.brick_check.contract import Case, Contract, Facts, Offer, Scope, Steps, mapped, numbers
from glassformer.teaching.brick_check.kinds.names import HIDDENS, WIDTHS
from glassformer.teaching.brick_check.weights import Bridge
from glassformer.teaching.exercise import StudentError

BATCH, TOKENS, WIDTH, HIDDEN = 2, 5, 7, 13


def cases(facts: Facts, drawn: torch.Generator) -> list[Case]:
    return [Case("plain", facts.options, {"x": numbers(BATCH, TOKENS, WIDTH, drawn=drawn)})]


def active(s: Scope) -> Tensor:
    out = ACTIVATIONS[s.activation](s.hidden)
    return out if s.w_3 is None else out * mapped(s.x, s.w_3, s.b_3)


STEPS: Steps = {
    "hidden": lambda s: mapped(s.x, s.w_1, s.b_1),
    "active": active,
    "output": lambda s: mapped(s.active, s.w_2, s.b_2),
}
MISTAKES: list[tuple[str, dict[str, Any]]] = [
    (
        "there is no non-linearity between the two maps: together they are one linear map",
        {"active": lambda s: s.hidden},
    ),
    (
        "there is a non-linearity after the second map too",
        {"output": lambda s: ACTIVATIONS[s.activation](mapped(s.active, s.w_2, s.b_2))},
    ),
    (
        "the non-linearity stands after the second map, not between the two",
        {"active": lambda s: s.hidden, "output": lambda s: ACTIVATIONS[s.activation](mapped(s.active, s.w_2, s.b_2))},
    ),
    (
        "the non-linearity stands before the first map",
        {"hidden": lambda s: mapped(ACTIVATIONS[s.activation](s.x), s.w_1, s.b_1), "active": lambda s: s.hidden},
    ),
    ("the non-linearity is a softmax over the tokens", {"active": lambda s: s.hidden.softmax(1)}),
    ("the non-linearity is a softmax", {"active": lambda s: s.hidden.softmax(-1)}),
    (
        "the input is added inside (a residual connection): that is the block's work",
        {"output": lambda s: mapped(s.active, s.w_2, s.b_2) + s.x},
    ),
    ("the second bias is forgotten", {"output": lambda s: mapped(s.active, s.w_2)}),
    ("the first bias is forgotten", {"hidden": lambda s: mapped(s.x, s.w_1)}),
]


def read_weights(module: nn.Module, options: Mapping[str, Any], turned: set[str]) -> Bridge:
    """By their shapes: d → hidden, once or twice, and hidden → d."""
    matrices = {name: one for name, one in module.named_parameters() if one.dim() == 2}
    biases = {name: one for name, one in module.named_parameters() if one.dim() == 1}
    flips = {name: name in turned for name in matrices}
    upright = {name: tuple(one.T.shape if flips[name] else one.shape) for name, one in matrices.items()}
    into = [name for name, (rows, columns) in upright.items() if columns == WIDTH and rows != WIDTH]
    back = [name for name, (rows, columns) in upright.items() if rows == WIDTH and columns != WIDTH]
    if (
        len(back) != 1
        or len(into) not in (1, 2)
        or len(into) + len(back) + len(biases) != len(list(module.parameters()))
    ):
        here = ", ".join(f"{name} {'×'.join(map(str, one.shape))}" for name, one in module.named_parameters())
        raise StudentError(
            f"weights expected: {WIDTH} → hidden (two with a gate) and hidden → {WIDTH}; found: {here or 'none'}"
        )
    if options["swap"]:
        into = into[::-1]
    places = dict(zip(("w_1", "w_3"), into, strict=False)) | {"w_2": back[0]}
    homes = {name.removesuffix("weight"): place for place, name in places.items()}
    for name, one in biases.items():
        by_name = homes.get(name.removesuffix("bias"))
        places[(by_name or ("w_2" if len(one) == WIDTH else "w_1")).replace("w", "b")] = name

    def read(tensors: Mapping[str, Tensor]) -> dict[str, Tensor | None]:
        found = {place: tensors[name].T if flips.get(name) else tensors[name] for place, name in places.items()}
        return {name: found.get(name) for name in ("w_1", "w_2", "w_3", "b_1", "b_2", "b_3")}

    return Bridge(read)


FEED_FORWARD = Contract(
    name="feed-forward",
    signature="x B×T×d → B×T×d",
    pattern=r".*feedforward.*|.*mlp.*|.*ffn?|.*perceptron.*|.*glu",
    steps=STEPS,
    mistakes=MISTAKES,
    inputs=cases,
    sizes={
        "width": Offer(WIDTH, tuple(name for name in WIDTHS if name not in HIDDENS)),
        "hidden": Offer(HIDDEN, HIDDENS),
        "activation": Offer("relu", ("act", "nonlinearity"), always=False),
        "bias": Offer(True, ("use_bias",)),
        "dropout": Offer(0.0, ("p", "drop")),
    },
    unnamed={"activation": None, "swap": False},
    arguments={"x": ("input", "h", "inputs")},
    variants=[
        {"activation": name, "swap": swap}
        for swap in (False, True)
        for name in ("relu", "gelu", "gelu-tanh", "silu", "tanh", "sigmoid", "relu2")
    ],
    says={"activation": "its non-linearity is {}"},
    causal="always",
    permutes="with",
    learns=TOKENS,
    read_weights=read_weights,
)
CONTRACTS = [FEED_FORWARD]
