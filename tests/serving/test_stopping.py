"""A server that is stopped or killed in mid-stream, clients that go away or read slowly, half characters."""

import json
import os
import signal
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import repeat
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

import glassformer as gf
from glassformer.config.progress import counted_batches
from glassformer.inspection.views import registry
from glassformer.inspection.views.registry import LookRequest
from glassformer.rendering.view import View
from helpers.running import PATIENCE, finish
from helpers.serving import Client, events, process

LONG = {"prompt": "abc>", "max_tokens": 4000, "temperature": 0, "stream": True}
"""The likeliest tokens of a model that has learned nothing go round in circles: they do not end."""


@pytest.fixture(autouse=True, scope="module")
def endless(writer: str) -> None:
    assert len(gf.load(writer).generate("abc>", tokens=300, greedy=True)) >= 300


@pytest.mark.slow
def test_sigterm_lets_a_stream_end(writer: str) -> None:
    with process(writer) as (server, url):
        body = {**LONG, "max_tokens": 60}
        with httpx.stream("POST", f"{url}/v1/completions", json=body, timeout=PATIENCE) as response:
            stream = events(response)
            next(stream)
            server.send_signal(signal.SIGTERM)
            assert [*stream][-1] == "[DONE]"
        code, out, err = finish(server)
    assert (code, "stopping" in err) == (0, True), (out, err)
    with pytest.raises(httpx.ConnectError):
        Client(url).get("/health")


def test_a_stream_that_does_not_end_in_time_says_so(writer: str) -> None:
    serving = gf.serve(writer, port=0)
    body = {**LONG, "n": 16, "max_tokens": 4096}
    with httpx.stream("POST", f"{serving.url}/v1/completions", json=body, timeout=PATIENCE) as response:
        stream = events(response)
        next(stream)
        serving.stop(grace=0)
        last = [*stream][-1]
    assert last == "[DONE]" or last["error"]["message"] == "the server is being stopped"


@pytest.mark.slow
def test_sigkill_in_mid_stream_leaves_a_run_as_it_was(writer: str) -> None:
    before = {path: path.read_bytes() for path in Path(writer).rglob("*") if path.is_file()}
    with (
        process(writer) as (server, url),
        httpx.stream("POST", f"{url}/v1/completions", json=LONG, timeout=PATIENCE) as response,
    ):
        stream = events(response)
        next(stream)
        server.kill()
        with pytest.raises(httpx.HTTPError):
            list(stream)
    assert {path: path.read_bytes() for path in Path(writer).rglob("*") if path.is_file()} == before
    with process(writer) as (_, url):
        assert Client(url).get("/health").status == 200


def test_a_client_that_goes_away_ends_its_work(client: Client) -> None:
    for stream in (True, False):
        place = urlsplit(client.url)
        body = json.dumps({**LONG, "stream": stream, "n": 16, "max_tokens": 4096}).encode()
        with socket.create_connection((place.hostname, place.port)) as gone:
            head = f"POST /v1/completions HTTP/1.1\r\nHost: {place.netloc}\r\nContent-Type: application/json\r\n"
            gone.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            until(lambda: writing(client) > 0)
        until(lambda: writing(client) == 0)


@pytest.mark.slow
def test_a_client_that_reads_slowly_holds_nobody_up(client: Client) -> None:
    place = urlsplit(client.url)
    body = json.dumps({**LONG, "max_tokens": 400}).encode()
    with socket.socket() as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
        slow.connect((place.hostname, place.port))
        head = f"POST /v1/completions HTTP/1.1\r\nHost: {place.netloc}\r\nContent-Type: application/json\r\n"
        slow.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        quick = client.post("/v1/completions", prompt="ab", max_tokens=5)
        assert quick.status == 200
        until(lambda: writing(client) == 0)


def writing(client: Client) -> int:
    """Texts that are being written."""
    lines = client.request("GET", "/metrics").text.splitlines()
    return int(next(line for line in lines if line.startswith("glassformer_texts_being_written{")).split()[-1])


def until(true: Any) -> None:
    give_up = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < give_up
        time.sleep(0.01)


def test_more_than_can_wait_is_told_when_to_come_back(writer: str) -> None:
    with gf.serve(writer, port=0, waiting=16) as serving:
        client = Client(serving.url)
        place = f"{client.url}/v1/completions"
        with httpx.stream("POST", place, json={**LONG, "n": 16}, timeout=PATIENCE) as first:
            began = events(first)
            next(began)
            with httpx.stream("POST", place, json={**LONG, "n": 16}, timeout=PATIENCE):  # all of these wait
                third = client.request("POST", "/v1/completions", json={**LONG, "stream": False})
        assert (third.status_code, third.json()["error"]["code"]) == (429, "busy")
        assert third.headers["retry-after"] == "1"


def test_an_answer_that_takes_too_long(writer: str) -> None:
    with gf.serve(writer, port=0, timeout=0.05) as serving:
        client = Client(serving.url)
        body = {"prompt": "abc>", "max_tokens": 4096, "n": 16, "temperature": 0}
        answer = client.post("/v1/completions", **body)
        assert (answer.status, answer.json["error"]["code"]) == (504, "timeout")
        streamed = client.request("POST", "/v1/completions", json={**body, "stream": True})
        # on a slow machine not even the first token comes in time
        last = list(events(streamed))[-1] if streamed.status_code == 200 else streamed.json()
        assert last["error"]["code"] == "timeout"
        assert client.get("/health").status == 200


def test_a_view_ends_when_its_time_is_over_or_a_text_waits(writer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The work ends, not only its answer: the model is free for others at once."""
    begun, ended = threading.Event(), threading.Event()

    def never_ready(request: LookRequest) -> View:
        begun.set()
        try:
            for _ in counted_batches(repeat(1), int, 0, "batch"):
                time.sleep(0.001)
        finally:
            ended.set()
        raise AssertionError

    monkeypatch.setitem(registry._REGISTERED, "pairs", replace(registry.all_views()["pairs"], make=never_ready))
    body = {"view": "pairs", "texts": ["abc"]}
    with gf.serve(writer, port=0, timeout=0.3) as serving:
        answer = Client(serving.url).post("/api/look", **body)
        assert (answer.status, answer.json["error"]["code"]) == (504, "timeout")
        assert ended.wait(PATIENCE)
    begun.clear()
    monkeypatch.setattr("glassformer.serving.worker.TURN", 0.01)
    with gf.serve(writer, port=0) as serving, ThreadPoolExecutor() as clients:
        client = Client(serving.url)
        view = clients.submit(client.post, "/api/look", **body)
        assert begun.wait(PATIENCE)
        assert client.post("/v1/completions", prompt="abc>", max_tokens=2).status == 200
        assert (view.result().status, view.result().json["error"]["code"]) == (503, "yielded")


@pytest.mark.slow
def test_no_half_character_in_a_stream(tmp_path: Path) -> None:
    """A model of bytes that has learned nothing writes bytes that are no characters: each event is whole UTF-8."""
    trained = gf.train("docstrings", model="transformer", steps=1, out=tmp_path / "bytes",
                       **{"tokenizer.vocab_size": 260, "model.width": 8, "model.layers": 1, "model.heads": 1,
                          "model.context": 32, "training.samples": False})  # fmt: skip
    loaded = gf.load(trained.run)
    with gf.serve(trained.run, port=0) as serving:
        asked = {"prompt": "é", "max_tokens": 200, "seed": 3, "temperature": 3}
        pieces = Client(serving.url).stream("/v1/completions", **asked)
        assert pieces.pop() == "[DONE]"
        text = "".join(piece["choices"][0]["text"] for piece in pieces)
        assert text == loaded.generate("é", tokens=200, seed=3, temperature=3.0)
        text.encode()


def test_stopping_twice_is_stopping_once(writer: str) -> None:
    with gf.serve(writer, port=0) as serving:
        serving.stop()


@pytest.mark.slow
def test_exit_code_of_ctrl_c(writer: str) -> None:
    with process(writer) as (server, _):
        os.kill(server.pid, signal.SIGINT)
        code, _, err = finish(server)
    assert (code, "stopping" in err) == (0, True)
