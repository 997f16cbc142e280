"""A last training on all rows, once held-out rows have told how long to train."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from glassformer.config.errors import Misuse, SettingError
from glassformer.config.presets import PACKED
from glassformer.config.resolve import Config
from glassformer.data.split.documents import refuse_joining
from glassformer.families.card import BEFORE
from glassformer.pipeline.result import Trained
from glassformer.runs.files import write_text, writing
from glassformer.runs.run import CARD, Run
from glassformer.training.events import Listener, Noted
from glassformer.training.processes import Processes

HELD_OUT = "held-out"
"""Where the training before a refit is kept, in its run's folder."""
DONE = ("finished", "stopped early")

Before = Mapping[str, Any]
"""What a refit comes after: `words`, and `runs` in the same folder; `steps` that it makes; scores."""
Train = Callable[..., Trained]
"""One training, as `verbs.train` does it."""


def waits_for_refit(out: "str | Path | None", resume: bool) -> bool:
    """Whether a training is to go on that was stopped between its two halves."""
    return resume and out is not None and _waits(Path(out))


def _waits(out: Path) -> bool:
    return not (out / CARD).exists() and (out / HELD_OUT / CARD).exists()


def refuse_refit(config: Config) -> None:
    """Before a training is spent: what its refit would refuse after it."""
    if config.data.refit:
        raise SettingError(
            "data.refit holds nothing out, and --refit has to know how long to train: give --refit alone"
        )
    data = replace(config.data, refit=True)
    if config.task in PACKED:
        refuse_joining(str(data.path), data)


def train_and_refit(
    train: Train,
    data: "str | Path | None",
    *,
    out: "str | Path | None",
    resume: bool,
    overwrite: bool,
    listen: Listener,
    **settings: Any,
) -> Trained:
    """What the first training leaves is moved into `held-out`, and a training on all rows takes its place."""
    if Processes.from_environment().world > 1:
        raise SettingError("a refit runs in one process: train without --refit in several")
    if out is not None and _waits(Path(out)):
        if not resume:
            raise Misuse(f"{out} holds a training that waits for its refit: go on with --resume, or name another --out")
        run = Run.open(Path(out) / HELD_OUT)
    else:
        known = Run.open(out or "last") if resume else None
        if known is not None and known.config().data.refit:
            return train(data, out=known.path, resume=True, listen=listen, **settings)
        if known is not None:
            refuse_refit(known.config())
        if known is not None and known.card().get("status") in DONE:
            run = _moved(known.path)
        else:
            first = train(data, out=out, resume=resume, overwrite=overwrite, refit=True, listen=listen, **settings)
            if first.reason == "interrupted":
                return first
            run = _moved(Path(first.run))
    card = run.card()
    steps = int(card["best"]["step"])
    scores: dict[str, Any] = {part: card[part] for part in ("validation", "test") if part in card}
    before: Before = {"runs": [HELD_OUT], "steps": steps, "words": held_words(card), **scores}
    model, command = settings.get("model"), settings.get("command")
    total = int(card.get("total_steps") or card["steps"])
    return refitted(train, run, steps=steps, total=total, before=before, model=model, listen=listen, command=command)


def _moved(path: Path) -> Run:
    """A run, one folder deeper. Its card goes last: stopped on the way, the same can be done again."""
    inside = path / HELD_OUT
    with writing(path):
        inside.mkdir(exist_ok=True)
        for entry in sorted(path.iterdir(), key=lambda entry: entry.name == CARD):
            if entry != inside:
                entry.rename(inside / entry.name)
    readme = inside / "README.md"
    if readme.exists():  # it says how to use the run, by its place
        write_text(readme, readme.read_text(encoding="utf-8").replace(str(path), str(inside)))
    return Run(inside)


def refitted(
    train: Train,
    like: Run,
    *,
    steps: int,
    total: int,
    before: Before,
    model: Any = None,
    listen: Listener,
    command: str | None = None,
) -> Trained:
    """A training on all rows with the settings of another, into the folder that this one lies in.

    It makes `steps` updates, at the rates of the `total` that the other set out to make. `model`: a person's own.
    """
    listen(Noted(f"refit: {steps:,} updates on all rows but the test; {BEFORE}: {before['words']}"))
    settings: dict[str, Any] = {
        "data.refit": True,
        "training.steps": steps,
        "training.schedule_steps": max(steps, total),
        "training.keep": "last",
        "training.patience": None,
    }
    if model is not None and not isinstance(model, str | dict):
        settings["model"] = model
    return train(
        config=like.path / CARD, out=like.path.parent, before=before, listen=listen, command=command, **settings
    )


def held_words(card: Mapping[str, Any]) -> str:
    """How good a run is on what it held out."""
    known = card.get("words", {})
    parts = [name for name in ("validation", "test") if name in card]
    return "; ".join(f"{name} {known.get(name) or _listed(card[name])}" for name in parts)


def _listed(metrics: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {value:.4g}" for name, value in metrics.items())
