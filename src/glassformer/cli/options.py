"""Argument parsers of the verbs, built from `verbs.toml` and from the settings."""

import argparse
import dataclasses
import itertools
import os
import re
import textwrap
import tomllib
from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from types import MappingProxyType
from typing import Any, NoReturn

from glassformer.cli.terminal.inputs import PAIR_FILES
from glassformer.cli.terminal.show import be_quiet
from glassformer.config.arguments import parameter_types
from glassformer.config.data_section import BETWEEN_FILES
from glassformer.config.encoders import ENCODERS, encoder_info
from glassformer.config.errors import Misuse, SettingError, nearest, unknown
from glassformer.config.limits import limits, limits_help
from glassformer.config.loggers import LOGGERS, logger_names
from glassformer.config.plugins import own_names
from glassformer.config.presets import (
    CPU_TRANSLATION,
    OWN_TASKS,
    STARTS,
    TEXT,
    TRAINABLE,
    TRANSLATION,
)
from glassformer.config.resolve import (
    ALIASES,
    FIELDS,
    SECTIONS,
    check_config,
    check_ranges,
    flatten,
    help_texts,
    known_elsewhere,
)
from glassformer.config.setting import TRUTHS, Rule, choices_of, kind_of, value_text
from glassformer.config.views import ENDINGS
from glassformer.runs.folders import find_run

VERB_TABLES: dict[str, dict[str, Any]] = tomllib.loads(
    files("glassformer.cli").joinpath("verbs.toml").read_text("utf-8")
)
"""Options and help of every verb and action, and options that several of them share."""
SHARED: dict[str, dict[str, Any]] = VERB_TABLES.pop("shared")
OPTION_SETS = {name: VERB_TABLES.pop(name) for name in ("parts", "places", "serving", "dataset")}

HELP_WIDTH = 110
"""Number of columns of a help text."""
TRUE = "true"
"""Value of a flag without a value."""
NEGATION = "--no-"
METAVARS = {bool: "true|false", int: "N", float: "X", str: "NAME"}
"""Placeholder for a setting's value in the help, by type."""
TYPES = {"float": float, "int": int, "str": str}
KEYWORDS = ("action", "choices", "default", "dest", "metavar", "nargs", "required")
"""Keys of an option's table that are passed to `add_argument` unchanged."""
CHECKS: dict[str, Callable[[Any], object]] = {"config": check_config, "log_to": logger_names}
"""Functions that refuse wrong values of shared options, by option."""
ALL_SECTIONS = tuple(SECTIONS)
PARSERS: "dict[str, Parser]" = {}
"""Parsers of the imported modules, by verb."""


def filled(text: str, **facts: str) -> str:
    """Return a text with each @name@ replaced."""
    for name, fact in facts.items():
        text = text.replace(f"@{name}@", fact)
    return text


def facts() -> dict[str, str]:
    """Return the texts that may be inserted into the help of every verb."""
    tasks = ", ".join((*TRAINABLE, *OWN_TASKS))
    return {"endings": ", ".join(ENDINGS), "limits": limits_help(), "loggers": ", ".join(LOGGERS), "tasks": tasks}


class Parser(argparse.ArgumentParser):
    """An argparse parser that never guesses an option, and reports each error in one line."""

    def __init__(
        self,
        verb: str,
        *,
        checks: Mapping[str, Callable[[Any], object]] = MappingProxyType({}),
        options: Mapping[str, Mapping[str, Any]] = MappingProxyType({}),
        **more: str,
    ) -> None:
        """Create the parser of a verb, or of an action of a verb, from its table in `verbs.toml`.

        `checks`: functions that refuse a wrong value without importing torch, by option. `options`: tables of further
        options. `more`: texts for the help.
        """
        table, self._facts = VERB_TABLES[verb], facts() | more
        super().__init__(
            prog=f"glassformer {verb}",
            usage=f"glassformer {verb} {table.get('arguments', '')} [options, in any order]",
            description="\n".join(
                textwrap.fill(line, HELP_WIDTH) for line in filled(table["summary"], **self._facts).splitlines()
            ),
            epilog=f"example:\n  {table['example']}",
            formatter_class=_Help,
            conflict_handler="resolve",
            allow_abbrev=False,
            add_help=False,
        )
        self._checks = {**CHECKS, **checks}
        PARSERS[verb] = self
        self._most_used = set(table["most_used"]) if "most_used" in table else None
        sections = table.get("settings", ())
        sections = ALL_SECTIONS if sections == "all" else sections
        groups: dict[str, dict[str, Any]] = {"": {"-h": {}, **table["options"]}, **table.get("groups", {})}
        if self._most_used is not None:
            groups[""]["--help-all"] = {"action": _HelpAll}
        for included in (OPTION_SETS[name] for name in table.get("include", ())):
            group = groups.setdefault(included.get("title", ""), {})
            group |= {name: {**option, **groups[""].pop(name, {})} for name, option in included["options"].items()}
        groups[""] |= options
        if "run" in groups[""] or "model" in sections:  # --from reads a run too
            groups[""]["--no-verify"] = {}
        if table.get("bricks", True):
            groups[""].setdefault("--brick", {})
        groups[""] |= {"--limit": {}, "-q": {}}
        containers = {title: self.add_argument_group(title) if title else self for title in groups}
        for section in sections:
            _add_settings(self.add_argument_group(f"{section} settings"), section)
        for title, group in groups.items():
            for name, option in group.items():
                self._add_option(containers[title], name, option)

    def _add_option(self, container: argparse._ActionsContainer, name: str, option: Mapping[str, Any]) -> None:
        """Add an option. Keys that its table lacks come from the shared option of the same name."""
        option = {**SHARED.get(name, {}), **option}
        keywords = {key: option[key] for key in KEYWORDS if key in option}
        if "type" in option:
            keywords["type"] = TYPES[option["type"]]
        if option.get("nargs") == "*":
            keywords["default"] = []  # without a default, argparse lists it among the missing arguments
        if "." in option.get("dest", ""):
            keywords["default"] = argparse.SUPPRESS
        if not {"action", "choices", "metavar"}.intersection(option):
            negated = name.startswith(NEGATION)
            keywords["action"] = "store_false" if negated else "store_true"
            if negated:
                keywords.setdefault("dest", name.removeprefix(NEGATION))
        container.add_argument(
            name, *option.get("also", ()), help=filled(option.get("help", ""), **self._facts), **keywords
        )

    def format_help(self, *, complete: bool = False) -> str:
        """Return the help; unless `complete`, only with the options that the verb's table lists as most used."""
        if self._most_used is None or complete:
            return super().format_help()
        rare = [one for one in self._actions if one.option_strings and not self._most_used & {*one.option_strings}]
        texts = [action.help for action in rare]
        try:
            for action in rare:
                action.help = argparse.SUPPRESS
            return super().format_help()
        finally:
            for action, text in zip(rare, texts, strict=True):
                action.help = text

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
        known = [name for action in self._actions for name in action.option_strings]
        elsewhere = known_elsewhere(word)
        if elsewhere is not None and f"--{elsewhere}" in known:
            return f"unknown option {word}; it is called {self._shortest(elsewhere)} here"
        if word.startswith(NEGATION):  # never corrected to --open, which would do the opposite of --no-open
            tails = [name.removeprefix(NEGATION) for name in known if name.startswith(NEGATION)]
            tail = nearest(word.removeprefix(NEGATION), tails)
            meant = None if tail is None else NEGATION + tail
        else:
            meant = nearest(word, [name for name in known if not name.startswith(NEGATION)])
        return f"unknown option {word}" + (f"; did you mean {meant}?" if meant else f" (see {self.prog} --help)")

    def _shortest(self, key: str) -> str:
        """Return the shortest flag of a setting."""
        return next(action.option_strings[0] for action in self._actions if f"--{key}" in action.option_strings)

    def _parse_optional(self, arg_string: str) -> Any:
        """Treat no word after `--` as an option, because `parse_intermixed_args` forgets the position of `--`."""
        return None if isinstance(arg_string, _Operand) else super()._parse_optional(arg_string)

    def read(self, argv: list[str]) -> argparse.Namespace:
        """Parse the words of a command line. Words after `--` are operands, even if they start with a dash."""
        end = argv.index("--") if "--" in argv else len(argv)
        argv, operands = argv[:end], argv[end + 1 :]
        if operands and argv and self._needs_value(argv[-1]):
            self.error(f"argument {argv[-1]}: expected one argument")
        options = self.parse_intermixed_args([*self._with_truths(argv), *map(_Operand, operands)])
        for name, value in vars(options).items():
            setattr(options, name, _plain(value))
        if isinstance(getattr(options, "data", None), list):  # of several files
            options.data = BETWEEN_FILES.join(options.data) or None
        if options.quiet:
            be_quiet()
        if not getattr(options, "verify", True):
            os.environ["GLASSFORMER_NO_VERIFY"] = "1"
        for word in options.limit or ():
            name, _, value = word.partition("=")
            limits(**{name: value})
        _refuse_early(options)
        for name, check in self._checks.items():
            if (value := getattr(options, name, None)) is not None:
                check(value)
        return options

    def _needs_value(self, word: str) -> bool:
        action = self._option_string_actions.get(word)
        return isinstance(action, argparse._StoreAction) and action.nargs is None

    def _with_truths(self, argv: list[str]) -> list[str]:
        """Add `=true` to flags without a value, so that argparse does not read the next word as their value."""
        alone = {name for action in self._actions if action.const == TRUE for name in action.option_strings}
        return [
            f"{word}={TRUE}" if word in alone and str(after).lower() not in TRUTHS else word
            for word, after in itertools.zip_longest(argv, argv[1:])
        ]


class _Operand(str):
    """A word after `--`."""


def _plain(value: Any) -> Any:
    """Return an option's value with operands as plain strings, which all serializers support."""
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, _Operand) else value


def _refuse_early(options: argparse.Namespace) -> None:
    """Raise an error for invalid settings, and for a run or data that does not exist, before torch is imported."""
    settings, named = flatten(settings_of(options)), vars(options)
    if "model.encoder" in settings:
        encoder_info(settings["model.encoder"])
    check_ranges(settings)
    if named.get("run") not in (None, "last"):  # `last` is resolved later, after all other errors
        find_run(named["run"])
    if named.get("data") is not None:
        from glassformer.data.io.place import find  # imports numpy and the embedded data sets

        find(named["data"], several=True)


def run_action(verb: str, argv: list[str], actions: Mapping[str, Callable[[list[str]], None]]) -> None:
    """Run the action of a verb that the command line names first."""
    if argv[0] in ("-h", "--help"):
        print(VERB_TABLES[verb]["help"], end="")
    elif argv[0] in actions:
        actions[argv[0]](argv[1:])
    else:
        raise Misuse(unknown("action", argv[0], actions))


class _HelpAll(argparse.Action):
    """An option that prints the help with every option, and exits."""

    def __init__(self, option_strings: Sequence[str], dest: str, help: str | None = None) -> None:
        super().__init__(option_strings, dest=argparse.SUPPRESS, default=argparse.SUPPRESS, nargs=0, help=help)

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        assert isinstance(parser, Parser)
        print(parser.format_help(complete=True), end="")
        parser.exit()


class _Help(argparse.RawDescriptionHelpFormatter):
    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=34, width=HELP_WIDTH)

    def _format_action_invocation(self, action: argparse.Action) -> str:
        """Return the spellings of an option with one placeholder for its value: `--text, --data.text COLUMN`."""
        if not action.option_strings:
            return super()._format_action_invocation(action)
        names = ", ".join(action.option_strings)
        value = "" if action.nargs == 0 else self._format_args(action, self._get_default_metavar_for_optional(action))
        return f"{names} {value}".rstrip()


def _flag(name: str) -> str:
    return f"--{name}" if "." in name else f"--{name.replace('_', '-')}"


def _add_settings(group: argparse._ActionsContainer, section: str) -> None:
    """Add every setting of a section as `--section.key`, and common settings also under a short name."""
    short = {key: _flag(name) for name, key in reversed(ALIASES.items())}  # of two short names, the first
    for key, field in FIELDS.items():
        if key.partition(".")[0] != section or key == "data.path":
            continue
        kind = kind_of(field)[0]
        alone: dict[str, Any] = {"nargs": "?", "const": TRUE} if key in short and kind is bool else {}
        group.add_argument(
            *([short[key]] if key in short else []),
            f"--{key}",
            dest=key,
            metavar=field.metadata["rule"].metavar or METAVARS[kind],
            default=argparse.SUPPRESS,
            help=_help(key, field),
            **alone,
        )


def _help(key: str, field: dataclasses.Field[Any]) -> str:
    rule: Rule = field.metadata["rule"]
    choices = tuple(dict.fromkeys((*ENCODERS, *own_names(key)))) if key == "model.encoder" else choices_of(key, rule)
    text = help_texts()[key] + (f": {', '.join(choices)}" if choices else "")
    if rule.default is not None:
        text += f" (default {value_text(rule.default)})"
    for task, kind in (("labels", TEXT), (TRANSLATION, TRANSLATION), (CPU_TRANSLATION, CPU_TRANSLATION)):
        text += _starts(task, kind, key, rule.default)
    return text.replace("%", "%%")


def _starts(task: str, kind: str, key: str, default: Any) -> str:
    """Return the defaults of a setting for a task: `; for labels 0.3 (average 0.5, transformer 0.1)`.

    Models with another default are listed in parentheses.
    """
    shared = STARTS.get(kind, {})
    usual = shared.get(key, default)
    models: dict[Any, list[str]] = {}
    for name, info in ENCODERS.items():
        start = info.starts.get(kind, {}).get(key, usual)
        if start != usual:
            models.setdefault(start, []).append(name)
    others = ", ".join(f"{', '.join(names)} {value_text(start)}" for start, names in models.items())
    if key not in shared:
        return f"; for {task}: {others}" if others else ""
    return f"; for {task} {value_text(usual)}" + (f" ({others})" if others else "")


def settings_of(options: argparse.Namespace) -> dict[str, Any]:
    """Return the settings among the options, by dotted key."""
    return {key: value for key, value in vars(options).items() if "." in key}


def arguments_of(options: argparse.Namespace, function: Callable[..., Any], *without: str) -> dict[str, Any]:
    """Return the options that a function takes, as keyword arguments, except the names in `without`."""
    taken = parameter_types(function)
    return {name: value for name, value in vars(options).items() if name in taken and name not in without}


def training_settings(
    options: argparse.Namespace, verb: str, *, instead: str = "", needs_data: bool = True
) -> dict[str, Any]:
    """Return the user's settings, including the task. Raise `Misuse` if `needs_data` is True and there is no data.

    `instead`: the end of the error message, which names an alternative to data.
    """
    settings = settings_of(options)
    if options.task:
        settings["task"] = options.task
    if re.fullmatch(r"[+-]?0*\.?0*(e.*)?", str(settings.get("training.lr", 1)), re.IGNORECASE):
        raise SettingError("training.lr is 0, but must be above 0: nothing would be learned")
    if needs_data and options.data is None and not (options.config or PAIR_FILES.intersection(settings)):
        raise Misuse(f"DATA is missing{instead} (see glassformer {verb} --help)")
    return settings
