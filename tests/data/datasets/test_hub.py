"""Data sets as the hub's library saves them: built here, small, and read without a network."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from glassformer.config.errors import DataError, Misuse
from glassformer.config.messages import listening
from glassformer.config.sections import DataSettings
from glassformer.data.datasets import hub
from glassformer.data.datasets.embedded import open_dataset
from glassformer.data.datasets.hub import own_parts, whole_name
from glassformer.data.io.source import open_source
from glassformer.data.io.table import holds_table, read_table
from glassformer.data.split.documents import split_texts

datasets = pytest.importorskip("datasets")
datasets.disable_progress_bars()

PLAIN = DataSettings()
CLASSES = datasets.ClassLabel(names=["bad", "good"])
LABELLED = datasets.Features({"text": datasets.Value("string"), "label": CLASSES})


def texts(count: int, word: str = "text") -> Any:
    return datasets.Dataset.from_dict({"text": [f"{word} number {number}" for number in range(count)]})


def labelled(labels: list[int], word: str = "text") -> Any:
    rows = {"text": [f"{word} {number}" for number in range(len(labels))], "label": labels}
    return datasets.Dataset.from_dict(rows, features=LABELLED)


def save(folder: Path, **splits: Any) -> str:
    datasets.DatasetDict(splits).save_to_disk(folder)
    return f"hf:{folder}"


def refused(call: Callable[..., Any], *given: Any) -> str:
    with pytest.raises(DataError) as caught:
        call(*given)
    message = str(caught.value)
    assert "\n" not in message
    return message


def said(spec: str, **settings: Any) -> dict[str, str]:
    given = {f"data.{key}": value for key, value in settings.items()}
    with listening(lambda line: pytest.fail(line)):
        return own_parts(spec, given)


def test_a_table_with_the_names_of_its_classes(tmp_path: Path) -> None:
    spec = save(tmp_path / "set", train=labelled([1, 0, 1, -1]), test=labelled([0], "other"))
    assert holds_table(spec)
    table = read_table(spec, PLAIN)
    assert table.name == spec
    assert table.columns == {"text": [f"text {n}" for n in range(4)], "label": ["good", "bad", "good", ""]}
    assert table.lines == [1, 2, 3, 4]
    assert read_table(f"{spec}#test", PLAIN).columns == {"text": ["other 0"], "label": ["bad"]}
    assert len(read_table(spec, PLAIN, most=3)) == 3


def test_values_of_every_kind_as_text(tmp_path: Path) -> None:
    features = datasets.Features(
        {
            "n": datasets.Value("int32"),
            "x": datasets.Value("float64"),
            "kinds": datasets.Sequence(CLASSES),
            "body": datasets.Value("string"),
            "translation": datasets.Translation(languages=["en", "de"]),
        }
    )
    rows = {
        "n": [7, None], "x": [0.5, 2.0], "kinds": [[0, 1], []], "body": ["one\r\ntwo", None],
        "translation": [{"en": "cat", "de": "Katze"}, {"en": "dog", "de": "Hund"}],
    }  # fmt: skip
    spec = save(tmp_path / "set", train=datasets.Dataset.from_dict(rows, features=features))
    assert read_table(spec, PLAIN).columns == {
        "n": ["7", ""], "x": ["0.5", "2.0"], "kinds": ['["bad", "good"]', "[]"], "body": ["one\ntwo", ""],
        "en": ["cat", "dog"], "de": ["Katze", "Hund"],
    }  # fmt: skip


def test_pictures_are_left_out(tmp_path: Path) -> None:
    features = datasets.Features({"picture": datasets.Image(), "caption": datasets.Value("string")})
    rows = {"picture": [None, None], "caption": ["a cat", "a dog"]}
    spec = save(tmp_path / "set", train=datasets.Dataset.from_dict(rows, features=features))
    note = "left out: picture (neither text nor number)"
    assert read_table(spec, PLAIN).columns == {"caption": ["a cat", "a dog"]}
    assert read_table(spec, PLAIN).remarks == (note,)
    assert open_source(spec, PLAIN).note == note


def test_text_alone_streams_as_documents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts(5).save_to_disk(tmp_path / "set")  # no splits: all of it is what is learned from
    spec = f"hf:{tmp_path / 'set'}"
    assert not holds_table(spec)
    monkeypatch.setattr(hub, "BATCH_ROWS", 2)
    source = open_source(spec, PLAIN)
    for _ in range(2):
        assert [chunk.text for chunk in source.chunks()] == [f"text number {number}" for number in range(5)]
    monkeypatch.setattr(hub.HubColumn, "texts", lambda column, values: iter([f"{len(values)} at once"] * len(values)))
    assert next(iter(open_dataset(spec).rows())) == ("2 at once",)


def test_what_it_holds_out_itself(tmp_path: Path) -> None:
    spec = save(tmp_path / "set", train=texts(20), dev=texts(3, "dev"), test=texts(2, "test"))
    assert said(spec) == {"data.validation": f"{spec}#dev", "data.test": f"{spec}#test"}
    assert said(spec, validation="mine.txt") == {"data.test": f"{spec}#test"}
    assert said(spec, validation_fraction=0.2, test_fraction=0.0) == {}
    assert said(spec, folds=3) == {"data.test": f"{spec}#test"}
    assert said(f"{spec}#train") == {}
    parts = split_texts(open_source(spec, PLAIN), DataSettings(validation=f"{spec}#dev", test=f"{spec}#test")).parts
    assert {name: part.documents for name, part in parts.items()} == {"train": 20, "validation": 3, "test": 2}


def test_a_split_with_secret_labels_is_no_test(tmp_path: Path) -> None:
    spec = save(tmp_path / "set", train=labelled([0, 1]), test=labelled([-1, -1]))
    lines: list[str] = []
    with listening(lines.append):
        assert own_parts(spec, {}) == {}
    assert lines == [f"{spec}: the labels of its split 'test' are kept secret, so that it is not the test part"]


def test_the_fingerprint_is_of_the_content(tmp_path: Path) -> None:
    """Not of the place, nor of how many files it is saved in."""
    one, other = save(tmp_path / "one", train=texts(20)), f"hf:{tmp_path / 'other'}"
    datasets.DatasetDict(train=texts(20)).save_to_disk(tmp_path / "other", num_shards={"train": 3})
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps({"text": f"text number {n}"}) + "\n" for n in range(20)))
    prints = {
        split_texts(open_source(spec, PLAIN), PLAIN).fingerprint for spec in (one, other, str(tmp_path / "rows.jsonl"))
    }
    assert len(prints) == 1
    changed = save(tmp_path / "changed", train=texts(20, "taxt"))
    assert split_texts(open_source(changed, PLAIN), PLAIN).fingerprint not in prints


def test_names_that_lead_from_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(tmp_path / "a#b", train=texts(2))
    monkeypatch.chdir(tmp_path)
    assert whole_name("hf:a#b") == f"hf:{tmp_path / 'a#b'}"
    assert whole_name("hf:a#b#train") == f"hf:{tmp_path / 'a#b'}#train"
    assert whole_name("hf:someone/texts:plain#test") == "hf:someone/texts:plain#test"
    assert len(list(open_source("hf:a#b#train", PLAIN).chunks())) == 2


def test_a_name_goes_to_the_hub_without_code_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def load(*given: Any, **options: Any) -> Any:
        asked.append((given, options))
        return {"train": texts(3)}

    monkeypatch.setattr(datasets, "load_dataset", load)
    hub._download.cache_clear()
    assert len(list(open_source("hf:someone/texts:plain", PLAIN).chunks())) == 3
    assert read_table("hf:someone/texts:plain", PLAIN).columns["text"][2] == "text number 2"
    assert asked == [(("someone/texts", "plain"), {})]


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (
            datasets.exceptions.DatasetNotFoundError("Dataset 'x/y' doesn't exist on the Hub"),
            "the hub has nothing with this name",
        ),
        (
            datasets.exceptions.DatasetNotFoundError("'x/y' is a gated dataset"),
            "huggingface.co/datasets/x/y, then log in",
        ),
        (ConnectionError("Couldn't reach 'x/y'"), "the hub cannot be reached"),
        (ValueError("Config name is missing.\nPick one of ..."), "name it, as hf:x/y:CONFIG"),
        (RuntimeError("Dataset scripts are no longer supported"), "cannot be opened: Dataset scripts are no longer"),
    ],
)
def test_what_the_hub_refuses(monkeypatch: pytest.MonkeyPatch, error: Exception, words: str) -> None:
    def load(*_: Any) -> Any:
        raise error

    monkeypatch.setattr(datasets, "load_dataset", load)
    message = refused(open_dataset, "hf:x/y")
    assert message.startswith("hf:x/y")
    assert words in message


@pytest.mark.parametrize(
    "spec",
    [
        "hf:",
        "hf:a/b/c",
        "hf:a b",
        "hf:../x",
        "hf:/nowhere/at/all",
        "hf:~/nowhere",
        "hf:#x",
        "hf:a\0",
        f"hf:{'a' * 9000}/b/c",
    ],
)
def test_names_that_name_nothing(spec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets, "load_dataset", lambda *_: pytest.fail("nothing to ask the hub for"))
    assert spec in refused(open_dataset, spec)


def test_folders_and_files_that_are_no_data_sets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "code.py").write_text("raise SystemExit('run')")
    monkeypatch.chdir(tmp_path)
    assert refused(open_dataset, "hf:folder") == (
        "hf:folder: save_to_disk wrote no data set there: give the folder without hf:"
    )
    for name in ("hf:folder:plain", "hf:code.py"):
        assert refused(open_dataset, name).startswith(f"'{name}' names no data set: write hf:NAME")
    save(tmp_path / "set", train=texts(2))
    with pytest.raises(Misuse, match="set is a data set that save_to_disk wrote: name it hf:set"):
        open_source("set", PLAIN)


def test_splits_that_are_not_there(tmp_path: Path) -> None:
    spec = save(tmp_path / "set", one=texts(2), two=texts(2))
    assert refused(open_dataset, spec).startswith(f"{spec}: no split 'train' (splits: one, two)")
    assert refused(said, spec) == refused(open_dataset, spec)
    assert refused(open_dataset, f"{spec}#three").startswith(f"{spec}#three: no split 'three'")


def test_no_rows_and_no_columns(tmp_path: Path) -> None:
    spec = save(tmp_path / "empty", train=texts(0))
    assert refused(read_table, spec, PLAIN) == f"{spec}: no rows in train"
    pictures = datasets.Dataset.from_dict({"p": [None]}, features=datasets.Features({"p": datasets.Image()}))
    spec = save(tmp_path / "pictures", train=pictures)
    assert refused(open_dataset, spec) == f"{spec}: no column holds texts, numbers or classes (columns: p)"


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("dataset_dict.json", "{"),
        ("dataset_dict.json", '{"splits": 7}'),
        ("dataset_dict.json", '{"splits": ["train", "gone"]}'),
        ("train/state.json", "[]"),
        ("train/dataset_info.json", "{"),
        ("train/dataset_info.json", '{"features": {"text": {"_type": "Nothing"}}}'),
        ("train/data-00000-of-00001.arrow", "nonsense"),
        ("train/data-00000-of-00001.arrow", None),
    ],
)
def test_damaged_files(tmp_path: Path, file: str, content: str | None) -> None:
    spec = save(tmp_path / "set", train=texts(200))
    path = tmp_path / "set" / file
    path.write_bytes(path.read_bytes()[:700] if content is None else content.encode())
    message = refused(lambda: list(open_dataset(spec).rows()))
    assert message.startswith(f"{spec} is damaged, or no data set: write it anew with save_to_disk (")


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("dataset_dict.json", '{"splits": ["../other"]}'),
        ("dataset_dict.json", '{"splits": ["train", ".."]}'),
        ("train/state.json", '{"_data_files": [{"filename": "../../other/data-00000-of-00001.arrow"}]}'),
        ("train/state.json", '{"_data_files": [{"filename": "/etc/passwd"}]}'),
        ("train/state.json", '{"_data_files": [{"filename": 7}]}'),
    ],
)
def test_files_that_name_others_outside(tmp_path: Path, file: str, content: str) -> None:
    texts(2).save_to_disk(tmp_path / "other")
    spec = save(tmp_path / "set", train=texts(2))
    (tmp_path / "set" / file).write_text(content)
    assert refused(open_dataset, spec).startswith(f"{spec} names a file outside of its folder: ")


def test_without_the_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = save(tmp_path / "set", train=texts(2))
    monkeypatch.setattr(hub.importlib, "import_module", _missing(hub.importlib.import_module))
    assert refused(open_dataset, spec) == (
        f"{spec}: a data set of the hub needs datasets: pip install 'glassformer[hub]'"
    )


def _missing(real: Callable[[str], Any]) -> Callable[[str], Any]:
    def load(name: str) -> Any:
        if name == "datasets":
            raise ImportError(name)
        return real(name)

    return load
