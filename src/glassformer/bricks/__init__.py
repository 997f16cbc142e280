"""The building blocks of the lectures, one file per brick.

Notation, here and everywhere: B batch, T tokens, S tokens of a second sequence, d width, h heads, V vocabulary. Shapes
are types that the tests check at run time; common shapes have a name here. A mask is True at real tokens.

Where torch has a brick, it is used directly: `torch.nn.Linear` for y = Wx + b, `torch.nn.Dropout` for dropout.
"""

from jaxtyping import Bool, Float, Int
from torch import Tensor

Vectors = Float[Tensor, "B T d"]
"""A vector of the model's width for each token."""
Inputs = Float[Tensor, "B T i"]
"""A vector of any width for each token."""
Vector = Float[Tensor, "B d"]
"""A vector for each row."""
AnyVectors = Float[Tensor, "*rest d"]
Ids = Int[Tensor, "B T"]
"""An integer for each token: its vocabulary id, or the number of its text within a window."""
Index = Int[Tensor, "*B T"]
"""Positions of tokens, the same for all rows or one row each."""
Mask = Bool[Tensor, "B T"] | None
"""True at real tokens; None if all tokens are real."""
Rows = Int[Tensor, "B"]
"""Indices of rows."""
