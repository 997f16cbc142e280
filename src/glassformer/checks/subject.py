"""Subject of the checks: a run's model, and held-out examples or, if the data is gone, random examples."""

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from glassformer.config.errors import DataError, Misuse
from glassformer.config.messages import listening, say, silent
from glassformer.families.base import Loaded, OwnModel, Prepared
from glassformer.families.build import prepare
from glassformer.families.evaluate import held_out_examples
from glassformer.families.load import load
from glassformer.families.recognition import whole_path
from glassformer.families.requests import ModelInput
from glassformer.families.resume import resumed_config
from glassformer.models.modules import device_of
from glassformer.runs.run import Run

MAX_EXAMPLES, MAX_TOKENS = 6, 64
"""Maximum number of examples, and maximum number of tokens per example."""

Call = tuple[Any, ...]
"""Arguments of the model for a batch of one example; a mask is None if there is no padding."""


@dataclass(frozen=True)
class Subject:
    """Run to check, with examples."""

    loaded: Loaded
    own_model: OwnModel | None
    """The user's own model, if the run has one."""
    prepared: Prepared | None
    missing: str
    """Reason why there is no data; empty if there is data."""
    held_out: Sequence[ModelInput]
    """Examples of the held-out part."""
    export: Path | None = None
    """Folder of the export to check; None: the exports that the run recorded."""

    @property
    def model(self) -> nn.Module:
        return self.loaded.model

    @property
    def device(self) -> torch.device:
        return device_of(self.model)

    @cached_property
    def token_places(self) -> tuple[int, ...]:
        """Return the positions of token tensors in a call; the mask of each tensor follows it."""
        return () if self.loaded.tokenizer is None else self.loaded.family.token_places

    @cached_property
    def calls(self) -> list[Call]:
        """Return calls for the held-out examples, and random calls if there are fewer than two examples."""
        length = max(self.token_places, default=-2) + 2
        # missing arguments, such as a text's mask, are None
        calls = [(*example.inputs, *[None] * (length - len(example.inputs))) for example in self.held_out]
        made_up = random_calls(self.loaded, MAX_EXAMPLES, MAX_TOKENS) if len(calls) < 2 else []
        most = [min(MAX_TOKENS, self.loaded.config.model.context)] * len(self.token_places)
        return [self.truncate(call, most) for call in [*calls, *made_up]]

    def lengths(self, call: Call) -> list[int]:
        """Return the number of tokens in each token tensor of a call."""
        return [call[place].shape[1] for place in self.token_places]

    def truncate(self, call: Call, lengths: Sequence[int]) -> Call:
        """Return a call with at most `lengths` tokens in each token tensor."""
        out = list(call)
        for place, length in zip(self.token_places, lengths, strict=True):
            mask = call[place + 1]
            out[place] = call[place][:, :length]
            out[place + 1] = None if mask is None else mask[:, :length]
        return tuple(out)

    def batch(self, calls: Sequence[Call], more: int = 0) -> Call:
        """Return calls as one batch, padded to the longest call and by `more` columns if the context allows."""
        columns = list(zip(*calls, strict=True))
        padded = {index for place in self.token_places for index in (place, place + 1)}
        out: list[Tensor | None] = [
            None if number in padded else torch.cat(column) for number, column in enumerate(columns)
        ]
        tokenizer = self.loaded.tokenizer
        pad = 0 if tokenizer is None or tokenizer.pad is None else tokenizer.pad
        for place in self.token_places:
            rows = [row[0] for row in columns[place]]
            tokens = pad_sequence(rows, batch_first=True, padding_value=pad)
            added = max(0, min(more, self.loaded.config.model.context - tokens.shape[1]))
            out[place] = tokens = F.pad(tokens, (0, added), value=pad)
            counts = torch.tensor([len(row) for row in rows], device=self.device)
            out[place + 1] = torch.arange(tokens.shape[1], device=self.device) < counts.unsqueeze(1)
        return tuple(out)

    def batch_scores(self, batch: Call, calls: Sequence[Call], model: nn.Module | None = None) -> list[Tensor]:
        """Return the scores of each example in a batch, without scores at padding."""
        scores: Tensor = (model or self.model)(*batch)
        if scores.dim() < 3:  # scores of the whole example, not of each token
            return list(scores)
        return [row[: self.lengths(call)[-1]] for row, call in zip(scores, calls, strict=True)]

    def scores(self, calls: Sequence[Call] | None = None, model: nn.Module | None = None) -> list[Tensor]:
        """Return the scores of examples, computed one by one."""
        return [self.batch_scores(call, [call], model)[0] for call in (self.calls if calls is None else calls)]


def random_calls(loaded: Loaded, count: int, max_tokens: int) -> list[Call]:
    """Return `count` random examples, for a run whose data is gone."""
    generator, longest = torch.Generator().manual_seed(0), min(max_tokens, loaded.config.model.context)
    device = device_of(loaded.model)
    calls = [loaded.family.random_call(loaded, generator, longest) for _ in range(count)]
    return [tuple(None if tensor is None else tensor.to(device) for tensor in call) for call in calls]


# --- differences ---

MIN_SCALE = 1e-2
"""Smallest divisor of a relative difference, so that numbers near 0 can be compared."""


def relative_difference(one: Sequence[Tensor], other: Sequence[Tensor]) -> float:
    """Return the largest difference, as a share of the largest number; infinite if tensors cannot be compared."""
    if len(one) != len(other) or any(a.shape != b.shape for a, b in zip(one, other, strict=True)):
        return torch.inf
    first, second = (
        torch.cat([each.detach().double().cpu().flatten() for each in several]) for several in (one, other)
    )
    if not first.numel():
        return 0.0
    share = float((first - second).abs().max()) / max(float(first.abs().max()), MIN_SCALE)
    return share if math.isfinite(share) else torch.inf


# --- from a run's folder ---


def load_subject(
    run: "str | os.PathLike[str] | Run", *, data: str | None, device: str, model: OwnModel | None
) -> Subject:
    """Load a run and its data. `data`: path of the data, which must exist (None: the recorded path, if it exists)."""
    loaded = load(run, device, model=model)
    prepared, missing = None, ""
    try:
        config = loaded.config
        if data is not None:
            config = resumed_config(loaded.run, {"data.path": whole_path("data.path", data)})
        with listening(silent):
            prepared = prepare(config, loaded.run)
    except Misuse as error:
        if data is not None:
            raise
        missing = f"the data that this run was trained on is not there ({error})"
        if "imported" in loaded.run.card():
            missing = "an imported run comes without the data that it was trained on"
        say(f"{missing}: made-up examples are used instead (--data: where it is now)")
    return Subject(loaded, model, prepared, missing, _held_out(loaded, prepared))


def _held_out(loaded: Loaded, prepared: Prepared | None) -> list[ModelInput]:
    """Return held-out examples; the list is empty if the run was trained on all rows."""
    if prepared is None:
        return []
    try:
        most = min(MAX_TOKENS, loaded.config.model.context)
        return list(held_out_examples(loaded, prepared, count=MAX_EXAMPLES, max_tokens=most))
    except DataError:
        say("this run has learned from all its data: made-up examples are used instead")
        return []
