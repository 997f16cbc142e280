"""What a language model writes after prompts, and what it expects at each place of a text."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import torch

from glassformer.decoding.options import Sampling
from glassformer.decoding.running import LIKELIEST, Request, RunningBatch, Written
from glassformer.models.modules import LanguageModel, device_of


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
    `never`: ids that are not to be chosen. The first prompt draws by `seed`, the next by the seed after it, and so on:
    what a row writes does not depend on those beside it. An encoder made for a certain number of tokens that has used
    them up reads the last half of them again and goes on.
    """
    ends = frozenset() if end is None else frozenset([end] if isinstance(end, int) else end)
    batch = RunningBatch(model, len(prompts), max(map(len, prompts)) + most, never=never)
    batch.join({row: Request(prompt, how, most, ends, seed + row) for row, prompt in enumerate(prompts)})
    while written := batch.step():
        tokens = {row: one.token for row, one in written.items()}
        yield [None if tokens.get(row) in ends else tokens.get(row) for row in range(len(prompts))]


@dataclass(frozen=True)
class Guess:
    """What a model expects after a token."""

    best: list[tuple[int, float]]
    """The likeliest next tokens and their probabilities."""
    following: float | None
    """The probability of the token that really follows; None after the last."""


@torch.inference_mode()
def text_logprobs(model: LanguageModel, ids: Sequence[int], k: int = LIKELIEST) -> list[Written]:
    """The tokens of a text of at most the context, as if they had been written; of the first nothing is known."""
    tokens = torch.tensor(list(ids), device=device_of(model))
    logs = model(tokens.unsqueeze(0))[0, :-1].float().log_softmax(-1)
    best = logs.topk(min(k, logs.shape[-1]), -1)
    own = logs.gather(-1, tokens[1:].unsqueeze(-1)).squeeze(-1)
    after = zip(ids[1:], own.tolist(), best.indices.tolist(), best.values.tolist(), strict=True)
    return [
        Written(ids[0]),
        *(Written(id, log, tuple(zip(chosen, values, strict=True))) for id, log, chosen, values in after),
    ]


@torch.inference_mode()
def guesses(model: LanguageModel, ids: Sequence[int], k: int = 5) -> list[Guess]:
    """What the model expects after each token, in one pass over at most the context."""
    tokens = torch.tensor(list(ids), device=device_of(model))
    probabilities = model(tokens.unsqueeze(0))[0].float().softmax(-1)
    best = probabilities.topk(min(k, probabilities.shape[-1]), -1)
    following = probabilities[:-1].gather(-1, tokens[1:].unsqueeze(-1)).squeeze(-1).tolist()
    return [
        Guess(list(zip(chosen, values, strict=True)), real)
        for chosen, values, real in zip(best.indices.tolist(), best.values.tolist(), [*following, None], strict=True)
    ]
