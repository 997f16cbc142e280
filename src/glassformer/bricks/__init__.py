"""The lectures' building blocks, one file a brick.

Notation, here and everywhere: B batch, T tokens, S tokens of a second sequence, d width, h heads, V vocabulary.
Shapes are types that the tests check at run time; those that most bricks share have a name here. A mask is True where a
real token stands.

The linear map y = Wx + b is `torch.nn.Linear`, dropout is `torch.nn.Dropout`: where torch has the brick, it is the
brick.
"""

from jaxtyping import Bool, Float, Int
from torch import Tensor

Vectors = Float[Tensor, "B T d"]
"""A vector of the model's width for each token."""
Inputs = Float[Tensor, "B T i"]
"""A vector for each token, of any width."""
Vector = Float[Tensor, "B d"]
"""A vector for each row."""
AnyVectors = Float[Tensor, "*rest d"]
Ids = Int[Tensor, "B T"]
"""An id for each token: of its word, or of the text in a window that it belongs to."""
Index = Int[Tensor, "*B T"]
"""The positions of tokens: the same for all rows, or each row's own."""
Mask = Bool[Tensor, "B T"] | None
"""True where a real token stands; None: everywhere."""
Rows = Int[Tensor, "B"]
"""Numbers of rows."""
