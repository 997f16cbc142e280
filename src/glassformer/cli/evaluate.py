"""glassformer evaluate"""

import argparse
from pathlib import Path
from typing import Any

from glassformer.cli.inputs import check_out
from glassformer.cli.options import Parser, settings_of
from glassformer.config.errors import Misuse
from glassformer.config.resolve import flatten

EXAMPLE = "glassformer evaluate last test.csv --out confusion.png"
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
    made.add_argument("--out", metavar="FILE", help="classifiers: draw the confusion matrix (.png, .svg, .pdf)")
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
    check_out(options.out, (".png", ".svg", ".pdf"))

    from glassformer.cli.show import print_json, results, say, say_next
    from glassformer.verbs.evaluate import evaluate

    evaluation = evaluate(
        options.run,
        options.data,
        part=options.part,
        stride=options.stride,
        beam=options.beam,
        length_penalty=options.length_penalty,
        lowercase=options.lowercase,
        device=options.device,
        reading=reading,
        say=say,
    )
    metrics, details = evaluation.metrics, evaluation.details
    if options.out is not None:
        _draw(details, options.out, say)
    if options.json:
        print_json({**metrics, **details})
        return 0
    counted = next(name for name in ("tokens", "pairs", "examples", "texts") if name in metrics)
    results.print(f"{evaluation.words}, over {metrics[counted]:,} {counted}")
    if "bleu_lowercase" in metrics:
        results.print(f"BLEU of lower-cased texts {metrics['bleu_lowercase']:.2f}")
    for name, signature in details.get("signature", {}).items():
        results.print(f"{name}: {signature}")
    if "confusion" in details:
        _show_classes(details, counted)
    say_next(options.run)
    return 0


def _draw(details: dict[str, Any], out: str, say: Any) -> None:
    from glassformer.inside.confusion import draw_confusion

    if "confusion" not in details:
        raise Misuse("--out draws the confusion of classes, and this run has none")
    draw_confusion(**details["confusion"], path=Path(out), title=Path(out).stem)
    say(f"confusion matrix: {out}")


def _show_classes(details: dict[str, Any], counted: str) -> None:
    """Scores by class, and what was taken for what. `counted`: what there are so many of."""
    from rich.text import Text

    from glassformer.cli.show import results, table

    labels, matrix = details["confusion"]["labels"], details["confusion"]["matrix"]
    scores = table("class", "precision", "recall", "F1", counted)
    largest = sorted(details["per_class"].items(), key=lambda item: -item[1][counted])[:MOST_ROWS]
    for name, row in details["per_class"].items() if len(labels) <= MOST_ROWS else largest:
        shown = [f"{row[key]:.4f}" if row[counted] else "–" for key in ("precision", "recall", "f1")]
        scores.add_row(Text(name), *shown, f"{row[counted]:,}")
    results.print()
    results.print(scores)
    if len(labels) > MOST_ROWS:
        results.print(f"… and {len(labels) - MOST_ROWS} smaller classes (--json has them all)")
    if len(labels) > MOST_COLUMNS:
        _show_mistakes(labels, matrix, counted)
        return
    confusion = table("true ↓  predicted →", *labels)
    for name, row in zip(labels, matrix, strict=True):
        confusion.add_row(Text(name), *(f"{count:,}" for count in row))
    results.print()
    results.print(confusion)


def _show_mistakes(labels: list[str], matrix: list[list[int]], counted: str) -> None:
    """The most frequent ones: a matrix of many classes fits no screen."""
    from rich.text import Text

    from glassformer.cli.show import results, table

    counts = [(matrix[i][j], labels[i], labels[j]) for i in range(len(labels)) for j in range(len(labels)) if i != j]
    mistakes = table("most frequent mistakes: true", "predicted", counted)
    mistakes.columns[1].justify = "left"
    for count, true, predicted in sorted(counts, reverse=True)[:MOST_COLUMNS]:
        if count:
            mistakes.add_row(Text(true), Text(predicted), f"{count:,}")
    results.print()
    results.print(mistakes)
