"""A walk through a model: every step of what it computes for a short text, layer and head as chosen."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor, nn

from glassformer.bricks.attention import Memory
from glassformer.bricks.embedding import OneHot, WordVectors
from glassformer.bricks.image import ConvolutionStack
from glassformer.config.errors import Misuse
from glassformer.encoders.base import Encoder
from glassformer.encoders.convolutional import CnnEncoder, WindowEncoder
from glassformer.encoders.identity import IdentityEncoder
from glassformer.encoders.recurrent import RecurrentEncoder
from glassformer.encoders.recurrent_decoder import RecurrentDecoder
from glassformer.encoders.transformer import TransformerEncoder
from glassformer.inspection.capture import capture
from glassformer.inspection.numbers.block import transformer_panels
from glassformer.inspection.numbers.convolution import cnn_panels, image_panels, window_panels
from glassformer.inspection.numbers.reading import answer_panels, bag_panels, head_panels, pool_panels
from glassformer.inspection.numbers.recurrent import layer_panels
from glassformer.inspection.numbers.recurrent_decoder import decoder_panels
from glassformer.inspection.numbers.writing import MOST_TOKENS, SHOWN, Sheet, array, check_length, chosen, number
from glassformer.models.inputs import ColumnTokens, ImageTokens
from glassformer.models.language_model import LanguageModel
from glassformer.models.reader import BagReader, Reader
from glassformer.models.seq2seq import Seq2Seq
from glassformer.rendering.panels import Panel, Words
from glassformer.rendering.view import View

NOTE = "Every number is the model's own; beside it the formula, and one cell worked out."


@torch.no_grad()
def walk(
    model: nn.Module,
    inputs: Sequence[Tensor | None],
    tokens: Sequence[str],
    *,
    layer: int = 0,
    head: int = 0,
    position: int | None = None,
    written: Sequence[str] = (),
    outputs: Sequence[str] = (),
    shown: int = SHOWN,
) -> View:
    """Through a language model, a reader, a bag of words or a translator, called with `inputs`, a batch of 1.

    `position`: the token that is worked out, of a translator among those `written`; None: the last. `outputs`: what
    the scores are of. So many of a vector's numbers as `shown`.
    """
    walks: list[tuple[type[nn.Module], Callable[..., list[Panel]]]] = [
        (LanguageModel, _language_model),
        (Reader, _reader),
        (BagReader, _bag),
        (Seq2Seq, _translator),
    ]
    through = next((through for kind, through in walks if isinstance(model, kind)), None)
    if through is None:
        raise Misuse(
            f"number by number knows the models that are built here, and not {type(model).__name__}: "
            "its steps are its own"
        )
    if isinstance(model, Reader):
        _check_reading(model, tokens)
    else:
        check_length(tokens, written)
    training = [module for module in model.modules() if module.training]
    try:
        model.eval()
        with capture(model) as seen:
            model(*inputs)
        choice = Choice(layer=layer, head=head, position=position, outputs=outputs, shown=shown)
        panels = through(model, seen, tuple(inputs), tokens, written, choice)
    finally:
        for module in training:
            module.training = True
    return View("Number by number", panels, NOTE)


@dataclass(frozen=True, kw_only=True)
class Choice:
    """What is worked out, and how much of it is shown."""

    layer: int
    head: int
    position: int | None
    outputs: Sequence[str]
    shown: int

    def sheet(self, tokens: Sequence[str], count: int) -> Sheet:
        if len(tokens) != count:
            raise Misuse(f"{len(tokens)} names of tokens, but the model reads {count} vectors: they must be as many")
        at = len(tokens) - 1 if self.position is None else chosen("position", self.position, len(tokens))
        return Sheet(tokens, at, self.shown)

    def last(self, tokens: Sequence[str]) -> Sheet:
        """Where the chosen token is none of these."""
        return Sheet(tokens, len(tokens) - 1, self.shown)


Given = tuple[Tensor | None, ...]


def _language_model(
    model: LanguageModel, seen: Mapping[str, Tensor], inputs: Given, tokens: Sequence[str], _: object, choice: Choice
) -> list[Panel]:
    sheet = choice.sheet(tokens, seen["encoder.input"].shape[1])
    panels = word_panels(model.embed, seen, "embed", sheet)
    panels += encoder_panels(model.encoder, seen, "encoder", sheet, choice)
    return panels + _next_panels(model.head, seen, "encoder", sheet, choice)


def _translator(
    model: Seq2Seq, seen: Mapping[str, Tensor], inputs: Given, tokens: Sequence[str], written: Sequence[str],
    choice: Choice,
) -> list[Panel]:  # fmt: skip
    """The source first, at its last token; then what is written."""
    source, sheet = choice.last(tokens), choice.sheet(written, seen["decoder.input"].shape[1])
    memory = Memory(seen["encoder.output"], inputs[1])
    own = replace(choice, layer=min(choice.layer, max(0, layers_in(model.encoder) - 1)))
    reading = [
        *word_panels(model.embed_source, seen, "embed_source", source),
        *encoder_panels(model.encoder, seen, "encoder", source, own),
    ]
    writing = [
        *word_panels(model.embed_target, seen, "embed_target", sheet),
        *encoder_panels(model.decoder, seen, "decoder", sheet, choice, memory, source),
        *_next_panels(model.head, seen, "decoder", sheet, choice),
    ]
    return [
        *(replace(panel, title=f"Source · {panel.title}") for panel in reading),
        *(replace(panel, title=f"Target · {panel.title}") for panel in writing),
    ]


def _reader(
    model: Reader, seen: Mapping[str, Tensor], inputs: Given, tokens: Sequence[str], _: object, choice: Choice
) -> list[Panel]:
    cut = _convolutions(model)
    count = seen["encoder.input"].shape[1]
    if cut is not None:  # the position is that of a cell of the first convolution
        tokens = [f"cell {cell}" for cell in range(count)]
    sheet = choice.last(tokens) if cut is not None else choice.sheet(tokens, count)
    panels: list[Panel] = []
    if isinstance(model.embed, ImageTokens):
        pixels = inputs[0]
        assert pixels is not None
        panels += image_panels(model.embed.cut, pixels, choice.position)
    panels += word_panels(model.embed, seen, "embed", sheet)
    panels += encoder_panels(model.encoder, seen, "encoder", sheet, choice)
    mask = model.vectors(*(tensor for tensor in inputs if tensor is not None))[1]
    real = np.ones(count, dtype=bool) if mask is None else mask[0].cpu().numpy()
    panels += pool_panels(model.pool, seen, tokens, real, choice.shown)
    panels += head_panels(model.head, seen["pool.output"], choice.outputs, shown=choice.shown)
    return panels + answer_panels(array(seen["logits"][0]), choice.outputs, shown=choice.shown)


def _bag(
    model: BagReader, seen: Mapping[str, Tensor], inputs: Given, tokens: Sequence[str], _: object, choice: Choice
) -> list[Panel]:
    ids, mask = (*inputs, None)[:2]
    assert ids is not None
    panels = bag_panels(model.bag, ids, mask, tokens, choice.shown)
    panels += head_panels(model.head, model.bag(ids, mask), choice.outputs, shown=choice.shown, row="u", letter="u")
    return panels + answer_panels(array(seen["logits"][0]), choice.outputs, shown=choice.shown)


def _next_panels(head: nn.Linear, seen: Mapping[str, Tensor], path: str, sheet: Sheet, choice: Choice) -> list[Panel]:
    """The scores of the token that follows the chosen one."""
    x = seen[f"{path}.output"][:, sheet.at]
    panels = head_panels(head, x, choice.outputs, shown=choice.shown, row=sheet.rows[sheet.at], letter="x")
    scores = array(seen["logits"][0, sheet.at])
    return panels + answer_panels(scores, choice.outputs, shown=choice.shown, at=f": what follows {sheet.token}")


def word_panels(embed: nn.Module, seen: Mapping[str, Tensor], path: str, sheet: Sheet) -> list[Panel]:
    """What the tokens become before any layer."""
    formula = {
        WordVectors: "x = row w of a table, for word w",
        OneHot: "x = 1 at the word's place, else 0",
        ColumnTokens: "x = z · v + b for a number z, each column its own v and b; for a category its own vector",
        ImageTokens: "x = y of every filter, at each cell",
    }.get(type(embed), "x")
    if isinstance(embed, WordVectors):
        formula += "" if embed.fit is None else ", led to the model's width by a linear map"
        formula += "" if embed.scale == 1.0 else f", times {number(embed.scale)}"
    return [sheet.vectors("Vectors", array(seen[f"{path}.vectors"][0]), formula)]


def layers_in(encoder: Encoder) -> int:
    if isinstance(encoder, TransformerEncoder):
        return len(encoder.blocks)
    if isinstance(encoder, CnnEncoder):
        return len(encoder.convolutions)
    return encoder.layers.cell.num_layers if isinstance(encoder, RecurrentEncoder | RecurrentDecoder) else 1


def encoder_panels(
    encoder: Encoder,
    seen: Mapping[str, Tensor],
    path: str,
    sheet: Sheet,
    choice: Choice,
    memory: Memory | None = None,
    source: Sheet | None = None,
) -> list[Panel]:
    """The chosen layer of an encoder, and what all of them together give."""
    count = layers_in(encoder)
    layer = chosen("layer", choice.layer, count)
    looks = isinstance(encoder, RecurrentDecoder) and encoder.attention is not None
    ends = looks or (layer == count - 1 and not isinstance(encoder, RecurrentEncoder | RecurrentDecoder))
    """What it gives stands there already."""
    out = sheet.vectors(
        f"What the {path} gives",
        array(seen[f"{path}.output"][0]),
        "x, after all layers",
        note=f"Layers 0 to {count - 1}; shown is layer {layer}." if count > 1 else "",
    )
    if isinstance(encoder, TransformerEncoder):
        head = chosen("head", choice.head, encoder.own_blocks()[layer].attend.heads)
        states = None if memory is None else memory.states
        panels = transformer_panels(
            encoder, seen, path, layer=layer, head=head, sheet=sheet, memory=states, source=source
        )
    elif isinstance(encoder, RecurrentEncoder):
        first, given = encoder.layers.start(1), seen[f"{path}.input"][0]
        panels = layer_panels(
            encoder.layers, seen, f"{path}.layers", layer=layer, sheet=sheet, given=given, first=first
        )
    elif isinstance(encoder, RecurrentDecoder):
        assert memory is not None
        assert source is not None
        panels = decoder_panels(encoder, seen, path, layer=layer, sheet=sheet, memory=memory, source=source)
    elif isinstance(encoder, CnnEncoder):
        panels = cnn_panels(encoder, seen, path, layer=layer, sheet=sheet)
    elif isinstance(encoder, WindowEncoder):
        panels = window_panels(encoder, seen[f"{path}.input"], seen[f"{path}.output"], sheet)
    elif isinstance(encoder, IdentityEncoder):
        return []
    else:
        ends = False
        panels = [Words(text=f"The steps of {type(encoder).__name__} are its own; what it gives follows.")]
    return panels if ends else [*panels, out]


def _check_reading(model: Reader, tokens: Sequence[str]) -> None:
    """What is not a text is told by its own name."""
    if _convolutions(model) is not None or len(tokens) <= MOST_TOKENS:
        return
    if isinstance(model.embed, ImageTokens):
        cut = f"this model cuts an image into {len(tokens)}; larger ones are fewer (--model.patch)"
        raise Misuse(f"number by number shows at most {MOST_TOKENS} patches, and {cut}")
    if isinstance(model.embed, ColumnTokens):
        raise Misuse(f"number by number shows at most {MOST_TOKENS} columns, and there are {len(tokens)}")
    check_length(tokens)


def _convolutions(model: Reader) -> ConvolutionStack | None:
    """Of images whose cells are too many to be listed."""
    cut = model.embed.cut if isinstance(model.embed, ImageTokens) else None
    return cut if isinstance(cut, ConvolutionStack) else None
