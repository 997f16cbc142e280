"""The functions that draw random numbers, of those that torch tells its modes of."""

import torch
from torch import Tensor, nn

INTO_TENSORS = frozenset(
    {
        *(Tensor.normal_, Tensor.uniform_, Tensor.random_, Tensor.bernoulli_, Tensor.exponential_),
        *(nn.init.normal_, nn.init.uniform_, nn.init.kaiming_uniform_),
    }
)
"""Into the tensor that is their first argument."""
DRAWS = INTO_TENSORS | {torch.rand, torch.randn, torch.randint, torch.randperm, torch.normal, torch.bernoulli}
