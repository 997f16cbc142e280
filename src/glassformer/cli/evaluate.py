"""glassformer evaluate"""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from glassformer.cli.options import Parser, settings_of
from glassformer.cli.terminal.inputs import check_out
from glassformer.config.errors import Misuse
from glassformer.config.resolve import flatten
from glassformer.config.views import ENDINGS

if TYPE_CHECKING:
    from glassformer.families.requests import EvaluateOptions
    from glassformer.tasks.base import Evaluation

EXAMPLE = "glassformer evaluate last test.csv --errors --out errors.html"
MOST_ROWS, MOST_COLUMNS = 40, 12
"""Classes that a table on the screen can hold."""


def parser() -> Parser:
    made = Parser(
        "evaluate",
        "RUN [DATA]",
        "How good a run is, over data of your choice or over the part that it held out: loss, perplexity and bits per "
        "byte; accuracy, F1 by class and confusion; RMSE, MAE and R²; BLEU, chrF and exact match.",
        EXAMPLE,
    )
    made.add_argument("run", metavar="RUN", help="a run's folder, or `last`")
    made.add_argument("data", nargs="?", metavar="DATA", help="what to evaluate on (default: the run's held-out part)")
    made.add_argument("--part", choices=("train", "validation", "test"), help="which of the run's own parts")
    made.add_argument("--stride", type=int, metavar="N", help="language models: tokens between windows (default: the "
                      "context)")  # fmt: skip
    made.add_argument("--beam", type=int, metavar="N", help="translators: translations followed at once (default 5)")
    made.add_argument("--length-penalty", type=float, metavar="X", help="translators: see `translate` (default 1)")
    made.add_argument("--lowercase", action="store_true", help="translators: BLEU of lower-cased texts too, as older "
                      "tables have it")  # fmt: skip
    made.add_argument("--errors", action="store_true", help="where it is wrong: what it confuses, words and lengths of "
                      "errors, how sure it is; odd translations; the tokens that hold the loss")  # fmt: skip
    made.add_argument("--versus", metavar="RUN2", help="a second run on the same examples: what only one of them gets")
    made.add_argument("--accuracy", type=float, metavar="X", help="with --errors, classifiers: how often answers are "
                      "to be right; it tells below which probability a person should look (default 0.95)")  # fmt: skip
    made.add_argument("--out", metavar="FILE", help="classifiers: draw the confusion matrix (.png, .svg, .pdf); with "
                      "--errors all that was found (.html, .json too)")  # fmt: skip
    made.add_argument("--device", default="auto", metavar="NAME", help="auto, cpu, cuda, cuda:1, mps")
    made.add_argument("--json", action="store_true", help="print the result as one JSON object")
    group = made.add_argument_group("how DATA is read (default: as the run's data was)")
    for name in ("text", "label", "source", "target", "source_file", "target_file", "too_long", "encoding"):
        short = [] if name in ("too_long", "encoding") else [f"--{name.replace('_', '-')}"]
        group.add_argument(*short, f"--data.{name}", dest=f"data.{name}", metavar="NAME", default=argparse.SUPPRESS)
    return made


def run(words: list[str]) -> int:
    options = parser().read(words)
    reading = {key.split(".")[1]: value for key, value in flatten(settings_of(options)).items()}
    looked_for = options.errors or options.versus is not None
    if options.accuracy is not None and not looked_for:
        raise Misuse("--accuracy goes with --errors: it says how often a classifier's answers should be right")
    check_out(options.out, ENDINGS if looked_for else (".png", ".svg", ".pdf"))

    from glassformer.cli.terminal.show import print_json, say, say_next
    from glassformer.families.evaluate import evaluate_run
    from glassformer.families.requests import EvaluateOptions

    asked = EvaluateOptions(
        data=options.data,
        part=options.part,
        stride=options.stride,
        beam=options.beam,
        length_penalty=options.length_penalty,
        lowercase=options.lowercase,
        reading=reading,
    )
    if looked_for:
        return _errors(options, asked)
    evaluation = evaluate_run(options.run, asked, options.device, say).evaluation
    if options.out is not None:
        _draw(evaluation.details, options.out, say)
    if options.json:
        print_json({**evaluation.metrics, **evaluation.details})
        return 0
    _show_metrics(evaluation)
    say_next(options.run)
    return 0


def _errors(options: argparse.Namespace, asked: "EvaluateOptions") -> int:
    """The metrics as ever, and where the run is wrong."""
    from glassformer.cli.terminal.show import print_json, results, say
    from glassformer.cli.terminal.view import show_view
    from glassformer.error_analysis.analysis import check_request, comparison_view, error_view
    from glassformer.families.evaluate import evaluate_run

    check_request(options.run, options.versus, options.accuracy)
    evaluated = evaluate_run(options.run, asked, options.device, say)
    if options.versus is None:
        view = error_view(evaluated, options.accuracy, say)
    else:
        view = comparison_view(evaluated, options.versus, asked, options.device, say)
    if options.out is not None:
        view.save(options.out)
    if options.json:
        print_json({**evaluated.evaluation.metrics, **evaluated.evaluation.details, "errors": view.to_dict()})
    else:
        _show_metrics(evaluated.evaluation)
        results.print()
        show_view(view)
    if options.out is not None:
        say(f"written: {options.out}")
    else:
        say("next: the same with --out errors.html, a page with every picture of this")
    return 0


def _show_metrics(evaluation: "Evaluation") -> None:
    from glassformer.cli.terminal.show import results

    metrics, details = evaluation.metrics, evaluation.details
    counted = next(name for name in ("tokens", "pairs", "examples", "texts") if name in metrics)
    results.print(f"{evaluation.summary}, over {metrics[counted]:,} {counted}")
    if "bleu_lowercase" in metrics:
        results.print(f"BLEU of lower-cased texts {metrics['bleu_lowercase']:.2f}")
    for name, signature in details.get("signature", {}).items():
        results.print(f"{name}: {signature}")
    if "confusion" in details:
        _show_classes(details, counted)
    if "per_label" in details:
        _show_scores("label", details["per_label"], counted)


def _draw(details: dict[str, Any], out: str, say: Any) -> None:
    from glassformer.rendering.confusion import draw_confusion

    if "confusion" not in details:
        raise Misuse("--out draws the confusion of classes, and this run has none")
    draw_confusion(**details["confusion"], path=Path(out), title=Path(out).stem)
    say(f"confusion matrix: {out}")


def _show_classes(details: dict[str, Any], counted: str) -> None:
    """Scores by class, and what was taken for what. `counted`: what there are so many of."""
    from rich.text import Text

    from glassformer.cli.terminal.show import results, table

    labels, matrix = details["confusion"]["labels"], details["confusion"]["matrix"]
    _show_scores("class", details["per_class"], counted)
    if len(labels) > MOST_COLUMNS:
        _show_mistakes(labels, matrix, counted)
        return
    confusion = table("true ↓  predicted →", *labels)
    for name, row in zip(labels, matrix, strict=True):
        confusion.add_row(Text(name), *(f"{count:,}" for count in row))
    results.print()
    results.print(confusion)


def _show_scores(what: str, by_name: dict[str, dict[str, float]], counted: str) -> None:
    """Precision, recall and F1 of each class or label."""
    from rich.text import Text

    from glassformer.cli.terminal.show import results, table

    scores = table(what, "precision", "recall", "F1", counted)
    largest = sorted(by_name.items(), key=lambda item: -item[1][counted])[:MOST_ROWS]
    for name, row in by_name.items() if len(by_name) <= MOST_ROWS else largest:
        shown = [f"{row[key]:.4f}" if row[counted] else "–" for key in ("precision", "recall", "f1")]
        scores.add_row(Text(name), *shown, f"{row[counted]:,}")
    results.print()
    results.print(scores)
    if len(by_name) > MOST_ROWS:
        many = "classes" if what == "class" else "labels"
        results.print(f"… and {len(by_name) - MOST_ROWS} smaller {many} (--json has them all)")


def _show_mistakes(labels: list[str], matrix: list[list[int]], counted: str) -> None:
    """The most frequent ones: a matrix of many classes fits no screen."""
    from rich.text import Text

    from glassformer.cli.terminal.show import results, table

    counts = [(matrix[i][j], labels[i], labels[j]) for i in range(len(labels)) for j in range(len(labels)) if i != j]
    mistakes = table("most frequent mistakes: true", "predicted", counted)
    mistakes.columns[1].justify = "left"
    for count, true, predicted in sorted(counts, reverse=True)[:MOST_COLUMNS]:
        if count:
            mistakes.add_row(Text(true), Text(predicted), f"{count:,}")
    results.print()
    results.print(mistakes)
