"""Weight-only int8 quantisation of linear maps (symmetric, one scale per output) for CPUs.

A decoding step then reads a quarter of the bytes. Every row of a matrix has a scale of its own, W ≈ s ⊙ Q, where Q
holds integers from −127 to 127. The products are torch's `_weight_int8pack_mm`, and FBGEMM's for vocabulary scores.
"""

import platform
import warnings
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int8
from torch import Tensor, nn

from glassformer.bricks.own import modules_of_ours
from glassformer.config.errors import Misuse

MAX_INT8_ROWS = 16
"""Number of vectors up to which the int8 product is faster than a product with the dequantised matrix."""
BLOCK = 32
"""`_weight_int8pack_mm` reads past the end of rows whose length is not a multiple of this."""


IS_X86 = platform.machine().lower() in ("x86_64", "amd64")


def fast_dtype() -> torch.dtype:
    """Return the dtype of vectors in int8 products: x86 has fast products for bf16 only."""
    return torch.bfloat16 if IS_X86 else torch.float32


class Int8Linear(nn.Linear):
    """A linear map with int8 weights, without gradients.

    `weight` is dequantised on each access; products do not use it.
    """

    whole: Int8[Tensor, "out in"]
    scale: Float[Tensor, "out"]

    def __init__(self, whole: Int8[Tensor, "out in"], scale: Float[Tensor, "out"], bias: Tensor | None) -> None:
        nn.Module.__init__(self)  # nn.Linear would allocate a matrix
        self.out_features, self.in_features = whole.shape
        self.register_buffer("whole", whole)
        self.register_buffer("scale", scale)
        self.register_buffer("bias", bias)

    @classmethod
    def of(cls, map: nn.Linear) -> "Int8Linear":
        """Quantise a linear map."""
        rows, dtype = map.weight.detach().float(), fast_dtype()
        # rounded up, so that the largest number of a row is 127 at most
        scale = (rows.abs().amax(1) * (1 + torch.finfo(dtype).eps) / 127).clamp(min=1e-30).to(dtype)
        whole = (rows / scale.float().unsqueeze(1)).round().to(torch.int8)
        return cls(whole, scale, None if map.bias is None else map.bias.detach())

    @property
    def weight(self) -> Float[Tensor, "out in"]:  # type: ignore[override]
        return self.whole * self.scale.float().unsqueeze(1)

    def forward(self, x: Float[Tensor, "*rest in"]) -> Float[Tensor, "*rest out"]:
        if x.requires_grad and torch.is_grad_enabled():
            raise Misuse("a model in 8 bits has no gradients: load it in fp32")
        return self.as_computed(x.reshape(-1, self.in_features)).view(*x.shape[:-1], self.out_features).to(x.dtype)

    def as_computed(self, x: Float[Tensor, "N in"]) -> Float[Tensor, "N out"]:
        """Return Wx + b in the precision of the product."""
        out = self.multiply(x)
        return out if self.bias is None else out + self.bias

    def multiply(self, x: Float[Tensor, "N in"]) -> Float[Tensor, "N out"]:
        """Return Wx for each vector."""
        rounded = x.to(self.scale.dtype).contiguous()
        if len(x) > MAX_INT8_ROWS or self.in_features % BLOCK:
            return F.linear(rounded.float(), self.weight)
        return torch._weight_int8pack_mm(rounded, self.whole, self.scale)


class Int8Scores(Int8Linear):
    """An int8 linear map whose outputs are compared with each other: float32 outputs of vectors in 16 bits.

    A vector is the sum of two int8 vectors: coarse steps and their remainder. FBGEMM (x86) multiplies integers, which
    is several times as fast for a large vocabulary.
    """

    def __init__(self, whole: Int8[Tensor, "out in"], scale: Float[Tensor, "out"], bias: Tensor | None) -> None:
        super().__init__(whole, scale, bias)
        self._packed = _pack(whole, scale)
        self._sums = whole.sum(1) * scale.float()
        # without VNNI instructions, sums of int8 products overflow
        self._steps = 255 if torch.cpu._is_vnni_supported() else 127

    def multiply(self, x: Float[Tensor, "N in"]) -> Float[Tensor, "N out"]:
        if self._packed is None:
            return super().multiply(x).float()
        x = x.float()
        # FBGEMM uses the same step size for all vectors, so each is scaled to [0, 1]: x = least + span u.
        least = x.amin(-1, keepdim=True)
        span = (x.amax(-1, keepdim=True) - least).clamp(min=torch.finfo(x.dtype).tiny)
        steps = (x - least) / span * self._steps
        coarse = steps.round()
        halves = torch.cat([coarse / self._steps, steps - coarse + 0.5])
        high, low = torch.ops.quantized.linear_dynamic(halves, self._packed, self._steps == 127).chunk(2)
        least = least - span / (2 * self._steps)
        return torch.addcmul(least * self._sums, span, high + low / self._steps)


def _pack(whole: Tensor, scale: Tensor) -> object:
    """Return the matrix in FBGEMM's form; None without a usable FBGEMM, as on ARM."""
    if (
        not IS_X86
        or torch.backends.quantized.engine not in ("x86", "fbgemm")
        or not hasattr(torch, "quantize_per_channel")
    ):
        return None
    with warnings.catch_warnings():  # a later torch may lack these tensors: see `hasattr` above
        warnings.filterwarnings("ignore", message="torch.quantize_per_tensor, .* are deprecated")
        zeros = torch.zeros(len(scale), dtype=torch.long)
        return torch.ops.quantized.linear_prepack(
            torch._make_per_channel_quantized_tensor(whole, scale.double(), zeros, 0), None
        )


def join_linears(maps: Sequence[Int8Linear]) -> Int8Linear:
    """Join several maps of the same vector into one. They become views of it, so that no weight is stored twice."""
    whole, scale = torch.cat([map.whole for map in maps]), torch.cat([map.scale for map in maps])
    biases: list[Tensor] = [map.bias for map in maps if map.bias is not None]
    assert len(biases) in (0, len(maps)), "all of them have a bias, or none"
    joined = Int8Linear(whole, scale, torch.cat(biases) if biases else None)
    sizes = [map.out_features for map in maps]
    for map, rows, scales in zip(maps, torch.split(whole, sizes), torch.split(scale, sizes), strict=True):
        map.whole, map.scale = rows, scales
    return joined


def to_int8(model: nn.Module) -> int:
    """Quantise the linear maps of a model in place and return the number of their weights.

    Embeddings, of which only a few rows are read, and the bricks of a user stay as they are.
    """
    count = 0
    for module in list(modules_of_ours(model)):
        for name, part in module.named_children():
            if type(part) is nn.Linear:
                kind = Int8Scores if name == "head" else Int8Linear
                setattr(module, name, kind.of(part))
                count += part.weight.numel()
    model.requires_grad_(False)
    return count
