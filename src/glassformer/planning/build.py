"""Create the plan of a training run, for this machine or for a cluster of GPUs."""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.bricks.capabilities import parts_with
from glassformer.config.errors import SettingError
from glassformer.config.messages import say
from glassformer.config.model_section import RECURRENT
from glassformer.data.io.place import short_name
from glassformer.data.wording import counted
from glassformer.encoders.base import StackedBlock
from glassformer.models.build import learned_count, parameter_count, sized
from glassformer.planning import capacity, training_step
from glassformer.planning.compute import parameters_by_part, probe, tied, time_plan, training_compute
from glassformer.planning.plan import Plan, sentence
from glassformer.planning.setup import CPU, PlannedTraining
from glassformer.planning.sharding import Cluster, layerwise_memory
from glassformer.planning.training_step import Step, StepDevice, StepMemory
from glassformer.training.device import choose_compile, choose_device, choose_precision
from glassformer.training.optimiser import Optimiser


def about_plan(planned: PlannedTraining) -> str:
    """Return the name of the data and the task."""
    config = planned.config
    where = config.data.path or config.data.source_file
    return f"{short_name(where) if where else 'tokens on paper'} ({config.task})"


def _plan(planned: PlannedTraining, model: nn.Module, **more: Any) -> Plan:
    """Return the plan of a model, which may have fake tensors."""
    config = planned.config
    return Plan(
        config=config,
        about=f"{config.model.encoder} on {about_plan(planned)}",
        parameters=parameter_count(model),
        learned=learned_count(model),
        parts=parameters_by_part(model),
        tied=tied(model),
        **more,
    )


# --- this machine ---


def local_plan(planned: PlannedTraining, memory: float | None, measure_speed: bool) -> Plan:
    """Return a plan for this machine.

    `memory`: GiB to plan with (None: memory of the device). `measure_speed`: train for a few seconds to estimate times.
    """
    config, training = planned.config, planned.config.training
    device = choose_device(training.device)
    room = capacity.available_memory(device, memory)
    where = StepDevice(device, choose_precision(training.precision, device).name)
    real_steps = device == CPU and config.model.encoder in RECURRENT
    if real_steps or config.model.layers > capacity.MAX_BUILT_LAYERS:
        capacity.refuse_too_large(config, *capacity.model_bytes(config, planned.build), room)
    with training_step.fake_tensors(where):
        model = planned.build(config)
    model_size = sized(parameter_count(model), learned_count(model))
    say(f"planning: {model_size}, {counted(planned.batch, 'example')} in the largest batch")
    steps = _StepMemories(planned, where, really=device == CPU and training_step.has_recurrent_layers(model))
    rows = -(-planned.batch // training.accumulation_steps)
    needs = steps.needs(rows, training.accumulation_steps)
    batch_fit = capacity.fit(needs, rows, training.accumulation_steps, _pieces(planned), room, steps.needs)
    speed = None
    if measure_speed and batch_fit.accumulation_steps:
        say("trying out a few updates (--no-probe leaves that out)")
        settings = replace(training, accumulation_steps=batch_fit.accumulation_steps)
        speed = probe(planned.family, planned.model(), planned.task, settings, device)
    times = None if speed is None else time_plan(planned, speed)
    return _plan(
        planned,
        model,
        work=training_compute(planned, times),
        times=times,
        needs=needs,
        room=room,
        fit=batch_fit,
        speed=speed,
        seconds=None if times is None else times.total,
        notes=_notes(steps),
    )


def gpu_step_bytes(planned: PlannedTraining) -> int | None:
    """Return the peak bytes of a step on a GPU, which need not be present; None if fake tensors cannot simulate it."""
    training = planned.config.training
    where = _paper_gpu(training.precision)
    rows = -(-planned.batch // training.accumulation_steps)
    try:
        return _StepMemories(planned, where, really=False).pretended(rows, training.accumulation_steps).peak
    except training_step.CANNOT:
        return None


def _paper_gpu(precision: str) -> StepDevice:
    return StepDevice(torch.device("cuda"), "bf16" if precision == "auto" else precision, stand_in=True)


@dataclass
class _StepMemories:
    """Memory of the steps of a planned training run, from fake tensors or, if needed, from real steps."""

    planned: PlannedTraining
    where: StepDevice
    really: bool

    def needs(self, rows: int, pieces: int) -> StepMemory:
        """Return the memory of a step with a batch of `pieces` pieces, each with `rows` rows of the largest batch."""
        if not self.really:
            try:
                return self.pretended(rows, pieces)
            except training_step.CANNOT:
                self.really = True
        return training_step.measure_step_memory(
            replace(self._step(rows, pieces), where=StepDevice(CPU, self.where.precision))
        )

    def pretended(self, rows: int, pieces: int) -> StepMemory:
        """Return the memory of the same step, simulated with fake tensors."""
        planned, layers = self.planned, self.planned.blocks or 0
        two_stacks = planned.family.has_decoder or planned.config.training.l2  # the penalty visits all layers again
        step = self._step(rows, pieces)
        if layers > training_step.LAYERS + 1 and not two_stacks:
            return training_step.layered_step_memory(
                lambda count: replace(step, build=partial(planned.build, planned.with_blocks(count))), layers
            )
        return training_step.step_memory(step)

    def _step(self, rows: int, pieces: int) -> Step:
        planned = self.planned
        build, settings = partial(planned.build, planned.config), planned.config.training
        return Step(build, planned.task, planned.rows(rows), settings, self.where, pieces)


def _pieces(planned: PlannedTraining) -> list[int]:
    """Return possible numbers of equal pieces of a batch; powers of two if the batch is measured in tokens."""
    training, batch = planned.config.training, planned.batch
    if training.batch_tokens is not None:
        return [2**power for power in range(batch.bit_length())]
    return [count for count in range(1, training.batch_size + 1) if training.batch_size % count == 0]


def _notes(steps: _StepMemories) -> tuple[str, ...]:
    """Return notes on how memory was determined and what it does not include."""
    planned, device = steps.planned, steps.where.device
    kernels, libraries = "what a kernel needs for itself", "torch"
    if device.type == "cuda":
        kernels = "what kernels need for themselves (cuBLAS 8 to 32 MiB, cuDNN more or less by layer)"
        libraries = "torch and CUDA"
    memory = sentence("measured" if steps.really else "simulated", kernels=kernels, libraries=libraries)
    compiled = choose_compile(planned.config.training, device, planned.updates, steady=planned.task.steady)
    return (memory,) if compiled == "off" else (memory, sentence("compiled"))


# --- a cluster of GPUs ---


def cluster_plan(
    planned: PlannedTraining, gpus: int, memory: float, flops: float, bandwidth: float, price: float | None
) -> Plan:
    """Return a plan for a number of GPUs, which need not be present.

    Per GPU, `memory` is in GiB, `flops` in TFLOP/s and `bandwidth` in GB/s. `price` is per GPU hour.
    """
    config, training = planned.config, planned.config.training
    if training.batch_tokens is None and training.batch_size < gpus * training.accumulation_steps:
        raise SettingError(
            f"training.batch_size {training.batch_size} is too small for {gpus} GPUs with "
            f"training.accumulation_steps {training.accumulation_steps}: {gpus * training.accumulation_steps} or more"
        )
    where = _paper_gpu(training.precision)
    with training_step.fake_tensors(where):
        model = planned.build(config)
        orthogonalised = sum(weight.nbytes for weight in Optimiser(model, training).orthogonalised)
    rows = -(-planned.batch // (gpus * training.accumulation_steps))

    def needs(layers: int, rows: int) -> StepMemory:
        build = partial(planned.build, planned.with_blocks(layers) if layers else config)
        return training_step.step_memory(
            Step(build, planned.task, training_step.resized(planned.piece, rows), training, where)
        )

    border = _border(planned, training_step.resized(planned.piece, rows), where) if planned.blocks else 0
    layerwise = layerwise_memory(needs, planned.blocks or 0, rows, border)
    half = 1.0 if where.precision == "fp32" else 0.5
    pieces = training.accumulation_steps
    paper = Cluster(gpus, memory, rows, layerwise, flops, bandwidth, pieces, half, orthogonalised)
    work = training_compute(planned, None)
    return _plan(
        planned,
        model,
        work=work,
        price=price,
        seconds=None if work.all_flops is None else paper.seconds(work.all_flops, work.updates or 0),
        notes=_assumptions(paper, where.precision),
        paper=paper,
    )


def _border(planned: PlannedTraining, piece: training_step.Piece, where: StepDevice) -> int:
    """Return the bytes of a layer's input; for a translator, the sum over one encoder layer and one decoder layer."""
    sizes: list[int] = []

    def look(block: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        sizes.append(inputs[0].nbytes)

    with training_step.fake_tensors(where), where.autocast(), torch.no_grad():
        model = planned.build(planned.with_blocks(1))
        for path, _ in parts_with(model, StackedBlock):
            model.get_submodule(path).register_forward_pre_hook(look)
        planned.task.loss(model, *training_step.as_fake(piece, where))
    return sum(sizes)


def _assumptions(paper: Cluster, precision: str) -> tuple[str, ...]:
    rows = counted(paper.rows, "example")
    return (
        sentence("cluster: memory", precision=precision, rows=rows, free=1 - capacity.SHARE),
        sentence("cluster: speed", flops=paper.flops, bandwidth=paper.bandwidth),
        sentence("cluster: methods"),
    )
