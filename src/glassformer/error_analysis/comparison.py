"""Comparison of two runs on the same examples, with significance tests."""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import singledispatch
from itertools import count
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from glassformer.config.arrays import Array
from glassformer.config.errors import DataError, Misuse
from glassformer.config.messages import say
from glassformer.config.presets import TEXT
from glassformer.data.split.documents import TextPart
from glassformer.data.split.labelled import Labelled
from glassformer.data.wording import counted, listed
from glassformer.error_analysis.finding import (
    LABELS,
    MAX_ERRORS,
    ErrorFinding,
    is_wrong,
    percent,
    sentence,
    table_or_words,
)
from glassformer.families.base import DataParts, EvaluatedPart, Family, Loaded
from glassformer.families.labelling import LabellingFamily, LoadedPredictor
from glassformer.families.language import StreamFamily
from glassformer.families.masked import MaskedFamily
from glassformer.families.requests import EvaluateOptions
from glassformer.families.translation import TranslationFamily
from glassformer.rendering.curves import Records
from glassformer.rendering.panels import Cell, Panel, Rows, Table
from glassformer.statistics.significance import difference, mcnemar
from glassformer.text.display import cut

Names = tuple[str, str]
"""Names of the two runs."""


@dataclass(frozen=True, eq=False)
class RunPair:
    """Two runs, evaluated on the same part."""

    first: EvaluatedPart
    second: EvaluatedPart
    names: Names


# --- the same examples ---


@singledispatch
def shared_part(family: Family, first: EvaluatedPart, second: Loaded, options: EvaluateOptions) -> Any:
    """Return the evaluated part of the first run as the second reads it; raise an error if they cannot be compared."""
    return first.part


@shared_part.register
def refuse_masked_models(family: MaskedFamily, first: EvaluatedPart, second: Loaded, options: EvaluateOptions) -> Any:
    raise Misuse("--second-run is not for masked language models: glassformer compare --runs sets them side by side")


@shared_part.register
def shared_examples(
    family: LabellingFamily, first: EvaluatedPart, second: LoadedPredictor, options: EvaluateOptions
) -> Labelled:
    """Return the same rows, read again if the second run needs other columns."""
    _refuse_unknown(first, second)
    part: Labelled = first.part
    path = _own_file(first) if options.data is None else options.data
    if _read_alike(first.loaded, second, part):
        return part
    if path is None:
        raise Misuse(f"--second-run {second.run.path} reads other columns: name the DATA to compare the two on")
    try:
        again = family.whole_part(second, replace(options, data=path, part=None))
    except DataError:
        if not second.config.data.kind == first.loaded.config.data.kind == TEXT:
            raise
        return part  # the text column had another name in the training of the second run
    lines = set(part.lines)
    return again.select(part.name, [row for row, line in enumerate(again.lines) if line in lines])


def _refuse_unknown(first: EvaluatedPart, second: LoadedPredictor) -> None:
    """Raise `DataError` for a class or label that the first run knows and the second does not."""
    names: Sequence[str] = getattr(second.answers, "names", ())
    known = {*names, *first.evaluation.details.get("unknown_labels", ())}
    for record, line in zip(first.evaluation.records, first.part.lines, strict=True):
        for name in record.get(LABELS, [record["label"]] if "label" in record else []):
            if name not in known:
                raise DataError(
                    f"--second-run {second.run.path}: it does not know the class '{name}' ({first.part.origin}, line "
                    f"{line:,}); it knows {listed(names)}"
                )


def _read_alike(first: Loaded, second: Loaded, part: Labelled) -> bool:
    """Return whether both runs read the same columns of a row."""
    mine, theirs = first.config.data, second.config.data
    same = all(getattr(mine, name) == getattr(theirs, name) for name in ("kind", "text", "extra_columns", "image"))
    return same and (part.pixels is None or _image_size(first) == _image_size(second))


def _image_size(loaded: Loaded) -> object:
    return getattr(getattr(loaded.features, "image", None) or loaded.features, "size", None)


def _own_file(first: EvaluatedPart) -> str | None:
    """Return the file of a part of the run's own data, if it is known."""
    data = first.loaded.config.data
    named = {"validation": data.validation, "test": data.test}.get(first.part.name)
    return named or (data.path if first.part.origin == data.path else None)


# --- overlap with the training data of the second run ---


@singledispatch
def training_overlap(family: Family, first: EvaluatedPart, second: Loaded, part: Any, corpus: DataParts) -> str:
    """Return a warning if the second run learned from the evaluated part. `corpus`: the second run's own data."""
    return ""


@training_overlap.register
def stream_overlap(family: StreamFamily, first: EvaluatedPart, second: Loaded, part: TextPart, corpus: Any) -> str:
    held_out = {name for name, own in corpus.parts.items() if own.fingerprint == part.fingerprint} - {"train"}
    if first.corpus is None or part.name == "train" or held_out:
        return ""
    return (
        f"warning: {second.run.path} was divided in another way: it may have learned from this {part.name} "
        "part (train both with one --data.split_seed)"
    )


@training_overlap.register(LabellingFamily)
@training_overlap.register(TranslationFamily)
def example_overlap(family: Family, first: EvaluatedPart, second: Loaded, part: Any, corpus: DataParts) -> str:
    seen = int(np.isin(part.keys, corpus.parts["train"].keys).sum())
    if not seen or part.name == "train":
        return ""
    return (
        f"warning: {second.run.path} learned from {seen:,} of these {len(part):,} examples: it has an advantage "
        "(train both with one --data.split_seed)"
    )


# --- one by one ---


def match_records(pair: RunPair, keys: Callable[[EvaluatedPart], Iterable[Hashable]]) -> tuple[Records, Records]:
    """Return the records of the examples that both runs were evaluated on, in the order of the first.

    `keys`: returns a key for each example; equal keys (of a refit, rows of two files) are matched in their order.
    """
    places = {key: place for place, key in enumerate(_numbered(keys(pair.second)))}
    common = [(place, places[key]) for place, key in enumerate(_numbered(keys(pair.first))) if key in places]
    if not common:
        raise DataError(
            f"{pair.first.loaded.run.path} and {pair.second.loaded.run.path} have no example in common here: give DATA "
            "that both can read"
        )
    first, second = pair.first.evaluation.records, pair.second.evaluation.records
    if len(common) < len(first):
        say(f"left out, for {pair.names[1]} does not read them: {counted(len(first) - len(common), 'example')}")
    return [first[here] for here, _ in common], [second[there] for _, there in common]


def _numbered(keys: Iterable[Hashable]) -> list[Hashable]:
    """Return each key with its number among equal keys."""
    met: dict[Hashable, count[int]] = {}
    return [(key, next(met.setdefault(key, count()))) for key in keys]


# --- right or wrong ---


def right_and_wrong(first: Bool[Array, " N"], second: Bool[Array, " N"], names: Names, noun: str) -> ErrorFinding:
    """Return the two-by-two table and McNemar's exact test."""
    test, whole = mcnemar(first, second), len(first)
    table = Table(
        title=f"{names[0]} and {names[1]}, side by side",
        columns=["", f"{names[1]} right", f"{names[1]} wrong", f"{noun}s", "share"],
        rows=[
            [f"{names[0]} right", test.both, test.only_first, int(first.sum()), float(first.mean())],
            [f"{names[0]} wrong", test.only_second, test.neither, int((~first).sum()), float((~first).mean())],
            ["in all", int(second.sum()), int((~second).sum()), whole, 1.0],
        ],
        bars=("share",),
        note=sentence("sides: note"),
    )
    facts = {"first": percent(float(first.mean())), "second": percent(float(second.mean())), "names": names}
    numbers = {"only_first": test.only_first, "only_second": test.only_second, "p": test.p}
    return ErrorFinding([table], sentence("sides", **facts, **numbers, examples=counted(whole, noun)))


def only_one_gets(first: Records, second: Records, names: Names, noun: str) -> list[Panel]:
    """Return the examples that only one classifier gets right, by falling confidence of the other one."""
    columns, sureness = [noun, "true", "probability", "taken for", "probability of that"], "probability"
    if LABELS in first[0]:
        columns, sureness = [noun, "true", "said by the other"], "loss"
    panels: list[Panel] = []
    for name, mine, theirs in ((names[0], first, second), (names[1], second, first)):
        pairs = [pair for pair in zip(mine, theirs, strict=True) if is_wrong(pair[1]) and not is_wrong(pair[0])]
        pairs.sort(key=lambda pair: -pair[1][sureness])
        panels.append(
            table_or_words(
                f"Only {name} gets",
                columns,
                [_answers(right, wrong, noun) for right, wrong in pairs[:MAX_ERRORS]],
                nothing=f"There is no {noun} that only {name} gets.",
                bars=[column for column in columns if "probability" in column],
            )
        )
    return panels


def _answers(right: Mapping[str, Any], wrong: Mapping[str, Any], noun: str) -> list[Cell]:
    """Return the cells of an example with the right and the wrong prediction."""
    if LABELS in right:
        return [cut(right[noun]), "; ".join(right[LABELS]), "; ".join(wrong["predicted"])]
    return [cut(right[noun]), right["label"], right["probability"], wrong["predicted"], wrong["probability"]]


# --- scores ---


@dataclass(frozen=True, eq=False)
class PairedScores:
    """Scores of two runs on the same examples."""

    values: Sequence[Float[Array, " N"]]
    """The values of the first run, and those of the second."""
    names: Names
    measure: str
    """Name of the score: a loss, chrF."""
    noun: str
    """Name of an example."""
    lower_is_better: bool = True
    weights: Float[Array, " N"] | None = None
    """Weight of each example."""


def compare_scores(scores: PairedScores, columns: Sequence[str], rows: Rows) -> list[ErrorFinding]:
    """Return the mean difference, and the examples that differ most. `columns`, `rows`: cells of the examples."""
    return [mean_difference(scores), ErrorFinding(largest_differences(scores, columns, rows))]


def mean_difference(scores: PairedScores) -> ErrorFinding:
    """Return the difference of two means on the same examples, with its interval."""
    names, what, weights = scores.names, f"mean {scores.measure}", scores.weights
    gap = difference(scores.values[0][None], scores.values[1][None], weights)
    means = [float(np.average(values, weights=weights)) for values in scores.values]
    between = f"{gap.low:.3g} to {gap.high:.3g}" if np.isfinite(gap.low) else "unknown, for there is only one"
    examples = counted(len(scores.values[0]), scores.noun)
    table = Table(
        title=f"{names[0]} and {names[1]}, side by side",
        columns=["", what],
        rows=[[names[0], means[0]], [names[1], means[1]], ["difference", gap.value]],
        note=sentence("means: two runs", examples=examples),
    )
    against = f"{means[0]:.4g} against {means[1]:.4g}"
    facts = {"measure": scores.measure, "against": against, "gap": gap.value, "between": between, "p": gap.p}
    return ErrorFinding([table], sentence("means", **facts))


def largest_differences(scores: PairedScores, columns: Sequence[str], rows: Rows) -> list[Panel]:
    """Return the examples with the largest differences, in each direction."""
    (first, second), names = scores.values, scores.names
    gain = second - first if scores.lower_is_better else first - second
    heads = [*columns, *(f"{scores.measure}: {name}" for name in names)]
    panels: list[Panel] = []
    for sign, name in ((1, names[0]), (-1, names[1])):
        order = [place for place in np.argsort(-sign * gain, kind="stable").tolist() if sign * gain[place] > 0]
        panels.append(
            table_or_words(
                f"{name} is better by most",
                heads,
                [[*rows[place], float(first[place]), float(second[place])] for place in order[:MAX_ERRORS]],
                nothing=f"There is nothing on which {name} is better.",
            )
        )
    return panels
