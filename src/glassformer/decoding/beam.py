"""Beam search for translations, and for continuations of a language model."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from glassformer.bricks.own import is_own
from glassformer.decoding.options import Search
from glassformer.encoders.base import State
from glassformer.models.cuda_graph import Recorder, extent_of
from glassformer.models.modules import LanguageModel, Seq2Seq, device_of

CHECKED_EVERY = 8
"""Number of steps after which the host checks whether any search is still open."""

Watch = Callable[[Tensor, Tensor, Tensor, Tensor], None]
"""Observer of each step.

It receives the scores of the living hypotheses (n×k), the log-probabilities of their next tokens (n×k×V), the scores of
the chosen continuations (n×K, −∞ for an empty place), and their indices among n×(k·V).
"""


class Marks(NamedTuple):
    """Tokens that begin and end the texts of a translation model."""

    opening: Sequence[int]
    """Tokens before every text: START, or several."""
    end: int
    never: Sequence[int] = ()
    """Ids that are never generated."""


@dataclass(frozen=True)
class Hypothesis:
    """A generated text."""

    ids: list[int]
    """Tokens without START and END."""
    score: float
    """Sum of the log-probabilities of its tokens, including END."""
    ended: bool
    """Whether it ends with END; otherwise it reached the maximum length."""

    def rank(self, length_penalty: float) -> float:
        """Return the length-normalised score; END counts as a token."""
        return self.score / max(1, len(self.ids) + self.ended) ** length_penalty


@torch.inference_mode()
def beam_search(
    model: Seq2Seq,
    source: Int[Tensor, "N S"],
    mask: Bool[Tensor, "N S"] | None,
    search: Search,
    marks: Marks,
    max_tokens: Sequence[int],
    *,
    fixed: bool | None = None,
    watch: Watch | None = None,
) -> list[list[Hypothesis]]:
    """Return the `search.best` texts of each source, best first by score / length ** length_penalty (END counts).

    The search follows the `search.beam` best continuations. A continuation that ends leaves its place empty. The greedy
    path always keeps a place, so that a beam never finds a worse text than greedy search, and a beam of 1 is greedy.

    - `max_tokens`: maximum number of tokens per source, END included, limited by the decoder's context;
    - `fixed`: see `RunningBatch`;
    - `watch`: called at every step, which disables replaying of recorded steps.
    """
    if not len(source):
        return []
    allowed = decoder_room(model, max_tokens, marks)
    tracker = _Search(model, allowed, search, [marks.end], watch)
    room = len(marks.opening) - 1 + max(allowed)
    state = model.init_state(model.encode(source, mask), room)
    tokens = torch.tensor(list(marks.opening), device=source.device).expand(len(source), -1)
    return _Beams(tracker, model, state, marks.never, fixed).run(tokens, room)


def decoder_room(model: Seq2Seq, max_tokens: Sequence[int], marks: Marks) -> list[int]:
    """Return the number of tokens that may follow the opening: at most `max_tokens`, within the decoder's context."""
    limit = None if model.decoder.limit is None else max(1, model.decoder.limit - len(marks.opening) + 1)
    return [count if limit is None else min(count, limit) for count in max_tokens]


@torch.inference_mode()
def beam_continuation(
    model: LanguageModel,
    prompt: Sequence[int],
    *,
    beam: int,
    max_tokens: int,
    ends: Collection[int] = (),
    never: Sequence[int] = (),
    fixed: bool | None = None,
    watch: Watch | None = None,
) -> Hypothesis:
    """Return the best continuation of a prompt by score / length; a beam of 1 is greedy.

    - `max_tokens`: maximum number of tokens, END included. The prompt and all but the last token must fit the context;
    - `ends`: ids that end a text;
    - `watch`: see `beam_search`.
    """
    search = _Search(model, [max_tokens], Search(beam), ends, watch)
    room = len(prompt) + max_tokens - 1
    beams = _Beams(search, model, model.init_state(1, room), never, fixed)
    ((best,),) = beams.run(torch.tensor([list(prompt)], device=device_of(model)), room)
    return best


def score_dtype(model: Seq2Seq | LanguageModel) -> torch.dtype:
    weight = next((weight for weight in model.parameters()), torch.empty(0))
    return torch.promote_types(weight.dtype, torch.float32)


class _Beams:
    """A beam search with its model and the model's state, whose rows follow the living hypotheses."""

    def __init__(
        self, search: "_Search", model: Seq2Seq | LanguageModel, state: State, never: Sequence[int], fixed: bool | None
    ) -> None:
        self.search, self.model, self.state = search, model, state
        wants_fixed = search.living.device.type == "cuda" if fixed is None else fixed
        self._fixed = wants_fixed and search.watch is None  # a replayed step would not call `watch`
        self._never = torch.tensor(list(never), dtype=torch.long, device=search.living.device)
        self._last = torch.empty(0)
        """Last token of each row."""

    def run(self, tokens: Int[Tensor, "N T"], room: int) -> list[list[Hypothesis]]:
        """Search from a state that has not read `tokens` (a row per source); `room` is the capacity of the state."""
        search, length = self.search, tokens.shape[1]
        parents, chosen = self._choose(tokens)
        self.state, self._last = self.state.expand_beams(search.beam).reorder(self._rows(parents)), chosen.flatten()
        fixed = self._fixed and self.state.fix(room)
        recorder = Recorder(self._advance, self._last.device, records=not is_own(self.model))
        for step in range(1, len(search.tokens)):
            if not fixed or step % CHECKED_EVERY == 0:
                open_sources = int(search.open.sum())
                if not open_sources:
                    break
                if not fixed and 2 * open_sources <= len(search.open):
                    self._drop_finished()
            if fixed:
                extent = extent_of(length + step, room, smallest=16)
                self.state.fix(extent)
                recorder.run(extent)
            else:
                self._advance()
        return search.results()

    def _choose(self, tokens: Int[Tensor, "B T"]) -> tuple[Int[Tensor, "n K"], Int[Tensor, "n K"]]:
        """Read tokens and return the parent place and the next token for each place."""
        search = self.search
        scores = self.model.head(self.model.extend(tokens, self.state)[:, -1])
        chances = scores.to(search.living.dtype).log_softmax(-1).index_fill_(-1, self._never, -torch.inf)
        return search.step(chances.view(len(search.living), -1, chances.shape[-1]))

    def _advance(self) -> None:
        parents, chosen = self._choose(self._last.unsqueeze(1))
        if self.search.beam > 1:
            self.state = self.state.reorder(self._rows(parents))
        self._last.copy_(chosen.flatten())

    def _rows(self, parents: Int[Tensor, "n K"]) -> Int[Tensor, "B"]:
        firsts = torch.arange(len(parents), device=parents.device).unsqueeze(1) * parents.shape[1]
        return (firsts + parents).flatten()

    def _drop_finished(self) -> None:
        """Drop the finished sources, at least half of all."""
        unfinished = self.search.drop_finished().repeat_interleave(self.search.beam).nonzero().squeeze(1)
        self.state, self._last = self.state.select(unfinished), self._last[unfinished]


class _Search:
    """The living and finished hypotheses, and the parent of each token.

    There are N sources, of which n are still in the batch, with K places each. `tokens` and `parents` record the token
    and the parent place for each step and place. The texts are assembled at the end.
    """

    def __init__(
        self,
        model: Seq2Seq | LanguageModel,
        max_tokens: list[int],
        search: Search,
        ends: Collection[int],
        watch: Watch | None,
    ) -> None:
        device, dtype, beam = device_of(model), score_dtype(model), search.beam
        self.beam, self.best, self.watch = beam, search.best, watch
        self.ends = torch.tensor(sorted(ends), dtype=torch.long, device=device)
        count = len(max_tokens)
        powers = [float(length) ** search.length_penalty for length in range(max(max_tokens) + 1)]
        self.divisors = torch.tensor(powers, dtype=dtype, device=device)
        """Divisor of a score by length."""
        self.who = torch.arange(count, device=device)
        """Numbers of the sources in the batch."""
        self.max_tokens = torch.tensor(max_tokens, device=device)
        self.living: Float[Tensor, "n K"] = torch.zeros(count, beam, dtype=dtype, device=device)
        """Score of the hypothesis in each place; −∞ for an empty place."""
        self.greedy = torch.zeros(count, dtype=torch.long, device=device)
        """Place of the greedy path."""
        self.greedy_lives = torch.ones(count, dtype=torch.bool, device=device)
        self.open = torch.ones(count, dtype=torch.bool, device=device)
        """Whether each source in the batch is unfinished."""
        self.steps = torch.zeros(1, dtype=torch.long, device=device)
        """Number of steps, as a tensor of one axis: a 0-d index would synchronise with the device."""
        self.tokens = torch.zeros(max(max_tokens), count, beam, dtype=torch.long, device=device)
        self.parents = torch.zeros_like(self.tokens)
        # finished texts of each source in the order of finishing; unfinished ones write to the unused last column
        self.finished = torch.zeros(count, dtype=torch.long, device=device)
        self.totals = torch.full((count, beam + 1), -torch.inf, dtype=dtype, device=device)
        self.ranks = torch.full_like(self.totals, -torch.inf)
        self.last_step = torch.zeros(count, beam + 1, dtype=torch.long, device=device)
        self.last_place = torch.zeros_like(self.last_step)

    def step(self, chances: Float[Tensor, "n k V"]) -> tuple[Int[Tensor, "n K"], Int[Tensor, "n K"]]:
        """Take one step; return the parent place and the token for each place."""
        totals, index = self._choose(chances)
        if self.watch is not None:
            self.watch(self.living[:, : chances.shape[1]], chances, totals, index)
        vocab = chances.shape[-1]
        parents, tokens = index // vocab, index % vocab
        at = self.steps.expand_as(self.who), self.who
        self.tokens[at], self.parents[at] = tokens, parents
        self.steps += 1
        taken = totals > -torch.inf
        done = taken & (torch.isin(tokens, self.ends) | (self.max_tokens[self.who] == self.steps).unsqueeze(1))
        self._finish(totals, done)
        self.living.copy_(totals.masked_fill(done, -torch.inf))
        self.greedy_lives &= ~done.gather(1, self.greedy.unsqueeze(1)).squeeze(1)
        # further tokens cannot raise a score, and the length is bounded
        reachable = self.living.amax(1) / self.divisors[self.max_tokens[self.who]]
        self.open.copy_(reachable > self.ranks[self.who, : self.beam].topk(self.best).values[:, -1])
        self.living.masked_fill_(~self.open.unsqueeze(1), -torch.inf)
        return parents, tokens

    def _choose(self, chances: Float[Tensor, "n k V"]) -> tuple[Float[Tensor, "n K"], Int[Tensor, "n K"]]:
        """Return the best continuations for the remaining places, including the greedy one; −∞ for an empty place."""
        sources, places, vocab = chances.shape
        joint = (self.living[:, :places].unsqueeze(-1) + chances).flatten(1)
        totals, index = joint.topk(min(self.beam, places * vocab))
        missing = (0, self.beam - totals.shape[1])
        totals = F.pad(totals, missing, value=-torch.inf)
        index = F.pad(index, missing)
        remaining = (self.beam - self.finished[self.who]).unsqueeze(1)
        rank = torch.arange(self.beam, device=remaining.device)
        totals = totals.masked_fill(rank >= remaining, -torch.inf)

        sources_index = torch.arange(sources, device=remaining.device)
        greedy_index = (self.greedy * vocab + chances[sources_index, self.greedy].argmax(-1)).unsqueeze(1)
        has_greedy = (index == greedy_index) & (totals > -torch.inf)
        lost = (self.greedy_lives & ~has_greedy.any(1)).unsqueeze(1)
        inserted = lost & (rank == remaining - 1)
        totals = torch.where(inserted, joint.gather(1, greedy_index), totals)
        index = torch.where(inserted, greedy_index, index)
        self.greedy.copy_((has_greedy | inserted).long().argmax(1))
        return totals, index

    def _finish(self, totals: Float[Tensor, "n K"], done: Bool[Tensor, "n K"]) -> None:
        finished = self.finished[self.who].unsqueeze(1)
        at = self.who.unsqueeze(1), torch.where(done, finished + done.cumsum(1) - 1, self.beam)
        self.totals[at] = totals
        self.ranks[at] = totals / self.divisors[self.steps]
        self.last_step[at] = (self.steps - 1).expand_as(done)
        self.last_place[at] = torch.arange(self.beam, device=done.device).expand_as(done)
        self.finished[self.who] += done.sum(1)

    def drop_finished(self) -> Bool[Tensor, "n"]:
        """Drop the finished sources and return which ones stay."""
        kept = self.open
        self.who, self.living, self.greedy = self.who[kept], self.living[kept], self.greedy[kept]
        self.greedy_lives, self.open = self.greedy_lives[kept], kept[kept]
        return kept

    def results(self) -> list[list[Hypothesis]]:
        """Return the best finished texts of each source, assembled from their ends."""
        best = self.ranks[:, : self.beam].sort(dim=1, descending=True, stable=True).indices[:, : self.best]
        last_step, place = (part.gather(1, best).cpu() for part in (self.last_step, self.last_place))
        tokens, parents = self.tokens.cpu(), self.parents.cpu()
        ids = torch.zeros(*best.shape, len(tokens), dtype=torch.long)
        for step in range(len(tokens) - 1, -1, -1):
            ids[..., step] = tokens[step].gather(1, place)
            place = torch.where(step <= last_step, parents[step].gather(1, place), place)
        scores, lengths = self.totals.gather(1, best).tolist(), (last_step + 1).tolist()
        counts, written = self.finished.clamp(max=self.best).tolist(), ids.tolist()
        ends = set(self.ends.tolist())
        out: list[list[Hypothesis]] = []
        for source, count in enumerate(counts):
            texts = []
            for text, length, score in zip(written[source], lengths[source], scores[source], strict=True):
                ended = text[length - 1] in ends
                texts.append(Hypothesis(text[: length - ended], score, ended))
            # a model with NaN scores generates nothing
            out.append(texts[:count] or [Hypothesis([], -torch.inf, False)])
        return out
