"""What a program holds, given to runs: the same answers as from a file; and runs that travel by their folder."""

import copy
import csv
import multiprocessing
import pickle
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import datasets
import joblib
import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from PIL import Image
from torch import Tensor, nn

import glassformer as gf
from glassformer.config.errors import DataError, Misuse
from glassformer.config.messages import silent
from glassformer.data.io.table import read_table
from glassformer.families.labelling import LoadedPredictor
from glassformer.families.predict import rows_of
from glassformer.families.translation import LoadedTranslator
from helpers.kinds import write_bars
from helpers.loading import loaded
from helpers.tables import opinions, write_table
from helpers.translating import mirrored, translating

QUICK = {"training.steps": 3, "training.batch_size": 8, "training.threads": 1}
SMALL = {"model.width": 12, "model.layers": 1, "model.heads": 2}
TEXTS = [text for text, _ in opinions(60, 3)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("memory")


@pytest.fixture(scope="module")
def reader(folder: Path) -> LoadedPredictor:
    """A run that reads texts."""
    return loaded(gf.train(write_table(folder / "a.csv", opinions(60, 3)), out=folder / "texts", model="bag", **QUICK))


ROW = st.fixed_dictionaries(
    {
        "height": st.none() | st.floats(-1e6, 1e6) | st.integers(-9, 9),
        "city": st.sampled_from([None, "Rome", "Oslo", "Lima", "elsewhere"]),
        "paid": st.booleans() | st.none(),
        "text": st.text("abc ,;'\"\n", min_size=1).map(lambda text: f"so {text}"),
        "grade": st.sampled_from([1, 2]),
    }
)


def write_cells(path: Path, rows: Sequence[dict[str, Any]]) -> Path:
    """Truths in small letters, as many a file has them."""
    names, spelled = list(rows[0]), {None: "", True: "true", False: "false"}
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(names)
        for row in rows:
            cells = [row[name] for name in names]
            writer.writerow([spelled[cell] if cell is None or isinstance(cell, bool) else cell for cell in cells])
    return path


@pytest.fixture(scope="module")
def mixed(folder: Path) -> LoadedPredictor:
    """A run that reads texts, numbers, categories and truths."""
    chance = np.random.default_rng(0)
    rows = [
        {
            "height": float(chance.normal()) if number % 5 else None,
            "city": ("Rome", "Oslo", "Lima")[number % 3],
            "paid": bool(chance.integers(2)),
            "text": TEXTS[number],
            "grade": 1 + number % 2,
        }
        for number in range(60)
    ]
    data = write_cells(folder / "mixed.csv", rows)
    named = {"text": "text", "label": "grade", "extra_columns": "height,city,paid", "task": "classification"}
    return loaded(gf.train(data, out=folder / "mixed", model="transformer", **named, **SMALL, **QUICK))


@pytest.mark.slow
@settings(max_examples=15, deadline=None, phases=[Phase.generate])
@given(rows=st.lists(ROW, min_size=1, max_size=5))
def test_a_file_and_its_table_in_memory_are_the_same(
    mixed: LoadedPredictor, folder: Path, rows: list[dict[str, Any]]
) -> None:
    file, frame = write_cells(folder / "some.csv", rows), pd.DataFrame(rows)
    table = read_table(str(file), mixed.config.data)
    expected = mixed.predict_part(rows_of(mixed.features, mixed.config, table, list(range(len(table)))))
    evaluated = gf.evaluate(mixed, str(file))
    for held in (frame, datasets.Dataset.from_dict({name: [row[name] for row in rows] for name in rows[0]}), rows):
        found, again = mixed.predict(held, say=silent), gf.evaluate(mixed, held)
        assert [one.probabilities for one in found] == [one.probabilities for one in expected]
        assert again.metrics == evaluated.metrics
        assert again.records == evaluated.records


def test_texts_by_their_column(reader: LoadedPredictor, folder: Path) -> None:
    frame = pd.DataFrame(opinions(60, 3), columns=["text", "label"])
    expected = reader.predict(TEXTS)
    for held in (frame, frame["text"], np.array(TEXTS), iter(TEXTS), datasets.Dataset.from_pandas(frame)):
        assert reader.predict(held) == expected
    assert reader.predict(frame.iloc[3]) == reader.predict(TEXTS[3])
    vectors = np.stack([one.vector for one in reader.embed(frame)])
    assert np.array_equal(vectors, np.stack([one.vector for one in reader.embed(TEXTS)]))
    from_file = gf.evaluate(reader, folder / "a.csv")
    for held in (frame, iter(frame.to_dict("records")), opinions(60, 3)):
        assert gf.evaluate(reader, held).records == from_file.records
    renamed = frame.rename(columns={"text": "body"})
    assert gf.evaluate(reader, renamed, reading={"text": "body"}).records == from_file.records
    for verb in (reader.predict, reader.embed, partial(gf.evaluate, reader)):
        with pytest.raises(DataError, match=r"no column 'text', which this run reads \(columns: body, label\)"):
            verb(renamed)
    with pytest.raises(DataError, match=r": pass the column itself, df\['body'\]$"):
        reader.predict(renamed)
    assert reader.predict(renamed["body"]) == expected
    with pytest.raises(DataError, match=r": pass reading=\{'text': 'body'\}$"):
        gf.evaluate(reader, renamed)
    assert gf.evaluate(reader, renamed, reading={"text": "body"}).metrics == gf.evaluate(reader, frame).metrics
    assert gf.errors(reader, frame, second_run=reader.run).title
    assert reader.predict(frame.iloc[:0]) == reader.predict([]) == []


@pytest.mark.parametrize(
    ("task", "label", "kinds"),
    [("classification", "kind", [float, "Int64", "category"]), ("multilabel", "long,even", [float, bool])],
)
def test_labels_are_spelled_as_they_were_learned(folder: Path, task: str, label: str, kinds: list[Any]) -> None:
    """A column that lacked a value has made whole numbers broken ones, and a truth may be a number."""
    rows = [(text, row % 3, len(text) % 2, row % 2) for row, text in enumerate(TEXTS)]
    names = ("text", "kind", "long", "even")
    data, frame = str(write_table(folder / f"{task}.csv", rows, names)), pd.DataFrame(rows, columns=names)
    run = gf.load(gf.train(data, out=folder / task, model="bag", label=label, task=task, **QUICK), "cpu")
    records = gf.evaluate(run, data, say=silent).records
    for kind in kinds:
        typed = frame.astype(dict.fromkeys(label.split(","), kind))
        assert gf.evaluate(run, typed, say=silent).records == records


def test_what_cannot_be_read_is_refused(reader: LoadedPredictor, mixed: LoadedPredictor) -> None:
    frame = pd.DataFrame({"text": ["a", "b"], "label": ["bad", None]})
    for held, line in (
        (TEXTS, "evaluate wants a table with what is right for each row, not a list"),
        (3, "evaluate wants a file, the name of a data set or a table, not an int"),
        (frame.assign(label=None), "the DataFrame, row 0 .counted from 0.: no label in column 'label'"),
        (frame[["text"]], "the DataFrame: no column 'label'"),
        (frame.assign(text=None), "row 0 .counted from 0., column 'text': there is no text"),
        (
            frame.assign(label="x"),
            "the DataFrame, row 0 .counted from 0., column 'label': the label 'x' does not occur in training",
        ),
    ):
        with pytest.raises(Misuse, match=line):
            gf.evaluate(reader, held)
    with pytest.raises(DataError, match="no column 'height', which this run reads"):
        mixed.predict(frame)
    with pytest.raises(Misuse, match="predict wants rows"):
        mixed.predict(np.ones((2, 3)))
    with pytest.raises(Misuse, match="embed wants texts, not None"):
        reader.embed([None])


@pytest.mark.slow
def test_pairs(folder: Path) -> None:
    pairs = mirrored(60)
    data = write_table(folder / "pairs.csv", pairs, ("source", "target"))
    run = gf.load(gf.train(data, out=folder / "pairs", **translating()), "cpu")
    assert isinstance(run, LoadedTranslator)
    frame = pd.DataFrame(pairs, columns=["source", "target"])
    assert run.translate(frame[:5], beam=1) == run.translate([source for source, _ in pairs[:5]], beam=1)
    for held in (frame, pairs):
        assert gf.evaluate(run, held, beam=1).records == gf.evaluate(run, str(data), beam=1).records
    assert len(run.embed(frame)) == 60
    with pytest.raises(DataError, match=r"row 1 .counted from 0., column 'target': there is no text"):
        gf.evaluate(run, frame.assign(target=["x", None, *["x"] * 58]))
    with pytest.raises(DataError, match="no column 'source'"):
        gf.evaluate(run, frame[["target"]])
    with pytest.raises(Misuse, match="translate wants texts, not None"):
        run.translate(None)  # type: ignore[call-overload]


@pytest.mark.slow
def test_texts_of_language_models(folder: Path) -> None:
    data = write_table(folder / "plain.csv", [(text,) for text in TEXTS], ("text",))
    run = gf.load(gf.train(data, out=folder / "plain", model="gru", size="nano", **QUICK), "cpu")
    metrics = gf.evaluate(run, str(data)).metrics
    for held in (TEXTS, pd.DataFrame({"text": TEXTS}), pd.Series(TEXTS), iter(TEXTS)):
        assert gf.evaluate(run, held).metrics == metrics
    assert len(run.embed(np.array(TEXTS[:3]))) == 3


def test_images_are_files(folder: Path) -> None:
    data = write_bars(folder / "bars", 30)
    run = loaded(gf.train(data, out=folder / "images", model="mlp", **QUICK))
    files = sorted(data.rglob("*.png"))
    assert run.predict(files) == run.predict(pd.DataFrame({"file": list(map(str, files))}))
    assert run.predict(files[0]).label == run.predict(str(files[0])).label
    with pytest.raises(Misuse, match="predict wants image files or arrays of pixels, not None"):
        run.predict([None])
    with pytest.raises(
        Misuse, match=r"evaluate wants a folder of images, or arrays \(images, labels\), not a DataFrame"
    ):
        gf.evaluate(run, pd.DataFrame({"file": ["a.png"], "label": ["lying"]}))


@pytest.mark.parametrize("text", [["title", "body"], "title,body", "title, body"])
def test_texts_of_several_columns(folder: Path, text: Any) -> None:
    rows = [{"title": text[:6], "body": text, "label": label} for text, label in opinions(60, 3)]
    run = loaded(gf.train(rows, text=text, label="label", out=folder / "joined", model="bag", overwrite=True, **QUICK))
    joined = [f"{row['title']}\n{row['body']}" for row in rows]
    for held in (pd.DataFrame(rows), rows):
        assert [one.probabilities for one in run.predict(held)] == [one.probabilities for one in run.predict(joined)]
    assert gf.evaluate(run, rows).metrics["texts"] == 60


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*not read. long")
def test_a_comma_in_the_name_of_a_column(folder: Path) -> None:
    rows = [{"body, full": text, "label": label, "long": len(text)} for text, label in opinions(60, 3)]
    for further in ({}, {"extra_columns": "long"}):
        named = {"text": "body, full", "label": "label", **further}
        run = loaded(
            gf.train(rows, out=folder / "comma", model="transformer", overwrite=True, **named, **SMALL, **QUICK)
        )
        frame = pd.DataFrame(rows)
        expected = run.predict(rows[3])
        assert run.predict(frame.iloc[3]) == expected
        assert [one.label for one in run.predict(frame)] == [one.label for one in run.predict(rows)]
        assert len(gf.evaluate(run, rows).records) == 60


def test_arrays_of_images_are_read_as_they_were_learned(folder: Path) -> None:
    """From 0 to 16 however dark they are: as their files are."""
    images, labels = np.random.default_rng(0).integers(0, 17, (40, 8, 8)), np.arange(40) % 2
    run = loaded(gf.train((images, labels), out=folder / "arrays", model="mlp", **QUICK))
    dark = images[:3] // 16
    files = [folder / f"dark{place}.png" for place in range(3)]
    for file, image in zip(files, dark, strict=True):
        Image.fromarray(np.rint(image * 255 / 16).astype(np.uint8)).save(file)
    expected = [one.probabilities for one in run.predict(files)]
    for held in (dark, dark / 1.0, dark[..., None], dark[:, None], list(dark), torch.from_numpy(dark)):
        assert [one.probabilities for one in run.predict(held)] == expected
    assert run.predict(dark[0]).probabilities == run.predict(files[0]).probabilities
    assert np.array_equal(run.embed(dark)[1].vector, run.embed(files)[1].vector)
    np.savez(folder / "arrays.npz", images=images, labels=labels)
    evaluated = gf.evaluate(run, folder / "arrays.npz")
    for arrays in ((images, labels), {"x": images, "y": labels.tolist()}):
        assert gf.evaluate(run, arrays).records == evaluated.records
        assert gf.errors(run, arrays).title
    for odd, line in (
        (images[:, :7], "images are 7×8, and this run reads 8×8 pixels .height × width., grey"),
        (np.zeros((2, 8, 8, 3)), "images are 8×8×3, and this run reads 8×8"),
        (images * 15, "pixels from 0 to 240, and this run learned from 0 to 16: scale them"),
        ([images[0], images[0, :4]], "one is 8×8 and one 4×8: all must be alike"),
    ):
        with pytest.raises(DataError, match=line):
            run.predict(odd)
    with pytest.raises(DataError, match="the arrays: 40 images, but 1 labels"):
        gf.evaluate(run, (images, [1]))


# --- a model that travels ---


class Own(nn.Module):
    def __init__(self, vocab: int, outputs: int) -> None:
        super().__init__()
        self.out = nn.EmbeddingBag(vocab, outputs)

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        return self.out(tokens)


@pytest.mark.slow
def test_a_run_travels_by_its_folder(
    reader: LoadedPredictor, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    near = loaded(Path("texts"))
    sent = pickle.dumps(near)
    assert len(sent) < 1000  # no weights
    joblib.dump(near, tmp_path / "model")
    deep = copy.deepcopy(near)
    monkeypatch.chdir(tmp_path)  # where the folder is not found by the name that it had
    for other in (pickle.loads(sent), joblib.load(tmp_path / "model"), deep):
        assert type(other) is LoadedPredictor
        assert other.model is not near.model
        assert other.predict(TEXTS) == reader.predict(TEXTS)
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        found = pool.submit(LoadedPredictor.predict, reader, TEXTS[:3]).result()
    assert [one.label for one in found] == [one.label for one in reader.predict(TEXTS[:3])]


def test_a_module_of_ones_own_travels_with_its_class(folder: Path) -> None:
    run = gf.train(folder / "a.csv", out=folder / "own", model=Own, **QUICK)
    found = loaded(run, model=Own)
    for other in (pickle.loads(pickle.dumps(found)), copy.deepcopy(found)):
        assert other.model is not found.model
        assert torch.equal(other.model.out.weight, found.model.out.weight)

    class Inner(Own):
        pass

    hidden = loaded(run, model=Inner)
    with pytest.raises((AttributeError, pickle.PicklingError), match="Inner"):
        pickle.dumps(hidden)
    assert copy.deepcopy(hidden).predict(TEXTS) == hidden.predict(TEXTS)  # in the same process, there is no need to
