"""Formats of the server's answers: JSON, and Prometheus's text format.

JSON has no infinity and no NaN: such numbers become null, and a remark says so.
"""

import functools
import inspect
import json
import math
import threading
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any

from fastapi.routing import APIRoute
from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse, Response


class FiniteJSONResponse(JSONResponse):
    """A JSON response without infinities and NaN."""

    def render(self, content: Any) -> bytes:
        return encode(content)


class FiniteRoute(APIRoute):
    """A route that answers with `FiniteJSONResponse`; FastAPI's default response writes null without a remark."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        @functools.wraps(endpoint)
        async def answer(**arguments: Any) -> Response:
            if inspect.iscoroutinefunction(endpoint):
                content = await endpoint(**arguments)
            else:
                content = await run_in_threadpool(endpoint, **arguments)
            return content if isinstance(content, Response) else FiniteJSONResponse(content)

        super().__init__(path, answer, **options)


def encode(content: Any) -> bytes:
    """Return content as JSON, with null for non-finite numbers and a line about them in the response's `remarks`."""
    try:
        return _dumped(content)
    except ValueError:
        finite = _finite(content)
    if isinstance(finite, dict):
        finite["remarks"] = [*finite.get("remarks", []), "null replaces numbers that are not finite"]
    return _dumped(finite)


def _dumped(content: Any) -> bytes:
    return json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode("utf-8")


def _finite(value: Any) -> Any:
    """Return a copy with None for infinities and NaN."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {key: _finite(one) for key, one in value.items()}
    return [_finite(one) for one in value] if isinstance(value, list | tuple) else value


# --- metrics ---

PREFIX = "glassformer"
METRICS = {
    "requests_total": ("counter", "requests answered, by route and status"),
    "tokens_total": ("counter", "tokens read and written, by model"),
    "request_seconds": ("histogram", "seconds until a request was answered to its end"),
}
BOUNDS = ("0.01", "0.03", "0.1", "0.3", "1", "3", "10", "30", "100", "+Inf")
"""Upper bounds of the histogram's buckets, in seconds."""


class Metrics:
    """Thread-safe counters, stored by metric name and by the suffix and labels of Prometheus's format."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: dict[str, dict[str, float]] = {name: defaultdict(float) for name in METRICS}

    def request(self, route: str, status: int, seconds: float) -> None:
        with self._lock:
            self._values["requests_total"][f'{{route="{route}",status="{status}"}}'] += 1
            histogram = self._values["request_seconds"]
            for bound in BOUNDS:
                histogram[f'_bucket{{le="{bound}"}}'] += seconds <= float(bound)
            histogram["_sum"] += seconds
            histogram["_count"] += 1

    def tokens(self, model: str, kind: str, count: int) -> None:
        """Count tokens. `kind`: prompt or completion."""
        with self._lock:
            self._values["tokens_total"][f'{{model="{_label(model)}",kind="{kind}"}}'] += count

    def text(self, gauges: Mapping[str, tuple[str, Mapping[str, float]]]) -> str:
        """Return all metrics in Prometheus's text format. `gauges`: help text and value per model, by metric name."""
        with self._lock:
            metrics = [(name, *METRICS[name], dict(values)) for name, values in self._values.items()]
        for name, (help, by_model) in gauges.items():
            values = {f'{{model="{_label(model)}"}}': value for model, value in by_model.items()}
            metrics.append((name, "gauge", help, values))
        lines = []
        for name, kind, help, values in metrics:
            lines += [f"# HELP {PREFIX}_{name} {help}", f"# TYPE {PREFIX}_{name} {kind}"]
            lines += [f"{PREFIX}_{name}{after} {value:.9g}" for after, value in values.items()]
        return "\n".join(lines) + "\n"


def _label(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
