"""Examples of a run: one that a person gives, some that are held out, and the loss on them."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from glassformer.config.errors import DataError, Misuse, Say, silent
from glassformer.families.base import Loaded, Prepared
from glassformer.families.model_input import Example, ModelInput
from glassformer.families.prepare import prepare_again
from glassformer.tasks.base import Task

MAX_TOKENS = 128
"""The tokens of an example over which heads are measured."""
MAX_PATCHES = 4096
MAX_EVALUATED = 20_000
"""Tokens of the validation part on which a loss is measured again and again."""
A_TEXT = ": give a text"


def encode_example(
    loaded: Loaded, example: Example, *, target: str | None = None, beam: int = 5, say: Say = silent
) -> ModelInput:
    """An example as a run's model reads it; `target`: what a translator is to write, instead of what it would."""
    if isinstance(example, str) and not example.strip():
        raise Misuse("there is no text to look at")
    if target is not None and not loaded.family.has_decoder:
        raise Misuse("--translation is for runs that translate")
    return loaded.family.encode_example(loaded, example, target=target, beam=beam, say=say)


def evenly_chosen(places: NDArray[np.int64], count: int) -> list[int]:
    """So many of them at most, the first and the last among them."""
    if not len(places):
        return []
    return places[np.unique(np.linspace(0, len(places) - 1, count).round().astype(np.int64))].tolist()


def held_out_part(task: Task) -> str:
    """The validation part; of a refit, which has learned from that too, the test part."""
    found = next((name for name in ("validation", "test") if name in task.parts), None)
    if found is None:
        raise DataError("this run has learned from all its rows (a refit): nothing of them is held out; give a text")
    return found


def held_out_examples(
    loaded: Loaded, prepared: Prepared, *, count: int, max_tokens: int, max_patches: int = MAX_PATCHES
) -> Iterator[ModelInput]:
    """Some examples of the validation part, of so many tokens at most; of an image, so many patches."""
    part = held_out_part(prepared.task)
    yield from loaded.family.held_out_examples(
        loaded, prepared, part, count=count, max_tokens=max_tokens, max_patches=max_patches
    )


def validation_examples(loaded: Loaded, count: int, say: Say) -> list[ModelInput]:
    """Some examples of the data that a run was trained on, spread over its validation part."""
    prepared = prepare_again(loaded.run, A_TEXT)
    part = held_out_part(prepared.task)
    found = list(held_out_examples(loaded, prepared, count=count, max_tokens=MAX_TOKENS))
    if not found:
        raise DataError(f"no example of the {part} part has {MAX_TOKENS} tokens or fewer: give a text")
    say(f"{len(found)} examples of the {part} part")
    return found


def loss_on(
    loaded: Loaded, examples: Sequence[ModelInput], answer: str | None, say: Say
) -> tuple[Callable[[], float], str]:
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
            losses = [
                family.example_loss(loaded, example, target) for example, target in zip(examples, targets, strict=True)
            ]
        return float(torch.stack(losses).mean())

    return mean_loss, "loss on this text" if len(examples) == 1 else "loss on these texts"
