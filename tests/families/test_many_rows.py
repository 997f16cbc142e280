"""Many rows at once: the same as one at a time, in their order, some in memory, the next made ready meanwhile."""

import io
import json
import random
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch import Tensor

import glassformer as gf
from glassformer.config.progress import watched
from glassformer.data.io import table as chunks
from glassformer.data.io.table import RowFile, prefetch
from glassformer.families.labelling import LoadedPredictor
from glassformer.families.requests import EvaluateOptions
from glassformer.tasks import labelling
from glassformer.verbs.files import predict_file
from helpers.running import labelled
from helpers.tables import opinions, read_csv, write_table

SOME = 7


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> LoadedPredictor:
    folder = tmp_path_factory.mktemp("run")
    data = write_table(folder / "data.csv", opinions(60))
    quick = {"training.optimizer": "adamw", "training.lr": 0.05, "training.steps": 6, "model.context": 40}
    with pytest.MonkeyPatch.context() as patch:
        for draw in ("draw_curves", "draw_confusion"):
            patch.setattr(f"glassformer.reporting.papers.{draw}", lambda *args, **more: None)
        gf.train(data, out=folder / "run", **{**labelled("transformer"), **quick})
    loaded = gf.load(folder / "run", "cpu")
    assert isinstance(loaded, LoadedPredictor)
    return loaded


@pytest.fixture
def few_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("data.io.table", "families.predict", "families.labelling"):
        monkeypatch.setattr(f"glassformer.{module}.ROWS_AT_ONCE", SOME)


def texts(count: int = 40) -> list[str]:
    """Of very different lengths; two of them longer than the model reads, some blank."""
    draw = random.Random(3)
    made = [" ".join(text for text, _ in opinions(draw.randint(1, 3), seed=place)) for place in range(count)]
    made[5], made[23] = made[5] * 30, made[23] * 30
    made[8] = made[30] = "  "
    return made


def one_by_one(run: LoadedPredictor, some: list[str]) -> list[Any]:
    return [run.predict(text) if text.strip() else None for text in some]


def compare(found: list[tuple[str, str]], run: LoadedPredictor) -> None:
    for (label, probability), alone in zip(found, one_by_one(run, texts()), strict=True):
        assert label == ("" if alone is None else alone.label)
        assert alone is None or float(probability) == pytest.approx(alone.probability, abs=1e-5)


@pytest.mark.usefixtures("few_at_once")
@pytest.mark.parametrize("ending", ["csv", "jsonl", "txt"])
def test_a_file_in_chunks_is_as_one_row_at_a_time(ending: str, run: LoadedPredictor, tmp_path: Path) -> None:
    path, heard, done = tmp_path / f"in.{ending}", list[str](), list[int]()
    if ending == "txt":
        path.write_text("\n".join(texts()) + "\n")
    elif ending == "jsonl":
        path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts()))
    else:
        write_table(path, [(text,) for text in texts()], ("text",))
    out = tmp_path / "out.csv"
    with watched(lambda rows, total, unit: done.append(rows + 1000 * total)):
        count = predict_file(run, str(path), str(out), say=heard.append).rows
    rows = read_csv(out.read_text())
    assert count == len(rows) == 40
    assert [row["text"] for row in rows] == texts()
    compare([(row["predicted"], row["probability"]) for row in rows], run)
    assert heard == [
        "2 of 38 texts are longer than 40 tokens and cut there",
        f"{path}: 2 rows without text, and so without an answer",
    ]
    assert done == sorted(done)
    assert (done[0], done[-1]) == (40_000, 40_040)
    assert len(done) > 40 // SOME


@pytest.mark.usefixtures("few_at_once")
def test_a_list_in_chunks_is_as_one_text_at_a_time(run: LoadedPredictor) -> None:
    filled, heard = [text for text in texts() if text.strip()], list[str]()
    found = run.predict(filled, say=heard.append)
    assert [one.text for one in found] == filled
    assert [one.label for one in found] == [run.predict(text).label for text in filled]
    assert heard == ["2 of 38 texts are longer than 40 tokens and cut there"]
    vectors = run.embed(filled)
    assert [one.text for one in vectors] == filled
    alone = np.stack([run.embed(text).vector for text in filled])
    np.testing.assert_allclose(np.stack([one.vector for one in vectors]), alone, atol=1e-5)
    assert run.predict([]) == run.embed([]) == []


@pytest.mark.usefixtures("few_at_once")
def test_columns_that_come_late(run: LoadedPredictor, tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [{"text": "a soup", "n": place} for place in range(20)]
    rows[15]["late"] = "here"
    rows[18]["predicted"] = "by another"
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    predict_file(run, str(tmp_path / "in.jsonl"), str(tmp_path / "out.csv"))
    found = read_csv((tmp_path / "out.csv").read_text())
    assert list(found[0]) == [*("text", "n", "late", "predicted", "predicted_by_model", "probability", "unknown_text")]
    assert [row["late"] for row in found] == [""] * 15 + ["here"] + [""] * 4
    predict_file(run, str(tmp_path / "in.jsonl"), str(tmp_path / "out.jsonl"))
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [{key: line[key] for key in row} for line, row in zip(lines, rows, strict=True)] == rows


@pytest.mark.usefixtures("few_at_once")
def test_few_rows_are_held(run: LoadedPredictor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_table(tmp_path / "in.csv", [(f"soup {place}",) for place in range(20 * SOME)], ("text",))
    read, collect = list[int](), chunks.collect

    def counted(*args: Any) -> Any:
        read.append(1)
        return collect(*args)

    monkeypatch.setattr(chunks, "collect", counted)

    class Out(io.StringIO):
        ahead = 0

        def write(self, text: str) -> int:
            self.ahead = max(self.ahead, len(read) - self.getvalue().count("\n") // SOME)
            return super().write(text)

    out = Out()
    predict_file(run, str(tmp_path / "in.csv"), out)
    assert out.getvalue().count("\n") == 20 * SOME + 1
    assert out.ahead <= 3


def test_batches_of_a_cpu_fit_its_cache(run: LoadedPredictor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = list[int]()

    def hear(module: Any, args: tuple[Tensor, ...]) -> None:
        sizes.append(args[0].numel())

    monkeypatch.setattr(labelling, "CPU_TOKENS_AT_ONCE", 64)
    data = write_table(tmp_path / "more.csv", opinions(40, seed=5))
    with_hook = run.model.register_forward_pre_hook(hear)
    try:
        evaluation = gf.evaluate(run, data)
        assert max(sizes) <= 64
        assert len(sizes) > 3
        sizes.clear()
        part = run.family.whole_part(run, EvaluateOptions(data=str(data)))
        examples = run.features.inputs(part, run.answers.learned(part.labels))
        task = run.family.task_on(run.config, {"given": examples}, run.answers)  # type: ignore[attr-defined]
        trained = task.evaluate(run.model, "given")
        assert len(sizes) == 1  # as ever, in training
    finally:
        with_hook.remove()
    assert evaluation.metrics == pytest.approx(trained.metrics, abs=1e-5)


# --- the next one, meanwhile ---


def test_the_next_item_is_made_while_one_is_in_use() -> None:
    made, makers = [threading.Event() for _ in range(4)], set[int]()

    def items() -> Iterator[int]:
        for place in range(4):
            makers.add(threading.get_ident())
            made[place].set()
            yield place

    seen = []
    for item in prefetch(items()):
        seen.append(item)
        assert item == 3 or made[item + 1].wait(60)
        assert item > 1 or not made[item + 2].is_set()  # one ahead, and no more
    assert seen == [0, 1, 2, 3]
    assert threading.get_ident() not in makers
    assert list(prefetch([])) == []


def test_what_fails_ahead_fails_here() -> None:
    def items() -> Iterator[int]:
        yield 1
        raise ValueError("torn")

    coming = prefetch(items())
    assert next(coming) == 1
    with pytest.raises(ValueError, match="torn"):
        next(coming)


def test_a_fault_is_told_before_anything_is_computed(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("text,n\n" + "soup,1\n" * 5000 + "soup\n")
    with pytest.raises(gf.GlassformerError, match="line 5,002"):
        RowFile.scan("in.csv", tmp_path / "in.csv", "utf-8")
