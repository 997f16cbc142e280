"""Language models: a corpus read as one long row of tokens, the next of which is predicted. They write."""

import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Generator, nn

from glassformer.config.errors import DataError, Misuse, RunError, SettingError
from glassformer.config.presets import LANGUAGE_MODEL
from glassformer.config.resolve import Config, that_writes
from glassformer.config.say import Say
from glassformer.config.sections import DataSettings
from glassformer.data.io.source import open_source, survey
from glassformer.data.packing.store import Tokens, pack
from glassformer.data.split.documents import Part, TextCorpus, refuse_joining, split_texts, whole
from glassformer.families.base import EvaluatedPart, Family, Loaded, ModelCall, Prepared, Processor
from glassformer.families.embed import Embedded, embed
from glassformer.families.examples import evenly_chosen
from glassformer.families.generate import Writer
from glassformer.families.model_input import Example, ModelInput, say_unknown
from glassformer.families.prepare import say_tokens, train_tokenizer
from glassformer.families.requests import NO_DATA, ConfigRequest, EvaluateOptions, Recognition
from glassformer.models.build import build_language_model
from glassformer.models.token_model import TokenModel
from glassformer.runs.run import CARD, CHAT_TEMPLATE, Run
from glassformer.tasks.base import Evaluation
from glassformer.tasks.labelling import device_of
from glassformer.tasks.language_model import LanguageModelling
from glassformer.tasks.windows import WindowTask
from glassformer.text.tokenizer import Tokenizer

SEARCHED = 2**20
"""Tokens among which the beginnings of documents are looked for."""


def recognise_text(request: ConfigRequest) -> Recognition:
    """A text is what a language model learns, or what the run that it starts from has learned."""
    task = request.task or (None if request.finetuning is None else request.finetuning.task)
    return Recognition(that_writes(request.resolve({"task": task}, starts=request.starts)))


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
        tokenizer = known.tokenizer or self._trained_tokenizer(corpus.parts["train"], config, say)
        self.check_tokenizer(config, tokenizer)
        parts = {name: pack(part, tokenizer, say) for name, part in corpus.parts.items()}
        counts = {name: len(tokens.ids) for name, tokens in parts.items()}
        say_tokens(tokenizer, counts, {name: tokens.unknown for name, tokens in parts.items()}, say)
        if tokenizer.vocab_size <= len(tokenizer.specials) + 1:
            raise DataError("there is only one token to learn: the text repeats a single one")
        task = self.task_on(config, parts, tokenizer, config.model.context)
        return Prepared(corpus=corpus, tokenizer=tokenizer, tokens=counts, task=task)

    def _trained_tokenizer(self, part: Part, config: Config, say: Say) -> Tokenizer:
        return train_tokenizer((chunk.text for chunk in part.chunks()), part.bytes, config, say, mask=self.hides_tokens)

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
        assert options.data is not None
        return whole(survey(open_source(options.data, options.settings(loaded.config))), "given")

    def evaluate_part(self, loaded: Any, part: Part, options: EvaluateOptions, say: Say) -> EvaluatedPart:
        plural = "s" * (part.documents != 1)
        say(f"{part.name} part: {part.documents:,} document{plural}, {part.characters:,} characters")
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
        evaluation: Evaluation = task.evaluate(model, part)
        return evaluation

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
            names = [tokenizer.shown(id) for id in chosen]
            yield ModelInput(inputs=(batch,), text="", tokens=names, ids=chosen, words=range(len(chosen)))

    def random_call(self, loaded: Any, generator: Generator, max_tokens: int) -> ModelCall:
        return random_tokens(loaded.tokenizer.vocab_size, generator, max_tokens), None

    def embed(self, loaded: Any, examples: Sequence[Example], *, tokens: bool) -> list[Embedded]:
        return embed(loaded.model, loaded.tokenizer, loaded.config, [str(text) for text in examples], tokens=tokens)

    def chance_level(self, config: Config, card: Mapping[str, Any]) -> tuple[float | None, str]:
        return chance_of_tokens(card)


def random_tokens(vocab: int, generator: Generator, max_tokens: int) -> torch.Tensor:
    """The ids of a text of half as many tokens or more, drawn evenly."""
    length = int(torch.randint(1 + max_tokens // 2, max_tokens + 1, (), generator=generator))
    return torch.randint(vocab, (1, length), generator=generator)


def chance_of_tokens(card: Mapping[str, Any]) -> tuple[float, str]:
    """The loss of a model that finds every token it may write as likely as any other."""
    tokens = (card.get("target_tokenizer") or card["tokenizer"])["vocab_size"]
    return math.log(tokens), f"ln of {tokens:,} tokens"


def check_text(example: Example) -> str:
    if not isinstance(example, str):
        raise Misuse(f"this run reads texts, not a {type(example).__name__}")
    return example


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
        return LanguageModelling(parts, **window_settings(config, tokenizer, context))

    def build_model(self, config: Config, processor: Processor) -> TokenModel:
        return build_language_model(config.model, vocab=processor.shape.vocab, seed=config.training.seed)

    def loaded(self, model: Any, processor: Processor, run: Run, config: Config) -> LoadedLanguageModel:
        assert processor.tokenizer is not None
        template, specials = _chat(run)
        return LoadedLanguageModel(
            model, processor.tokenizer, run, config, None, chat_template=template, specials=specials
        )

    def training_sample(self, model: Any, processor: Processor, evaluation: Evaluation, step: int) -> str | None:
        tokenizer = processor.tokenizer
        if tokenizer is None or tokenizer.start is None:  # samples begin with START
            return None
        return Writer(model, tokenizer).generate(tokens=60, temperature=0.8, seed=step)

    def check_options(self, loaded: Loaded, options: EvaluateOptions) -> None:
        refuse_search(options)

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


def refuse_search(options: EvaluateOptions) -> None:
    """Refuse what only runs that translate can be asked."""
    if options.lowercase or options.beam is not None or options.length_penalty is not None:
        raise Misuse("--beam, --length-penalty and --lowercase are for runs that translate")
    if options.files:
        raise Misuse("--source-file and --target-file are for runs that translate: name the DATA to evaluate on")


def refuse_stride(options: EvaluateOptions) -> None:
    if options.stride is not None:
        raise Misuse("--stride is for language models that write: each token of theirs sees only what stands before it")


def _chat(run: Run) -> tuple[str | None, dict[str, str]]:
    """A run's chat template, if it has one, and the special tokens by the names that it has for them."""
    path, specials = run.path / CHAT_TEMPLATE, run.card().get("specials", {})
    if not path.is_file():
        return None, {}
    try:
        template = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise RunError(f"{path} is damaged: it is not text") from None
    if not isinstance(specials, dict) or not all(isinstance(one, str) for pair in specials.items() for one in pair):
        raise RunError(f"{run.path / CARD} is damaged: its specials are no names of tokens")
    return template, specials


FAMILIES = (LanguageFamily(),)
