"""Comparisons of models that differ in one setting.

One compares positions beyond the training length. The other compares translation with and without attention, by length
of the source.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from glassformer.bricks.losses import vocabulary_losses
from glassformer.config.messages import listening, say, silent
from glassformer.data.packing.store import Ids
from glassformer.data.packing.windows import NOTHING
from glassformer.experiments.growth import Curve, Curves, Section, lines, plain, sentence
from glassformer.experiments.models import brief_training, train_briefly
from glassformer.experiments.request import HEADS, MINUTES, ScalingRequest
from glassformer.families.build import build_model, prepare
from glassformer.families.recognition import infer_config
from glassformer.models.modules import LanguageModel, device_of
from glassformer.rendering.panels import Line, Lines
from glassformer.tasks.language_model import answers

POSITIONS = {"learned": "learned", "sine": "sine and cosine", "rotary": "rotary", "none": "none"}
"""Kinds of positions: the value of the setting and its description."""
BOUND = ("learned",)
"""Kinds of positions that have no vector beyond the context."""
CONTEXT, FURTHER, POSITION_UPDATES = 64, 4, 400
TEXTS = 256
DATA = "docstrings"

ATTENTION = {"additive": "with attention", "none": "without attention"}
"""Kinds of attention: the value of the setting and its description."""
ATTENTION_UPDATES, ROWS = 300, 8000
SHORTEST, LONGEST = 2, 16
LEARNED = 3
"""A model counts as undertrained if its mean score is below this multiple of a trivial baseline's score."""


def train_variants(
    chosen: Mapping[str, Any], setting: str, kinds: Mapping[Any, str], announcement: str, device: torch.device
) -> Iterator[tuple[str, Any, Any]]:
    """Yield the description of each variant, the briefly trained model, and its task.

    `setting`: name of the model setting that varies. `kinds`: its values and their descriptions.
    `announcement`: template of the message before each training run, which takes the description.
    """
    with listening(silent):
        config, table = infer_config({}, chosen)
        prepared = prepare(config, rows=table)
    for kind, words in kinds.items():
        say(announcement.format(words))
        changed: Any = {setting: kind}
        model = build_model(replace(config, model=replace(config.model, **changed)), prepared)
        train_briefly(model, prepared.task, config.training, device)
        yield words, model, prepared.task


# --- beyond the length of training ---


def beyond_part(plan: ScalingRequest, device: torch.device) -> Section:
    """Train a Transformer with each kind of positions, and measure its loss beyond the training length.

    The models learn from short texts, by character. The numbers are mean losses at each position of longer texts, in
    nats per character.
    """
    updates = plan.updates(POSITION_UPDATES)
    chosen = {
        "data.path": DATA,
        "task": "language-model",
        "tokenizer.kind": "char",
        "model.width": plan.width,
        "model.layers": plan.layers,
        "model.heads": HEADS,
        "model.context": CONTEXT,
        **brief_training(updates, plan.seed),
    }
    announcement = f"positions: {{}}, {updates:,} updates on texts of {CONTEXT} characters"
    losses = {}
    for kind, model, task in train_variants(chosen, "positions", POSITIONS, announcement, device):
        length = CONTEXT if kind in BOUND else FURTHER * CONTEXT
        ids = task.parts["validation"].ids
        losses[kind] = loss_by_position(model, ids, length, TEXTS, start=task.start).tolist()
    section = beyond_section(losses, context=CONTEXT, updates=updates)
    return replace(section, numbers={"context": CONTEXT, "updates": updates, "loss": losses})


def beyond_section(losses: Mapping[str, Sequence[float]], *, context: int, updates: int) -> Section:
    """Return the chart of losses by position, in the text and beyond the training length.

    `losses`: loss at each position, by description of the kind of positions. A list that ends at the context means that
    the kind has no positions beyond it.
    """
    width, half = max(1, context // 4), context // 2
    curves = {kind: _stretches(values, width) for kind, values in losses.items()}
    heights = [y for curve in curves.values() for y in curve.y]
    within = {kind: fmean(values[half:context]) for kind, values in losses.items()}
    beyond = {kind: fmean(values[-half:]) for kind, values in losses.items() if len(values) > context}
    chart = Lines(
        title="Beyond the length of training",
        series=[
            *lines(curves),
            Line(name="length of training", x=[context, context], y=[min(heights), max(heights)], faint=True),
        ],
        x_name="position in the text",
        y_name="loss, nats per character",
        note=sentence("note beyond", updates=updates, context=context, width=width),
    )
    longest, missing = max(map(len, losses.values())), "has no vector there"
    ends = {kind: f"{beyond[kind]:.2f}" if kind in beyond else missing for kind in losses}
    changes = "; ".join(f"{kind} {within[kind]:.2f} → {end}" for kind, end in ends.items())
    return Section([chart], sentence("finding beyond", times=longest // context, changes=changes))


def _stretches(values: Sequence[float], width: int) -> Curve:
    """Return the means over stretches of `width` positions, each at the middle of its stretch."""
    several = len(values) // width
    means = np.asarray(values[: several * width]).reshape(several, width).mean(1)
    return Curve([width * (place + 0.5) for place in range(several)], means.tolist())


@torch.inference_mode()
def loss_by_position(
    model: LanguageModel, ids: Ids, length: int, texts: int, *, start: int | None = None
) -> NDArray[np.float64]:
    """Return the mean loss at each position, over `texts` evenly spread stretches of the text.

    The result has `length` losses, in nats. Positions at which a text's START would be predicted do not count.
    """
    spread = np.linspace(0, len(ids) - length - 1, texts).astype(int)
    rows = np.stack([ids[first : first + length + 1] for first in spread]).astype(np.int64)
    block = torch.from_numpy(rows).to(device_of(model))
    features = model.features(block[:, :-1])
    following = answers(block, start)
    losses = vocabulary_losses(
        features.flatten(0, 1), model.head.weight, following.flatten(), bias=model.head.bias
    ).view(texts, length)
    asked = following != NOTHING
    return (losses.double().masked_fill(~asked, 0.0).sum(0) / asked.sum(0)).cpu().numpy()


# --- with and without attention ---


def attention_part(plan: ScalingRequest, device: torch.device) -> Section:
    """Train LSTM translators to write letters backwards, with and without attention, and score them by source length.

    The scores are the share of letters in the right place and the share of answers without a mistake.
    """
    updates = plan.updates(ATTENTION_UPDATES)
    chosen = {
        "data.path": f"reverse-pairs:rows={ROWS},seed={plan.seed},shortest={SHORTEST},longest={LONGEST}",
        "model": "lstm",
        "model.width": plan.width,
        "model.dropout": 0.0,
        "training.label_smoothing": 0.0,
        **brief_training(updates, plan.seed),
    }
    announcement = f"an LSTM that writes letters backwards, {{}}: {updates:,} updates"
    letters, exact = {}, {}
    for kind, model, task in train_variants(chosen, "attention", ATTENTION, announcement, device):
        records = task.evaluate(model, "validation").records
        pairs = [(record["target"], record["output"]) for record in records]
        letters[kind], exact[kind] = by_length(pairs)
        baseline = most_frequent_letter([wanted for wanted, _ in pairs])
    section = attention_section(letters, exact, updates=updates, baseline=baseline, minutes=plan.minutes)
    numbers = {"updates": updates, "baseline": baseline, "letters": plain(letters), "exact": plain(exact)}
    return replace(section, numbers=numbers)


def attention_section(letters: Curves, exact: Curves, *, updates: int, baseline: float, minutes: float) -> Section:
    """Return the charts of right letters and right answers by length of the source, with and without attention.

    `baseline`: share of right letters of a baseline that always writes the most frequent letter.
    """
    longest = max(curve.x[-1] for curve in letters.values())
    shortest = min(curve.x[0] for curve in letters.values())
    trivial = Line(name="most frequent letter", x=[shortest, longest], y=[baseline] * 2, faint=True)
    charts = [
        Lines(
            title=title,
            series=[*lines(curves), trivial],
            x_name="letters of the source",
            y_name="fraction",
            note=sentence("note attention", updates=updates),
        )
        for title, curves in (("Letters in their place", letters), ("Answers without a mistake", exact))
    ]
    last = ", ".join(f"{kind} {curve.y[-1]:.2f}" for kind, curve in letters.items())
    finding = sentence("finding attention", longest=longest, last=last, baseline=baseline)
    means = {kind: fmean(curve.y) for kind, curve in letters.items()}
    if weak := {kind: mean for kind, mean in means.items() if mean < LEARNED * baseline}:
        scores = ", ".join(f"{kind} {mean:.2f}" for kind, mean in weak.items())
        enough = MINUTES if minutes < MINUTES else 2 * minutes
        finding += sentence("undertrained", scores=scores, updates=updates, baseline=baseline, minutes=enough)
    return Section(charts, finding)


def most_frequent_letter(targets: Sequence[str]) -> float:
    """Return the share of right letters of a baseline that writes the most frequent letter everywhere."""
    letters = Counter("".join(targets))
    return max(letters.values()) / letters.total()


def by_length(pairs: list[tuple[str, str]]) -> tuple[Curve, Curve]:
    """Return the shares of right letters and of right answers by length, for pairs of target and output."""
    groups: dict[int, list[tuple[str, str]]] = defaultdict(list)
    for wanted, written in pairs:
        groups[len(wanted)].append((wanted, written))
    lengths = sorted(groups)
    letters = [fmean(_in_place(*pair) for pair in groups[length]) for length in lengths]
    exact = [fmean(wanted == written for wanted, written in groups[length]) for length in lengths]
    return Curve(lengths, letters), Curve(lengths, exact)


def _in_place(wanted: str, written: str) -> float:
    """Return the share of the target's letters that the output has in the same place."""
    return sum(letter == there for letter, there in zip(wanted, written, strict=False)) / len(wanted)
