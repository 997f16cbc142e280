"""Look inside a run: one verb for every view of it."""

import os

from glassformer.config.errors import Misuse
from glassformer.config.names import unknown
from glassformer.config.say import Say, silent
from glassformer.config.views import ALL, QUICK, VIEWS
from glassformer.inside.view import View, Views
from glassformer.runs.run import Run
from glassformer.verbs.asked import Asked
from glassformer.verbs.load import AnyLoaded, Loaded, load
from glassformer.verbs.predict import Example
from glassformer.verbs.views import MAKERS, views_of

IMPLIED = {"word": "word", "versus": "versus", "links": "links", "without": "worth"}
"""Options that are asked for one view only."""
MODES = ("heat", "lines", "all")


def look(
    run: "str | os.PathLike[str] | Run | AnyLoaded",
    *texts: Example,
    view: str | None = None,
    layer: int | None = None,
    head: int | None = None,
    mode: str | None = None,
    position: int | None = None,
    target: str | None = None,
    answer: str | None = None,
    beam: int = 5,
    word: str | None = None,
    versus: Example | None = None,
    beside: "str | os.PathLike[str] | Run | AnyLoaded | None" = None,
    links: "str | os.PathLike[str] | None" = None,
    without: str | None = None,
    device: str = "auto",
    say: Say = silent,
) -> View | Views:
    """A view of a run's model; `view` is one of `VIEWS`, or `all`: every one that a single text is enough for.

    Without `view`, options choose: `word`, `versus`, `links`, `without`; else the first that this run has. Layers,
    heads and tokens (`position`) count from 0. `target`: what a translator is to write; `answer`: what a training step
    is to learn of an example; `beside`: a second run for `versus`.
    """
    loaded = run if isinstance(run, Loaded) else load(run, device)
    chosen = view or _implied(word=word, versus=versus, links=links, without=without) or views_of(loaded)[0]
    if mode not in (None, *MODES):
        raise Misuse(unknown("mode", mode or "", MODES))
    asked = Asked(
        loaded,
        texts,
        layer=layer,
        head=head,
        mode=mode,
        position=position,
        target=target,
        answer=answer,
        beam=beam,
        word=word,
        versus=versus,
        beside=beside if beside is None or isinstance(beside, Loaded) else load(beside, device),
        links=None if links is None else os.fspath(links),
        without=without,
        say=say,
    )
    if chosen == ALL:
        return _everything(asked)
    _check(chosen, loaded)
    return MAKERS[chosen](asked)


def _implied(**options: object) -> str | None:
    said = [name for name, value in options.items() if value is not None]
    if len(said) > 1:
        raise Misuse(f"--{said[0]} and --{said[1]} ask for two views: give one of them, or choose with --view")
    return IMPLIED[said[0]] if said else None


def _check(name: str, loaded: AnyLoaded) -> None:
    if name not in VIEWS:
        raise Misuse(unknown("view", name, (*VIEWS, ALL)))
    if name not in views_of(loaded):
        if name == "learning":
            raise Misuse(f"{loaded.run.path} kept no moments of its training: train with --keep-checkpoints")
        raise Misuse(
            f"{loaded.run.path} ({loaded.config.task}, {loaded.config.model.encoder}) has no {name} to look at; it has "
            f"{', '.join(views_of(loaded))}"
        )


def _everything(asked: Asked) -> Views:
    """Every view that a single text is enough for."""
    names = [name for name in views_of(asked.loaded) if name in QUICK]
    return Views(str(asked.text), [MAKERS[name](asked) for name in names])
