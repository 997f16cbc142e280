"""A plan: what was found out before a training; as a view, and in sentences."""

from dataclasses import asdict, dataclass
from functools import singledispatch
from pathlib import Path
from typing import Any

from glassformer.config.resolve import Config
from glassformer.config.units import count, duration, size
from glassformer.families.base import FAMILIES, Family
from glassformer.families.language import LanguageFamily
from glassformer.planning.available_memory import AvailableMemory, BatchFit
from glassformer.planning.compute import ENOUGH_TOKENS, TrainingCompute
from glassformer.planning.probe import Speed
from glassformer.planning.sharding import WAYS, Cluster
from glassformer.planning.training_step import StepMemory
from glassformer.rendering.panels import Panel, Table, Words
from glassformer.rendering.view import View
from glassformer.runs.files import write_json

MANY = 1000
"""Times the batch: that so many examples would fit too is not worth saying."""


@dataclass(frozen=True)
class Plan:
    """What a training will take. In a notebook it shows itself."""

    config: Config
    about: str
    """Which model on which data."""
    parameters: int
    learned: int
    """Of these, what is trained."""
    parts: dict[str, int]
    """The parameters by part; they sum up to them."""
    tied: bool
    """The head shares the word vectors' weights."""
    work: TrainingCompute
    notes: tuple[str, ...]
    seconds: float | None
    """To the end, validations included."""
    needs: StepMemory | None = None
    """Of a step, the batch in as many pieces as was asked for; None on paper."""
    room: AvailableMemory | None = None
    fit: BatchFit | None = None
    speed: Speed | None = None
    paper: Cluster | None = None

    def view(self) -> View:
        return _view(self)

    @property
    def words(self) -> list[str]:
        """What it comes to, in sentences."""
        return _sentences(self)

    @property
    def advice(self) -> str | None:
        """What to add to the command, if it would not fit as it is."""
        if self.fit is None or self.fit.accumulation_steps in (0, self.config.training.accumulation_steps):
            return None
        return f"--training.accumulation_steps {self.fit.accumulation_steps}"

    def save(self, path: str | Path) -> None:
        """To .html, .png, .svg, .pdf, or all numbers to .json."""
        if Path(path).suffix.lower() == ".json":
            write_json(Path(path), self.to_dict())
        else:
            self.view().save(path)

    def to_dict(self) -> dict[str, Any]:
        """All numbers, for programs. Bytes, seconds, tokens."""
        work = {**asdict(self.work), "epochs": self.work.epochs, "seen": self.work.seen, "flops": self.work.flops}
        fit = self.fit
        return {
            "about": self.about,
            "words": self.words,
            "parameters": self.parameters,
            "learned": self.learned,
            "parts": self.parts,
            "tied": self.tied,
            "memory": None if self.needs is None else {**asdict(self.needs), "peak": self.needs.peak},
            "room": None if self.room is None else asdict(self.room),
            "fits": None if fit is None else fit.accumulation_steps == self.config.training.accumulation_steps,
            "fit": None
            if fit is None
            else {**asdict(fit), "accumulate": fit.accumulation_steps, "peak": fit.needs.peak},
            "advice": self.advice,
            "work": {**work, "tokens_per_parameter": self.work.per_parameter(self.parameters)},
            "speed": None if self.speed is None else asdict(self.speed),
            "seconds": self.seconds,
            "paper": None if self.paper is None else self.paper.to_dict(),
            "notes": list(self.notes),
            "settings": self.config.to_dict(),
        }

    def _repr_html_(self) -> str:
        return self.view()._repr_html_()


def _view(plan: Plan) -> View:
    panels: list[Panel] = [_parts(plan)]
    if plan.needs is not None:
        panels.append(_memory(plan, plan.needs))
    if plan.paper is not None:
        panels.append(_shared(plan.paper))
    panels.append(_numbers(plan))
    if plan.needs is None:
        panels += [Words(text=note) for note in plan.notes]
    if plan.advice is not None:
        panels.append(Words(title="Add to the command", text=plan.advice, code=True))
    return View(title=f"A plan: {plan.about}", panels=panels, note=" ".join(_sentences(plan)), about=plan.about)


def _sentences(plan: Plan) -> list[str]:
    part = f", {count(plan.learned)} of them learned" if plan.learned < plan.parameters else ""
    said = [f"{count(plan.parameters)} parameters{part}."]
    if plan.paper is not None:
        said.append(_paper_words(plan.paper))
    else:
        said.append(_memory_words(plan))
    said += _work_words(plan)
    if plan.seconds is not None and plan.paper is not None:
        said.append(f"About {duration(plan.seconds)} to the end.")
    elif plan.seconds is not None and plan.speed is not None:
        speed = plan.speed
        said.append(
            f"{duration(speed.update)} an update, {speed.tokens:,.0f} tokens a second ({', '.join(speed.notes)}): "
            f"about {duration(plan.seconds)} to the end, validations included."
        )
    return said


def _memory_words(plan: Plan) -> str:
    assert plan.needs is not None
    assert plan.room is not None
    assert plan.fit is not None
    needs, room, fit = plan.needs, plan.room, plan.fit
    holds = f"A step holds {size(needs.peak)} at most, in the {needs.when}, of the {size(room.bytes)} {room.words}"
    if plan.advice is not None:
        return (
            f"{holds}, which is too much: compute the batch in {fit.accumulation_steps} pieces of {fit.rows:,} "
            f"(--training.accumulation_steps {fit.accumulation_steps}), the same update in {size(fit.needs.peak)}."
        )
    if fit.accumulation_steps:
        worth_saying = fit.rows < fit.most_rows <= MANY * fit.rows
        more = f"; about {fit.most_rows:,} examples at once would too" if worth_saying else ""
        return f"{holds}: it fits{more}."
    if fit.needs.lasting + fit.needs.gradients > room.usable:
        why = (
            f"weights, gradients and optimiser alone take {size(fit.needs.lasting + fit.needs.gradients)}; "
            "lower --size, --model.width or --model.layers, or take --optimizer sgd"
        )
    elif fit.needs.when == "update":
        why = f"the update alone takes {size(fit.needs.peak)}; take --optimizer adamw, or lower --size"
    else:
        why = f"one example takes {size(fit.needs.peak)}; lower --model.context or --size"
    return f"{holds}, and no piece of the batch is small enough: {why}."


def _paper_words(paper: Cluster) -> str:
    least = paper.least
    here = f"On {paper.gpus:,} GPU{'s' * (paper.gpus != 1)} of {paper.memory:g} GiB"
    if least is not None:
        way, again = least
        computed = ", activations computed again in the backward pass" if again else ""
        return f"{here} it fits {way.name}{computed}: {size(way.total(again=again))} each."
    needed = paper.gpus_needed
    most = paper.ways[-1].total(again=True)
    if needed is None:
        return (
            f"{here} it does not fit ({size(most)} each at least), and no number of them is enough: what cannot be "
            "shared is too much; lower --model.context, or take fewer examples at once (--batch-size)."
        )
    return f"{here} it does not fit: {size(most)} each at least. It would take {needed:,} of them, all shared."


def _work_words(plan: Plan) -> list[str]:
    work = plan.work
    if work.updates is None or work.epochs is None or work.seen is None:
        return [f"How many updates {plan.config.training.minutes:g} minutes are, only trying them out can say."]
    each = work.per_parameter(plan.parameters) or 0.0
    times = f"{work.epochs:.3g} times" if abs(work.epochs - 1) > 0.005 else "once"
    words = (
        f"{work.updates:,} update{'s' * (work.updates != 1)} of {work.per_update:,.0f} tokens go {times} "
        f"over {count(work.tokens)} tokens"
    )
    return [f"{words}{tokens_rule(FAMILIES[plan.config.task], each)}."]


@singledispatch
def tokens_rule(family: Family, per_parameter: float) -> str:
    """What is known of how many tokens a parameter is worth, where these are read."""
    return ""


@tokens_rule.register
def _(family: LanguageFamily, per_parameter: float) -> str:
    return (
        f": {per_parameter:.3g} for each parameter (about {ENOUGH_TOKENS}, all of them new, make most of what is "
        "computed: Hoffmann et al. 2022)"
    )


def _parts(plan: Plan) -> Table:
    total = max(1, plan.parameters)
    rows: list[list[str | float | int | None]] = [
        [name, many, many / total] for name, many in sorted(plan.parts.items(), key=lambda one: -one[1])
    ]
    note = "The head shares the word vectors' weights." if plan.tied else ""
    return Table(
        title="Parameters",
        columns=["part", "parameters", "share"],
        rows=[*rows, ["all", plan.parameters, 1.0]],
        bars=["share"],
        note=note,
    )


def _memory(plan: Plan, needs: StepMemory) -> Table:
    pieces = plan.config.training.accumulation_steps
    of = "the batch" if pieces == 1 else f"a piece of {pieces}"
    rows: list[list[str | float | int | None]] = [
        ["weights", size(needs.weights), needs.weights],
        ["gradients", size(needs.gradients), needs.gradients],
        [f"optimiser ({plan.config.training.optimizer})", size(needs.optimiser), needs.optimiser],
        ["running average", size(needs.average), needs.average],
        [f"activations kept for the backward pass, of {of}", size(needs.kept), needs.kept],
        [of, size(needs.batch), needs.batch],
    ]
    rows += [[f"most at once, in the {phase}", size(peak), peak] for phase, peak in needs.peaks.items()]
    return Table(
        title="Memory of a step",
        columns=["what", "size", "bytes"],
        rows=[row for row in rows if row[2]],
        note=" ".join(plan.notes),
    )


def _shared(paper: Cluster) -> Table:
    columns = ["each GPU holds", "weights", "gradients", "optimiser", "activations", "in all", "computed again", "fits"]
    rows: list[list[str | float | int | None]] = []
    for way in paper.ways:
        fits = "yes" if paper.fits(way, False) else "computed again" if paper.fits(way, True) else "no"
        sizes = (way.weights, way.gradients, way.optimiser, way.activations, way.total(), way.total(again=True))
        rows.append([way.name, *map(size, sizes), fits])
    meant = "; ".join(f"{name}: {words}" for name, words in WAYS.items())
    return Table(
        title=f"{paper.gpus:,} × {paper.memory:g} GiB, on paper",
        columns=columns,
        rows=rows,
        note=f"{meant}. Computed again: in all, when of the activations only those between layers are kept.",
    )


def _numbers(plan: Plan) -> Table:
    work, speed = plan.work, plan.speed
    rows: list[list[str | float | int | None]] = [
        ["multiplications for a token, forward", f"{work.products:,.0f}" if work.products else None],
        ["FLOPs of an update", f"{work.flops:.3g}" if work.flops else None],
        ["tokens of an update", f"{work.per_update:,.0f}"],
        ["tokens to train on", f"{work.tokens:,}"],
        ["updates", None if work.updates is None else f"{work.updates:,}"],
        ["epochs", None if work.epochs is None else f"{work.epochs:.4g}"],
        ["tokens for each parameter", _four(work.per_parameter(plan.parameters))],
        ["seconds of an update", None if speed is None else f"{speed.update:.4g}"],
        ["tokens a second", None if speed is None else f"{speed.tokens:,.0f}"],
        ["time to the end", None if plan.seconds is None else duration(plan.seconds)],
    ]
    return Table(title="Numbers", columns=["what", "number"], rows=[row for row in rows if row[1] is not None])


def _four(value: float | None) -> str | None:
    return None if value is None else f"{value:.4g}"
