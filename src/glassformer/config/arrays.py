"""numpy's arrays inside shapes: `Float[Array, "T d"]`. What numpy itself calls an array of some type, newer versions of
it no longer make a class, and shapes can be given to classes only.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]
else:
    Array = np.ndarray
