"""Look inside a run (`gf.look`): one function for all views."""

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from glassformer.config.arguments import check_arguments, check_type
from glassformer.config.errors import Misuse, refuse_unknown, unknown, with_article
from glassformer.config.messages import Say, say, takes_listener
from glassformer.config.views import ALL, MODES, OPTIONS, LookOptions, flag_of
from glassformer.families.base import AnyRun, Loaded
from glassformer.families.load import loaded_run
from glassformer.families.requests import Example
from glassformer.inspection.attention import sizes_of
from glassformer.inspection.views.registry import DECODING, LookRequest, all_views, views_of
from glassformer.models.capabilities import CountsTokens
from glassformer.rendering.view import View, Views
from glassformer.text.display import cut

HEAD_OPTIONS, ORDER_OPTIONS = ("head", "mode"), ("layer", "position")
"""Options for models with attention heads, and options for models with layers and positions."""
LONGEST = 100
"""Maximum number of characters in a title."""


@check_arguments
@takes_listener
def look(
    run: AnyRun, *texts: Example, view: str | None = None, device: str = "auto", say: Say = say, **options: Any
) -> View | Views:
    """Return a view of a run's model.

    `view` is a name in `config.views.VIEWS`, or `all` for every view that takes only a moment. Without `view`, the
    options `word`, `versus`, `links`, `ablate_heads` and `answer` choose it. Without these, it is the run's first view.

    `options` are the fields of `config.views.LookOptions`:

    - `layer`, `head`, `position`: indices from 0
    - `mode`: how attention is drawn
    - `translation`: the target text for a translator; `beam`: width of the search for its own
    - `answer`: the correct answer of an example, for a training step
    - `word`, `anchors`: a word, and the words to compare it with
    - `versus`: a second text; `second_run`: a second run for both texts
    - `links`: a file
    - `ablate_heads`: heads to switch off, such as "0.1,2.3"
    - `temperature`, `top_k`, `top_p`, `length_penalty`: as for generation
    - `samples`, `tokens`: size of a tree
    """
    options = _options_with_values(options)
    if "second_run" in options and "versus" not in options:
        raise Misuse('--second-run sees the same two texts as RUN: look RUN "A" --versus "B" --second-run RUN2')
    loaded = loaded_run(run, device)
    chosen = _known_view(view) if view else _implied(options) or views_of(loaded)[0]
    _check(chosen, loaded, options, texts)
    if "second_run" in options:
        options["second_run"] = loaded_run(options["second_run"], device)
    request = LookRequest(loaded=loaded, texts=texts, **options)
    config = loaded.config
    about = f"{loaded.run.path}: {config.task}, {loaded.family.model_name(config)}, {loaded.parameters:,} parameters"
    views = all_views()
    if chosen == ALL:
        quick = [views[name] for name in views_of(loaded) if views[name].quick]
        return Views(cut(str(request.text), LONGEST), [kind.make(request) for kind in quick], about)
    result = views[chosen].make(request)
    if not isinstance(result, View):  # a user's view may return anything
        raise Misuse(f"the view {chosen} gave {with_article(result)}, not a View")
    return replace(result, about=about)


def _options_with_values(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that have a value; raise an error for unknown names and values of another type."""
    by_name = {name: value for name, value in options.items() if value is not None}
    if odd := next((name for name in options if name not in OPTIONS), None):
        raise TypeError(f"look: {unknown('option', odd, OPTIONS)}")
    for field in fields(LookOptions):
        if field.name in by_name:
            check_type(field.name, by_name[field.name], field.type)
    return by_name


def _known_view(name: str) -> str:
    """Return the name of a view; raise `Misuse` if it is unknown."""
    refuse_unknown("view", name, (*all_views(), ALL), Misuse)
    return name


def _implied(options: Mapping[str, Any]) -> str | None:
    """Return the view that the options imply, or None. An option implies none if another implied view takes it too."""
    choosing = {name: chosen for name in options if (chosen := OPTIONS[name].get("chooses"))}
    views = all_views()
    for name in list(choosing):
        if any(other != name and name in views[chosen].options for other, chosen in choosing.items()):
            choosing.pop(name)
    if len(choosing) > 1:
        first, second, *_ = map(flag_of, choosing)
        raise Misuse(f"{first} and {second} ask for two views: give one of them, or choose with --view")
    return next(iter(choosing.values()), None)


def _check(name: str, loaded: Loaded, options: Mapping[str, Any], texts: Sequence[Example]) -> None:
    """Raise `Misuse` if the run does not have this view, or the view does not have these options."""
    views = all_views()
    if name != ALL and not views[name].needs(loaded):
        model = f"{loaded.config.task}, {loaded.family.model_name(loaded.config)}"
        without = f"({model}) has no {name} to look at; it has {', '.join(views_of(loaded))}"
        raise Misuse(f"{loaded.run.path} {views[name].otherwise or without}")
    shown = [other for other in views_of(loaded) if views[other].quick] if name == ALL else [name]
    for option in options:
        searched = option in DECODING and (name, option) != ("tree", "beam")
        if (searched or option == "length_penalty") and not loaded.family.has_decoder:
            raise Misuse(f"{flag_of(option)} is for runs that translate")
        if name == "tree" and loaded.family.has_decoder and option == "tokens":
            raise Misuse("--tokens is for language models: a translation ends by itself")
        if option in HEAD_OPTIONS and not sizes_of(loaded.model):
            raise Misuse(f"{flag_of(option)} is for runs with attention, and {loaded.run.path} has none")
        if option in ORDER_OPTIONS and loaded.capability(CountsTokens) is not None:
            raise Misuse(f"a bag has no layers and no positions: leave out {flag_of(option)}")
        if not any(option in views[other].options for other in shown):
            able = [other for other in views_of(loaded) if option in views[other].options] or ["none that this run has"]
            raise Misuse(f"{flag_of(option)} is nothing to the view {name}; it is for {', '.join(able)}")
    if texts and name != ALL and views[name].texts == "none":
        raise Misuse(f"the view {name} is of the run itself: it takes no text")
    if (mode := options.get("mode")) not in (None, *MODES):
        raise Misuse(unknown("mode", str(mode), MODES))
