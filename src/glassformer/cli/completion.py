"""glassformer completion"""

import argparse
import dataclasses
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.resources import files

from glassformer.cli.options import Parser
from glassformer.config.encoders import ENCODERS
from glassformer.config.loggers import LOGGERS
from glassformer.config.presets import OWN_TASKS, TRAINABLE
from glassformer.config.resolve import SECTIONS
from glassformer.config.setting import Rule, kind_of
from glassformer.config.views import ALL, VIEWS
from glassformer.runs.folders import CARD

PARSER = Parser("completion")
DATA, RUNS, FILES = "@data", "@runs", "@files"
"""Values that only the folder tells: data sets and files, runs, files."""
KINDS = {"DATA": DATA, "RUN": RUNS, "RUN2": RUNS, "RUNS": RUNS, "WHERE": RUNS, "FILE": FILES, "DIR": FILES,
         "SOURCE": FILES}  # fmt: skip
"""What a value is, by what the help calls it."""
DEVICES = ("auto", "cpu", "cuda", "mps")
NAMED = {
    "task": (*TRAINABLE, *OWN_TASKS),
    "models": ENCODERS,
    "model.encoder": ENCODERS,
    "model.from_run": (RUNS,),
    "model.decoder_from": (RUNS,),
    "device": DEVICES,
    "training.device": DEVICES,
    "log_to": LOGGERS,
    "view": (*VIEWS, ALL),
}
"""What a value is, by the option's name; all others tell their choices, or what the help calls them."""


@dataclass(frozen=True)
class Words:
    """What can follow a verb, or an action of one."""

    options: Mapping[str, str]
    """Flags, and what they are for."""
    values: Mapping[str, str]
    """What may follow a flag: words with blanks between them, or one of the kinds above."""
    positional: str


def run(argv: list[str]) -> None:
    shell = PARSER.read(argv).shell
    print(_fish() if shell == "fish" else _bash(shell), end="")


def parsers() -> Iterator[tuple[str, Parser]]:
    """Return the parser of every verb, and of every action of one, with its name."""
    from glassformer.cli.main import VERBS, module_of

    for name in dict.fromkeys(map(module_of, VERBS)):
        module = import_module(name)
        for parser in getattr(module, "PARSERS", None) or [module.PARSER]:
            yield parser.prog.removeprefix("glassformer "), parser


def words_of(parser: Parser) -> Words:
    """Return everything that a parser knows."""
    options, values, positional = dict[str, str](), dict[str, str](), ""
    for action in parser._actions:
        if not action.option_strings:
            positional = positional or _values(action)
        for name in action.option_strings:
            options[name] = action.help or ""
            if action.nargs != 0:
                values[name] = _values(action) or FILES
    return Words(options, values, positional)


def _values(action: argparse.Action) -> str:
    if action.choices is not None:
        return " ".join(map(str, action.choices))
    if action.dest in NAMED:
        return " ".join(NAMED[action.dest])
    section, _, name = action.dest.partition(".")
    for field in dataclasses.fields(SECTIONS[section]) if name else ():
        if field.name == name:
            rule: Rule = field.metadata["rule"]
            return " ".join(rule.choices or (("true", "false") if kind_of(field)[0] is bool else ()))
    return KINDS.get(str(action.metavar), "")


def _datasets() -> str:
    from glassformer.data.datasets.embedded import DATASETS

    return " ".join(DATASETS)


def _template(ending: str, **parts: str) -> str:
    """Return the script beside this module, with each @PART@ filled in."""
    text = files("glassformer.cli").joinpath(f"completion.{ending}").read_text("utf-8")
    for name, part in parts.items():
        text = text.replace(f"@{name.upper()}@", part)
    return text


def _bash(shell: str) -> str:
    """zsh reads bash's as well, once it is told to."""
    from glassformer.cli.main import VERBS

    actions: dict[str, list[str]] = {}
    cases = []
    for name, parser in parsers():
        verb, _, action = name.partition(" ")
        if action:
            actions.setdefault(verb, []).append(action)
        words = words_of(parser)
        flags: dict[str, list[str]] = {}
        for flag, values in words.values.items():
            flags.setdefault(values, []).append(flag)
        after = " ".join(f"{'|'.join(some)}) after={shlex.quote(values)} ;;" for values, some in flags.items())
        cases.append(f'    {shlex.quote(name)}) options="{" ".join(words.options)}"; values="{words.positional}"\n'
                     f'      case "$prev" in {after} esac ;;')  # fmt: skip
    script = _template(
        "bash",
        card=CARD,
        verbs=" ".join(VERBS),
        actions="\n".join(
            f'    {verb}) if ((COMP_CWORD == 2)); then COMPREPLY=($(compgen -W "{" ".join(some)}" -- "$cur")); return; '
            'fi; verb="$verb ${COMP_WORDS[2]}" ;;'
            for verb, some in actions.items()
        ),
        cases="\n".join(cases),
        datasets=_datasets(),
    )
    return f"autoload -U +X bashcompinit && bashcompinit\n{script}" if shell == "zsh" else script


FISH_VALUES = {RUNS: "-x -a '(__glassformer_runs)'", FILES: "-r -F"}


def _fish() -> str:
    from glassformer.cli.main import VERBS

    lines = [f"complete -c glassformer -n __fish_use_subcommand -a {verb} -d {_fish_text(summary)}"
             for verb, summary in VERBS.items()]  # fmt: skip
    for name, parser in parsers():
        verb, _, action = name.partition(" ")
        here = f"__fish_seen_subcommand_from {verb}"
        if action:
            lines.append(f"complete -c glassformer -f -n '{here}' -a {action}")
            here += f"; and __fish_seen_subcommand_from {action}"
        words = words_of(parser)
        before = f"complete -c glassformer -n '{here}'"
        if words.positional:
            lines.append(f"{before} {_fish_values(words.positional)}".replace(" -x ", " -f "))
        for flag, help in words.options.items():
            spelled = f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}"
            values = f" {_fish_values(words.values[flag])}" if flag in words.values else ""
            lines.append(f"{before} {spelled}{values} -d {_fish_text(help)}")
    lines.append("complete -c gf -w glassformer")
    return _template("fish", card=CARD) + "\n".join(lines) + "\n"


def _fish_values(values: str) -> str:
    if values == DATA:
        return f"-r -F -a {_fish_text(_datasets())}"
    return FISH_VALUES.get(values) or f"-x -a {_fish_text(values)}"


def _fish_text(text: str) -> str:
    """In one line, and in quotes as fish has them."""
    line = re.sub(r"\s+", " ", text.replace("%%", "%"))
    return "'" + line.replace("\\", "\\\\").replace("'", "\\'") + "'"
