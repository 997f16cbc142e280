"""From a configuration to everything a training needs: data split, tokens counted, a task."""

from typing import Any

from glassformer.config.errors import DataError, Say, SettingError, silent
from glassformer.config.resolve import Config
from glassformer.families.base import FAMILIES, DataParts, Prepared, Processor, tokenizers_of
from glassformer.finetuning.sources import source_tokenizers
from glassformer.runs.run import Run
from glassformer.text.tokenizer import Tokenizer

UNKNOWN_PROCESSOR = Processor()


def split_data(config: Config, rows: Any = None) -> DataParts:
    """The data and what is held out of it. `rows`: where it has been read already."""
    return FAMILIES[config.task].split_data(config, rows)


def prepare(config: Config, say: Say, known: Processor = UNKNOWN_PROCESSOR, rows: Any = None) -> Prepared:
    """`known`: tokenizers to use, instead of training some. `rows`: where the data has been read already."""
    if known.tokenizer is None and config.is_finetuned:
        tokenizer, target_tokenizer = source_tokenizers(config)
        known = Processor(tokenizer=tokenizer, target_tokenizer=target_tokenizer)
    corpus = split_data(config, rows)
    say(f"data: {corpus.report()}")
    check_validation(corpus, config)
    prepared = FAMILIES[config.task].prepare(config, corpus, known, say)
    prepared.task.validates = "validation" in corpus.parts
    return prepared


def check_validation(corpus: DataParts, config: Config) -> None:
    """Refuse a training that nothing would tell how good it is."""
    if "validation" not in corpus.parts and not config.data.refit:
        raise SettingError("nothing is held out: set data.validation_fraction above 0, or give --validation FILE")


def prepare_again(run: Run, instead: str = "") -> Prepared:
    """The data that a run was trained on, as it was read then. `instead`: what to do where nobody knows it."""
    if "imported" in run.card():
        raise DataError(f"{run.path} was imported: what it was trained on is not known here{instead}")
    try:
        prepared = prepare(run.config(), silent, tokenizers_of(run))
    except DataError as error:
        raise DataError(f"the data that this run was trained on is not there: {error}") from None
    check_same_data(run, prepared)
    return prepared


def check_same_data(run: Run, prepared: Prepared) -> None:
    if prepared.corpus.fingerprint != run.card().get("data", {}).get("fingerprint"):
        raise DataError("the data is not what this run began with: going on would mix the two")


# --- tokens, as every family that reads texts makes them ---


def tokenizer_of_texts(texts: list[str], config: Config, say: Say, *, encoded_next: bool = False) -> Tokenizer:
    """Tokens of the training part alone: what is held out must be news to the tokenizer too."""
    size = sum(len(text.encode()) for text in texts)
    return Tokenizer.train(texts, config.tokenizer, say, total_bytes=size, encoded_next=encoded_next)


def say_tokens(tokenizer: Tokenizer, tokens: dict[str, int], unknown: dict[str, int], say: Say) -> None:
    counts = ", ".join(
        f"{count:,} {name}" + (f" ({unknown[name] / count:.2%} unknown)" if unknown[name] else "")
        for name, count in tokens.items()
    )
    say(f"tokens: {tokenizer.kind}, vocabulary of {tokenizer.vocab_size:,}; {counts}")
