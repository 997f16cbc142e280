"""Attention as a class, with its maps and heads."""

from typing import Any

import torch

from glassformer.teaching.brick_check.contract import Case, Contract, Facts, Offer, numbers, ragged
from glassformer.teaching.brick_check.kinds.attention_steps import MISTAKES, STEPS
from glassformer.teaching.brick_check.kinds.names import CONTEXTS, HEAD_NAMES, MASK_NAMES, WIDTHS
from glassformer.teaching.brick_check.weights import Weight

BATCH, TOKENS, HEADS, HEAD_WIDTH = 2, 5, 3, 7
WIDTH = HEADS * HEAD_WIDTH
LOUD = 3.0
"""What stands in padding."""

SIZES = {
    "width": Offer(WIDTH, WIDTHS),
    "heads": Offer(HEADS, HEAD_NAMES),
    "causal": Offer(False, ("is_causal", "masked", "autoregressive")),
    "head_width": Offer(
        HEAD_WIDTH, ("head_dim", "d_k", "d_head", "head_size", "d_v", "dim_head", "dk", "dv"), always=False
    ),
    "context": Offer(16, CONTEXTS, always=False),
    "bias": Offer(True, ("qkv_bias", "use_bias")),
    "dropout": Offer(0.0, ("p", "attn_dropout", "dropout_p", "drop", "attn_pdrop", "resid_pdrop", "drop_rate")),
    "batch_first": Offer(True),
}


def class_cases(facts: Facts, drawn: torch.Generator) -> list[Case]:
    known = facts.options["causal"]
    kinds = [False, True] if known is None or "causal" in facts.built_with else [known]
    cases = []
    for hidden in kinds:
        options = {**facts.options, "causal": hidden}
        x = numbers(BATCH, TOKENS, WIDTH, drawn=drawn)
        what = "causal" if hidden else "plain"
        cases.append(Case(what, options, {"x": x, "mask": None}))
        if "mask" in facts.takes:
            real = ragged(BATCH, TOKENS)
            padded = x.masked_fill(~real.unsqueeze(-1), LOUD)
            cases.append(
                Case("causal and padded" if hidden else "padded", options, {"x": padded, "mask": real}, real=real)
            )
    return cases


def _map(letter: str, called: str, aliases: str, **more: Any) -> Weight:
    return Weight(f"w_{letter}", called, aliases.split(), bias=f"b_{letter}", **more)


ATTENTION = Contract(
    name="attention",
    signature="x B×T×d, mask B×T → B×T×d",
    pattern=r".*attention.*|.*attn.*|mha|head",
    steps=STEPS,
    mistakes=MISTAKES,
    inputs=class_cases,
    sizes=SIZES,
    unnamed={"heads": 1, "causal": False},
    arguments={
        "x": ("query", "key", "value", "q", "k", "v", "queries", "keys", "values", "input", "inputs", "hidden_states"),
        "mask": MASK_NAMES,
    },
    weights=[
        _map("q", "query", "q query queries"),
        _map("k", "key", "k key keys"),
        _map("v", "value", "v value values"),
        Weight(
            "w_o",
            "output",
            [
                "o",
                "out",
                "output",
                "outputs",
                "final",
                "unify_heads",
                "unifyheads",
                "mix",
                "combine",
                "proj",
                "c_proj",
                "projection",
                "fc",
                "dense",
                "linear",
                "concat",
                "wo",
            ],
            bias="b_o",
            needed=lambda options: options["heads"] > 1,
        ),
    ],
    sources={
        "queries": "w_q",
        "keys": "w_k",
        "values": "w_v",
        "mixed": "into w_o",
        "scores": "into softmax",
        "weights": "softmax",
    },
    causal="option",
    permutes="with",
    learns=TOKENS,
)
CONTRACTS = [ATTENTION]
