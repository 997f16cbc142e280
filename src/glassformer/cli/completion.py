"""The command `glassformer completion`."""

import argparse
from collections.abc import Sequence
from importlib import import_module
from importlib.resources import files
from pathlib import Path

from glassformer.cli.options import PARSERS, VERB_TABLES, Parser, filled
from glassformer.config.encoders import ENCODERS
from glassformer.config.loggers import LOGGERS
from glassformer.config.presets import OWN_TASKS, TRAINABLE
from glassformer.config.resolve import FIELDS
from glassformer.config.setting import Rule, kind_of
from glassformer.config.views import ALL, VIEWS
from glassformer.runs.folders import CARD

PARSER = Parser("completion")
PATHS = "@paths"
"""First line of the output if the candidates include names of files and folders."""
DEVICES = ("auto", "cpu", "cuda", "mps")
NAMED = {
    "task": (*TRAINABLE, *OWN_TASKS),
    "models": ENCODERS,
    "model.encoder": ENCODERS,
    "device": DEVICES,
    "training.device": DEVICES,
    "log_to": LOGGERS,
    "view": (*VIEWS, ALL),
}
"""Possible values of options, by option name."""
RUN_OPTIONS = ("model.from_run", "model.decoder_from")
RUN_METAVARS = ("RUN", "RUN2", "RUNS", "WHERE")


def run(argv: list[str]) -> None:
    """Print the script of a shell; the script calls `words -- WORD …` for the candidates of the last word."""
    if argv[:2] == ["words", "--"]:
        print(*candidates(argv[2:] or [""]), sep="\n")
        return
    shell = PARSER.read(argv).shell
    if shell == "zsh":
        print("autoload -U +X bashcompinit && bashcompinit")
    script = files("glassformer.cli").joinpath(f"completion.{'fish' if shell == 'fish' else 'bash'}").read_text("utf-8")
    print(filled(script, PATHS=PATHS), end="")


def parser_of(name: str) -> Parser:
    """Return the parser of a verb, or of an action of a verb."""
    from glassformer.cli.main import module_of

    import_module(module_of(name.partition(" ")[0]))
    return PARSERS[name]


def candidates(words: Sequence[str]) -> list[str]:
    """Return the candidates for the last of these words, which follow `glassformer`."""
    words = [*words, ""] if words[-1] == "=" else words  # bash splits --model=lstm at the =
    *before, current = (word for word in words if word != "=")
    if not before:
        return _beginning(current, [name for name, table in VERB_TABLES.items() if "brief" in table])
    verb = before[0]
    actions = [name.removeprefix(f"{verb} ") for name in VERB_TABLES if name.startswith(f"{verb} ")]
    if actions and len(before) == 1:
        return _beginning(current, actions)
    name = " ".join(before[:2]) if actions else verb
    if name not in VERB_TABLES:
        return []
    parser = parser_of(name)
    if current.startswith("-"):
        return _beginning(current, list(parser._option_string_actions))
    action = parser._option_string_actions.get(before[-1])
    if action is None or action.nargs == 0:
        action = next((one for one in parser._actions if not one.option_strings), None)
    return [] if action is None else _values(action, current)


def _values(action: argparse.Action, current: str) -> list[str]:
    """Return the values of an option or argument that start with `current`; empty if any value is possible."""
    if action.dest in RUN_OPTIONS or action.metavar in RUN_METAVARS:
        folders = [path.parent.as_posix() for pattern in ("*", "runs/*") for path in Path().glob(f"{pattern}/{CARD}")]
        return [PATHS, *_beginning(current, ["last", *sorted(folders)])]
    if action.metavar == "DATA":
        from glassformer.data.datasets.embedded import DATASETS

        folder = Path(current) if current.endswith("/") else Path(current).parent
        paths = sorted(path.as_posix() for path in folder.glob("*"))
        return [PATHS, *_beginning(current, [*DATASETS, *paths])]
    names = NAMED.get(action.dest) or action.choices or ()
    if not names and action.dest in FIELDS:
        rule: Rule = FIELDS[action.dest].metadata["rule"]
        names = rule.choices or (("true", "false") if kind_of(FIELDS[action.dest])[0] is bool else ())
    first, comma, last = current.rpartition(",")
    return [f"{first}{comma}{name}" for name in _beginning(last, list(names))]


def _beginning(current: str, words: Sequence[str]) -> list[str]:
    return [word for word in words if word.startswith(current)]
