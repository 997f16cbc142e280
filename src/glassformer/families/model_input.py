"""An example on its way through a model: what that is called with, and what a person knows its tokens by."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from glassformer.config.errors import Misuse
from glassformer.config.say import Say, silent
from glassformer.data.features.build import MixedFeatures, MixedInputs
from glassformer.data.features.images import ImageInputs
from glassformer.data.features.inputs import Features, Inputs
from glassformer.data.features.pairs import source_room, target_room_of
from glassformer.data.features.tables import TableFeatures, TableInputs
from glassformer.data.features.texts import Examples
from glassformer.data.split.labelled import Labelled
from glassformer.families.fill import framed_ids
from glassformer.families.load import (
    AnyLoaded,
    LoadedMasked,
    LoadedPredictor,
    LoadedTranslator,
    LoadedVectors,
    LoadedWriter,
)
from glassformer.families.predict import Example, inputs_of, part_of
from glassformer.families.translate import source_ids
from glassformer.models.inputs import FlatColumns, FlatPixels, ImageTokens, MixedTokens
from glassformer.tasks.labelling import device_of
from glassformer.text.tokenizer import Tokenizer


@dataclass(frozen=True, kw_only=True)
class Given:
    """One example. `model(*inputs)` computes it, as a batch of one."""

    inputs: tuple[Tensor | None, ...]
    text: str
    tokens: list[str]
    """A name for every vector that the encoder reads; of a translator, that of the source."""
    ids: list[int]
    """The words among them, START and END included."""
    words: range
    """Where these stand among the tokens."""
    written: list[str] | None = None
    """Of a translator: the tokens after which it writes, START first."""
    answers: list[str] | None = None
    """What follows each: the next token of a text ("" after the last), or what a translator writes, END last. Of a
    masked model what stands there ("": MASK).
    """
    answer_ids: list[int] | None = None
    """The same as ids; of a text one fewer, for nothing follows its last token."""
    stand: list[int | None] | None = None
    """Of a masked model: the id at each place, None where MASK stands, or what it is never asked for: START, END."""
    output: str = ""
    """What a translator writes."""
    columns: tuple[str, ...] = ()
    """Of a table's row: its numbers, then its categories."""
    pixels: NDArray[np.uint8] | None = None
    grid: tuple[int, int] | None = None
    """Rows and columns of an image's patches, which stand row by row at `patches`."""
    patches: range | None = None

    @property
    def follows(self) -> list[int | None]:
        """The id after each token that something is written after, or where one is guessed; None: nobody knows."""
        if self.stand is not None:
            return self.stand
        return [*(self.answer_ids or []), *([] if self.written else [None])]

    @property
    def sides(self) -> dict[str, tuple[Sequence[str], Sequence[str]]]:
        """The tokens that look and those looked at, by stack of attention."""
        read, written = (self.tokens, self.tokens), (self.written or [], self.written or [])
        return {"self": read, "source": read, "target": written, "cross": (self.answers or [], self.tokens)}

    @property
    def square(self) -> tuple[int, int] | None:
        """How an example that is nothing but an image is cut: into patches, or into pixels where it is one vector."""
        if self.pixels is None or self.columns or self.ids:
            return None
        height, width = self.pixels.shape[:2]
        return self.grid or (height, width)

    @property
    def parts(self) -> Sequence[str]:
        """What a model can do without: a name for each token, or for each column or pixel of what is one vector."""
        if self.square is not None:
            return [f"{row},{column}" for row in range(self.square[0]) for column in range(self.square[1])]
        return self.columns if len(self.tokens) == 1 and self.columns else self.tokens


def given(loaded: AnyLoaded, example: Example, *, target: str | None = None, beam: int = 5, say: Say = silent) -> Given:
    """An example as a run's model reads it; `target`: what a translator is to write, instead of what it would."""
    if isinstance(example, str) and not example.strip():
        raise Misuse("there is no text to look at")
    if target is not None and not isinstance(loaded, LoadedTranslator):
        raise Misuse("--translation is for runs that translate")
    if isinstance(loaded, LoadedPredictor | LoadedVectors):
        return _to_predict(loaded, example, say)
    if not isinstance(example, str):
        raise Misuse(f"this run reads texts, not a {type(example).__name__}")
    if isinstance(loaded, LoadedTranslator):
        return _to_translate(loaded, example, target, beam, say)
    if isinstance(loaded, LoadedMasked):
        return _to_guess(loaded, example, say)
    return _to_write(loaded, example, say)


def _to_guess(loaded: LoadedMasked, text: str, say: Say) -> Given:
    """With MASK wherever the text says so."""
    tokenizer = loaded.tokenizer
    ids = framed_ids(tokenizer, text, loaded.config.model.context, say)
    _say_unknown(tokenizer, ids, say)
    names = [tokenizer.shown(id) for id in ids]
    never = {tokenizer.mask, *tokenizer.roles.marks}
    return Given(
        inputs=(torch.tensor([ids], device=device_of(loaded.model)),),
        text=text,
        tokens=names,
        ids=ids,
        words=range(len(ids)),
        answers=["" if id == tokenizer.mask else name for id, name in zip(ids, names, strict=True)],
        stand=[None if id in never else id for id in ids],
    )


def _to_write(loaded: LoadedWriter, text: str, say: Say) -> Given:
    tokenizer, context = loaded.tokenizer, loaded.config.model.context
    start = [] if tokenizer.start is None else [tokenizer.start]
    ids = [*start, *tokenizer.encode(text)]
    if len(ids) > context:
        say(f"the text is {len(ids) - len(start):,} tokens long and cut after {context - len(start):,}: no more fit")
    ids = ids[:context]
    _say_unknown(tokenizer, ids, say)
    names = [tokenizer.shown(id) for id in ids]
    device = device_of(loaded.model)
    return Given(
        inputs=(torch.tensor([ids], device=device),),
        text=text,
        tokens=names,
        ids=ids,
        words=range(len(ids)),
        answers=[*names[1:], ""],
        answer_ids=ids[1:],
    )


def _to_translate(loaded: LoadedTranslator, text: str, target: str | None, beam: int, say: Say) -> Given:
    tokenizer, context = loaded.target_tokenizer, loaded.config.model.context
    ids, was_cut = source_ids(loaded.tokenizer, text, context)
    if was_cut:
        long = len(loaded.tokenizer.encode(text))
        room = source_room(loaded.tokenizer.roles, context)
        say(f"the text is {long:,} tokens long and cut after {room:,}: no more fit")
    _say_unknown(loaded.tokenizer, ids, say)
    best = loaded.translate(text, beam=beam).best[0] if target is None else None
    output, written = (target or "", tokenizer.encode(target or "")) if best is None else (best.text, best.ids)
    roles, room = tokenizer.roles, target_room_of(tokenizer.roles, context)
    if len(written) > room:
        say(f"the translation is longer than {room:,} tokens and cut there")
    whole = [*roles.opening, *written[:room], *roles.closing[:1]]
    before, answers = whole[:-1], whole[1:]
    device = device_of(loaded.model)
    return Given(
        inputs=(torch.tensor([ids], device=device), None, torch.tensor([before], device=device), None),
        text=text,
        tokens=[loaded.tokenizer.shown(id) for id in ids],
        ids=ids,
        words=range(len(ids)),
        written=[tokenizer.shown(id) for id in before],
        answers=[tokenizer.shown(id) for id in answers],
        answer_ids=answers,
        output=output,
    )


def _to_predict(loaded: LoadedPredictor | LoadedVectors, example: Example, say: Say) -> Given:
    part = part_of(loaded.features, loaded.config, [example], say)
    read = as_read(loaded, part, inputs_of(loaded.features, loaded.config, part, say))
    if loaded.tokenizer is not None:
        _say_unknown(loaded.tokenizer, read.ids, say)
    return read


def as_read(loaded: LoadedPredictor | LoadedVectors, part: Labelled, inputs: Inputs, row: int = 0) -> Given:
    """One example of a part that a run's features have read."""
    device = device_of(loaded.model)
    tensors = tuple(tensor.to(device) for tensor in inputs.take(np.array([row])))
    text, table, image = _kinds(inputs)
    ids = [] if text is None else text.tokens.padded(np.array([row]))[0][0].tolist()
    tokenizer = loaded.tokenizer
    words = [] if tokenizer is None else [tokenizer.shown(id) for id in ids]
    columns = () if table is None else _column_names(loaded.features)
    embed = getattr(loaded.model, "embed", None)
    cut = embed.image if isinstance(embed, MixedTokens) else embed if isinstance(embed, ImageTokens) else None
    grid = None if cut is None else cut.cut.grid
    cells = [] if grid is None else [f"{row},{column}" for row in range(grid[0]) for column in range(grid[1])]
    tokens = [*columns, *cells, *words]
    if isinstance(embed, FlatColumns | FlatPixels):
        tokens = ["the row" if isinstance(embed, FlatColumns) else "the image"]
    before = len(tokens) - len(words)
    return Given(
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


def _kinds(inputs: Inputs) -> tuple[Examples | None, TableInputs | None, ImageInputs | None]:
    if isinstance(inputs, MixedInputs):
        return inputs.text, inputs.table, inputs.image
    found: list[Any] = [inputs if isinstance(inputs, kind) else None for kind in (Examples, TableInputs, ImageInputs)]
    return found[0], found[1], found[2]


def _column_names(features: Features) -> tuple[str, ...]:
    table = features.table if isinstance(features, MixedFeatures) else features
    assert isinstance(table, TableFeatures)
    numbers = [column.name for column in table.numbers]
    flags = [f"{column.name} is empty" for column in table.numbers if column.flag]
    return (*numbers, *flags, *(column.name for column in table.categories))


def _say_unknown(tokenizer: Tokenizer, ids: list[int], say: Say) -> None:
    if tokenizer.unk is not None and (unknown := ids.count(tokenizer.unk)):
        say(f"{unknown} of the text's tokens {'is' if unknown == 1 else 'are'} unknown to this model")
