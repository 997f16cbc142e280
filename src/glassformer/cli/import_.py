"""glassformer import"""

import shlex

from glassformer.cli.options import JSON, Option, Parser, flag
from glassformer.cli.terminal.inputs import check_folder
from glassformer.cli.terminal.show import print_json, say, say_next
from glassformer.exchange import check_source

PARSER = Parser(
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


def run(argv: list[str]) -> None:
    options = PARSER.read(argv)

    from glassformer.cli.terminal.rows import RowProgress
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
