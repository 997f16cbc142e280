"""What a training puts into its run's folder beside weights and log: the first files, and papers for a person."""

from collections.abc import Mapping
from typing import Any

from torch import nn

from glassformer.config.errors import Say
from glassformer.config.presets import TEXT
from glassformer.config.resolve import Config
from glassformer.families.base import Prepared
from glassformer.rendering.confusion import draw_confusion
from glassformer.rendering.curves import draw_curves
from glassformer.reporting.readme import model_card
from glassformer.reporting.report import leave_report
from glassformer.runs import history
from glassformer.runs.files import write_text
from glassformer.runs.run import Run
from glassformer.tasks.base import Evaluation
from glassformer.training.snapshot import Snapshot


def first_files(
    run: Run, card: dict[str, Any], prepared: Prepared, snapshot: Snapshot | None, total: int | None
) -> None:
    """The folder as it stands before the next step: a new run's first files, or a run's log and moments up to its
    checkpoint, on the way to `total` updates.

    The card comes first: it makes the folder a run, which can be replaced.
    """
    run.write_card(card)
    if snapshot is None and prepared.tokenizer is not None:
        write_text(run.path / "tokenizer.json", prepared.tokenizer.to_json())
        if prepared.target_tokenizer is not None:
            write_text(run.path / "target_tokenizer.json", prepared.target_tokenizer.to_json())
    step = snapshot.progress.step if snapshot else 0
    run.rewind_metrics(step)
    history.rewind(run, step, total=total)


def leave_papers(
    run: Run,
    config: Config,
    prepared: Prepared,
    model: nn.Module,
    evaluations: Mapping[str, Evaluation],
    machine: dict[str, str],
    say: Say,
) -> None:
    """At the end: curves, the card to read, the report. `evaluations`: of the parts that were looked at, by name."""
    validation, test = evaluations.get("validation"), evaluations.get("test")
    words = "" if validation is None else validation.summary
    reads = "" if prepared.features is None or config.data.kind == TEXT else prepared.features.words
    _draw(run, prepared, test or validation)
    write_text(run.path / "README.md", model_card(run.path, config, run.card(), words, reads))
    leave_report(run, config, prepared, model, evaluations, machine=machine, say=say)


def _draw(run: Run, prepared: Prepared, evaluation: Evaluation | None) -> None:
    """How the training went, and of a classifier, what it takes for what."""
    task = prepared.task
    draw_curves(
        run.read_metrics(),
        run.path / "curves.png",
        title=run.path.name,
        unit=task.unit,
        smoothing=task.smoothing,
    )
    if evaluation is not None and "confusion" in evaluation.details:
        draw_confusion(**evaluation.details["confusion"], path=run.path / "confusion.png", title=run.path.name)
