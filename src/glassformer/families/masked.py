"""Masked language models: some tokens of a text are hidden, and guessed from all the others."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import overload

import torch

from glassformer.config.errors import Misuse, SettingError
from glassformer.config.presets import MASKED
from glassformer.config.resolve import Config
from glassformer.config.say import Say, silent
from glassformer.data.packing.masking import Masking
from glassformer.data.packing.store import Tokens
from glassformer.families.base import Loaded, Processor
from glassformer.families.fill import LIKELIEST, Filled, fill, framed_ids
from glassformer.families.language import StreamFamily, check_text, refuse_search, refuse_stride, window_settings
from glassformer.families.model_input import Example, ModelInput, say_unknown
from glassformer.families.requests import EvaluateOptions
from glassformer.models.build import build_masked_model
from glassformer.models.masked_model import MaskedLanguageModel
from glassformer.tasks.labelling import device_of
from glassformer.tasks.masked_language_model import MaskedModelling
from glassformer.text.pipelines import MASK
from glassformer.text.tokenizer import Tokenizer


@dataclass(frozen=True, repr=False)
class LoadedMasked(Loaded):
    """A masked language model: it guesses what is missing."""

    model: MaskedLanguageModel
    tokenizer: Tokenizer

    @overload
    def fill(self, texts: str, *, most: int = LIKELIEST, say: Say = silent) -> Filled: ...  # type: ignore[overload-overlap]
    @overload
    def fill(self, texts: Sequence[str], *, most: int = LIKELIEST, say: Say = silent) -> list[Filled]: ...
    def fill(self, texts: str | Sequence[str], *, most: int = LIKELIEST, say: Say = silent) -> Filled | list[Filled]:
        """The likeliest tokens for each `<mask>` of a text, or of each of several."""
        if isinstance(texts, str):
            return self.fill([texts], most=most, say=say)[0]
        if not isinstance(texts, Sequence) or not all(isinstance(text, str) for text in texts):
            raise Misuse("fill takes a text, or a list of texts")
        return fill(self.model, self.tokenizer, texts, context=self.config.model.context, most=most, say=say)

    predict = fill


class MaskedFamily(StreamFamily):
    task = MASKED
    title = "A masked language model"
    hides_tokens = True
    text_loss = False
    loaded_class = LoadedMasked

    def check_tokenizer(self, config: Config, tokenizer: Tokenizer) -> None:
        """Refuse tokens among which none stands for what is to be guessed."""
        if tokenizer.mask is None and config.tokenizer.file is not None:
            raise SettingError(
                f"tokenizer.file {config.tokenizer.file} has no {MASK}, which {MASKED} needs: leave it away, or train "
                "one that has it: glassformer tokenizer train DATA --mask"
            )
        if tokenizer.mask is None:
            raise SettingError(
                f"the tokens of {config.model.from_run} have no MASK, which {MASKED} needs: begin from a run of "
                f"{MASKED}, or leave --from away"
            )
        super().check_tokenizer(config, tokenizer)

    def task_on(self, config: Config, parts: dict[str, Tokens], tokenizer: Tokenizer, context: int) -> MaskedModelling:
        training = config.training
        masking = Masking.of(tokenizer, rate=training.mask_rate, whole_words=training.whole_words)
        return MaskedModelling(parts, masking=masking, **window_settings(config, tokenizer, context))

    def build_model(self, config: Config, processor: Processor) -> MaskedLanguageModel:
        return build_masked_model(config.model, vocab=processor.shape.vocab, seed=config.training.seed)

    def check_options(self, loaded: Loaded, options: EvaluateOptions) -> None:
        refuse_search(options)
        refuse_stride(options)

    def encode_example(
        self, loaded: LoadedMasked, example: Example, *, target: str | None, beam: int, say: Say
    ) -> ModelInput:
        """With MASK wherever the text says so."""
        tokenizer, text = loaded.tokenizer, check_text(example)
        ids = framed_ids(tokenizer, text, loaded.config.model.context, say)
        say_unknown(tokenizer, ids, say)
        names = [tokenizer.shown(id) for id in ids]
        never = {tokenizer.mask, *tokenizer.roles.marks}
        return ModelInput(
            inputs=(torch.tensor([ids], device=device_of(loaded.model)),),
            text=text,
            tokens=names,
            ids=ids,
            words=range(len(ids)),
            answers=["" if id == tokenizer.mask else name for id, name in zip(ids, names, strict=True)],
            stand=[None if id in never else id for id in ids],
        )

    def example_argument(self, run: Path, config: Config) -> str:
        return f"'A text with a {MASK} in it'"


FAMILIES = (MaskedFamily(),)
