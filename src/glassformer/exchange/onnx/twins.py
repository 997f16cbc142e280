"""Models as a graph can hold them: the same weights, and another way to compute where ours has no operator there."""

import copy

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from glassformer.bricks.attention import Attention, masked_softmax
from glassformer.bricks.bag import BagOfWords
from glassformer.bricks.norm import BatchNorm
from glassformer.bricks.positions import Rotation
from glassformer.bricks.recurrent import Recurrent
from glassformer.encoders.recurrent import RecurrentDecoder
from glassformer.exchange.exporting import Module, tensors_of
from glassformer.exchange.onnx.bag import WrittenOutBag
from glassformer.exchange.onnx.recurrent import ScannedDecoder, ScannedRecurrent


class WrittenOutAttention(Attention):
    """The lectures' formula in place of the fused kernel, which knows no row with nothing to see."""

    def attend(
        self,
        queries: Float[Tensor, "B h T e"],
        keys: Float[Tensor, "B k S e"],
        values: Float[Tensor, "B k S v"],
        mask: Bool[Tensor, "B S"] | Bool[Tensor, "B S S"] | None,
    ) -> Float[Tensor, "B T d"]:
        seen = None if mask is None else mask[:, None, None, None, :]
        if self.causal:
            here = torch.arange(keys.shape[2], device=keys.device)
            past = here <= here.unsqueeze(1)
            seen = past if seen is None else seen & past
        batch, _, length, width = queries.shape
        groups = queries.view(batch, self.kv_heads, -1, length, width)  # the heads that share keys
        scores = groups @ keys.unsqueeze(2).transpose(-1, -2) * self.scale
        weights = masked_softmax(scores, None if seen is None else seen.expand_as(scores))
        joined = (weights @ values.unsqueeze(2)).flatten(1, 2).transpose(1, 2).flatten(2)
        return joined if self.output is None else self.output(joined)

    def _project_all(
        self, x: Float[Tensor, "B T d"], rotation: Rotation | None
    ) -> tuple[Float[Tensor, "B h T e"], Float[Tensor, "B k T e"], Float[Tensor, "B k T v"]]:
        """Three products: one of joined weights would join them at every call."""
        return self.project_queries(x, rotation), *self.project_keys_values(x, rotation)


class EveryBatchNorm(BatchNorm):
    """The norm in use: every token is normalised by itself, so that padding need not be taken out first."""

    def forward(self, x: Float[Tensor, "B T d"], mask: Bool[Tensor, "B T"] | None = None) -> Float[Tensor, "B T d"]:
        out: Tensor = self.norm(x.transpose(1, 2)).transpose(1, 2)
        return out if mask is None else out.masked_fill(~mask.unsqueeze(-1), 0.0)


TWINS: dict[type[nn.Module], type[nn.Module]] = {
    Attention: WrittenOutAttention,
    BatchNorm: EveryBatchNorm,
    Recurrent: ScannedRecurrent,
    RecurrentDecoder: ScannedDecoder,
    BagOfWords: WrittenOutBag,
}


def twin_of(model: Module) -> Module:
    """A copy that computes the same with what a graph has; it shares the weights."""
    twin = copy.deepcopy(model, {id(tensor): tensor for tensor in tensors_of(model)})
    for module in twin.modules():
        if type(module) in TWINS:
            module.__class__ = TWINS[type(module)]
    return twin
