"""Language models: a corpus read as one long row of tokens, the next of which is predicted. They write."""

from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Generator, nn

from glassformer.config.errors import DataError, RunError, Say, SettingError
from glassformer.config.limits import read_text
from glassformer.config.presets import LANGUAGE_MODEL, predicts_hidden_tokens
from glassformer.config.resolve import Config
from glassformer.config.sections import DataSettings
from glassformer.data.io.source import Source, open_source
from glassformer.data.io.survey import survey
from glassformer.data.packing.store import Tokens, pack
from glassformer.data.split.documents import Part, TextCorpus, refuse_joining, split_texts, whole
from glassformer.data.wording import counted
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
from glassformer.families.memory import reader_of
from glassformer.families.recognition import recognise_text
from glassformer.families.requests import (
    NO_DATA,
    ConfigRequest,
    EvaluateOptions,
    Example,
    ModelInput,
    Recognition,
    check_text,
    evenly_chosen,
    random_tokens,
    say_unknown,
)
from glassformer.models.build import build_language_model
from glassformer.models.modules import TokenModel, device_of
from glassformer.models.own import OwnLanguageModel
from glassformer.runs.run import CARD, CHAT_TEMPLATE, Run
from glassformer.tasks.base import Evaluation
from glassformer.tasks.language_model import LanguageModelling, WindowTask
from glassformer.text.tokenizer import Tokenizer

SEARCHED = 2**20
"""Tokens among which the beginnings of documents are looked for."""


class StreamFamily(Family):
    """What the families share that read a corpus as one long row of tokens."""

    noun = "window"
    primary, lower_is_better = "loss", True
    reads_stream = True

    def recognise(self, request: ConfigRequest) -> Recognition:
        return recognise_text(request)

    def split_data(self, config: Config, rows: Any = None) -> TextCorpus:
        if config.data.path is None:
            raise SettingError(NO_DATA)
        return split_texts(open_source(config.data.path, config.data), config.data)

    def prepare(self, config: Config, corpus: TextCorpus, known: Processor, say: Say) -> Prepared:
        train = corpus.parts["train"]
        tokenizer = known.tokenizer or Tokenizer.train(
            (chunk.text for chunk in train.chunks()),
            config.tokenizer,
            say,
            total_bytes=train.bytes,
            mask=predicts_hidden_tokens(self.task),
        )
        self.check_tokenizer(config, tokenizer)
        parts = {name: pack(part, tokenizer, say) for name, part in corpus.parts.items()}
        counts = {name: len(tokens.ids) for name, tokens in parts.items()}
        say_tokens(tokenizer, counts, {name: tokens.unknown for name, tokens in parts.items()}, say)
        if tokenizer.vocab_size <= len(tokenizer.specials) + 1:
            raise DataError("there is only one token to learn: the text repeats a single one")
        return Prepared(
            corpus=corpus,
            tokenizer=tokenizer,
            tokens=counts,
            task=self.task_on(config, parts, tokenizer, config.model.context),
        )

    def check_tokenizer(self, config: Config, tokenizer: Tokenizer) -> None:
        """Refuse to read documents apart where nothing says where one begins."""
        if config.data.documents_apart and tokenizer.start is None and tokenizer.end is None:
            raise SettingError(
                "data.documents_apart needs tokens that begin or end a document, and this tokenizer has none"
            )

    def check_refit(self, data: DataSettings) -> None:
        refuse_joining(str(data.path), data)

    @abstractmethod
    def task_on(self, config: Config, parts: dict[str, Tokens], tokenizer: Tokenizer, context: int) -> WindowTask:
        """The task on these parts; without a training part, one to evaluate with."""

    def whole_part(self, loaded: Loaded, options: EvaluateOptions) -> Part:
        settings = options.settings(loaded.config)
        if isinstance(options.data, str):
            return whole(survey(open_source(options.data, settings)), "given")
        texts = reader_of(loaded, "evaluate", settings).texts(options.data)
        return whole(survey(Source(str(settings.path), lambda: (iter([text]) for text in texts))), "given")

    def evaluate_part(self, loaded: Any, part: Part, options: EvaluateOptions, say: Say) -> EvaluatedPart:
        say(f"{part.name} part: {counted(part.documents, 'document')}, {part.characters:,} characters")
        tokens = pack(part, loaded.tokenizer, say)
        if tokens.unknown:
            say(
                f"{tokens.unknown:,} of {len(tokens.ids):,} tokens ({tokens.unknown / len(tokens.ids):.2%}) are "
                "unknown to the tokenizer: they are easy to predict and make the loss look better than it is"
            )
        context = loaded.model.context
        say(f"windows of {context} tokens, {options.stride or context} apart")
        task = self.task_on(loaded.config, {part.name: tokens}, loaded.tokenizer, context)
        return EvaluatedPart(loaded, part, tokens, self.evaluate_task(task, loaded.model, part.name, options))

    def evaluate_task(self, task: Any, model: nn.Module, part: str, options: EvaluateOptions) -> Evaluation:
        return task.evaluate(model, part)

    def held_out_examples(
        self, loaded: Any, prepared: Prepared, part: str, *, count: int, max_tokens: int, max_patches: int
    ) -> Iterator[ModelInput]:
        """The beginnings of documents, as far as they can be shown."""
        task, tokenizer = prepared.task, loaded.tokenizer
        assert isinstance(task, WindowTask)
        longest = min(max_tokens, task.context)
        ids = task.parts[part].ids[:SEARCHED]
        starts = np.arange(0, len(ids), longest) if task.start is None else np.flatnonzero(ids == task.start)
        for start in evenly_chosen(starts if len(starts) else np.zeros(1, np.int64), count):
            chosen: list[int] = ids[start : start + longest].tolist()
            if tokenizer.end in chosen:
                chosen = chosen[: chosen.index(tokenizer.end) + 1]
            batch = torch.tensor([chosen], device=device_of(loaded.model))
            yield ModelInput(
                inputs=(batch,),
                text="",
                tokens=[tokenizer.shown(id) for id in chosen],
                ids=chosen,
                words=range(len(chosen)),
            )

    def random_call(self, loaded: Any, generator: Generator, max_tokens: int) -> ModelCall:
        return random_tokens(loaded.tokenizer.vocab_size, generator, max_tokens), None


@dataclass(frozen=True, repr=False)
class LoadedLanguageModel(Writer, Loaded):
    """A language model: it writes."""

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
        if isinstance(own, OwnLanguageModel):  # that of a loaded run
            return own
        model = OwnLanguageModel(make_own_model(own, vocab, vocab, config.training.seed), vocab=vocab, context=context)
        model.check_causal()
        return model

    def loaded(self, model: Any, processor: Processor, run: Run, config: Config, **more: Any) -> Loaded:
        template, specials = _chat(run)
        return super().loaded(model, processor, run, config, chat_template=template, specials=specials)

    def training_sample(self, model: Any, processor: Processor, evaluation: Evaluation, step: int) -> str | None:
        tokenizer = processor.tokenizer
        if tokenizer is None or tokenizer.start is None:  # samples begin with START
            return None
        return Writer(model, tokenizer).generate(tokens=60, temperature=0.8, seed=step)

    def check_options(self, loaded: Loaded, options: EvaluateOptions) -> None:
        options.refuse_search()

    def evaluate_task(
        self, task: LanguageModelling, model: nn.Module, part: str, options: EvaluateOptions
    ) -> Evaluation:
        return task.evaluate(model, part, stride=options.stride)

    def encode_example(
        self, loaded: LoadedLanguageModel, example: Example, *, target: str | None, beam: int, say: Say
    ) -> ModelInput:
        tokenizer, context, text = loaded.tokenizer, loaded.config.model.context, check_text(example)
        start = [] if tokenizer.start is None else [tokenizer.start]
        ids = [*start, *tokenizer.encode(text)]
        if len(ids) > context:
            say(
                f"the text is {len(ids) - len(start):,} tokens long and cut after {context - len(start):,}: no more fit"
            )
        ids = ids[:context]
        say_unknown(tokenizer, ids, say)
        names = [tokenizer.shown(id) for id in ids]
        return ModelInput(
            inputs=(torch.tensor([ids], device=device_of(loaded.model)),),
            text=text,
            tokens=names,
            ids=ids,
            words=range(len(ids)),
            answers=[*names[1:], ""],
            answer_ids=ids[1:],
        )

    def answer_function(self, loaded: LoadedLanguageModel, *, top: int, say: Say) -> Callable[[str], dict[str, Any]]:
        def answer(text: str) -> dict[str, Any]:
            (label, probability), *_ = expected = loaded.probabilities(text)[-1].expected
            return {"text": text, "label": label, "probability": probability, "probabilities": dict(expected)}

        return answer

    def example_argument(self, run: Path, config: Config) -> str:
        return "--chat 'A message'" if (run / CHAT_TEMPLATE).is_file() else "'A prompt'"


def window_settings(config: Config, tokenizer: Tokenizer, context: int) -> dict[str, Any]:
    """What a task on windows of tokens takes from a configuration."""
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
    """A run's chat template, if it has one, and the special tokens by the names that it has for them."""
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
