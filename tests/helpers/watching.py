"""Models under capture, and what holds of all that is captured."""

from typing import Any

import torch
from torch import nn

from glassformer.bricks.attention import Attention, attend_written_out
from glassformer.config.resolve import resolve
from glassformer.inspection.capture import Seen, capture
from glassformer.models.build import build_language_model
from glassformer.models.modules import LanguageModel
from helpers.support import randomise, same

B, T, S, VOCAB = 3, 6, 7, 11
MASK = torch.arange(T) < torch.tensor([T, 4, 1])[:, None]


def no_hooks(model: nn.Module) -> bool:
    return not any(
        one._forward_hooks or one._forward_pre_hooks or one._forward_hooks_always_called for one in model.modules()
    )


def watched(model: nn.Module, *inputs: Any, **more: Any) -> Seen:
    """What capture saw, after it was made sure that looking changed nothing."""
    before = model(*inputs, **more)
    with capture(model) as seen:
        looked_at = model(*inputs, **more)
    assert torch.equal(before, looked_at)
    assert torch.equal(seen["logits"], before)
    assert no_hooks(model)
    return seen


def check_attention(model: nn.Module, seen: Seen) -> None:
    """Rows of weights sum to 1, or to 0 where nothing is to be seen; what is hidden has none; the kernel agrees."""
    for path, module in model.named_modules():
        if not isinstance(module, Attention):
            continue
        at = f"{path}." if path else ""
        weights, scores = seen[f"{at}weights"], seen[f"{at}scores"]
        total = weights.sum(-1)
        assert ((total - 1).abs() < 1e-6).logical_or(total == 0).all()
        assert (weights >= 0).all()
        assert (weights[scores == -torch.inf] == 0).all()
        if module.causal:
            future = torch.ones(weights.shape[-2:]).triu(1).bool()
            assert (weights[..., future] == 0).all()
        same(attend_written_out(weights, seen[f"{at}values"]), seen[f"{at}mixed"])


def language_model(encoder: str = "transformer", **flags: Any) -> LanguageModel:
    said = {f"model.{name}": value for name, value in {"encoder": encoder, "width": 16, "layers": 2, **flags}.items()}
    settings = resolve({}, {"model.context": 12, **said}).model
    return randomise(build_language_model(settings, vocab=VOCAB)).eval()
