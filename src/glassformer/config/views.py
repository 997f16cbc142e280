"""What `look` can show and what it can be asked, known without torch. All else of a view is in its own file, in
`inspection/views/`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from glassformer.config.errors import Misuse, unknown
from glassformer.config.presets import read_settings

ENDINGS = (".html", ".png", ".svg", ".pdf", ".json")
"""What views can be written as."""
ALL = "all"
MODES = ("heat", "lines", "all")
"""How attention is drawn."""

VIEWS: dict[str, str] = read_settings("views.toml")
"""What each shows, in the order in which they are offered."""
OWN_VIEWS: dict[str, str] = {}
"""What those show that a person has registered."""


@dataclass(frozen=True)
class OptionInfo:
    """An option of `look`: what its help says, and how its flag is read."""

    help: str
    metavar: str
    kind: type = str
    chooses: str | None = None
    """The view that is meant where none is named."""


def _option(default: Any, help: str, metavar: str, kind: type = str, **more: str) -> Any:
    return field(default=default, metadata={"info": OptionInfo(help, metavar, kind, **more)})


@dataclass(frozen=True, kw_only=True)
class LookOptions:
    """What a view can be asked beside its texts: each field is a keyword of `gf.look` and a flag of `look`."""

    layer: int | None = _option(None, "one layer, from 0 (default: that of the clearest head; numbers: 0)", "N", int)
    head: int | None = _option(None, "one head, from 0 (default: the clearest; numbers: 0)", "N", int)
    mode: str = _option(MODES[0], f"how attention is drawn first: {', '.join(MODES)} (default {MODES[0]})", "NAME")
    position: int | None = _option(
        None, "numbers, step: the token that is worked out, from 0 (default: the last)", "N", int
    )
    translation: str | None = _option(None, "a translator: look at this instead of what it would write", "TEXT")
    answer: str | None = _option(None, "step, head-ablation: what the example should be", "LABEL", chooses="step")
    word: str | None = _option(None, "its vector in each of the texts", "WORD", chooses="word")
    anchors: str | None = _option(
        None, "with --word: other words, separated by commas; its cosine with each, layer by layer", "WORDS"
    )
    versus: str | Mapping[str, Any] | None = _option(None, "a second text beside the first", "TEXT", chooses="versus")
    second_run: Any = _option(  # noqa: RUF009 (a field, as all of them)
        None, "with --versus: a second run beside the first", "RUN"
    )
    links: str | None = _option(
        None,
        '.jsonl, a line each: {"text": "…", "links": [[from, to], …]}, words counted from 0; by relation: {"subject": '
        "[[…]], …}; gold alignments: lines of source ||| target ||| 0-0 1-2; or `pronouns`, `subject-object`, `dates`",
        "FILE",
        chooses="links",
    )
    ablate_heads: str | None = _option(
        None,
        "heads to switch off, one by one: 2.3 or 0.1,2.3 or cross:0.1 (layer.head)",
        "HEADS",
        chooses="head-ablation",
    )
    beam: int | None = _option(
        None,
        "hypotheses kept by beam search (default for translators: 5; a language model's tree is sampled)",
        "N",
        int,
    )
    length_penalty: float = _option(1.0, "tree: scores are divided by length to this power (default 1)", "X", float)
    temperature: float | None = _option(
        None,
        "next, tree: below 1 less random, above 1 more random (default 1); samples a translator's tree",
        "X",
        float,
    )
    top_k: int | None = _option(None, "next, tree: only among the K likeliest tokens", "K", int)
    top_p: float | None = _option(None, "next, tree: only among the likeliest that together reach P", "P", float)
    samples: int | None = _option(None, "tree: number of sampled texts, with seeds 0, 1 … (default 3)", "N", int)
    tokens: int = _option(12, "tree: tokens that a language model writes (default 12)", "N", int)


OPTIONS: dict[str, OptionInfo] = {field.name: field.metadata["info"] for field in fields(LookOptions)}


def flag_of(name: str) -> str:
    """Return an option as the command line spells it."""
    return f"--{name.replace('_', '-')}"


def check_view(name: str) -> None:
    """Refuse a name that is not a view's."""
    views = (*VIEWS, *OWN_VIEWS, ALL)
    if name not in views:
        raise Misuse(unknown("view", name, views))
