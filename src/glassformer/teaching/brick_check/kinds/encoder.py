"""An encoder of one's own: there is no reference for its numbers, but much that must hold."""

import torch

from glassformer.checks.result import Deviation, DoesNotApply
from glassformer.teaching.brick_check.contract import Case, Contract, Facts, Offer, numbers, ragged
from glassformer.teaching.brick_check.forward import apart
from glassformer.teaching.brick_check.kinds.names import CONTEXTS, HEAD_NAMES, HIDDENS, MASK_NAMES, WIDTHS
from glassformer.teaching.brick_check.rows import Fails
from glassformer.teaching.brick_check.subject import Subject
from glassformer.teaching.exercise import TOLERANCE

BATCH, TOKENS, WIDTH = 2, 5, 12


def cases(facts: Facts, drawn: torch.Generator) -> list[Case]:
    x, real = numbers(BATCH, TOKENS, WIDTH, drawn=drawn), ragged(BATCH, TOKENS)
    causal = bool(getattr(facts.module, "causal", True))
    out = []
    for hidden in (True, False) if "causal" in facts.built_with else (causal,):
        options = {**facts.options, "causal": hidden}
        out.append(Case("plain", options, {"x": x, "mask": None}))
        if "mask" in facts.takes:
            padded = {"x": x.masked_fill(~real.unsqueeze(-1), 3.0), "mask": real}
            out.append(Case("padded", options, padded, real=real))
    return out


ENCODER = Contract(
    name="encoder",
    signature="x B×T×d, mask B×T → B×T×d",
    pattern=r".*encoder.*",
    steps={},
    inputs=cases,
    sizes={
        "width": Offer(WIDTH, tuple(name for name in WIDTHS if name not in HIDDENS)),
        "layers": Offer(2, ("num_layers", "n_layers", "depth", "n_layer", "blocks")),
        "heads": Offer(3, HEAD_NAMES),
        "hidden": Offer(24, HIDDENS),
        "context": Offer(16, CONTEXTS, always=False),
        "causal": Offer(True, ("is_causal", "masked")),
        "dropout": Offer(0.0, ("p", "drop")),
        "input_width": Offer(WIDTH, ("input_size",), always=False),
    },
    arguments={"x": ("input", "inputs"), "mask": MASK_NAMES},
    causal="encoder",
    learns=TOKENS,
)


def cached(subject: Subject) -> Deviation:
    """`extend` in several pieces, and `forward` on the whole."""
    if subject.contract is not ENCODER:
        raise DoesNotApply("it has no `extend`")
    case = next((one for one in subject.plain_cases() if one.options["causal"]), None)
    if case is None:
        raise DoesNotApply("it is not causal")
    module, x = subject.with_weights(case.options), case.inputs["x"]
    extend, init_state = getattr(module, "extend", None), getattr(module, "init_state", None)
    if extend is None or init_state is None:
        raise DoesNotApply("it has no `extend`")
    whole, most = subject.call(case, module).output, 0.0
    for pieces in ([TOKENS], [1] * TOKENS, [3, 1, 1]):
        with torch.no_grad():
            state = subject.safely(init_state, len(x), TOKENS)
            out = torch.cat([subject.safely(extend, piece, state) for piece in x.split(pieces, 1)], 1)
        if (far := apart(whole, out)) > TOLERANCE:
            raise Fails(f"extend in pieces of {', '.join(map(str, pieces))} is {far:.2g} off forward on the whole")
        most = max(most, far)
    return Deviation(most, "extend in pieces of 5, of 1, of 3, 1, 1 = forward on the whole")
