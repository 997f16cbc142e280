"""Bodies that nobody foresaw: by the schema, and against it. None is answered by a failure of the server's own."""

import json
import os
import random
import resource
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

import glassformer as gf
from glassformer.config.views import OPTIONS, VIEWS
from helpers.requests_by_schema import NASTY, Requests
from helpers.running import PATIENCE, finish
from helpers.serving import Client, process

REQUESTS = int(os.environ.get("GLASSFORMER_REQUESTS", "20000"))
"""Requests to a server in a process of its own."""
POSTS = ("/v1/completions", "/v1/chat/completions", "/v1/embeddings", "/api/predict", "/api/translate", "/api/fill",
         "/api/look", "/api/play")  # fmt: skip


@pytest.mark.slow
def test_the_server_answers_as_its_schema_says(client: Client) -> None:
    schema = schemathesis.openapi.from_dict(client.get("/openapi.json").json)
    checks = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
    for operation in schema.get_all_operations():

        @settings(max_examples=12, suppress_health_check=list(HealthCheck), phases=[Phase.generate], derandomize=True)
        @given(operation.ok().as_strategy())
        def answers(case: Any) -> None:
            case.call_and_validate(base_url=client.url, timeout=PATIENCE, checks=checks)

        answers()


def bodies(count: int, seed: int) -> Iterator[tuple[str, bytes]]:
    """Bodies that begin as right ones and go wrong somewhere, and some that never were any."""
    draw = random.Random(seed)
    right: dict[str, dict[str, Any]] = {
        "/v1/completions": {"prompt": "ab>", "max_tokens": 3, "temperature": 1.0, "top_p": 1.0, "n": 1, "seed": 1,
                            "stop": "x", "logprobs": 1, "stream": False, "echo": False, "top_k": 3},
        "/v1/chat/completions": {"messages": [{"role": "user", "content": "ab"}], "max_tokens": 2, "logprobs": True,
                                 "top_logprobs": 1},
        "/v1/embeddings": {"input": ["a"], "encoding_format": "float"},
        "/api/predict": {"examples": ["ab"], "run": "writer"},
        "/api/translate": {"texts": ["ab"], "beam": 2},
        "/api/fill": {"texts": ["ab"], "most": 3},
        "/api/look": {"texts": ["ab>"], "view": "next", "options": {"layer": 0}},
        "/api/play": {"example": "ab>", "views": ["next"], "temperature": 1.0, "top_p": 0.5, "top_k": 3,
                      "options": {"next": {"temperature": 1.0}}},
    }  # fmt: skip
    for _ in range(count):
        path = draw.choice(POSTS)
        body = json.loads(json.dumps(right[path]))
        for _ in range(draw.randint(1, 3)):
            where = draw.choice([*body, "unknown"])
            body[where] = draw.choice(NASTY)
        text = json.dumps(body).encode()
        if draw.random() < 0.2:
            cut = draw.randrange(len(text))
            text = text[:cut] + bytes(draw.randrange(256) for _ in range(draw.randrange(9))) + text[cut + 1 :]
        if draw.random() < 0.02:
            text = draw.choice(
                [b"[" * 100_000, b"{" * 2000, b'{"a":' * 50_000, b"\xff\xfe", b"", b"NaN", b"1" * 10_000]
            )
        yield path, text


def hammer(client: Client, count: int, seed: int) -> None:
    headers = {"content-type": "application/json"}
    with httpx.Client(base_url=client.url, headers=headers, timeout=PATIENCE, verify=False) as http:
        for path, body in bodies(count, seed):
            answer = http.post(path, content=body)
            assert answer.status_code < 500, (path, body[:500], answer.text)
            if answer.status_code >= 400:
                assert answer.json()["error"]["message"]
                assert "\n" not in answer.json()["error"]["message"]
    assert client.get("/health").status == 200


def test_hostile_bodies(client: Client) -> None:
    hammer(client, 300, seed=1)


@pytest.mark.slow
def test_ten_thousand_hostile_bodies_and_memory_stays_flat(writer: str) -> None:
    with gf.serve(writer, port=0) as serving:
        client = Client(serving.url)
        hammer(client, 1000, seed=2)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for seed in range(3, 12):
            hammer(client, 1000, seed)
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 100 * 1024, f"{grown / 1024:.0f} MiB more after 9,000 bodies"


@pytest.mark.slow
def test_no_request_to_a_process_fails(writer: str, others: dict[str, str], masked: str) -> None:
    """Requests made from the schema; GLASSFORMER_REQUESTS changes their number."""
    runs = [writer, masked, *others.values()]
    names = [Path(run).name for run in runs]
    words = {
        "run": names,
        "model": names,
        "second_run": names,
        "view": list(VIEWS),
        "views": list(VIEWS),
        "option": list(OPTIONS),
        "panel": ["attention", "tree", "states"],
    }
    with process(*runs, "--timeout", "3") as (server, url):
        schema = Client(url).get("/openapi.json").json
        headers = {"content-type": "application/json"}
        statuses: Counter[int] = Counter()
        with httpx.Client(base_url=url, headers=headers, timeout=PATIENCE, verify=False) as http:
            for number, request in enumerate(islice(Requests(schema, words, seed=1), REQUESTS)):
                try:
                    answer = http.request(request.method, request.path, content=request.body)
                except httpx.HTTPError as error:
                    pytest.fail(f"request {number}: {error!r}: {request}")
                # 503: a view gave way to others, 504: longer than --timeout
                assert answer.status_code < 500 or answer.status_code in (503, 504), (number, request, answer.text)
                if answer.status_code >= 400 and request.method != "head":
                    assert "\n" not in answer.json()["error"]["message"], (number, request, answer.text)
                statuses[answer.status_code] += 1
        assert Client(url).get("/health").status == 200
        server.terminate()
        _, err = finish(server)[1:]
    print(dict(statuses))
    assert "Traceback" not in err, err[-5000:]
    assert statuses[200] > REQUESTS / 10
    assert statuses[504] < REQUESTS / 50
