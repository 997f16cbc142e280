"""The report that every training leaves: one page on what was trained on what, how it went, and where it is wrong."""

import datetime
import math
import os
from collections.abc import Iterator, Mapping
from functools import singledispatch
from pathlib import Path
from typing import Any

import torch
from torch import nn

from glassformer.config.encoders import OWN
from glassformer.config.errors import error_line
from glassformer.config.resolve import Config
from glassformer.config.say import Say, silent
from glassformer.diagnosis.findings import logged_panel
from glassformer.error_analysis.analysis import brief_errors
from glassformer.families.base import FAMILIES, AnyRun, Family, Loaded, OwnModel, Prepared
from glassformer.families.card import BEFORE, label_names, learned_of, size_in_words
from glassformer.families.examples import held_out_examples
from glassformer.families.language import StreamFamily
from glassformer.families.load import load
from glassformer.families.prepare import prepare_again
from glassformer.inspection.attention import sizes_of
from glassformer.inspection.views.attention import attention_panels
from glassformer.inspection.views.registry import register_view
from glassformer.inspection.views.request import LookRequest
from glassformer.rendering.confusion import confusion
from glassformer.rendering.curves import curves
from glassformer.rendering.panels import Panel, Rows, Table, Words
from glassformer.rendering.view import View
from glassformer.reporting.sections import by_class, command_of, samples, scores
from glassformer.runs.files import write_text
from glassformer.runs.run import Run
from glassformer.tasks.base import Evaluation
from glassformer.text.display import cut

REPORT = "report.html"
EXAMPLES = 3
"""Whose attention is shown."""
SHOWN_TOKENS = 48
"""Of such an example, if they have names to read; an image's patches may be more."""
MOST_WEIGHTS = 2**19
"""Of all these examples together: what goes into a page of 2 MB beside the rest."""
STRICT = "GLASSFORMER_STRICT"
"""If this is set in the environment, a report that cannot be made is an error."""

MODEL = ("style", "layers", "heads", "width", "decoder", "attention", "positions", "norm", "weighting", "ngrams",
         "pool", "context", "dropout")  # fmt: skip
TRAINING = ("optimizer", "lr", "schedule", "batch_size", "batch_tokens", "label_smoothing", "average", "loss", "seed")
"""The settings that a reader asks for first."""
NAMES = {"lr": "learning rate", "optimizer": "optimiser"}
ENDED = {"interrupted": "was interrupted", "failed": "failed"}


def report(
    run: AnyRun,
    *,
    model: OwnModel | None = None,
    device: str = "auto",
    say: Say = silent,
) -> View:
    """The report of a run, made anew from its data; `model`: a person's own, which a run does not hold."""
    known = None
    if isinstance(run, Loaded):
        known, run = run, run.run
    elif not isinstance(run, Run):
        run = Run.open(run)
    card, config = run.card(), run.config()
    prepared = prepare_again(run)
    parts: list[str] = [name for name in ("validation", "test") if name in card]
    if not parts:
        return report_of(run, config, prepared, None, {})
    loaded = known or load(run, device, model=model)
    say(f"evaluating {' and '.join(parts)} again")
    with torch.inference_mode():
        evaluations = {name: prepared.task.evaluate(loaded.model, name) for name in parts}
    return report_of(run, config, prepared, loaded.model, evaluations)


@register_view("report", texts="none", needs=lambda loaded: "imported" not in loaded.run.card())
def report_view(request: LookRequest) -> View:
    return report(request.loaded, say=request.say)


def leave_report(
    run: Run,
    config: Config,
    prepared: Prepared,
    model: nn.Module,
    evaluations: Mapping[str, Evaluation],
    *,
    machine: Mapping[str, str],
    say: Say,
) -> None:
    """`report.html` in the run's folder. A training that is done does not fail for its sake: what is wrong is said."""
    try:
        view = report_of(run, config, prepared, model, evaluations, machine=machine)
        write_text(run.path / REPORT, view.page())
    except Exception as error:
        if os.environ.get(STRICT):
            raise
        say(f"no {REPORT}, though the run itself is whole: {error_line(error)}")


def report_of(
    run: Run,
    config: Config,
    prepared: Prepared,
    model: nn.Module | None,
    evaluations: Mapping[str, Evaluation],
    *,
    machine: Mapping[str, str] | None = None,
) -> View:
    """`evaluations`: by part; with none of them, the report says that there was none."""
    card, metrics, task = run.card(), run.read_metrics(), prepared.task
    panels: list[Panel] = [
        _trained(card, config),
        _data(card, prepared, config),
        *curves(metrics, unit=task.unit, smoothing=task.smoothing),
        *_before_refit(card),
    ]
    if model is not None and evaluations:
        part = "test" if "test" in evaluations else "validation"
        panels += _quality(evaluations)
        panels += brief_errors(FAMILIES[config.task], prepared, model, part, evaluations)
    elif "before_refit" not in card:
        panels.append(_not_evaluated(run, card))
    panels.append(logged_panel(metrics))
    panels += samples(metrics)
    if model is not None and evaluations:
        panels += held_out_attention(run, config, prepared, model)
    panels += [_environment(card, machine or {}), *_again(card, config)]
    words = "; ".join(f"{name}: {evaluation.summary}" for name, evaluation in evaluations.items())
    what = f"{config.model.encoder}, {size_in_words(card)}, on {card['data']['name']}"
    before = f"{BEFORE}: {card['before_refit']['words']}" if "before_refit" in card else ""
    return View(run.path.name, panels, f"{what}. {'; '.join(filter(None, (before, words))) or _status(card)}.")


# --- what was trained on what ---


def _trained(card: Mapping[str, Any], config: Config) -> Table:
    chosen = [("model", name) for name in MODEL] + [("training", name) for name in TRAINING]
    settings: Rows = [
        [NAMES.get(name, name.replace("_", " ")), _said(value)]
        for section, name in chosen
        if config.idle(f"{section}.{name}") is None and (value := config.get(f"{section}.{name}")) is not None
    ]
    rows: Rows = [
        ["task", config.task],
        ["model", config.model.encoder],
        ["parameters", f"{card['parameters']:,}"],
        *settings,
        ["updates", f"{card.get('steps', 0):,}"],
        ["seconds in updates", f"{card.get('seconds', 0.0):.1f}"],
        ["status", card["status"]],
    ]
    if card["tokenizer"] is not None:
        tokens = card["tokenizer"]
        rows.insert(3, ["tokens", f"{tokens['kind']}, vocabulary of {tokens['vocab_size']:,}"])
    if (source := card.get("from")) is not None:
        rows.insert(3, ["began from", f"{Path(source['run']).name} ({source['task']})"])
    if (labels := label_names(card)) is not None:
        rows.insert(3, [labels[0], cut(", ".join(labels[1]))])
    if (learned := learned_of(card)) < card["parameters"]:
        rows.insert(3, ["learned", f"{learned:,} of these"])
    return Table(title="What was trained", columns=["setting", "value"], rows=rows)


def _said(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)


def _data(card: Mapping[str, Any], prepared: Prepared, config: Config) -> Table:
    """The parts with their sizes."""
    noun, sizes = part_sizes(FAMILIES[config.task], prepared)
    rows: Rows = [[name, size, prepared.tokens[name]] for name, size in sizes.items()]
    data = card["data"]
    held = "validation and test" if prepared.task.validates else "the test"
    chooses = "; validation chooses which weights are kept" if config.training.keep == "best" else ""
    return Table(
        title=f"Data: {data['name']}",
        columns=["part", noun, "tokens"],
        rows=rows,
        note=f"{data['report']}. No weights are learned from {held}{chooses}.",
    )


@singledispatch
def part_sizes(family: Family, prepared: Prepared) -> tuple[str, dict[str, int]]:
    """What the parts of the data hold, and how much of it each."""
    noun = getattr(prepared.task, "noun", family.noun)  # of labelled data: texts, images, rows
    return f"{noun}s", {name: len(part) for name, part in prepared.corpus.parts.items()}


@part_sizes.register
def _(family: StreamFamily, prepared: Prepared) -> tuple[str, dict[str, int]]:
    return "documents", {name: part.documents for name, part in prepared.corpus.parts.items()}


# --- how good it is ---


def _status(card: Mapping[str, Any]) -> str:
    steps = card.get("steps")
    after = "" if steps is None else f" after {steps:,} updates"
    return f"The training {ENDED.get(card['status'], 'is not finished')}{after}"


def _not_evaluated(run: Run, card: Mapping[str, Any]) -> Words:
    said = f"{_status(card)}: there is no evaluation yet. Go on with: glassformer train --resume --out {run.path}"
    return Words(title="Not evaluated", text=said)


def _before_refit(card: Mapping[str, Any]) -> list[Panel]:
    """Of a run that has learned from all rows: what held-out rows said before."""
    if (before := card.get("before_refit")) is None:
        return []
    said = f"{before['words']}. These are the scores of {', '.join(before['runs'])}, in this run's folder"
    note = "This run has learned from the validation part too: it has no score on it that would mean anything."
    return [
        Words(title=BEFORE.capitalize(), text=f"{said}; it then told how many updates to make on all rows.", note=note)
    ]


def _quality(evaluations: Mapping[str, Evaluation]) -> Iterator[Panel]:
    last = list(evaluations.values())[-1]
    note = ". ".join(f"{name}: {evaluation.summary}" for name, evaluation in evaluations.items())
    signatures = [f"{name}: {text}" for name, text in last.details.get("signature", {}).items()]
    yield scores({name: evaluation.metrics for name, evaluation in evaluations.items()}, "; ".join([note, *signatures]))
    if "per_class" in last.details:
        yield by_class(last.details["per_class"])
    if "per_label" in last.details:
        yield by_class(last.details["per_label"], "label")
    if "confusion" in last.details:
        yield confusion(**last.details["confusion"])


# --- examples held out ---


def held_out_attention(run: Run, config: Config, prepared: Prepared, model: nn.Module) -> Iterator[Panel]:
    """The heads on a few examples of the validation part that are short enough to be seen."""
    heads = sum(layers * heads for layers, heads in sizes_of(model).values())
    if not heads:
        return
    room = math.isqrt(MOST_WEIGHTS // (EXAMPLES * heads))
    loaded = FAMILIES[config.task].loaded(model, prepared, run, config)
    longest = min(SHOWN_TOKENS, room)
    examples = held_out_examples(loaded, prepared, count=EXAMPLES, max_tokens=longest, max_patches=room)
    for number, example in enumerate(examples, 1):
        yield from attention_panels(model, example, f"Example {number}: ")


# --- how to do it again ---


def _environment(card: Mapping[str, Any], machine: Mapping[str, str]) -> Table:
    now = datetime.datetime.now().astimezone().isoformat(sep=" ", timespec="minutes")
    rows = [["glassformer", card["glassformer"]], *map(list, card["environment"].items()), *map(list, machine.items())]
    return Table(title="Where it was trained", columns=["what", "value"], rows=[*rows, ["report written", now]])


def _again(card: Mapping[str, Any], config: Config) -> list[Panel]:
    same = "data, run to begin from, versions" if "from" in card else "data, versions"
    note = f"With the same {same} and number of threads, a CPU gives the same numbers to the last digit."
    if card.get("command"):
        return [Words(title="Train it again", text=card["command"], code=True, note=note)]
    if config.model.encoder == OWN:
        note = f"A model of one's own is given from Python. {note}"
    return [Words(title="Train it again", text=command_of(config), code=True, note=note)]
