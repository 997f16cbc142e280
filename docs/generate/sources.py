"""Copy the source code that documents quote: `python docs/generate/sources.py`, part of `make format`.

A document names a function, class or method in a comment, `<!-- source: glassformer.bricks.norm.rms_norm -->`. The
code block below the comment is written by this script, so that the code can be read on GitHub too.
"""

import inspect
import re
import textwrap
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
QUOTED = re.compile(r"^<!-- source: (\S+) -->\n(?:(`{3,})py [^\n]*\n.*?^\2\n)?", re.M | re.S)


def object_named(name: str) -> Any:
    """Return the function, class or method with that dotted name."""
    path = name.split(".")
    for cut in range(len(path), 0, -1):
        try:
            found: Any = import_module(".".join(path[:cut]))
        except ModuleNotFoundError:
            continue
        for part in path[cut:]:
            found = getattr(found, part)
        return inspect.unwrap(found)
    raise ValueError(f"no such code: {name}")


def quotation(name: str) -> str:
    """Return the comment that names the code, and the code block below it."""
    code = object_named(name)
    file = Path(inspect.getfile(code)).relative_to(ROOT).as_posix()
    text = textwrap.dedent(inspect.getsource(code)).rstrip()
    return f'<!-- source: {name} -->\n```py title="{file}"\n{text}\n```\n'


def with_quotations(markdown: str) -> str:
    """Return the document with the present code in each quotation."""
    return QUOTED.sub(lambda match: quotation(match[1]), markdown)


def main() -> None:
    for file in sorted((ROOT / "docs").rglob("*.md")):
        old = file.read_text()
        if (new := with_quotations(old)) != old:
            file.write_text(new)
            print(f"wrote {file.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
