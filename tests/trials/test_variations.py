"""Settings with several values, from words and from Python."""

import pytest

from glassformer.config.errors import Misuse, SettingError
from glassformer.trials.running.candidates import grid, parse_varied


def test_words_are_parsed_like_flags() -> None:
    varied = parse_varied(["model.heads=1,2,4", "lr=1e-3,0.01", "model.residual=true,false", "model.hidden=none,8"])
    assert varied == {
        "model.heads": [1, 2, 4],
        "training.lr": [0.001, 0.01],
        "model.residual": [True, False],
        "model.hidden": [None, 8],
    }
    assert parse_varied({"model.heads": (1, 2), "dropout": 0.1}) == {
        "model.heads": [1, 2],
        "model.dropout": [0.1],
    }
    assert parse_varied(None) == {}


def test_several_are_a_grid() -> None:
    rows = grid({"model.heads": [1, 2], "model.layers": [3, 5, 7]})
    assert len(rows) == 6
    assert rows[1] == {"model.heads": 1, "model.layers": 5}
    assert grid({}) == [{}]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["model.heads"], "--vary wants a setting and its values, as model.heads=1,2,4, not 'model.heads'"),
        (["model.haeds=1"], "unknown setting 'model.haeds'; did you mean model.heads"),
        (["model.heads=1,two"], "model.heads wants a whole number, not 'two'"),
        (["model.heads=1", "model.heads=2"], "--vary model.heads is given twice"),
        (["model.dropout=0.3,0.30"], "model.dropout has the value 0.3 twice: give each value once"),
        (["lr=1", "training.lr=2"], "--vary training.lr is given twice"),
        (["model=lstm,gru"], "--vary model.encoder: that is what --models is for"),
        (["seed=1,2"], "--vary training.seed: that is what --seeds is for"),
    ],
)
def test_what_cannot_be_varied(words: list[str], told: str) -> None:
    with pytest.raises((Misuse, SettingError), match=told):
        parse_varied(words)
