"""The run that is checked: its model, and some examples of its held-out part or, where that is gone, made-up ones."""

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor, nn

from glassformer.checks.made_up import made_up
from glassformer.config.errors import DataError, Misuse
from glassformer.config.say import Say, silent
from glassformer.families.base import Loaded, OwnModel, Prepared
from glassformer.families.embedding import LoadedEmbedder
from glassformer.families.examples import held_out_examples
from glassformer.families.labelling import LoadedPredictor
from glassformer.families.language import LoadedLanguageModel
from glassformer.families.load import load
from glassformer.families.masked import LoadedMasked
from glassformer.families.model_input import ModelInput
from glassformer.families.prepare import check_same_data, prepare, tokenizers_of
from glassformer.families.settings import resumed_config, whole_path
from glassformer.families.translation import LoadedTranslator
from glassformer.runs.run import Run
from glassformer.tasks.labelling import device_of

COUNT, MOST = 6, 64
"""Examples that are computed, and tokens of each at most."""

Example = tuple[Tensor | None, ...]
"""What a model is called with, as a batch of one."""


@dataclass(frozen=True)
class Subject:
    loaded: Loaded
    own: OwnModel | None
    """The person's own model, where it is one."""
    prepared: Prepared | None
    missing: str
    """Why there is no data, where there is none."""
    given: Sequence[ModelInput]
    """Examples of the held-out part."""
    examples: Sequence[Example]
    """The same, or made-up ones."""

    @property
    def model(self) -> nn.Module:
        return self.loaded.model

    @property
    def device(self) -> torch.device:
        return device_of(self.model)

    @cached_property
    def places(self) -> tuple[int, ...]:
        """Where in an example tokens stand, each followed by their mask."""
        if isinstance(self.loaded, LoadedTranslator):
            return (0, 2)
        return () if self.loaded.tokenizer is None else (0,)

    @property
    def writes(self) -> bool:
        """Whether there are scores for each token, and not for the example."""
        return not isinstance(self.loaded, LoadedPredictor | LoadedEmbedder)

    def lengths(self, example: Example) -> list[int]:
        """Tokens that stand at each place."""
        return [_there(example[place]).shape[1] for place in self.places]

    def cut(self, example: Example, lengths: Sequence[int]) -> Example:
        """So many tokens of each place at most."""
        out = list(example)
        for place, length in zip(self.places, lengths, strict=True):
            mask = example[place + 1]
            out[place] = _there(example[place])[:, :length]
            out[place + 1] = None if mask is None else mask[:, :length]
        return tuple(out)

    def together(self, examples: Sequence[Example], more: int = 0) -> Example:
        """Examples as one batch: padded to the longest, and by so much more where the model has room."""
        columns = list(zip(*examples, strict=True))
        padded = {one for place in self.places for one in (place, place + 1)}
        out: list[Tensor | None] = [
            None if number in padded else torch.cat([_there(row) for row in column])
            for number, column in enumerate(columns)
        ]
        for place in self.places:
            rows = [_there(row) for row in columns[place]]
            longest = max(row.shape[1] for row in rows)
            longest = max(longest, min(longest + more, self.loaded.config.model.context))
            tokens = torch.full((len(rows), longest), self._pad, device=self.device)
            for number, row in enumerate(rows):
                tokens[number, : row.shape[1]] = row[0]
            counts = torch.tensor([row.shape[1] for row in rows], device=self.device)
            out[place] = tokens
            out[place + 1] = torch.arange(longest, device=self.device) < counts.unsqueeze(1)
        return tuple(out)

    @property
    def _pad(self) -> int:
        tokenizer = self.loaded.tokenizer
        return 0 if tokenizer is None or tokenizer.pad is None else tokenizer.pad

    def rows(self, batch: Example, examples: Sequence[Example], model: nn.Module | None = None) -> list[Tensor]:
        """The scores of each example of a batch, padding left out."""
        scores: Tensor = (model or self.model)(*batch)
        if not self.writes:
            return list(scores)
        return [row[: self.lengths(example)[-1]] for row, example in zip(scores, examples, strict=True)]

    def alone(self, example: Example, model: nn.Module | None = None) -> Tensor:
        return self.rows(example, [example], model)[0]

    def each(self, examples: Sequence[Example] | None = None, model: nn.Module | None = None) -> list[Tensor]:
        """The scores of examples, one by one."""
        return [self.alone(example, model) for example in (self.examples if examples is None else examples)]


def _there(tensor: Tensor | None) -> Tensor:
    assert tensor is not None
    return tensor


LEAST = 1e-2
"""Numbers smaller than this are compared as if they were as large: of 0, everything is endlessly far."""


def apart(one: Sequence[Tensor], other: Sequence[Tensor]) -> float:
    """The largest difference, as a share of the largest number; endless where they cannot be compared at all."""
    if len(one) != len(other) or any(a.shape != b.shape for a, b in zip(one, other, strict=True)):
        return torch.inf
    first, second = (
        torch.cat([each.detach().double().cpu().flatten() for each in several]) for several in (one, other)
    )
    return share_of((first - second).abs(), first)


def share_of(differences: Tensor, numbers: Tensor) -> float:
    """The largest of them, as a share of the largest number; endless where one is not a number."""
    if not differences.numel():
        return 0.0
    share = float(differences.max()) / max(float(numbers.abs().max()), LEAST)
    return share if math.isfinite(share) else torch.inf


def subject_of(
    run: "str | os.PathLike[str] | Run", *, data: str | None, device: str, model: OwnModel | None, say: Say
) -> Subject:
    """`data`: where the run's data is now; that it is gone is no error unless it was named."""
    loaded = load(run, device, model=model)
    prepared, missing = None, ""
    try:
        prepared = _prepared(loaded, data)
    except Misuse as error:
        if data is not None:
            raise
        missing = f"the data that this run was trained on is not there ({error})"
        if "imported" in loaded.run.card():
            missing = "an imported run comes without the data that it was trained on"
        say(f"{missing}: made-up examples are used instead (--data: where it is now)")
    given: list[ModelInput] = []
    if prepared is not None:
        given = _held_out(loaded, prepared, say)
    mask = (
        (None,) if isinstance(loaded, LoadedLanguageModel | LoadedMasked) else ()
    )  # a language model's tokens come without one
    examples = [(*one.inputs, *mask) for one in given]
    subject = Subject(loaded, model, prepared, missing, given, examples)
    if len(examples) < 2:
        subject = replace(subject, examples=[*examples, *made_up(loaded, COUNT, MOST, subject.device)])
    most_tokens = [min(MOST, loaded.config.model.context)] * len(subject.places)
    return replace(subject, examples=[subject.cut(example, most_tokens) for example in subject.examples])


def _held_out(loaded: Loaded, prepared: Prepared, say: Say) -> list[ModelInput]:
    """Some examples; none of a refit, which has learned from everything."""
    most = min(MOST, loaded.config.model.context)
    found = held_out_examples(loaded, prepared, count=COUNT, max_tokens=most)
    try:
        return list(found)
    except DataError:
        say("this run has learned from all its rows (a refit): made-up examples are used instead")
        return []


def _prepared(loaded: Loaded, data: str | None) -> Prepared:
    run = loaded.run
    config = loaded.config if data is None else resumed_config(run, {"data.path": whole_path("data.path", data)})
    prepared = prepare(config, silent, tokenizers_of(run))
    check_same_data(run, prepared)
    return prepared
