"""glassformer import and glassformer export"""

import shlex

from glassformer.cli.options import JSON, RUN, Option, Parser, flag
from glassformer.cli.terminal.inputs import check_folder
from glassformer.cli.terminal.show import RowProgress, print_json, say, say_next
from glassformer.exchange import check_source

IMPORT = Parser(
    "import",
    "SOURCE",
    "Import a pretrained model as a run: GPT-2, Llama, Qwen3, BERT, DistilBERT, RoBERTa, XLM-RoBERTa, BART and Marian "
    "from Hugging Face folders (safetensors), Llama and Qwen3 from GGUF files. No code in the model is executed.",
    "glassformer import SmolLM2-135M-Instruct.Q4_1.gguf --out runs/smol",
    [
        Option("source", metavar="SOURCE", help="a folder with config.json and *.safetensors, a .gguf file, or a name "
               "on the Hugging Face hub (OWNER/MODEL, or OWNER/MODEL/FILE.gguf)", check=check_source),
        Option("--out", check=check_folder, metavar="RUN", help="the run's folder (default: runs/NAME-N)"),
        flag("--overwrite", "replace the run that is there"),
        JSON,
    ],
)  # fmt: skip

EXPORT = Parser(
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

PARSERS = (IMPORT, EXPORT)


def run_import(argv: list[str]) -> None:
    options = IMPORT.read(argv)

    from glassformer.cli.terminal.show import RowProgress
    from glassformer.verbs.exchange import import_model

    command = f"glassformer import {shlex.join(argv)}"
    with RowProgress():
        imported = import_model(options.source, options.out, overwrite=options.overwrite, command=command, say=say)
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
        written = export(options.run, to=options.to, folder=options.folder, overwrite=options.overwrite, say=say)
    files = list(map(str, written))
    if options.json:
        print_json({"folder": options.folder, "files": files})
    else:
        print(*files, sep="\n")
    say(f"next: {options.folder}/README.md says how to use it")
