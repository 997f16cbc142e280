"""Access control around the whole app: hosts, origins, the API key, and limits on the size and duration of a body."""

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
"""Seconds within which a body must arrive."""

OPEN = ("/health", "/", "/docs", "/page/")
"""Paths that need no key: the health check and the pages, which contain no data of a run."""

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
"""Headers of every answer. They prevent pages from loading anything from elsewhere and from being framed."""


ERROR_TYPES = {401: "authentication_error", 429: "rate_limit_error"}
"""OpenAI's error types by status; all others are `server_error` (500 and above) or `invalid_request_error`."""
ERROR_HEADERS = {
    401: {"www-authenticate": "Bearer"},
    408: {"connection": "close"},
    413: {"connection": "close"},
    429: {"retry-after": "1"},
    503: {"retry-after": "5"},
}


class Refused(HTTPException):
    """A request that is refused; `body` has the reason in OpenAI's format."""

    def __init__(self, status: int, message: str, code: str | None = None, param: str | None = None) -> None:
        message = on_one_line(message)  # it may quote text of the request
        super().__init__(status, message, ERROR_HEADERS.get(status))
        kind = ERROR_TYPES.get(status, "server_error" if status >= 500 else "invalid_request_error")
        self.body = {"error": {"message": message, "type": kind, "param": param, "code": code}}


class ClientGone(Exception):
    """Raised when the client has disconnected."""


def is_loopback(host: str) -> bool:
    """Return whether an address can only be reached from this machine."""
    address = _address(host)
    return host == "localhost" or (address is not None and address.is_loopback)


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


class Guard:
    """An ASGI app that checks each request before it passes it to another app."""

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
        """Return whether a host is a name of this machine or an IP address. Other names may be DNS rebinding."""
        try:
            name = (urlsplit(f"//{host}").hostname or "").lower()
        except ValueError:
            return False
        return name in self._names or _address(name) is not None


def _bounded(receive: Receive, headers: dict[str, str]) -> Receive:
    """Return `receive` with limits on the size of the body and on the time until it has arrived."""
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
