"""How rotary positions are slowed down for texts longer than those a model was first trained on."""

from dataclasses import dataclass

from glassformer.config.errors import SettingError
from glassformer.config.names import unknown

KINDS = ("linear", "llama3")


@dataclass(frozen=True)
class Scaling:
    kind: str
    factor: float
    """How many times slower."""
    low: float = 1.0
    """`llama3`: a wave that comes round so often within the first context, or less, is slowed in full."""
    high: float = 4.0
    """`llama3`: one that comes round so often, or more, not at all."""
    context: int = 8192
    """`llama3`: tokens of the first context."""

    @classmethod
    def read(cls, text: str) -> "Scaling":
        """`linear:4`, or `llama3:8:1:4:8192` (factor, low, high, first context)."""
        kind, *numbers = text.split(":")
        if kind not in KINDS:
            raise SettingError(unknown("model.rotary_scaling", kind, KINDS))
        try:
            if kind == "linear":
                (factor,) = map(float, numbers)
                scaling = cls(kind, factor)
            else:
                factor, low, high, context = map(float, numbers)
                scaling = cls(kind, factor, low, high, int(context))
            fits = scaling.factor >= 1 and 0 < scaling.low < scaling.high and scaling.context > 0
        except (ValueError, OverflowError):
            fits = False
        if not fits:
            raise SettingError(
                f"model.rotary_scaling wants linear:FACTOR or llama3:FACTOR:LOW:HIGH:CONTEXT, not '{text}'"
            )
        return scaling

    def __str__(self) -> str:
        numbers = [self.factor] if self.kind == "linear" else [self.factor, self.low, self.high, self.context]
        return ":".join([self.kind, *(str(number).removesuffix(".0") for number in numbers)])
