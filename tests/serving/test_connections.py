"""Clients without a key that hold connections: the server stays reachable, and its log short."""

import logging
import resource
import socket
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import repeat
from pathlib import Path
from urllib.parse import urlsplit

import pytest

import glassformer as gf
from glassformer.serving import connections
from helpers.running import PATIENCE
from helpers.serving import Client, process

KEY = "a-key-that-nobody-guesses"
BODY = b'{"examples": ["ab>"]}'
FILES = 128
"""Limit on open files of a server that runs in a process of its own."""


@pytest.fixture(scope="module")
def url(writer: str) -> Iterator[str]:
    with gf.serve(writer, port=0, api_key=KEY) as serving:
        yield serving.url


@pytest.fixture
def log() -> Iterator[list[str]]:
    """Messages of the server that pass its filter."""
    lines: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    connections.LOG.addHandler(handler)
    yield lines
    connections.LOG.removeHandler(handler)


def connected(url: str) -> socket.socket:
    place = urlsplit(url)
    return socket.create_connection((place.hostname, place.port), timeout=PATIENCE)


def head(url: str, line: str, *more: str) -> bytes:
    return "\r\n".join([line, f"Host: {urlsplit(url).netloc}", *more, "", ""]).encode()


def half_a_request(url: str) -> bytes:
    length = f"Content-Length: {len(BODY)}"
    return head(url, "POST /api/predict HTTP/1.1", "Content-Type: application/json", length) + BODY[:1]


def is_closed(one: socket.socket) -> bool:
    try:
        return one.recv(65536) == b""
    except ConnectionResetError:
        return True


@pytest.mark.parametrize(
    "start",
    [
        lambda url: b"",
        lambda url: b"GET /health HTTP/1.1\r\nHost:",
        lambda url: head(url, "GET /health HTTP/1.1") + b"GET",
        lambda url: head(url, "POST /v1/completions HTTP/1.1", "Content-Length: 100") + b"{",
    ],
    ids=["nothing", "half a head", "half of a second head", "half a body that was refused"],
)
def test_a_request_that_is_not_completed_ends_its_connection(
    url: str, monkeypatch: pytest.MonkeyPatch, start: Callable[[str], bytes]
) -> None:
    """Also where the client goes on sending a byte now and then."""
    monkeypatch.setattr(connections, "HEADER_SECONDS", 0.1)
    with connected(url) as client:
        client.sendall(start(url))
        client.settimeout(0.01)
        for _ in range(300):
            try:
                if is_closed(client):
                    return
            except TimeoutError:
                client.sendall(b"a")
    pytest.fail("the connection is still open after 3 s")


def test_a_client_that_reads_nothing_is_disconnected(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "STALL_SECONDS", 0.1)
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.settimeout(20)
        place = urlsplit(url)
        client.connect((place.hostname, place.port))
        many = head(url, "GET /page/viewer.js HTTP/1.1") * 10_000
        with pytest.raises(ConnectionError):  # `sendall` blocks as long as the server waits
            deque(map(client.sendall, repeat(many, 100)), maxlen=0)


def test_silent_connections_leave_room_for_others(url: str, monkeypatch: pytest.MonkeyPatch, log: list[str]) -> None:
    monkeypatch.setattr(connections, "max_connections", lambda: 8)
    with ExitStack() as stack:
        clients = [stack.enter_context(connected(url)) for _ in range(40)]
        assert Client(url).get("/health").status == 200
        assert all(is_closed(one) for one in clients[:32])
        clients[-1].sendall(head(url, "GET /health HTTP/1.1"))
        assert clients[-1].recv(100).startswith(b"HTTP/1.1 200")
    assert len(log) == 1
    assert "too many connections" in log[0]


def test_incomplete_bodies_leave_room_for_others(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest connections are closed, so a slow client can still complete its body."""
    monkeypatch.setattr(connections, "max_connections", lambda: 8)
    with ExitStack() as stack:
        clients = [stack.enter_context(connected(client.url)) for _ in range(8)]
        for one in clients:
            one.sendall(half_a_request(client.url))
        for _ in range(3):
            assert client.get("/health").status == 200
        clients[-1].sendall(BODY[1:])
        assert clients[-1].recv(100).startswith(b"HTTP/1.1 200")
        assert is_closed(clients[0])


def test_a_repeated_failure_is_logged_once_with_a_count() -> None:
    logger = logging.Logger("test")
    lines: list[str] = []
    repeats = connections.RepeatFilter(logger)
    logger.addFilter(repeats)
    logger.addHandler(handler := logging.Handler())
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    for number in range(1000):
        logger.error("a failure")
        logger.error("another one, number %d", number)
    assert lines == ["a failure", "another one, number 0"]
    repeats.report()
    assert lines[2:] == ["999 more times: a failure", "999 more times: another one, number %d"]
    repeats.report()
    logger.error("a failure")
    assert lines[4:] == ["a failure"]


def test_connections_leave_files_for_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    for files in (64, 1024, 10**6, resource.RLIM_INFINITY):
        monkeypatch.setattr(resource, "getrlimit", lambda kind, files=files: (files, files))
        sockets = connections.max_connections() + connections.accept_batch()
        assert sockets <= (5 / 8 * files if 0 < files < 2000 else 1128)


@pytest.mark.slow
def test_more_connections_than_files(writer: str, tmp_path: Path) -> None:
    """A real process with a low limit on files: it answers while and after clients hold connections."""
    (tmp_path / "key").write_text(KEY)
    with ExitStack() as stack:
        server, url = stack.enter_context(process(writer, "--api-key-file", str(tmp_path / "key"), files=FILES))
        clients = [stack.enter_context(connected(url)) for _ in range(3 * FILES)]
        for client in clients[::3]:
            client.sendall(b"GET /health HTTP/1.1\r\n")
        for _ in range(5):
            assert Client(url).get("/health").status == 200
            assert Client(url, KEY).get("/v1/models").status == 200
        server.terminate()
        _, err = server.communicate(timeout=PATIENCE)
    assert len(err.splitlines()) < 10, err


@pytest.mark.slow
def test_more_incomplete_bodies_than_connections(writer: str) -> None:
    """A real process without a key."""
    with ExitStack() as stack:
        server, url = stack.enter_context(process(writer, files=FILES))
        for _ in range(3 * FILES):
            stack.enter_context(connected(url)).sendall(half_a_request(url))
        for _ in range(5):
            assert Client(url).get("/health").status == 200
            assert Client(url).post("/api/predict", examples=["ab>"]).status == 200
        server.terminate()
        _, err = server.communicate(timeout=PATIENCE)
    assert len(err.splitlines()) < 10, err
