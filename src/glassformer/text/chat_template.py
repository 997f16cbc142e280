"""Sandboxed rendering of a chat template, which is untrusted code, in a process of its own.

A template can write text. It cannot read files, run forever or fill the memory. This file is a script: it reads the
request of `render_chat` as JSON from stdin and prints {"text"} or {"error"}. It imports nothing from glassformer, so
that it starts quickly.
"""

import datetime
import json
import sys
from typing import Any

import jinja2
import jinja2.ext
import jinja2.nodes
import jinja2.parser
import jinja2.sandbox

MAX_MEMORY_BYTES = 1 << 30
"""Limit of the address space."""


class Generation(jinja2.ext.Extension):
    """The `{% generation %}` … `{% endgeneration %}` block around the assistant's text; renders its content."""

    tags = {"generation"}  # noqa: RUF012

    def parse(self, parser: jinja2.parser.Parser) -> list[jinja2.nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _refuse(message: str) -> None:
    raise jinja2.TemplateError(message)


def _json(value: object, ensure_ascii: bool = False, **options: Any) -> str:
    """Return JSON that keeps <, > and &, which Jinja's own filter escapes for HTML."""
    return json.dumps(value, ensure_ascii=ensure_ascii, **options)


def write(template: str, messages: list[dict[str, str]], specials: dict[str, str], max_chars: int) -> str:
    """Render the messages up to the assistant's next answer; raise `TemplateError` beyond `max_chars` characters."""
    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
    )
    environment.filters["tojson"] = _json
    environment.globals.update(
        raise_exception=_refuse, strftime_now=lambda format: datetime.datetime.now().strftime(format)
    )
    values = {**specials, "messages": messages, "tools": None, "documents": None, "add_generation_prompt": True}
    pieces: list[str] = []
    length = 0
    for piece in environment.from_string(template).generate(values):
        length += len(piece)
        if length > max_chars:
            raise jinja2.TemplateError(f"it writes more than {max_chars:,} characters")
        pieces.append(piece)
    return "".join(pieces)


def _bound(seconds: int) -> None:
    try:
        import resource
    except ImportError:  # on Windows only the timeout of `render_chat` applies
        return
    for kind, limit in (
        (resource.RLIMIT_CPU, seconds),
        (resource.RLIMIT_AS, MAX_MEMORY_BYTES),
        (resource.RLIMIT_FSIZE, 0),
    ):
        hard = resource.getrlimit(kind)[1]
        limit = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        resource.setrlimit(kind, (limit, limit))


def main() -> None:
    request = json.loads(sys.stdin.buffer.read())
    _bound(request.pop("seconds"))
    try:
        answer = {"text": write(**request)}
    except MemoryError:
        answer = {"error": "it fills the memory"}
    except RecursionError:
        answer = {"error": "it calls itself without end"}
    except Exception as error:  # a template can raise anything
        line = f", line {error.lineno}" if isinstance(error, jinja2.TemplateSyntaxError) else ""
        answer = {"error": " ".join(str(error).split())[:300] + line or type(error).__name__}
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
