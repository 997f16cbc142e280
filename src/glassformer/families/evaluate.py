"""A run on its data: how good it is, examples of what is held out or given, and the loss on them."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from glassformer.config.errors import DataError, Misuse
from glassformer.config.messages import say
from glassformer.data.wording import counted
from glassformer.families.base import AnyRun, DataParts, EvaluatedPart, Loaded, Prepared
from glassformer.families.build import prepare_again, split_data
from glassformer.families.load import loaded_run
from glassformer.families.requests import EvaluateOptions, Example, ModelInput
from glassformer.runs.run import CARD
from glassformer.tasks.base import Task


class OwnDataGone(DataError):
    """A run's own data is not there, or not what it was."""

    def __init__(self, why: str) -> None:
        super().__init__(f"{why}: name the data to evaluate on")
        self.why = why


def evaluate_run(run: AnyRun, options: EvaluateOptions, device: str = "auto") -> EvaluatedPart:
    """An evaluation with everything that belongs to it."""
    if options.other_data and options.part is not None:
        raise Misuse(f"--part {options.part} is a part of the run's own data: it does not go with other data")
    if options.reading and not options.other_data:
        raise Misuse(f"--data.{next(iter(options.reading))} says how other data is read: name the DATA to evaluate on")
    loaded = loaded_run(run, device)
    loaded.family.check_options(loaded, options)
    if "bad_rows" in options.reading and (why := loaded.config.idle("data.bad_rows")) is not None:
        raise Misuse(why)
    if options.other_data:
        return evaluate_part(loaded, loaded.family.whole_part(loaded, options), options)
    corpus, part = own_corpus(loaded), options.part
    name = part or ("test" if "test" in corpus.parts else "validation")
    if part is None and name not in corpus.parts:
        raise Misuse(f"{loaded.run.path} has learned from all its data: name other DATA to evaluate on")
    if name not in corpus.parts:
        raise Misuse(f"this run has no {name} part; it has {', '.join(corpus.parts)}")
    return replace(evaluate_part(loaded, corpus.parts[name], options), corpus=corpus)


def evaluate_part(loaded: Loaded, part: Any, options: EvaluateOptions) -> EvaluatedPart:
    """What a run makes of a part, its own or another's."""
    with torch.inference_mode():
        return loaded.family.evaluate_part(loaded, part, options)


def own_corpus(loaded: Loaded) -> DataParts:
    """The data that the run was trained on, divided as it was then."""
    path = loaded.config.data.path or loaded.config.data.source_file
    if path is None:
        raise OwnDataGone(f"{loaded.run.path} does not know what it was trained on")
    try:
        corpus = split_data(loaded.config)
    except Misuse as error:
        raise OwnDataGone(f"the data this run was trained on is not there ({error})") from None
    if corpus.fingerprint != loaded.run.card().get("data", {}).get("fingerprint"):
        raise OwnDataGone(f"{path} is not the data that this run was trained on, by the fingerprint in {CARD}")
    return corpus


MAX_TOKENS = 128
"""The tokens of an example over which heads are measured."""
MAX_PATCHES = 4096
MAX_EVALUATED = 20_000
"""Tokens of the validation part on which a loss is measured again and again."""
A_TEXT = ": give a text"


def encode_example(loaded: Loaded, example: Example, *, target: str | None = None, beam: int = 5) -> ModelInput:
    """An example as a run's model reads it; `target`: what a translator is to write, instead of what it would."""
    if isinstance(example, str) and not example.strip():
        raise Misuse("there is no text to look at")
    if target is not None and not loaded.family.has_decoder:
        raise Misuse("--translation is for runs that translate")
    return loaded.family.encode_example(loaded, example, target=target, beam=beam)


def held_out_part(task: Task) -> str:
    """The validation part; where there is none, or it has been learned from, the test part."""
    part = next((name for name in ("validation", "test") if name in task.parts), None)
    if part is None:
        raise DataError("this run has learned from all its data: nothing of it is held out; give a text")
    return part


def held_out_examples(
    loaded: Loaded, prepared: Prepared, *, count: int, max_tokens: int, max_patches: int = MAX_PATCHES
) -> Iterator[ModelInput]:
    """Some examples of the validation part, of so many tokens at most; of an image, so many patches."""
    limits = {"count": count, "max_tokens": max_tokens, "max_patches": max_patches}
    yield from loaded.family.held_out_examples(loaded, prepared, held_out_part(prepared.task), **limits)


def validation_examples(loaded: Loaded, count: int) -> list[ModelInput]:
    """Some examples of the data that a run was trained on, spread over its validation part."""
    prepared = prepare_again(loaded.run, A_TEXT)
    part = held_out_part(prepared.task)
    examples = list(held_out_examples(loaded, prepared, count=count, max_tokens=MAX_TOKENS))
    if not examples:
        raise DataError(f"no example of the {part} part has {MAX_TOKENS} tokens or fewer: give a text")
    say(f"{counted(len(examples), 'example')} of the {part} part")
    return examples


def loss_on(loaded: Loaded, examples: Sequence[ModelInput], answer: str | None) -> tuple[Callable[[], float], str]:
    """Something that measures a model's loss: on these examples, or without any on the validation part; and its name.

    Of a text the loss per token, of a translation that of what is written, of an example that of its `answer`, or where
    nobody says it of the answer that the whole model gives.
    """
    model, family = loaded.model, loaded.family
    if examples and not family.text_loss:
        raise Misuse("the loss of a masked model is that of tokens hidden in its validation part: give no text")
    if not examples:
        prepared = prepare_again(loaded.run, A_TEXT if family.text_loss else "")
        part = held_out_part(prepared.task)
        say(f"the loss is that of the {part} part")

        def validate() -> float:
            with torch.no_grad():
                return prepared.task.evaluate(model, part, most=MAX_EVALUATED).metrics["loss"]

        return validate, f"{part} loss ({prepared.task.unit})"
    with torch.no_grad():
        targets = [family.example_target(loaded, example, answer) for example in examples]

    def mean_loss() -> float:
        with torch.no_grad():
            losses = list(map(partial(family.example_loss, loaded), examples, targets))
        return float(torch.stack(losses).mean())

    return mean_loss, "loss on this text" if len(examples) == 1 else "loss on these texts"
