"""glassformer serve and glassformer play"""

import argparse
import signal
import threading

from glassformer.cli.options import DEVICE, NO_VERIFY, PRECISION, Option, Parser, flag, values_of
from glassformer.cli.terminal.show import say
from glassformer.config.errors import Misuse
from glassformer.runs.folders import find_run

SERVING = [
    Option("--host", default="127.0.0.1", metavar="ADDRESS", help="to listen on (default 127.0.0.1: this "
           "machine alone)"),
    Option("--port", type=int, default=8467, metavar="N", help="(default 8467; 0: any that is free)"),
    Option("--api-key-file", metavar="FILE", help="holds the key that clients must send (or set GLASSFORMER_API_KEY)"),
    flag("--open", "let everybody in who can reach the address, without a key"),
    Option("--memory", type=float, metavar="GIB", help="of all loaded runs together; the least recently used goes "
           "(default: no limit)"),
    Option("--waiting", type=int, default=256, metavar="N", help="requests that may wait for a run (default 256)"),
    Option("--timeout", type=float, default=600.0, metavar="S", help="seconds that a request may take (default 600)"),
    DEVICE,
    PRECISION,
    NO_VERIFY,
]  # fmt: skip
"""Options of every verb that serves."""
SERVING_ARGUMENTS = ("host", "port", "open", "memory", "device", "precision", "waiting", "timeout")

WAKE_SECONDS = 0.5
"""Interval at which the main thread wakes up. Only it runs signal handlers, and a wait without a timeout would not
notice a signal that the system delivers to another thread.
"""

SERVE = Parser(
    "serve",
    "RUN …",
    "Serve runs over HTTP: OpenAI's API under /v1, what runs can do beside under /api, described at /docs, and the "
    "playground at /.",
    "glassformer serve runs/writer runs/classifier",
    [
        Option("runs", nargs="+", metavar="RUN", help="runs' folders, or `last`; each is called by its folder's name"),
        *SERVING,
    ],
)

PLAY = Parser(
    "play",
    "RUN [RUN2]",
    "The playground: a page in the browser, on which one types to a run, looks into it and changes it.",
    "glassformer play last",
    [
        Option("runs", nargs="+", metavar="RUN", help="a run's folder, or `last`; a second one is shown beside it"),
        flag("--no-browser", "open nothing: print the address"),
        *SERVING,
    ],
)

PARSERS = (SERVE, PLAY)


def run_serve(argv: list[str]) -> None:
    options = SERVE.read(argv)
    serve_until_stopped(
        options, "serving at {url} (API documentation: {url}/docs; the playground: {page}); Ctrl-C stops"
    )


def run_play(argv: list[str]) -> None:
    options = PLAY.read(argv)
    if len(options.runs) > 2:
        raise Misuse(f"play shows one run, or two beside each other, not {len(options.runs)}: serve offers more")
    serve_until_stopped(options, "the playground is at {page}; Ctrl-C stops", browser=options.browser)


def serve_until_stopped(options: argparse.Namespace, told: str, *, browser: bool = False) -> None:
    """`told`: what is said of it, once it serves."""
    for one in options.runs:
        if one != "last":
            find_run(one)
    from glassformer.serving.server import key_of, open_page, serve

    stopped = threading.Event()
    for one in (signal.SIGTERM, signal.SIGINT):
        signal.signal(one, lambda number, frame: stopped.set())
    serving = serve(
        *options.runs, api_key=key_of(options.api_key_file), say=say, **values_of(options, SERVING_ARGUMENTS)
    )
    print(told.format(url=serving.url, page=serving.page), flush=True)
    if browser:
        open_page(serving)
    while not stopped.wait(WAKE_SECONDS):
        pass
    say("stopping: answers on their way may end within 10 s")
    serving.stop()
