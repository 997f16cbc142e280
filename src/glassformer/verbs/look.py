"""Look inside a run: one verb for every view of it."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from glassformer.config.errors import Misuse
from glassformer.config.names import unknown
from glassformer.config.say import Say, silent
from glassformer.config.views import ALL, HEADS, IMPLIED, MODES, VIEWS, WRITTEN, ViewInfo
from glassformer.families.base import Loaded
from glassformer.families.load import load
from glassformer.families.model_input import Example
from glassformer.inspection.views.registry import MAKERS, views_of
from glassformer.inspection.views.request import BEAM, LookRequest
from glassformer.rendering.view import View, Views
from glassformer.reporting.report import report
from glassformer.runs.run import Run
from glassformer.text.display import cut

MAKERS["report"] = lambda request: report(request.loaded, say=request.say)

LONGEST = 100
"""Characters of a title."""


def look(
    run: "str | os.PathLike[str] | Run | Loaded",
    *texts: Example,
    view: str | None = None,
    layer: int | None = None,
    head: int | None = None,
    mode: str | None = None,
    position: int | None = None,
    target: str | None = None,
    answer: str | None = None,
    beam: int | None = None,
    word: str | None = None,
    versus: Example | None = None,
    beside: "str | os.PathLike[str] | Run | Loaded | None" = None,
    links: "str | os.PathLike[str] | None" = None,
    without: str | None = None,
    device: str = "auto",
    say: Say = silent,
) -> View | Views:
    """A view of a run's model; `view` is one of `config.views.VIEWS`, or `all`: every one that is made in a moment.

    Without `view`, options choose: `word`, `versus`, `links`, `without`, `answer`; else the first that this run has.
    Layers, heads and tokens (`position`) count from 0. `target`: what a translator is to write; `answer`: what an
    example should be, for a training step; `beside`: a second run for `versus`.
    """
    loaded = run if isinstance(run, Loaded) else load(run, device)
    options: dict[str, Any] = {
        "layer": layer,
        "head": head,
        "mode": mode,
        "position": position,
        "target": target,
        "answer": answer,
        "beam": beam,
        "word": word,
        "versus": versus,
        "beside": beside,
        "links": links,
        "without": without,
    }
    options = {name: value for name, value in options.items() if value is not None}
    chosen = view or _implied(options) or views_of(loaded)[0]
    _check(chosen, loaded, options, texts)
    if beside is not None and not isinstance(beside, Loaded):
        options["beside"] = load(beside, device)
    if links is not None:
        options["links"] = os.fspath(links)
    request = LookRequest(loaded, texts, say=say, **{"beam": BEAM, **options})
    config = loaded.config
    about = f"{loaded.run.path}: {config.task}, {config.model.encoder}, {loaded.parameters:,} parameters"
    if chosen == ALL:
        quick = [name for name in views_of(loaded) if VIEWS[name].quick]
        return Views(cut(str(request.text), LONGEST), [MAKERS[name](request) for name in quick], about)
    return replace(MAKERS[chosen](request), about=about)


def _implied(options: Mapping[str, Any]) -> str | None:
    views = {IMPLIED[name]: name for name in options if name in IMPLIED}
    if "worth" in views:  # it takes an answer too
        views.pop("step", None)
    if len(views) > 1:
        first, second, *_ = views.values()
        raise Misuse(f"--{first} and --{second} ask for two views: give one of them, or choose with --view")
    return next(iter(views), None)


def _check(name: str, loaded: Loaded, options: Mapping[str, Any], texts: Sequence[Example]) -> None:
    """Whether this run has the view, and the view these options."""
    if name != ALL and name not in VIEWS:
        raise Misuse(unknown("view", name, (*VIEWS, ALL)))
    info = ViewInfo("", (*HEADS, *WRITTEN)) if name == ALL else VIEWS[name]
    if name == "learning" and name not in views_of(loaded):
        raise Misuse(f"{loaded.run.path} kept no moments of its training: train with --keep-checkpoints")
    if name not in (ALL, *views_of(loaded)):
        raise Misuse(
            f"{loaded.run.path} ({loaded.config.task}, {loaded.config.model.encoder}) has no {name} to look at; it has "
            f"{', '.join(views_of(loaded))}"
        )
    for option in options:
        if option not in info.uses:
            flag = {"target": "translation"}.get(option, option)
            able = [other for other, another in VIEWS.items() if option in another.uses]
            raise Misuse(f"--{flag} is nothing to the view {name}; it is for {', '.join(able)}")
    if texts and info.texts == "none":
        raise Misuse(f"the view {name} is of the run itself: it takes no text")
    if (mode := options.get("mode")) not in (None, *MODES):
        raise Misuse(unknown("mode", str(mode), MODES))
