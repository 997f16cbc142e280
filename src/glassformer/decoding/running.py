"""Batched generation with a language model, token by token. The rows of a batch are independent.

Every row has its own prompt, seed, sampling settings and end. A row can join or leave without changing the others.
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
"""Random numbers drawn at once per row. They are drawn on the CPU, so that a seed gives the same text on any device."""
MAX_STEPS_AHEAD = 8
"""Number of steps queued on a GPU before the host waits for the first."""
MAX_ALTERNATIVES = 20
"""Maximum number of most probable tokens reported with the chosen one."""
SMALLEST_EXTENT = 128
"""Minimum number of cache columns that a recorded step reads."""


@dataclass(frozen=True)
class Request:
    """A text to generate."""

    prompt: Sequence[int]
    """Token ids, at least one."""
    sampling: Sampling
    max_tokens: int
    """Maximum number of tokens."""
    ends: Collection[int] = ()
    """Tokens that end it."""
    seed: int = 0
    logprobs: bool = False
    """Whether to report log-probabilities."""


class Written(NamedTuple):
    """A generated token."""

    token: int
    logprob: float | None = None
    """The model's log-probability before temperature, truncation and penalties; None unless requested."""
    likeliest: tuple[tuple[int, float], ...] = ()
    """The most probable tokens at its position with their log-probabilities."""


@dataclass(eq=False)
class _Row:
    """A text that is being generated."""

    request: Request
    generator: torch.Generator
    tokens: list[int]
    """The prompt and the generated tokens that have arrived from the device."""
    start: int = 0
    """Index of the first token that the state still contains."""
    steps: int = 0
    """Number of tokens requested from the device."""
    over: bool = False

    @property
    def length(self) -> int:
        """Number of tokens in the state after all requested steps; the last of them is not read yet."""
        return len(self.request.prompt) + self.steps - self.start

    @property
    def wants_more(self) -> bool:
        return not self.over and self.steps < self.request.max_tokens


@dataclass(frozen=True)
class _Flight:
    """A step in flight on the device."""

    rows: list[_Row | None]
    tokens: Int[Tensor, "B"]
    logprobs: tuple[Tensor, Tensor] | None
    """Ids and log-probabilities of the chosen token and of the most probable ones."""
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
    """A batch with a fixed number of rows of texts that are being generated."""

    def __init__(
        self,
        model: LanguageModel,
        rows: int,
        room: int,
        *,
        never: Sequence[int] = (),
        fixed: bool | None = None,
    ) -> None:
        """Create a batch of free rows.

        - `room`: capacity of a row in tokens, limited by the model's context;
        - `never`: ids that are never chosen;
        - `fixed`: keep the state in place with a length per row, so that a GPU can replay a recorded step. None: on
          CUDA.
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
        shown = 1 + min(MAX_ALTERNATIVES, vocab)
        self._logprob_ids = torch.zeros(rows, shown, dtype=torch.long, device=self.device)
        self._logprobs = torch.zeros(rows, shown, device=self.device)
        self._wants_logprobs = False
        self._sampling = SamplingRows.of([GREEDY] * rows, self.device)
        self._plan = SamplingPlan.of([])
        self.state: State = model.init_state(rows, self.room)
        self._fixed = self.device.type == "cuda" if fixed is None else fixed
        self._fixable = self.state.fix(self.room)
        self._recorder = Recorder(self._advance, self.device, records=not is_own(model))
        if self._fixed and not self._fixable:
            say("this encoder's state cannot be held in place: its steps are not replayed, which takes longer")

    # --- joining and leaving ---

    @property
    def free(self) -> list[int]:
        """Numbers of the free rows."""
        return [number for number, row in enumerate(self.rows) if row is None]

    @torch.inference_mode()
    def join(self, requests: Mapping[int, Request]) -> None:
        """Start texts in free rows and read their prompts in one pass."""
        for number, request in requests.items():
            assert self.rows[number] is None
            row = _Row(request, torch.Generator().manual_seed(request.seed), list(request.prompt))
            self.rows[number] = row
            self._drawn[number] = 0
            if request.sampling.repetition_penalty != 1.0:
                self._seen[number] = False
                self._seen[number, row.tokens] = True
            self._counts[number] = 0
        settings = [GREEDY if row is None else row.request.sampling for row in self.rows]
        self._plan = SamplingPlan.of(settings)
        self._wants_logprobs = any(row is not None and row.request.logprobs for row in self.rows)
        for values, new in zip(self._sampling, SamplingRows.of(settings, self.device), strict=True):
            values.copy_(new)
        self._read(list(requests))

    def leave(self, number: int) -> None:
        """End the text of a row and free the row."""
        row = self.rows[number]
        assert row is not None
        row.over = True
        self.rows[number] = None

    # --- generating ---

    @torch.inference_mode()
    def step(self) -> dict[int, Written]:
        """Return the next token of each active row; empty if there is none.

        A row becomes free after its last token or a token that ends it.
        """
        written: dict[int, Written] = {}
        while not written:
            while not self._flights or (self.device.type == "cuda" and len(self._flights) < MAX_STEPS_AHEAD):
                if not self._launch():
                    break
            if not self._flights:
                break
            flight = self._flights.popleft()
            for number, (row, one) in enumerate(zip(flight.rows, flight.land(), strict=True)):
                if row is None or row.over:  # the row left after the step was queued
                    continue
                row.tokens.append(one.token)
                written[number] = one if row.request.logprobs else Written(one.token)
                if one.token in row.request.ends or len(row.tokens) == len(row.request.prompt) + row.request.max_tokens:
                    self.leave(number)
        return written

    def _launch(self) -> bool:
        """Queue a step; return whether any row wants one and all of its inputs are known."""
        rows = [row if row is not None and row.wants_more else None for row in self.rows]
        if not any(rows):
            return False
        full = [number for number, row in enumerate(rows) if row is not None and self._is_full(row)]
        if full:
            if self._flights:  # the tokens to read again have not all arrived
                return False
            self._read(full)
        for number, row in enumerate(rows):
            if row is not None:
                if row.steps % DRAWS == 0 and not row.request.sampling.greedy:
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
        """Generate one token per row on the device."""
        features = self.model.extend(self._token.unsqueeze(1), self.state)[:, -1]
        scores = self.model.head(features)
        allowed = scores.index_fill(-1, self._never, -torch.inf) if len(self._never) else scores
        draw = self._draws.gather(1, self._drawn) if self._plan.random else self._draws[:, :1]
        tokens = choose(allowed, self._sampling, self._plan, draw, self._seen, self._counts)
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
        """Return a copy on the CPU of values that the next step overwrites; from a GPU it is asynchronous."""
        if self.device.type != "cuda":
            return values.clone()
        return torch.empty(values.shape, dtype=values.dtype, pin_memory=True).copy_(values, non_blocking=True)

    def _read(self, numbers: list[int]) -> None:
        """Read the tokens of rows except for the last one, which the next step reads.

        A row without remaining capacity continues from the last half of its tokens.
        """
        if not self._fixable:  # such a state can only be read for all rows together
            numbers = list(range(len(self.rows)))
        texts = [self._remembered(number) for number in numbers]
        ids = pad_sequence([torch.tensor(text) for text in texts], batch_first=True).to(self.device)
        lengths = torch.tensor([len(text) for text in texts], device=self.device).unsqueeze(1)
        rows, before = torch.tensor(numbers, device=self.device), ids.shape[1] - 1
        self._token[rows] = ids.gather(1, lengths - 1).squeeze(1)
        same_length = len({len(text) for text in texts}) == 1
        replaces_all = len(numbers) == len(self.rows) and not (self._fixable and (self._fixed or not same_length))
        state = self.model.init_state(len(numbers), self.room if replaces_all else max(1, before))
        if before:
            mask = None if same_length else torch.arange(before, device=self.device) < lengths - 1
            self.model.extend(ids[:, :-1], state, mask)
        if replaces_all:
            self.state = state
        else:
            self.state.fix(self.room)
            self.state.put(rows, state)

    def _is_full(self, row: _Row) -> bool:
        """Return whether the next token exceeds the capacity; a state of constant size has no limit."""
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
    sampling: Sampling,
    *,
    max_tokens: int,
    end: int | Collection[int] | None = None,
    never: Sequence[int] = (),
    seed: int = 0,
) -> Iterator[list[int | None]]:
    """Yield the next token of each prompt for each step; None for rows that have ended.

    Prompts may have different lengths but need at least one token. `end` is the id, or ids, that end a row; `never` are
    ids that are never chosen. Row n uses `seed` + n, so that its text does not depend on the other rows. Beyond the
    model's context, generation continues from the last half of the tokens.
    """
    ends = frozenset() if end is None else frozenset([end] if isinstance(end, int) else end)
    batch = RunningBatch(model, len(prompts), max(map(len, prompts)) + max_tokens, never=never)
    batch.join({row: Request(prompt, sampling, max_tokens, ends, seed + row) for row, prompt in enumerate(prompts)})
    while written := batch.step():
        tokens = {row: one.token for row, one in written.items()}
        yield [None if tokens.get(row) in ends else tokens.get(row) for row in range(len(prompts))]


@dataclass(frozen=True)
class Guess:
    """The prediction after a token."""

    best: list[tuple[int, float]]
    """Most probable next tokens with their probabilities."""
    following: float | None
    """Probability of the actual next token; None after the last."""


@torch.inference_mode()
def text_logprobs(model: LanguageModel, ids: Sequence[int], k: int = MAX_ALTERNATIVES) -> list[Written]:
    """Return the tokens of a text within the context with log-probabilities, as if generated; the first has none."""
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
    """Return the predictions after each token, in one pass over a text within the context."""
    tokens = torch.tensor(list(ids), device=device_of(model))
    probabilities = model(tokens.unsqueeze(0))[0].float().softmax(-1)
    best = probabilities.topk(min(k, probabilities.shape[-1]), -1)
    following = probabilities[:-1].gather(-1, tokens[1:].unsqueeze(-1)).squeeze(-1).tolist()
    return [
        Guess(list(zip(chosen, values, strict=True)), real)
        for chosen, values, real in zip(best.indices.tolist(), best.values.tolist(), [*following, None], strict=True)
    ]
