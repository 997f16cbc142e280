"""glassformer export"""

from glassformer.cli.options import Parser

EXAMPLE = "glassformer export last --to hf my-model"


def parser() -> Parser:
    made = Parser("export", "RUN --to hf|onnx DIR", "A run for other programs: a Hugging Face folder that transformers "
                  "loads with no code of ours, or ONNX graphs. What was written is read back and compared with the "
                  "run.", EXAMPLE)  # fmt: skip
    made.add_argument("run", metavar="RUN", help="a run's folder, or `last`")
    made.add_argument("folder", metavar="DIR", help="where to; it must be new or empty")
    made.add_argument("--to", required=True, choices=("hf", "onnx"), help="hf: for transformers; onnx: for onnxruntime")
    made.add_argument("--overwrite", action="store_true", help="replace what is in DIR")
    made.add_argument("--json", action="store_true", help="print the result as one JSON object")
    return made


def run(argv: list[str]) -> int:
    options = parser().read(argv)

    from glassformer.cli.terminal.show import print_json, say
    from glassformer.verbs.export import export

    files = export(options.run, to=options.to, folder=options.folder, overwrite=options.overwrite, say=say)
    if options.json:
        print_json({"folder": options.folder, "files": [str(file) for file in files]})
    else:
        for file in files:
            print(file)
    say(f"next: {options.folder}/README.md says how to use it")
    return 0
