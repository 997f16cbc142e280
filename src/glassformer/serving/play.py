"""Routes of the playground. Each answer about an example comes from a single job on the model."""

import copy
import inspect
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary

from fastapi import APIRouter, Request
from torch import nn

from glassformer.bricks.attention import attend_written_out, attention_scores, attention_weights
from glassformer.bricks.pooling import Pool
from glassformer.bricks.recurrent import elman_step, gru_gates, gru_step, lstm_gates, lstm_step
from glassformer.config.errors import Misuse, unknown
from glassformer.config.messages import listening
from glassformer.config.presets import IMAGE, TEXT
from glassformer.data.features.build import MixedFeatures
from glassformer.decoding.sampling import distribution, keep_top_k, keep_top_p
from glassformer.families.base import Loaded
from glassformer.families.evaluate import encode_example
from glassformer.families.requests import Example, ModelInput
from glassformer.families.schema import reader_of, table_in
from glassformer.inspection.attention import SELF_ATTENTION, changeable, sizes_of, stacks_of
from glassformer.inspection.change import Change, scale
from glassformer.inspection.change import replace as replaced
from glassformer.inspection.intervene import intervene
from glassformer.inspection.views.attribution import gradient_times_input, leave_one_out
from glassformer.inspection.views.head_roles import head_roles, ids_of
from glassformer.inspection.views.logit_lens import has_lens, layer_scores
from glassformer.inspection.views.patching import has_patches, layer_states
from glassformer.inspection.views.registry import all_views, views_of
from glassformer.inspection.views.tree import branches
from glassformer.models.capabilities import HasDecoder
from glassformer.models.weights import put_weights
from glassformer.rendering.curves import smoothed
from glassformer.rendering.panels import Heads
from glassformer.rendering.view import View
from glassformer.runs import history
from glassformer.serving.answers import Server, check_ids
from glassformer.serving.api import ERRORS, check_options, uploads
from glassformer.serving.examples import Question, Summary, presets_of, summarise_prediction, token_row
from glassformer.serving.formats import FiniteRoute
from glassformer.serving.schema import GrowBody, PlayBody, SampledBody
from glassformer.verbs.look import look

CURVE = 300
"""Maximum number of points of the loss curve."""

CODE: Mapping[str, Sequence[Any]] = {
    "attention": (attention_scores, attention_weights, attend_written_out),
    "alignment": (attention_scores, attention_weights, attend_written_out),
    "patches": (attention_scores, attention_weights, attend_written_out),
    "logit-lens": (layer_scores,),
    "prediction": (distribution, keep_top_k, keep_top_p),
    "attribution": (gradient_times_input, leave_one_out),
    "pooling": (Pool,),
    "states": (elman_step, lstm_gates, lstm_step, gru_gates, gru_step),
    "tree": (branches,),
}
"""Functions of this package whose source is shown beside a panel, by the panel's name."""


def play_routes(server: Server) -> APIRouter:
    router = APIRouter(responses=ERRORS, tags=["the playground"], route_class=FiniteRoute)
    moments = Moments()

    @router.get("/api/play")
    async def about(http: Request, run: str | None = None) -> dict[str, Any]:
        """Return the facts about a run that the playground loads once."""
        name = server.name(run or next(iter(server.runs.runs)))
        return {"run": name, "runs": list(server.runs.runs), **await server.call(http, name, facts_of)}

    @router.post("/api/play")
    async def play(http: Request, body: PlayBody) -> dict[str, Any]:
        """Return an example's tokens, its prediction and the requested views, all from one job."""
        return await server.call(
            http, body.run, lambda loaded: played(moments.at(loaded, body.update), body), yields=True
        )

    @router.post("/api/play/grow")
    async def grow(http: Request, body: GrowBody) -> dict[str, Any]:
        """Return the likeliest tokens after a prompt and the tokens of a path."""

        def work(loaded: Loaded) -> dict[str, Any]:
            moment = moments.at(loaded, body.update)
            if "tree" not in views_of(moment):
                raise Misuse(f"{loaded.run.path.name} writes nothing: it has no tree")
            check_ids(body.path, moment.output_tokenizer)
            with interventions(moment, body, [body.example, body.other]):
                choices = branches(moment, str(body.example), body.path, body.sampling, body.width)
            return {"path": body.path, "branches": [token_row(choice) for choice in choices]}

        return await server.call(http, body.run, work)

    @router.get("/api/play/code")
    def code(panel: str) -> dict[str, Any]:
        """Return the source code that computes a panel's numbers."""
        if panel not in CODE:
            raise Misuse(unknown("panel", panel[:80], CODE))
        return {"panel": panel, "code": "\n\n".join(inspect.getsource(one) for one in CODE[panel])}

    return router


# --- an answer ---


def played(loaded: Loaded, body: PlayBody) -> dict[str, Any]:
    """Return everything that the request asks about one example, with its interventions applied to the model."""
    views = all_views()
    for name in (*body.views, *body.options):
        if name not in views or not views[name].needs(loaded):
            raise Misuse(unknown("view", name, views_of(loaded)))
    remarks: list[str] = []
    with uploads(loaded, [body.example, *([] if body.other is None else [body.other])]) as given:

        def summary(example: ModelInput, like: Mapping[str, Any] | None) -> Summary:
            groups = [] if like is None else like["groups"]
            also = [row["id"] for group in groups for row in group["rows"] if "id" in row]
            return summarise_prediction(loaded.family, Question(loaded, given[0], example, body.sampling, also))

        before = None
        if body.patch or any(one.scale != 1 for one in body.changes):
            plain = encode_example(loaded, given[0], beam=body.beam)
            before = summary(plain, None)
        with interventions(loaded, body, given):
            with listening(remarks.append):
                example = encode_example(loaded, given[0], beam=body.beam)
            now = summary(example, before)
            seen = {name: _view(loaded, given[0], name, body, example) for name in dict.fromkeys(body.views)}
        if before is not None:  # so that both predictions list the same tokens
            before = summary(plain, now)
    return {
        "tokens": tokens_of(loaded, example),
        "prediction": now,
        "before": before,
        "views": {name: view.packed() for name, view in seen.items()},
        "roles": _roles(loaded, example, seen["attention"]) if "attention" in seen else {},
        "remarks": remarks,
    }


def _view(loaded: Loaded, given: Example, name: str, body: PlayBody, example: ModelInput) -> View:
    kind, options = all_views()[name], dict(body.options.get(name, {}))
    check_options(options, [one for one in kind.options if one not in ("links", "second_run", "versus")])
    sampled = {"temperature": body.temperature, "top_k": body.top_k, "top_p": body.top_p}
    if loaded.family.predicts_next:
        options = {**{key: value for key, value in sampled.items() if key in kind.options}, **options}
    if example.output and "translation" in kind.options:  # so that the search runs only once
        options = {"translation": example.output, **options}
    elif loaded.family.has_decoder and "beam" in kind.options:
        options = {"beam": body.beam, **options}
    texts = [] if kind.texts == "none" else [given]
    try:
        view = look(loaded, *texts, view=name, **options)
        assert isinstance(view, View)
        return view
    except Misuse as error:  # this view has nothing to show for this example, but others may
        return View(name, [], note=str(error))


def _roles(loaded: Loaded, example: ModelInput, view: View) -> dict[str, list[list[str | None]]]:
    """Return the role of each head in this text, by stack and layer; None for a head without a clear role."""
    heads = [panel for panel in view.panels if isinstance(panel, Heads)]
    weights = {stack: panel.weights for stack, panel in zip(sizes_of(loaded.model), heads, strict=False)}
    return {
        stack: [[one.role for one in layer] for layer in head_roles([(weights[stack], ids_of(example, stack))])]
        for stack in weights
        if stack in SELF_ATTENTION and len(example.sides[stack][0]) > 2
    }


def tokens_of(loaded: Loaded, example: ModelInput) -> list[dict[str, Any]]:
    """Return a name for each vector that the model reads; words also have their ids."""
    ids: dict[int, int] = dict(zip(example.words, example.ids, strict=False))
    specials = set() if loaded.tokenizer is None else set(loaded.tokenizer.specials)
    return [
        {"text": name, "id": ids.get(at), "special": ids.get(at) in specials} for at, name in enumerate(example.tokens)
    ]


# --- interventions and earlier weights ---


@contextmanager
def interventions(loaded: Loaded, body: SampledBody, given: Sequence[Any]) -> Iterator[None]:
    """Scale heads, and replace a state by that of the other example, while the context is open."""
    stacks, by_name = stacks_of(loaded.model), dict[str, dict[int, float]]()
    for one in body.changes:
        if one.stack not in stacks:
            raise Misuse(unknown("attention", one.stack, stacks) if stacks else "this run has no heads to turn")
        layers = stacks[one.stack]
        if one.layer >= len(layers) or one.head >= layers[one.layer][1].heads:
            raise Misuse(f"there is no head {one.layer}.{one.head} of {one.stack} attention")
        path, attention = layers[one.layer]
        by_name.setdefault(changeable(path, attention), {})[one.head] = one.scale
    with ExitStack() as undo:
        if body.patch is not None:
            undo.enter_context(intervene(loaded.model, _patched(loaded, body, given)))
        for name, scales in by_name.items():
            for head, factor in scales.items():
                undo.enter_context(intervene(loaded.model, {name: scale(factor, heads=[head])}))
        yield


def _patched(loaded: Loaded, body: SampledBody, given: Sequence[Any]) -> dict[str, Change]:
    """Return the change that replaces a state by the other example's state at the same layer and position."""
    assert body.patch is not None
    if body.other is None:
        raise Misuse("a patch comes from another example: give other")
    if not patches(loaded):
        raise Misuse(f"{loaded.run.path.name} has no states to patch here: it is no model of tokens, and no classifier")
    other, at = encode_example(loaded, given[1]), body.patch.position
    states = layer_states(loaded.model, other.inputs)
    if body.patch.layer >= len(states):
        raise Misuse(f"patch.layer is {body.patch.layer}, but must lie between 0 and {len(states) - 1}")
    if at >= len(other.tokens):
        raise Misuse(f"the other text has {len(other.tokens)} tokens: there is no token {at} to take")
    layer = states[body.patch.layer]
    return {name: replaced(state[:, at : at + 1].clone(), positions=[at]) for name, state in layer.items()}


def patches(loaded: Loaded) -> bool:
    """Return whether a state of another text can be put into this model."""
    return (has_lens(loaded) and loaded.capability(HasDecoder) is None) or has_patches(loaded)


class Moments:
    """Copies of served models with the weights of an earlier update, one per run.

    A copy is freed together with the run's own model.
    """

    def __init__(self) -> None:
        self._kept: WeakKeyDictionary[nn.Module, tuple[int, Loaded]] = WeakKeyDictionary()

    def at(self, loaded: Loaded, update: int | None) -> Loaded:
        """Return the run itself if `update` is None, else a copy of it with the weights after that update."""
        if update is None:
            return loaded
        if update not in (steps := history.steps_of(loaded.run)):
            kept = f"it has {', '.join(map(str, steps))}" if steps else "train with --keep-checkpoints"
            raise Misuse(f"{loaded.run.path.name} kept no update {update}: {kept}")
        now, moment = self._kept.get(loaded.model) or (None, replace(loaded, model=copy.deepcopy(loaded.model)))
        if now != update:
            put_weights(moment.model, history.weights_at(loaded.run, update), f"{loaded.run.path}, update {update:,}")
            self._kept[loaded.model] = update, moment
        return moment


# --- facts that the page loads once ---


def facts_of(loaded: Loaded) -> dict[str, Any]:
    views, config = all_views(), loaded.config
    steps = [line for line in loaded.run.read_metrics() if line.get("event") == "step"]
    losses = smoothed([line["loss"] for line in steps])
    apart = -(-len(steps) // CURVE) or 1
    return {
        "task": config.task,
        "model": loaded.family.model_name(config),
        "parameters": loaded.parameters,
        "data": config.data.path,
        "reads": {IMAGE: "image", TEXT: "text"}.get(config.data.kind, "row") if loaded.features is not None else "text",
        "columns": columns_of(loaded),
        "views": {name: views[name].shows for name in views_of(loaded)},
        "heads": sizes_of(loaded.model),
        "patches": patches(loaded),
        "mask": loaded.tokenizer is not None and loaded.tokenizer.mask is not None,
        "kind": None if loaded.tokenizer is None else loaded.tokenizer.kind,
        "updates": history.steps_of(loaded.run),
        "curve": [[line["step"], loss] for line, loss in zip(steps, losses, strict=True)][::apart],
        "presets": presets_of(loaded),
    }


def columns_of(loaded: Loaded) -> list[dict[str, Any]]:
    """Return the columns of a row with the kind and the choices of each; empty if the run reads no rows."""
    table, mixed = table_in(loaded.features), isinstance(loaded.features, MixedFeatures)
    if table is None and not mixed:
        return []
    reader = reader_of(loaded, "predict")
    choices = {} if table is None else {one.name: list(one.values) for one in table.categories}
    image = loaded.config.data.image if mixed else None
    names = [name for name in (reader.text, *reader.columns) if name is not None]
    kinds = {name: "text" if name == reader.text else "image" if name == image else "value" for name in names}
    return [{"name": name, "kind": kinds[name], "choices": choices.get(name, [])} for name in names]
