"""Estimates for training on many GPUs: memory and exchange per GPU if the model is copied or sharded."""

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

from glassformer.planning.capacity import SHARE
from glassformer.planning.training_step import FORWARD, StepMemory, beyond

WAYS = {
    "copied (DDP)": "every GPU holds everything, and the gradients a second time in buckets for the exchange",
    "sharded (FSDP)": "each GPU holds a shard of weights, gradients and optimiser; block weights are gathered for use",
}
COPIED, ALL = WAYS

NODE = 8
"""Number of GPUs per node."""

MAX_GPUS = 2**30
"""Largest number of GPUs that `gpus_needed` tries."""

StepMemoryOf = Callable[[int, int], StepMemory]
"""Function that returns the memory of a step, given the numbers of layers and examples."""


@dataclass(frozen=True)
class LayerwiseMemory:
    """Bytes of a step, divided into parts that grow with layers and examples, and a rest."""

    weights: int
    gradients: int
    optimiser: int
    average: int
    rest: int
    """Activations outside the layers, and temporary memory at the peak."""
    block: int = 0
    """Weights of one layer."""
    layer: int = 0
    """Activations of one layer, without copies of its weights in lower precision."""
    copies: int = 0
    """Copies of one layer's weights in lower precision."""
    border: int = 0
    """Inputs of a layer, which are kept when activations are recomputed."""
    layers: int = 0


@dataclass(frozen=True)
class Sharding:
    """Bytes that each GPU holds if a model is copied or sharded."""

    name: str
    weights: int
    gradients: int
    optimiser: int
    activations: int
    again: int
    """Activations if only the inputs of each layer are kept and the rest is recomputed."""
    exchanged: int = 0
    """Bytes that a GPU receives from others per update."""

    def total(self, *, again: bool = False) -> int:
        return self.weights + self.gradients + self.optimiser + (self.again if again else self.activations)


def layerwise_memory(needs: StepMemoryOf, layers: int, rows: int, border: int) -> LayerwiseMemory:
    """Return the memory of a model, extrapolated from models of one and two layers. `border`: input bytes of a layer.

    `layers` is 0 for a model whose layers differ, which is measured as a whole.
    """
    if not layers:
        whole = needs(0, rows)
        return LayerwiseMemory(whole.weights, whole.gradients, whole.optimiser, whole.average, _activations(whole))
    one, two = needs(1, rows), needs(2, rows)
    fewer, more = needs(1, 2 * rows), needs(2, 2 * rows)
    layer = two.kept - one.kept
    per_row = (more.kept - fewer.kept) - layer  # activations grow with the examples, copies of weights do not
    whole = beyond(one, two, layers - 1)
    states = (whole.weights, whole.gradients, whole.optimiser, whole.average)
    rest, block = _activations(one) - layer, two.weights - one.weights
    return LayerwiseMemory(*states, rest, block, per_row, copies=layer - per_row, border=border, layers=layers)


def _activations(needs: StepMemory) -> int:
    """Return the peak of activations in the forward pass, including the scores of the vocabulary, and the batch."""
    return max(needs.kept, needs.peaks[FORWARD] - needs.lasting)


@dataclass(frozen=True)
class Cluster:
    """GPUs of a planned training run, which need not be present."""

    gpus: int
    memory: float
    """GiB per GPU."""
    rows: int
    """Number of examples that each GPU processes at once."""
    needs: LayerwiseMemory
    flops: float
    """Assumed TFLOP/s per GPU."""
    bandwidth: float = 50.0
    """GB/s that each GPU receives from others."""
    pieces: int = 1
    """Accumulation steps; weights are gathered for each of them."""
    gathered_in: float = 0.5
    """Size of a gathered layer weight relative to the stored one; other weights are gathered at full size."""
    orthogonalised: int = 0
    """Bytes of the matrices that Muon orthogonalises, each as a whole on one of the GPUs that share it."""

    @property
    def ways(self) -> list[Sharding]:
        """Return the memory per GPU if the model is copied, and if it is sharded."""
        needs = self.needs

        def shard(count: int) -> int:
            return -(-count // self.gpus)

        def received(count: int) -> int:
            return count * (self.gpus - 1) // self.gpus

        in_layers, copies = needs.layers * needs.block, needs.copies if needs.layers else 0
        outside = needs.weights - in_layers
        gathered = outside + int(self.gathered_in * 2 * needs.block)
        # Gradients are whole until they are exchanged. Gradients of a layer are exchanged during the backward pass, all
        # others after it, when activations are freed. With several pieces, the exchange follows the last piece.
        last_gradients = max(0, needs.gradients - in_layers)
        gradients = shard(needs.gradients) + last_gradients if self.pieces == 1 else needs.gradients
        # Layers are gathered once in the forward pass and once in the backward pass, other weights once for both.
        in_passes = self.pieces * (int(self.gathered_in * 2 * in_layers) + outside)
        in_update = 2 * shard(self.orthogonalised)  # shares of each matrix are sent, shares of its update come back
        remembered = needs.optimiser + needs.average
        kept = needs.rest + needs.layers * needs.layer
        again = needs.rest + needs.layers * needs.border + (needs.layer if needs.layers else 0) + copies
        buckets = needs.gradients if self.gpus > 1 else 0
        copied = (needs.weights, needs.gradients + buckets, remembered, kept + needs.layers * needs.copies, again)
        sharded = (shard(needs.weights) + gathered, gradients + needs.block, shard(remembered))
        activations = (max(last_gradients, kept + copies), max(last_gradients, again))
        return [
            Sharding(COPIED, *copied, 2 * received(needs.gradients)),
            Sharding(ALL, *sharded, *activations, sum(map(received, (in_passes, needs.gradients, in_update)))),
        ]

    @property
    def room(self) -> int:
        return int(SHARE * self.memory * 2**30)

    @property
    def least(self) -> tuple[Sharding, bool] | None:
        """Return the least sharding that fits, and whether activations must be recomputed; None if nothing fits."""
        return next(((way, again) for way in self.ways for again in (False, True) if self.fits(way, again)), None)

    def fits(self, way: Sharding, again: bool) -> bool:
        return way.total(again=again) <= self.room

    @property
    def gpus_needed(self) -> int | None:
        """Return the smallest number of GPUs on which the model fits; None if no number is enough."""

        def enough(gpus: int) -> bool:
            return any(self.fits(way, True) for way in replace(self, gpus=gpus).ways)

        fewer = bisect_left(range(1, MAX_GPUS), True, key=enough)
        return fewer + 1 if enough(fewer + 1) else None

    def seconds(self, flops: float, updates: float = 0) -> float:
        """Return the seconds of a training run; computing and exchange overlap. `flops`: total of all updates."""
        return max(self.computing(flops), updates * self.exchanging)

    def computing(self, flops: float) -> float:
        """Return the seconds of computing, a third more if activations must be recomputed."""
        again = self.least is not None and self.least[1]
        return flops * (4 / 3 if again else 1) / (self.gpus * self.flops * 1e12)

    @property
    def exchanging(self) -> float:
        """Return the seconds of exchange per update."""
        return 0.0 if self.least is None else self.least[0].exchanged / (self.bandwidth * 1e9)

    def to_dict(self) -> dict[str, Any]:
        least = self.least
        return {
            "gpus": self.gpus,
            "memory_gib": self.memory,
            "examples_per_gpu": self.rows,
            "tflops_per_gpu": self.flops,
            "gb_per_second": self.bandwidth,
            "exchange_seconds_per_update": self.exchanging,
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
