"""The report of a training run: one page on its settings and data, its course, and its errors."""

import datetime
import math
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial, singledispatch
from pathlib import Path
from typing import Any

import torch
from torch import nn

from glassformer.config.encoders import OWN
from glassformer.config.messages import Say, say, takes_listener
from glassformer.config.plugins import parts_of
from glassformer.config.presets import TEXT, labels_examples
from glassformer.config.resolve import BUDGETS, Config, flatten, resolve
from glassformer.config.sentences import sentence as read_sentence
from glassformer.config.setting import value_text
from glassformer.config.units import metric_name
from glassformer.data.wording import counted
from glassformer.diagnosis.doctor import logged_panel
from glassformer.error_analysis.analysis import brief_errors
from glassformer.error_analysis.finding import ReportedPart
from glassformer.families.base import FAMILIES, AnyRun, Family, Loaded, OwnModel, Prepared
from glassformer.families.build import prepare_again
from glassformer.families.card import BEFORE, forgetting_line, label_names, learned_of, nothing_held_out, size_in_words
from glassformer.families.evaluate import held_out_examples
from glassformer.families.language import StreamFamily
from glassformer.families.load import load, opened_run
from glassformer.inspection.attention import sizes_of
from glassformer.inspection.views.attention import attention_panels
from glassformer.inspection.views.registry import LookRequest, register_view
from glassformer.rendering.confusion import confusion
from glassformer.rendering.curves import Records, curves
from glassformer.rendering.panels import Panel, Rows, Table, Words
from glassformer.rendering.view import View
from glassformer.reporting.reference_losses import reference_losses
from glassformer.runs.run import Run
from glassformer.tasks.base import Evaluation
from glassformer.text.display import cut

EXAMPLES = 3
"""Number of examples whose attention is shown."""
SHOWN_TOKENS = 48
"""Maximum number of tokens of such an example; an image may have more patches."""
MAX_WEIGHTS = 2**19
"""Maximum number of attention weights of all examples, so that the page has at most 2 MB."""
MAX_CLASS_ROWS, MAX_UNFOLDED_ROWS = 500, 20
"""Number of rows above which the table of classes is folded."""

OPEN_ERRORS = 2
"""Number of error panels that are not folded."""

MODEL = ("style", "layers", "heads", "width", "decoder", "attention", "positions", "norm", "weighting", "ngrams",
         "pool", "context", "dropout")  # fmt: skip
TRAINING = ("optimizer", "lr", "schedule", "batch_size", "batch_tokens", "label_smoothing", "average", "loss", "seed")
"""The most important settings."""
NAMES = {"lr": "learning rate", "optimizer": "optimiser"}
sentence = partial(read_sentence, __name__)


@takes_listener
def report(run: AnyRun, *, model: OwnModel | None = None, device: str = "auto", say: Say = say) -> View:
    """Return the report of a run, made again from its data. `model`: the user's own model, which is not in the run."""
    folder = opened_run(run)
    card, config, prepared = folder.card(), folder.config(), prepare_again(folder)
    parts: list[str] = [name for name in ("validation", "test") if name in card]
    if not parts:
        return report_of(folder, config, prepared, None, {})
    loaded = run if isinstance(run, Loaded) else load(folder, device, model=model)
    say(f"evaluating {' and '.join(parts)} again")
    with torch.inference_mode():
        evaluations = {name: prepared.task.evaluate(loaded.model, name) for name in parts}
    return report_of(folder, config, prepared, loaded.model, evaluations)


@register_view("report", texts="none", needs=lambda loaded: "imported" not in loaded.run.card())
def report_view(request: LookRequest) -> View:
    return report(request.loaded)


def report_of(
    run: Run,
    config: Config,
    prepared: Prepared,
    model: nn.Module | None,
    evaluations: Mapping[str, Evaluation],
    *,
    card: Mapping[str, Any] | None = None,
) -> View:
    """Return the report. `evaluations`: by part, possibly empty. `card`: None for that of the run."""
    metrics, task = run.read_metrics(), prepared.task
    card = run.card() if card is None else card
    went = curves(metrics, unit=task.unit, smoothing=task.smoothing, levels=reference_losses(prepared))
    panels: list[Panel] = _before_refit(card)
    if model is not None and evaluations:
        part = "test" if "test" in evaluations else "validation"
        panels += [*_quality(evaluations), *went[:-1], logged_panel(metrics)]
        errors = brief_errors(FAMILIES[config.task], ReportedPart(prepared, model, part, evaluations))
        panels += (replace(panel, folded=place >= OPEN_ERRORS) for place, panel in enumerate(errors))
        panels += [*samples(metrics), *held_out_attention(run, config, prepared, model)]
    else:
        if not nothing_held_out(card):
            text = sentence("not evaluated", status=_status(card), path=run.path)
            panels.append(Words(title="Not evaluated", text=text))
        elif "before_refit" not in card:
            panels.append(Words(title="Nothing held out", text=sentence("all learned")))
        panels += [*went[:-1], logged_panel(metrics), *samples(metrics)]
    panels += [_data(card, prepared, config), _trained(card, config)]
    panels += [*(replace(panel, folded=True) for panel in went[-1:]), _environment(card), *_again(card, config)]
    words = three_digits("; ".join(f"{name}: {evaluation.summary}" for name, evaluation in evaluations.items()))
    what = f"{FAMILIES[config.task].model_name(config)}, {size_in_words(card)}, on {card['data']['name']}"
    before = f"{BEFORE}: {three_digits(card['before_refit']['words'])}" if "before_refit" in card else ""
    return View(run.path.name, panels, f"{what}. {'; '.join(filter(None, (before, words))) or _status(card)}.")


# --- model and data ---


def _trained(card: Mapping[str, Any], config: Config) -> Table:
    chosen = [("model", name) for name in MODEL] + [("training", name) for name in TRAINING]
    settings: Rows = [
        [NAMES.get(name, name.replace("_", " ")), f"{value:g}" if isinstance(value, float) else value_text(value)]
        for section, name in chosen
        if config.idle(f"{section}.{name}") is None and (value := config.get(f"{section}.{name}")) is not None
    ]
    tokens, source, learned = card["tokenizer"], card.get("from"), learned_of(card)
    labels, names = label_names(card) or ("labels", [])
    rows: Rows = [
        ["task", config.task],
        ["model", FAMILIES[config.task].model_name(config)],
        ["parameters", f"{card['parameters']:,}"],
        ["learned", f"{learned:,} of these" if learned < card["parameters"] else None],
        [labels, cut(", ".join(names)) if names else None],
        ["began from", f"{Path(source['run']).name} ({source['task']})" if source else None],
        ["old text", forgetting_line(source) if source else None],
        ["tokens", f"{tokens['kind']}, vocabulary of {tokens['vocab_size']:,}" if tokens else None],
        *settings,
        ["updates", f"{card.get('steps', 0):,}"],
        ["seconds in updates", f"{card.get('seconds', 0.0):.1f}"],
        ["status", card["status"]],
    ]
    known = [row for row in rows if row[1] is not None]
    return Table(title="What was trained", columns=["setting", "value"], rows=known, folded=True)


def _data(card: Mapping[str, Any], prepared: Prepared, config: Config) -> Table:
    """Return the table of the parts and their sizes."""
    noun, sizes = part_sizes(FAMILIES[config.task], prepared)
    data = card["data"]
    held = "validation and test" if prepared.task.validates else "the test"
    key = "weights: none held out" if nothing_held_out(card) else "weights: held out"
    if prepared.task.validates and config.training.keep == "best":
        key = "weights: chosen"
    return Table(
        title=f"Data: {data['name']}",
        columns=["part", noun, "tokens"],
        rows=[[name, size, prepared.tokens[name]] for name, size in sizes.items()],
        note=sentence(key, report=data["report"], held=held),
    )


@singledispatch
def part_sizes(family: Family, prepared: Prepared) -> tuple[str, dict[str, int]]:
    """Return the unit of the data, and the size of each part."""
    noun = getattr(prepared.task, "noun", family.noun)  # of labelled data: texts, images, rows
    return f"{noun}s", {name: len(part) for name, part in prepared.corpus.parts.items()}


@part_sizes.register
def document_counts(family: StreamFamily, prepared: Prepared) -> tuple[str, dict[str, int]]:
    return "documents", {name: part.documents for name, part in prepared.corpus.parts.items()}


# --- course of training, and scores ---


def samples(metrics: Records) -> list[Panel]:
    """Return the first, the middle and the last text generated during training."""
    lines = [line for line in metrics if line.get("event") == "sample"]
    some = sorted({0, len(lines) // 2, len(lines) - 1}) if lines else []
    return [
        Words(
            title=f"Sample after {counted(lines[place]['step'], 'update')}", text=cut(lines[place]["text"].strip("\n"))
        )
        for place in some
    ]


def three_digits(words: str) -> str:
    """Round the numbers in a text to three digits."""

    def shorter(number: re.Match[str]) -> str:
        value = float(number[0].replace(",", ""))
        shown = f"{value:.3g}" if value < 100 else f"{value:,.0f}"
        return number[0] if "e" in shown else shown

    return re.sub(r"(?<![\d.,])(\d[\d,]*)\.\d+", shorter, words)


def scores(parts: Mapping[str, Mapping[str, float]], note: str = "") -> Table:
    """Return the metrics of each part that was evaluated."""
    names = list(dict.fromkeys(name for metrics in parts.values() for name in metrics))
    return Table(
        title="How good it is",
        columns=["metric", *parts],
        rows=[[metric_name(name), *(metrics.get(name) for metrics in parts.values())] for name in names],
        note=note,
    )


def by_class(classes: Mapping[str, Mapping[str, float]], what: str = "class") -> Table:
    """Return precision, recall and F1 of each class or label."""
    columns = list(next(iter(classes.values())))
    rows: Rows = [[cut(name, 60), *(values[column] for column in columns)] for name, values in classes.items()]
    return Table(
        title=f"{what.capitalize()} by {what}",
        columns=[what, *columns],
        rows=rows[:MAX_CLASS_ROWS],
        bars=("precision", "recall", "f1"),
        folded=len(rows) > MAX_UNFOLDED_ROWS,
        note=f"The first {MAX_CLASS_ROWS:,} of {len(rows):,}." if len(rows) > MAX_CLASS_ROWS else "",
    )


def _status(card: Mapping[str, Any]) -> str:
    steps = card.get("steps")
    after = "" if steps is None else f" after {counted(steps, 'update')}"
    endings = {"interrupted": "was interrupted", "failed": "failed"}
    return f"The training {endings.get(card['status'], 'is not finished')}{after}"


def _before_refit(card: Mapping[str, Any]) -> list[Panel]:
    """Return the scores on held-out rows before a run was refitted on all rows."""
    if (before := card.get("before_refit")) is None:
        return []
    text = sentence("before refit", words=before["words"], runs=", ".join(before["runs"]))
    return [Words(title=BEFORE.capitalize(), text=text, note=sentence("refit"))]


def _quality(evaluations: Mapping[str, Evaluation]) -> Iterator[Panel]:
    last = list(evaluations.values())[-1]
    signatures = [f"{name}: {text}" for name, text in last.details.get("signature", {}).items()]
    metrics = {name: evaluation.metrics for name, evaluation in evaluations.items()}
    yield scores(metrics, "; ".join(signatures))
    if "per_class" in last.details:
        yield by_class(last.details["per_class"])
    if "per_label" in last.details:
        yield by_class(last.details["per_label"], "label")
    if "confusion" in last.details:
        yield confusion(**last.details["confusion"])


# --- held-out examples ---


def held_out_attention(run: Run, config: Config, prepared: Prepared, model: nn.Module) -> Iterator[Panel]:
    """Return the attention heads on a few short examples of the validation part."""
    heads = sum(layers * heads for layers, heads in sizes_of(model).values())
    if not heads:
        return
    room = math.isqrt(MAX_WEIGHTS // (EXAMPLES * heads))
    loaded = FAMILIES[config.task].loaded(model, prepared, run, config)
    longest = min(SHOWN_TOKENS, room)
    examples = held_out_examples(loaded, prepared, count=EXAMPLES, max_tokens=longest, max_patches=room)
    for number, example in enumerate(examples, 1):
        for panel in attention_panels(model, example, f"Example {number}: "):
            yield replace(panel, folded=number > 1)


# --- reproduction ---


def _environment(card: Mapping[str, Any]) -> Table:
    now = datetime.datetime.now().astimezone().isoformat(sep=" ", timespec="minutes")
    return Table(
        title="Where it was trained",
        folded=True,
        columns=["what", "value"],
        rows=[["glassformer", card["glassformer"]], *map(list, card["environment"].items()), ["report written", now]],
    )


def _again(card: Mapping[str, Any], config: Config) -> list[Panel]:
    note = sentence("again: initialised" if "from" in card else "again")
    return [Words(title="Train it again", text=card.get("command") or command_of(config), code=True, note=note)]


def command_of(config: Config) -> str:
    """Return a command that trains a run again, for runs that were trained from Python.

    It contains every setting that differs from the defaults of the task and the model. For a user's own model, it is a
    call of `gf.train`.
    """
    kind = {"data.kind": config.data.kind} if labels_examples(config.task) and config.data.kind != TEXT else {}
    said = {"task": config.task, "model.encoder": config.model.encoder, **kind}
    start = flatten(resolve({}, said, strict=False).to_dict())
    whole = flatten(config.to_dict())
    changed = {key: value for key, value in whole.items() if key not in said and start.get(key) != value}
    changed = {key: value for key, value in changed.items() if key not in BUDGETS or value is not None}
    path = changed.pop("data.path", None)
    if config.model.encoder == OWN:
        settings = {"task": config.task, **changed}
        return f"gf.train({path!r}, model=…, **{settings!r})"
    flags = {"task": config.task, "model": config.model.encoder, **kind}
    words = [f"--{key} {shlex.quote(value_text(value))}" for key, value in {**flags, **changed}.items()]
    files = dict.fromkeys(part.file.name for part in parts_of(config) if part.file is not None)
    words += [f"--brick {shlex.quote(file)}" for file in files]
    return " ".join(["glassformer train", *([] if path is None else [shlex.quote(path)]), *words])
