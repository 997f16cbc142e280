"""glassformer predict"""

import sys
from collections.abc import Callable
from typing import Any

from glassformer.cli.options import Parser, arguments_of
from glassformer.cli.terminal.inputs import check_rows, lines_of, refuse_files, texts_of
from glassformer.cli.terminal.parts import answer_parts, takes_parts
from glassformer.cli.terminal.show import print_json, say, visible
from glassformer.config.errors import Misuse
from glassformer.config.presets import TEXT, predicts_hidden_tokens
from glassformer.config.progress import watched
from glassformer.data.wording import counted
from glassformer.verbs.parts.options import Shard

MOST_SHOWN = 5

PARSER = Parser("predict", checks={"file": check_rows, "shard": Shard.parse})


def run(argv: list[str]) -> None:
    options = PARSER.read(argv)
    for name in ("text", "out", "probabilities"):
        if options.file is None and getattr(options, name):
            raise Misuse(f"--{name} goes with --file")
    is_folder = takes_parts(options, (".csv", ".tsv", ".jsonl", ".parquet"))

    from glassformer.cli.terminal.show import RowProgress
    from glassformer.families.load import load
    from glassformer.verbs.files import NO_LABELS, predict_file

    if is_folder:
        answer_parts(options, predict_file)
        return
    loaded: Any = load(options.run, options.device, say=say)
    top = MOST_SHOWN if options.top is None else options.top
    answer = loaded.family.answer_function(loaded, top=top, say=say)
    if options.top is not None and not predicts_hidden_tokens(loaded.config.task):
        raise Misuse(f"--top is for masked language models, and {options.run} learned {loaded.config.task}")
    if options.file is not None and loaded.family.label_kind is not None:
        with RowProgress(printed=options.out is None):
            arguments = {**arguments_of(options, predict_file), "run": loaded, "out": options.out or sys.stdout}
            if options.json and options.out is None:
                arguments["format"] = "jsonl"
            written = predict_file(**arguments, say=say)
        say(counted(written.rows, "row") + (f" written to {options.out}" if options.out else ""))
        if options.json and options.out is not None:
            print_json(written.to_dict())
        return
    if options.file is not None and loaded.family.verb != "predict":
        raise Misuse(NO_LABELS)
    if options.text or options.out or options.probabilities:
        raise Misuse("--text, --out and --probabilities are for runs that learned labels or numbers")
    if loaded.config.data.kind == TEXT:
        refuse_files(options.texts)
    if any(not text.strip() for text in options.texts):
        raise Misuse("TEXT is empty: there is nothing to judge")
    encoding = options.encoding or loaded.config.data.encoding
    if options.file is None:
        for text in texts_of(options.texts):
            _print_answer(text, answer, as_json=options.json)
        return
    with RowProgress(printed=True) as progress:
        lines = lines_of(options.file, encoding)
        for done, text in enumerate(lines):
            progress(done, len(lines), "line")
            with watched(None):
                _print_answer(text, answer, as_json=options.json)
        progress(len(lines), len(lines), "line")


def _print_answer(text: str, answer: Callable[[str], dict[str, Any]], *, as_json: bool) -> None:
    if not text.strip():  # a blank line has no answer, and stays one
        print('{"text": "", "error": "the text is empty"}' if as_json else "", flush=True)
    elif as_json:
        print_json(answer(text))
    else:
        print(_line(answer(text)), flush=True)


def _line(answer: dict[str, Any]) -> str:
    """The answer first, for a script to cut at the tab; then what else could be said, and the text."""
    text = answer["text"] if "text" in answer else answer["example"]
    if "places" in answer:
        places = [{guess["token"]: guess["probability"] for guess in place} for place in answer["places"]]
        cells = [answer["filled"], *(_likeliest(place, len(place)) for place in places)]
    elif "translation" in answer:
        cells = [answer["translation"]]
    elif "value" in answer:
        cells = [f"{answer['value']:.6g}"]
    else:
        labels = answer["labels"] if "labels" in answer else [answer["label"]]
        cells = ["; ".join(labels) or "(none)", _likeliest(answer["probabilities"])]
    return "\t".join(map(visible, [*cells, text]))


def _likeliest(probabilities: dict[str, float], most: int = MOST_SHOWN) -> str:
    """The likeliest first."""
    best = sorted(probabilities.items(), key=lambda pair: -pair[1])
    listed = ", ".join(f"{visible(label)} {value:.4f}" for label, value in best[:most])
    return f"{listed}{', …' if len(best) > most else ''}"
