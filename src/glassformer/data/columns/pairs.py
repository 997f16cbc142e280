"""Which columns are a text and its translation."""

from collections.abc import Iterable, Sequence

from glassformer.config.errors import DataError
from glassformer.config.sections import DataSettings
from glassformer.data.columns.heuristics import by_name, only_column, require_column
from glassformer.data.columns.inference import TEXT_NAMES
from glassformer.data.wording import listed

SOURCE_NAMES = ("source", "src", "source_text", "src_text", "input_text")
_LANGUAGES = """
ar arabic bg bulgarian bn bengali cs czech da danish de german el greek en english es spanish et estonian fa persian fi
finnish fr french he hebrew hi hindi hr croatian hu hungarian id indonesian it italian ja japanese ko korean lt
lithuanian lv latvian nb no norwegian nl dutch pl polish pt portuguese ro romanian ru russian sk slovak sl slovenian
sr serbian sv swedish sw swahili th thai tr turkish uk ukrainian ur urdu vi vietnamese zh chinese
"""
LANGUAGES = frozenset(_LANGUAGES.split())
"""Two columns of such names, and no others, are a text and its translation."""
TARGET_NAMES = ("target", "tgt", "target_text", "tgt_text", "output_text", "translation")
"""Well-known names of a text to translate and of its translation. Many a label is called target: they come in twos."""


def pair_columns(where: str, names: Iterable[str], settings: DataSettings) -> tuple[str, str] | None:
    """The columns of a text and its translation: those that were named, or that have well-known names.

    None: nobody named one, and not both are found; or there is another text or label, named or of a well-known name.
    """
    names = list(names)
    if settings.source is None and settings.target is None:
        if len(names) == 2 and all(name.lower() in LANGUAGES for name in names):
            return names[0], names[1]
        found = by_name(names, SOURCE_NAMES), by_name(names, TARGET_NAMES)
        if not all(found) or by_name(names, TEXT_NAMES) or settings.text or settings.label:
            return None
    source, target = settings.source, settings.target
    if source is not None:
        source = require_column(where, source, names, "--source")
    if target is not None:
        target = require_column(where, target, names, "--target")
    source = source or _other_side(where, [name for name in names if name != target], SOURCE_NAMES, "source")
    target = target or _other_side(where, [name for name in names if name != source], TARGET_NAMES, "target")
    if source == target:
        raise DataError(
            f"{where}: column '{source}' cannot be both the source and the target: see --source and --target"
        )
    return source, target


def _other_side(where: str, names: list[str], known: Sequence[str], side: str) -> str:
    """The column of the other side, by its name, or because it is the only one left."""
    found = by_name(names, known) or (names if len(names) == 1 else [])
    if not found:
        others = f"name one of {listed(names)}" if names else "there is no other column: name one"
        raise DataError(f"{where}: no column looks like the {side}: {others} with --{side}")
    return only_column(where, found, f"the {side}", f"--{side}")
