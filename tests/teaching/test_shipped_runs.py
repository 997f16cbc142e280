"""The runs that come along with lessons: whole, small, and what the table says."""

import sys
from pathlib import Path

import pytest

import glassformer as gf
from glassformer.config.resolve import flatten
from glassformer.families.load import load
from glassformer.teaching.lesson import RUNS as FOLDER
from glassformer.teaching.lesson import lessons

sys.path.insert(0, str(Path(__file__).parents[2] / "docs" / "generate"))
from shipped_runs import MAX_BYTES, SHIPPED, ship, size_of


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_run_is_small_and_has_the_settings_of_the_table(name: str) -> None:
    loaded = load(FOLDER / name)
    card, (data, settings) = loaded.run.card(), SHIPPED[name]
    config = flatten(card["config"])
    assert card["status"] == "finished"
    assert card["steps"] == settings["training.steps"]
    assert {key: config[key] for key in settings} == settings
    assert config["data.path"] == data
    assert size_of(FOLDER / name) <= MAX_BYTES


def test_every_shipped_run_belongs_to_a_lesson() -> None:
    assert {path.name for path in FOLDER.iterdir()} == {*SHIPPED}
    assert {run.name for lesson in lessons() for run in lesson.shipped_runs} == {*SHIPPED}


def test_the_translator_of_dates() -> None:
    run = load(FOLDER / "dates")
    texts = ["Freitag, 9. November 1989", "July 14, 2031", "1.2.2050"]
    assert [one.text for one in run.translate(texts, beam=1)] == ["1989-11-09", "2031-07-14", "2050-02-01"]
    for view in ("alignment", "tree", "attention", "diagram"):
        assert gf.look(run, texts[0], view=view).panels


def test_the_writer_of_stories_knows_whom_she_means() -> None:
    run = load(FOLDER / "pronouns")
    assert run.generate("ruth met bruno behind the house . she", tokens=1, greedy=True).strip() == "dances"
    assert gf.look(run, "ruth met bruno . she", view="next").panels


@pytest.mark.slow
@pytest.mark.parametrize("name", SHIPPED)
def test_a_run_is_shipped_anew(name: str, tmp_path: Path) -> None:
    data = SHIPPED[name].data.partition(":")[0]
    kept = ship(name, tmp_path, data=f"{data}:rows=300", **{"training.steps": 3})
    assert {file.name for file in kept.iterdir()} == {"glassformer.json", "model.safetensors", "tokenizer.json"}
    new, old = (flatten(load(folder).run.card()["config"]) for folder in (kept, FOLDER / name))
    assert {key for key in old if new[key] != old[key]} == {"data.path", "training.steps"}
    assert size_of(kept) <= MAX_BYTES
