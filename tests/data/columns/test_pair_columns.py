"""Which columns are a text and its translation."""

import pytest

from glassformer.config.errors import DataError
from glassformer.config.sections import DataSettings
from glassformer.data.split.pairs import pair_columns


def found(*names: str, source: str | None = None, target: str | None = None) -> tuple[str, str] | None:
    return pair_columns("a.tsv", iter(names), DataSettings(source=source, target=target))


def refused(*names: str, source: str | None = None, target: str | None = None) -> str:
    with pytest.raises(DataError) as caught:
        found(*names, source=source, target=target)
    return str(caught.value)


@pytest.mark.parametrize(
    ("names", "columns"),
    [
        (("source", "target"), ("source", "target")),
        (("target", "id", "source"), ("source", "target")),
        (("SRC", "Tgt"), ("SRC", "Tgt")),
        (("src", "translation"), ("src", "translation")),
        (("input_text", "target_text", "prefix"), ("input_text", "target_text")),
        (("source", "src", "tgt", "target", "translation"), ("source", "target")),
        (("source",), None),
        (("target", "n"), None),
        (("en", "de"), ("en", "de")),
        (("German", "English"), ("German", "English")),
        (("en", "de", "label"), None),
        (("en", "notes"), None),
        (("text", "label"), None),
        (("Review", "source", "target"), None),
    ],
)
def test_found_by_their_names(names: tuple[str, ...], columns: tuple[str, str] | None) -> None:
    assert found(*names) == columns


def test_a_table_with_a_label_is_none_of_pairs() -> None:
    for settings in (DataSettings(label="target"), DataSettings(text="source")):
        assert pair_columns("a.tsv", ["source", "target"], settings) is None
    both = DataSettings(text="source", source="source")
    assert pair_columns("a.tsv", ["source", "target"], both) == ("source", "target")


def test_named() -> None:
    assert found("en", "de", "fr", source="de", target="en") == ("de", "en")
    assert found("text", "source", "target", source="target", target="text") == ("target", "text")


def test_one_is_named_and_the_other_found() -> None:
    assert found("en", "tgt", "n", source="en") == ("en", "tgt")
    assert found("text", "src", "n", target="text") == ("src", "text")
    assert found("en", "de", source="de") == ("de", "en")
    assert found("en", "de", target="de") == ("en", "de")
    assert found("source", "target", target="source") == ("target", "source")
    assert refused("en", "de", "fr", source="de") == (
        "a.tsv: no column looks like the target: name one of en, fr with --target"
    )
    assert refused("en", "de", "fr", target="de") == (
        "a.tsv: no column looks like the source: name one of en, fr with --source"
    )
    assert refused("en", source="en") == (
        "a.tsv: no column looks like the target: there is no other column: name one with --target"
    )


def test_columns_that_cannot_be() -> None:
    assert refused("source", "target", source="sorce") == (
        "a.tsv: no column 'sorce'; did you mean source? (columns: source, target): name one with --source"
    )
    assert "name one with --target" in refused("source", "target", target="x")
    assert refused("en", "de", source="en", target="en") == (
        "a.tsv: column 'en' cannot be both the source (--source) and the target (--target)"
    )
    assert refused("src", "source_text", "target") == (
        "a.tsv: the source could be column 'src' or 'source_text': say which with --source"
    )
    assert "the target could be column 'tgt' or 'translation': say which with --target" in refused(
        "source", "tgt", "translation"
    )
