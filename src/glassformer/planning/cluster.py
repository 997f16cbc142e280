"""A plan for GPUs that need not be here."""

from functools import partial

import torch
from torch import Tensor, nn

from glassformer.config.errors import SettingError
from glassformer.encoders.transformer import Block
from glassformer.models.build import learned_count, parameter_count
from glassformer.planning.available_memory import SHARE
from glassformer.planning.compute import training_compute
from glassformer.planning.parameters import parameters_by_part, tied
from glassformer.planning.plan import Plan
from glassformer.planning.setup import PlannedTraining
from glassformer.planning.sharding import Cluster, layerwise_memory
from glassformer.planning.training_step import (
    Piece,
    StepDevice,
    StepMemory,
    as_fake,
    fake_tensors,
    resized,
    step_memory,
)


def cluster_plan(planned: PlannedTraining, gpus: int, memory: float, flops: float) -> Plan:
    config, training = planned.config, planned.config.training
    if training.batch_tokens is None and training.batch_size % (gpus * training.accumulation_steps):
        raise SettingError(
            f"training.batch_size {training.batch_size} cannot be shared evenly by {gpus} GPUs with "
            f"training.accumulation_steps {training.accumulation_steps}: a multiple of "
            f"{gpus * training.accumulation_steps} can"
        )
    precision = "bf16" if training.precision == "auto" else training.precision
    where = StepDevice(torch.device("cuda"), precision, stand_in=True)
    with fake_tensors(where):
        model = planned.build(config)
        parts, shared = parameters_by_part(model), tied(model)
        count, learned = parameter_count(model), learned_count(model)
    rows = max(1, planned.batch // (gpus * training.accumulation_steps))

    def of(layers: int, some: int) -> StepMemory:
        sized = planned.with_blocks(layers) if layers else config
        piece = resized(planned.piece, some)
        return step_memory(partial(planned.build, sized), planned.task, piece, training, where)

    border = _border(planned, resized(planned.piece, rows), where) if planned.blocks else 0
    found = layerwise_memory(of, planned.blocks or 0, rows, border)
    paper = Cluster(gpus, memory, rows, found, flops)
    work = training_compute(planned, None)
    return Plan(
        config=config,
        about=planned.about,
        parameters=count,
        learned=learned,
        parts=parts,
        tied=shared,
        work=work,
        seconds=None if work.all_flops is None else paper.seconds(work.all_flops),
        notes=_assumed(paper, precision),
        paper=paper,
    )


def _border(planned: PlannedTraining, piece: Piece, where: StepDevice) -> int:
    """Bytes that go into a layer, of a translator into one of each side."""
    found: list[int] = []

    def look(block: nn.Module, given: tuple[Tensor, ...]) -> None:
        found.append(given[0].numel() * given[0].element_size())

    with fake_tensors(where), where.autocast(), torch.no_grad():
        model = planned.build(planned.with_blocks(1))
        for block in model.modules():
            if isinstance(block, Block):
                block.register_forward_pre_hook(look)
        planned.task.loss(model, *as_fake(piece, where))
    return sum(found)


def _assumed(paper: Cluster, precision: str) -> tuple[str, ...]:
    return (
        f"Assumed: weights, gradients and the optimiser's memory in float32, as glassformer has them, matrix products "
        f"in {precision}; attention in one pass that holds no T×T weights; {paper.rows:,} "
        f"example{'s' * (paper.rows != 1)} at once on each GPU, of whose memory {1 - SHARE:.0%} stays free; the "
        "working memory of the update is not counted.",
        f"Time: each GPU reaches {paper.flops:g} TFLOP/s (--flops), and waits for no other; a forward pass that is "
        "gone through again is a third more work.",
        "Glassformer trains with copies on every GPU (torchrun); sharing is on paper.",
    )
