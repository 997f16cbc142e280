"""Evaluate a run on a part of its data or on other data, and measure its loss on single examples."""

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
    """Raised when a run's own data is missing or has changed."""

    def __init__(self, why: str) -> None:
        super().__init__(f"{why}: name the data to evaluate on")
        self.why = why


def evaluate_run(run: AnyRun, options: EvaluateOptions, device: str = "auto") -> EvaluatedPart:
    """Return the evaluation of a run, with the part and the corpus that it belongs to."""
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
    """Evaluate a run on a part of its own data or of other data."""
    with torch.inference_mode():
        return loaded.family.evaluate_part(loaded, part, options)


def own_corpus(loaded: Loaded) -> DataParts:
    """Return the data that the run was trained on, divided as for training. Raise `OwnDataGone` if it has changed."""
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
"""Maximum number of tokens of an example on which attention heads are measured."""
MAX_PATCHES = 4096
MAX_EVALUATED = 20_000
"""Maximum number of validation tokens for a loss that is measured repeatedly."""
A_TEXT = ": give a text"


def encode_example(loaded: Loaded, example: Example, *, target: str | None = None, beam: int = 5) -> ModelInput:
    """Return an example as inputs of a run's model. `target`: a translation to use instead of the model's own."""
    if isinstance(example, str) and not example.strip():
        raise Misuse("there is no text to look at")
    if target is not None and not loaded.family.has_decoder:
        raise Misuse("--translation is for runs that translate")
    return loaded.family.encode_example(loaded, example, target=target, beam=beam)


def held_out_part(task: Task) -> str:
    """Return the name of the validation part, or else of the test part. Raise `DataError` if the task has neither."""
    part = next((name for name in ("validation", "test") if name in task.parts), None)
    if part is None:
        raise DataError("this run has learned from all its data: nothing of it is held out; give a text")
    return part


def held_out_examples(
    loaded: Loaded, prepared: Prepared, *, count: int, max_tokens: int, max_patches: int = MAX_PATCHES
) -> Iterator[ModelInput]:
    """Yield up to `count` held-out examples with at most `max_tokens` tokens, or `max_patches` patches of an image."""
    limits = {"count": count, "max_tokens": max_tokens, "max_patches": max_patches}
    yield from loaded.family.held_out_examples(loaded, prepared, held_out_part(prepared.task), **limits)


def validation_examples(loaded: Loaded, count: int) -> list[ModelInput]:
    """Return up to `count` examples from the held-out part of the data that a run was trained on."""
    prepared = prepare_again(loaded.run, A_TEXT)
    part = held_out_part(prepared.task)
    examples = list(held_out_examples(loaded, prepared, count=count, max_tokens=MAX_TOKENS))
    if not examples:
        raise DataError(f"no example of the {part} part has {MAX_TOKENS} tokens or fewer: give a text")
    say(f"{counted(len(examples), 'example')} of the {part} part")
    return examples


def loss_on(loaded: Loaded, examples: Sequence[ModelInput], answer: str | None) -> tuple[Callable[[], float], str]:
    """Return a function that measures a model's loss, and the name of the loss.

    The function uses `examples`, or the held-out part if there are none. The loss on a text is per token, and the loss
    on a translation is per target token. For other examples, the target is `answer`; if that is None, the target is the
    answer of the whole model.
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
