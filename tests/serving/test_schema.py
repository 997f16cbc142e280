"""Bodies that nobody foresaw: by the schema, and against it. None is answered by a failure of the server's own."""

import json
import random
import resource
from collections.abc import Iterator
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
from helpers.running import PATIENCE
from helpers.serving import Client

POSTS = ("/v1/completions", "/v1/chat/completions", "/v1/embeddings", "/api/predict", "/api/translate", "/api/fill",
         "/api/look")  # fmt: skip


def test_the_server_answers_as_its_schema_says(client: Client) -> None:
    schema = schemathesis.openapi.from_dict(client.get("/openapi.json").json)
    checks = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
    for operation in schema.get_all_operations():

        @settings(max_examples=12, suppress_health_check=list(HealthCheck), phases=[Phase.generate], derandomize=True)
        @given(operation.ok().as_strategy())
        def answers(case: Any) -> None:
            case.call_and_validate(base_url=client.url, timeout=PATIENCE, checks=checks)

        answers()


NASTY: tuple[Any, ...] = (
    None, True, -1, 0, 1e308, -1e308, 2**70, 10**400, "", "\x00", "a" * 5000, "😀" * 100, [], {}, [[]], [None],
    {"a": 1}, "\u202e", "<script>", "../../etc/passwd", "/dev/zero", ["x"] * 200, 0.1, "NaN",
)  # fmt: skip


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
