"""What a comparison asks: one split, one tokenizer and one budget for all, and a training for each row and seed."""

from pathlib import Path
from typing import Any

import pytest

from glassformer.config.errors import Misuse, SettingError
from glassformer.config.messages import listening
from glassformer.config.resolve import resolve
from glassformer.data.split.labelled import LabelledCorpus
from glassformer.families.build import build_model, prepare, split_data
from glassformer.families.recognition import infer_config
from glassformer.models.build import parameter_count
from glassformer.trials.jobs import FLOOR, REFERENCE, TRAINED, Job
from glassformer.trials.running.question import (
    ABLATION,
    FRACTION,
    FRACTIONS,
    LADDER,
    SIZE,
    SIZES,
    TOLERANCE,
    VARY,
    CompareOptions,
    Question,
    ask,
    width_for,
)

OPINIONS, PAIRS = "opinions:rows=200", "reverse-pairs:rows=200"


def asking(
    data: str, *, heard: list[str] | None = None, settings: dict[str, Any] | None = None, **asked: Any
) -> Question:
    said = {"data.path": data, **(settings or {})}
    with listening(None if heard is None else heard.append):
        return ask(said, CompareOptions(**{"varied": {}, **asked}))


def trained(question: Question) -> list[Job]:
    return [job for job in question.jobs if job.kind == TRAINED]


def test_all_models_get_the_same_words() -> None:
    question = asking(OPINIONS, models=("bag:counts", "lstm"), seeds=1)
    tokens = [
        {key: job.settings.get(key) for key in job.settings if key.startswith("tokenizer.")} for job in question.jobs
    ]
    assert len(tokens) == 5  # and those of the floor and the references
    assert all(some == tokens[0] for some in tokens)
    assert tokens[0]["tokenizer.vocab_size"] is None
    alone = resolve({}, {"task": "classification", "model.encoder": "bag"}).tokenizer.vocab_size
    assert alone is not None  # what the bag would have taken by itself
    told = asking(OPINIONS, models=("bag:counts",), seeds=1, settings={"tokenizer.kind": "char"})
    assert trained(told)[0].settings["tokenizer.kind"] == "char"


def test_varied_tokens_are_left_to_each_row() -> None:
    question = asking(OPINIONS, models=("lstm",), seeds=1, varied={"tokenizer.kind": ["bpe", "word"]})
    bpe, word = trained(question)
    assert "tokenizer.lowercase" not in bpe.settings
    for job in (bpe, word):
        resolve({}, {**job.settings, "task": "classification"})


def test_a_test_part_is_set_aside_where_there_is_none() -> None:
    heard: list[str] = []
    question = asking("iris", seeds=1, heard=heard)
    assert question.shared.part == "test"
    assert {job.settings["data.test_fraction"] for job in question.jobs} == {0.2}
    assert any("20% of the data is held out for the test (--data.test_fraction)" in line for line in heard)
    assert "20% of the data is held out" in question.shared.notes[0]
    assert asking("copy:rows=100", seeds=1).shared.settings["data.test_fraction"] == 0.1  # a text
    own = asking(OPINIONS, seeds=1)  # it has a test part of its own
    assert own.shared.part == "test"
    assert "data.test_fraction" not in own.shared.settings
    none = asking("iris", seeds=1, heard=heard, settings={"data.test_fraction": 0.0})
    assert none.shared.part == "validation"
    assert "which also chose the weights" in heard[-1]


def test_the_ladder_with_its_floors_seed_by_seed() -> None:
    question = asking("iris", seeds=2, settings={"training.seed": 5, "training.steps": 3})
    names = [(job.name, job.kind, job.repeat) for job in question.jobs]
    assert names == [
        ("majority class", FLOOR, 0),
        *[(name, TRAINED, repeat) for repeat in (0, 1) for name in ("linear", "mlp", "transformer")],
        ("sklearn:linear", REFERENCE, 0),
        ("sklearn:boosting", REFERENCE, 0),
    ]
    assert [job.settings["training.seed"] for job in trained(question)] == [5, 5, 5, 6, 6, 6]
    assert "training.seed" not in question.jobs[0].settings
    assert question.options.mode == LADDER
    assert question.budget == "3 updates each"
    plain = asking("iris", seeds=1, floors=False, references=False)
    assert len(plain.jobs) == 3
    assert plain.budget == "each model's usual number of updates"
    longer = asking("iris", seeds=1, models=("linear",), varied={"training.steps": [3, 5]})
    assert longer.budget == "the budget in each row"


def test_a_table_with_texts_is_read_for_its_columns_by_what_reads_no_texts(tmp_path: Path) -> None:
    words = ("the soup was good today", "a dull film from start to end", "we waited long for a cold dinner")
    rows = [
        f"{words[n % 3]} {n * 37 % 101} times,{n % 7},{n * n % 11},{'yes' if n % 7 > 3 else 'no'}" for n in range(80)
    ]
    data = tmp_path / "mixed.csv"
    data.write_text("\n".join(["text,price,size,label", *rows]) + "\n")
    linear = asking(str(data), seeds=1, models=("linear",))
    assert linear.shared.config.data.kind == "table"
    assert infer_config({}, linear.jobs[0].settings)[0].data.kind == "table"  # so does the floor beside it
    both = asking(str(data), seeds=1, models=("linear", "lstm"))
    assert both.shared.config.data.kind == "text"
    with pytest.raises(SettingError, match="bag does not read tables"):
        asking("iris", seeds=1, models=("bag",))


def test_folds_each_hold_out_other_rows() -> None:
    question = asking("iris", folds=3, models=("linear",))
    assert [job.settings["data.fold"] for job in trained(question)] == [0, 1, 2]
    assert {job.settings["training.keep"] for job in trained(question)} == {"last"}
    assert [(job.name, job.repeat) for job in question.jobs if job.kind == FLOOR] == [
        ("majority class", repeat) for repeat in range(3)
    ]
    assert question.shared.part == "validation"
    held = []
    for job in trained(question):
        config, table = infer_config({}, job.settings)
        corpus = split_data(config, table)
        assert isinstance(corpus, LabelledCorpus)
        assert "test" not in corpus.parts
        held += corpus.parts["validation"].lines
    assert len(held) == len(set(held)) == 150


def test_modes_and_their_models() -> None:
    fractions = asking(OPINIONS, seeds=1, varied={FRACTION: [0.3, 1.0]})
    assert fractions.options.mode == FRACTIONS
    assert {job.name for job in trained(fractions)} == {"bag:tfidf", "lstm", "transformer"}
    floors = [job for job in fractions.jobs if job.kind == FLOOR]
    assert [job.settings[FRACTION] for job in floors] == [0.3, 1.0]
    assert [job.varied for job in floors] == [{FRACTION: 0.3}, {FRACTION: 1.0}]
    sizes = asking(OPINIONS, seeds=1, varied={SIZE: ["nano", "tiny"]})
    assert sizes.options.mode == SIZES
    assert [(job.name, job.settings[SIZE]) for job in trained(sizes)] == [
        ("transformer", "nano"),
        ("transformer", "tiny"),
    ]
    both = asking(OPINIONS, seeds=1, varied={SIZE: ["nano"], FRACTION: [0.5]})
    assert both.options.mode == VARY
    grid = asking(OPINIONS, seeds=1, models=("lstm", "transformer"), varied={"model.heads": [2, 3]})
    assert [job.settings["model.heads"] for job in trained(grid)] == [2, 3, 2, 3]  # the lstm's are refused, as rows
    ablation = asking(OPINIONS, seeds=1, ablate=True)
    assert ablation.options.mode == ABLATION
    assert trained(ablation)[0].varied == {}
    assert {"model.residual": False} in [job.varied for job in trained(ablation)]
    assert not any(job.kind == REFERENCE for job in ablation.jobs)


def test_settings_that_some_models_do_not_use() -> None:
    heard: list[str] = []
    settings = {"model.heads": 2, "training.steps": 3}
    question = asking(OPINIONS, seeds=1, models=("lstm", "transformer"), settings=settings, heard=heard)
    lstm, transformer = trained(question)
    assert "model.heads" not in lstm.settings
    assert transformer.settings["model.heads"] == 2
    assert "model.heads is not used by lstm: omitted there" in heard
    with pytest.raises(SettingError, match=r"model\.heads is not used by lstm"):
        asking(OPINIONS, seeds=1, models=("lstm", "bag"), settings=settings)


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("data", "models"),
    [
        (OPINIONS, ("bag:tfidf", "lstm", "transformer")),
        (PAIRS, ("lstm", "transformer")),
        ("copy:rows=100", ("rnn", "transformer")),
        ("digits", ("linear", "mlp", "cnn", "transformer")),
    ],
)
def test_models_of_like_size(data: str, models: tuple[str, ...]) -> None:
    heard: list[str] = []
    wanted = 60_000
    question = asking(data, seeds=1, models=models, parameters=wanted, heard=heard)
    prepared = prepare(question.shared.config, rows=question.shared.table)
    assert f"about {wanted:,} parameters each" in question.budget
    for job in trained(question):
        kind = {"data.kind": question.shared.config.data.kind}
        config = resolve({}, {**job.settings, "task": question.shared.config.task, **kind}, strict=False)
        model = build_model(config, prepared)
        count = parameter_count(model)  # of real weights, not of shapes
        told = next(line for line in heard if line.startswith(f"{job.name}: "))
        assert f"{count:,} parameters" in told
        near = abs(count - wanted) <= TOLERANCE * wanted
        assert near or "is not near" in told or "follow from the data" in told
        if job.name in ("lstm", "transformer", "rnn"):
            assert near


def test_a_size_that_cannot_be_had_is_said() -> None:
    question = asking("iris", seeds=1, models=("mlp",))
    heard: list[str] = []
    with listening(heard.append):
        found = width_for(1, {"mlp": trained(question)[0].settings}, question.shared)
    assert found == {"mlp": ("model.head_hidden", 1)}
    assert "is not near 1" in heard[0]


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"ablate": True, "varied": {"model.heads": [1]}}, "--ablate does not go with varying"),
        ({"ablate": True, "models": ("lstm",)}, "--ablate takes the Transformer apart"),
        ({"parameters": 9, "varied": {"model.width": [1]}}, "does not go with varying model.width"),
        ({"folds": 2, "runs": ("a",)}, "--runs are scored on one part"),
    ],
)
def test_what_cannot_be_asked(asked: dict[str, Any], told: str) -> None:
    with pytest.raises(Misuse, match=told):
        asking("iris", **asked)


def test_ids_can_be_read_and_never_meet() -> None:
    assert Job(name="bag:counts", repeat=2).id == "bag-counts-2"
    assert Job(name="majority class", kind=FLOOR).id == "majority-class-0"
    varied = Job(name="lstm", varied={"training.lr": 0.1, "model.residual": False}).id
    assert varied.startswith("lstm-lr-0.1-residual-false-")
    different = [
        Job(name="lstm"),
        Job(name="lstm", repeat=1),
        Job(name="lstm", varied={"model.width": 1}),
        Job(name="lstm", varied={"model.width": "1"}),
        Job(name="lstm", varied={"data.width": 1}),
        Job(name="lstm-width-1"),
        Job(name="/runs/a"),
        Job(name="/runs.a"),
    ]
    assert len({job.id for job in different}) == len(different)
    assert not any("/" in job.id for job in different)
