"""Texts that a language model writes at once, token by token. Each row of the batch is independent of the others.

Every row has its own prompt, seed, sampling settings and end; one may join or leave while others are being written, and
changes nothing of them.
"""

from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from glassformer.bricks.own import is_own
from glassformer.config.messages import say
from glassformer.decoding.options import Sampling
from glassformer.decoding.sampling import GREEDY, SamplingPlan, SamplingRows, choose
from glassformer.encoders.base import State
from glassformer.models.cuda_graph import Recorder, extent_of
from glassformer.models.modules import LanguageModel, device_of

DRAWS = 256
"""Random numbers of a row that are drawn at once. They are drawn on the CPU: a seed gives the same text anywhere."""
AHEAD = 8
"""Steps that a GPU is given before the first of them is waited for."""
LIKELIEST = 20
"""The likeliest tokens that can be asked for beside the one that was chosen."""
SMALLEST_EXTENT = 128
"""Columns of a cache that a recorded step looks at, at least."""


@dataclass(frozen=True)
class Request:
    """A text to be written."""

    prompt: Sequence[int]
    """At least one token."""
    how: Sampling
    most: int
    """Tokens at most."""
    ends: Collection[int] = ()
    """Tokens that end it."""
    seed: int = 0
    logprobs: bool = False
    """Whether its tokens come with their log-probabilities."""


class Written(NamedTuple):
    """A token that was written."""

    token: int
    logprob: float | None = None
    """What the model gave to it, before temperature, cuts and penalties; where that was asked for."""
    likeliest: tuple[tuple[int, float], ...] = ()
    """The likeliest tokens in its place and their log-probabilities, then."""


@dataclass(eq=False)
class _Row:
    """One that is being written."""

    request: Request
    generator: torch.Generator
    tokens: list[int]
    """The prompt, and what is known of what was written."""
    start: int = 0
    """Where what it still remembers begins."""
    steps: int = 0
    """Tokens that the device was asked for."""
    over: bool = False

    @property
    def length(self) -> int:
        """How many tokens it remembers once all that was asked for is there; the last of them is still to be read."""
        return len(self.request.prompt) + self.steps - self.start

    @property
    def wants_more(self) -> bool:
        return not self.over and self.steps < self.request.most


@dataclass(frozen=True)
class _Flight:
    """A step that was asked for."""

    rows: list[_Row | None]
    tokens: Int[Tensor, "B"]
    logprobs: tuple[Tensor, Tensor] | None
    """Of the token and then the likeliest ones: ids and log-probabilities."""
    arrived: torch.cuda.Event | None = field(default=None)

    def land(self) -> list[Written]:
        if self.arrived is not None:
            self.arrived.synchronize()
        tokens = self.tokens.tolist()
        if self.logprobs is None:
            return [Written(token) for token in tokens]
        pairs = [list(zip(*row, strict=True)) for row in zip(*(part.tolist() for part in self.logprobs), strict=True)]
        return [Written(token, own, tuple(best)) for token, ((_, own), *best) in zip(tokens, pairs, strict=True)]


class RunningBatch:
    """So many rows of texts that are being written."""

    def __init__(
        self,
        model: LanguageModel,
        rows: int,
        room: int,
        *,
        never: Sequence[int] = (),
        fixed: bool | None = None,
    ) -> None:
        """`room`: tokens that a row may hold at once, at most those that the model was made for. `never`: ids that are
        not to be chosen. `fixed`: all is always held in place, with a length for each row, as a GPU needs it to replay
        a step (unset: on a CUDA GPU alone).
        """
        self.model = model
        self.device = device_of(model)
        self.limit = model.encoder.limit
        self.room = room if self.limit is None else min(room, self.limit)
        self.rows: list[_Row | None] = [None] * rows
        self._flights: deque[_Flight] = deque()
        vocab = model.head.out_features
        self._never = torch.tensor(list(never), dtype=torch.long, device=self.device)
        self._token = torch.zeros(rows, dtype=torch.long, device=self.device)
        self._draws = torch.zeros(rows, DRAWS, device=self.device)
        self._drawn = torch.zeros(rows, 1, dtype=torch.long, device=self.device)
        self._seen = torch.zeros(rows, vocab, dtype=torch.bool, device=self.device)
        self._counts = torch.zeros(rows, vocab, device=self.device)
        shown = 1 + min(LIKELIEST, vocab)
        self._logprob_ids = torch.zeros(rows, shown, dtype=torch.long, device=self.device)
        self._logprobs = torch.zeros(rows, shown, device=self.device)
        self._wants_logprobs = False
        self._how = SamplingRows.of([GREEDY] * rows, self.device)
        self._plan = SamplingPlan.of([])
        self.state: State = model.init_state(rows, self.room)
        self._fixed = self.device.type == "cuda" if fixed is None else fixed
        self._fixable = self.state.fix(self.room)
        self._recorder = Recorder(self._advance, self.device, records=not is_own(model))
        if self._fixed and not self._fixable:
            say("this encoder's state cannot be held in place: its steps are not replayed, which takes longer")

    # --- who writes ---

    @property
    def free(self) -> list[int]:
        """The rows in which nobody writes."""
        return [number for number, row in enumerate(self.rows) if row is None]

    @torch.inference_mode()
    def join(self, requests: Mapping[int, Request]) -> None:
        """Texts take free rows. Their prompts are read in one pass."""
        for number, request in requests.items():
            assert self.rows[number] is None
            row = _Row(request, torch.Generator().manual_seed(request.seed), list(request.prompt))
            self.rows[number] = row
            self._drawn[number] = 0
            if request.how.repetition_penalty != 1.0:
                self._seen[number] = False
                self._seen[number, row.tokens] = True
            self._counts[number] = 0
        settings = [GREEDY if row is None else row.request.how for row in self.rows]
        self._plan = SamplingPlan.of(settings)
        self._wants_logprobs = any(row is not None and row.request.logprobs for row in self.rows)
        for values, new in zip(self._how, SamplingRows.of(settings, self.device), strict=True):
            values.copy_(new)
        self._read(list(requests))

    def leave(self, number: int) -> None:
        """The row is free: what was being written there ends."""
        row = self.rows[number]
        assert row is not None
        row.over = True
        self.rows[number] = None

    # --- writing ---

    @torch.inference_mode()
    def step(self) -> dict[int, Written]:
        """The next token of each row in which one is written; nothing where there is none. After its last token a row
        is free, and after one that ends it.
        """
        written: dict[int, Written] = {}
        while not written:
            while not self._flights or (self.device.type == "cuda" and len(self._flights) < AHEAD):
                if not self._launch():
                    break
            if not self._flights:
                break
            flight = self._flights.popleft()
            for number, (row, one) in enumerate(zip(flight.rows, flight.land(), strict=True)):
                if row is None or row.over:  # or was sent away after the step was asked for
                    continue
                row.tokens.append(one.token)
                written[number] = one if row.request.logprobs else Written(one.token)
                if one.token in row.request.ends or len(row.tokens) == len(row.request.prompt) + row.request.most:
                    self.leave(number)
        return written

    def _launch(self) -> bool:
        """Ask for a step, where a row wants one and all that it needs is known."""
        rows = [row if row is not None and row.wants_more else None for row in self.rows]
        if not any(rows):
            return False
        full = [number for number, row in enumerate(rows) if row is not None and self._is_full(row)]
        if full:
            if self._flights:  # what is to be read again is still being written
                return False
            self._read(full)
        for number, row in enumerate(rows):
            if row is not None:
                if row.steps % DRAWS == 0 and not row.request.how.greedy:
                    self._draws[number] = torch.rand(DRAWS, generator=row.generator)
                row.steps += 1
        if self.state.in_place:
            longest = min(self.room, max(row.length for row in rows if row is not None))
            extent = extent_of(longest, self.room, smallest=SMALLEST_EXTENT) if self._fixed else longest
            self.state.fix(extent)
            self._recorder.run((extent, self._plan, self._wants_logprobs))
        else:
            self._advance()
        self._flights.append(self._flight(rows))
        return True

    def _advance(self) -> None:
        """One token more of every row, all where the model computes."""
        features = self.model.extend(self._token.unsqueeze(1), self.state)[:, -1]
        scores = self.model.head(features)
        allowed = scores.index_fill(-1, self._never, -torch.inf) if len(self._never) else scores
        draw = self._draws.gather(1, self._drawn) if self._plan.random else self._draws[:, :1]
        tokens = choose(allowed, self._how, self._plan, draw, self._seen, self._counts)
        if self._plan.random:
            self._drawn.add_(1).remainder_(DRAWS)
        if self._plan.penalty:
            self._seen.scatter_(1, tokens.unsqueeze(1), True)
        if self._plan.counts:
            self._counts.scatter_add_(1, tokens.unsqueeze(1), torch.ones_like(draw))
        if self._wants_logprobs:
            logprobs = scores.float().log_softmax(-1)
            best = logprobs.topk(self._logprobs.shape[1] - 1, -1)
            self._logprob_ids.copy_(torch.cat([tokens.unsqueeze(1), best.indices], 1))
            self._logprobs.copy_(torch.cat([logprobs.gather(1, tokens.unsqueeze(1)), best.values], 1))
        self._token.copy_(tokens)

    def _flight(self, rows: list[_Row | None]) -> _Flight:
        logprobs = (self._copy(self._logprob_ids), self._copy(self._logprobs)) if self._wants_logprobs else None
        tokens = self._copy(self._token)
        if self.device.type != "cuda":
            return _Flight(rows, tokens, logprobs)
        arrived = torch.cuda.Event()  # type: ignore[no-untyped-call]
        arrived.record()
        return _Flight(rows, tokens, logprobs, arrived)

    def _copy(self, values: Tensor) -> Tensor:
        """What the next step will overwrite, on the CPU; from a GPU it is still on its way."""
        if self.device.type != "cuda":
            return values.clone()
        return torch.empty(values.shape, dtype=values.dtype, pin_memory=True).copy_(values, non_blocking=True)

    def _read(self, numbers: list[int]) -> None:
        """Read what rows remember, but for the last token of each, which the next step reads.

        One that has used up its room remembers the last half of it.
        """
        if not self._fixable:  # then rows can only be read all together
            numbers = list(range(len(self.rows)))
        texts = [self._remembered(number) for number in numbers]
        ids = pad_sequence([torch.tensor(text) for text in texts], batch_first=True).to(self.device)
        lengths = torch.tensor([len(text) for text in texts], device=self.device).unsqueeze(1)
        rows, before = torch.tensor(numbers, device=self.device), ids.shape[1] - 1
        self._token[rows] = ids.gather(1, lengths - 1).squeeze(1)
        alike = len({len(text) for text in texts}) == 1
        afresh = len(numbers) == len(self.rows) and not (self._fixable and (self._fixed or not alike))
        state = self.model.init_state(len(numbers), self.room if afresh else max(1, before))
        if before:
            mask = None if alike else torch.arange(before, device=self.device) < lengths - 1
            self.model.extend(ids[:, :-1], state, mask)
        if afresh:
            self.state = state
        else:
            self.state.fix(self.room)
            self.state.put(rows, state)

    def _is_full(self, row: _Row) -> bool:
        """Whether its next token has no room; a state that does not grow always has."""
        return self.limit is not None and row.length > self.room

    def _remembered(self, number: int) -> list[int]:
        row = self.rows[number]
        if row is None:
            return [0]
        if self._is_full(row):
            row.start = len(row.tokens) - max(1, self.room // 2)
        return row.tokens[row.start :]


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
