"""Translators: one model reads a text, another writes it another way."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, overload

import numpy as np
import torch
from torch import Generator

from glassformer.config.errors import DataError, Misuse, SettingError
from glassformer.config.presets import TRANSLATION
from glassformer.config.resolve import Config, that_writes
from glassformer.config.say import Say, silent
from glassformer.config.sections import DataSettings
from glassformer.data.columns.inference import SAMPLE
from glassformer.data.datasets.embedded import open_dataset
from glassformer.data.features.texts import PairExamples, encode_pairs, source_room, target_room_of
from glassformer.data.io.aligned import is_tmx, read_aligned, read_tmx
from glassformer.data.io.place import find
from glassformer.data.io.table import Table, holds_table, read_table
from glassformer.data.split.pairs import PairCorpus, Pairs, pair_columns, split_pairs, whole_pairs
from glassformer.decoding.translate import Search
from glassformer.families.base import EvaluatedPart, Family, Loaded, ModelCall, Prepared, Processor
from glassformer.families.embed import Embedded, embed
from glassformer.families.examples import evenly_chosen
from glassformer.families.labelling import recognise_images
from glassformer.families.language import chance_of_tokens, check_text, random_tokens, refuse_stride
from glassformer.families.model_input import Example, ModelInput, say_unknown
from glassformer.families.prepare import say_tokens, tokenizer_of_texts
from glassformer.families.requests import NO_DATA, ConfigRequest, EvaluateOptions, Recognition
from glassformer.families.translate import Translation, source_ids, translate_texts
from glassformer.models.build import build_seq2seq
from glassformer.models.seq2seq import Seq2Seq
from glassformer.runs.run import Run
from glassformer.tasks.base import Evaluation
from glassformer.tasks.labelling import device_of
from glassformer.tasks.translation import Translating
from glassformer.text.tokenizer import Tokenizer

# --- pairs of texts ---


@dataclass(frozen=True)
class PairTable:
    """Pairs to translate, with the names of their columns."""

    table: Table
    source: str
    target: str


def recognise_pairs(request: ConfigRequest) -> Recognition | None:
    """Two columns of texts, two files line by line, or a translation memory."""
    pairs = find_pairs(request.data, asked=request.task is not None)
    if pairs is None:
        return None
    request.say(
        f"columns: from '{pairs.source}' to '{pairs.target}' (--source, --target); task: {TRANSLATION} (--task)"
    )
    named = {} if is_read_apart(request.data) else {"data.source": pairs.source, "data.target": pairs.target}
    config = request.resolve({"task": TRANSLATION, **named}, starts=request.starts)
    return Recognition(that_writes(config), pairs.table)


def is_read_apart(settings: DataSettings) -> bool:
    """Whether pairs come from two files, or from a translation memory: then their columns need no names."""
    return settings.source_file is not None or (settings.path is not None and is_tmx(settings.path))


def find_pairs(settings: DataSettings, *, asked: bool) -> PairTable | None:
    """Pairs to translate, where that is asked for or plainly what is there."""
    if settings.source_file is not None:
        assert settings.target_file is not None
        table = read_aligned(settings.source_file, settings.target_file, settings.encoding)
        return PairTable(table, "source", "target")
    if settings.path is None:
        return None
    if is_tmx(settings.path):
        return PairTable(read_tmx(settings.path, settings.source, settings.target), "source", "target")
    if not holds_table(settings.path):
        if asked or settings.source or settings.target:
            raise DataError(
                f"{settings.path} holds no pairs: translation needs a source and a target column (.csv, .tsv, .jsonl, "
                ".parquet), a .tmx file, or --source-file and --target-file"
            )
        return None
    embedded = find(settings.path) is None
    there = (
        open_dataset(settings.path).columns if embedded else read_table(settings.path, settings, most=SAMPLE).columns
    )
    names = pair_columns(settings.path, there, settings)
    if names is None:
        if asked:
            raise DataError(
                f"{settings.path}: no columns to translate from and to (columns: {', '.join(there)}): "
                "name them with --source and --target"
            )
        return None
    return PairTable(read_table(settings.path, settings), *names)


def pairs_of(data: DataSettings, table: Table | None = None) -> PairTable:
    """Pairs to translate. `table`: where it has been read already."""
    if table is not None:
        named = ("source", "target") if is_read_apart(data) else (data.source, data.target)
        return PairTable(table, str(named[0]), str(named[1]))
    found = find_pairs(data, asked=True)
    if found is None:
        raise SettingError(NO_DATA)
    return found


# --- the family ---


@dataclass(frozen=True, repr=False)
class LoadedTranslator(Loaded):
    """A translator: it says texts another way."""

    model: Seq2Seq
    tokenizer: Tokenizer
    target_tokenizer: Tokenizer

    @property
    def output_tokenizer(self) -> Tokenizer:
        return self.target_tokenizer

    @overload
    def translate(  # type: ignore[overload-overlap]
        self, texts: str, *, beam: int = 5, length_penalty: float = 1.0, nbest: int = 1, say: Say = silent
    ) -> Translation: ...
    @overload
    def translate(
        self, texts: Sequence[str], *, beam: int = 5, length_penalty: float = 1.0, nbest: int = 1, say: Say = silent
    ) -> list[Translation]: ...
    def translate(
        self,
        texts: str | Sequence[str],
        *,
        beam: int = 5,
        length_penalty: float = 1.0,
        nbest: int = 1,
        say: Say = silent,
    ) -> Translation | list[Translation]:
        """The translation of a text, or of each of several; `beam` 1 is greedy."""
        if not isinstance(texts, Sequence) or not all(isinstance(text, str) for text in texts):
            raise Misuse("translate takes a text, or a list of texts")
        how = Search(beam, length_penalty, nbest)
        several = [texts] if isinstance(texts, str) else texts
        context = self.config.model.context
        found = translate_texts(
            self.model, self.tokenizer, self.target_tokenizer, several, how, context=context, say=say
        )
        return found[0] if isinstance(texts, str) else found


class TranslationFamily(Family):
    task = TRANSLATION
    title = "A translator"
    noun = "pair"
    verb = "translate"
    primary = "chrf"
    has_decoder = True
    token_places = (0, 2)
    loaded_class = LoadedTranslator

    def recognise(self, request: ConfigRequest) -> Recognition:
        recognise_images(request)  # of which only classes can be learned
        return recognise_pairs(request) or Recognition(
            that_writes(request.resolve({"task": self.task}, starts=request.starts))
        )

    def split_data(self, config: Config, rows: Any = None) -> PairCorpus:
        pairs = pairs_of(config.data, rows)
        return split_pairs(pairs.table, pairs.source, pairs.target, config.data)

    def prepare(self, config: Config, corpus: PairCorpus, known: Processor, say: Say) -> Prepared:
        train = corpus.parts["train"]
        tokenizer, target_tokenizer = known.tokenizer, known.target_tokenizer
        if tokenizer is None and config.tokenizer.shared:
            tokenizer = tokenizer_of_texts([*train.sources, *train.targets], config, say)
        elif tokenizer is None:
            tokenizer = tokenizer_of_texts(train.sources, config, say)
            target_tokenizer = tokenizer_of_texts(train.targets, config, say)
        sides = (tokenizer, target_tokenizer or tokenizer)
        for side in sides:
            _check_marks(config, side)
        parts = {name: self.examples_of(config, part, *sides) for name, part in corpus.parts.items()}
        counts = {name: len(part.source.ids) + len(part.target.ids) for name, part in parts.items()}
        if target_tokenizer is not None:
            say(f"tokens of the targets: {target_tokenizer.kind}, vocabulary of {target_tokenizer.vocab_size:,}")
        say_tokens(tokenizer, counts, {name: sum(part.unknown) for name, part in parts.items()}, say)
        _say_too_long(parts, config.model.context, say)
        if not len(parts["train"].sources):
            raise DataError("no pair is left to train on: raise --model.context, or --data.too_long cut")
        return Prepared(
            corpus=corpus,
            tokenizer=tokenizer,
            target_tokenizer=target_tokenizer,
            tokens=counts,
            task=self.task_on(config, parts, sides[1]),
        )

    def examples_of(self, config: Config, part: Pairs, source: Tokenizer, target: Tokenizer) -> PairExamples:
        return encode_pairs(part, source, target, context=config.model.context, too_long=config.data.too_long)

    def task_on(self, config: Config, parts: dict[str, PairExamples], tokenizer: Tokenizer) -> Translating:
        """`tokenizer`: that of the targets. Without a training part, a task to evaluate with."""
        training = config.training
        assert training.batch_tokens is not None
        return Translating(
            parts,
            tokenizer,
            context=config.model.context,
            batch_tokens=training.batch_tokens,
            seed=training.seed,
            smoothing=training.label_smoothing,
        )

    def build_model(self, config: Config, processor: Processor) -> Seq2Seq:
        source_vocab, target = processor.shape.vocab, processor.target_tokenizer
        return build_seq2seq(
            config.model,
            source_vocab=source_vocab,
            target_vocab=source_vocab if target is None else target.vocab_size,
            seed=config.training.seed,
        )

    def loaded(self, model: Any, processor: Processor, run: Run, config: Config) -> LoadedTranslator:
        tokenizer = processor.tokenizer
        assert tokenizer is not None
        return LoadedTranslator(model, tokenizer, run, config, None, processor.target_tokenizer or tokenizer)

    def training_sample(self, model: Any, processor: Processor, evaluation: Evaluation, step: int) -> str:
        """How it translates one of the sources held out."""
        record = evaluation.records[step % len(evaluation.records)]
        right = "" if record["exact"] else f"   ({record['target']})"
        return f"{record['source']} → {record['output']}{right}"

    def check_options(self, loaded: Loaded, options: EvaluateOptions) -> None:
        refuse_stride(options)

    def whole_part(self, loaded: Loaded, options: EvaluateOptions) -> Pairs:
        pairs = pairs_of(options.settings(loaded.config))
        return whole_pairs(pairs.table, pairs.source, pairs.target, "given")

    def evaluate_part(self, loaded: LoadedTranslator, part: Pairs, options: EvaluateOptions, say: Say) -> EvaluatedPart:
        searching = {"beam": options.beam, "length_penalty": options.length_penalty}
        how = Search(**{name: value for name, value in searching.items() if value is not None})  # type: ignore[arg-type]
        config = replace(loaded.config, data=options.settings(loaded.config))
        say(f"{part.name} part: {len(part):,} pairs")
        examples = self.examples_of(config, part, loaded.tokenizer, loaded.target_tokenizer)
        _say_too_long({part.name: examples}, config.model.context, say)
        task = self.task_on(config, {part.name: examples}, loaded.target_tokenizer)
        evaluation = task.evaluate(loaded.model, part.name, how=how, lowercase=options.lowercase)
        return EvaluatedPart(loaded, part, examples, evaluation)

    def encode_example(
        self, loaded: LoadedTranslator, example: Example, *, target: str | None, beam: int, say: Say
    ) -> ModelInput:
        text, tokenizer, context = check_text(example), loaded.target_tokenizer, loaded.config.model.context
        ids, was_cut = source_ids(loaded.tokenizer, text, context)
        if was_cut:
            long = len(loaded.tokenizer.encode(text))
            room = source_room(loaded.tokenizer.roles, context)
            say(f"the text is {long:,} tokens long and cut after {room:,}: no more fit")
        say_unknown(loaded.tokenizer, ids, say)
        best = loaded.translate(text, beam=beam).best[0] if target is None else None
        output, written = (target or "", tokenizer.encode(target or "")) if best is None else (best.text, best.ids)
        roles, room = tokenizer.roles, target_room_of(tokenizer.roles, context)
        if len(written) > room:
            say(f"the translation is longer than {room:,} tokens and cut there")
        whole = [*roles.opening, *written[:room], *roles.closing[:1]]
        before, answers = whole[:-1], whole[1:]
        device = device_of(loaded.model)
        return ModelInput(
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

    def held_out_examples(
        self, loaded: LoadedTranslator, prepared: Prepared, part: str, *, count: int, max_tokens: int, max_patches: int
    ) -> Iterator[ModelInput]:
        pairs = prepared.task.parts[part]
        short = np.flatnonzero(np.maximum(pairs.source.lengths, pairs.target.lengths) <= max_tokens)
        for row in evenly_chosen(short, count):
            target = pairs.targets[row]
            yield self.encode_example(loaded, pairs.sources[row], target=target, beam=1, say=silent)

    def random_call(self, loaded: LoadedTranslator, generator: Generator, max_tokens: int) -> ModelCall:
        vocabs = (loaded.tokenizer.vocab_size, loaded.target_tokenizer.vocab_size)
        source, target = (random_tokens(vocab, generator, max_tokens) for vocab in vocabs)
        return source, None, target, None

    def embed(self, loaded: LoadedTranslator, examples: Sequence[Example], *, tokens: bool) -> list[Embedded]:
        return embed(loaded.model, loaded.tokenizer, loaded.config, [str(text) for text in examples], tokens=tokens)

    def chance_level(self, config: Config, card: Mapping[str, Any]) -> tuple[float | None, str]:
        return chance_of_tokens(card)

    def batch_size_in_words(self, config: Config) -> str:
        return f"{config.training.batch_tokens} tokens"


def _check_marks(config: Config, tokenizer: Tokenizer) -> None:
    """Refuse tokens that do not say where a text begins and ends."""
    roles = tokenizer.roles
    lacking = [name for name, ids in (("START", roles.opening), ("END", roles.closing)) if not ids]
    if lacking:
        where = config.model.from_run or config.model.decoder_from or f"tokenizer.file {config.tokenizer.file}"
        raise SettingError(
            f"{where} puts no {' and no '.join(lacking)} around a text, which translation needs: begin with tokens "
            "that have both, such as BERT's, Marian's, or those of a run trained here"
        )


def _say_too_long(parts: dict[str, PairExamples], context: int, say: Say) -> None:
    for what, count in (
        ("left out", sum(part.dropped for part in parts.values())),
        ("cut there", sum(part.cut for part in parts.values())),
    ):
        if count:
            pairs = "1 pair is" if count == 1 else f"{count:,} pairs are"
            say(f"{pairs} longer than {context:,} tokens and {what} (--model.context, --data.too_long)")


FAMILIES = (TranslationFamily(),)
