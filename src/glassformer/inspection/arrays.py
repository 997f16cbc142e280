"""From tensors to arrays."""

import numpy as np
from numpy.typing import NDArray
from torch import Tensor


def numbers_of(tensor: Tensor) -> NDArray[np.float32]:
    """A tensor's numbers, whatever its type, its device and its gradient."""
    return tensor.detach().float().cpu().numpy()
