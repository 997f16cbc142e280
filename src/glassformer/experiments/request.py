"""Request of a scaling experiment, checked before PyTorch is imported."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from glassformer.config.errors import Misuse, unknown

MODELS = ("rnn", "lstm", "gru", "window", "cnn", "transformer")
"""Models whose cost can be counted. Each one can be a language model, and knows the order of its tokens."""
PARTS = {
    "time": "time and memory as the text gets longer",
    "gradient": "how much gradient reaches a token far back",
    "recall": "what is remembered over a distance, after a short training",
    "beyond": "positions beyond the length of training",
    "attention": "translating with and without attention, by length",
    "start": "before training: softmax with and without 1/√d, gradient by depth, with and without residual and norm",
}
PART_MODELS = {"beyond": "transformer", "attention": "lstm"}
"""Model that a part trains in several variants, by part. All other parts measure every model of the request."""
CHOSEN = ("rnn", "lstm", "cnn", "transformer")
LENGTHS = (64, 128, 256, 512, 1024, 2048)
WIDTH, LAYERS, MINUTES = 64, 2, 3.0
HEADS = 4


@dataclass(frozen=True, kw_only=True)
class ScalingRequest:
    """Request to measure models at several lengths: models, lengths, parts and time."""

    models: Sequence[str] = CHOSEN
    lengths: Sequence[int] = LENGTHS
    parts: Sequence[str] = tuple(PARTS)
    width: int = WIDTH
    """Width of the Transformer. Other models get the width that gives them about as many weights."""
    layers: int = LAYERS
    """Number of layers of the Transformer. Other models have their default number."""
    minutes: float = MINUTES
    """Approximate minutes for all parts on two cores. Updates and the maximum duration of a step scale with it."""
    seed: int = 0
    device: str = "auto"

    def __post_init__(self) -> None:
        _check_names("model", "--models", self.models, MODELS)
        _check_names("part", "--parts", self.parts, PARTS)
        for part in self.parts:
            if PART_MODELS.get(part, self.models[0]) not in self.models:
                raise Misuse(
                    f"--parts {part} measures the {PART_MODELS[part]} only, and --models is {','.join(self.models)}; "
                    f"add {PART_MODELS[part]} to --models or remove {part} from --parts"
                )
        if len(self.lengths) < 2:
            raise Misuse("--lengths wants two lengths at least: growth is what lies between them")
        if (short := self.lengths[0]) < 2:
            raise Misuse(f"--lengths begins with {short}, but a text has at least 2 tokens here")
        for before, after in pairwise(self.lengths):
            if after <= before:
                raise Misuse(f"--lengths must grow, and {after} follows {before}")
        if self.width < 8 or self.width % 8:
            raise Misuse(f"--width is {self.width}, but must be a multiple of 8: {HEADS} heads share it")
        if self.layers < 1:
            raise Misuse(f"--layers is {self.layers}, but must be at least 1")
        if not 0 < self.minutes <= 60 * 24:
            raise Misuse(f"--minutes is {self.minutes:g}, but must be above 0, and a day at most")
        if not 0 <= self.seed < 2**62:
            raise Misuse(f"--seed is {self.seed}, but must lie between 0 and 2^62")

    def updates(self, usual: int) -> int:
        """Return the number of updates in the requested time, given the number in the default time."""
        return max(1, round(self.of_time(usual)))

    def of_time(self, usual: float) -> float:
        """Scale a quantity from the default time to the requested time."""
        return usual * self.minutes / MINUTES


def scaling_request(
    *, models: str | Iterable[str], lengths: str | Iterable[int], parts: str | Iterable[str] | None, **settings: Any
) -> ScalingRequest:
    """Return a request from values as users write them.

    `parts`: None means all parts that measure one of the models. `settings`: other fields of the request.
    """
    names, lengths = names_of(models), lengths_of(lengths)
    chosen = (
        [part for part in PARTS if part not in PART_MODELS or PART_MODELS[part] in names]
        if parts is None
        else names_of(parts)
    )
    return ScalingRequest(models=names, lengths=lengths, parts=chosen, **settings)


def names_of(names: str | Iterable[str]) -> list[str]:
    """Return a list of names, given as a list or as text such as `rnn,lstm`."""
    return [name.strip() for name in (names.split(",") if isinstance(names, str) else names)]


def lengths_of(lengths: str | Iterable[int]) -> list[int]:
    """Return a list of lengths, given as a list or as text such as `64,128`."""
    if not isinstance(lengths, str):
        return [int(length) for length in lengths]
    for word in lengths.split(","):
        if not (word.strip().isascii() and word.strip().isdigit()):
            raise Misuse(f"--lengths wants whole numbers with commas between them, and '{word}' is none")
    return [int(word) for word in lengths.split(",")]


def _check_names(what: str, flag: str, names: Sequence[str], known: Collection[str]) -> None:
    if not names:
        raise Misuse(f"{flag} names no {what} (one of: {', '.join(known)})")
    for number, name in enumerate(names):
        if name not in known:
            raise Misuse(f"{flag}: {unknown(what, name, known)}")
        if name in names[:number]:
            raise Misuse(f"{flag} names {name} twice")
