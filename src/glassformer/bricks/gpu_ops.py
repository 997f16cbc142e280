"""Kernels of our own on a CUDA GPU: whether there can be any, and what torch's compiler is not to take apart."""

import warnings
from functools import cache
from importlib.util import find_spec

import torch
from torch import Tensor

from glassformer.config.errors import first_line


@cache
def kernels_work() -> bool:
    """Whether Triton is here and makes kernels: it needs a C compiler, and a GPU that it knows."""
    if find_spec("triton") is None:
        return False
    from glassformer.bricks.gpu_kernels import linear_rows

    try:
        linear_rows(torch.ones(1, 16, device="cuda"), [torch.ones(16, 16, device="cuda")], [None])
    except Exception as error:
        warnings.warn(
            f"Triton makes no kernels here ({first_line(error)[:120]}): training and writing take longer", stacklevel=2
        )
        return False
    return True


@torch.library.custom_op("glassformer::waves", mutates_args=())
def waves(angle: Tensor) -> tuple[Tensor, Tensor]:
    """Cosine and sine. Compiled, every layer would compute both for every number that it turns by them."""
    return angle.cos(), angle.sin()


@waves.register_fake
def _(angle: Tensor) -> tuple[Tensor, Tensor]:
    return torch.empty_like(angle), torch.empty_like(angle)
