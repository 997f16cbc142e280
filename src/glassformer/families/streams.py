"""Tasks on a corpus that is read as one long row of tokens."""

from typing import Any

from glassformer.config.errors import SettingError
from glassformer.config.presets import MASKED
from glassformer.config.resolve import Config
from glassformer.data.packing.masking import Masking
from glassformer.data.packing.store import Tokens
from glassformer.tasks.language_model import LanguageModelling
from glassformer.tasks.masked_language_model import MaskedModelling
from glassformer.text.pipelines import MASK
from glassformer.text.tokenizer import Tokenizer

Streamed = LanguageModelling | MaskedModelling


def stream_task(
    config: Config, parts: dict[str, Tokens], tokenizer: Tokenizer, *, context: int | None = None
) -> Streamed:
    """Without a training part, a task to evaluate with. `context`: unless it is the configuration's."""
    training = config.training
    windows: dict[str, Any] = {
        "context": context or config.model.context,
        "start": tokenizer.start,
        "end": tokenizer.end,
        "apart": config.data.documents_apart,
        "batch_size": training.batch_size,
        "seed": training.seed,
        "smoothing": training.label_smoothing,
    }
    if config.task != MASKED:
        return LanguageModelling(parts, **windows)
    masking = Masking.of(tokenizer, rate=training.mask_rate, whole_words=training.whole_words)
    return MaskedModelling(parts, masking=masking, **windows)


def able_to_hide(config: Config, tokenizer: Tokenizer) -> None:
    """Refuse tokens among which none stands for what is to be guessed."""
    if tokenizer.mask is not None:
        return
    if config.tokenizer.file is not None:
        raise SettingError(
            f"tokenizer.file {config.tokenizer.file} has no {MASK}, which {MASKED} needs: leave it away, or train one "
            "that has it: glassformer tokenizer train DATA --mask"
        )
    raise SettingError(
        f"the tokens of {config.model.from_run} have no MASK, which {MASKED} needs: begin from a run of {MASKED}, or "
        "leave --from away"
    )


def able_to_part(config: Config, tokenizer: Tokenizer) -> None:
    """Refuse to read documents apart where nothing says where one begins."""
    if config.data.documents_apart and tokenizer.start is None and tokenizer.end is None:
        raise SettingError(
            "data.documents_apart needs tokens that begin or end a document, and this tokenizer has none"
        )
