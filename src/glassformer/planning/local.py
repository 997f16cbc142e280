"""A plan for this machine."""

from dataclasses import replace
from functools import partial

from glassformer.config.errors import Say
from glassformer.models.build import learned_count, parameter_count, sized
from glassformer.planning.available_memory import available_memory, fit
from glassformer.planning.compute import seconds_to_end, training_compute
from glassformer.planning.parameters import parameters_by_part, tied
from glassformer.planning.plan import Plan
from glassformer.planning.probe import probe
from glassformer.planning.setup import CPU, PlannedTraining
from glassformer.planning.training_step import (
    CANNOT,
    StepDevice,
    StepMemory,
    fake_tensors,
    has_recurrent_layers,
    measure_step_memory,
    step_memory,
)
from glassformer.training.device import choose_compile, choose_device, choose_precision

PRETENDED = "Memory is that of all tensors of a step, which was gone through without computing a number."
TRIED = "Memory is that of a real step on a few examples: not all kernels here say beforehand what they keep."
WORKING = "what kernels need for themselves (cuBLAS 8 to 32 MiB, cuDNN more or less by layer)"
COMPILED = (
    "The step will be compiled, and these numbers are of one that is not: a compiled step holds less (on an H200, 43 "
    "to 79 % of what is planned)."
)


def local_plan(planned: PlannedTraining, memory: float | None, measure_speed: bool, say: Say) -> Plan:
    """`measure_speed`: the speed, from a few seconds of training."""
    config, training = planned.config, planned.config.training
    device = choose_device(training.device)
    where = StepDevice(device, choose_precision(training.precision, device).name)
    with fake_tensors(where):
        model = planned.build(config)
        parts, shared = parameters_by_part(model), tied(model)
        count, learned = parameter_count(model), learned_count(model)
    say(f"planning: {sized(count, learned)}, {planned.batch:,} examples in the largest batch")
    steps = _StepMemories(planned, where, really=device == CPU and has_recurrent_layers(model))
    rows = -(-planned.batch // training.accumulation_steps)
    asked = steps.needs(rows, training.accumulation_steps)
    room = available_memory(device, memory)
    found = fit(asked, rows, training.accumulation_steps, _pieces(planned), room, steps.needs)
    speed = None
    if measure_speed and found.accumulation_steps:
        say("trying out a few updates (--no-probe leaves that out)")
        speed = probe(
            planned.family,
            planned.model(say),
            planned.task,
            replace(training, accumulation_steps=found.accumulation_steps),
            device,
        )
    work = training_compute(planned, speed)
    return Plan(
        config=config,
        about=planned.about,
        parameters=count,
        learned=learned,
        parts=parts,
        tied=shared,
        work=work,
        needs=asked,
        room=room,
        fit=found,
        speed=speed,
        seconds=seconds_to_end(planned, work, speed),
        notes=_notes(steps, where),
    )


class _StepMemories:
    """Steps of a training that is not begun: on tensors without numbers, or where that cannot be on real ones."""

    def __init__(self, planned: PlannedTraining, where: StepDevice, *, really: bool) -> None:
        self.planned = planned
        self.where = where
        self.really = really

    def needs(self, rows: int, pieces: int) -> StepMemory:
        """Of a batch in so many pieces, each with so many rows of the largest batch."""
        planned = self.planned
        build, training = partial(planned.build, planned.config), planned.config.training
        piece = planned.rows(rows)
        if not self.really:
            try:
                return step_memory(build, planned.task, piece, training, self.where, pieces=pieces)
            except CANNOT:
                self.really = True
        where = StepDevice(CPU, self.where.precision)
        return measure_step_memory(build, planned.task, piece, training, where, pieces=pieces)


def _pieces(planned: PlannedTraining) -> list[int]:
    """Into how many pieces a batch can be cut."""
    training = planned.config.training
    if training.batch_tokens is not None:
        return list(range(1, planned.batch + 1))
    return [count for count in range(1, training.batch_size + 1) if training.batch_size % count == 0]


def _notes(steps: _StepMemories, where: StepDevice) -> tuple[str, ...]:
    """What the numbers are of, and what is not in them."""
    cuda = where.device.type == "cuda"
    how = TRIED if steps.really else PRETENDED
    kernels = WORKING if cuda else "what a kernel needs for itself"
    said = f"{how} Beside it stand {kernels}, and about half a GiB for {'torch and CUDA' if cuda else 'torch'}."
    planned = steps.planned
    compiled = choose_compile(planned.config.training, where.device, planned.updates, steady=planned.task.steady)
    return (said,) if compiled == "off" else (said, COMPILED)
