"""glassformer import"""

from glassformer.cli.options import Parser

EXAMPLE = "glassformer import SmolLM2-135M-Instruct.Q4_1.gguf --out runs/smol"


def parser() -> Parser:
    made = Parser("import", "SOURCE", "A model made elsewhere as a run: GPT-2, Llama, Qwen3, BERT, BART and Marian "
                  "from Hugging Face folders (safetensors), Llama and Qwen3 from GGUF files. Nothing that comes with "
                  "it is executed.", EXAMPLE)  # fmt: skip
    made.add_argument("source", metavar="SOURCE", help="a folder with config.json and *.safetensors, a .gguf file, or "
                      "a name on the Hugging Face hub (OWNER/MODEL, or OWNER/MODEL/FILE.gguf)")  # fmt: skip
    made.add_argument("--out", metavar="RUN", help="the run's folder (default: runs/NAME-N)")
    made.add_argument("--overwrite", action="store_true", help="replace the run that is there")
    made.add_argument("--json", action="store_true", help="print the result as one JSON object")
    return made


def run(argv: list[str]) -> int:
    options = parser().read(argv)

    import shlex

    from glassformer.cli.terminal.show import print_json, say, say_next
    from glassformer.verbs.import_model import import_model

    command = f"glassformer import {shlex.join(argv)}"
    made = import_model(options.source, options.out, overwrite=options.overwrite, command=command, say=say)
    if options.json:
        card = made.card()
        print_json({"run": str(made.path), **{key: card[key] for key in ("task", "parameters", "imported")}})
    else:
        print(made.path)
    say_next(str(made.path))
    return 0
