"""glassformer predict"""

import sys
from typing import TYPE_CHECKING, Any

from glassformer.cli.options import Parser
from glassformer.cli.terminal.inputs import check_out, lines_of, texts_of
from glassformer.config.errors import Misuse
from glassformer.config.presets import predicts_hidden_tokens

if TYPE_CHECKING:
    from glassformer.families.base import Loaded

EXAMPLE = 'glassformer predict last "the food was good, not bad at all"'
MOST_SHOWN = 5


def parser() -> Parser:
    made = Parser("predict", "RUN [TEXT …]", "What a run says of a text, an image or a row: a label with the "
                  "probability of each, a number, of a language model the next token, of a masked one what stands at "
                  "<mask>, of a translator the translation.", EXAMPLE)  # fmt: skip
    made.add_argument("run", metavar="RUN", help="a run's folder, or `last`")
    made.add_argument("texts", nargs="*", metavar="TEXT", help="what to judge: texts, files of images, or rows as "
                      "JSON objects, as the run learned (default: each line of stdin)")  # fmt: skip
    made.add_argument("--file", metavar="FILE", help="judge every row of a table (.csv, .tsv, .jsonl, .parquet), "
                      "which comes out with what was predicted added, or every line of a text file")  # fmt: skip
    made.add_argument("--text", metavar="NAME", help="the table's text column (default: as in the run's data)")
    made.add_argument("--encoding", "--data.encoding", dest="encoding", metavar="NAME",
                      help="of the file (default: as the run's data)")  # fmt: skip
    made.add_argument("--out", metavar="FILE", help="where to write the table: .csv, .tsv or .jsonl")
    made.add_argument("--probabilities", action="store_true", help="add a column for every class")
    made.add_argument("--top", type=int, metavar="N", help="masked language models: how many tokens for each <mask> "
                      f"(default {MOST_SHOWN})")  # fmt: skip
    made.add_argument("--device", default="auto", metavar="NAME", help="auto, cpu, cuda, cuda:1, mps")
    made.add_argument("--json", action="store_true", help="print one JSON object a line")
    return made


def run(argv: list[str]) -> int:
    options = parser().read(argv)
    if options.file is not None and options.texts:
        raise Misuse("give TEXT or --file, not both")
    for name in ("text", "out", "probabilities"):
        if options.file is None and getattr(options, name):
            raise Misuse(f"--{name} goes with --file")
    check_out(options.out, (".csv", ".tsv", ".jsonl"))
    if options.out is not None and options.json:
        raise Misuse("--out writes a table, --json prints lines: give one of them")

    from glassformer.cli.terminal.show import print_json, say
    from glassformer.families.load import load
    from glassformer.verbs.answer import AnswerOptions, answer_function

    loaded = load(options.run, options.device)
    top = MOST_SHOWN if options.top is None else options.top
    answer = answer_function(loaded.family, loaded, AnswerOptions(options.run, top, say))
    if options.top is not None and not predicts_hidden_tokens(loaded.config.task):
        raise Misuse(f"--top is for masked language models, and {options.run} learned {loaded.config.task}")
    texts = texts_of(options.texts)
    if options.file is not None and loaded.family.reads_tables:
        return _file(options, loaded)
    if options.file is not None and loaded.family.verb != "predict":
        raise Misuse(
            "--file is for runs that learned labels or numbers; a language model or a translator takes TEXT or stdin"
        )
    if options.file is not None:
        if options.text or options.out or options.probabilities:
            raise Misuse("--text, --out and --probabilities are for runs that learned labels or numbers")
        texts = iter(lines_of(options.file))
    for text in texts:
        if not text.strip():  # a blank line has no answer, and stays one
            print('{"text": ""}' if options.json else "", flush=True)
            continue
        if options.json:
            print_json(answer(text))
        else:
            print(_line(answer(text)), flush=True)
    return 0


def _line(found: dict[str, Any]) -> str:
    """The answer first, for a script to cut at the tab; then what else could be said, and the text."""
    from glassformer.cli.terminal.show import printable, visible

    text = visible(printable(found["text"] if "text" in found else found["example"]))
    if "places" in found:
        places = [{one["token"]: one["probability"] for one in place} for place in found["places"]]
        guesses = "\t".join(_likely(place, len(place)) for place in places)
        return f"{visible(printable(found['filled']))}\t{guesses}\t{text}"
    if "translation" in found:
        return f"{visible(printable(found['translation']))}\t{text}"
    if "value" in found:
        return f"{found['value']:.6g}\t{text}"
    if "labels" in found:
        said = visible("; ".join(found["labels"])) or "(none)"
        return f"{said}\t{_likely(found['probabilities'])}\t{text}"
    return f"{visible(found['label'])}\t{_likely(found['probabilities'])}\t{text}"


def _likely(probabilities: dict[str, float], most: int = MOST_SHOWN) -> str:
    """The likeliest first."""
    from glassformer.cli.terminal.show import visible

    best = sorted(probabilities.items(), key=lambda pair: -pair[1])
    shown = ", ".join(f"{visible(label)} {value:.4f}" for label, value in best[:most])
    return f"{shown}{', …' if len(best) > most else ''}"


def _file(options: Any, loaded: "Loaded") -> int:
    from glassformer.cli.terminal.show import say
    from glassformer.verbs.predict_file import predict_file

    count = predict_file(
        loaded,  # type: ignore[arg-type]
        options.file,
        options.out or sys.stdout,
        text=options.text,
        encoding=options.encoding,
        kind="jsonl" if options.json else None,
        probabilities=options.probabilities,
        say=say,
    )
    say(f"{count:,} row{'s' * (count != 1)}" + (f" written to {options.out}" if options.out else ""))
    return 0
