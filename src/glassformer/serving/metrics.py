"""What a server has done, as Prometheus reads it."""

import threading
from collections import Counter
from collections.abc import Mapping

BOUNDS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
"""Seconds, of the histogram of answers."""
PREFIX = "glassformer"


class Metrics:
    """Counters that any thread may raise."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: Counter[tuple[str, int]] = Counter()
        self._tokens: Counter[tuple[str, str]] = Counter()
        self._seconds: Counter[float] = Counter()
        self._total = 0.0

    def request(self, route: str, status: int, seconds: float) -> None:
        with self._lock:
            self._requests[route, status] += 1
            self._total += seconds
            self._seconds[next((bound for bound in BOUNDS if seconds <= bound), float("inf"))] += 1

    def tokens(self, model: str, kind: str, count: int) -> None:
        """`kind`: prompt or completion."""
        with self._lock:
            self._tokens[model, kind] += count

    def text(self, gauges: Mapping[str, tuple[str, Mapping[str, float]]]) -> str:
        """All of it. `gauges`: by name, what it is, and its value for each model."""
        with self._lock:
            lines = _head("requests_total", "counter", "requests answered, by route and status")
            for (route, status), count in sorted(self._requests.items()):
                lines.append(f'{PREFIX}_requests_total{{route="{route}",status="{status}"}} {count}')
            lines += _head("tokens_total", "counter", "tokens read and written, by model")
            for (model, kind), count in sorted(self._tokens.items()):
                lines.append(f'{PREFIX}_tokens_total{{model="{_label(model)}",kind="{kind}"}} {count}')
            lines += _head("request_seconds", "histogram", "seconds until a request was answered to its end")
            total = 0
            for bound in (*BOUNDS, float("inf")):
                total += self._seconds[bound]
                name = "+Inf" if bound == float("inf") else f"{bound:g}"
                lines.append(f'{PREFIX}_request_seconds_bucket{{le="{name}"}} {total}')
            lines += [f"{PREFIX}_request_seconds_sum {self._total:.6g}", f"{PREFIX}_request_seconds_count {total}"]
        for name, (help, values) in gauges.items():
            lines += _head(name, "gauge", help)
            lines += [f'{PREFIX}_{name}{{model="{_label(model)}"}} {value:g}' for model, value in values.items()]
        return "\n".join(lines) + "\n"


def _head(name: str, kind: str, help: str) -> list[str]:
    return [f"# HELP {PREFIX}_{name} {help}", f"# TYPE {PREFIX}_{name} {kind}"]


def _label(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
