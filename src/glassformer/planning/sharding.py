"""Trainings on many GPUs, on paper: what each has to hold when a model is copied to all of them, or shared among them.

Glassformer itself copies it. What is shared, from less to more: what the optimiser remembers, the gradients too, the
weights too (Rajbhandari et al. 2020).
"""

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from glassformer.planning.available_memory import SHARE
from glassformer.planning.training_step import FORWARD, StepMemory

WAYS = {
    "copied (DDP)": "every GPU holds everything; the gradients a second time, in buckets that are exchanged",
    "optimiser shared (ZeRO-1)": "each GPU remembers and updates its share of the weights",
    "optimiser and gradients shared (ZeRO-2)": "each also keeps only its share of the gradients",
    "all of it shared (FSDP, ZeRO-3)": "weights too: those of a block are gathered when it is its turn",
}
COPIED, OPTIMISER, GRADIENTS, ALL = WAYS

MOST = 2**30
"""GPUs that are thought of."""

StepMemoryOf = Callable[[int, int], StepMemory]
"""Of a model with so many layers, on so many examples."""


@dataclass(frozen=True)
class LayerwiseMemory:
    """What a step needs, taken apart: what grows with layers and examples, and what does not. Bytes."""

    weights: int
    block: int
    """Of the weights, those of one layer."""
    gradients: int
    optimiser: int
    average: int
    rest: int
    """Activations outside the layers, and what is needed beside them at the fullest moment."""
    layer: int
    """Activations of one layer, copies of its weights in lower precision left out."""
    copies: int
    """Those, of one layer."""
    border: int
    """What goes into a layer: all that is kept of it when activations are computed again."""
    layers: int


@dataclass(frozen=True)
class Sharding:
    """What each GPU holds, in bytes."""

    name: str
    weights: int
    gradients: int
    optimiser: int
    activations: int
    again: int
    """Activations where only what goes into each layer is kept, and the rest computed again."""

    @property
    def states(self) -> int:
        return self.weights + self.gradients + self.optimiser

    def total(self, *, again: bool = False) -> int:
        return self.states + (self.again if again else self.activations)


def layerwise_memory(needs: StepMemoryOf, layers: int, rows: int, border: int) -> LayerwiseMemory:
    """From models of one and two layers, which are alike. `border`: bytes that go into a layer.

    `layers` 0: those of this model are not alike, and it is taken as a whole.
    """
    if not layers:
        whole = needs(0, rows)
        rest = _activations(whole)
        return LayerwiseMemory(whole.weights, 0, whole.gradients, whole.optimiser, whole.average, rest, 0, 0, 0, 0)
    one, two = needs(1, rows), needs(2, rows)
    fewer, more = (needs(1, 2 * rows), needs(2, 2 * rows))
    layer = two.kept - one.kept
    per_row = (more.kept - fewer.kept) - layer  # what as many examples again add to a layer: no copy of a weight
    beyond = layers - 1

    def at(name: str) -> int:
        first, second = getattr(one, name), getattr(two, name)
        return int(first + beyond * (second - first))

    return LayerwiseMemory(
        weights=at("weights"),
        block=two.weights - one.weights,
        gradients=at("gradients"),
        optimiser=at("optimiser"),
        average=at("average"),
        rest=_activations(one) - layer,
        layer=per_row,
        copies=layer - per_row,
        border=border,
        layers=layers,
    )


def _activations(needs: StepMemory) -> int:
    """The most of them in the forward pass, the scores of the vocabulary among them, and the batch."""
    return max(needs.kept, needs.peaks[FORWARD] - needs.lasting)


def ways(found: LayerwiseMemory, gpus: int) -> list[Sharding]:
    """Each way to hold it on so many GPUs."""

    def shared(count: int) -> int:
        return -(-count // gpus)

    outside = found.weights - found.layers * found.block
    gathered = 0 if gpus == 1 else min(found.weights, outside + 2 * found.block)
    buckets = found.gradients if gpus > 1 else 0
    remembered = found.optimiser + found.average
    kept = found.rest + found.layers * (found.layer + found.copies)
    kept_of_shared = found.rest + found.layers * found.layer + (found.copies if found.layers else 0)
    again = found.rest + found.layers * found.border + (found.layer + found.copies if found.layers else 0)
    return [
        Sharding(COPIED, found.weights, found.gradients + buckets, remembered, kept, again),
        Sharding(OPTIMISER, found.weights, found.gradients + buckets, shared(remembered), kept, again),
        Sharding(GRADIENTS, found.weights, shared(found.gradients) + found.block, shared(remembered), kept, again),
        Sharding(
            ALL,
            shared(found.weights) + gathered,
            shared(found.gradients) + found.block,
            shared(remembered),
            kept_of_shared,
            again,
        ),
    ]


@dataclass(frozen=True)
class Cluster:
    """A training on GPUs that need not be here."""

    gpus: int
    memory: float
    """GiB of each."""
    rows: int
    """Examples that each computes at once."""
    found: LayerwiseMemory
    flops: float
    """TFLOP/s that each is taken to reach."""

    @property
    def ways(self) -> list[Sharding]:
        return ways(self.found, self.gpus)

    @property
    def room(self) -> int:
        return int(SHARE * self.memory * 2**30)

    @property
    def least(self) -> tuple[Sharding, bool] | None:
        """The least sharing that fits, and whether activations must be computed again; None: nothing fits."""
        return next(((way, again) for way in self.ways for again in (False, True) if self.fits(way, again)), None)

    def fits(self, way: Sharding, again: bool) -> bool:
        return way.total(again=again) <= self.room

    @property
    def gpus_needed(self) -> int | None:
        """The fewest on which it fits with everything shared; None: no number of them is enough."""

        def enough(gpus: int) -> bool:
            return any(self.fits(way, True) for way in ways(self.found, gpus))

        fewer = bisect_left(range(1, MOST), True, key=enough)
        return fewer + 1 if enough(fewer + 1) else None

    def seconds(self, flops: float) -> float:
        """With a second forward pass, a third of the work, where activations must be computed again."""
        again = self.least is not None and self.least[1]
        return flops * (4 / 3 if again else 1) / (self.gpus * self.flops * 1e12)

    def to_dict(self) -> dict[str, Any]:
        least = self.least
        return {
            "gpus": self.gpus,
            "memory_gib": self.memory,
            "examples_per_gpu": self.rows,
            "tflops_per_gpu": self.flops,
            "ways": [
                {
                    **asdict(way),
                    "total": way.total(),
                    "total_again": way.total(again=True),
                    "fits": self.fits(way, False),
                    "fits_again": self.fits(way, True),
                }
                for way in self.ways
            ],
            "least": None if least is None else {"way": least[0].name, "again": least[1]},
            "gpus_needed": self.gpus_needed,
        }
