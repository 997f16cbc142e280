"""glassformer data"""

from glassformer.cli.options import Parser, add_settings, settings_of
from glassformer.config.errors import Misuse
from glassformer.config.names import unknown
from glassformer.config.resolve import resolve

HELP = """usage: glassformer data                     the data sets that come along
       glassformer data describe DATA       how large it is, and how it would be divided
       glassformer data show DATA           a batch as the model will see it

example:
  glassformer data show reverse --batch 0 --tokenizer.kind char --model.context 32
"""


def run(words: list[str]) -> int:
    actions = {"list": listing, "describe": describe, "show": show}
    if words and words[0] in ("-h", "--help"):
        print(HELP, end="")
        return 0
    if not words or words[0].startswith("-"):
        words = ["list", *words]
    if words[0] not in actions:
        raise Misuse(unknown("action", words[0], actions))
    return actions[words[0]](words[1:])


def listing(words: list[str]) -> int:
    parser = Parser("data list", "", "The data sets that come along.", "glassformer data")
    parser.add_argument("--json", action="store_true", help="print the result as one JSON object")
    options = parser.read(words)

    from rich.text import Text

    from glassformer.cli.show import print_json, results, say, table
    from glassformer.verbs.data import list_data

    rows = list_data()
    if options.json:
        print_json({"datasets": [vars(row) for row in rows]})
        return 0
    shown = table("name", "what it is", "parameters")
    shown.columns[1].justify = shown.columns[2].justify = "left"
    for row in rows:
        parameters = ",".join(f"{key}={value}" for key, value in row.parameters.items())
        shown.add_row(row.name, Text(row.summary), Text(parameters))
    results.print(shown)
    say("parameters go behind the name: recall:distance=16,rows=5000")
    say("next: glassformer data show docstrings")
    return 0


def describe(words: list[str]) -> int:
    parser = Parser("data describe", "DATA", "How large a text is, and how it would be divided.",
                    "glassformer data describe docstrings")  # fmt: skip
    parser.add_argument("data", metavar="DATA", help="a text file, a folder, a .jsonl file, or an embedded data set")
    parser.add_argument("--json", action="store_true", help="print the result as one JSON object")
    add_settings(parser, ("data",))
    options = parser.read(words)
    config = resolve({}, {**settings_of(options), "data.path": options.data})

    from rich.text import Text

    from glassformer.cli.show import print_json, results, table
    from glassformer.verbs.data import describe as describe_data

    described = describe_data(config)
    if options.json:
        print_json(vars(described))
        return 0
    results.print(Text(described.report))
    shown = table("part", "documents", "characters", "bytes")
    for name, sizes in described.parts.items():
        shown.add_row(name, *(f"{value:,}" for value in sizes.values()))
    results.print(shown)
    results.print(Text(f"it begins: {described.beginning!r}"))
    return 0


def show(words: list[str]) -> int:
    parser = Parser("data show", "DATA", "A batch as the model will see it, and one sentence as its training pairs.",
                    "glassformer data show reverse --batch 0 --tokenizer.kind char --model.context 32")  # fmt: skip
    parser.add_argument("data", metavar="DATA", help="a text file, a folder, a .jsonl file, or an embedded data set")
    parser.add_argument("--batch", type=int, default=0, metavar="K", help="which one (default 0)")
    parser.add_argument("--rows", type=int, default=4, metavar="N", help="rows to show (default 4)")
    parser.add_argument("--json", action="store_true", help="print the result as one JSON object")
    add_settings(parser)
    options = parser.read(words)
    if options.rows < 1:
        raise Misuse(f"--rows is {options.rows}, but must be at least 1")
    if options.batch < 0:
        raise Misuse(f"--batch is {options.batch}, but batches count from 0")
    config = resolve({}, {**settings_of(options), "data.path": options.data})

    from rich.text import Text

    from glassformer.cli.show import print_json, results, say, visible
    from glassformer.verbs.data import show_batch

    shown = show_batch(config, options.batch, say)
    if options.json:
        print_json({**vars(shown), "rows": shown.rows[: options.rows], "ids": shown.ids[: options.rows]})
        return 0
    size = f"{len(shown.rows)} rows of {len(shown.rows[0]) - 1} tokens, each followed by its answer"
    results.print(Text(f"batch {shown.step}: {size}", style="bold"))
    for number, row in enumerate(shown.rows[: options.rows]):
        results.print(Text(f"{number:4}  " + "|".join(visible(token) for token in row)))
    if len(shown.rows) > options.rows:
        results.print(f"      … and {len(shown.rows) - options.rows} more rows")
    results.print(Text("row 0 as training pairs: after this → comes that", style="bold"))
    for before, after in shown.pairs:
        results.print(Text(f"  {visible(before)} → {visible(after)}"))
    return 0
