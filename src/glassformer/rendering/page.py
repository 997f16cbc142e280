"""Views as one HTML file that needs nothing else: no server, no network, no other file."""

import html
import json
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

SCRIPTS = ("core", "colours", "weights", "stage", "heat", "heads", "head_lines", "texts", "charts", "pictures", "start")
"""Files of the folder `viewer`, in the order in which they build on each other."""

RULES = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:"
"""What the page may load: only what is in it."""

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{rules}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<link rel="icon" href="data:,">
<style>
{style}</style>
</head>
<body>
<header><h1>{title}</h1></header>
<main><noscript><p class="lede">This page draws itself with JavaScript, which is off.</p></noscript></main>
<footer>{about}</footer>
<script type="application/json" id="data">{data}</script>
<script>
(() => {{
"use strict";
{script}}})();
</script>
</body>
</html>
"""


def page(views: Sequence[Mapping[str, Any]], *, title: str, about: str = "") -> str:
    """All views, packed, under one title; with more than one, each under a tab. `about`: what they are of, at the
    foot.
    """
    style, script = _viewer()
    return PAGE.format(
        rules=RULES,
        title=_escaped(title),
        about=_escaped(about),
        style=style,
        # Nothing in it can end the script it stands in, and it is plain ASCII.
        data=json.dumps({"title": title, "views": views}, allow_nan=False, separators=(",", ":")).replace(
            "<", "\\u003c"
        ),
        script=script,
    )


def _escaped(text: str) -> str:
    return html.escape(text.encode("utf-8", "replace").decode())


@cache
def _viewer() -> tuple[str, str]:
    """The page's style and its program."""
    folder = files("glassformer.rendering") / "viewer"
    scripts = [(folder / f"{name}.js").read_text(encoding="utf-8") for name in SCRIPTS]
    return (folder / "page.css").read_text(encoding="utf-8"), "\n".join(scripts)
