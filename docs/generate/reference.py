"""Generate the reference from the code: the help of every verb, and the public names of Python."""

import contextlib
import inspect
import io
import os
import re
import typing
from typing import Any
from unittest.mock import patch

import glassformer as gf
from glassformer.cli.main import VERBS, main
from glassformer.cli.options import VERB_TABLES

WIDTH = "110"
GROUPS = {
    "Train": "train cross_validate compare tune Classifier Regressor",
    "Settings": "Transformer LSTM GRU RNN CNN Bag Average Window Linear MLP Training",
    "Use": "load evaluate errors predict_file embed_file translate_file serve play report",
    "Look inside": "look capture intervene scale zero replace Change scaling",
    "Plan and check": "plan plan_models doctor check check_brick",
    "Go in and out": "import_model export",
    "Bring your own": "use register_brick register_model register_encoder Encoder EncoderInfo SequenceSettings "
    "LayerSettings setting State Memory Tap "
    "register_view register_family Family",
    "Capabilities": "Generates Translates Labels Fills Embeds HasAttention HasWordVectors LayerOutputs Recomputes",
    "Teach": "lesson grade",
    "Beside": "Tokenizer limits GlassformerError",
}
"""Every public name, under what it is for."""


def command_line() -> str:
    sections = [
        "# Command line\n\nThe options of each verb, as its `--help` prints them. `gf` is short for `glassformer`.\n"
    ]
    for verb, summary in VERBS.items():
        option = "--help-all" if "most_used" in VERB_TABLES[verb] else "--help"
        sections.append(f"## {verb}\n\n{summary[0].upper()}{summary[1:]}.\n\n```text\n{_printed(verb, option)}```\n")
    return "\n".join(sections)


def _printed(*command: str) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as out, patch.dict(os.environ, COLUMNS=WIDTH):
        main(command)
    return out.getvalue()


def python() -> str:
    listed = {name for names in GROUPS.values() for name in names.split()}
    if missing := set(gf.__all__) - listed - {"__version__"}:
        raise ValueError(f"not in the reference: {', '.join(sorted(missing))}")
    parts = ["# Python\n\n`import glassformer as gf`; names load when they are first used.\n"]
    for title, names in GROUPS.items():
        parts.append(f"## {title}\n")
        for name in names.split():
            parts.append(_entry(name, getattr(gf, name)))
    return "\n".join(parts)


def _entry(name: str, thing: Any) -> str:
    text = f"### gf.{name} {{ .signature }}\n\n```python\n{_signature(f'gf.{name}', thing)}\n```\n\n"
    text += f"{inspect.getdoc(thing) or ''}\n\n"
    for key, value in vars(thing).items() if inspect.isclass(thing) else ():
        is_property = isinstance(value, property)
        if not key.startswith("_") and (is_property or inspect.isfunction(value)) and value.__doc__:
            shown = key if is_property else _short(key, value)
            text += f"- `{shown}`: {' '.join(value.__doc__.split())}\n"
    return text


def _signature(name: str, thing: Any) -> str:
    """With types as they are written in the source; a line a parameter, where one line is too short for all."""
    if inspect.isclass(thing) and issubclass(thing, Exception):
        return name
    try:
        parameters = list(inspect.signature(thing).parameters.values())
    except (TypeError, ValueError):
        return name
    kind, written = None, []
    for one in parameters:
        if one.kind is one.KEYWORD_ONLY and kind not in (one.KEYWORD_ONLY, one.VAR_POSITIONAL):
            written.append("*")
        kind = one.kind
        if typing.get_origin(one.annotation) is typing.Unpack:  # each of these has a default
            hints = typing.get_args(one.annotation)[0].__annotations__
            written += [f"{key}: {_plain(inspect.formatannotation(hint))} = …" for key, hint in hints.items()]
            continue
        written.append(re.sub(r"<function (\w+)[^>]*>", r"\1", _plain(str(one))))
    whole = f"{name}({', '.join(written)})"
    return whole if len(whole) <= 100 else f"{name}(\n" + "".join(f"    {one},\n" for one in written) + ")"


def _short(name: str, function: Any) -> str:
    return f"{name}({', '.join(one for one in inspect.signature(function).parameters if one != 'self')})"


def _plain(text: str) -> str:
    """Types by their last names: `Path` and not `pathlib.Path`."""
    text = re.sub(r"(?:\b[a-z_]+\.)+(?=[A-Za-z_])", "", text).replace("'", '"')
    return re.sub(r': "([^"]*)"', r": \1", text)
