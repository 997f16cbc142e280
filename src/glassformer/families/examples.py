"""Examples of a run: one that a person gives, some that are held out, and the loss on them."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Generator, Tensor

from glassformer.config.errors import DataError, Misuse, Say, silent
from glassformer.config.presets import (
    TEXT,
)
from glassformer.data.features.build import MixedFeatures
from glassformer.data.features.inputs import Features, Inputs
from glassformer.data.features.tables import TableFeatures
from glassformer.data.split.labelled import Labelled
from glassformer.families.base import Family, Loaded, ModelCall, Prepared
from glassformer.families.predict import (
    embed,
    embed_examples,
    images_in,
    inputs_of,
    part_of,
    texts_in,
)
from glassformer.families.prepare import prepare_again
from glassformer.families.requests import Embedded, Example, ModelInput, random_tokens, say_unknown
from glassformer.models.inputs import FlatColumns, FlatPixels, ImageTokens, MixedTokens
from glassformer.tasks.base import Task
from glassformer.tasks.labelling import device_of

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


# --- families that read whole examples ---


class ExampleFamily(Family):
    """What the families share that read whole examples."""

    def encode_example(self, loaded: Any, example: Example, *, target: str | None, beam: int, say: Say) -> ModelInput:
        part = part_of(loaded.features, loaded.config, [example], say)
        read = row_input(loaded, part, inputs_of(loaded.features, loaded.config, part, say))
        if loaded.tokenizer is not None:
            say_unknown(loaded.tokenizer, read.ids, say)
        return read

    def random_call(self, loaded: Any, generator: Generator, max_tokens: int) -> ModelCall:
        shape, made = loaded.features.shape, list[Tensor]()
        if shape.vocab:
            ids = random_tokens(shape.vocab, generator, max_tokens)
            made += [ids, torch.ones_like(ids, dtype=torch.bool)]
        if shape.columns:
            made.append(torch.randn(1, shape.numbers, generator=generator))
            of = [torch.randint(values, (1, 1), generator=generator) for values in shape.categories]
            made.append(torch.cat([torch.empty(1, 0, dtype=torch.long), *of], 1))
        if shape.image is not None:
            made.append(torch.randn(1, *shape.image, generator=generator))
        return tuple(made)

    def embed(self, loaded: Any, examples: Sequence[Example], *, tokens: bool) -> list[Embedded]:
        if loaded.config.data.kind == TEXT:
            return embed(loaded.model, loaded.tokenizer, loaded.config, [str(text) for text in examples], tokens=tokens)
        if tokens:
            raise Misuse(f"{loaded.run.path} reads more than texts: it has a vector for each example, not for tokens")
        return embed_examples(loaded.model, loaded.features, loaded.config, examples)


def row_input(loaded: Any, part: Labelled, inputs: Inputs, row: int = 0) -> ModelInput:
    """One example of a part that a run's features have read."""
    device = device_of(loaded.model)
    tensors = tuple(tensor.to(device) for tensor in inputs.take(np.array([row])))
    text, image = texts_in(inputs), images_in(inputs)
    ids = [] if text is None else text.tokens.padded(np.array([row]))[0][0].tolist()
    tokenizer = loaded.tokenizer
    words = [] if tokenizer is None else [tokenizer.shown(id) for id in ids]
    columns = _column_names(loaded.features)
    embedding = getattr(loaded.model, "embed", None)
    cut = (
        embedding.image
        if isinstance(embedding, MixedTokens)
        else embedding
        if isinstance(embedding, ImageTokens)
        else None
    )
    grid = None if cut is None else cut.cut.grid
    cells = [] if grid is None else [f"{row},{column}" for row in range(grid[0]) for column in range(grid[1])]
    tokens = [*columns, *cells, *words]
    if isinstance(embedding, FlatColumns | FlatPixels):
        tokens = ["the row" if isinstance(embedding, FlatColumns) else "the image"]
    before = len(tokens) - len(words)
    return ModelInput(
        inputs=tensors,
        text=part.texts[row],
        tokens=tokens,
        ids=ids,
        words=range(before, len(tokens)),
        columns=columns,
        pixels=None if image is None else image.pixels[row],
        grid=grid,
        patches=None if grid is None else range(len(columns), before),
    )


def _column_names(features: Features) -> tuple[str, ...]:
    """The names of what is read of a table's columns."""
    table = features.table if isinstance(features, MixedFeatures) else features
    if not isinstance(table, TableFeatures):
        return ()
    numbers = [column.name for column in table.numbers]
    flags = [f"{column.name} is empty" for column in table.numbers if column.flag]
    return (*numbers, *flags, *(column.name for column in table.categories))
