"""Files of a run's folder besides weights and log: the first files, and the curves, README.md and report for people."""

import os
import shlex
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup
from torch import nn

from glassformer.config.errors import error_line, is_strict
from glassformer.config.messages import say
from glassformer.config.presets import TEXT
from glassformer.config.resolve import Config
from glassformer.families.base import FAMILIES, Prepared
from glassformer.families.card import BEFORE, forgetting_line, label_names, nothing_held_out, size_in_words
from glassformer.rendering.confusion import draw_confusion
from glassformer.rendering.curves import draw_curves
from glassformer.reporting.reference_losses import reference_losses
from glassformer.reporting.report import report_of
from glassformer.runs import history
from glassformer.runs.checkpoints import prune_checkpoints
from glassformer.runs.files import write_text
from glassformer.runs.run import Run
from glassformer.tasks.base import Evaluation
from glassformer.text.escaping import markdown, on_one_line, printable
from glassformer.training.checkpointer import Snapshot

CURVES, README, REPORT = PAPERS = ("curves.png", "README.md", "report.html")
"""Files for people in every finished run."""
TOKEN_KINDS = {"char": "characters", "word": "words", "bpe": "byte pairs", "other": "tokens made elsewhere"}


def first_files(run: Run, card: dict[str, Any], prepared: Prepared) -> None:
    """Write the first files of a new run."""
    run.write_card(card)
    for name, tokenizer in (("tokenizer", prepared.tokenizer), ("target_tokenizer", prepared.target_tokenizer)):
        if tokenizer is not None:
            write_text(run.path / f"{name}.json", tokenizer.to_json())
    run.rewind_metrics(0)


def rewind(run: Run, card: dict[str, Any], snapshot: Snapshot | None, total: int | None, *, keep: int) -> None:
    """Rewind the log, checkpoints and moments of a run to the snapshot from which it resumes; None: to its start.

    The card is written first, so that a run that had finished no longer counts as finished. `total`: planned number of
    updates, if known. `keep`: number of checkpoints to keep.
    """
    run.write_card(card)
    step = snapshot.progress.step if snapshot else 0
    run.rewind_metrics(step)
    prune_checkpoints(run.checkpoints_path, step, keep)
    history.rewind(run, step, total=total)


def leave_papers(
    run: Run,
    card: dict[str, Any],
    config: Config,
    prepared: Prepared,
    model: nn.Module,
    evaluations: Mapping[str, Evaluation],
) -> None:
    """Write the files for people at the end of a training run: curves, confusion matrix, README.md and report.

    `card`: the card as it will be written. `evaluations`: by name of the evaluated part.
    """
    validation, test = evaluations.get("validation"), evaluations.get("test")
    score = "" if validation is None else validation.summary
    reads = "" if prepared.features is None or config.data.kind == TEXT else prepared.features.words
    curves, task = run.path / CURVES, prepared.task
    how: dict[str, Any] = {"unit": task.unit, "smoothing": task.smoothing, "levels": reference_losses(prepared)}
    draw_curves(run.read_metrics(), curves, title=run.path.name, **how)
    last = test or validation
    if last is not None and "confusion" in last.details:
        draw_confusion(**last.details["confusion"], path=run.path / "confusion.png", title=run.path.name)
    write_text(run.path / README, model_card(run.path, config, card, score, reads))
    leave_report(run, card, config, prepared, model, evaluations)


def leave_report(
    run: Run,
    card: dict[str, Any],
    config: Config,
    prepared: Prepared,
    model: nn.Module,
    evaluations: Mapping[str, Evaluation],
) -> None:
    """Write `report.html` into the run's folder. An error is printed and does not fail the finished training run."""
    try:
        view = report_of(run, config, prepared, model, evaluations, card=card)
        write_text(run.path / REPORT, view.page())
    except Exception as error:
        if is_strict():
            raise
        say(f"no {REPORT}, though the run itself is whole: {error_line(error)}")


# --- the README.md of a run ---


def model_card(run: Path, config: Config, card: dict[str, Any], score: str, reads: str) -> str:
    """Return the README.md of a run.

    `score`: its validation scores as text. `reads`: description of its inputs; empty if these are texts.
    """
    return _render(
        "README.md.jinja",
        run,
        config,
        card,
        score=score,
        reads=reads,
        parts=_parts(config),
        size=size_in_words(card),
        before=BEFORE,
        token_kinds=TOKEN_KINDS,
        nothing_held_out=nothing_held_out(card),
        forgetting_line=forgetting_line,
        has_weights=Run(run).weights_path.is_file(),
    )


def imported_card(run: Path, config: Config, card: dict[str, Any], files: Path) -> str:
    """Return the README.md of an imported model. `files`: the temporary folder of the run."""
    command = FAMILIES[config.task].command(files, config)
    here, there = (shlex.quote(str(path)) for path in (files, run))
    return _render("IMPORTED.md.jinja", run, config, card, command=command.replace(here, there))


def _render(template: str, run: Path, config: Config, card: dict[str, Any], **more: Any) -> str:
    environment = jinja2.Environment(
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
        autoescape=True,  # the results of macros are not escaped again
        finalize=lambda value: value if isinstance(value, Markup) else Markup(markdown(str(value))),
    )
    environment.filters |= {
        "basename": os.path.basename,
        "command": lambda line: Markup(on_one_line(printable(line))),
        "quote": lambda path: shlex.quote(str(path)),
    }
    text = files("glassformer.reporting").joinpath(template).read_text("utf-8")
    title, names = label_names(card) or ("", None)
    return environment.from_string(text).render(
        run=run, config=config, card=card, family=FAMILIES[config.task], label_title=title, label_names=names, **more
    )


def _parts(config: Config) -> str:
    """Return the encoder with its settings of size and composition."""
    name = FAMILIES[config.task].model_name(config)
    if name != config.model.encoder:  # the family itself names the parts of its model
        return name
    shown = ("style", "layers", "heads", "width", "decoder", "attention", "weighting", "ngrams", "pool", "context")
    used = [name for name in shown if not config.idle(f"model.{name}")]
    named = [f"{name} {value}" for name in used if (value := config.get(f"model.{name}")) is not None]
    return f"{config.model.encoder}: {', '.join(named)}" if named else config.model.encoder
