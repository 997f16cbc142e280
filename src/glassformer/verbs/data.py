"""What can be asked of data before anything is learned from it."""

from dataclasses import dataclass, replace

from glassformer.config.resolve import Config
from glassformer.config.say import Say
from glassformer.data.check import Checked, check_table
from glassformer.data.columns import choose_columns
from glassformer.data.embedded import DATASETS
from glassformer.data.labelled import Labelled
from glassformer.data.pairs import training_pairs
from glassformer.data.part import Part
from glassformer.data.table import Table, read_table
from glassformer.tasks.labelling import Texts
from glassformer.tasks.language_model import Windows
from glassformer.text.tokenizer import Tokenizer
from glassformer.verbs.prepare import divide, prepare


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


def describe(config: Config, table: Table | None = None) -> Described:
    """How data would be divided, and how it begins."""
    corpus = divide(config, table)
    train = corpus.parts["train"]
    first = train.texts[0] if isinstance(train, Labelled) else next(iter(train.chunks())).text
    parts = {name: _sizes(part) for name, part in corpus.parts.items()}
    return Described(corpus.report(), corpus.fingerprint, parts, first[:300])


def _sizes(part: Part | Labelled) -> dict[str, int]:
    if isinstance(part, Part):
        return {"documents": part.documents, "characters": part.characters, "bytes": part.bytes}
    sizes = {"texts": len(part.texts), "characters": sum(map(len, part.texts))}
    return sizes | {"bytes": sum(len(text.encode()) for text in part.texts)}


def check(config: Config, table: Table | None, say: Say) -> Checked:
    """What is odd about labelled texts, and what a model of this context would cut off."""
    assert config.data.path is not None
    table = table or read_table(config.data.path, config.data)
    columns = choose_columns(table, config.data, config.task)
    texts = [text for text in table.columns[columns.text] if text.strip()]
    tokenizer = Tokenizer.train(texts, replace(config.tokenizer, min_count=1), say)  # what is rare has a length too
    frame = 2 * config.framed

    def lengths(texts: list[str]) -> list[int]:
        return [len(ids) + frame for ids in tokenizer.encode_batch(texts)]

    return check_table(table, columns, lengths, config.model.context)


@dataclass(frozen=True)
class Shown:
    """A batch as the model will see it."""

    step: int
    rows: list[list[str]]
    """Each row's tokens; of a language model, the last one is only an answer."""
    ids: list[list[int]]
    answers: list[str] | None
    """What is to be said of each row; None: a language model."""
    pairs: list[tuple[str, str]]
    """A language model's first row's beginning as training pairs: prefix → next token."""


NAMES = ("pad", "start", "end", "unk")


def readable(tokenizer: Tokenizer, id: int) -> str:
    """A token as text; special ones by name."""
    for name in NAMES:
        if id == getattr(tokenizer, name):
            return f"<{name}>"
    return tokenizer.token(id)


def show_batch(config: Config, step: int, say: Say, table: Table | None = None, *, most_pairs: int = 12) -> Shown:
    """Batch `step` of a training with these settings; of a language model, one sentence of it as training pairs."""
    prepared = prepare(config, say, table=table)
    batch = prepared.task.batch(step)
    assert isinstance(batch, Windows | Texts)
    ids = batch.ids.tolist()
    rows = [[readable(prepared.tokenizer, id) for id in row] for row in ids]
    if isinstance(batch, Windows):
        return Shown(step, rows, ids, None, training_pairs(rows[0][: most_pairs + 1]))
    assert prepared.answers is not None
    return Shown(step, rows, ids, prepared.answers.words(batch.answers), [])
