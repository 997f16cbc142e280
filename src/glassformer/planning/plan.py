"""A plan: what was found out before a training; as a view, and in sentences."""

from dataclasses import asdict, dataclass
from typing import Any

from glassformer.config.resolve import Config
from glassformer.config.units import count, duration, size
from glassformer.data.wording import counted
from glassformer.families.base import FAMILIES
from glassformer.planning.available_memory import AvailableMemory, BatchFit
from glassformer.planning.compute import ENOUGH_TOKENS, Speed, TimePlan, TrainingCompute
from glassformer.planning.sharding import WAYS, Cluster
from glassformer.planning.training_step import StepMemory
from glassformer.rendering.panels import Panel, Table, Words
from glassformer.rendering.view import Renderable, View

MANY = 1000
"""Times the batch: that so many examples would fit too is not worth saying."""


@dataclass(frozen=True)
class Plan(Renderable):
    """What a training will take. In a notebook it shows itself."""

    config: Config
    about: str
    """Which model on which data."""
    parameters: int
    learned: int
    """How many of these are trained."""
    parts: dict[str, int]
    """The parameters by part; they sum up to them."""
    tied: bool
    """The head shares the word vectors' weights."""
    work: TrainingCompute
    notes: tuple[str, ...]
    seconds: float | None
    """The time to the end, of all that `train` does."""
    times: TimePlan | None = None
    """Where it goes."""
    needs: StepMemory | None = None
    """What a step needs, the batch in as many pieces as was asked for; None on paper."""
    room: AvailableMemory | None = None
    fit: BatchFit | None = None
    speed: Speed | None = None
    paper: Cluster | None = None
    price: float | None = None
    """Of an hour of a GPU, on paper."""

    def view(self) -> View:
        panels: list[Panel] = [_parts(self)]
        if self.needs is not None:
            panels.append(_memory(self, self.needs))
        if self.paper is not None:
            panels.append(_shared(self.paper))
        panels.append(_numbers(self))
        if self.needs is None:
            panels += [Words(text=note) for note in self.notes]
        if self.advice is not None:
            panels.append(Words(title="Add to the command", text=self.advice, code=True))
        return View(title=f"A plan: {self.about}", panels=panels, note=" ".join(self.words), about=self.about)

    @property
    def words(self) -> list[str]:
        """What it comes to, in sentences."""
        part = f", {count(self.learned)} of them learned" if self.learned < self.parameters else ""
        fits = _memory_words(self) if self.paper is None else _paper_words(self.paper)
        sentences = [f"{count(self.parameters)} parameters{part}.", fits, _work_words(self)]
        if self.seconds is not None and self.paper is not None:
            sentences.append(_cluster_words(self, self.paper, self.seconds))
        elif self.seconds is not None and self.speed is not None:
            speed = self.speed
            rate = f"{speed.tokens:,.0f} tokens a second"
            if speed.tokens_per_example is not None:
                rate = f"{speed.tokens / speed.tokens_per_example:,.0f} examples a second"
            sentences.append(
                f"{duration(speed.update)} an update, {rate} ({', '.join(speed.notes)}): about "
                f"{duration(self.seconds)} to the end, from reading to the report."
            )
            sentences += [] if self.times is None else [_time_words(self, self.times)]
        return sentences

    @property
    def advice(self) -> str | None:
        """What to add to the command, if it would not fit as it is."""
        if self.fit is None or self.fit.accumulation_steps in (0, self.config.training.accumulation_steps):
            return None
        return f"--training.accumulation_steps {self.fit.accumulation_steps}"

    @property
    def tokens_per_day(self) -> float | None:
        return None if not self.seconds or self.work.seen is None else 86400 * self.work.seen / self.seconds

    @property
    def cost(self) -> float | None:
        """Of all GPUs to the end, in whatever the price is in."""
        if self.price is None or self.seconds is None or self.paper is None:
            return None
        return self.price * self.paper.gpus * self.seconds / 3600

    def to_dict(self) -> dict[str, Any]:
        """All numbers, for programs. Bytes, seconds, tokens."""
        work, fit = self.work, self.fit
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
            "work": {
                **asdict(work),
                "epochs": work.epochs,
                "seen": work.seen,
                "flops": work.flops,
                "tokens_per_parameter": work.per_parameter(self.parameters),
            },
            "speed": None if self.speed is None else asdict(self.speed),
            "seconds": self.seconds,
            "times": None if self.times is None else asdict(self.times),
            "paper": None if self.paper is None else self.paper.to_dict(),
            "tokens_per_day": self.tokens_per_day,
            "cost": self.cost,
            "notes": list(self.notes),
            "settings": self.config.to_dict(),
        }


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
    here = f"On {counted(paper.gpus, 'GPU')} of {paper.memory:g} GiB"
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


def _cluster_words(plan: Plan, paper: Cluster, seconds: float) -> str:
    """How long it takes, what holds it up, and what it costs."""
    cost = "" if plan.cost is None else f", {plan.cost:,.0f} at {plan.price:g} a GPU hour"
    words = f"About {duration(seconds)} to the end, {count(round(plan.tokens_per_day or 0))} tokens a day{cost}."
    if paper.least is None or not paper.exchanging or plan.work.all_flops is None:
        return words
    computing = paper.computing(plan.work.all_flops) / (plan.work.updates or 1)
    slower = "computing" if computing >= paper.exchanging else "the exchange"
    return (
        f"{words} In each update a GPU computes for {duration(computing)}, and gets {size(paper.least[0].exchanged)} "
        f"from others in {duration(paper.exchanging)}: it waits for {slower}."
    )


def _work_words(plan: Plan) -> str:
    work = plan.work
    if work.updates is None or work.epochs is None or work.seen is None:
        return f"How many updates {plan.config.training.minutes:g} minutes are, only trying them out can say."
    each = work.seen / max(1, plan.parameters)
    passes = f"{work.epochs:.3g}" if work.epochs < 100 else f"{work.epochs:,.0f}"
    times = f"{passes} times" if abs(work.epochs - 1) > 0.005 else "once"
    rule = (
        f": {each:.3g} for each parameter (about {ENOUGH_TOKENS}, all of them new, make most of what is computed: "
        "Hoffmann et al. 2022)"
    )
    return (
        f"{counted(work.updates, 'update')} of {work.per_update:,.0f} tokens go {times} "
        f"over {count(work.tokens)} tokens{rule if FAMILIES[plan.config.task].predicts_next else ''}."
    )


def _time_words(plan: Plan, times: TimePlan) -> str:
    """What beside updates takes time."""
    minutes, whole = plan.config.training.minutes, times.judged >= 1
    sampled = "" if whole or minutes is None else f" (on {times.judged:.2g} of what is held out, to fit the minutes)"
    each = f"{duration(times.validation)} a validation{sampled}"
    over = ""
    if minutes is not None and times.total > 66 * minutes and times.total > 60 * minutes + 5:
        over = f" That is {duration(times.total - 60 * minutes)} more than the minutes."
    return f"Reading takes {duration(times.reading)}, {each}, the last evaluation {duration(times.last)}.{over}"


def _parts(plan: Plan) -> Table:
    parts = {**dict(sorted(plan.parts.items(), key=lambda part: -part[1])), "all": plan.parameters}
    return Table(
        title="Parameters",
        columns=["part", "parameters", "share"],
        rows=[[name, many, many / max(1, plan.parameters)] for name, many in parts.items()],
        bars=["share"],
        note="The head shares the word vectors' weights." if plan.tied else "",
    )


def _memory(plan: Plan, needs: StepMemory) -> Table:
    pieces = plan.config.training.accumulation_steps
    of = "the batch" if pieces == 1 else f"a piece of {pieces}"
    held = {
        "weights": needs.weights,
        "gradients": needs.gradients,
        f"optimiser ({plan.config.training.optimizer})": needs.optimiser,
        "running average": needs.average,
        f"activations kept for the backward pass, of {of}": needs.kept,
        of: needs.batch,
        **{f"most at once, in the {phase}": peak for phase, peak in needs.peaks.items()},
    }
    return Table(
        title="Memory of a step",
        columns=["what", "size", "bytes"],
        rows=[[what, size(many), many] for what, many in held.items() if many],
        note=" ".join(plan.notes),
    )


def _shared(paper: Cluster) -> Table:
    rows: list[list[str | float | int | None]] = []
    for way in paper.ways:
        fits = "yes" if paper.fits(way, False) else "computed again" if paper.fits(way, True) else "no"
        sizes = (way.weights, way.gradients, way.optimiser, way.activations, way.total(), way.total(again=True))
        rows.append([way.name, *map(size, (*sizes, way.exchanged)), fits])
    meant = "; ".join(f"{name}: {words}" for name, words in WAYS.items())
    return Table(
        title=f"{paper.gpus:,} × {paper.memory:g} GiB, on paper",
        columns=[
            "each GPU holds",
            "weights",
            "gradients",
            "optimiser",
            "activations",
            "in all",
            "computed again",
            "exchanged",
            "fits",
        ],
        rows=rows,
        note=f"{meant}. Computed again: in all, when of the activations only those between layers are kept "
        "(--training.recompute). Exchanged: what comes to a GPU from others in an update.",
    )


def _time_rows(times: TimePlan) -> list[list[str | float | int | None]]:
    named = {
        "reading and preparing": times.reading,
        "all updates": times.updates,
        "all validations on the way": times.validations,
        "the last evaluation": times.last,
        "doctor, pictures and report": times.papers,
    }
    return [[name, duration(seconds)] for name, seconds in named.items()]


def _numbers(plan: Plan) -> Table:
    work, speed, each = plan.work, plan.speed, plan.work.per_parameter(plan.parameters)
    rows: list[list[str | float | int | None]] = [
        ["multiplications for a token, forward", f"{work.products:,.0f}" if work.products else None],
        ["FLOPs of an update", f"{work.flops:.3g}" if work.flops else None],
        ["tokens of an update", f"{work.per_update:,.0f}"],
        ["tokens to train on", f"{work.tokens:,}"],
        ["updates", None if work.updates is None else f"{work.updates:,}"],
        ["epochs", None if work.epochs is None else f"{work.epochs:.4g}"],
        ["tokens for each parameter", None if each is None else f"{each:.4g}"],
        ["seconds of an update", None if speed is None else f"{speed.update:.4g}"],
        ["tokens a second", None if speed is None else f"{speed.tokens:,.0f}"],
        *([] if plan.times is None else _time_rows(plan.times)),
        ["time to the end", None if plan.seconds is None else duration(plan.seconds)],
    ]
    return Table(title="Numbers", columns=["what", "number"], rows=[row for row in rows if row[1] is not None])
