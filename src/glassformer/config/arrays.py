"""The array type for shapes: `Float[Array, "T d"]`.

jaxtyping accepts only classes. `NDArray[…]`, numpy's own generic, is not a class in newer versions.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]
else:
    Array = np.ndarray
