"""A plan: what was found out before a training; as a view, and in sentences."""

from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from glassformer.config.resolve import Config
from glassformer.config.sentences import sentence as read_sentence
from glassformer.config.units import count, duration, size
from glassformer.data.wording import counted
from glassformer.families.base import FAMILIES
from glassformer.planning.capacity import AvailableMemory, BatchFit
from glassformer.planning.compute import ENOUGH_TOKENS, Speed, TimePlan, TrainingCompute
from glassformer.planning.sharding import WAYS, Cluster
from glassformer.planning.training_step import StepMemory
from glassformer.rendering.panels import Panel, Rows, Table, Words
from glassformer.rendering.view import Renderable, View

sentence = partial(read_sentence, __name__)

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
        """The plan in sentences."""
        key = "parameters: some" if self.learned < self.parameters else "parameters"
        return [
            sentence(key, all=count(self.parameters), learned=count(self.learned)),
            _memory_words(self) if self.paper is None else _paper_words(self.paper),
            _work_words(self),
            *([] if self.seconds is None else _time_words(self, self.seconds)),
        ]

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
    holds = sentence("holds", peak=size(needs.peak), when=needs.when, room=size(room.bytes), words=room.words)
    states, rows = fit.needs.lasting + fit.needs.gradients, fit.most_rows
    if plan.advice is not None:
        key = "fits: pieces"
    elif fit.accumulation_steps:
        key = "fits: more" if fit.rows < rows <= MANY * fit.rows else "fits"
    elif states > room.usable:
        key = "too large: states"
    else:
        key = "too large: update" if fit.needs.when == "update" else "too large: example"
    return sentence(key, holds=holds, fit=fit, rows=rows, peak=size(fit.needs.peak), states=size(states))


def _paper_words(paper: Cluster) -> str:
    facts = {"gpus": counted(paper.gpus, "GPU"), "memory": paper.memory}
    if paper.least is not None:
        way, again = paper.least
        key = "cluster: fits again" if again else "cluster: fits"
        return sentence(key, **facts, way=way.name, size=size(way.total(again=again)))
    needed = paper.gpus_needed
    key = "cluster: never" if needed is None else "cluster: more"
    return sentence(key, **facts, size=size(paper.ways[-1].total(again=True)), needed=needed)


def _time_words(plan: Plan, seconds: float) -> list[str]:
    """Return how long it takes, what holds it up, and on paper what it costs."""
    if plan.paper is not None:
        return _cluster_words(plan, plan.paper, seconds)
    if plan.speed is None:
        return []
    speed, times, minutes = plan.speed, plan.times, plan.config.training.minutes
    rate = f"{speed.tokens:,.0f} tokens a second"
    if speed.tokens_per_example is not None:
        rate = f"{speed.tokens / speed.tokens_per_example:,.0f} examples a second"
    facts = {"update": duration(speed.update), "rate": rate, "notes": ", ".join(speed.notes)}
    words = [sentence("speed", **facts, time=duration(seconds))]
    if times is not None:
        is_sampled = times.judged < 1 and minutes is not None
        sampled = f" (on {times.judged:.2g} of what is held out, to fit the minutes)" if is_sampled else ""
        parts = {"reading": times.reading, "validation": times.validation, "last": times.last}
        words.append(sentence("times", **{name: duration(part) for name, part in parts.items()}, sampled=sampled))
        if minutes is not None and times.total > 66 * minutes and times.total > 60 * minutes + 5:
            words[-1] += " " + sentence("times: over", over=duration(times.total - 60 * minutes))
    return words


def _cluster_words(plan: Plan, paper: Cluster, seconds: float) -> list[str]:
    cost = "" if plan.cost is None else f", {plan.cost:,.0f} at {plan.price:g} a GPU hour"
    tokens = count(round(plan.tokens_per_day or 0))
    words = [sentence("cluster: time", time=duration(seconds), tokens=tokens, cost=cost)]
    if paper.least is None or not paper.exchanging or plan.work.all_flops is None:
        return words
    computing = paper.computing(plan.work.all_flops) / (plan.work.updates or 1)
    facts = {
        "computing": duration(computing),
        "exchanged": size(paper.least[0].exchanged),
        "exchanging": duration(paper.exchanging),
        "slower": "computing" if computing >= paper.exchanging else "the exchange",
    }
    words[0] += " " + sentence("cluster: exchange", **facts)
    return words


def _work_words(plan: Plan) -> str:
    work = plan.work
    if work.updates is None or work.epochs is None:
        return sentence("work: unknown", minutes=plan.config.training.minutes)
    passes = f"{work.epochs:.3g}" if work.epochs < 100 else f"{work.epochs:,.0f}"
    return sentence(
        "work: language model" if FAMILIES[plan.config.task].predicts_next else "work",
        updates=counted(work.updates, "update"),
        per_update=work.per_update,
        times=f"{passes} times" if abs(work.epochs - 1) > 0.005 else "once",
        tokens=count(work.tokens),
        each=work.per_parameter(plan.parameters),
        enough=ENOUGH_TOKENS,
    )


def _parts(plan: Plan) -> Table:
    parts = {**dict(sorted(plan.parts.items(), key=lambda part: -part[1])), "all": plan.parameters}
    return Table(
        title="Parameters",
        columns=["part", "parameters", "share"],
        rows=[[name, many, many / max(1, plan.parameters)] for name, many in parts.items()],
        bars=["share"],
        note=sentence("tied") if plan.tied else "",
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
    rows: Rows = []
    for way in paper.ways:
        fits = "yes" if paper.fits(way, False) else "computed again" if paper.fits(way, True) else "no"
        sizes = (way.weights, way.gradients, way.optimiser, way.activations, way.total(), way.total(again=True))
        rows.append([way.name, *map(size, (*sizes, way.exchanged)), fits])
    held = ["weights", "gradients", "optimiser", "activations", "in all", "computed again"]
    return Table(
        title=f"{paper.gpus:,} × {paper.memory:g} GiB, on paper",
        columns=["each GPU holds", *held, "exchanged", "fits"],
        rows=rows,
        note=sentence("cluster: ways", ways="; ".join(f"{name}: {words}" for name, words in WAYS.items())),
    )


def _numbers(plan: Plan) -> Table:
    work, speed, each = plan.work, plan.speed, plan.work.per_parameter(plan.parameters)
    times: Rows = []
    if plan.times is not None:
        parts = {
            "reading and preparing": plan.times.reading,
            "all updates": plan.times.updates,
            "all validations on the way": plan.times.validations,
            "the last evaluation": plan.times.last,
            "doctor, pictures and report": plan.times.papers,
        }
        times = [[name, duration(seconds)] for name, seconds in parts.items()]
    rows: Rows = [
        ["multiplications for a token, forward", f"{work.products:,.0f}" if work.products else None],
        ["FLOPs of an update", f"{work.flops:.3g}" if work.flops else None],
        ["tokens of an update", f"{work.per_update:,.0f}"],
        ["tokens to train on", f"{work.tokens:,}"],
        ["updates", None if work.updates is None else f"{work.updates:,}"],
        ["epochs", None if work.epochs is None else f"{work.epochs:.4g}"],
        ["tokens for each parameter", None if each is None else f"{each:.4g}"],
        ["seconds of an update", None if speed is None else f"{speed.update:.4g}"],
        ["tokens a second", None if speed is None else f"{speed.tokens:,.0f}"],
        *times,
        ["time to the end", None if plan.seconds is None else duration(plan.seconds)],
    ]
    return Table(title="Numbers", columns=["what", "number"], rows=[row for row in rows if row[1] is not None])
