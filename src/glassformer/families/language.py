"""The family of language models, and the base class that it shares with masked language models."""

from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Generator

from glassformer.config.errors import DataError, RunError, SettingError
from glassformer.config.limits import read_text
from glassformer.config.messages import say
from glassformer.config.presets import LANGUAGE_MODEL, predicts_hidden_tokens
from glassformer.config.resolve import Config
from glassformer.config.sections import DataSettings
from glassformer.data.io.source import Source, open_source
from glassformer.data.io.survey import survey
from glassformer.data.packing.store import Tokens, pack
from glassformer.data.split.documents import TextCorpus, TextPart, refuse_joining, split_texts, whole_text
from glassformer.data.wording import counted
from glassformer.families import requests
from glassformer.families.base import (
    EvaluatedPart,
    Family,
    Loaded,
    ModelCall,
    OwnModel,
    Prepared,
    Processor,
    make_own_model,
)
from glassformer.families.build import say_tokens
from glassformer.families.generate import Writer
from glassformer.families.recognition import recognise_text
from glassformer.families.schema import reader_of
from glassformer.models.build import build_language_model
from glassformer.models.modules import TokenModel, device_of
from glassformer.models.own import OwnLanguageModel
from glassformer.runs.run import CARD, CHAT_TEMPLATE, Run
from glassformer.tasks.base import Evaluation
from glassformer.tasks.language_model import LanguageModelling, WindowTask
from glassformer.text.tokenizer import Tokenizer

MAX_SEARCHED_TOKENS = 2**20
"""Number of tokens among which document starts are searched."""


class StreamFamily(Family):
    """Base class of the families that read a corpus as one long row of tokens."""

    noun = "window"
    primary, lower_is_better = "loss", True
    reads_stream = True

    def recognise(self, request: requests.ConfigRequest) -> requests.Recognition:
        return recognise_text(request)

    def split_data(self, config: Config, rows: Any = None) -> TextCorpus:
        if config.data.path is None:
            raise SettingError(requests.NO_DATA)
        return split_texts(open_source(config.data.path, config.data), config.data)

    def prepare(self, config: Config, corpus: TextCorpus, known: Processor) -> Prepared:
        train = corpus.parts["train"]
        texts, mask = (chunk.text for chunk in train.chunks()), predicts_hidden_tokens(self.task)
        tokenizer = known.tokenizer or Tokenizer.train(texts, config.tokenizer, total_bytes=train.bytes, mask=mask)
        self.check_tokenizer(config, tokenizer)
        parts = {name: pack(part, tokenizer) for name, part in corpus.parts.items()}
        counts = {name: len(tokens.ids) for name, tokens in parts.items()}
        say_tokens(tokenizer, counts, {name: tokens.unknown for name, tokens in parts.items()})
        if tokenizer.vocab_size <= len(tokenizer.specials) + 1:
            raise DataError("there is only one token to learn: the text repeats a single one")
        task = self.task_on(config, parts, tokenizer, config.model.context)
        return Prepared(corpus=corpus, tokenizer=tokenizer, tokens=counts, task=task)

    def check_tokenizer(self, config: Config, tokenizer: Tokenizer) -> None:
        """Raise `SettingError` if documents are to be separated but the tokenizer has neither START nor END."""
        if config.data.documents_apart and tokenizer.start is None and tokenizer.end is None:
            raise SettingError("data.documents_apart needs a tokenizer with a START or END token")

    def check_refit(self, data: DataSettings) -> None:
        refuse_joining(str(data.path), data)

    @abstractmethod
    def task_on(self, config: Config, parts: dict[str, Tokens], tokenizer: Tokenizer, context: int) -> WindowTask:
        """Return the task on these parts. Without a training part, it can only evaluate."""

    def whole_part(self, loaded: Loaded, options: requests.EvaluateOptions) -> TextPart:
        settings = options.settings(loaded.config)
        if isinstance(options.data, str):
            return whole_text(survey(open_source(options.data, settings)), "given")
        texts = reader_of(loaded, "evaluate", settings).texts(options.data)
        return whole_text(survey(Source(str(settings.path), lambda: (iter([text]) for text in texts))), "given")

    def evaluate_part(self, loaded: Any, part: TextPart, options: requests.EvaluateOptions) -> EvaluatedPart:
        say(f"{part.name} part: {counted(part.documents, 'document')}, {part.characters:,} characters")
        tokens = pack(part, loaded.tokenizer)
        if tokens.unknown:
            share = tokens.unknown / len(tokens.ids)
            say(f"{share:.2%} of the tokens are unknown to the tokenizer: the loss looks better than it is")
        context = loaded.model.context
        say(f"windows of {context} tokens, {options.stride or context} apart")
        task: Any = self.task_on(loaded.config, {part.name: tokens}, loaded.tokenizer, context)
        stride = {} if options.stride is None else {"stride": options.stride}  # not all tasks take a stride
        return EvaluatedPart(loaded, part, tokens, task.evaluate(loaded.model, part.name, **stride))

    def held_out_examples(
        self, loaded: Any, prepared: Prepared, part: str, *, count: int, max_tokens: int, max_patches: int
    ) -> Iterator[requests.ModelInput]:
        """Yield the starts of documents, up to the maximum length."""
        task, tokenizer = prepared.task, loaded.tokenizer
        assert isinstance(task, WindowTask)
        longest = min(max_tokens, task.context)
        ids = task.parts[part].ids[:MAX_SEARCHED_TOKENS]
        starts = np.arange(0, len(ids), longest) if task.start is None else np.flatnonzero(ids == task.start)
        for start in requests.evenly_chosen(starts if len(starts) else np.zeros(1, np.int64), count):
            chosen: list[int] = ids[start : start + longest].tolist()
            if tokenizer.end in chosen:
                chosen = chosen[: chosen.index(tokenizer.end) + 1]
            yield tokens_input(loaded, "", chosen)

    def random_call(self, loaded: Any, generator: Generator, max_tokens: int) -> ModelCall:
        return requests.random_tokens(loaded.tokenizer.vocab_size, generator, max_tokens), None


@dataclass(frozen=True, repr=False)
class LoadedLanguageModel(Writer, Loaded):
    """A loaded language model."""

    tokenizer: Tokenizer


class LanguageFamily(StreamFamily):
    task = LANGUAGE_MODEL
    title = "A language model"
    verb = "generate"
    predicts_next = True
    loaded_class = LoadedLanguageModel

    def task_on(
        self, config: Config, parts: dict[str, Tokens], tokenizer: Tokenizer, context: int
    ) -> LanguageModelling:
        last_only = config.training.targets == "last"
        return LanguageModelling(parts, last_only=last_only, **window_settings(config, tokenizer, context))

    def build_model(self, config: Config, processor: Processor) -> TokenModel:
        return build_language_model(config.model, vocab=processor.shape.vocab, seed=config.training.seed)

    def own_model(self, config: Config, processor: Processor, own: OwnModel) -> OwnLanguageModel:
        """Return a user's own module, B×T tokens → B×T×V logits, as a language model."""
        vocab, context = processor.shape.vocab, config.model.context
        if isinstance(own, OwnLanguageModel):  # the module of a loaded run
            return own
        model = OwnLanguageModel(make_own_model(own, vocab, vocab, config.training.seed), vocab=vocab, context=context)
        model.check_causal()
        return model

    def loaded(self, model: Any, processor: Processor, run: Run, config: Config, **more: Any) -> Loaded:
        template, specials = _chat(run)
        return super().loaded(model, processor, run, config, chat_template=template, specials=specials)

    def training_sample(self, model: Any, processor: Processor, evaluation: Evaluation, step: int) -> str | None:
        tokenizer = processor.tokenizer
        if tokenizer is None or tokenizer.start is None:  # samples start with START
            return None
        return Writer(model, tokenizer).generate(tokens=60, temperature=0.8, seed=step)

    def check_options(self, loaded: Loaded, options: requests.EvaluateOptions) -> None:
        options.refuse_search()

    def encode_example(
        self, loaded: LoadedLanguageModel, example: requests.Example, *, target: str | None, beam: int
    ) -> requests.ModelInput:
        tokenizer, context, text = loaded.tokenizer, loaded.config.model.context, requests.check_text(example)
        start = [] if tokenizer.start is None else [tokenizer.start]
        ids = [*start, *tokenizer.encode(text)]
        requests.say_cut_text(len(ids) - len(start), context - len(start))
        ids = ids[:context]
        requests.say_unknown(tokenizer, ids)
        answers = [*(tokenizer.shown(id) for id in ids[1:]), ""]
        return tokens_input(loaded, text, ids, answers=answers, answer_ids=ids[1:])

    def answer_function(self, loaded: LoadedLanguageModel, *, top: int) -> Callable[[str], dict[str, Any]]:
        def answer(text: str) -> dict[str, Any]:
            (label, probability), *_ = expected = loaded.probabilities(text)[-1].expected
            return {"text": text, "label": label, "probability": probability, "probabilities": dict(expected)}

        return answer

    def example_argument(self, run: Path, config: Config) -> str:
        return "--chat 'A message'" if (run / CHAT_TEMPLATE).is_file() else "'A prompt'"


def tokens_input(loaded: Any, text: str, ids: list[int], **answers: Any) -> requests.ModelInput:
    """Return the tokens of a text as an example. `answers`: further fields of `ModelInput`."""
    return requests.ModelInput(
        inputs=(torch.tensor([ids], device=device_of(loaded.model)),),
        text=text,
        tokens=[loaded.tokenizer.shown(id) for id in ids],
        ids=ids,
        words=range(len(ids)),
        **answers,
    )


def window_settings(config: Config, tokenizer: Tokenizer, context: int) -> dict[str, Any]:
    """Return the arguments that tasks on windows of tokens take from a configuration."""
    training = config.training
    return {
        "context": context,
        "start": tokenizer.start,
        "end": tokenizer.end,
        "apart": config.data.documents_apart,
        "batch_size": training.batch_size,
        "seed": training.seed,
        "smoothing": training.label_smoothing,
    }


def _chat(run: Run) -> tuple[str | None, dict[str, str]]:
    """Return the chat template of a run, or None, and the special tokens by their names in the template."""
    path, specials = run.path / CHAT_TEMPLATE, run.card().get("specials", {})
    if not path.is_file():
        return None, {}
    try:
        template = read_text(path)
    except (OSError, UnicodeDecodeError):
        raise RunError(f"{path} is damaged: it is not text") from None
    if not isinstance(specials, dict) or not all(isinstance(word, str) for pair in specials.items() for word in pair):
        raise RunError(f"{run.path / CARD} is damaged: its specials are no names of tokens")
    return template, specials


FAMILIES = (LanguageFamily(),)
