"""Equivalent modules with the same weights, for operations that ONNX lacks."""

import copy
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from glassformer.bricks.attention import Attention, Memory, masked_softmax
from glassformer.bricks.bag import BagOfWords, TextWords, find_words, vector_length
from glassformer.bricks.norm import BatchNorm
from glassformer.bricks.positions import Rotation
from glassformer.bricks.recurrent import Hidden, Recurrent, Step, Trace, step_of, trace
from glassformer.encoders.recurrent import RecurrentDecoder
from glassformer.exchange.exporting import Module, tensors_of

Parts = tuple[Tensor, ...]


class WrittenOutAttention(Attention):
    """The formula of the lectures instead of the fused kernel, which does not support fully masked rows."""

    def attend(
        self,
        queries: Float[Tensor, "B h T e"],
        keys: Float[Tensor, "B k S e"],
        values: Float[Tensor, "B k S v"],
        mask: Bool[Tensor, "B S"] | Bool[Tensor, "B S S"] | None,
    ) -> Float[Tensor, "B T d"]:
        seen = None if mask is None else mask[:, None, None, None, :]
        if self.causal:
            positions = torch.arange(keys.shape[2], device=keys.device)
            past = positions <= positions.unsqueeze(1)
            seen = past if seen is None else seen & past
        batch, _, length, width = queries.shape
        groups = queries.view(batch, self.kv_heads, -1, length, width)  # grouped by key/value head
        scores = groups @ keys.unsqueeze(2).transpose(-1, -2) * self.scale
        weights = masked_softmax(scores, None if seen is None else seen.expand_as(scores))
        joined = (weights @ values.unsqueeze(2)).flatten(1, 2).transpose(1, 2).flatten(2)
        return joined if self.output is None else self.output(joined)

    def _project_all(
        self, x: Float[Tensor, "B T d"], rotation: Rotation | None
    ) -> tuple[Float[Tensor, "B h T e"], Float[Tensor, "B k T e"], Float[Tensor, "B k T v"]]:
        """Return three separate products; joining the weights would be repeated at every call."""
        return self.project_queries(x, rotation), *self.project_keys_values(x, rotation)


class EveryBatchNorm(BatchNorm):
    """Batch norm in evaluation mode, which normalises each token separately, so that padding can stay."""

    def forward(self, x: Float[Tensor, "B T d"], mask: Bool[Tensor, "B T"] | None = None) -> Float[Tensor, "B T d"]:
        out: Tensor = self.norm(x.transpose(1, 2)).transpose(1, 2)
        return out if mask is None else out.masked_fill(~mask.unsqueeze(-1), 0.0)


class WrittenOutBag(BagOfWords):
    """A bag of words with the vector of a text written out, an entry per table row.

    A text may be shorter than the longest n-gram, so it is padded for all n-grams to fit.
    """

    def forward(self, tokens: Int[Tensor, "B T"], mask: Bool[Tensor, "B T"] | None = None) -> Float[Tensor, "B out"]:
        ids, exists = self.features(tokens, mask)
        rows = F.embedding(ids, self.table.weight)
        return (self.weights(ids, exists).unsqueeze(1) @ rows).squeeze(1)

    def weights(self, ids: Int[Tensor, "B F"], real: Bool[Tensor, "B F"]) -> Float[Tensor, "B F"]:
        weights = F.embedding(ids, self.idf.unsqueeze(1)).squeeze(-1) * real
        if self.weighting == "counts":
            return weights
        squares = weights.new_zeros(ids.shape[0], self.idf.shape[0]).scatter_add(1, ids, weights).square()
        if not self.words:
            return weights / vector_length(squares)
        runs, words = vector_length(squares[:, : self.words_from]), vector_length(squares[:, self.words_from :])
        return weights / torch.where(ids < self.words_from, runs, words)

    def _lengths(self, tokens: int, most: int, least: int = 2) -> range:
        return range(least, most + 1)

    def _padded_for(self, values: Tensor, length: int) -> Tensor:
        return F.pad(values, (0, length - 1))

    def _find_words(self, tokens: Int[Tensor, "B T"], real: Bool[Tensor, "B T"]) -> TextWords:
        assert self.space is not None
        return find_words(tokens, real, self.space, most=tokens.shape[1])  # no more words than characters


def scan_tokens(
    step: Callable[[Parts, Parts], tuple[Parts, Tensor]], first: Parts, inputs: Parts, *, backwards: bool = False
) -> Float[Tensor, "B T d"]:
    """Return the outputs of `step` for all tokens.

    `step` maps the state and inputs of a token to the next state and an output; inputs are B×T×….
    """
    from torch._higher_order_ops.scan import scan  # a graph loop with a dynamic number of steps

    def step_without_aliasing(state: Any, now: Any) -> Any:
        after, out = step(tuple(state), tuple(now))
        return after, out.clone()  # state and output must not alias

    initial = tuple(part.clone(memory_format=torch.contiguous_format) for part in first)  # the layout of later states
    by_token = tuple(part.transpose(0, 1) for part in inputs)
    outputs: Tensor = scan(step_without_aliasing, initial, by_token, reverse=backwards)[1]
    return outputs.transpose(0, 1)


class ScannedRecurrent(Recurrent):
    """Recurrent layers as a loop over the steps of the lectures, with the same weights.

    Padding is skipped within the loop instead of being packed.
    """

    def forward(
        self, x: Float[Tensor, "B T i"], hidden: Hidden, mask: Bool[Tensor, "B T"] | None = None
    ) -> tuple[Float[Tensor, "B T d"], Hidden]:
        last = trace(self.cell, x, hidden, mask, _scan_layer)[-1]
        return torch.cat([way.states for way in last], -1), hidden  # exports never use the final state


def _scan_layer(step: Step, x: Tensor, first: Hidden, mask: Tensor | None, *, backwards: bool) -> Trace:
    def step_token(state: Parts, now: Parts) -> tuple[Parts, Tensor]:
        after, _ = step(now[0], state)
        if mask is not None:  # padding does not change the state
            after = tuple(torch.where(now[1], new, old) for new, old in zip(after, state, strict=True))
        return after, after[0]

    if mask is None:
        return Trace(scan_tokens(step_token, first, (x,), backwards=backwards), None, {})
    real = mask.unsqueeze(-1)
    return Trace(scan_tokens(step_token, first, (x, real), backwards=backwards) * real, None, {})


class ScannedDecoder(RecurrentDecoder):
    """The recurrent decoder with the same weights; with input feeding, attention is part of the loop."""

    def forward(
        self,
        x: Float[Tensor, "B T i"],
        mask: Bool[Tensor, "B T"] | None = None,
        *,
        memory: Memory | None = None,
        segments: Int[Tensor, "B T"] | None = None,
    ) -> Float[Tensor, "B T d"]:
        if not self.input_feeding:
            return super().forward(x, mask, memory=memory)
        assert memory is not None
        states, real = memory
        assert real is not None
        hidden = self.first(memory)
        keys = states if self.attention is None else self.attention.project_keys(states)
        cell, kinds = self.layers.cell, len(hidden)
        steps = [step_of(cell, layer, 0) for layer in range(cell.num_layers)]

        def step_token(before: Parts, now: Parts) -> tuple[Parts, Tensor]:
            # the memory is part of the state, because a loop treats the size of outer tensors as fixed
            *hidden, fed, states, real, keys = before
            h = torch.cat([now[0], fed], -1)
            after: list[Tensor] = []
            for layer, step in enumerate(steps):
                new, _ = step(h, tuple(hidden[layer * kinds : (layer + 1) * kinds]))
                h = new[0]
                after += new
            out = h
            if self.attention is not None and self.join is not None:
                context = self.attention(h.unsqueeze(1), states, real, keys).squeeze(1)
                out = torch.tanh(self.join(torch.cat([h, context], -1)))
            return (*after, out, states.clone(), real.clone(), keys.clone()), out

        first = [part[layer] for layer in range(cell.num_layers) for part in hidden]
        return scan_tokens(step_token, (*first, torch.zeros_like(first[0]), states, real, keys), (x,))


TWINS: dict[type[nn.Module], type[nn.Module]] = {
    Attention: WrittenOutAttention,
    BatchNorm: EveryBatchNorm,
    Recurrent: ScannedRecurrent,
    RecurrentDecoder: ScannedDecoder,
    BagOfWords: WrittenOutBag,
}


def twin_of(model: Module) -> Module:
    """Return a copy of the model with equivalent ONNX-compatible modules; it shares the weights."""
    copies: dict[int, Any] = {id(tensor): tensor for tensor in tensors_of(model)}
    twins = [(module, TWINS[type(module)]) for module in model.modules() if type(module) in TWINS]
    made = [(module, kind.__new__(kind)) for module, kind in twins]
    copies |= {id(module): twin for module, twin in made}  # deepcopy puts a twin in the place of each of these modules
    for module, twin in made:
        vars(twin).update(copy.deepcopy(vars(module), copies))
    return copy.deepcopy(model, copies)
