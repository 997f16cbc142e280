"""Which columns are the text: inferred where it is obvious, several joined into one."""

from collections.abc import Collection, Iterable, Mapping, Sequence

from glassformer.config.errors import DataError
from glassformer.config.sections import DataSettings
from glassformer.data.columns.heuristics import (
    by_name,
    is_id,
    is_varied_text,
    named_columns,
    only_column,
    words_in,
)
from glassformer.data.columns.labels import list_in
from glassformer.data.wording import listed

TEXT_NAMES = (
    "text", "sentence", "review", "content", "message", "tweet", "question", "comment", "body", "document", "post",
    "utterance", "paragraph", "passage", "description", "headline", "query", "abstract", "article", "story", "sms",
    "satz", "kommentar", "nachricht", "beschreibung", "texte", "phrase", "commentaire", "texto", "comentario", "testo",
    "commento", "текст", "文本", "内容", "评论", "テキスト", "本文",
)  # fmt: skip
"""Well-known names of the text; the first wins over the others."""
HEADINGS = (
    "title", "subject", "headline", "heading", "summary", "titel", "betreff", "überschrift", "titre", "objet", "título",
    "asunto", "titolo", "oggetto", "заголовок", "标题", "タイトル",
)  # fmt: skip
"""Well-known names of what stands above a text and is read with it."""
OTHER_NAMES = (
    "name", "full name", "full_name", "fullname", "first_name", "last_name", "surname", "author", "user", "username",
    "address", "street", "city", "country", "email", "phone", "url", "link", "file", "filename", "path", "ticket",
)  # fmt: skip
"""Well-known names of what has words and is no text to learn from, where there is anything else."""


def text_column(where: str, sample: Mapping[str, Sequence[str]], named: str | None) -> str:
    """The column that was named, or has a well-known name, or is plainly prose; several that were named as title,body.
    `sample`: some rows' values."""
    if named is not None:
        return ",".join(named_columns(where, named, sample, "--text"))
    if not (found := plain_texts(sample) or wordy_columns(sample)):
        raise DataError(
            f"{where}: no column looks like text (columns: {listed(sample)}; the first line names them): "
            "name one with --text"
        )
    return only_column(where, found, "the text", "--text", joined=True)


def plain_texts(sample: Mapping[str, Sequence[str]]) -> list[str]:
    """The columns with a well-known name, or with prose; where one of these is the longest by far, it alone."""
    if found := by_name(sample, TEXT_NAMES):
        return [name for name in found if name.lower() not in HEADINGS] or found
    prose = [name for name in wordy_columns(sample) if words_in(sample[name]) >= 2 and name.lower() not in OTHER_NAMES]
    found = [name for name in prose if name.lower() not in HEADINGS] or prose
    if len(found) > 1:
        lengths = {name: sum(map(len, sample[name])) for name in found}
        first, second = sorted(found, key=lengths.__getitem__, reverse=True)[:2]
        if lengths[first] >= 4 * lengths[second]:
            return [first]
    return found


def wordy_columns(sample: Mapping[str, Sequence[str]]) -> list[str]:
    """Prose, and also names and single words, which are the text where there is nothing else to learn from."""
    return [name for name, values in sample.items() if is_varied_text(values) and not is_id(name, values)]


def with_headings(found: Sequence[str], sample: Mapping[str, Sequence[str]], taken: Collection[str | None]) -> str:
    """The columns of a text as one name, what stands above it first."""
    above = [
        name
        for name, values in sample.items()
        if name.lower() in HEADINGS and name not in (*found, *taken) and is_varied_text(values)
    ]
    return ",".join([*above, *found])


def text_candidates(
    where: str, sample: dict[str, list[str]], settings: DataSettings, taken: set[str | None]
) -> dict[str, list[str]]:
    """The columns that may be the text where nobody named it; the first line must be names."""
    if odd := next((name for name in sample if len(name.split()) > 5), None):
        raise DataError(
            f"{where}: the first line looks like data, not like names of columns ('{odd[:30]}…'): "
            "write names such as text,label above it, or say --text and --label"
        )
    if settings.label is not None:
        taken |= {settings.label, *map(str.strip, settings.label.split(","))}
    free = {name: values for name, values in sample.items() if name not in taken}
    return {name: values for name, values in free.items() if not _are_lists(values)} or free


def _are_lists(values: Sequence[str]) -> bool:
    """Whether they are lists of labels, and no texts."""
    filled = [value for value in values if value.strip()]
    return bool(filled) and all(list_in(value) is not None for value in filled)


def texts_in_words(names: Iterable[str]) -> str:
    """The column of the text, or those that are joined."""
    first, *more = (f"'{name}'" for name in names)
    return f"text columns {', '.join([first, *more[:-1]])} and {more[-1]}, joined" if more else f"text column {first}"
