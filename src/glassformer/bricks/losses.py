"""Losses, one number per prediction.

The loss over a large vocabulary is computed in chunks, because the scores of B×T tokens and V words would be the
largest tensor of a language model. Each chunk of scores becomes its loss and gradient and is then freed: the same
numbers in a fraction of the memory.
"""

from collections.abc import Iterable
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from glassformer.bricks.kernels.gpu import kernels_work

SCORES_AT_ONCE = 2**28
"""Maximum number of scores per chunk, at a few bytes per score when compiled and up to 16 otherwise."""
LARGE_VOCABULARY = 1024
"""Vocabulary size from which a GPU uses a kernel of its own."""


def squared_loss(predicted: Float[Tensor, "..."], true: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """Return (y − t)²."""
    return (predicted - true).square()


def logistic_loss(score: Float[Tensor, "..."], true: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """Return −log σ(s) where the answer is 1 and −log (1 − σ(s)) where it is 0; s = wᵀx + b."""
    return F.binary_cross_entropy_with_logits(score, true, reduction="none")


def softmax_loss(
    scores: Float[Tensor, "*rest C"], true: Int[Tensor, "*rest"], smoothing: float = 0.0
) -> Float[Tensor, "*rest"]:
    """Return −(y[t] − log Σ exp y[i]).

    With smoothing ε, the answer has the weight 1 − ε, and ε is distributed evenly over all C classes.
    """
    log_total = torch.logsumexp(scores, -1)
    loss = log_total - scores.gather(-1, true.unsqueeze(-1)).squeeze(-1)
    if smoothing:
        loss = (1 - smoothing) * loss + smoothing * (log_total - scores.mean(-1))
    return loss


def l2_penalty(weights: Iterable[Tensor], strength: float) -> Float[Tensor, ""]:
    """Return λ ‖w‖²."""
    return strength * torch.stack([weight.square().sum() for weight in weights]).sum()


def vocabulary_loss(
    features: Float[Tensor, "N d"],
    weight: Float[Tensor, "V d"],
    true: Int[Tensor, "N"],
    *,
    bias: Float[Tensor, "V"] | None = None,
    smoothing: float = 0.0,
    at_once: int = SCORES_AT_ONCE,
) -> Float[Tensor, ""]:
    """Return the summed softmax loss of `features @ weight.T + bias`; negative answers are ignored.

    Under autocast the products use its precision; the softmax always uses float32.
    """
    features, weight = _in_precision(*_with_bias(features, weight, bias))
    return _VocabularyLoss.apply(features, weight, true, smoothing, _rows(weight, at_once))  # type: ignore[no-untyped-call]


@torch.no_grad()
def vocabulary_losses(
    features: Float[Tensor, "N d"],
    weight: Float[Tensor, "V d"],
    true: Int[Tensor, "N"],
    *,
    bias: Float[Tensor, "V"] | None = None,
    at_once: int = SCORES_AT_ONCE,
) -> Float[Tensor, "N"]:
    """Return the softmax loss at each position, without gradients."""
    features, weight = _in_precision(*_with_bias(features, weight, bias))
    rows = _rows(weight, at_once)
    parts = zip(torch.split(features, rows), torch.split(true, rows), strict=True)
    return torch.cat([_piece(part, weight, answers, 0.0, gradient=False)[0] for part, answers in parts])


def head_loss(
    head: nn.Module, features: Float[Tensor, "N d"], true: Int[Tensor, "N"], *, smoothing: float = 0.0
) -> Float[Tensor, ""]:
    """Return the summed softmax loss of a head's scores; `vocabulary_loss` if the head is a matrix."""
    weight: Tensor | None = getattr(head, "weight", None)
    if weight is not None:
        return vocabulary_loss(features, weight, true, bias=getattr(head, "bias", None), smoothing=smoothing)
    return _loss_and_gradient(head(features), true, smoothing, gradient=False)[0].sum()


@torch.no_grad()
def head_losses(head: nn.Module, features: Float[Tensor, "N d"], true: Int[Tensor, "N"]) -> Float[Tensor, "N"]:
    """Return the softmax loss of a head's scores at each position."""
    weight: Tensor | None = getattr(head, "weight", None)
    if weight is not None:
        return vocabulary_losses(features, weight, true, bias=getattr(head, "bias", None))
    return _loss_and_gradient(head(features), true, 0.0, gradient=False)[0]


def _with_bias(features: Tensor, weight: Tensor, bias: Tensor | None) -> tuple[Tensor, Tensor]:
    """Append the bias as a column of the weight, and a constant 1 to the features."""
    if bias is None:
        return features, weight
    return F.pad(features, (0, 1), value=1.0), torch.cat([weight, bias.unsqueeze(1)], 1)


def _in_precision(features: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    device = features.device.type
    if not torch.is_autocast_enabled(device):
        return features, weight
    precision = torch.get_autocast_dtype(device)
    return features.to(precision), weight.to(precision)


def _rows(weight: Tensor, at_once: int) -> int:
    """Return the positions per chunk, rounded to a multiple of 128 for matrix units."""
    rows = max(1, at_once // weight.shape[0])
    return rows - rows % 128 if rows > 128 else rows


def _piece(
    features: Tensor, weight: Tensor, true: Tensor, smoothing: float, *, gradient: bool
) -> tuple[Tensor, Tensor | None]:
    """Return the losses of some positions and, with `gradient`, the gradient of their sum by the scores."""
    scores = features @ weight.T
    large = scores.is_cuda and len(weight) >= LARGE_VOCABULARY and scores.dtype != torch.float64
    if gradient and large and kernels_work():
        return _large_loss_and_gradient(scores, true, smoothing)
    return _loss_and_gradient(scores, true, smoothing, gradient=gradient)


def _loss_and_gradient(
    scores: Tensor, true: Tensor, smoothing: float, *, gradient: bool
) -> tuple[Tensor, Tensor | None]:
    precision, scores = scores.dtype, scores.float()
    log_total = torch.logsumexp(scores, -1, keepdim=True)
    real = true >= 0
    answer = true.clamp(min=0).unsqueeze(-1)
    loss = (log_total - scores.gather(-1, answer)).squeeze(-1)
    if smoothing:
        loss = (1 - smoothing) * loss + smoothing * (log_total.squeeze(-1) - scores.mean(-1))
    loss = torch.where(real, loss, 0.0)
    if not gradient:
        return loss, None
    vocabulary = torch.arange(scores.shape[-1], device=scores.device)
    target = (vocabulary == answer) * (1 - smoothing) + smoothing / len(vocabulary)
    by_scores = ((scores - log_total).exp() - target) * real.unsqueeze(-1)
    return loss, by_scores.to(precision)


@torch.library.custom_op("glassformer::large_loss_and_gradient", mutates_args=())
def _large_loss_and_gradient(scores: Tensor, true: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
    """Use a kernel that reads each row twice, the second time from the GPU's cache."""
    from glassformer.bricks.kernels.triton_training import softmax_loss_rows

    return softmax_loss_rows(scores, true, smoothing)


@_large_loss_and_gradient.register_fake
def _fake_large_loss_and_gradient(scores: Tensor, true: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
    return scores.new_empty(scores.shape[0], dtype=torch.float32), torch.empty_like(scores)


class _VocabularyLoss(torch.autograd.Function):
    """Loss and gradients in one pass over the chunks, so that no score is computed twice."""

    @staticmethod
    def forward(ctx: Any, features: Tensor, weight: Tensor, true: Tensor, smoothing: float, rows: int) -> Tensor:
        gradient = ctx.needs_input_grad[0] or ctx.needs_input_grad[1]
        total = torch.zeros((), device=features.device)
        by_features = []
        by_weight = torch.zeros_like(weight, dtype=torch.float32) if gradient else None
        for part, answers in zip(torch.split(features, rows), torch.split(true, rows), strict=True):
            losses, by_scores = _piece(part, weight, answers, smoothing, gradient=gradient)
            total = total + losses.sum()
            if by_scores is not None and by_weight is not None:
                by_features.append(by_scores @ weight)
                by_weight = by_weight + by_scores.T @ part
        if by_weight is not None:
            ctx.save_for_backward(torch.cat(by_features), by_weight.to(weight.dtype))
        return total

    @staticmethod
    def backward(ctx: Any, *by_total: Tensor) -> tuple[Tensor, Tensor, None, None, None]:
        by_features, by_weight = ctx.saved_tensors
        scale = by_total[0]  # a float32 scalar does not change a tensor's dtype
        return by_features * scale, by_weight * scale, None, None, None
