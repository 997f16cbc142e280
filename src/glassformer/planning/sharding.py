"""Training on many GPUs, on paper: what each GPU holds if the model is copied to all of them or sharded over them."""

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
"""GPUs of a node."""

MAX_GPUS = 2**30
"""Largest number of GPUs that `gpus_needed` tries."""

StepMemoryOf = Callable[[int, int], StepMemory]
"""What a model with so many layers needs, on so many examples."""


@dataclass(frozen=True)
class LayerwiseMemory:
    """What a step needs, taken apart: what grows with layers and examples, and what does not. Bytes."""

    weights: int
    gradients: int
    optimiser: int
    average: int
    rest: int
    """Activations outside the layers, and what is needed beside them at the fullest moment."""
    block: int = 0
    """The weights of one layer."""
    layer: int = 0
    """Activations of one layer, copies of its weights in lower precision left out."""
    copies: int = 0
    """The copies of one layer's weights."""
    border: int = 0
    """What goes into a layer: all that is kept of it when activations are computed again."""
    layers: int = 0


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
    exchanged: int = 0
    """Bytes that it receives from other GPUs in an update."""

    @property
    def states(self) -> int:
        return self.weights + self.gradients + self.optimiser

    def total(self, *, again: bool = False) -> int:
        return self.states + (self.again if again else self.activations)


def layerwise_memory(needs: StepMemoryOf, layers: int, rows: int, border: int) -> LayerwiseMemory:
    """What a model needs, from models of one and two layers, which are alike. `border`: bytes that go into a layer.

    `layers` 0: those of this model are not alike, and it is taken as a whole.
    """
    if not layers:
        whole = needs(0, rows)
        return LayerwiseMemory(whole.weights, whole.gradients, whole.optimiser, whole.average, _activations(whole))
    one, two = needs(1, rows), needs(2, rows)
    fewer, more = needs(1, 2 * rows), needs(2, 2 * rows)
    layer = two.kept - one.kept
    per_row = (more.kept - fewer.kept) - layer  # what as many examples again add to a layer: no copy of a weight
    whole = beyond(one, two, layers - 1)
    return LayerwiseMemory(
        *(whole.weights, whole.gradients, whole.optimiser, whole.average),
        rest=_activations(one) - layer,
        block=two.weights - one.weights,
        layer=per_row,
        copies=layer - per_row,
        border=border,
        layers=layers,
    )


def _activations(needs: StepMemory) -> int:
    """The most of them in the forward pass, the scores of the vocabulary among them, and the batch."""
    return max(needs.kept, needs.peaks[FORWARD] - needs.lasting)


@dataclass(frozen=True)
class Cluster:
    """A training on GPUs that need not be here."""

    gpus: int
    memory: float
    """GiB of each GPU."""
    rows: int
    """Examples that each GPU computes at once."""
    needs: LayerwiseMemory
    flops: float
    """TFLOP/s that each GPU is taken to reach."""
    bandwidth: float = 50.0
    """GB/s that come to each GPU from others."""
    pieces: int = 1
    """Pieces that each GPU computes its part of a batch in: weights are gathered for each of them."""
    gathered_in: float = 0.5
    """Bytes of a layer's weight that is gathered, as a part of those it is kept in; other weights come as they are."""
    orthogonalised: int = 0
    """Bytes of the matrices that Muon makes orthogonal: where they are shared, each as a whole on one of the GPUs."""

    @property
    def ways(self) -> list[Sharding]:
        """What each GPU holds with copies and with shards of the model."""
        needs = self.needs

        def shard(count: int) -> int:
            return -(-count // self.gpus)

        def received(count: int) -> int:
            return count * (self.gpus - 1) // self.gpus

        in_layers, copies = needs.layers * needs.block, needs.copies if needs.layers else 0
        outside = needs.weights - in_layers
        gathered = outside + int(self.gathered_in * 2 * needs.block)
        # Gradients are whole until they are exchanged: those of one layer during the backward pass, the rest after it,
        # when activations are gone. With several pieces, all of them are exchanged after the last one.
        last_gradients = max(0, needs.gradients - in_layers)
        gradients = shard(needs.gradients) + last_gradients if self.pieces == 1 else needs.gradients
        # The layers are gathered once in the forward pass and once in the backward pass, the rest once for both.
        in_passes = self.pieces * (int(self.gathered_in * 2 * in_layers) + outside)
        in_update = 2 * shard(self.orthogonalised)  # a share of each matrix there, a share of its update back
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
        """The fewest on which it fits with everything shared; None: no number of them is enough."""

        def enough(gpus: int) -> bool:
            return any(self.fits(way, True) for way in replace(self, gpus=gpus).ways)

        fewer = bisect_left(range(1, MAX_GPUS), True, key=enough)
        return fewer + 1 if enough(fewer + 1) else None

    def seconds(self, flops: float, updates: float = 0) -> float:
        """How long so much work takes in so many updates: computing and exchanging go on at the same time."""
        return max(self.computing(flops), updates * self.exchanging)

    def computing(self, flops: float) -> float:
        """Seconds of computing; where activations must be computed again, a third more."""
        again = self.least is not None and self.least[1]
        return flops * (4 / 3 if again else 1) / (self.gpus * self.flops * 1e12)

    @property
    def exchanging(self) -> float:
        """Seconds of exchange in an update."""
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
