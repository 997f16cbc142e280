"""glassformer export"""

from glassformer.cli.options import JSON, RUN, Option, Parser, flag
from glassformer.cli.terminal.show import print_json, say

PARSER = Parser(
    "export",
    "RUN --to hf|onnx DIR",
    "A run for other programs: a Hugging Face folder that transformers loads with no code of ours, or ONNX graphs. "
    "What was written is read back and compared with the run.",
    "glassformer export last --to hf my-model",
    [
        RUN,
        Option("folder", metavar="DIR", help="where to; it must be new or empty"),
        Option("--to", required=True, choices=("hf", "onnx"), help="hf: for transformers; onnx: for onnxruntime"),
        flag("--overwrite", "replace what is in DIR"),
        JSON,
    ],
)


def run(argv: list[str]) -> None:
    options = PARSER.read(argv)

    from glassformer.cli.terminal.rows import RowProgress
    from glassformer.verbs.exchange import export

    with RowProgress():
        written = export(options.run, to=options.to, folder=options.folder, overwrite=options.overwrite, say=say)
    files = list(map(str, written))
    if options.json:
        print_json({"folder": options.folder, "files": files})
    else:
        print(*files, sep="\n")
    say(f"next: {options.folder}/README.md says how to use it")
