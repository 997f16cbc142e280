"""The commands `glassformer serve` and `glassformer play`."""

import argparse
import signal
import threading
import webbrowser

from glassformer.cli.options import Parser, arguments_of
from glassformer.cli.terminal.show import say
from glassformer.config.errors import Misuse
from glassformer.runs.folders import find_run

WAKE_SECONDS = 0.5
"""Interval in seconds at which the main thread wakes up. Only this thread runs signal handlers. A wait without a
timeout would not notice a signal that the system delivers to another thread."""

SERVE, PLAY = Parser("serve"), Parser("play")


def run_serve(argv: list[str]) -> None:
    options = SERVE.read(argv)
    serve_until_stopped(options, "serving at {url} (API: {url}/docs; the playground: {page}); Ctrl-C stops")


def run_play(argv: list[str]) -> None:
    options = PLAY.read(argv)
    if len(options.runs) > 2:
        raise Misuse(f"play shows one run, or two beside each other, not {len(options.runs)}: serve offers more")
    serve_until_stopped(options, "the playground is at {page}; Ctrl-C stops", browser=options.browser)


def serve_until_stopped(options: argparse.Namespace, told: str, *, browser: bool = False) -> None:
    """Serve runs until a signal stops the server. `told`: message for when the server is ready."""
    for one in options.runs:
        if one != "last":
            find_run(one)
    from glassformer.serving.server import key_of, serve

    stopped = threading.Event()
    for one in (signal.SIGTERM, signal.SIGINT):
        signal.signal(one, lambda number, frame: stopped.set())
    serving = serve(*options.runs, api_key=key_of(options.api_key_file), **arguments_of(options, serve))
    print(told.format(url=serving.url, page=serving.page), flush=True)
    if options.no_auth:
        say(f"no key is needed: everyone who can reach {options.host} can use this server")
    if browser:
        webbrowser.open(serving.page)
    while not stopped.wait(WAKE_SECONDS):
        pass
    say("stopping: answers on their way may end within 10 s")
    serving.stop()
