"""JSON files of runs and of folders of parts, each of their values replaced or removed: an answer, or one line that
names the file.
"""

import json
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import glassformer as gf
from glassformer.config.errors import GlassformerError, RunError
from glassformer.runs.json_shape import WrongShape, check_shape, from_json
from glassformer.runs.run import Run
from glassformer.verbs.parts.manifest import FileState, PartEntry
from helpers.damage import ODD, damaged
from helpers.kinds import rows_of, write_rows
from helpers.tables import opinions, write_table

CARD = "glassformer.json"


@pytest.fixture(autouse=True)
def any_number_of_digits() -> Iterator[None]:
    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(0)
    yield
    sys.set_int_max_str_digits(before)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on a table; of all cards, those of tables hold the most."""
    folder = tmp_path_factory.mktemp("runs")
    table = write_rows(folder / "rows.csv", rows_of(60))
    return Path(
        gf.train(table, out=folder / "table", model="linear", label="size", steps=2, **{"data.kind": "table"}).run
    )


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained, tmp_path / "run"))


def outcome(file: Path, what: str, text: str, read: Callable[[], object]) -> bool:
    """Whether a damaged file is refused. The error names its folder; another file of it may be the one that misfits."""
    file.write_bytes(text.encode("utf-8", "surrogatepass"))
    try:
        read()
    except GlassformerError as error:
        line = str(error)
        if str(file.parent) not in line or "\n" in line:
            pytest.fail(f"{what}: {line}")
        return True
    except Exception as error:
        pytest.fail(f"{what}: {type(error).__name__}: {error}")
    return False


def sampled(text: str, count: int) -> list[tuple[str, str]]:
    cases = list(damaged(text))
    return cases[:: max(1, len(cases) // count)]


@pytest.mark.parametrize(
    ("key", "value", "line"),
    [
        ("target_tokenizer", 1000000, "its target_tokenizer is an int"),
        ("data", {"name": "a", "fingerprint": "b"}, "it lacks data.report"),
        ("data", {"name": "", "fingerprint": "", "report": "", "tokens": {"train": "x"}}, "tokens.train is a str"),
        ("words", {"validation": []}, "its words.validation is a list"),
        ("best", [], "its best is a list"),
        ("from", {"run": "a", "task": "b", "new": 3}, "its from.new is an int"),
        ("steps", 2**64, "its steps does not fit into 64 bits"),
        ("steps", 10**400, "a number of 401 digits"),
    ],
)  # fmt: skip
def test_a_damaged_card_is_named(run: Path, key: str, value: Any, line: str) -> None:
    card = json.loads((run / CARD).read_text())
    (run / CARD).write_text(json.dumps({**card, key: value}))
    with pytest.raises(RunError, match=rf"{CARD} is damaged: .*{line}"):
        gf.doctor(run)


def test_a_damaged_setting_of_a_card_has_a_remedy(run: Path) -> None:
    card = json.loads((run / CARD).read_text())
    card["config"]["training"]["seed"] = "../../etc"
    (run / CARD).write_text(json.dumps(card))
    with pytest.raises(RunError, match=rf"{CARD} is damaged: restore it from a copy, or train again \(training\.seed"):
        gf.doctor(run)


@pytest.mark.slow
def test_whatever_is_in_a_card(run: Path) -> None:
    text = (run / CARD).read_text()

    def read() -> object:
        return Run.open(run).config()

    assert sum(outcome(run / CARD, what, changed, read) for what, changed in sampled(text, 150)) > 50
    for what, changed in sampled(text, 5):
        outcome(run / CARD, what, changed, lambda: gf.doctor(run))


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("classifier")
    table = write_table(folder / "opinions.csv", opinions(60))
    return gf.load(gf.train(table, out=folder / "run", model="bag", steps=2).run, "cpu")


@pytest.fixture
def answered(classifier: Any, tmp_path: Path) -> tuple[Path, Callable[[], object]]:
    """The manifest of a folder of parts that are done, and what does the same again."""
    parts, out = tmp_path / "parts", tmp_path / "out"
    parts.mkdir()
    for name in ("a.csv", "b.csv"):
        write_table(parts / name, opinions(3))

    def predict() -> object:
        return gf.predict_file(classifier, parts, out)

    predict()
    return out / "manifest-1-of-1.json", predict


@pytest.mark.parametrize("text", ['{"format": 1', "[]", '{"format": 3}'])
def test_a_damaged_manifest_names_another_out(answered: tuple[Path, Callable[[], object]], text: str) -> None:
    manifest, predict = answered
    manifest.write_text(text)
    with pytest.raises(RunError, match=r"is damaged: restore it from a copy, or name another --out \("):
        predict()


def test_whatever_is_in_a_manifest(answered: tuple[Path, Callable[[], object]]) -> None:
    manifest, predict = answered
    text = manifest.read_text()
    for key, value in (("options", "x"), ("weights", 5), ("parts", {}), ("parts", [[]]), ("run", [])):
        changed = json.dumps({**json.loads(text), key: value})
        assert outcome(manifest, key, changed, predict)
    for what, changed in sampled(text, 30):
        outcome(manifest, what, changed, predict)


@pytest.mark.trust
def test_every_damage_to_a_card(run: Path, tried: Any) -> None:
    cases = sampled((run / CARD).read_text(), 370)
    for place, (what, changed) in enumerate(cases):
        outcome(run / CARD, what, changed, lambda: gf.doctor(run))
        if place % 4 == 0:
            outcome(run / CARD, what, changed, lambda: gf.look(run, view="report"))
    tried(
        "damaged files of runs: glassformer.json",
        "each value replaced or removed",
        len(cases),
        "a result or a one-line error",
    )


@pytest.mark.trust
def test_every_damage_to_a_manifest(answered: tuple[Path, Callable[[], object]], tried: Any) -> None:
    manifest, predict = answered
    cases = list(damaged(manifest.read_text()))
    for what, changed in cases:
        outcome(manifest, what, changed, predict)
    tried(
        "damaged files of runs: manifest", "each value replaced or removed", len(cases), "a result or a one-line error"
    )


def test_shapes() -> None:
    entry = {"part": "a", "output": "b", "rows": 1, "size": 2, "sha256": "c",
             "read": {"size": 1, "changed": 2, "sha256": "d"}}  # fmt: skip
    assert from_json(entry, PartEntry) == PartEntry("a", "b", 1, 2, "c", FileState(1, 2, "d"))
    for key in entry:
        for odd in ODD:
            if type(odd) is not type(entry[key]):
                with pytest.raises(WrongShape, match=key):
                    from_json({**entry, key: odd}, PartEntry)
    with pytest.raises(WrongShape, match=r"it has the unknown key more"):
        from_json({**entry, "more": 1}, PartEntry)
    with pytest.raises(WrongShape, match=r"^it holds a number that does not fit into 64 bits"):
        check_shape(2**64, int)
    check_shape({"a": [1, 2.5, None]}, dict[str, list[float | None]])
    for wrong in ({"a": [True]}, {"a": ["1"]}, {"a": 1}, []):
        with pytest.raises(WrongShape):
            check_shape(wrong, dict[str, list[float | None]])
