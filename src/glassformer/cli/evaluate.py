"""glassformer evaluate"""

import argparse
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from glassformer.cli.options import DEVICE, JSON, PRECISION, RUN, Option, Parser, flag, settings_of, values_of
from glassformer.cli.terminal.inputs import check_out, check_rows
from glassformer.cli.terminal.show import print_json, say, say_next, show_table, show_text
from glassformer.config.data_section import ERROR, SKIP
from glassformer.config.errors import Misuse
from glassformer.config.presets import BLEU_TOKENIZERS
from glassformer.config.resolve import flatten
from glassformer.config.views import ENDINGS
from glassformer.data.wording import EXAMPLES, listed
from glassformer.decoding.options import Search

if TYPE_CHECKING:
    from glassformer.families.requests import EvaluateOptions
    from glassformer.tasks.base import Evaluation

MOST_ROWS, MOST_COLUMNS = 40, 12
"""Classes that a table on the screen can hold."""

PARSER = Parser(
    "evaluate",
    "RUN [DATA]",
    "How good a run is, over data of your choice or over the part that it held out: loss, perplexity and bits per "
    "byte; accuracy, F1 by class and confusion; RMSE, MAE and R²; BLEU, chrF and exact match.",
    "glassformer evaluate last test.csv --errors --out errors.html",
    [
        RUN,
        Option("data", nargs="*", metavar="DATA", help="data to evaluate on (default: the run's held-out part)"),
        Option("--file", check=check_rows, metavar="FILE", help="the same as DATA, by its name in predict"),
        Option("--part", choices=("train", "validation", "test"), help="which of the run's own parts"),
        Option("--stride", type=int, metavar="N", help="language models: tokens between windows (default: the "
               "context)"),
        Option("--beam", type=int, metavar="N", help="translators: translations followed at once (default 5)",
               check=lambda beam: Search(beam=beam)),
        Option("--length-penalty", type=float, metavar="X", help="translators: see `translate` (default 1)",
               check=lambda penalty: Search(length_penalty=penalty)),
        flag("--lowercase", "translators: BLEU of lower-cased texts too, as older tables have it"),
        Option("--bleu-tokenizer", choices=BLEU_TOKENIZERS, help="translators: how sacreBLEU splits texts into words "
               "(default: char for scripts without spaces, else 13a)"),
        flag("--errors", "where it is wrong: what it confuses, words and lengths of errors, how sure it is; odd "
             "translations; the tokens that hold the loss"),
        Option("--versus", metavar="RUN2", help="a second run on the same examples: what only one of them gets"),
        Option("--accuracy", type=float, metavar="X", help="with --errors, classifiers: how often answers are to be "
               "right; it tells below which probability a person should look (default 0.95)"),
        Option("--out", metavar="FILE", help="classifiers: draw the confusion matrix (.png, .svg, .pdf); with --errors "
               "all that was found (.html, .json too)"),
        DEVICE,
        PRECISION,
        JSON,
    ],
    groups={"how DATA is read (default: as the run's data was)": [
        Option("--bad-rows", "--data.bad_rows", dest="data.bad_rows", choices=(ERROR, SKIP), default=argparse.SUPPRESS,
               help="skip: ignore any number of rows that cannot be scored (no text, no label); error: fail at the "
               "first one, or at a label not seen in training (default: skip up to a tenth of the rows)"),
        *(Option(*names, dest=names[-1].removeprefix("--"), metavar="NAME", default=argparse.SUPPRESS)
        for names in (
            ("--text", "--data.text"),
            ("--label", "--data.label"),
            ("--source", "--data.source"),
            ("--target", "--data.target"),
            ("--source-file", "--data.source_file"),
            ("--target-file", "--data.target_file"),
            ("--data.too_long",),
            ("--data.encoding",),
        )),
    ]},
)  # fmt: skip
EVALUATE_ARGUMENTS = ("part", "stride", "beam", "length_penalty", "lowercase", "bleu_tokenizer")


def run(argv: list[str]) -> None:
    options = PARSER.read(argv)
    with_errors = options.errors or options.versus is not None
    if options.accuracy is not None and not with_errors:
        raise Misuse("--accuracy goes with --errors: it says how often a classifier's answers should be right")
    if options.precision != "fp32" and with_errors:
        raise Misuse(f"--precision {options.precision} shows what it costs: it does not go with --errors or --versus")
    if options.data is not None and options.file is not None:
        raise Misuse("DATA and --file are the same: give one of them")
    if options.out is not None and options.out.endswith((".html", ".json")) and not with_errors:
        raise Misuse(f"--out {options.out} holds where the run is wrong, which --errors finds: add --errors")
    check_out(options.out, ENDINGS if with_errors else (".png", ".svg", ".pdf"))

    from glassformer.cli.terminal.show import RowProgress
    from glassformer.families.evaluate import evaluate_run
    from glassformer.families.load import load
    from glassformer.families.requests import EvaluateOptions

    reading = {key.split(".")[1]: value for key, value in flatten(settings_of(options)).items()}
    data = options.file if options.data is None else options.data
    request = EvaluateOptions(data=data, reading=reading, **values_of(options, EVALUATE_ARGUMENTS))
    if with_errors:
        _show_errors(options, request)
        return
    lower = None
    if options.precision != "fp32":
        lower = load(options.run, options.device, precision=options.precision)
    with RowProgress():
        evaluation = evaluate_run(options.run, request, options.device, say).evaluation
        if lower is not None:
            evaluation = _beside(evaluation, evaluate_run(lower, request).evaluation, options.precision)
    if options.out is not None:
        _draw(evaluation.details, options.out)
    if options.json:
        print_json({**evaluation.metrics, **evaluation.details})
    else:
        _show_metrics(evaluation)
        say_next(options.run)


def _beside(full: "Evaluation", lower: "Evaluation", precision: str) -> "Evaluation":
    """What a run is worth in a lower precision, with what it is worth in fp32."""
    summary = f"in {precision}: {lower.summary}"
    return replace(lower, summary=summary, details={**lower.details, "fp32": {**full.metrics, "summary": full.summary}})


def _show_errors(options: argparse.Namespace, request: "EvaluateOptions") -> None:
    """The metrics as ever, and where the run is wrong."""
    from glassformer.cli.terminal.show import RowProgress
    from glassformer.cli.terminal.view import show_view
    from glassformer.verbs.evaluate import evaluate_errors

    with RowProgress():
        evaluation, view = evaluate_errors(
            options.run, request, versus=options.versus, accuracy=options.accuracy, device=options.device, say=say
        )
    if options.out is not None:
        view.save(options.out)
    if options.json:
        print_json({**evaluation.metrics, **evaluation.details, "errors": view.to_dict()})
    else:
        _show_metrics(evaluation)
        show_text()
        show_view(view)
    if options.out is not None:
        say(f"written: {options.out}")
    else:
        say("next: the same with --out errors.html, a page with every picture of this")


def _draw(details: dict[str, Any], out: str) -> None:
    from glassformer.rendering.confusion import draw_confusion

    if "confusion" not in details:
        raise Misuse("--out draws the confusion of classes, and this run has none")
    draw_confusion(**details["confusion"], path=Path(out), title=Path(out).stem)
    say(f"confusion matrix: {out}")


def _show_metrics(evaluation: "Evaluation") -> None:
    metrics, details = evaluation.metrics, evaluation.details
    counted = next((name for name in ("tokens", "pairs", "examples", "texts") if name in metrics), "")
    number = metrics[counted] if counted else 0
    show_text(evaluation.summary + (f", over {number:,} {counted if number != 1 else counted[:-1]}" if counted else ""))
    if details.get("skipped"):
        show_text("skipped: " + ", ".join(f"{rows:,} {reason}" for reason, rows in details["skipped"].items()))
    if details.get("unknown_labels"):
        labels = [f"'{name}' ({rows:,})" for name, rows in details["unknown_labels"].items()]
        show_text(f"labels unknown to the model, counted as wrong: {listed(labels, EXAMPLES)}")
    if "fp32" in details:
        show_text(f"in fp32: {details['fp32']['summary']}")
        show_text(f"difference: {_differences(evaluation)}")
    if "bleu_lowercase" in metrics:
        show_text(f"BLEU of lower-cased texts {metrics['bleu_lowercase']:.2f}")
    for name, signature in details.get("signature", {}).items():
        show_text(f"{name}: {signature}")
    if "confusion" in details:
        _show_scores("class", details["per_class"], counted)
        _show_confusion(**details["confusion"], counted=counted)
    if "per_label" in details:
        _show_scores("label", details["per_label"], counted)


def _differences(evaluation: "Evaluation") -> str:
    """What a lower precision changes in each metric, first in the one that weights are chosen by."""
    from glassformer.trials.results.metrics import QUALITY, titled

    metrics, full = evaluation.metrics, evaluation.details["fp32"]
    names = dict.fromkeys([evaluation.primary, *(name for name in QUALITY if name in metrics)])
    return ", ".join(f"{titled(name)} {metrics[name] - full[name]:+.4f}" for name in names)


def _show_scores(what: str, by_name: dict[str, dict[str, float]], counted: str) -> None:
    """Precision, recall and F1 of each class or label. `counted`: what there are so many of."""
    largest = sorted(by_name.items(), key=lambda item: -item[1][counted])[:MOST_ROWS]
    rows = []
    for name, scores in by_name.items() if len(by_name) <= MOST_ROWS else largest:
        cells = [f"{scores[key]:.4f}" if scores[counted] else "–" for key in ("precision", "recall", "f1")]
        rows.append([name, *cells, f"{scores[counted]:,}"])
    show_text()
    show_table([what, "precision", "recall", "F1", counted], rows)
    if len(by_name) > MOST_ROWS:
        many = "classes" if what == "class" else "labels"
        show_text(f"… and {len(by_name) - MOST_ROWS} smaller {many} (--json has them all)")


def _show_confusion(labels: list[str], matrix: list[list[int]], *, counted: str) -> None:
    """What was taken for what; of many classes, whose matrix fits no screen, the most frequent mistakes."""
    show_text()
    if len(labels) <= MOST_COLUMNS:
        rows = [[name, *(f"{count:,}" for count in row)] for name, row in zip(labels, matrix, strict=True)]
        show_table(["true ↓  predicted →", *labels], rows)
        return
    mistakes = [
        (count, labels[true], labels[predicted])
        for true, row in enumerate(matrix)
        for predicted, count in enumerate(row)
        if count and true != predicted
    ]
    frequent = sorted(mistakes, reverse=True)[:MOST_COLUMNS]
    rows = [[true, predicted, f"{count:,}"] for count, true, predicted in frequent]
    show_table(["most frequent mistakes: true", "predicted", counted], rows, left=(0, 1))
