"""Requests drawn from the server's own OpenAPI schema: most of them valid, with extreme values, some of them not."""

import json
import random
from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

NASTY: tuple[Any, ...] = (
    None, True, -1, 0, 1e308, -1e308, 2**70, 10**400, "", "\x00", "a" * 5000, "😀" * 100, [], {}, [[]], [None],
    {"a": 1}, "\u202e", "<script>", "../../etc/passwd", "/dev/zero", ["x"] * 200, 0.1, "NaN", "a\nb",
)  # fmt: skip
"""Values that no field expects."""
NUMBERS = (0, 1, 2, 3, 0.5, 1.0, 5e-324, 1e-12, 99.5, 1e6, 1e308, -1e308, -1, 2**31, 2**53, 2**63)
TEXTS = (
    "",
    "ab>",
    "abc>abc",
    "a\nb\r\n",
    "good, not bad",
    "a <mask> b",
    "\n<mask>\n",
    "é😀",
    "   ",
    "\u202e",
    "x" * 300,
)
IMAGE = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg=="
"""A PNG file of one pixel, in base64."""
ROWS: tuple[Any, ...] = (
    {},
    {"height": 11, "weight": -180, "city": "Oslo"},
    {"height": 1e308, "city": ""},
    {"text": "good"},
)
RUN_FIELDS = ("model", "run")
MAX_SMALL = 8
"""Largest number drawn for most sizes, such as `max_tokens`: nine tenths of the requests are quick."""


class Request(NamedTuple):
    method: str
    path: str
    body: bytes | None


class Requests:
    """An endless source of requests, the same for the same seed."""

    def __init__(self, schema: dict[str, Any], words: dict[str, list[str]], seed: int) -> None:
        """`words`: likely values of fields, by their names, such as the names of runs."""
        self._schema, self._words, self._draw = schema, words, random.Random(seed)
        self._operations = sorted((method, path) for path, by in schema["paths"].items() for method in by)

    def __iter__(self) -> Iterator[Request]:
        while True:
            yield self._request(*self._draw.choice(self._operations))

    def _request(self, method: str, path: str) -> Request:
        operation = self._schema["paths"][path][method]
        query = {}
        for parameter in operation.get("parameters", []):
            name = parameter["name"]
            value = str(self._value(parameter["schema"], name))[:500]
            if parameter["in"] == "path":
                path = path.replace(f"{{{name}}}", quote(value, safe="") or "a")
            elif self._draw.random() < 0.8:
                query[name] = value
        target = path + (f"?{urlencode(query)}" if query else "")
        content = operation.get("requestBody", {}).get("content", {})
        if "application/json" not in content:
            return Request(method, target, self._draw.randbytes(self._draw.randrange(99)) if content else None)
        body = json.dumps(self._value(content["application/json"]["schema"], "")).encode()
        if self._draw.random() < 0.02:
            cut = self._draw.randrange(len(body))
            body = body[:cut] + self._draw.randbytes(self._draw.randrange(4)) + body[cut + 1 :]
        return Request(method, target, body)

    def _value(self, schema: dict[str, Any], name: str, depth: int = 0) -> Any:
        """Draw a value of a field; one in 30 has nothing to do with the schema."""
        draw = self._draw
        while "$ref" in schema:
            schema = self._schema["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
        if depth and draw.random() < 1 / 30:
            return draw.choice(NASTY)
        if name in self._words and schema.get("type", "string") == "string" and draw.random() < 0.9:
            return draw.choice(self._words[name])
        for key in ("anyOf", "oneOf"):
            if key in schema:
                return self._value(draw.choice(schema[key]), name, depth)
        if "const" in schema or "enum" in schema:
            return schema.get("const") or draw.choice(schema["enum"])
        kind = schema.get("type", "string")
        if isinstance(kind, list):
            kind = draw.choice(kind)
        if kind == "object":
            return self._object(schema, name, depth)
        if kind == "array":
            count = draw.choice((schema.get("minItems", 0), 1, 1, 2, 3))
            return [self._value(schema.get("items", {}), name, depth + 1) for _ in range(count)]
        if kind in ("integer", "number"):
            return self._number(schema, kind)
        return {"boolean": draw.random() < 0.5, "null": None}.get(kind, draw.choice((*TEXTS, IMAGE)))

    def _object(self, schema: dict[str, Any], name: str, depth: int) -> Any:
        draw, fields = self._draw, schema.get("properties", {})
        if not fields:
            if name == "options":  # of views; /api/play has them by the names of the views
                names = draw.sample(self._words["option"], draw.randrange(3))
                nested = isinstance(schema.get("additionalProperties"), dict) and "additionalProperties" in str(
                    schema["additionalProperties"]
                )
                options = {one: draw.choice((*NUMBERS, *TEXTS, True, None)) for one in names}
                return {draw.choice(self._words["views"]): options} if nested else options
            return draw.choice(ROWS)
        required = schema.get("required", ())
        chosen = [one for one in fields if one in required or draw.random() < (0.9 if one in RUN_FIELDS else 0.4)]
        return {one: self._value(fields[one], one, depth + 1) for one in chosen}

    def _number(self, schema: dict[str, Any], kind: str) -> float:
        draw = self._draw
        lowest = schema.get("minimum", schema.get("exclusiveMinimum", -3))
        highest = schema.get("maximum", schema.get("exclusiveMaximum", 1e308))
        if draw.random() < 0.1:
            return draw.choice((*NUMBERS, lowest, highest))
        if kind == "integer":
            return draw.randint(int(lowest), int(min(highest, lowest + MAX_SMALL)))
        return draw.choice((lowest, min(highest, 1e308), draw.uniform(lowest, min(highest, lowest + 2))))
