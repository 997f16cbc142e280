"""Which tokens decided: how much each of them spoke for an answer, found in two ways that need not agree.

Gradient × input: Σ ∂score/∂x ⊙ x over the vector x of a token, as the encoder reads it. Leave-one-out: the score of the
whole, less the score without the token. Both are in the unit of the score.

A bag of words gives every token a share of its sums, and both ways take that share. With a linear head they are equal;
with counts of single words, a text without the token scores exactly that much less. TF-IDF would also weigh the other
words anew, for the text has become shorter: here they keep their weights.
"""

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from glassformer.config.arrays import Array
from glassformer.config.errors import Misuse
from glassformer.encoders.base import Encoder
from glassformer.inspection.arrays import numbers_of
from glassformer.inspection.occlusion import Inputs, parts_of, staying, without_each
from glassformer.models.inputs import FlatColumns, FlatPixels
from glassformer.models.reader import BagPredictor, Predictor
from glassformer.models.token_model import LanguageModel, Seq2Seq

Which = int | Sequence[int] | None
"""What is explained: a class; the next token, or those after each of the last tokens; None: a regressor's number."""
Shares = Float[Array, "T"]
Matrix = Float[Array, "T S"]


def score_of(scores: Tensor, which: Which) -> Float[Tensor, "B"]:
    """What is explained, of the scores that a model gives.

    A class: its score above the mean of the others'. Where two share one output it is that of class 1, and class 0 has
    its opposite. Tokens: the sum of their log-probabilities, the last of them after the last token.
    """
    if scores.dim() == 3:
        ids = torch.tensor(_tokens(which), device=scores.device)
        logs = scores[:, -len(ids) :].log_softmax(-1)
        return logs.gather(-1, ids.expand(len(logs), -1).unsqueeze(-1)).sum((1, 2))
    if scores.shape[1] == 1:
        return -scores[:, 0] if which == 0 else scores[:, 0]
    assert isinstance(which, int)
    others = (scores.sum(1) - scores[:, which]) / (scores.shape[1] - 1)
    return scores[:, which] - others


def score_in_words(model: nn.Module, which: Which, answer: str, *, against: str = "") -> str:
    """What is explained; `against`: the other class, where there are two, which may share one output."""
    if isinstance(model, LanguageModel | Seq2Seq):
        return f"the log-probability of '{answer}'"
    if which is None:
        return "the number that the model gives, in spreads of the training part"
    beside = f"against '{against}'" if against else "above the mean of the others'"
    return f"the score of '{answer}' {beside}"


def gradient_times_input(model: nn.Module, inputs: Inputs, which: Which) -> Shares:
    """For each vector that the encoder reads (a translator's: of the source), of the first example.

    A row that is read as one vector has a number for each column, an image that is has one for each pixel.
    """
    with _gradients():
        if isinstance(model, BagPredictor):
            states = model.states(*_fresh(inputs)).detach()
            features = model.pool(states).requires_grad_()
            (slope,) = torch.autograd.grad(score_of(model.head(features), which)[0], features)
            return numbers_of((slope.unsqueeze(1) * states)[0].sum(-1))
        with _cut_loose(_place(model)) as vectors:
            score = score_of(model(*_fresh(inputs)), which)[0]
        (slope,) = torch.autograd.grad(score, vectors)
        return numbers_of(_by_part(model, inputs, (slope * vectors[0])[0]))


def translation_gradients(model: Seq2Seq, inputs: Inputs, answers: Sequence[int]) -> tuple[Matrix, Matrix]:
    """Of each answer's log-probability: what every token of the source gave it (T×S), and every one written (T×T)."""
    with _gradients(), _cut_loose(model.encoder) as source, _cut_loose(model.decoder) as target:
        logs = model(*_fresh(inputs))[0].log_softmax(-1)
        read = [*source, *target]
        rows = [
            torch.autograd.grad(logs[place, answer], read, retain_graph=True) for place, answer in enumerate(answers)
        ]
        source_shares, written_shares = (
            torch.stack([(row[side] * x)[0].sum(-1) for row in rows]) for side, x in enumerate(read)
        )
        return numbers_of(source_shares), numbers_of(written_shares)


@torch.inference_mode()
def leave_one_out(model: nn.Module, inputs: Inputs, which: Which, *, stay: Collection[int] = ()) -> Shares:
    """What the score loses without each of what `gradient_times_input` counts; NaN where nothing was left out.

    Words are removed, but for those whose ids `stay` (START, END); columns and patches are put at 0, their mean.
    """
    if isinstance(model, BagPredictor):
        states = model.states(*inputs)[:1]
        features = model.pool(states)
        lost = score_of(model.head(features), which) - score_of(model.head(features - states[0]), which)
        return numbers_of(lost.masked_fill(staying(inputs[0], stay), torch.nan))
    whole = score_of(model(*inputs), which)[0]
    out = whole.new_full((parts_of(model, inputs),), torch.nan)
    last = None
    if isinstance(model, LanguageModel):  # only what stands before the tokens that are explained
        before = len(out) - len(_tokens(which))
        last = before + 1 if before > 0 else 0
    for places, changed in without_each(model, inputs, stay=stay, last=last):
        out[places] = whole - score_of(model(*changed), which)
    return numbers_of(out)


def agreement(gradient: Shares, left_out: Shares) -> float | None:
    """The correlation of the two over what was left out; None: too few tokens to tell."""
    pairs = np.stack([gradient, left_out])[:, np.isfinite(left_out)].astype(np.float64)
    if pairs.shape[1] < 3 or (pairs.std(1) <= 1e-12 * np.abs(pairs).max(1)).any():
        return None
    one, other = pairs - pairs.mean(1, keepdims=True)
    return float(one @ other / np.sqrt((one @ one) * (other @ other)))


def _place(model: nn.Module) -> nn.Module:
    """Where the vectors pass: an encoder that reads them, or the table of a person's own model that gives them."""
    encoder = getattr(model, "encoder", None)
    if isinstance(encoder, Encoder):
        return encoder
    table = next((module for module in model.modules() if isinstance(module, nn.Embedding)), None)
    if table is None:
        raise Misuse(f"{type(model).__name__} has no encoder and no nn.Embedding: there are no vectors to look at")
    return table


@contextmanager
def _gradients() -> Iterator[None]:
    """Gradients of a model that is in use: cuDNN's recurrent layers would give them in training only."""
    with torch.inference_mode(False), torch.enable_grad(), torch.backends.cudnn.flags(enabled=False):
        yield


@contextmanager
def _cut_loose(place: nn.Module) -> Iterator[list[Tensor]]:
    """The vectors that pass here, as tensors at which gradients end."""
    leaves: list[Tensor] = []

    def loose(x: Tensor) -> Tensor:
        leaves[:] = [x.detach().requires_grad_()]
        return leaves[0]

    if isinstance(place, Encoder):
        hook = place.register_forward_pre_hook(lambda _, inputs: (loose(inputs[0]), *inputs[1:]))
    else:
        hook = place.register_forward_hook(lambda _, inputs, vectors: loose(vectors))
    try:
        yield leaves
    finally:
        hook.remove()


def _fresh(inputs: Inputs) -> Inputs:
    """Tensors from inference mode cannot be kept for a gradient; copies can."""
    return tuple(one.clone() if isinstance(one, Tensor) else one for one in inputs)


def _by_part(model: nn.Module, inputs: Inputs, products: Float[Tensor, "T d"]) -> Float[Tensor, "parts"]:
    """Summed over what belongs together: a token's vector, a column's numbers, a pixel's colours."""
    embed = model.embed if isinstance(model, Predictor) else None
    if isinstance(embed, FlatPixels):
        return products.view(inputs[0].shape[1], -1).sum(0)
    if isinstance(embed, FlatColumns):
        sizes = torch.tensor([1] * inputs[0].shape[1] + [size - 1 for size in embed.sizes], device=products.device)
        column = torch.arange(len(sizes), device=products.device).repeat_interleave(sizes)
        return products.new_zeros(len(sizes)).index_add(0, column, products[0])
    return products.sum(-1)


def _tokens(which: Which) -> list[int]:
    assert which is not None
    return [which] if isinstance(which, int) else list(which)
