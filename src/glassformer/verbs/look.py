"""Inside a run: for now, how a translation is aligned with its source."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from glassformer.config.errors import Misuse
from glassformer.config.say import Say, silent
from glassformer.look.alignment import alignment_weights, draw_alignment
from glassformer.runs.run import Run
from glassformer.verbs.load import LoadedTranslator, load_translator
from glassformer.verbs.translate import source_ids


@dataclass(frozen=True)
class Alignment:
    """A source, its translation, and how much each token of that looked at each of the source's."""

    source: list[str]
    output: list[str]
    translation: str
    weights: Float[NDArray[np.float32], "T S"]
    """Of the layer and head that were chosen, or the mean over all."""
    layers: int
    heads: int
    which: str
    """The layer and head that were chosen, in words."""

    def save(self, path: str | Path) -> None:
        """A picture: .png, .svg or .pdf."""
        title = f"{self.translation}   ({self.which})" if self.layers * self.heads > 1 else self.translation
        draw_alignment(self.source, self.output, self.weights, path=Path(path), title=title)

    def to_dict(self) -> dict[str, Any]:
        shown = {"source": self.source, "output": self.output, "translation": self.translation}
        return {**shown, "weights": self.weights.tolist()}


def look(
    run: "str | os.PathLike[str] | Run | LoadedTranslator",
    text: str,
    *,
    target: str | None = None,
    layer: int | None = None,
    head: int | None = None,
    beam: int = 5,
    device: str = "auto",
    say: Say = silent,
) -> Alignment:
    """How a translator aligns a text with its own translation, or with `target`. Layers and heads count from 0."""
    loaded = run if isinstance(run, LoadedTranslator) else load_translator(run, device)
    if not text.strip():
        raise Misuse("there is no text to look at")
    tokenizer, context = loaded.target_tokenizer, loaded.config.model.context
    ids, was_cut = source_ids(loaded.tokenizer, text, context)
    if was_cut:
        say(f"the text is longer than {context:,} tokens and cut there")
    best = loaded.translate(text, beam=beam).best[0] if target is None else None
    translation, output = (target or "", tokenizer.encode(target or "")) if best is None else (best.text, best.ids)
    assert tokenizer.start is not None
    assert tokenizer.end is not None
    written = [*output[: context - 1], tokenizer.end]
    weights = alignment_weights(loaded.model, ids, [tokenizer.start, *written[:-1]])
    layers, heads = weights.shape[:2]
    for name, chosen, count in (("layer", layer, layers), ("head", head, heads)):
        if chosen is not None and not 0 <= chosen < count:
            raise Misuse(f"--{name} is {chosen}, but this run has {name}s 0 to {count - 1}")
    some = weights if layer is None else weights[layer : layer + 1]
    some = some if head is None else some[:, head : head + 1]
    return Alignment(
        [loaded.tokenizer.shown(id) for id in ids],
        [tokenizer.shown(id) for id in written],
        translation,
        some.mean((0, 1)),
        layers,
        heads,
        f"{_chosen('layer', layer, layers)}, {_chosen('head', head, heads)}",
    )


def _chosen(name: str, chosen: int | None, count: int) -> str:
    if chosen is not None:
        return f"{name} {chosen}"
    return f"mean over {count} {name}s" if count > 1 else f"1 {name}"
