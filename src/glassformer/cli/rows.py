"""The commands `predict`, `embed` and `translate`, which read texts, a file of rows, or a folder of files."""

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from glassformer.cli.options import Parser, arguments_of
from glassformer.cli.terminal import inputs
from glassformer.cli.terminal.show import RowProgress, print_json, say, visible
from glassformer.config.errors import Misuse
from glassformer.config.presets import TEXT, predicts_hidden_tokens
from glassformer.config.progress import watched
from glassformer.data.wording import counted
from glassformer.decoding.options import SEARCH_OPTIONS, Search
from glassformer.verbs.parts.options import PartOptions, Shard

if TYPE_CHECKING:
    from glassformer.verbs.parts.folder import RowsWritten

PREDICT = Parser("predict", checks={"file": inputs.check_rows, "shard": Shard.parse})
EMBED = Parser("embed", checks={"file": inputs.check_rows, "shard": Shard.parse})
TRANSLATE = Parser("translate", checks={"file": inputs.check_lines, "shard": Shard.parse})
FOLDER_OPTIONS = ("shard", "on", "jobs", "overwrite")
MOST_SHOWN = 5


def check_files(options: argparse.Namespace, endings: tuple[str, ...] = ()) -> bool:
    """Raise `Misuse` for file options that do not fit together; return whether --file is a folder of parts.

    `endings`: allowed endings of --out if it is a file.
    """
    if options.file is not None and options.texts:
        raise Misuse("give TEXT or --file, not both")
    is_folder = options.file is not None and os.path.isdir(options.file)
    if is_folder and options.out is None:
        raise Misuse(f"{options.file} is a folder of parts: --out names the folder to write to")
    if options.format is not None and not is_folder:
        raise Misuse("--format is for a folder of parts: of one file, the name of --out says it")
    if options.file is None and any(getattr(options, name) not in (None, False, "local") for name in FOLDER_OPTIONS):
        raise Misuse("--shard, --on, --jobs and --overwrite go with --file FOLDER")
    if options.file is not None:
        PartOptions(options.shard, options.on, options.jobs, options.overwrite).check(options.file)
    if is_folder:
        inputs.check_folder(options.out)
    else:
        inputs.check_out(options.out, endings)
    return is_folder


def answer_file(options: argparse.Namespace, answer: "Callable[..., RowsWritten]", run: Any) -> None:
    """Process --file, a file or a folder of parts, with a run; report the number of rows."""
    from glassformer.verbs.parts.folder import PartsFailed

    arguments = {**arguments_of(options, answer), "run": run, "out": options.out or sys.stdout}
    if options.json and options.out is None:
        arguments["format"] = "jsonl"
    failure = None
    try:
        with RowProgress(printed=options.out is None):
            written = answer(**arguments)
    except PartsFailed as failed:
        failure, written = failed, failed.written
    if options.out is not None:
        say(str(written))
        if options.json:
            print_json(written.to_dict())
    if failure is not None:
        raise failure


# --- predict ---


def run_predict(argv: list[str]) -> None:
    options = PREDICT.read(argv)
    for name in ("text", "out", "probabilities"):
        if options.file is None and getattr(options, name):
            raise Misuse(f"--{name} goes with --file")
    is_folder = check_files(options, (".csv", ".tsv", ".jsonl", ".parquet"))

    from glassformer.families.load import load
    from glassformer.verbs.files import NO_LABELS, predict_file

    if is_folder:
        answer_file(options, predict_file, options.run)
        return
    loaded: Any = load(options.run, options.device)
    top = MOST_SHOWN if options.top is None else options.top
    answer = loaded.family.answer_function(loaded, top=top)
    if options.top is not None and not predicts_hidden_tokens(loaded.config.task):
        raise Misuse(f"--top is for masked language models, and {options.run} learned {loaded.config.task}")
    if options.file is not None and loaded.family.label_kind is not None:
        answer_file(options, predict_file, loaded)
        return
    if options.file is not None and loaded.family.verb != "predict":
        raise Misuse(NO_LABELS)
    if options.text or options.out or options.probabilities:
        raise Misuse("--text, --out and --probabilities are for runs that learned labels or numbers")
    if loaded.config.data.kind == TEXT:
        inputs.refuse_files(options.texts)
    if any(not text.strip() for text in options.texts):
        raise Misuse("TEXT is empty: there is nothing to judge")
    if options.file is None:
        for text in inputs.texts_of(options.texts):
            _print_answer(text, answer, as_json=options.json)
        return
    with RowProgress(printed=True) as progress:
        lines = inputs.lines_of(options.file, options.encoding or loaded.config.data.encoding)
        for done, text in enumerate(lines):
            progress(done, len(lines), "line")
            with watched(None):
                _print_answer(text, answer, as_json=options.json)
        progress(len(lines), len(lines), "line")


def _print_answer(text: str, answer: Callable[[str], dict[str, Any]], *, as_json: bool) -> None:
    if not text.strip():  # a blank line stays blank
        print('{"text": "", "error": "the text is empty"}' if as_json else "", flush=True)
    elif as_json:
        print_json(answer(text))
    else:
        print(_line(answer(text)), flush=True)


def _line(answer: dict[str, Any]) -> str:
    """Return a line for an answer: the answer up to the first tab, then details and the text."""
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
    """Return labels with their probabilities, the likeliest first."""
    best = sorted(probabilities.items(), key=lambda pair: -pair[1])
    listed = ", ".join(f"{visible(label)} {value:.4f}" for label, value in best[:most])
    return f"{listed}{', …' if len(best) > most else ''}"


# --- embed ---


def run_embed(argv: list[str]) -> None:
    options = EMBED.read(argv)
    is_folder = check_files(options, (".npy", ".jsonl"))
    if options.json and not is_folder:
        raise Misuse("--json is for a folder of parts: vectors are JSON lines anyway")

    from glassformer.families.load import load
    from glassformer.verbs.files import embed_file, write_vectors

    loaded = options.run if is_folder else load(options.run, options.device)
    if options.file is not None:
        answer_file(options, embed_file, loaded)
        return
    if loaded.config.data.kind == TEXT:
        inputs.refuse_files(options.texts)
    with RowProgress(printed=options.out is None):
        texts = inputs.held_texts(options.texts)
        if not texts:
            raise Misuse("there is no text to embed")
        counts = write_vectors(loaded, iter([texts]), len(texts), options.out or sys.stdout, tokens=options.tokens)
        if blank := sum(counts.unanswered.values()):
            say(f"{counted(blank, 'text is', 'texts are')} empty, and so without a vector")
    if options.out is not None:
        say(f"{counted(counts.rows, 'text')} written to {options.out}")


# --- translate ---


def run_translate(argv: list[str]) -> None:
    options = TRANSLATE.read(argv)
    if options.text is not None and options.file is None:
        raise Misuse("--text goes with --file")
    search = {name: getattr(options, name) for name in SEARCH_OPTIONS}
    Search.of(**search)  # refuse wrong options before the model is loaded
    is_folder = check_files(options)
    if None not in (options.file, options.out) and Path(options.file).resolve() == Path(options.out).resolve():
        raise Misuse(f"--out {options.out} is the file that is translated: give it another name")
    inputs.refuse_files(options.texts)

    from glassformer.families.load import load_for
    from glassformer.verbs.files import translate_file, translation_lines

    if is_folder:
        answer_file(options, translate_file, options.run)
        return
    loaded = load_for("translate", options.run, options.device, precision=options.precision)
    if options.file is not None:
        answer_file(options, translate_file, loaded)
        return
    count = 0
    with inputs.writer_to(options.out) as to:
        for block in inputs.blocks_of(options.texts):
            translations = loaded.translate(block, **search)
            to.writelines(translation_lines(translations, to, count, options.nbest, as_json=options.json))
            to.flush()
            count += len(translations)
    if options.out is not None:
        say(f"{counted(count, 'row')} written to {options.out}")
