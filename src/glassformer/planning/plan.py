"""Plan of a training run: memory, compute and time, as a view and as sentences."""

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


@dataclass(frozen=True)
class Plan(Renderable):
    """Resources that a training run needs. A notebook displays the plan."""

    config: Config
    about: str
    """Model and data."""
    parameters: int
    learned: int
    """Number of trained parameters."""
    parts: dict[str, int]
    """Parameters by part; their sum is `parameters`."""
    tied: bool
    """Whether the head shares the word vectors' weights."""
    work: TrainingCompute
    notes: tuple[str, ...]
    seconds: float | None
    """Total seconds of `train`, from reading the data to the report."""
    times: TimePlan | None = None
    """`seconds` by purpose."""
    needs: StepMemory | None = None
    """Memory of a step with the configured accumulation steps; None in a plan for a cluster."""
    room: AvailableMemory | None = None
    fit: BatchFit | None = None
    speed: Speed | None = None
    paper: Cluster | None = None
    """GPUs of a plan for a cluster."""
    price: float | None = None
    """Price of one GPU hour, for a cluster."""

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
        """Return the plan as sentences."""
        key = "parameters: some" if self.learned < self.parameters else "parameters"
        return [
            sentence(key, all=count(self.parameters), learned=count(self.learned)),
            _memory_words(self) if self.paper is None else _paper_words(self.paper),
            _work_words(self),
            *([] if self.seconds is None else _time_words(self, self.seconds)),
        ]

    @property
    def advice(self) -> str | None:
        """Return the option that makes the batch fit; None if it fits without an option or does not fit at all."""
        if self.fit is None or self.fit.accumulation_steps in (0, self.config.training.accumulation_steps):
            return None
        return f"--training.accumulation_steps {self.fit.accumulation_steps}"

    @property
    def tokens_per_day(self) -> float | None:
        return None if not self.seconds or self.work.seen is None else 86400 * self.work.seen / self.seconds

    @property
    def cost(self) -> float | None:
        """Return the price of all GPU hours, in the currency of `price`."""
        if self.price is None or self.seconds is None or self.paper is None:
            return None
        return self.price * self.paper.gpus * self.seconds / 3600

    def to_dict(self) -> dict[str, Any]:
        """Return all numbers for programs, in bytes, seconds and tokens."""
        work, fit = self.work, self.fit
        return {
            **{name: getattr(self, name) for name in OWN_KEYS},
            "memory": _fields(self.needs, "peak"),
            "room": _fields(self.room),
            "fits": None if fit is None else fit.accumulation_steps == self.config.training.accumulation_steps,
            "fit": None if fit is None else {**asdict(fit), "peak": fit.needs.peak},
            "work": {
                **(_fields(work, "epochs", "seen", "flops") or {}),
                "tokens_per_parameter": work.per_parameter(self.parameters),
            },
            "speed": _fields(self.speed),
            "times": _fields(self.times),
            "paper": None if self.paper is None else self.paper.to_dict(),
            "notes": list(self.notes),
            "settings": self.config.to_dict(),
        }


OWN_KEYS = (
    "about", "words", "parameters", "learned", "parts", "tied", "advice", "seconds", "tokens_per_day", "cost"
)  # fmt: skip
"""Attributes that `Plan.to_dict` copies unchanged."""


def _fields(value: Any, *properties: str) -> dict[str, Any] | None:
    """Return the fields and the named properties of a dataclass; None for None."""
    return None if value is None else {**asdict(value), **{name: getattr(value, name) for name in properties}}


def _memory_words(plan: Plan) -> str:
    assert plan.needs is not None
    assert plan.room is not None
    assert plan.fit is not None
    needs, room, fit = plan.needs, plan.room, plan.fit
    key = "fits: pieces" if plan.advice is not None else "fits" if fit.accumulation_steps else "too large"
    return sentence(
        key,
        holds=sentence("holds", peak=size(needs.peak), when=needs.when, room=size(room.bytes), words=room.words),
        fit=fit,
        peak=size(fit.needs.peak),
        states=size(fit.needs.lasting + fit.needs.gradients),
    )


def _paper_words(paper: Cluster) -> str:
    facts = {"gpus": counted(paper.gpus, "GPU"), "memory": paper.memory}
    if paper.least is not None:
        way, again = paper.least
        recomputed = " and activations recomputed" if again else ""
        return sentence("cluster: fits", **facts, way=way.name, again=recomputed, size=size(way.total(again=again)))
    needed = paper.gpus_needed
    key = "cluster: never" if needed is None else "cluster: more"
    return sentence(key, **facts, size=size(paper.ways[-1].total(again=True)), needed=needed)


def _time_words(plan: Plan, seconds: float) -> list[str]:
    """Return the sentences about time and, for a cluster, about exchange and price."""
    if plan.paper is not None:
        return _cluster_words(plan, plan.paper, seconds)
    if plan.speed is None or plan.times is None:
        return []
    speed, times = plan.speed, plan.times
    rate = f"{speed.tokens:,.0f} tokens per second"
    if speed.tokens_per_example is not None:
        rate = f"{speed.tokens / speed.tokens_per_example:,.0f} examples per second"
    parts = {name: duration(getattr(times, name)) for name in ("reading", "validation", "last")}
    update = duration(speed.update)
    return [
        sentence("speed", update=update, rate=rate, notes=", ".join(speed.notes), time=duration(seconds)),
        sentence("times", **parts),
    ]


def _cluster_words(plan: Plan, paper: Cluster, seconds: float) -> list[str]:
    cost = "" if plan.cost is None else f", {plan.cost:,.0f} at {plan.price:g} per GPU hour"
    tokens = count(round(plan.tokens_per_day or 0))
    words = [sentence("cluster: time", time=duration(seconds), tokens=tokens, cost=cost)]
    if paper.least is not None and paper.exchanging and plan.work.all_flops is not None:
        computing = duration(paper.computing(plan.work.all_flops) / (plan.work.updates or 1))
        exchanged, exchanging = size(paper.least[0].exchanged), duration(paper.exchanging)
        words.append(sentence("cluster: exchange", computing=computing, exchanged=exchanged, exchanging=exchanging))
    return words


def _work_words(plan: Plan) -> str:
    work = plan.work
    if work.updates is None or work.epochs is None:
        return sentence("work: unknown", minutes=plan.config.training.minutes)
    return sentence(
        "work: language model" if FAMILIES[plan.config.task].predicts_next else "work",
        updates=counted(work.updates, "update"),
        work=work,
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


TIMES = {
    "reading": "reading and preparing",
    "updates": "all updates",
    "validations": "all validations during training",
    "last": "the last evaluation",
    "papers": "doctor, pictures and report",
}
"""Labels of the parts of a `TimePlan`."""


def _numbers(plan: Plan) -> Table:
    work, speed, times = plan.work, plan.speed, plan.times
    numbers: list[tuple[str, float | None, str]] = [
        ("multiplications per token, forward", work.products, ",.0f"),
        ("FLOPs per update", work.flops, ".3g"),
        ("tokens per update", work.per_update, ",.0f"),
        ("tokens to train on", work.tokens, ","),
        ("updates", work.updates, ","),
        ("epochs", work.epochs, ".4g"),
        ("tokens per parameter", work.per_parameter(plan.parameters), ".4g"),
        ("seconds per update", None if speed is None else speed.update, ".4g"),
        ("tokens per second", None if speed is None else speed.tokens, ",.0f"),
    ]
    rows: Rows = [[name, format(number, form)] for name, number, form in numbers if number is not None]
    if times is not None:
        rows += [[name, duration(getattr(times, part))] for part, name in TIMES.items()]
    if plan.seconds is not None:
        rows.append(["time to the end", duration(plan.seconds)])
    return Table(title="Numbers", columns=["what", "number"], rows=rows)
