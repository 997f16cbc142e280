"""An example of a batch as a person knows it."""

from glassformer.tasks.base import Batch
from glassformer.tasks.labelling import Chosen
from glassformer.tasks.language_model import Windows
from glassformer.tasks.masked_language_model import Hidden
from glassformer.tasks.translation import PairBatch
from glassformer.text.tokenizer import Tokenizer

MOST = 60
"""Characters of it in a line."""


def example_of(batch: Batch, row: int, tokenizer: Tokenizer | None) -> str:
    """The beginning of its text, or what else it is known by, on one line."""
    text = ""
    if isinstance(batch, Chosen):
        text = batch.known[row]
    elif isinstance(batch, Windows) and tokenizer is not None:
        text = tokenizer.decode(batch.ids[row, :MOST].tolist())
    elif isinstance(batch, Hidden) and tokenizer is not None:
        text = tokenizer.decode(batch.inputs[row, :MOST].tolist())
    elif isinstance(batch, PairBatch) and tokenizer is not None:
        text = tokenizer.decode(batch.source[row][batch.source_mask[row]].tolist())
    text = " ".join(text.split())
    return text if len(text) <= MOST else f"{text[: MOST - 1]}…"
