"""The commands `glassformer import` and `glassformer export`."""

import shlex

from glassformer.cli.options import Parser, arguments_of
from glassformer.cli.terminal.inputs import check_folder
from glassformer.cli.terminal.show import RowProgress, print_json, say, say_next
from glassformer.exchange import check_source

IMPORT = Parser("import", checks={"source": check_source, "out": check_folder})
EXPORT = Parser("export")


def run_import(argv: list[str]) -> None:
    options = IMPORT.read(argv)

    from glassformer.verbs.exchange import import_model

    command = f"glassformer import {shlex.join(argv)}"
    with RowProgress():
        imported = import_model(**arguments_of(options, import_model), command=command)
    if options.json:
        card = imported.card()
        print_json({"run": str(imported.path), **{key: card[key] for key in ("task", "parameters", "imported")}})
    else:
        print(imported.path)
    say_next(str(imported.path))


def run_export(argv: list[str]) -> None:
    options = EXPORT.read(argv)

    from glassformer.verbs.exchange import export

    with RowProgress():
        written = export(**arguments_of(options, export))
    files = list(map(str, written))
    if options.json:
        print_json({"folder": options.folder, "files": files})
    else:
        print(*files, sep="\n")
    say(f"next: {options.folder}/README.md says how to use it")
