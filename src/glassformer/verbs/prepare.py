"""From settings to everything a training needs: text divided, tokens packed, a task."""

from dataclasses import dataclass

from glassformer.config.errors import DataError, SettingError
from glassformer.config.resolve import Config
from glassformer.config.say import Say
from glassformer.data.part import Part
from glassformer.data.source import open_source
from glassformer.data.split import Corpus, split
from glassformer.data.store import Tokens, pack
from glassformer.tasks.language_model import LanguageModelling
from glassformer.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class Prepared:
    corpus: Corpus
    tokenizer: Tokenizer
    parts: dict[str, Tokens]
    task: LanguageModelling


def train_tokenizer(part: Part, config: Config, say: Say) -> Tokenizer:
    """Tokens of the training part alone: what is held out must be news to the tokenizer too."""
    texts = (chunk.text for chunk in part.chunks())
    return Tokenizer.train(texts, config.tokenizer, say, total_bytes=part.bytes)


def prepare(config: Config, say: Say, tokenizer: Tokenizer | None = None) -> Prepared:
    """`tokenizer`: the one to use, instead of training one."""
    if config.data.path is None:
        raise SettingError(
            "no data: name a text file, a folder, or an embedded data set (`glassformer data` lists them)"
        )
    corpus = split(open_source(config.data.path, config.data), config.data)
    say(f"data: {corpus.report()}")
    if "validation" not in corpus.parts:
        raise SettingError("nothing is held out: set data.validation_fraction above 0, or give --validation FILE")
    if tokenizer is None:
        tokenizer = train_tokenizer(corpus.parts["train"], config, say)
    parts = {name: pack(part, tokenizer, say) for name, part in corpus.parts.items()}
    say("tokens: " + _tokens_in_words(tokenizer, parts))
    if tokenizer.vocab_size <= len(tokenizer.specials) + 1:
        raise DataError("there is only one token to learn: the text repeats a single one")
    task = LanguageModelling(
        parts,
        context=config.model.context,
        batch_size=config.training.batch_size,
        start=tokenizer.start,
        seed=config.training.seed,
        smoothing=config.training.label_smoothing,
    )
    return Prepared(corpus, tokenizer, parts, task)


def _tokens_in_words(tokenizer: Tokenizer, parts: dict[str, Tokens]) -> str:
    counts = ", ".join(
        f"{len(tokens.ids):,} {name}" + (f" ({tokens.unknown / len(tokens.ids):.2%} unknown)" if tokens.unknown else "")
        for name, tokens in parts.items()
    )
    return f"{tokenizer.kind}, vocabulary of {tokenizer.vocab_size:,}; {counts}"
