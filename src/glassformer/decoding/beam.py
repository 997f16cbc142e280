"""Beam search: the most probable texts that a translator, or a language model after a prompt, can be found to write."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from glassformer.encoders.base import State
from glassformer.models.modules import LanguageModel, Seq2Seq


@dataclass(frozen=True)
class Hypothesis:
    """A text that was written."""

    ids: list[int]
    """The tokens without START and END."""
    score: float
    """The sum of its tokens' log-probabilities, END's included."""
    ended: bool
    """It came to its END; otherwise it was cut at the length allowed."""


@torch.inference_mode()
def beam_search(
    model: Seq2Seq,
    source: Int[Tensor, "N S"],
    mask: Bool[Tensor, "N S"] | None,
    *,
    beam: int,
    most: Sequence[int],
    opening: Sequence[int],
    end: int,
    never: Sequence[int] = (),
    length_penalty: float = 1.0,
    best: int = 1,
) -> list[list[Hypothesis]]:
    """For each source the `best` texts found, best first by score / length ** length_penalty (END counts).

    The `beam` best continuations are followed; one that ends leaves its place empty. The greedy path always has a
    place, so that no beam finds worse than greedy does, and a beam of 1 is greedy. `most`: tokens at most for each
    source, END included, and never more than the decoder was made for. `opening`: the tokens after which every text is
    written, START alone or several. `never`: ids that are not to be written.
    """
    if not 1 <= best <= beam:
        raise ValueError(f"the best {best} of a beam of {beam}")
    if length_penalty < 0:
        raise ValueError(f"a length penalty of {length_penalty}, but longer texts are not to be punished twice")
    if min(most, default=1) < 1 or len(most) != len(source):
        raise ValueError("every source needs room for a token at least")
    if not len(source):
        return []
    before = len(opening) - 1
    limit = None if model.decoder.limit is None else max(1, model.decoder.limit - before)
    allowed = [count if limit is None else min(count, limit) for count in most]
    device = source.device
    dtype = torch.promote_types(model.head.weight.dtype, torch.float32)
    search = _Search(allowed, beam=beam, ends=[end], penalty=length_penalty, best=best, dtype=dtype, device=device)
    state = model.init_state(model.encode(source, mask), before + max(allowed))
    tokens = torch.tensor(list(opening), device=device).expand(len(source), -1)
    return _run(search, model, state, tokens, never)


@torch.inference_mode()
def beam_continuation(
    model: LanguageModel,
    prompt: Sequence[int],
    *,
    beam: int,
    most: int,
    ends: Collection[int] = (),
    never: Sequence[int] = (),
) -> Hypothesis:
    """The best text that goes on from a prompt, by score / length; a beam of 1 is greedy.

    `most`: tokens at most, END included; prompt and text but for its last token must fit the model's context. `ends`:
    ids that end a text.
    """
    device = model.head.weight.device
    dtype = torch.promote_types(model.head.weight.dtype, torch.float32)
    search = _Search([most], beam=beam, ends=ends, penalty=1.0, best=1, dtype=dtype, device=device)
    state = model.init_state(1, len(prompt) + most - 1)
    ((best,),) = _run(search, model, state, torch.tensor([list(prompt)], device=device), never)
    return best


def _run(
    search: "_Search", model: Seq2Seq | LanguageModel, state: State, tokens: Int[Tensor, "N T"], never: Sequence[int]
) -> list[list[Hypothesis]]:
    """The search over a model that has read nothing of `tokens` yet, a row for each source."""
    forbidden = torch.tensor(list(never), dtype=torch.long, device=tokens.device)
    for step in range(len(search.tokens)):
        scores = model.head(model.extend(tokens, state)[:, -1])
        chances = scores.to(search.living.dtype).log_softmax(-1).index_fill_(-1, forbidden, -torch.inf)
        parents, chosen = search.step(chances.view(len(search.living), -1, chances.shape[-1]))
        open_sources = int(search.open.sum())
        if not open_sources:
            break
        if step == 0:
            state = state.expand_beams(search.beam)
        state, last = _follow(search, state, parents, chosen, open_sources)
        tokens = last.unsqueeze(1)
    return search.found()


def _follow(
    search: "_Search", state: State, parents: Int[Tensor, "n K"], tokens: Int[Tensor, "n K"], still: int
) -> tuple[State, Int[Tensor, "m"]]:
    """The state and the last token of each row of the next step; sources that are done go when they are half of all."""
    sources, beam = parents.shape
    firsts = torch.arange(sources, device=parents.device).unsqueeze(1) * beam
    if 2 * still <= sources:
        kept = search.leave_behind()
        return state.select((firsts + parents)[kept].flatten()), tokens[kept].flatten()
    return state if beam == 1 else state.reorder((firsts + parents).flatten()), tokens.flatten()


class _Search:
    """Which texts live, which are finished, and how each token came to stand after the one before it.

    N sources in all, n of them still in the batch, K places each. Everything is kept as it falls and put together at
    the end: `tokens` and `parents` say for each step and place which token stands there, and after which place.
    """

    def __init__(
        self,
        most: list[int],
        *,
        beam: int,
        ends: Collection[int],
        penalty: float,
        best: int,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        self.beam, self.best = beam, best
        self.ends = torch.tensor(sorted(ends), dtype=torch.long, device=device)
        count = len(most)
        powers = [float(length) ** penalty for length in range(max(most) + 1)]
        self.divisors = torch.tensor(powers, dtype=dtype, device=device)
        """What a score is divided by, for each length."""
        self.who = torch.arange(count, device=device)
        """The numbers of the sources in the batch."""
        self.most = torch.tensor(most, device=device)
        self.living: Float[Tensor, "n K"] = torch.zeros(count, 1, dtype=dtype, device=device)
        """The score of the text in each place; −∞: an empty place."""
        self.greedy = torch.zeros(count, dtype=torch.long, device=device)
        """The place of the greedy path."""
        self.greedy_lives = torch.ones(count, dtype=torch.bool, device=device)
        self.open = torch.ones(count, dtype=torch.bool, device=device)
        """Which sources in the batch are not done."""
        self.steps = 0
        self.tokens = torch.zeros(max(most), count, beam, dtype=torch.long, device=device)
        self.parents = torch.zeros_like(self.tokens)
        # a row of finished texts for each source, in the order in which they finished
        self.finished = torch.zeros(count, dtype=torch.long, device=device)
        self.totals = torch.full((count, beam), -torch.inf, dtype=dtype, device=device)
        self.ranks = torch.full_like(self.totals, -torch.inf)
        self.last_step = torch.zeros(count, beam, dtype=torch.long, device=device)
        self.last_place = torch.zeros_like(self.last_step)

    def step(self, chances: Float[Tensor, "n k V"]) -> tuple[Int[Tensor, "n K"], Int[Tensor, "n K"]]:
        """One token more: for each place its token, and the place it follows."""
        totals, index = self._choose(chances)
        vocab = chances.shape[-1]
        parents, tokens = index // vocab, index % vocab
        self.tokens[self.steps, self.who], self.parents[self.steps, self.who] = tokens, parents
        self.steps += 1
        taken = totals > -torch.inf
        done = taken & (torch.isin(tokens, self.ends) | (self.most[self.who] == self.steps).unsqueeze(1))
        self._finish(totals, done)
        self.living = totals.masked_fill(done, -torch.inf)
        self.greedy_lives &= ~done.gather(1, self.greedy.unsqueeze(1)).squeeze(1)
        # no further token can raise a score, and none can come after the last that is allowed
        reachable = self.living.amax(1) / self.divisors[self.most[self.who]]
        self.open = reachable > self.ranks[self.who].topk(self.best).values[:, -1]
        self.living.masked_fill_(~self.open.unsqueeze(1), -torch.inf)
        return parents, tokens

    def _choose(self, chances: Float[Tensor, "n k V"]) -> tuple[Float[Tensor, "n K"], Int[Tensor, "n K"]]:
        """The best continuations, for as many places as are left, the greedy one among them; −∞: an empty place."""
        sources, places, vocab = chances.shape
        joint = (self.living.unsqueeze(-1) + chances).flatten(1)
        totals, index = joint.topk(min(self.beam, places * vocab))
        missing = (0, self.beam - totals.shape[1])
        totals = F.pad(totals, missing, value=-torch.inf)
        index = F.pad(index, missing)
        left = (self.beam - self.finished[self.who]).unsqueeze(1)
        rank = torch.arange(self.beam, device=left.device)
        totals = totals.masked_fill(rank >= left, -torch.inf)

        every = torch.arange(sources, device=left.device)
        favourite = (self.greedy * vocab + chances[every, self.greedy].argmax(-1)).unsqueeze(1)
        there = (index == favourite) & (totals > -torch.inf)
        lost = (self.greedy_lives & ~there.any(1)).unsqueeze(1)
        given = lost & (rank == left - 1)
        totals = torch.where(given, joint.gather(1, favourite), totals)
        index = torch.where(given, favourite, index)
        self.greedy = (there | given).long().argmax(1)
        return totals, index

    def _finish(self, totals: Float[Tensor, "n K"], done: Bool[Tensor, "n K"]) -> None:
        source, place = done.nonzero(as_tuple=True)
        after = done.cumsum(1)[source, place] - 1
        source = self.who[source]
        at = source, self.finished[source] + after
        found = totals[done]
        self.totals[at] = found
        self.ranks[at] = found / self.divisors[self.steps]
        self.last_step[at] = self.steps - 1
        self.last_place[at] = place
        self.finished[self.who] += done.sum(1)

    def leave_behind(self) -> Bool[Tensor, "n"]:
        """Go on without the sources that are done; says which stay."""
        kept = self.open
        self.who, self.living, self.greedy = self.who[kept], self.living[kept], self.greedy[kept]
        self.greedy_lives, self.open = self.greedy_lives[kept], kept[kept]
        return kept

    def found(self) -> list[list[Hypothesis]]:
        """The best finished texts of each source, from their ends back to their beginnings."""
        best = self.ranks.sort(dim=1, descending=True, stable=True).indices[:, : self.best]
        counts = self.finished.clamp(max=self.best).tolist()
        table = torch.stack([self.last_step.gather(1, best), self.last_place.gather(1, best)], -1).tolist()
        scores = self.totals.gather(1, best).tolist()
        tokens, parents = self.tokens[: self.steps].tolist(), self.parents[: self.steps].tolist()
        ends = set(self.ends.tolist())
        out: list[list[Hypothesis]] = []
        for source, count in enumerate(counts):
            texts = []
            for (step, place), score in zip(table[source][:count], scores[source], strict=False):
                ids = []
                for at in range(step, -1, -1):
                    ids.append(tokens[at][source][place])
                    place = parents[at][source][place]
                ended = ids[0] in ends
                texts.append(Hypothesis(ids[ended:][::-1], score, ended))
            # a model whose scores are not numbers writes nothing
            out.append(texts or [Hypothesis([], -torch.inf, False)])
        return out
