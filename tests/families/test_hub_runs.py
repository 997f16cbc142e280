"""Runs on data sets of the hub's kind: what the data set holds out is held out, and a run finds it again."""

from pathlib import Path
from random import Random
from typing import Any

import pytest

from glassformer.config.errors import DataError
from glassformer.data.io import source as source_module
from glassformer.data.packing import packer as packing
from glassformer.data.packing.store import Shards
from glassformer.families.build import prepare
from glassformer.families.evaluate import evaluate_run
from glassformer.families.recognition import infer_config
from glassformer.families.requests import EvaluateOptions
from glassformer.runs.run import Run
from glassformer.tasks.language_model import LanguageModelling
from glassformer.trials.baselines.language import judge_unigrams
from glassformer.verbs.evaluate import evaluate
from glassformer.verbs.train import train
from helpers.running import labelled, tiny

datasets = pytest.importorskip("datasets")
datasets.disable_progress_bars()

WORDS = ["the", "cat", "sat", "on", "a", "mat", "and", "saw", "nine", "red", "birds"]


def texts(count: int, seed: int) -> list[str]:
    random = Random(seed)
    return [" ".join(random.choices(WORDS, k=9)) for _ in range(count)]


def save(folder: Path, **splits: dict[str, Any]) -> str:
    made = {name: datasets.Dataset.from_dict(rows) for name, rows in splits.items()}
    datasets.DatasetDict(made).save_to_disk(folder)
    return f"hf:{folder}"


def test_a_text_is_trained_on_and_found_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(tmp_path / "set", train={"text": texts(40, 0)}, test={"text": texts(7, 1)})
    monkeypatch.chdir(tmp_path)
    run = Run.open(train("hf:set", **tiny(training__steps=2)).run)
    assert run.path.name == "set-transformer-1"
    data = run.config().data
    assert (data.path, data.test) == (f"hf:{tmp_path / 'set'}", f"hf:{tmp_path / 'set'}#test")
    assert data.validation is None
    path = run.path.resolve()
    monkeypatch.chdir("/")
    own = evaluate(path)
    assert own.metrics == evaluate(path, f"hf:{tmp_path / 'set'}#test").metrics
    assert own.metrics["tokens"] == sum(len(text) + 1 for text in texts(7, 1))  # characters, and END
    save(tmp_path / "set", train={"text": texts(40, 2)}, test={"text": texts(7, 1)})
    with pytest.raises(DataError, match="is not the data that this run was trained on"):
        evaluate(path)


def test_labels_and_what_is_held_out(tmp_path: Path) -> None:
    features = datasets.Features({"text": datasets.Value("string"), "label": datasets.ClassLabel(names=["no", "yes"])})

    def some(count: int, seed: int) -> Any:
        rows = {"text": texts(count, seed), "label": [number % 2 for number in range(count)]}
        return datasets.Dataset.from_dict(rows, features=features)

    splits = {"train": some(30, 0), "validation": some(12, 1), "test": some(10, 2)}
    datasets.DatasetDict(splits).save_to_disk(tmp_path / "set")
    spec = f"hf:{tmp_path / 'set'}"
    run = Run.open(train(spec, out=tmp_path / "run", **labelled("bag", training__steps=2)).run)
    card = run.card()
    assert card["labels"] == ["no", "yes"]
    found = evaluate_run(run, EvaluateOptions())
    assert (found.part.name, len(found.evaluation.records)) == ("test", 10)
    assert len(evaluate(run, part="validation").records) == 12
    train(out=tmp_path / "run", resume=True, **{"training.steps": 3})
    assert run.card()["data"]["fingerprint"] == card["data"]["fingerprint"]
    settings = {"data.path": spec, "data.validation_fraction": 0.5}
    config, _ = infer_config({}, settings)
    assert (config.data.validation, config.data.test) == (None, f"{spec}#test")


def test_pairs_by_language(tmp_path: Path) -> None:
    features = datasets.Features({"translation": datasets.Translation(languages=["en", "de"])})
    splits = {
        name: datasets.Dataset.from_dict(
            {"translation": [{"en": text, "de": text[::-1]} for text in texts(count, count)]}, features=features
        )
        for name, count in {"train": 20, "validation": 5}.items()
    }
    datasets.DatasetDict(splits).save_to_disk(tmp_path / "set")
    config, table = infer_config({}, {"data.path": f"hf:{tmp_path / 'set'}"})
    assert (config.task, config.data.source, config.data.target) == ("translation", "en", "de")
    parts = prepare(config, rows=table).corpus.parts
    assert {name: len(part) for name, part in parts.items()} == {"train": 20, "validation": 5}  # type: ignore[arg-type]
    assert parts["validation"].targets == [text[::-1] for text in texts(5, 5)]  # type: ignore[union-attr]


@pytest.mark.slow
def test_shards_are_learned_from_and_judged_as_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same batches, the same weights, the same scores and floors, to the last bit."""
    file = tmp_path / "texts.txt"
    file.write_text("\n".join(texts(200, 0)))
    monkeypatch.setattr(source_module, "CHUNK", 200)

    def one(name: str) -> tuple[Any, Any, Any, LanguageModelling]:
        trained = train(file, out=tmp_path / name, **tiny(training__steps=3))
        config, table = infer_config({}, {"data.path": str(file), **tiny()})
        task = prepare(config, rows=table).task
        assert isinstance(task, LanguageModelling)
        batches = [task.batch(step).ids.tolist() for step in range(50)]
        floor = judge_unigrams(task, "validation", 64)[0]
        return evaluate(trained.run), batches, floor, task

    plain = one("plain")
    monkeypatch.setenv("GLASSFORMER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(packing, "TOGETHER", 300)
    monkeypatch.setattr(packing, "SHARD", 300)
    shards = one("shards")
    assert isinstance(shards[3].parts["train"].ids, Shards)
    assert isinstance(shards[3].parts["validation"].ids, Shards)
    assert not isinstance(plain[3].parts["train"].ids, Shards)
    assert shards[0].records == plain[0].records
    assert shards[1] == plain[1]
    assert shards[2].metrics == plain[2].metrics
