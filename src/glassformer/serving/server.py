"""HTTP server for runs (`gf.serve`) and the playground (`gf.play`)."""

import asyncio
import errno
import os
import re
import socket
import threading
import time
import webbrowser
from collections.abc import Callable
from contextlib import nullcontext
from importlib.resources import files
from itertools import takewhile
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import quote

import uvicorn
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp

from glassformer.config.arguments import check_arguments
from glassformer.config.errors import GlassformerError, Misuse
from glassformer.config.messages import Say, say, takes_listener
from glassformer.config.presets import VERSION
from glassformer.rendering.view import viewer_module, viewer_style
from glassformer.runs.run import Run
from glassformer.serving.answers import Server, refusal
from glassformer.serving.api import routes
from glassformer.serving.connections import BACKLOG, LOG, Connection, RepeatFilter, accept_batch, log_loop_error
from glassformer.serving.formats import FiniteJSONResponse
from glassformer.serving.guard import ClientGone, Guard, Refused, is_loopback
from glassformer.serving.play import play_routes
from glassformer.serving.runs import ServedRuns, check_runs

HOST, PORT = "127.0.0.1", 8467
WAITING = 256
"""Maximum number of requests that may wait for a run."""
TIMEOUT = 600.0
GRACE = 10.0
"""Seconds that running answers may take after the server is stopped."""
MIN_KEY_CHARS = 8
TICKS_PER_REPORT = 600
"""Ticks of uvicorn, each 0.1 s, between two reports of repeated log messages."""
KINDS = {".html": "text/html; charset=utf-8", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}

VIEWER = {"viewer.js": viewer_module, "viewer.css": viewer_style}
"""Page files that are generated: the viewer that draws the panels of `look`."""


class Serving:
    """A server that runs in its own thread, until `stop` is called or the `with` block is left."""

    def __init__(self, server: Server, app: ASGIApp, host: str, port: int) -> None:
        config = uvicorn.Config(
            app,
            host=host,
            port=port,
            log_level="warning",
            access_log=False,
            server_header=False,
            timeout_keep_alive=30,
            http=Connection,
            backlog=accept_batch(),
            h11_max_incomplete_event_size=64 * 1024,
            timeout_graceful_shutdown=5,
            ws="none",
        )
        self._server, self._uvicorn = server, _Uvicorn(config)
        self._socket = _bound(host, port)
        self.host, self.port = host, self._socket.getsockname()[1]
        self._thread = threading.Thread(target=self._run, name="server", daemon=True)
        self._thread.start()
        while not self._uvicorn.started and self._thread.is_alive():
            time.sleep(0.01)
        if not self._uvicorn.started:
            raise GlassformerError("the server did not start: its log says why")

    def _run(self) -> None:
        asyncio.run(self._uvicorn.serve(sockets=[self._socket]))

    @property
    def url(self) -> str:
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}"

    @property
    def page(self) -> str:
        """Address of the playground with the first run; if exactly two runs are served, both."""
        first, *more = map(quote, self._server.runs.runs)
        return f"{self.url}/#run={first}" + (f"&second={more[0]}" if len(more) == 1 else "")

    def stop(self, grace: float = GRACE) -> None:
        """Accept no more connections. Running answers have `grace` seconds to finish; the others end with an error."""
        if not self._thread.is_alive():
            return
        self._uvicorn.refuse_new()
        until = time.monotonic() + grace
        while self._uvicorn.answering and time.monotonic() < until:
            time.sleep(0.02)
        self._server.runs.stop()
        self._uvicorn.should_exit = True
        self._thread.join(grace + 10)

    def __enter__(self) -> "Serving":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()


class _Uvicorn(uvicorn.Server):
    """A uvicorn server that installs no signal handlers and logs a repeated failure once per minute."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._repeats = RepeatFilter(LOG)

    def capture_signals(self) -> Any:
        return nullcontext()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for one in sockets or ():
            one.listen(BACKLOG)  # uvicorn uses one number for this and for asyncio's batch size

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        asyncio.get_running_loop().set_exception_handler(log_loop_error)
        LOG.addFilter(self._repeats)
        try:
            await super().serve(sockets)
        finally:
            LOG.removeFilter(self._repeats)
            self._repeats.report()

    async def on_tick(self, counter: int) -> bool:
        if counter % TICKS_PER_REPORT == TICKS_PER_REPORT - 1:
            self._repeats.report()
        return await super().on_tick(counter)

    @property
    def answering(self) -> bool:
        return bool(self.server_state.tasks)

    def refuse_new(self) -> None:
        """Accept no more connections, but finish the running requests."""
        for one in getattr(self, "servers", ()):
            one.get_loop().call_soon_threadsafe(one.close)


def _bound(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sets TCP_NODELAY only if the socket names TCP as its protocol; without it each small write waits 40 ms.
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
    except OSError as error:
        bound.close()
        reason = "another program uses it" if error.errno == errno.EADDRINUSE else error.strerror
        raise GlassformerError(f"cannot listen on {host} port {port}: {reason} (--port N chooses another)") from None
    return bound


@check_arguments
@takes_listener
def serve(
    *runs: str | os.PathLike[str] | Run,
    host: str = HOST,
    port: int = PORT,
    api_key: str | None = None,
    no_auth: bool = False,
    model_memory: float | None = None,
    device: str = "auto",
    precision: str = "fp32",
    waiting: int = WAITING,
    timeout: float = TIMEOUT,
    say: Say = say,
) -> Serving:
    """Serve runs over HTTP. Return the server, which runs until it is stopped.

    OpenAI's clients work under `/v1`. All other requests are under `/api`, and `/docs` describes them. An address that
    other machines can reach needs an `api_key`, unless `no_auth` is True.

    `model_memory` is the maximum for all loaded runs in GiB. `waiting` is the maximum number of requests that wait for
    a run. `timeout` is the time limit of a request in seconds. `port` 0 means any free port.
    """
    if not 0 <= port <= 65535:
        raise Misuse(f"--port is {port}, but must lie between 0 and 65535")
    for option, value in (("--model-memory", model_memory), ("--waiting", waiting), ("--timeout", timeout)):
        if value is not None and not value > 0:
            raise Misuse(f"{option} is {value:g}, but must be above 0")
    if api_key is not None and (len(api_key) < MIN_KEY_CHARS or not api_key.isascii() or not api_key.isprintable()):
        raise Misuse(f"an API key is at least {MIN_KEY_CHARS} plain characters")
    if api_key is None and not no_auth and not is_loopback(host):
        keys = "--api-key-file FILE or GLASSFORMER_API_KEY"
        raise Misuse(f"{host} can be reached by others: give a key ({keys}), or pass --no-auth")
    check_runs(runs)
    limit = None if model_memory is None else int(model_memory * 2**30)
    served = ServedRuns(runs, device=device, precision=precision, memory=limit, waiting=waiting)
    server = Server(served, timeout)
    serving = Serving(server, application(server, host, api_key), host, port)
    try:
        first = next(iter(served.runs))
        say(f"loading {first}")
        served.use(first, lambda worker: worker.call(lambda loaded: None)).result()
    except BaseException:
        serving.stop(0)
        raise
    return serving


@check_arguments
def play(
    run: str | os.PathLike[str] | Run,
    second_run: str | os.PathLike[str] | Run | None = None,
    *,
    browser: bool = True,
    **options: Any,
) -> Serving:
    """Serve the playground, a page to try a run, look inside it and change it. A second run is shown beside the first.

    The page opens in the browser unless `browser` is False. Its address is the `page` of the returned server. `options`
    are passed to `serve`.
    """
    serving = serve(run, *([] if second_run is None else [second_run]), **options)
    if browser:
        webbrowser.open(serving.page)
    return serving


def application(server: Server, host: str, key: str | None) -> ASGIApp:
    """Return the app with all routes, behind its guard."""
    app = FastAPI(
        title="glassformer",
        version=VERSION,
        description="Runs of glassformer over HTTP.",
        docs_url=None,
        redoc_url=None,
    )
    app.include_router(routes(server))
    app.include_router(play_routes(server))

    @app.get("/health", tags=["the server"])
    def health() -> dict[str, str]:
        """Return that the server is alive. Needs no key."""
        return {"status": "ok"}

    @app.get("/metrics", tags=["the server"], response_class=PlainTextResponse)
    def metrics() -> str:
        """Return counters and gauges in Prometheus's text format."""
        work = {name: worker.load_of_work for name, worker in server.runs.loaded.items()}
        return server.metrics.text(
            {
                "texts_being_written": ("texts that are being written", {name: one for name, (one, _) in work.items()}),
                "requests_waiting": ("texts and other work that wait", {name: two for name, (_, two) in work.items()}),
                "models_loaded": ("models in memory", dict.fromkeys(work, 1)),
            }
        )

    for path, name in pages().items():
        app.get(path, include_in_schema=False)(_page(name))
    for kind in (GlassformerError, HTTPException, RequestValidationError, ClientGone, Exception):
        app.exception_handler(kind)(_on_error)
    return Guard(app, host=host, key=key, metrics=server.metrics)


def pages() -> dict[str, str]:
    """Return the file name of each page and page asset in the package, by URL path."""
    parts = [one.name for one in (files("glassformer.serving") / "page").iterdir()]
    own = {f"/page/{name}": name for name in sorted([*parts, *VIEWER]) if Path(name).suffix in KINDS}
    return {"/": "play.html", "/docs": "docs.html", **own}


def _page(name: str) -> Callable[[], Response]:
    def page() -> Response:
        made = VIEWER.get(name)
        text = made() if made else (files("glassformer.serving") / "page" / name).read_text(encoding="utf-8")
        return Response(text, media_type=KINDS[Path(name).suffix])

    return page


async def _on_error(http: Request, error: Exception) -> Response:
    """Return an error as a response in OpenAI's format."""
    if isinstance(error, ClientGone):
        raise error
    if isinstance(error, RequestValidationError):
        answer = _invalid(error)
    elif isinstance(error, HTTPException) and not isinstance(error, Refused):
        what = {404: "there is nothing at this address", 405: "this address takes another method"}
        answer = Refused(error.status_code, what.get(error.status_code, str(error.detail)))
        answer.headers = error.headers
    else:
        answer = refusal(error)
    return FiniteJSONResponse(answer.body, answer.status_code, answer.headers)


def _invalid(error: RequestValidationError) -> Refused:
    """Return the first error of a request body, with the name of its field."""
    first: dict[str, Any] = error.errors()[0]
    if first["type"] == "json_invalid":
        return Refused(400, f"the body is not JSON: {first.get('ctx', {}).get('error', first['msg'])}")
    place = [str(part) for part in first["loc"] if part not in ("body", "query")]
    if first["type"] == "extra_forbidden":
        return Refused(400, f"unknown field '{place[-1][:80]}'", "unknown_parameter", param=".".join(place)[:200])
    place = list(takewhile(re.compile(r"\d+|(?!str$|int$|float$|bool$|dict$)[a-z_]+").fullmatch, place))  # no types
    if not place:
        return Refused(400, "the body must be a JSON object (Content-Type: application/json)")
    message = first["msg"].removeprefix("Value error, ")
    return Refused(400, f"{'.'.join(place)[:200]}: {message}", param=place[0][:200])


def key_of(file: str | None) -> str | None:
    """Return the API key from a file, or without a file from the environment; None if it is not set."""
    if file is None:
        return os.environ.get("GLASSFORMER_API_KEY") or None
    try:
        return Path(file).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise Misuse(f"cannot read the key in {file}: {getattr(error, 'strerror', None) or error}") from None
