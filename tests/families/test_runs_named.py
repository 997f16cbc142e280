"""What names a run, and what is said of one that is asked for what only others can do."""

from pathlib import Path
from typing import Any

import pytest
from torch import nn

import glassformer as gf
from glassformer.config.errors import GlassformerError, Misuse
from glassformer.diagnosis.advice import Advice
from glassformer.families.base import Loaded
from glassformer.families.recognition import infer_config
from glassformer.rendering.panels import Table
from glassformer.runs.run import Run
from glassformer.verbs.data import check
from helpers.beginnings import BODY, labelled_texts, quick, write_data


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return write_data(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def runs(data: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Loaded]:
    folder, char = tmp_path_factory.mktemp("runs"), {"tokenizer.kind": "char", **BODY}
    masked = {"task": "masked-language-model", **char}
    made = {
        "writer": quick(data["text"], out=folder / "writer", **char),
        "masked": quick(data["text"], out=folder / "masked", **masked),
        "classifier": quick(data["labels"], out=folder / "classifier", **char),
    }
    return {name: gf.load(path, "cpu") for name, path in made.items()}


@pytest.mark.parametrize(
    ("name", "method", "says"),
    [
        ("classifier", "fill", "is a run of classification, which has no fill; it has embed, predict"),
        ("classifier", "chat", "is a run of classification, which has no chat; it has embed, predict"),
        (
            "masked",
            "generate",
            "is a run of masked-language-model, which has no generate; it has",
        ),
        ("masked", "translate", "which has no translate; it has embed, fill, predict"),
        ("writer", "predict", "is a run of language-model, which has no predict; it has chat, "),
    ],
)
def test_what_only_others_can_do(name: str, method: str, says: str, runs: dict[str, Loaded]) -> None:
    loaded = runs[name]
    assert not hasattr(loaded, method)
    with pytest.raises(Misuse) as refused:
        getattr(loaded, method)("a <mask>")
    assert str(refused.value).startswith(f"{loaded.run.path} {says}" if says.startswith("is") else str(loaded.run.path))
    assert says in str(refused.value)


def test_what_nobody_has_is_no_attribute(runs: dict[str, Loaded]) -> None:
    with pytest.raises(AttributeError, match="no attribute 'nonsense'") as refused:
        runs["writer"].nonsense  # type: ignore[union-attr]  # noqa: B018
    assert not isinstance(refused.value, GlassformerError)


@pytest.mark.slow
def test_what_knows_its_folder_names_a_run(runs: dict[str, Loaded], data: dict[str, str], tmp_path: Path) -> None:
    writer = runs["writer"]
    few: dict[str, Any] = {"steps": 1, "draft": True}
    trained = gf.train(data["labels"], out=tmp_path / "one", from_run=writer, **few)
    gf.train(data["labels"], out=tmp_path / "two", from_run=trained, **few)  # what a training gave
    gf.train(data["labels"], out=tmp_path / "three", from_run=Run(tmp_path / "one"), **few)  # what an import gives
    begun = [Run(tmp_path / name).card()["from"]["run"] for name in ("one", "two", "three")]
    assert begun == [str(writer.run.path.resolve()), *[str((tmp_path / "one").resolve())] * 2]
    assert gf.load(runs["writer"], "cpu").run.path == writer.run.path
    assert gf.plan(data["labels"], from_run=writer, probe=False).config.model.from_run == begun[0]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("", "--from is empty: name a run's folder, or `last`"),
        (" ", "--from is empty"),
        (nn.Linear(2, 3), "model.from_run wants text, not a Linear"),
        ("nowhere", "no run at nowhere"),
    ],
)
def test_what_names_no_run(given: Any, says: str, data: dict[str, str], tmp_path: Path) -> None:
    for verb in (gf.train, gf.compare):
        with pytest.raises(Misuse) as refused:
            verb(data["labels"], from_run=given, out=tmp_path / "run", steps=1)
        assert says in str(refused.value)
        assert len(str(refused.value).splitlines()) == 1
    assert not (tmp_path / "run").exists()


def test_a_comparison_begins_from_what_knows_its_folder(runs: dict[str, Loaded], data: dict[str, str]) -> None:
    with pytest.raises(Misuse, match="no run at nowhere"):  # the second of the two: the first is one
        gf.compare(data["labels"], from_run=[runs["writer"], "nowhere"], steps=1)
    for given in (5, None):
        with pytest.raises(Misuse, match=r"a run is named by its folder, not by (an int|None)"):
            gf.compare(data["labels"], runs=[runs["writer"], given], steps=1)  # type: ignore[list-item]


@pytest.mark.parametrize("name", ["theirs/config.json", "theirs/model.gguf", "model.gguf"])
def test_a_model_of_others_is_imported_first(name: str, data: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / name
    file.parent.mkdir(exist_ok=True)
    file.write_text("{}", encoding="utf-8")
    place = tmp_path / name.split("/")[0]
    for use in (lambda: gf.train(data["labels"], from_run=place), lambda: gf.load(place)):
        with pytest.raises(Misuse, match="is a model of others and no run yet: `glassformer import` makes one of it"):
            use()


def test_what_is_said_of_a_run_that_began_from_another(
    runs: dict[str, Loaded], data: dict[str, str], tmp_path: Path
) -> None:
    few = {"steps": 2, "training.last_blocks": 0, "data.validation_fraction": 0.3}
    run = tmp_path / "head"
    trained = gf.train(data["labels"], out=run, from_run=runs["writer"], **few)
    view = gf.report(run)
    assert f"{trained.parameters:,} parameters, 16 of them learned, on labels.csv" in view.note
    tables, last = [panel for panel in view.panels if isinstance(panel, Table)], view.panels[-1]
    rows = {str(row[0]): str(row[1]) for table in tables for row in table.rows}
    assert (rows["parameters"], rows["learned"]) == (f"{trained.parameters:,}", "16 of these")
    assert rows["began from"] == "writer (language-model)"
    assert "the same data, run to initialise from, versions" in last.note
    advise = Advice(Run(run).config())
    assert advise.more_blocks() == "more blocks that learn (--training.last_blocks 1, or without it)"
    assert Advice(runs["writer"].config).more_blocks() is None


def test_data_is_measured_in_the_tokens_of_the_run(runs: dict[str, Loaded], data: dict[str, str]) -> None:
    config, table = infer_config({}, {"data.path": data["labels"], "from": str(runs["writer"].run.path)})
    found = check(config, table)
    longest = max(len(text) for text, _ in labelled_texts())
    tokens = found.lengths["tokens"]
    assert tokens is not None
    assert tokens.max == longest + 2  # characters, START and END


def test_a_run_says_what_it_is(runs: dict[str, Loaded]) -> None:
    for loaded in runs.values():
        assert repr(loaded).startswith(f"{loaded.run.path}: {loaded.config.task}, {loaded.config.model.encoder}, ")
