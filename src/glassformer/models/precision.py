"""Models in another precision than they were trained in: for use, not for training."""

import torch
from torch import nn

from glassformer.bricks.int8 import to_int8
from glassformer.config.errors import Misuse
from glassformer.models.build import parameter_count


def lower_precision(model: nn.Module, precision: str) -> str:
    """Put a model's weights in bf16 or int8, in place; gives what was done, in words."""
    if precision == "bf16":
        weights = list(model.state_dict(keep_vars=True).values())
        if not weights[0].is_cuda and any(isinstance(part, nn.Conv1d | nn.Conv2d) for part in model.modules()):
            raise Misuse("convolutions in bf16 come out wrong on some CPUs: use this model in fp32 or int8")
        # what is not saved (the angles of rotary positions) is made of other numbers, and needs all its digits
        for weight in weights:
            weight.data = weight.data.to(torch.bfloat16) if weight.is_floating_point() else weight.data
        for part in model.modules():
            if isinstance(part, nn.RNNBase):
                part.to(torch.bfloat16)  # its unsaved zeros too, and all of it contiguous in memory, as cuDNN requires
        return "weights and products in bf16"
    total, count = parameter_count(model), to_int8(model)
    if not count:
        raise Misuse("this model has no linear maps to be put in 8 bits: use it in fp32")
    return f"{count:,} of {total:,} weights in 8 bits"
