"""Command-line options made from the settings themselves, so that help and code cannot part."""

import argparse
import dataclasses
import itertools
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NoReturn

from glassformer.cli.terminal.inputs import PAIR_FILES
from glassformer.config.encoders import ENCODERS
from glassformer.config.errors import Misuse, SettingError, nearest, unknown
from glassformer.config.presets import STARTS, TASKS, TEXT, TRANSLATION
from glassformer.config.resolve import ALIASES, RENAMED_SETTINGS, SECTIONS, full_key
from glassformer.config.setting import Rule, kind_of, parse

TRUE = "true"
"""What a flag that stands alone means."""


class Parser(argparse.ArgumentParser):
    """argparse without its habit of guessing, and with errors in one line."""

    def __init__(self, verb: str, arguments: str, summary: str, example: str) -> None:
        super().__init__(
            prog=f"glassformer {verb}",
            usage=f"glassformer {verb} {arguments} [options, in any order]",
            description=summary,
            epilog=f"example:\n  {example}",
            formatter_class=_Help,
            allow_abbrev=False,
            add_help=False,
        )
        self.add_argument("-h", "--help", action="help", help="show this and stop")

    def error(self, message: str) -> NoReturn:
        if match := re.match(r"unrecognized arguments: (\S+)", message):
            raise Misuse(self._unknown(match.group(1)))
        if match := re.match(r"the following arguments are required: (.+)", message):
            raise Misuse(f"{match.group(1)} is missing (see {self.prog} --help)")
        raise Misuse(f"{message.removeprefix('argument ')} (see {self.prog} --help)")

    def _unknown(self, word: str) -> str:
        if not word.startswith("-"):
            return f"'{word}' is one argument too many (see {self.prog} --help)"
        word = word.split("=")[0]
        known = [name for action in self._actions if action.help != argparse.SUPPRESS for name in action.option_strings]
        meant = nearest(word, known, {_flag(old): _flag(new) for old, new in RENAMED_SETTINGS.items()})
        return f"unknown option {word}" + (f"; did you mean {meant}?" if meant else f" (see {self.prog} --help)")

    def read(self, argv: list[str]) -> argparse.Namespace:
        options = self.parse_intermixed_args(self._with_truths(argv))
        flags = {name for action in self._actions for name in action.option_strings}
        say_renamed(flag for word in argv if (flag := word.split("=")[0]) in flags)
        return options

    def _with_truths(self, argv: list[str]) -> list[str]:
        """A flag that may stand alone takes the word after it only if that is true or false: it may well be DATA."""
        alone = {name for action in self._actions if action.const == TRUE for name in action.option_strings}
        return [
            f"{word}={TRUE}" if word in alone and not _is_truth(after) else word
            for word, after in itertools.zip_longest(argv, argv[1:])
        ]


def run_action(argv: list[str], actions: Mapping[str, Callable[[list[str]], int]], help: str) -> int:
    """Of a verb with several actions, the one that comes first; `help` is what -h prints."""
    if argv[0] in ("-h", "--help"):
        print(help, end="")
        return 0
    if argv[0] not in actions:
        raise Misuse(unknown("action", argv[0], actions))
    return actions[argv[0]](argv[1:])


class _Help(argparse.RawDescriptionHelpFormatter):
    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=34, width=110)


def _flag(name: str) -> str:
    return f"--{name}" if "." in name else f"--{name.replace('_', '-')}"


def say_renamed(names: Iterable[str]) -> None:
    """Once for each old name of a setting, what it is called now; of several processes, one speaks."""
    for name in dict.fromkeys(names):
        old = name.removeprefix("--")
        if old in RENAMED_SETTINGS and os.environ.get("RANK", "0") == "0":
            new = RENAMED_SETTINGS[old]
            print(
                f"{name} is now called {_flag(new) if name != old else new}; the old name still works", file=sys.stderr
            )


def add_settings(parser: argparse.ArgumentParser, sections: tuple[str, ...] = tuple(SECTIONS)) -> None:
    """Every setting of these sections as `--section.key`, with short names for what people type most."""
    short = {key: _flag(name) for name, key in reversed(ALIASES.items())}  # of two, the first
    for section in sections:
        group = parser.add_argument_group(f"{section} settings")
        for field in dataclasses.fields(SECTIONS[section]):
            key = f"{section}.{field.name}"
            if key == "data.path":
                continue
            names = [short[key]] if key in short else []
            rule: Rule = field.metadata["rule"]
            alone: dict[str, Any] = {"nargs": "?", "const": TRUE} if names and kind_of(field)[0] is bool else {}
            group.add_argument(
                *names,
                f"--{key}",
                dest=key,
                metavar=_metavar(field),
                default=argparse.SUPPRESS,
                help=_help(key, field, rule),
                **alone,
            )
            for old in RENAMED_SETTINGS:
                if full_key(old) == key:
                    group.add_argument(_flag(old), dest=key, default=argparse.SUPPRESS, help=argparse.SUPPRESS)


def _is_truth(word: str | None) -> bool:
    """Whether a setting that is true or false can be this."""
    field = next(field for field in dataclasses.fields(SECTIONS["training"]) if kind_of(field)[0] is bool)
    try:
        parse("", field, word)
    except SettingError:
        return False
    return True


def _metavar(field: dataclasses.Field[Any]) -> str:
    kind, _ = kind_of(field)
    return {bool: "true|false", int: "N", float: "X", str: "NAME"}[kind]


def _help(key: str, field: dataclasses.Field[Any], rule: Rule) -> str:
    choices = tuple(ENCODERS) if key == "model.encoder" else rule.choices
    text = rule.help + (f": {', '.join(choices)}" if choices else "")
    if field.default is not None:
        shown = str(field.default).lower() if isinstance(field.default, bool) else field.default
        text += f" (default {shown})"
    for task, starts in (("labels", STARTS[TEXT]), ("translation", STARTS[TRANSLATION])):
        if key in starts:
            shown = starts[key]
            text += f"; for {task} {str(shown).lower() if isinstance(shown, bool) else shown}"
    return text.replace("%", "%%")


def settings_of(options: argparse.Namespace) -> dict[str, Any]:
    """The dotted keys that were given."""
    return {key: value for key, value in vars(options).items() if "." in key}


def add_training_options(
    parser: argparse._ActionsContainer, *, config: str = "settings from a YAML file; flags win over it"
) -> None:
    """What every verb that trains, or would, can be told beside the settings."""
    parser.add_argument("--config", metavar="FILE", help=config)
    parser.add_argument("--task", metavar="NAME", help=f"what is learned: {', '.join(TASKS)} (default: from the data)")
    parser.add_argument("--json", action="store_true", help="print the result as one JSON object")


def training_settings(
    options: argparse.Namespace, verb: str, *, instead: str = "", given: bool = False
) -> dict[str, Any]:
    """The settings that were given, the task among them; refuses to go on without data, unless something else stands
    for it (`given`), which `instead` names.
    """
    settings = settings_of(options)
    if options.task:
        settings["task"] = options.task
    if options.data is None and not (given or options.config or PAIR_FILES.intersection(settings)):
        raise Misuse(f"DATA is missing{instead} (see glassformer {verb} --help)")
    if options.config and not str(options.config).endswith(".json"):  # a run's card is no person's
        from glassformer.families.settings import read_config

        file = read_config(options.config)
        say_renamed([*file, *(f"{name}.{key}" for name in SECTIONS for key in _section(file.get(name)))])
    return settings


def _section(settings: Any) -> dict[str, Any]:
    return settings if isinstance(settings, dict) else {}
