"""The command `glassformer evaluate`."""

import argparse
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from glassformer.cli.options import Parser, arguments_of, settings_of
from glassformer.cli.terminal.inputs import check_out, check_rows
from glassformer.cli.terminal.show import RowProgress, print_json, say, say_next, show_table, show_text
from glassformer.config.errors import Misuse
from glassformer.config.messages import listening, silent
from glassformer.config.resolve import flatten
from glassformer.config.views import ENDINGS
from glassformer.data.wording import EXAMPLES, listed
from glassformer.decoding.options import Search

if TYPE_CHECKING:
    from glassformer.families.requests import EvaluateOptions
    from glassformer.tasks.base import Evaluation

MOST_ROWS, MOST_COLUMNS = 40, 12
"""Maximum numbers of rows and columns of a table in the terminal."""

SEARCH_CHECKS = {"beam": lambda beam: Search(beam=beam), "length_penalty": lambda value: Search(length_penalty=value)}
PARSER = Parser("evaluate", checks={"file": check_rows, **SEARCH_CHECKS})


def run(argv: list[str]) -> None:
    options = PARSER.read(argv)
    with_errors = options.errors or options.second_run is not None
    if options.accuracy is not None and not with_errors:
        raise Misuse("--accuracy goes with --errors: it says how often a classifier's answers should be right")
    if options.precision != "fp32" and with_errors:
        raise Misuse(
            f"--precision {options.precision} shows what it costs: it does not go with --errors or --second-run"
        )
    if options.data is not None and options.file is not None:
        raise Misuse("DATA and --file are the same: give one of them")
    if options.out is not None and options.out.endswith((".html", ".json")) and not with_errors:
        raise Misuse(f"--out {options.out} holds where the run is wrong, which --errors finds: add --errors")
    check_out(options.out, ENDINGS if with_errors else (".png", ".svg", ".pdf"))

    from glassformer.families.evaluate import evaluate_run
    from glassformer.families.load import load
    from glassformer.families.requests import EvaluateOptions

    reading = {key.split(".")[1]: value for key, value in flatten(settings_of(options)).items()}
    data = options.file if options.data is None else options.data
    request = EvaluateOptions(data=data, reading=reading, **arguments_of(options, EvaluateOptions, "data"))
    if with_errors:
        _show_errors(options, request)
        return
    is_lower = options.precision != "fp32"
    lower = load(options.run, options.device, precision=options.precision, say=silent) if is_lower else None
    with RowProgress():
        evaluation = evaluate_run(options.run, request, options.device).evaluation
        if lower is not None:
            with listening(silent):
                evaluation = _beside(evaluation, evaluate_run(lower, request).evaluation, options.precision)
    if options.out is not None:
        _draw(evaluation.details, options.out)
    if options.json:
        print_json({**evaluation.metrics, **evaluation.details})
    else:
        _show_metrics(evaluation)
        say_next(options.run)


def _beside(full: "Evaluation", lower: "Evaluation", precision: str) -> "Evaluation":
    """Return the evaluation in a lower precision, with the metrics of fp32 in its details."""
    summary = f"in {precision}: {lower.summary}"
    return replace(lower, summary=summary, details={**lower.details, "fp32": {**full.metrics, "summary": full.summary}})


def _show_errors(options: argparse.Namespace, request: "EvaluateOptions") -> None:
    """Print the metrics and the error analysis."""
    from glassformer.cli.terminal.view import show_view
    from glassformer.verbs.evaluate import evaluate_errors

    with RowProgress():
        evaluation, view = evaluate_errors(**arguments_of(options, evaluate_errors), options=request)
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
        _show_confusion(**details["confusion"])
    if "per_label" in details:
        _show_scores("label", details["per_label"], counted)


def _differences(evaluation: "Evaluation") -> str:
    """Return how a lower precision changes each metric, with the primary metric first."""
    from glassformer.trials.results.metrics import QUALITY, titled

    metrics, full = evaluation.metrics, evaluation.details["fp32"]
    names = dict.fromkeys([evaluation.primary, *(name for name in QUALITY if name in metrics)])
    return ", ".join(f"{titled(name)} {metrics[name] - full[name]:+.4f}" for name in names)


def _show_scores(what: str, by_name: dict[str, dict[str, float]], counted: str) -> None:
    """Print precision, recall and F1 of each class or label. `counted`: name of the metric that counts examples."""
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


def _show_confusion(labels: list[str], matrix: list[list[int]]) -> None:
    """Print the confusion matrix, unless it has too many classes for a terminal."""
    show_text()
    if len(labels) > MOST_COLUMNS:
        show_text(f"the confusion of {len(labels)} classes: --out draws it, --json has it as numbers")
        return
    rows = [[name, *(f"{count:,}" for count in row)] for name, row in zip(labels, matrix, strict=True)]
    show_table(["true ↓  predicted →", *labels], rows)
