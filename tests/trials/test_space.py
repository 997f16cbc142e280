"""What is searched: read from what a person writes, drawn from, and never a configuration that cannot be."""

from collections.abc import Mapping
from typing import Any

import pytest
import yaml

from glassformer.config.encoders import ENCODERS
from glassformer.config.errors import SettingError
from glassformer.config.model_section import DECODERS
from glassformer.config.presets import IMAGE, MIXED, TABLE, TEXT, TRANSLATION
from glassformer.config.resolve import Config, keys, resolve, with_epochs
from glassformer.trials.tune import default_spaces
from glassformer.trials.tuning.search import Search
from glassformer.trials.tuning.space import Dimension, default_space, plain, read_space, sample
from glassformer.trials.tuning.storage import optuna
from glassformer.trials.tuning.trial import settings_of

DRAWS = 50
CASES = [
    *(("classification", kind, name) for name, info in ENCODERS.items() for kind in info.reads),
    *(("regression", kind, name) for name, info in ENCODERS.items() for kind in info.reads if kind != IMAGE),
    *(("language-model", TEXT, name) for name, info in ENCODERS.items() if info.causal),
    *((TRANSLATION, TEXT, name) for name in (*DECODERS, "cnn")),
]


def start(task: str, kind: str, encoder: str, **more: Any) -> Config:
    """A model's settings where nobody says anything, on a thousand examples."""
    named = {"data.kind": kind} if task in ("classification", "regression") else {}
    config = resolve({}, {"task": task, **named, "model.encoder": encoder, **more})
    return with_epochs(config, 1000) if named and not more else config


def searching(config: Config, space: list[Dimension], given: Mapping[str, Any] | None = None) -> Search:
    flat = {key: config.get(key) for key in keys()}
    name = config.model.encoder
    return Search(task=config.task, settings=dict(given or {}), spaces={name: space}, starts={name: flat})


def drawn_from(search: Search, draws: int) -> list[dict[str, Any]]:
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=1))
    return [settings_of(study.ask(), search) for _ in range(draws)]


@pytest.mark.sample(5)
@pytest.mark.parametrize(("task", "kind", "encoder"), CASES)
def test_every_draw_is_a_configuration(task: str, kind: str, encoder: str) -> None:
    config = start(task, kind, encoder)
    space = default_space(config, set())
    assert read_space(yaml.safe_load(yaml.safe_dump(plain(space), sort_keys=False)), "space") == space
    given = {"task": task, **({"data.kind": kind} if task in ("classification", "regression") else {})}
    search = searching(config, space)
    draws = drawn_from(search, DRAWS)
    for settings in draws:
        made = resolve({}, {**given, **settings})  # strict: a setting that does nothing is an error
        assert made.model.encoder == encoder
    assert len({str(settings) for settings in draws}) > DRAWS // 2
    assert search.start_of(encoder) is not None, "the settings as they start are in the space"


def test_listed_values_are_tried_as_they_are_written() -> None:
    """Only what is drawn from a range is rounded, to three digits."""
    listed = (0.0012345, 0.98765)
    space = [Dimension("training.lr", values=listed), Dimension("model.dropout", low=0.1, high=0.6)]
    draws = drawn_from(searching(start("classification", TEXT, "lstm"), space), DRAWS)
    assert {settings["training.lr"] for settings in draws} == set(listed)
    assert all(settings["model.dropout"] == float(f"{settings['model.dropout']:.3g}") for settings in draws)


def test_given_settings_are_not_searched() -> None:
    config = start("classification", TEXT, "transformer")
    free = {one.key for one in default_space(config, set())}
    assert {
        "training.lr",
        "model.width",
        "model.heads",
        "model.layers",
        "training.optimizer",
        "training.epochs",
    } <= free
    fixed = {one.key for one in default_space(config, {"model.size", "training.lr", "training.steps"})}
    assert free - fixed == {"training.lr", "model.width", "model.heads", "model.layers", "training.epochs"}


def test_heads_divide_every_width() -> None:
    wide = start("classification", TEXT, "transformer", **{"model.width": 24, "model.heads": 2})
    heads = next(one for one in default_space(wide, {"model.width"}) if one.key == "model.heads")
    assert heads.values == (2, 4)  # 24 has no 8 heads of an even width
    odd = start("classification", TEXT, "transformer", **{"model.heads": 3, "model.width": 48})
    widths = next(one for one in default_space(odd, {"model.heads"}) if one.key == "model.width")
    assert widths.values == (48, 96)


def test_a_bag_of_characters_counts_longer_runs() -> None:
    config = start("classification", TEXT, "bag")
    draws = drawn_from(searching(config, default_space(config, set())), DRAWS)
    runs = {(one["tokenizer.kind"], one["model.ngrams"]) for one in draws}
    assert runs == {*(("word", runs) for runs in (1, 2, 3)), *(("char", runs) for runs in (3, 4, 5, 6))}
    assert all(("tokenizer.min_count" in one) == (one["tokenizer.kind"] == "word") for one in draws)
    assert all(("model.head_hidden" in one) == (one["model.head_layers"] > 0) for one in draws)


def test_tables_and_mixed_examples_have_their_own() -> None:
    table = {one.key for one in default_space(start("classification", TABLE, "mlp"), set())}
    assert {"model.head_hidden", "model.dropout"} <= table
    assert not any(key.startswith("tokenizer.") for key in table)
    mixed = {one.key for one in default_space(start("classification", MIXED, "lstm"), set())}
    assert {"model.word_dropout", "tokenizer.min_count"} <= mixed
    writer = {one.key for one in default_space(start("language-model", TEXT, "lstm"), set())}
    assert not any(key.startswith("tokenizer.") for key in writer)  # losses per token would not compare


def test_what_a_person_writes() -> None:
    said = yaml.safe_load(
        """
        lr: {low: 1e-4, high: 1e-2, log: true}
        model:
          width: [64, 128]
        model.layers: {low: 1, high: 7, step: 2}
        training.average: [null, 50]
        model.head_layers: [0, 1]
        model.head_hidden: {choices: [32, 64], when: {model.head_layers: 1}}
        """
    )
    space = read_space(said, "space.yaml")
    assert space == [
        Dimension("training.lr", low=1e-4, high=1e-2, log=True),
        Dimension("model.width", values=(64, 128)),
        Dimension("model.layers", low=1, high=7, step=2, whole=True),
        Dimension("training.average", values=(None, 50)),
        Dimension("model.head_layers", values=(0, 1)),
        Dimension("model.head_hidden", values=(32, 64), when={"model.head_layers": (1,)}),
    ]
    drawn = sample(space, lambda one: one.values[0] if one.values else one.high, {})
    assert drawn == {
        "training.lr": 1e-2,
        "model.width": 64,
        "model.layers": 7,
        "training.average": None,
        "model.head_layers": 0,
    }
    layers = space[2]
    assert [value for value in range(9) if layers.holds(value)] == [1, 3, 5, 7]
    assert not layers.holds(None)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("model.widht: [1, 2]", "unknown setting 'model.widht'; did you mean model.width?"),
        ("model.width: 64", "or a range {low: …, high: …}, not 64; one value is a flag: --model.width 64"),
        ("model.width: []", "has no values to choose from"),
        ("model.width: [64, 64]", "has 64 twice"),
        ("model.width: [64, wide]", "model.width wants a whole number, not 'wide'"),
        ("model.width: [0, 64]", "model.width is 0, but must be at least 1"),
        ("model.pool: [mean, maximum]", "unknown model.pool 'maximum'; did you mean max?"),
        ("model.pool: {low: 1, high: 2}", "is not a number: list its values, as in [last, first,"),
        ("training.lr: {low: 0.1}", "a range has low and high, and high is missing"),
        ("training.lr: {low: 0.1, high: 0.01}", "low 0.1 must be below high 0.01"),
        ("training.lr: {low: 0, high: 0.01, log: true}", "log needs low above 0"),
        ("training.lr: {low: 0.1, high: 0.2, log: maybe}", "log is true or false, not 'maybe'"),
        ("training.lr: {low: 0.1, high: 0.2, logarithmic: true}", "unknown word 'logarithmic' (one of: low,"),
        ("model.dropout: {low: 0.1, high: 0.2, step: 0.5}", "step 0.5 must be above 0, and at most 0.1"),
        ("model.layers: {low: 1, high: 8, step: 2, log: true}", "give log or step, not both"),
        ("model.encoder: [bag, cnn]", "name the models to choose from with --model"),
        ("training.seed: [0, 1]", "a lucky seed is not a setting"),
        ("data.split_seed: [0, 1]", "decides what is compared with what"),
        ("model.head_hidden: {choices: [1, 2], when: {model.head_layers: [1]}}\nmodel.head_layers: [0, 1]",
         "model.head_hidden depends on model.head_layers, which must come before it"),
        ("model.width: {choices: [1, 2], when: {model.layer: [1]}}", "when: unknown setting 'model.layer'"),
        ("steps: [1, 2]\nepochs: [1, 2]", "both say how long to train"),
        ("{}", "names no setting to search"),
    ],
)  # fmt: skip
def test_what_cannot_be_searched_is_said(said: str, told: str) -> None:
    with pytest.raises(SettingError) as error:
        read_space(yaml.safe_load(said), "space.yaml")
    assert told in str(error.value)
    assert str(error.value).startswith("space.yaml")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(("characters", "buckets"), [
    (None, (2**18, 2**20)), (10**7, (2**18, 2**20)), (12_000, (2**15, 2**17)), (0, (2, 8)),
])  # fmt: skip
def test_no_more_places_for_runs_of_characters_than_there_can_be_runs(
    characters: int | None, buckets: tuple[int, ...]
) -> None:
    space = default_space(start("classification", TEXT, "bag"), set(), characters)
    assert next(one for one in space if one.key == "model.buckets").values == buckets


def test_the_space_of_tiny_data_is_bounded_by_it() -> None:
    space = default_spaces("opinions:rows=40", model="bag")
    assert max(space["model.buckets"]["choices"]) <= 2**16
