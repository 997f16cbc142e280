"""Who gets in: hosts, origins, the key, and how large and slow a body may be. Around everything else."""

import asyncio
import hmac
import ipaddress
import socket
import time
from urllib.parse import urlsplit

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from glassformer.serving.formats import FiniteJSONResponse, Metrics
from glassformer.text.escaping import on_one_line

MAX_BODY_BYTES = 16 * 2**20
BODY_SECONDS = 30.0
"""Within which a body has to come."""

OPEN = ("/health", "/", "/docs", "/page/")
"""What needs no key: whether the server lives, and pages, which hold nothing of a run."""

HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
        "form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
"""What every answer carries: a page of ours loads nothing from elsewhere, and nobody puts it into a frame."""


ERROR_TYPES = {401: "authentication_error", 429: "rate_limit_error"}
"""OpenAI's types of errors, where they are not `server_error` (500 and above) or `invalid_request_error`."""
ERROR_HEADERS = {
    401: {"www-authenticate": "Bearer"},
    408: {"connection": "close"},
    413: {"connection": "close"},
    429: {"retry-after": "1"},
    503: {"retry-after": "5"},
}


class Refused(HTTPException):
    """A request that is not answered, with the reason in OpenAI's shape in `body`."""

    def __init__(self, status: int, message: str, code: str | None = None, param: str | None = None) -> None:
        message = on_one_line(message)  # it may quote a text of the request
        super().__init__(status, message, ERROR_HEADERS.get(status))
        kind = ERROR_TYPES.get(status, "server_error" if status >= 500 else "invalid_request_error")
        self.body = {"error": {"message": message, "type": kind, "param": param, "code": code}}


class ClientGone(Exception):
    """Nobody takes the answer any more."""


def is_loopback(host: str) -> bool:
    """Whether an address is this machine alone."""
    address = _address(host)
    return host == "localhost" or (address is not None and address.is_loopback)


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


class Guard:
    """An ASGI app around another."""

    def __init__(self, app: ASGIApp, *, host: str, key: str | None, metrics: Metrics) -> None:
        self._app, self._metrics = app, metrics
        self._key = None if key is None else key.encode()
        self._names = {"localhost", host.lower(), socket.gethostname().lower()}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1008})
                return
            await self._app(scope, receive, send)
            return
        began, status = time.monotonic(), 500

        async def sent(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [
                    *message.get("headers", []),
                    *((name.encode(), value.encode()) for name, value in HEADERS.items()),
                ]
            await send(message)

        try:
            headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
            self._check(scope, headers)
            await self._app(scope, _bounded(receive, headers), sent)
        except Refused as refusal:
            await FiniteJSONResponse(refusal.body, refusal.status_code, refusal.headers)(scope, receive, sent)
        except ClientGone:
            status = 499
        finally:
            route = scope.get("route")
            self._metrics.request(getattr(route, "path", "other"), status, time.monotonic() - began)

    def _check(self, scope: Scope, headers: dict[str, str]) -> None:
        host = headers.get("host", "")
        if not self._is_ours(host):
            raise Refused(403, "this server does not go by that name (Host header)", "wrong_host")
        origin = headers.get("origin")
        if origin is not None and origin.partition("://")[2] != host:
            raise Refused(403, "another site's page may not ask this server (Origin header)", "wrong_origin")
        path = scope["path"]
        if self._key is None or path in OPEN or path.startswith(OPEN[-1]):
            return
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not hmac.compare_digest(given.strip().encode("latin-1"), self._key):
            raise Refused(401, "this server wants a key: Authorization: Bearer …", "invalid_api_key")

    def _is_ours(self, host: str) -> bool:
        """Names that are this machine's, and bare addresses: a name of somebody else's that leads here is a trick."""
        try:
            name = (urlsplit(f"//{host}").hostname or "").lower()
        except ValueError:
            return False
        return name in self._names or _address(name) is not None


def _bounded(receive: Receive, headers: dict[str, str]) -> Receive:
    """A body that is neither too large nor too slow."""
    length = headers.get("content-length", "0")
    if not length.isascii() or not length.isdigit() or int(length[:20]) > MAX_BODY_BYTES:
        raise Refused(413, f"the body is larger than {MAX_BODY_BYTES >> 20} MiB", "body_too_large")
    until, taken, whole = time.monotonic() + BODY_SECONDS, 0, False

    async def received() -> Message:
        nonlocal taken, whole
        if whole:
            return await receive()
        try:
            message = await asyncio.wait_for(receive(), max(0.0, until - time.monotonic()))
        except TimeoutError:
            raise Refused(408, f"the body did not come within {BODY_SECONDS:.0f} s", "body_too_slow") from None
        taken += len(message.get("body", b""))
        whole = not message.get("more_body", False)
        if taken > MAX_BODY_BYTES:
            raise Refused(413, f"the body is larger than {MAX_BODY_BYTES >> 20} MiB", "body_too_large")
        return message

    return received
