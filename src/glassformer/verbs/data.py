"""What can be asked of data before anything is learned from it."""

from dataclasses import dataclass, replace

from torch import Tensor

from glassformer.config.presets import TEXT, TRANSLATION, label_kind_of
from glassformer.config.resolve import Config
from glassformer.config.say import Say
from glassformer.data.check.pairs import Lengths, PairCheck, check_pairs
from glassformer.data.check.tables import TableCheck, check_table
from glassformer.data.columns.inference import choose_columns
from glassformer.data.datasets.embedded import DATASETS
from glassformer.data.io.pictures import Pictures
from glassformer.data.io.table import Table, read_table
from glassformer.data.packing.masking import NOTHING
from glassformer.data.packing.windows import training_pairs
from glassformer.data.split.labelled import Labelled
from glassformer.data.split.pairs import Pairs
from glassformer.data.split.part import Part
from glassformer.data.split.pictures import as_table
from glassformer.families.base import Prepared
from glassformer.families.prepare import prepare, split_data
from glassformer.families.translation import pairs_of
from glassformer.finetuning.begin import tokens_of
from glassformer.tasks.labelling import LabelledBatch
from glassformer.tasks.language_model import WindowBatch
from glassformer.tasks.masked_language_model import MaskedBatch
from glassformer.tasks.translation import PairBatch
from glassformer.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class Listed:
    name: str
    summary: str
    parameters: dict[str, int]


def list_data() -> list[Listed]:
    """The data sets that come along."""
    return [Listed(name, info.summary, dict(info.parameters)) for name, info in DATASETS.items()]


@dataclass(frozen=True)
class Described:
    report: str
    fingerprint: str
    parts: dict[str, dict[str, int]]
    beginning: str


def describe(config: Config, table: Table | Pictures | None = None) -> Described:
    """How data would be divided, and how it begins."""
    corpus = split_data(config, table)
    train = corpus.parts["train"]
    if isinstance(train, Pairs):
        first = f"{train.sources[0]} → {train.targets[0]}"
    else:
        first = train.texts[0] if isinstance(train, Labelled) else next(iter(train.chunks())).text
    parts = {name: _sizes(part) for name, part in corpus.parts.items()}
    return Described(corpus.report(), corpus.fingerprint, parts, first[:300])


def _sizes(part: Part | Labelled | Pairs) -> dict[str, int]:
    if isinstance(part, Pairs):
        sides = {"source": part.sources, "target": part.targets}
        return {"pairs": len(part)} | {f"{name} characters": sum(map(len, texts)) for name, texts in sides.items()}
    if isinstance(part, Part):
        return {"documents": part.documents, "characters": part.characters, "bytes": part.bytes}
    if part.columns or part.pixels is not None:
        return {"examples": len(part)}
    sizes = {"texts": len(part.texts), "characters": sum(map(len, part.texts))}
    return sizes | {"bytes": sum(len(text.encode()) for text in part.texts)}


def check(config: Config, table: Table | Pictures | None, say: Say) -> TableCheck | PairCheck:
    """What is odd about labelled texts or pairs, and what a model of this context would cut off."""
    assert config.data.path is not None or config.task == TRANSLATION
    if isinstance(table, Pictures):
        return check_table(*as_table(table))
    if config.task == TRANSLATION:
        return _check_pairs(config, table, say)
    assert config.data.path is not None
    table = table or read_table(config.data.path, config.data)
    columns = choose_columns(table, config.data, label_kind_of(config.task))
    if columns.text is None:
        return check_table(table, columns)
    texts = [text for text in table.columns[columns.text] if text.strip()]
    if config.begun:
        tokenizer, _ = tokens_of(config)
    else:
        tokenizer = Tokenizer.train(texts, replace(config.tokenizer, min_count=1), say)  # what is rare has a length too
    frame = len([*tokenizer.roles.opening, *tokenizer.roles.closing]) if config.framed else 0

    def lengths(texts: list[str]) -> list[int]:
        return [len(ids) + frame for ids in tokenizer.encode_batch(texts)]

    return check_table(table, columns, lengths, config.model.context)


def _check_pairs(config: Config, read: Table | None, say: Say) -> PairCheck:
    pairs = pairs_of(config.data, read)
    table, source, target = pairs.table, pairs.source, pairs.target
    sources, targets = ([text for text in table.columns[name] if text.strip()] for name in (source, target))
    if config.begun:
        of_source, of_target = tokens_of(config)
        counts = [_lengths(of_source), _lengths(of_target or of_source)]
    elif config.tokenizer.shared:
        counts = [_lengths(Tokenizer.train([*sources, *targets], config.tokenizer, say))] * 2
    else:
        counts = [_lengths(Tokenizer.train(texts, config.tokenizer, say)) for texts in (sources, targets)]
    return check_pairs(table, source, target, counts[0], config.model.context, target_lengths=counts[1])


def _lengths(tokenizer: Tokenizer) -> Lengths:
    return lambda texts: [len(ids) + 1 for ids in tokenizer.encode_batch(texts)]  # END


@dataclass(frozen=True)
class Shown:
    """A batch as the model will see it."""

    step: int
    rows: list[list[str]]
    """Each row's tokens; of a language model, the last one is only an answer."""
    ids: list[list[int]]
    answers: list[str] | None
    """What is to be said of each row, of a translation its tokens, of a masked model those to guess with their places;
    None: a language model."""
    pairs: list[tuple[str, str]]
    """A language model's first row's beginning as training pairs: prefix → next token."""
    hidden: bool = False
    """Some of the tokens are hidden, and the answers are what these were."""


FEW_NUMBERS = 20
"""So many are shown one by one."""


def show_batch(
    config: Config, step: int, say: Say, table: Table | Pictures | None = None, *, most_pairs: int = 12
) -> Shown:
    """Batch `step` of a training with these settings; of a language model, one sentence of it as training pairs."""
    prepared = prepare(config, say, rows=table)
    batch = prepared.task.batch(step)
    if isinstance(batch, PairBatch):
        return _shown_pairs(step, batch, prepared)
    if isinstance(batch, MaskedBatch):
        return _shown_hidden(step, batch, prepared)
    assert isinstance(batch, WindowBatch | LabelledBatch)
    if isinstance(batch, LabelledBatch) and config.data.kind != TEXT:
        return _shown_examples(step, batch, prepared)
    assert prepared.tokenizer is not None
    ids = (batch.ids if isinstance(batch, WindowBatch) else batch.inputs[0]).tolist()
    rows = [[prepared.tokenizer.shown(id) for id in row] for row in ids]
    if isinstance(batch, WindowBatch):
        between = " " if prepared.tokenizer.kind == "word" else ""
        return Shown(step, rows, ids, None, training_pairs(rows[0][: most_pairs + 1], between))
    assert prepared.answers is not None
    return Shown(step, rows, ids, prepared.answers.words(batch.answers), [])


def _shown_hidden(step: int, batch: MaskedBatch, prepared: Prepared) -> Shown:
    """Windows as they are read; the answers are the tokens to guess, by their places."""
    tokenizer = prepared.tokenizer
    assert tokenizer is not None
    ids = batch.inputs.tolist()
    rows = [[tokenizer.shown(id) for id in row] for row in ids]
    answers = [
        "|".join(f"{place}: {tokenizer.shown(id)}" for place, id in zip(places, asked, strict=True) if id != NOTHING)
        for places, asked in zip(batch.places.tolist(), batch.answers.tolist(), strict=True)
    ]
    return Shown(step, rows, ids, answers, [], hidden=True)


def _shown_examples(step: int, batch: LabelledBatch, prepared: Prepared) -> Shown:
    """Examples that are more than texts: the numbers that the model is called with, by their shapes."""
    assert prepared.answers is not None
    tensors = [tensor for tensor in batch.inputs if tensor.numel()]
    rows = [
        [batch.known[row], *(f"{' × '.join(map(str, one.shape[1:]))}: {_span(one[row])}" for one in tensors)]
        for row in range(batch.size)
    ]
    return Shown(step, rows, [], prepared.answers.words(batch.answers), [])


def _span(tensor: Tensor) -> str:
    """From the smallest number to the largest; of a few, all."""
    values = tensor.flatten().tolist()
    if len(values) > FEW_NUMBERS:
        return f"from {min(values):.3g} to {max(values):.3g}"
    return ", ".join(f"{value:.3g}" for value in values)


def _shown_pairs(step: int, batch: PairBatch, prepared: Prepared) -> Shown:
    """Sources as rows, targets as answers; a target is read from START on and answered up to END."""
    assert prepared.tokenizer is not None
    tokenizer = prepared.target_tokenizer or prepared.tokenizer
    ids = batch.source.tolist()
    rows = [[prepared.tokenizer.shown(id) for id in row] for row in ids]
    targets = [
        "|".join(tokenizer.shown(id) for id in row[:length])
        for row, length in zip(batch.target.tolist(), batch.target_mask.sum(1).tolist(), strict=True)
    ]
    return Shown(step, rows, ids, targets, [])
