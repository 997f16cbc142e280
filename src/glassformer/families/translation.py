"""The family of translators, which read a source text and generate a target text."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Unpack, overload

import numpy as np
import torch
from torch import Generator

from glassformer.config.arguments import check_arguments
from glassformer.config.errors import DataError, Misuse, SettingError, refuse_unknown
from glassformer.config.messages import Say, listening, say, silent, takes_listener
from glassformer.config.presets import BLEU_TOKENIZERS, TRANSLATION
from glassformer.config.resolve import Config, that_writes
from glassformer.config.sections import DataSettings
from glassformer.data.columns.schema import Schema
from glassformer.data.features.texts import PairExamples, encode_pairs, source_room, target_room_of
from glassformer.data.io.aligned import SOURCE, TARGET, is_tmx
from glassformer.data.split.pairs import PairCorpus, Pairs, pair_columns, split_pairs, whole_pairs
from glassformer.data.split.rows import skip_rows, skipped_lines
from glassformer.data.wording import counted
from glassformer.decoding.options import Search, SearchArguments
from glassformer.decoding.translate import marks_of, translate
from glassformer.families import requests
from glassformer.families.base import EvaluatedPart, Family, Loaded, ModelCall, Prepared, Processor
from glassformer.families.build import say_tokens, tokenizer_of_texts
from glassformer.families.capabilities import Translates
from glassformer.families.recognition import pairs_of, recognise_images, recognise_pairs
from glassformer.families.schema import reader_of
from glassformer.models.build import build_seq2seq
from glassformer.models.modules import Seq2Seq, device_of
from glassformer.notebook.display import progress_bar
from glassformer.notebook.html import facts, table
from glassformer.runs.run import Run
from glassformer.tasks.base import Evaluation
from glassformer.tasks.translation import Translating, bleu_with
from glassformer.text.tokenizer import Tokenizer

TOO_LONG = "longer than the context (--data.too_long cut scores them)"
"""Reason for skipping a pair."""


@dataclass(frozen=True)
class Scored:
    """A translation with the score by which it is ranked."""

    text: str
    score: float
    """Sum of the tokens' log-probabilities, divided by their number to the power of the length penalty."""
    ids: list[int] = field(default_factory=list, repr=False, compare=False)
    """Tokens as they were generated. Tokenizing the text again may yield other tokens."""

    def to_dict(self) -> dict[str, Any]:
        return {"text": self.text, "score": self.score}


@dataclass(frozen=True)
class Translation:
    """A text with its translations, the best first."""

    source: str
    best: list[Scored]

    @property
    def text(self) -> str:
        return self.best[0].text if self.best else ""

    def to_dict(self) -> dict[str, Any]:
        """Return the source, the best translation and the others. The translation of a blank text is empty."""
        if not self.best:
            return {"source": self.source, "translation": ""}
        out = {"source": self.source, "translation": self.text, "score": self.best[0].score}
        others = [translation.to_dict() for translation in self.best[1:]]
        return {**out, "others": others} if others else out

    def _repr_html_(self) -> str:
        rows = [[scored.text, scored.score] for scored in self.best]
        return facts({"source": self.source}) + table(("translation", "score"), rows)


def source_ids(tokenizer: Tokenizer, text: str, context: int) -> tuple[list[int], bool]:
    """Return the tokens of a source, with the tokens that open and close it, and whether the text was cut."""
    ids, room = tokenizer.encode(text), source_room(tokenizer.roles, context)
    return [*tokenizer.roles.source, *ids[:room], *tokenizer.roles.closing], len(ids) > room


def translate_texts(
    model: Seq2Seq, sides: tuple[Tokenizer, Tokenizer], texts: Sequence[str], how: Search, *, context: int
) -> list[Translation]:
    """Return the translations in the order of the texts; blank texts stay blank.

    `sides`: the tokenizers of sources and targets.
    """
    tokenizer, target_tokenizer = sides
    filled = [text for text in texts if text.strip()]
    encoded = [source_ids(tokenizer, text, context) for text in filled]
    if cut := sum(was_cut for _, was_cut in encoded):
        say(f"{cut:,} of {len(texts):,} texts are longer than {context:,} tokens and cut there")
    requests.say_unknown(tokenizer, [id for ids, _ in encoded for id in ids])
    best = translate(model, [ids for ids, _ in encoded], how, marks_of(target_tokenizer, model), context=context)
    if endless := sum(not some[0].ended for some in best):
        say(f"{endless:,} of {len(texts):,} translations grew far longer than their source and were stopped there")
    scored = (
        [Scored(target_tokenizer.decode(one.ids), one.rank(how.length_penalty), one.ids) for one in hypotheses]
        for hypotheses in best
    )
    return [Translation(text, next(scored) if text.strip() else []) for text in texts]


# --- the family ---


@dataclass(frozen=True, repr=False)
class LoadedTranslator(Loaded, Translates):
    """A loaded translator."""

    model: Seq2Seq
    tokenizer: Tokenizer
    target_tokenizer: Tokenizer

    @property
    def output_tokenizer(self) -> Tokenizer:
        return self.target_tokenizer

    @overload
    def translate(self, texts: str, *, say: Say = say, **how: Unpack[SearchArguments]) -> Translation: ...
    @overload
    def translate(
        self, texts: Iterable[Any], *, say: Say = say, **how: Unpack[SearchArguments]
    ) -> list[Translation]: ...
    @progress_bar()
    @check_arguments
    @takes_listener
    def translate(
        self, texts: str | Iterable[Any], *, say: Say = say, **how: Unpack[SearchArguments]
    ) -> Translation | list[Translation]:
        """Translate a text, or each text of a list, an array or a DataFrame with the run's source column.

        The default is beam search with a `beam` of 5; a beam of 1 is greedy. `length_penalty` (1) is the exponent of
        the length in the scores. `nbest` (1) is the number of translations per text. With `temperature`, `top_k` or
        `top_p`, translations are sampled with the seeds `seed` (0), `seed` + 1 … for each text.
        """
        search = Search.of(**how)
        reader = reader_of(self, "translate")
        several = reader.texts(texts)
        sides, context = (self.tokenizer, self.target_tokenizer), self.config.model.context
        translations = translate_texts(self.model, sides, several, search, context=context)
        return translations[0] if reader.is_one(texts) else translations


class TranslationFamily(Family):
    task = TRANSLATION
    title = "A translator"
    noun = "pair"
    verb = "translate"
    primary = "chrf"
    has_decoder = True
    token_places = (0, 2)
    loaded_class = LoadedTranslator

    def recognise(self, request: requests.ConfigRequest) -> requests.Recognition:
        recognise_images(request)  # refuses images unless their classes are to be learned
        return recognise_pairs(request) or requests.Recognition(that_writes(request.resolve({"task": self.task})))

    def schema(self, loaded: Any, data: DataSettings) -> Schema:
        if data.source is None or is_tmx(data.path or ""):  # two text files, or a translation memory
            return Schema(SOURCE, labels=(TARGET,), named=False)
        return Schema(data.source, labels=(data.target or TARGET,))

    def split_data(self, config: Config, rows: Any = None) -> PairCorpus:
        pairs = pairs_of(config.data, rows)
        return split_pairs(pairs.table, pairs.source, pairs.target, config.data)

    def prepare(self, config: Config, corpus: PairCorpus, known: Processor) -> Prepared:
        train = corpus.parts["train"]
        tokenizer, target_tokenizer = known.tokenizer, known.target_tokenizer
        if tokenizer is None:
            tokenizer, target_tokenizer = tokenizers_of_sides(train.sources, train.targets, config)
        sides = (tokenizer, target_tokenizer or tokenizer)
        for side in sides:
            _check_marks(config, side)
        parts = {name: self.examples_of(config, part, *sides) for name, part in corpus.parts.items()}
        counts = {name: len(part.source.ids) + len(part.target.ids) for name, part in parts.items()}
        if target_tokenizer is not None:
            say(f"tokens of the targets: {target_tokenizer.kind}, vocabulary of {target_tokenizer.vocab_size:,}")
        say_tokens(tokenizer, counts, {name: sum(part.unknown) for name, part in parts.items()})
        _say_too_long(parts, config.model.context)
        if not len(parts["train"].sources):
            raise DataError("no pair is left to train on: raise --model.context, or --data.too_long cut")
        if dropped := sum(len(part.dropped) for part in parts.values()):
            corpus.skipped["longer than the context"] = dropped
        task = self.task_on(config, parts, sides[1])
        return Prepared(corpus=corpus, tokenizer=tokenizer, target_tokenizer=target_tokenizer, tokens=counts, task=task)

    def examples_of(self, config: Config, part: Pairs, source: Tokenizer, target: Tokenizer) -> PairExamples:
        return encode_pairs(part, source, target, context=config.model.context, too_long=config.data.too_long)

    def task_on(self, config: Config, parts: dict[str, PairExamples], tokenizer: Tokenizer) -> Translating:
        """Return the task on these parts. Without a training part, it can only evaluate.

        `tokenizer`: the tokenizer of the targets.
        """
        training = config.training
        assert training.batch_tokens is not None
        context, tokens, smoothing = config.model.context, training.batch_tokens, training.label_smoothing
        return Translating(
            parts, tokenizer, context=context, batch_tokens=tokens, seed=training.seed, smoothing=smoothing
        )

    def build_model(self, config: Config, processor: Processor) -> Seq2Seq:
        source, target = processor.shape.vocab, processor.target_tokenizer
        target_vocab = source if target is None else target.vocab_size
        return build_seq2seq(config.model, source_vocab=source, target_vocab=target_vocab, seed=config.training.seed)

    def loaded(self, model: Any, processor: Processor, run: Run, config: Config, **more: Any) -> Loaded:
        target_tokenizer = processor.target_tokenizer or processor.tokenizer
        return super().loaded(model, replace(processor, target_tokenizer=target_tokenizer), run, config)

    def training_sample(self, model: Any, processor: Processor, evaluation: Evaluation, step: int) -> str:
        """Return a held-out source with its translation, and the reference if it differs."""
        record = evaluation.records[step % len(evaluation.records)]
        right = "" if record["exact"] else f"   ({record['target']})"
        return f"{record['source']} → {record['output']}{right}"

    def check_options(self, loaded: Loaded, options: requests.EvaluateOptions) -> None:
        options.refuse_stride()
        if options.bleu_tokenizer is not None:
            refuse_unknown("BLEU tokenizer", options.bleu_tokenizer, BLEU_TOKENIZERS, Misuse)
            bleu_with(options.bleu_tokenizer)  # raises Misuse before anything is translated if it is not installed

    def whole_part(self, loaded: Loaded, options: requests.EvaluateOptions) -> Pairs:
        settings = options.settings(loaded.config)
        if options.data is None or isinstance(options.data, str):
            pairs = pairs_of(settings)
            return whole_pairs(pairs.table, pairs.source, pairs.target, "given", settings)
        frame = reader_of(loaded, "evaluate").frame(options.data)
        sides = pair_columns(frame.name, frame.names, settings) or (SOURCE, TARGET)
        return whole_pairs(frame.table(sides, (), {}), *sides, "given", settings)

    def evaluate_part(self, loaded: LoadedTranslator, part: Pairs, options: requests.EvaluateOptions) -> EvaluatedPart:
        searching = {"beam": options.beam, "length_penalty": options.length_penalty}
        how = Search(**{name: value for name, value in searching.items() if value is not None})  # type: ignore[arg-type]
        config = replace(loaded.config, data=options.settings(loaded.config))
        say(f"{part.name} part: {counted(len(part), 'pair')}")
        for line in (*skipped_lines(part.skipped), *part.remarks):
            say(line)
        examples = self.examples_of(config, part, loaded.tokenizer, loaded.target_tokenizer)
        _say_too_long({part.name: examples}, config.model.context)
        skipped = part.skipped
        if examples.dropped:
            skipped = {**skipped, TOO_LONG: [part.lines[row] for row in examples.dropped]}
        if options.other_data:
            rows = len(part) + sum(map(len, part.skipped.values()))
            skip_rows(part.origin, rows, skipped, config.data.bad_rows)
        task = self.task_on(config, {part.name: examples}, loaded.target_tokenizer)
        lowercase, bleu = options.lowercase, options.bleu_tokenizer
        evaluation = task.evaluate(loaded.model, part.name, how=how, lowercase=lowercase, bleu_tokenizer=bleu)
        return EvaluatedPart(loaded, part, examples, evaluation.with_skipped(skipped))

    def encode_example(
        self, loaded: LoadedTranslator, example: requests.Example, *, target: str | None, beam: int
    ) -> requests.ModelInput:
        text, tokenizer, context = requests.check_text(example), loaded.target_tokenizer, loaded.config.model.context
        ids, was_cut = source_ids(loaded.tokenizer, text, context)
        if was_cut:
            room = source_room(loaded.tokenizer.roles, context)
            requests.say_cut_text(len(loaded.tokenizer.encode(text)), room)
        requests.say_unknown(loaded.tokenizer, ids)
        best = loaded.translate(text, beam=beam, say=silent).best[0] if target is None else None
        output, written = (target or "", tokenizer.encode(target or "")) if best is None else (best.text, best.ids)
        roles, room = tokenizer.roles, target_room_of(tokenizer.roles, context)
        if len(written) > room:
            say(f"the translation is longer than {room:,} tokens and cut there")
        whole = [*roles.opening, *written[:room], *roles.closing[:1]]
        before, answers = whole[:-1], whole[1:]
        device = device_of(loaded.model)
        return requests.ModelInput(
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

    def answer_function(self, loaded: LoadedTranslator, *, top: int) -> Callable[[str], dict[str, Any]]:
        return lambda text: {"text": text, "translation": loaded.translate(text).text}

    def held_out_examples(
        self, loaded: LoadedTranslator, prepared: Prepared, part: str, *, count: int, max_tokens: int, max_patches: int
    ) -> Iterator[requests.ModelInput]:
        pairs = prepared.task.parts[part]
        short = np.flatnonzero(np.maximum(pairs.source.lengths, pairs.target.lengths) <= max_tokens)
        for row in requests.evenly_chosen(short, count):
            with listening(silent):
                example = self.encode_example(loaded, pairs.sources[row], target=pairs.targets[row], beam=1)
            yield example

    def random_call(self, loaded: LoadedTranslator, generator: Generator, max_tokens: int) -> ModelCall:
        vocabs = (loaded.tokenizer.vocab_size, loaded.target_tokenizer.vocab_size)
        source, target = (requests.random_tokens(vocab, generator, max_tokens) for vocab in vocabs)
        return source, None, target, None


def tokenizers_of_sides(sources: list[str], targets: list[str], config: Config) -> tuple[Tokenizer, Tokenizer | None]:
    """Train the tokenizer of the sources and that of the targets; the second is None if both sides share one."""
    if config.tokenizer.shared:
        return tokenizer_of_texts([*sources, *targets], config), None
    return tokenizer_of_texts(sources, config), tokenizer_of_texts(targets, config)


def _check_marks(config: Config, tokenizer: Tokenizer) -> None:
    """Raise `SettingError` if the tokenizer does not mark where a text begins and ends."""
    roles = tokenizer.roles
    lacking = [name for name, ids in (("START", roles.opening), ("END", roles.closing)) if not ids]
    if lacking:
        where = config.model.from_run or config.model.decoder_from or f"tokenizer.file {config.tokenizer.file}"
        raise SettingError(f"{where} puts no {' and no '.join(lacking)} around a text, which translation needs")


def _say_too_long(parts: dict[str, PairExamples], context: int) -> None:
    dropped, cut = sum(len(part.dropped) for part in parts.values()), sum(part.cut for part in parts.values())
    for what, count in (("left out", dropped), ("cut there", cut)):
        if count:
            pairs = counted(count, "pair is", "pairs are")
            say(f"{pairs} longer than {context:,} tokens and {what} (--model.context, --data.too_long)")


FAMILIES = (TranslationFamily(),)
