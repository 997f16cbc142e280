"""The one decoding loop: a prompt in one pass, then token after token over `extend`, for every causal encoder."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from glassformer.decoding.sampling import Sampling, choose
from glassformer.encoders.base import State
from glassformer.models.modules import LanguageModel


@torch.inference_mode()
def generate(
    model: LanguageModel,
    prompts: Sequence[Sequence[int]],
    how: Sampling,
    *,
    most: int,
    end: int | Collection[int] | None = None,
    never: Sequence[int] = (),
    seed: int = 0,
) -> Iterator[list[int | None]]:
    """For each step, the next token of each prompt; None once that row has ended.

    Prompts may be of different lengths, but hold at least one token. `end`: what ends a row, or each of several.
    `never`: ids that are not to be chosen. An encoder made for a certain number of tokens that has used them up reads
    the last half of them again and goes on.
    """
    rows = [list(prompt) for prompt in prompts]
    ends = {end} if end is None or isinstance(end, int) else set(end)
    device = model.head.weight.device
    generator = torch.Generator().manual_seed(seed)
    loop = _Loop(model, device, len(rows), most)
    seen = _seen(rows, model.head.weight.shape[0], device) if how.repetition_penalty != 1.0 else None
    open_rows = [True] * len(rows)
    forbidden = torch.tensor(list(never), dtype=torch.long, device=device)
    features = loop.read(rows)
    for left in range(most, 0, -1):
        scores = model.head(features)
        if len(forbidden):
            scores.index_fill_(-1, forbidden, -torch.inf)
        tokens = choose(scores, how, generator, seen)
        chosen = tokens.tolist()
        if seen is not None:
            seen[torch.arange(len(rows), device=device), tokens] = True
        for row, token in enumerate(chosen):
            rows[row].append(token)
            open_rows[row] = open_rows[row] and token not in ends
        yield [token if still else None for token, still in zip(chosen, open_rows, strict=True)]
        if left == 1 or not any(open_rows):
            return
        features = loop.next(rows, tokens)


def _seen(rows: list[list[int]], vocab: int, device: torch.device) -> Tensor:
    seen = torch.zeros(len(rows), vocab, dtype=torch.bool, device=device)
    for row, tokens in enumerate(rows):
        seen[row, tokens] = True
    return seen


class _Loop:
    """The encoder's state, and what to do when its room is used up."""

    def __init__(self, model: LanguageModel, device: torch.device, rows: int, most: int) -> None:
        self.model = model
        self.device = device
        self.most = most
        self.starts = [0] * rows
        """Where what each row still remembers begins: one forgets when it must itself, whatever stands beside it."""
        self.limit = model.encoder.limit
        self.state: State
        self.left = 0
        """Tokens there is still room for."""

    def read(self, rows: list[list[int]]) -> Tensor:
        """Features after the last token of each row; the rows, or their ends, are read in one pass."""
        for number, row in enumerate(rows):
            if self.limit is not None and len(row) - self.starts[number] > self.limit:
                self.starts[number] = len(row) - max(1, self.limit // 2)
        rows = [row[start:] for row, start in zip(rows, self.starts, strict=True)]
        longest = max(map(len, rows))
        max_tokens = longest + self.most if self.limit is None else min(longest + self.most, self.limit)
        self.left = max_tokens - longest
        ids = torch.zeros(len(rows), longest, dtype=torch.long)
        for number, row in enumerate(rows):
            ids[number, : len(row)] = torch.tensor(row)
        lengths = torch.tensor([len(row) for row in rows], device=self.device)
        mask = None
        if min(map(len, rows)) < longest:
            mask = torch.arange(longest, device=self.device) < lengths.unsqueeze(1)
        self.state = self.model.init_state(len(rows), max_tokens)
        features = self.model.extend(ids.to(self.device), self.state, mask)
        return features[torch.arange(len(rows), device=self.device), lengths - 1]

    def next(self, rows: list[list[int]], tokens: Tensor) -> Tensor:
        """Features after one more token, which the rows already hold."""
        if not self.left:
            return self.read(rows)
        self.left -= 1
        return self.model.extend(tokens.unsqueeze(1), self.state)[:, -1]


@dataclass(frozen=True)
class Guess:
    """What a model expects after a token."""

    best: list[tuple[int, float]]
    """The likeliest next tokens and their probabilities."""
    following: float | None
    """The probability of the token that really follows; None after the last."""


@torch.inference_mode()
def guesses(model: LanguageModel, ids: Sequence[int], k: int = 5) -> list[Guess]:
    """What the model expects after each token, in one pass over at most the context."""
    tokens = torch.tensor(list(ids), device=model.head.weight.device)
    probabilities = model(tokens.unsqueeze(0))[0].float().softmax(-1)
    best = probabilities.topk(min(k, probabilities.shape[-1]), -1)
    following = probabilities[:-1].gather(-1, tokens[1:].unsqueeze(-1)).squeeze(-1).tolist()
    return [
        Guess(list(zip(chosen, values, strict=True)), real)
        for chosen, values, real in zip(best.indices.tolist(), best.values.tolist(), [*following, None], strict=True)
    ]
