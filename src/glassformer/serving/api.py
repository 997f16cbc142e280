"""Routes except the playground: OpenAI's API under /v1, and our own under /api."""

import base64
import binascii
import contextlib
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from fastapi import APIRouter, Request
from starlette.responses import Response

from glassformer.config.errors import Misuse, refuse_unknown
from glassformer.config.messages import listening, silent
from glassformer.config.views import OPTIONS
from glassformer.data.datasets.embedded import LINKED_DATASETS
from glassformer.data.features.build import MixedFeatures
from glassformer.decoding.options import SEARCH_OPTIONS
from glassformer.families.base import Loaded
from glassformer.families.capabilities import Fills, Labels, Translates
from glassformer.families.evaluate import encode_example
from glassformer.families.requests import Example
from glassformer.families.schema import reader_of
from glassformer.inspection.attention import attention_of, sizes_of
from glassformer.inspection.views.registry import views_of
from glassformer.serving import schema
from glassformer.serving.answers import Server, require
from glassformer.serving.formats import FiniteRoute
from glassformer.serving.guard import Refused
from glassformer.serving.writing import Chat, Completion, write
from glassformer.verbs.look import look

MAX_VIEW_OPTIONS = {"beam": 64, "tokens": 1000, "samples": 16}
"""Largest values of view options that cost time and memory."""
MAX_LOG_LINES = 5000
"""Maximum number of log lines to send; longer logs are thinned to every n-th line."""

ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": schema.ErrorBody, "description": what}
    for status, what in {
        400: "not what can be asked",
        401: "no key, or a wrong one",
        403: "another host or origin",
        404: "no such model",
        408: "the body came too slowly",
        413: "the body is too large",
        429: "too much waits already; Retry-After says when to come back",
        500: "the model failed",
        503: "server stopping, out of memory, or a view stopped because other requests waited",
        504: "no answer in time",
    }.items()
}


def routes(server: Server) -> APIRouter:
    """Return all routes of this module."""
    router = APIRouter(responses=ERRORS, route_class=FiniteRoute)

    async def answer(http: Request, run: str | None, work: Callable[[Loaded], dict[str, Any]]) -> dict[str, Any]:
        """Return the result of work on a run, with its remarks."""
        remarks: list[str] = []
        return {**await server.call(http, run, listening(remarks.append)(work)), "remarks": remarks}

    # --- OpenAI's API ---

    @router.post("/v1/completions", tags=["OpenAI's shape"])
    async def completions(http: Request, body: schema.CompletionBody) -> Response:
        """Continue a prompt."""
        return await write(server, http, Completion(body))

    @router.post("/v1/chat/completions", tags=["OpenAI's shape"])
    async def chat_completions(http: Request, body: schema.ChatBody) -> Response:
        """Answer the last message of a chat. The model needs a chat template."""
        return await write(server, http, Chat(body))

    @router.post("/v1/embeddings", tags=["OpenAI's shape"])
    async def embeddings(http: Request, body: schema.EmbeddingsBody) -> dict[str, Any]:
        """Return the vector of each text."""

        def work(loaded: Loaded) -> tuple[list[Any], int]:
            tokenizer = loaded.tokenizer
            if tokenizer is None or reader_of(loaded, "embed").columns:
                raise Misuse(f"{loaded.run.path.name} reads no texts alone: it has no vector of one")
            vectors = [one.vector.astype(np.float32) for one in loaded.embed(body.texts)]
            return vectors, sum(len(tokenizer.encode(text)) for text in body.texts)

        vectors, count = await server.call(http, body.model, work)
        packed = body.encoding_format == "base64"
        shown = [base64.b64encode(one.tobytes()).decode() if packed else one.tolist() for one in vectors]
        data = [{"object": "embedding", "index": index, "embedding": one} for index, one in enumerate(shown)]
        usage = {"prompt_tokens": count, "total_tokens": count}
        return {"object": "list", "data": data, "model": server.name(body.model), "usage": usage}

    def model_entry(name: str) -> dict[str, Any]:
        created, task = server.runs.created[name], server.runs.cards[name]["task"]
        entry = {"id": name, "object": "model", "created": created, "owned_by": "glassformer", "task": task}
        return {**entry, "loaded": name in server.runs.loaded}

    @router.get("/v1/models", tags=["OpenAI's shape"])
    def models() -> dict[str, Any]:
        """List the runs that are served."""
        served = [name for name in server.runs.runs if server.runs.can_answer(name)]
        return {"object": "list", "data": [model_entry(name) for name in served]}

    @router.get("/v1/models/{model}", tags=["OpenAI's shape"])
    def one_model(model: str) -> dict[str, Any]:
        return model_entry(server.name(model))

    # --- our own ---

    @router.post("/api/predict", tags=["more of a run"])
    async def predict(http: Request, body: schema.PredictBody) -> dict[str, Any]:
        """Predict for each example: a label, several labels, a number, the next token or a translation."""

        def work(loaded: Loaded) -> dict[str, Any]:
            with uploads(loaded, body.examples) as examples:
                if (labels := loaded.capability(Labels)) is not None:
                    found = [one.to_dict() for one in labels.predict(examples)]
                    for entry, example in zip(found, body.examples, strict=True):
                        entry.update({key: example for key in ("image",) if key in entry})
                else:
                    ask = loaded.family.answer_function(loaded, top=5)
                    found = [ask(_text(example)) for example in examples]
            return {"predictions": found}

        return await answer(http, body.run, work)

    @router.post(
        "/api/predict/image",
        tags=["more of a run"],
        openapi_extra={"requestBody": {"content": {"image/*": {"schema": {"type": "string", "format": "binary"}}}}},
    )
    async def predict_image(http: Request, run: str | None = None) -> dict[str, Any]:
        """Predict for one image; the body is the image file: curl --data-binary @image.png."""
        picture = base64.b64encode(await http.body()).decode()
        if len(picture) > schema.MAX_IMAGE_CHARS:
            raise Refused(
                413, f"the image is larger than {schema.MAX_IMAGE_CHARS * 3 // 4 >> 20} MiB", "body_too_large"
            )
        return await predict(http, schema.PredictBody(run=run, examples=[picture]))

    @router.post("/api/translate", tags=["more of a run"])
    async def translate(http: Request, body: schema.TranslateBody) -> dict[str, Any]:
        """Translate texts; the best translation of each comes first."""

        def work(loaded: Loaded) -> dict[str, Any]:
            translator = require(loaded, Translates, "translates nothing")
            search = {name: getattr(body, name) for name in SEARCH_OPTIONS}
            translations = [one.to_dict() for one in translator.translate(body.texts, **search)]
            for one in translations if body.alignment else ():
                one["alignment"] = aligned(loaded, one["source"], one["translation"])
            return {"translations": translations}

        return await answer(http, body.run, work)

    @router.post("/api/fill", tags=["more of a run"])
    async def fill(http: Request, body: schema.FillBody) -> dict[str, Any]:
        """Return the likeliest tokens for each <mask> of each text."""

        def work(loaded: Loaded) -> dict[str, Any]:
            filler = require(loaded, Fills, "guesses no hidden tokens")
            return {"texts": [one.to_dict() for one in filler.fill(body.texts, most=body.most)]}

        return await answer(http, body.run, work)

    @router.post("/api/look", tags=["more of a run"])
    async def look_inside(http: Request, body: schema.LookBody) -> dict[str, Any]:
        """Return a view of `glassformer look` as panels. The options have the Python names of its flags."""
        options = dict(body.options)
        if options.get("links") not in (None, *LINKED_DATASETS):
            raise Refused(400, "links are read from a file, which a request cannot name", param="options")
        check_options(options, OPTIONS)
        other, versus = options.pop("second_run", None), options.pop("versus", None)

        def work(loaded: Loaded, second: Loaded | None = None) -> dict[str, Any]:
            remarks: list[str] = []
            if second is not None and image_column(second) != image_column(loaded):
                raise Misuse("one of the two runs reads images, and the other not as it does")
            asked: dict[str, Any] = options if second is None else {**options, "second_run": second}
            with uploads(loaded, [*body.texts, *([] if versus is None else [versus])]) as given:
                if versus is not None:
                    asked = {**asked, "versus": given.pop()}
                view = look(loaded, *given, view=body.view, say=remarks.append, **asked)
            panels = view.packed() if body.packed else view.to_dict()
            return {**panels, "about": view.about, "remarks": remarks}

        if other is None:
            return await server.call(http, body.run, work, yields=True)
        return await server.call_both(http, body.run, str(other), work)

    @router.get("/api/run", tags=["more of a run"])
    async def run_facts(http: Request, run: str | None = None) -> dict[str, Any]:
        """Return the card, the log and the available views of a run."""
        name = server.name(run)
        folder = server.runs.runs[name]
        lines = folder.read_metrics()
        kept = lines[:: -(-len(lines) // MAX_LOG_LINES) or 1]
        views = await server.call(http, name, views_of)
        return {"run": name, "card": server.runs.cards[name], "metrics": kept, "views": views}

    return router


def _text(example: Example) -> str:
    if not isinstance(example, str):
        raise Misuse("this run reads texts, not rows")
    return example


def check_options(options: Mapping[str, Any], known: Collection[str]) -> None:
    """Raise `Misuse` for unknown options of a view, and for values that would block the run."""
    for option, value in options.items():
        refuse_unknown("option", option, known, Misuse)
        most = MAX_VIEW_OPTIONS.get(option)
        if most is not None and isinstance(value, int | float) and value > most:
            raise Misuse(f"{option} is {value}, but at most {most} here")


def image_column(loaded: Loaded) -> str | bool | None:
    """Return the column with images; True if examples are images, None if the run reads no images."""
    if isinstance(loaded.features, MixedFeatures) and loaded.features.image is not None:
        return loaded.config.data.image
    return True if reader_of(loaded, "predict").arrays is not None else None


@contextlib.contextmanager
def uploads(loaded: Loaded, examples: Sequence[Example]) -> Iterator[list[Example]]:
    """Yield the examples, with uploaded images written to temporary files. No path in a request is ever opened."""
    column = image_column(loaded)
    if column is None:
        if any(isinstance(example, str) and len(example) > schema.MAX_TEXT_CHARS for example in examples):
            raise Misuse(f"a text has at most {schema.MAX_TEXT_CHARS:,} characters here")
        yield list(examples)
        return
    with tempfile.TemporaryDirectory(prefix="glassformer-") as folder:

        def kept(number: int, data: Any) -> str:
            path = Path(folder) / f"image-{number}"
            try:
                path.write_bytes(base64.b64decode(data, validate=True))
            except (binascii.Error, ValueError, TypeError):
                raise Misuse("an image is the base64 of its file") from None
            return str(path)

        given: list[Example] = []
        for number, example in enumerate(examples):
            if isinstance(column, bool):
                given.append(kept(number, example))
            elif not isinstance(example, Mapping) or column not in example:
                raise Misuse(f"this run reads rows with an image in the column '{column}'")
            else:
                given.append({**example, column: kept(number, example[column])})
        try:
            yield given
        except Misuse as error:
            raise Misuse(str(error).replace(f"{folder}/", "")) from None


def aligned(loaded: Loaded, source: str, translation: str) -> dict[str, Any] | None:
    """Return the attention of each target token to the source, averaged over layers and heads.

    Return None for a blank source; raise `Misuse` if the model has no cross-attention.
    """
    if "cross" not in sizes_of(loaded.model):
        raise Misuse(f"{loaded.run.path.name} has no attention to its source: there is no alignment")
    if not source.strip():
        return None
    with listening(silent):
        example = encode_example(loaded, source, target=translation)
    weights = attention_of(loaded.model, example.inputs)["cross"].mean((0, 1))
    return {"source": example.tokens, "written": example.answers, "weights": weights.round(4).tolist()}
