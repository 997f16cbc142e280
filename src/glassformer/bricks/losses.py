"""Losses: how wrong a prediction is, one number for each."""

from collections.abc import Iterable

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor


def squared_loss(predicted: Float[Tensor, "..."], true: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """(y − t)²."""
    return (predicted - true).square()


def logistic_loss(score: Float[Tensor, "..."], true: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """−log σ(s) where the answer is 1, −log (1 − σ(s)) where it is 0; s = wᵀx + b."""
    return F.binary_cross_entropy_with_logits(score, true, reduction="none")


def softmax_loss(
    scores: Float[Tensor, "*rest C"], true: Int[Tensor, "*rest"], smoothing: float = 0.0
) -> Float[Tensor, "*rest"]:
    """−(y[t] − log Σ exp y[i]).

    With smoothing ε, the answer is worth 1 − ε, and ε is shared evenly among all C classes.
    """
    log_total = torch.logsumexp(scores, -1)
    loss = log_total - scores.gather(-1, true.unsqueeze(-1)).squeeze(-1)
    if smoothing:
        loss = (1 - smoothing) * loss + smoothing * (log_total - scores.mean(-1))
    return loss


def l2_penalty(weights: Iterable[Tensor], strength: float) -> Float[Tensor, ""]:
    """λ ‖w‖²."""
    return strength * torch.stack([weight.square().sum() for weight in weights]).sum()
