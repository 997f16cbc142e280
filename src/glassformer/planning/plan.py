"""A plan: what was found out before a training."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from glassformer.config.resolve import Config
from glassformer.planning.paper import Paper
from glassformer.planning.probe import Speed
from glassformer.planning.room import Fit, Room
from glassformer.planning.step import Needs
from glassformer.planning.work import Work
from glassformer.rendering.view import View
from glassformer.runs.files import write_json


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
    work: Work
    notes: tuple[str, ...]
    seconds: float | None
    """To the end, validations included."""
    needs: Needs | None = None
    """Of a step, the batch in as many pieces as was asked for; None on paper."""
    room: Room | None = None
    fit: Fit | None = None
    speed: Speed | None = None
    paper: Paper | None = None

    def view(self) -> View:
        from glassformer.planning.show import plan_view

        return plan_view(self)

    @property
    def words(self) -> list[str]:
        """What it comes to, in sentences."""
        from glassformer.planning.show import sentences

        return sentences(self)

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
            "fit": None if fit is None else {**asdict(fit), "peak": fit.needs.peak},
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
