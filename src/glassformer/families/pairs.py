"""Pairs to translate on their way to a task."""

from glassformer.config.errors import DataError, SettingError
from glassformer.config.presets import TRANSLATION
from glassformer.config.resolve import Config
from glassformer.config.say import Say
from glassformer.config.sections import DataSettings
from glassformer.data.columns.inference import SAMPLE
from glassformer.data.columns.pairs import pair_columns
from glassformer.data.datasets.embedded import open_dataset
from glassformer.data.features.pairs import PairExamples, encode_pairs
from glassformer.data.io.aligned import is_tmx, read_aligned, read_tmx
from glassformer.data.io.place import find
from glassformer.data.io.table import Table, holds_table, read_table
from glassformer.data.split.pairs import Pairs
from glassformer.tasks.translation import Translating
from glassformer.text.tokenizer import Tokenizer

NO_DATA = "no data: name a text file, a folder, a table, or an embedded data set (`glassformer data` lists them)"


def is_read_apart(settings: DataSettings) -> bool:
    """Whether pairs come from two files, or from a translation memory: then their columns need no names."""
    return settings.source_file is not None or (settings.path is not None and is_tmx(settings.path))


def find_pairs(settings: DataSettings, task: str | None) -> tuple[Table, str, str] | None:
    """Pairs to translate, with the names of their columns, where that is asked for or plainly what is there."""
    if task not in (None, TRANSLATION):
        return None
    if settings.source_file is not None:
        assert settings.target_file is not None
        return read_aligned(settings.source_file, settings.target_file, settings.encoding), "source", "target"
    if settings.path is None:
        return None
    if is_tmx(settings.path):
        return read_tmx(settings.path, settings.source, settings.target), "source", "target"
    if not holds_table(settings.path):
        if task == TRANSLATION or settings.source or settings.target:
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
        if task == TRANSLATION:
            raise DataError(
                f"{settings.path}: no columns to translate from and to (columns: {', '.join(there)}): "
                "name them with --source and --target"
            )
        return None
    return read_table(settings.path, settings), *names


def pairs_of(data: DataSettings, table: Table | None = None) -> tuple[Table, str, str]:
    """Pairs to translate, with the names of their columns. `table`: where it has been read already."""
    if table is not None:
        named = ("source", "target") if is_read_apart(data) else (data.source, data.target)
        return table, str(named[0]), str(named[1])
    found = find_pairs(data, TRANSLATION)
    if found is None:
        raise SettingError(NO_DATA)
    return found


def pair_examples_of(part: Pairs, source: Tokenizer, target: Tokenizer, config: Config) -> PairExamples:
    return encode_pairs(part, source, target, context=config.model.context, too_long=config.data.too_long)


def translating_task(config: Config, parts: dict[str, PairExamples], tokenizer: Tokenizer) -> Translating:
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


def say_too_long(parts: dict[str, PairExamples], context: int, say: Say) -> None:
    for what, count in (
        ("left out", sum(part.dropped for part in parts.values())),
        ("cut there", sum(part.cut for part in parts.values())),
    ):
        if count:
            pairs = "1 pair is" if count == 1 else f"{count:,} pairs are"
            say(f"{pairs} longer than {context:,} tokens and {what} (--model.context, --data.too_long)")
