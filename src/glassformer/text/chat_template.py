"""A chat template at work, in a process of its own: it is a program that somebody else wrote.

It may write, but neither read files nor go on for ever nor fill the memory. This file is run, not imported: it reads
what `render_chat` gives it as JSON and prints {"text"} or {"error"}. It knows nothing of this house, so that it starts
quickly.
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

BYTES = 1 << 30


class Generation(jinja2.ext.Extension):
    """`{% generation %}` … `{% endgeneration %}`: what an assistant wrote. Here, only what stands in it."""

    tags = {"generation"}  # noqa: RUF012

    def parse(self, parser: jinja2.parser.Parser) -> list[jinja2.nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _refuse(message: str) -> None:
    raise jinja2.TemplateError(message)


def _json(value: Any, ensure_ascii: bool = False, **how: Any) -> str:
    """Unlike jinja's own, which is made for web pages, this leaves <, > and & as they are."""
    return json.dumps(value, ensure_ascii=ensure_ascii, **how)


def write(template: str, messages: list[dict[str, str]], specials: dict[str, str], most: int) -> str:
    """What the template makes of the messages, up to where the assistant is to go on."""
    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
    )
    environment.filters["tojson"] = _json
    environment.globals.update(
        raise_exception=_refuse, strftime_now=lambda format: datetime.datetime.now().strftime(format)
    )
    values = {**specials, "messages": messages, "tools": None, "documents": None, "add_generation_prompt": True}
    pieces: list[str] = []
    size = 0
    for piece in environment.from_string(template).generate(values):
        size += len(piece)
        if size > most:
            raise jinja2.TemplateError(f"it writes more than {most:,} characters")
        pieces.append(piece)
    return "".join(pieces)


def _bound(seconds: int) -> None:
    try:
        import resource
    except ImportError:  # not on Windows: there only the wait for an answer is bounded
        return
    for kind, most in ((resource.RLIMIT_CPU, seconds), (resource.RLIMIT_AS, BYTES), (resource.RLIMIT_FSIZE, 0)):
        hard = resource.getrlimit(kind)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(kind, (most, most))


def main() -> None:
    request = json.loads(sys.stdin.buffer.read())
    _bound(request.pop("seconds"))
    try:
        answer = {"text": write(**request)}
    except MemoryError:
        answer = {"error": "it fills the memory"}
    except RecursionError:
        answer = {"error": "it calls itself without end"}
    except Exception as error:  # whatever the template does wrong
        line = f", line {error.lineno}" if isinstance(error, jinja2.TemplateSyntaxError) else ""
        answer = {"error": " ".join(str(error).split())[:300] + line or type(error).__name__}
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
