"""What can be asked of data before anything is learned from it."""

from dataclasses import dataclass

from glassformer.config.resolve import Config
from glassformer.config.say import Say
from glassformer.data.embedded import DATASETS
from glassformer.data.pairs import training_pairs
from glassformer.data.source import open_source
from glassformer.data.split import split
from glassformer.text.tokenizer import Tokenizer
from glassformer.verbs.prepare import prepare


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


def describe(config: Config) -> Described:
    """How a text would be divided, and how it begins."""
    assert config.data.path is not None
    corpus = split(open_source(config.data.path, config.data), config.data)
    parts = {
        name: {"documents": part.documents, "characters": part.characters, "bytes": part.bytes}
        for name, part in corpus.parts.items()
    }
    first = next(iter(corpus.parts["train"].chunks())).text
    return Described(corpus.report(), corpus.fingerprint, parts, first[:300])


@dataclass(frozen=True)
class Shown:
    """A batch as the model will see it."""

    step: int
    rows: list[list[str]]
    """Each row's tokens, the last one only as an answer."""
    ids: list[list[int]]
    pairs: list[tuple[str, str]]
    """The first row's beginning as training pairs: prefix → next token."""


NAMES = ("pad", "start", "end", "unk")


def readable(tokenizer: Tokenizer, id: int) -> str:
    """A token as text; special ones by name."""
    for name in NAMES:
        if id == getattr(tokenizer, name):
            return f"<{name}>"
    return tokenizer.token(id)


def show_batch(config: Config, step: int, say: Say, *, most_pairs: int = 12) -> Shown:
    """Batch `step` of a training with these settings, and one sentence of it as its training pairs."""
    prepared = prepare(config, say)
    ids = prepared.task.batch(step).ids.tolist()
    rows = [[readable(prepared.tokenizer, id) for id in row] for row in ids]
    return Shown(step, rows, ids, training_pairs(rows[0][: most_pairs + 1]))
