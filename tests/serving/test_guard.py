"""Nobody gets in who should not: keys, hosts, origins, sizes; and a page that loads nothing from elsewhere."""

import contextlib
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from playwright.sync_api import Browser

import glassformer as gf
from glassformer.cli.main import main
from glassformer.serving import guard
from glassformer.serving.guard import MAX_BODY_BYTES, is_loopback
from helpers.browser import PATIENCE
from helpers.running import finish
from helpers.serving import Client, process

KEY = "a-key-that-nobody-guesses"


@pytest.fixture(scope="module")
def locked(writer: str) -> Iterator[str]:
    with gf.serve(writer, port=0, api_key=KEY) as serving:
        yield serving.url


def test_every_route_is_refused_without_the_key(locked: str) -> None:
    """But for /health, and pages, which hold nothing of a run."""
    with_key, without = Client(locked, KEY), Client(locked)
    schema = with_key.get("/openapi.json").json
    routes = [(method, path) for path, methods in schema["paths"].items() for method in methods]
    assert len(routes) >= 12
    for method, path in [*routes, ("get", "/openapi.json"), ("get", "/nothing"), ("options", "/v1/models")]:
        for headers in (
            {},
            {"authorization": "Bearer wrong"},
            {"authorization": f"Basic {KEY}"},
            {"authorization": KEY},
        ):
            answer = without.request(method.upper(), path, headers=headers)
            if path == "/health":
                assert answer.status_code == 200
                continue
            assert answer.status_code == 401, path
            assert answer.json()["error"]["code"] == "invalid_api_key"
            assert answer.headers["www-authenticate"] == "Bearer"
    assert with_key.get("/v1/models").status == 200
    assert without.request("GET", "/docs").status_code == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "localhost.evil.example", "", "[", "127.0.0.1.evil.example"]
)
def test_another_name_is_refused(client: Client, host: str) -> None:
    """A name of somebody else's that leads here (DNS rebinding)."""
    answer = client.request("GET", "/v1/models", headers={"host": host})
    assert answer.status_code in (400, 403)


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1:80", "[::1]:80", "192.168.1.7"])
def test_names_of_this_machine_get_in(client: Client, host: str) -> None:
    assert client.get("/v1/models", headers={"host": host}).status == 200


def test_another_sites_page_is_refused(client: Client) -> None:
    """And no header lets one read an answer: CORS is closed."""
    own = urlsplit(client.url).netloc
    for origin in ("https://evil.example", "null", f"http://{own}.evil.example", "http://localhost:1", "http://["):
        answer = client.request("POST", "/v1/completions", json={}, headers={"origin": origin})
        assert answer.status_code == 403
        assert answer.json()["error"]["code"] == "wrong_origin"
    answer = client.request("GET", "/v1/models", headers={"origin": client.url})
    assert answer.status_code == 200
    assert "access-control-allow-origin" not in answer.headers
    assert "default-src 'none'" in answer.headers["content-security-policy"]


def test_a_body_that_is_too_large_is_refused(client: Client) -> None:
    def pieces() -> Iterator[bytes]:
        for _ in range(MAX_BODY_BYTES // 2**20 + 2):
            yield bytes(2**20)

    for content in (bytes(MAX_BODY_BYTES + 1), pieces()):
        with contextlib.suppress(httpx.WriteError, httpx.ReadError):  # the server may close before all was sent
            answer = client.request("POST", "/v1/completions", content=content)
            assert (answer.status_code, answer.json()["error"]["code"]) == (413, "body_too_large")
    assert client.get("/health").status == 200


def test_a_body_that_does_not_come_is_not_waited_for(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "BODY_SECONDS", 0.2)
    place = urlsplit(client.url)
    with socket.create_connection((place.hostname, place.port), timeout=PATIENCE / 1000) as slow:
        head = f"POST /v1/completions HTTP/1.1\r\nHost: {place.netloc}\r\nContent-Type: application/json\r\n"
        slow.sendall(f"{head}Content-Length: 100\r\n\r\n{{".encode())
        assert slow.recv(1000).startswith(b"HTTP/1.1 408")


@pytest.mark.slow
def test_keys_are_never_logged(writer: str, tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text(f"{KEY}\n")
    with process(writer, "--api-key-file", str(file)) as (server, url):
        assert Client(url, KEY).get("/v1/models").status == 200
        assert Client(url, f"{KEY}x").get("/v1/models").status == 401
        server.terminate()
        code, out, err = finish(server)
    assert code == 0
    assert KEY not in out + err


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--host", "0.0.0.0"], "0.0.0.0 can be reached by others: give a key"),
        (["--host", "::"], "can be reached by others"),
        (["--port", "99999"], "--port is 99999"),
        (["--api-key-file", "nowhere"], "cannot read the key in nowhere"),
        (["--model-memory", "0"], "--model-memory is 0"),
        (["--waiting", "0"], "--waiting is 0"),
        (["--timeout", "-1"], "--timeout is -1"),
        (["no-such-run"], "no-such-run"),
    ],
    ids=str,
)
def test_what_cannot_be_served(writer: str, words: list[str], line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", writer, *words]) == 2
    assert line in capsys.readouterr().err


def test_a_port_in_use_and_an_empty_key(
    writer: str, client: Client, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    port = str(urlsplit(client.url).port)
    assert main(["serve", writer, "--port", port]) == 1
    assert f"port {port}: another program uses it" in capsys.readouterr().err
    (tmp_path / "key").write_text("\n")
    assert main(["serve", writer, "--api-key-file", str(tmp_path / "key")]) == 2
    assert "an API key is at least 8 plain characters" in capsys.readouterr().err


@pytest.mark.slow
def test_an_address_that_others_reach_with_a_key_or_openly(writer: str) -> None:
    for more in ({"api_key": KEY}, {"no_auth": True}):
        with gf.serve(writer, host="0.0.0.0", port=0, **more) as serving:  # type: ignore[arg-type]
            assert Client(serving.url, KEY).get("/v1/models").status == 200
    assert is_loopback("127.0.0.1")
    assert is_loopback("::1")
    assert not is_loopback("10.0.0.1")


def test_the_page_of_what_can_be_asked(browser: Browser, locked: str) -> None:
    """From own files alone; it asks for the key once, and a wrong one is asked for again."""
    context = browser.new_context()
    context.set_default_timeout(PATIENCE)
    page, wrong = context.new_page(), list[str]()
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("request", lambda request: wrong.append(request.url) if not request.url.startswith(locked) else None)
    page.goto(f"{locked}/docs")
    page.get_by_label("The key of this server:").fill("wrong")
    page.get_by_role("button", name="Go on").click()
    page.get_by_label(re.compile("That key was not right")).fill(KEY)
    page.get_by_role("button", name="Go on").click()
    page.get_by_text("Models: writer (language-model)").wait_for()
    page.get_by_text("/v1/chat/completions", exact=True).click()
    assert page.get_by_text("max_completion_tokens").is_visible()
    page.reload()
    page.get_by_text("Models: writer (language-model)").wait_for()
    context.close()
    assert not wrong


def test_serving_without_the_extra_says_what_to_install(writer: str) -> None:
    hide = (
        "import sys; sys.modules['fastapi'] = None; from glassformer.cli.main import main; sys.exit(main(sys.argv[1:]))"
    )
    done = subprocess.run([sys.executable, "-c", hide, "serve", writer], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "pip install 'glassformer[serve]'" in done.stderr


def test_a_run_of_the_same_name_is_refused(writer: str, tmp_path: Path) -> None:
    shutil.copytree(writer, tmp_path / "writer")
    with pytest.raises(gf.GlassformerError, match="two runs are called writer"):
        gf.serve(writer, tmp_path / "writer", port=0)
