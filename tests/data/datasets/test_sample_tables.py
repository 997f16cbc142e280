import sys
from collections import Counter

import pytest

from glassformer.config.errors import DataError
from glassformer.config.sections import DataSettings
from glassformer.data.datasets.embedded import open_dataset
from glassformer.data.io.table import read_table


@pytest.mark.parametrize("name", ["diabetes", "iris"])
def test_without_the_package(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(DataError) as caught:
        open_dataset(name).rows()
    assert str(caught.value) == (f"the data set '{name}' needs scikit-learn: pip install 'glassformer[samples]'")


def test_diabetes() -> None:
    datasets = pytest.importorskip("sklearn.datasets", reason="scikit-learn is not installed")
    table = read_table("diabetes", DataSettings())
    assert len(table) == 442
    given = datasets.load_diabetes(scaled=False)
    for place, name in enumerate(list(table.columns)[:-1]):
        assert [float(value) for value in table.columns[name]] == given.data[:, place].tolist(), name
    assert [float(value) for value in table.columns["progression"]] == given.target.tolist()
    assert [values[0] for values in table.columns.values()] == [
        "59", "2", "32.1", "101", "157", "93.2", "38", "4", "4.8598", "87", "151",
    ]  # fmt: skip


def test_iris() -> None:
    datasets = pytest.importorskip("sklearn.datasets", reason="scikit-learn is not installed")
    table = read_table("iris", DataSettings())
    given = datasets.load_iris()
    for place, name in enumerate(list(table.columns)[:-1]):
        assert [float(value) for value in table.columns[name]] == given.data[:, place].tolist(), name
    assert Counter(table.columns["species"]) == {"setosa": 50, "versicolor": 50, "virginica": 50}
    rows = list(open_dataset("iris").rows())
    assert rows[0] == ("5.1", "3.5", "1.4", "0.2", "setosa")
    assert rows[-1] == ("5.9", "3", "5.1", "1.8", "virginica")
