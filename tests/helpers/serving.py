"""Servers to be asked: in this process or in one of their own, with runs that were trained for a moment."""

import json
import re
import resource
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import httpx

from glassformer.runs.run import Run
from helpers.look_runs import train_kind
from helpers.running import PATIENCE, begin

TEMPLATE = (
    "{% for message in messages %}{{ message.role[0] + ' ' + message.content + eos_token }}{% endfor %}{{ 'a ' }}"
)


class Answer(NamedTuple):
    status: int
    json: Any


class Client:
    """Asks one server, by a connection of its own each time; gives status and JSON."""

    def __init__(self, url: str, key: str | None = None) -> None:
        self.url = url
        self.headers = {} if key is None else {"authorization": f"Bearer {key}"}

    def request(self, method: str, path: str, headers: dict[str, str] | None = None, **more: Any) -> httpx.Response:
        headers = {**self.headers, **(headers or {})}
        return httpx.request(method, self.url + path, headers=headers, timeout=PATIENCE, verify=False, **more)

    def get(self, path: str, **more: Any) -> Answer:
        response = self.request("GET", path, **more)
        return Answer(response.status_code, response.json())

    def post(self, path: str, **body: Any) -> Answer:
        response = self.request("POST", path, json=body)
        return Answer(response.status_code, response.json())

    def stream(self, path: str, **body: Any) -> list[Any]:
        """All events of a stream; the last of a whole one is [DONE]."""
        asked = {"json": {**body, "stream": True}, "headers": self.headers, "timeout": PATIENCE, "verify": False}
        with httpx.stream("POST", self.url + path, **asked) as response:
            assert response.status_code == 200, response.read()
            return list(events(response))


def events(response: httpx.Response) -> Iterator[Any]:
    for line in response.iter_lines():
        if line:
            assert line.startswith("data: "), line
            data = line.removeprefix("data: ")
            yield data if data == "[DONE]" else json.loads(data)


def strict_json(text: str | bytes) -> Any:
    """JSON as the standard has it, without Python's NaN and Infinity."""

    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is not JSON")

    return json.loads(text, parse_constant=refuse)


def chatting_writer(folder: Path) -> str:
    """A language model of letters that has a chat template."""
    path, _ = train_kind("writer", folder)
    (Path(path) / "chat_template.jinja").write_text(TEMPLATE)
    Run.open(path).update_card(specials={"eos_token": "<end>"})
    return str(path)


@contextmanager
def process(*words: str, files: int | None = None) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    """Run `glassformer serve …` in a process of its own; yield it and its address. `files`: its limit on open files."""
    more: dict[str, Any] = {}
    if files is not None:
        more["preexec_fn"] = partial(resource.setrlimit, resource.RLIMIT_NOFILE, (files, files))
    with begin("serve", *words, "--port", "0", **more) as server:
        try:
            assert server.stdout is not None
            line = server.stdout.readline()
            found = re.search(r"http://\S+", line)
            assert found, (line, server.communicate(timeout=PATIENCE))
            yield server, found[0]
        finally:
            server.kill()
