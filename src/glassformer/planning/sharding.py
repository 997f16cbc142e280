"""Trainings on many GPUs, on paper: what each has to hold when a model is copied to all of them, or shared among them.

Glassformer itself copies it, or shares all of it. What is shared, from less to more: what the optimiser remembers, the
gradients too, the weights too (Rajbhandari et al. 2020).
"""

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

from glassformer.planning.capacity import SHARE
from glassformer.planning.training_step import FORWARD, StepMemory, beyond

WAYS = {
    "copied (DDP)": "every GPU holds everything; the gradients a second time, in buckets that are exchanged",
    "optimiser shared (ZeRO-1)": "each GPU remembers and updates its share of the weights",
    "optimiser and gradients shared (ZeRO-2)": "each also keeps only its share of the gradients",
    "all of it shared (FSDP, ZeRO-3)": "weights too: those of a block are gathered when it is its turn",
    "shared in each node (hybrid, HSDP)": "as FSDP among the 8 GPUs of a node; only gradients go between nodes",
}
COPIED, OPTIMISER, GRADIENTS, ALL, HYBRID = WAYS

NODE = 8
"""GPUs of a node."""

MOST = 2**30
"""GPUs that are thought of."""

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
    """What comes to it from others in an update; where each node shares by itself, from other nodes."""

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
        """Each way to hold it on so many GPUs."""
        needs, gpus = self.needs, self.gpus

        def shared(count: int, among: int = gpus) -> int:
            return -(-count // among)

        def from_others(count: int, among: int = gpus) -> int:
            return count * (among - 1) // among

        outside = needs.weights - needs.layers * needs.block
        gathered = outside + int(self.gathered_in * 2 * needs.block)
        # gradients are whole until they are exchanged: a layer's at once, the rest after the backward pass, when they
        # are copied to be sent, and activations are gone (of several pieces, all of them after the last one)
        last_gradients = max(0, needs.gradients - needs.layers * needs.block)
        # the layers once in the forward pass and once in the backward pass, the rest for both
        in_passes = self.pieces * (int(self.gathered_in * 2 * needs.layers * needs.block) + outside)
        in_update = 2 * shared(self.orthogonalised)  # a share of each matrix there, a share of its update back
        averaged = 2 * from_others(needs.gradients)
        updated = from_others(needs.gradients) + from_others(needs.weights)
        buckets = needs.gradients if self.gpus > 1 else 0
        remembered = needs.optimiser + needs.average
        kept = needs.rest + needs.layers * (needs.layer + needs.copies)
        kept_of_shared = needs.rest + needs.layers * needs.layer + (needs.copies if needs.layers else 0)
        again = needs.rest + needs.layers * needs.border + (needs.layer + needs.copies if needs.layers else 0)
        of_weights = (needs.weights, needs.gradients + buckets)
        less = shared(needs.gradients) + needs.block

        def fully(name: str, among: int, exchanged: int) -> Sharding:
            weights = shared(needs.weights, among) + gathered
            whole = needs.gradients if self.pieces > 1 else shared(needs.gradients, among) + last_gradients
            activations, fewest = max(last_gradients, kept_of_shared), max(last_gradients, again)
            states = (weights, whole + needs.block, shared(remembered, among))
            return Sharding(name, *states, activations, fewest, exchanged)

        ways = [
            Sharding(COPIED, *of_weights, remembered, kept, again, averaged),
            Sharding(OPTIMISER, *of_weights, shared(remembered), kept, again, updated),
            Sharding(GRADIENTS, needs.weights, less, shared(remembered), kept, again, updated),
            fully(ALL, gpus, from_others(in_passes) + from_others(needs.gradients) + from_others(in_update)),
        ]
        if gpus > NODE and gpus % NODE == 0:
            between = 2 * from_others(shared(needs.gradients, NODE), gpus // NODE)
            ways.append(fully(HYBRID, NODE, between))
        return ways

    @property
    def room(self) -> int:
        return int(SHARE * self.memory * 2**30)

    @property
    def least(self) -> tuple[Sharding, bool] | None:
        """Of the ways that glassformer trains, the least sharing that fits, and whether activations must be computed
        again; None: nothing fits.
        """
        ways = [way for way in self.ways if way.name in (COPIED, ALL)]
        return next(((way, again) for way in ways for again in (False, True) if self.fits(way, again)), None)

    def fits(self, way: Sharding, again: bool) -> bool:
        return way.total(again=again) <= self.room

    @property
    def gpus_needed(self) -> int | None:
        """The fewest on which it fits with everything shared; None: no number of them is enough."""

        def enough(gpus: int) -> bool:
            return any(self.fits(way, True) for way in replace(self, gpus=gpus).ways)

        fewer = bisect_left(range(1, MOST), True, key=enough)
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
