"""Families that read whole examples, and the family of imported models that embed texts.

Embedding models are imported and used with `embed`. They are not trained here.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
import torch
from torch import Generator, Tensor, nn

from glassformer.config.errors import Misuse, SettingError
from glassformer.config.presets import TEXT, VECTORS
from glassformer.config.resolve import Config
from glassformer.data.features.build import text_features
from glassformer.data.features.inputs import Features, Inputs
from glassformer.data.split.labelled import Labelled
from glassformer.families import requests
from glassformer.families.base import Family, Loaded, ModelCall, Processor
from glassformer.families.predict import images_in, inputs_of, part_of, texts_in
from glassformer.families.schema import table_in
from glassformer.families.vectors import embed_examples
from glassformer.models.build import build_vectors
from glassformer.models.inputs import FlatColumns, FlatPixels, ImageTokens, MixedTokens
from glassformer.models.modules import TextPredictor, device_of
from glassformer.runs.run import Run
from glassformer.text.tokenizer import Tokenizer


class ExampleFamily(Family):
    """Base class of the families that read whole examples."""

    def encode_example(
        self, loaded: Any, example: requests.Example, *, target: str | None, beam: int
    ) -> requests.ModelInput:
        part = part_of(loaded.features, loaded.config, [example])
        read = row_input(loaded, part, inputs_of(loaded.features, loaded.config, part))
        if loaded.tokenizer is not None:
            requests.say_unknown(loaded.tokenizer, read.ids)
        return read

    def random_call(self, loaded: Any, generator: Generator, max_tokens: int) -> ModelCall:
        shape, made = loaded.features.shape, list[Tensor]()
        if shape.vocab:
            ids = requests.random_tokens(shape.vocab, generator, max_tokens)
            made += [ids, torch.ones_like(ids, dtype=torch.bool)]
        if shape.columns:
            made.append(torch.randn(1, shape.numbers, generator=generator))
            categories = [torch.randint(values, (1, 1), generator=generator) for values in shape.categories]
            made.append(torch.cat([torch.empty(1, 0, dtype=torch.long), *categories], 1))
        if shape.image is not None:
            made.append(torch.randn(1, *shape.image, generator=generator))
        return tuple(made)

    def embed(self, loaded: Any, examples: Any, *, tokens: bool) -> list[requests.Embedded]:
        if loaded.config.data.kind == TEXT:
            return super().embed(loaded, examples, tokens=tokens)
        if tokens:
            raise Misuse(f"{loaded.run.path} reads more than texts: it has a vector for each example, not for tokens")
        return embed_examples(loaded.model, loaded.features, loaded.config, examples)


def row_input(loaded: Any, part: Labelled, inputs: Inputs, row: int = 0) -> requests.ModelInput:
    """Return one example of a part whose features have been read."""
    tensors = tuple(tensor.to(device_of(loaded.model)) for tensor in inputs.take(np.array([row])))
    text, image = texts_in(inputs), images_in(inputs)
    ids = [] if text is None else text.tokens.padded(np.array([row]))[0][0].tolist()
    tokenizer = loaded.tokenizer
    words = [] if tokenizer is None else [tokenizer.shown(id) for id in ids]
    columns = _column_names(loaded.features)
    embedding = getattr(loaded.model, "embed", None)
    of_image = embedding.image if isinstance(embedding, MixedTokens) else embedding
    grid = of_image.cut.grid if isinstance(of_image, ImageTokens) else None
    cells = [] if grid is None else [f"{row},{column}" for row in range(grid[0]) for column in range(grid[1])]
    tokens = [*columns, *cells, *words]
    if isinstance(embedding, FlatColumns | FlatPixels):
        tokens = ["the row" if isinstance(embedding, FlatColumns) else "the image"]
    before = len(tokens) - len(words)
    return requests.ModelInput(
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
    """Return a name for each value that the model reads from a table's columns."""
    table = table_in(features)
    if table is None:
        return ()
    numbers = [column.name for column in table.numbers]
    flags = [f"{column.name} is empty" for column in table.numbers if column.flag]
    return (*numbers, *flags, *(column.name for column in table.categories))


@dataclass(frozen=True, repr=False)
class LoadedEmbedder(Loaded):
    """A run that returns a vector for each text."""

    model: TextPredictor
    tokenizer: Tokenizer
    features: Features


class EmbeddingFamily(ExampleFamily):
    task = VECTORS
    title = "A model of vectors of texts"
    verb = "embed"
    is_trained = False
    loaded_class = LoadedEmbedder

    def recognise(self, request: requests.ConfigRequest) -> NoReturn:
        raise SettingError("--task vectors is only for imported models: train another task --from such a run")

    def read_processor(self, run: Run, config: Config) -> Processor:
        tokenizer = run.tokenizer()
        assert tokenizer is not None
        return Processor(tokenizer=tokenizer, features=text_features(tokenizer, config))

    def build_model(self, config: Config, processor: Processor) -> nn.Module:
        return build_vectors(config.model, vocab=processor.shape.vocab, seed=config.training.seed)

    def check_options(self, loaded: Loaded, options: requests.EvaluateOptions) -> None:
        self._only_embeds(loaded)

    def answer_function(self, loaded: Any, *, top: int) -> NoReturn:
        self._only_embeds(loaded)

    def _only_embeds(self, loaded: Loaded) -> NoReturn:
        raise Misuse(f"{loaded.run.path} only gives a vector for each text: glassformer embed {loaded.run.path} TEXT")

    def chance_level(self, config: Config, card: Mapping[str, Any]) -> tuple[None, str]:
        return None, ""

    def _untrained(self, *args: Any, **more: Any) -> NoReturn:
        raise Misuse(f"{self.task} is nothing to train: there is no data of it, and no right answer")

    split_data = prepare = whole_part = evaluate_part = held_out_examples = _untrained


FAMILIES = (EmbeddingFamily(),)
