"""Two runs of one task on the same examples, matched one by one."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glassformer.config.errors import DataError, Misuse
from glassformer.config.presets import CLASSIFICATION, MULTILABEL, REGRESSION, TEXT
from glassformer.config.say import Say
from glassformer.data.columns.label_sets import set_of
from glassformer.data.features.inputs import Inputs
from glassformer.data.features.pairs import PairExamples
from glassformer.data.packing.store import Tokens
from glassformer.data.split.labelled import Labelled
from glassformer.data.split.pairs import Pairs
from glassformer.data.split.part import Part
from glassformer.data.wording import listed
from glassformer.error_analysis.classes import wrong_in
from glassformer.error_analysis.finding import Found, Rows, panels_of, sentences, some
from glassformer.error_analysis.language import beginning, document_starts
from glassformer.error_analysis.translations import MOST_LOOKED_AT, sentence_scores
from glassformer.error_analysis.two_runs import Names, largest_differences, only_one_gets, paired, right_and_wrong
from glassformer.families.base import AnyRun, EvaluatedPart, Loaded
from glassformer.families.evaluate import OwnDataGone, evaluate_part, own_corpus
from glassformer.families.labelling import LoadedPredictor
from glassformer.families.language import LoadedLanguageModel
from glassformer.families.load import load
from glassformer.families.masked import LoadedMasked
from glassformer.families.requests import EvaluateOptions
from glassformer.rendering.curves import Records
from glassformer.rendering.view import View
from glassformer.tasks.answers import Classes, Scale
from glassformer.text.display import cut
from glassformer.text.tokenizer import Tokenizer

STRETCH = 64
"""Tokens that are paired together, where two language models read the same ones."""


def versus_view(one: EvaluatedPart, versus: AnyRun, asked: EvaluateOptions, device: str, say: Say) -> View:
    """Which examples one run gets and the other does not."""
    second = versus if isinstance(versus, Loaded) else load(versus, device)
    first = one.loaded
    if isinstance(first, LoadedMasked):
        raise Misuse("--versus is not for masked language models: glassformer compare --runs sets them side by side")
    names = _names(first, second)
    part = _same_part(one, second, asked)
    _say_if_learned(second, part, one, say)
    say(f"{names[1]}:")
    other = evaluate_part(second, part, asked, say)
    if isinstance(first, LoadedLanguageModel):
        found = _of_language(one, other, names)
    else:
        found = _of_examples(one, other, names, say)
    about = f"{names[0]}: {one.evaluation.words}. {names[1]}: {other.evaluation.words}."
    return View(f"Errors of {names[0]} and {names[1]}", panels_of(found), sentences(found), about)


def _names(first: Loaded, second: Loaded) -> Names:
    """The runs' folders; as much of their paths as tells them apart."""
    one, other = first.run.path.resolve(), second.run.path.resolve()
    if one.name != other.name:
        return one.name, other.name
    return (str(first.run.path), str(second.run.path)) if one != other else (one.name, f"{one.name} (again)")


# --- the same examples ---


def _same_part(one: EvaluatedPart, second: Loaded, asked: EvaluateOptions) -> Part | Labelled | Pairs:
    """What the first run was judged on, as the second reads it."""
    part = one.part
    if not isinstance(part, Labelled):
        return part
    assert isinstance(second, LoadedPredictor)
    _refuse_unknown(part, second)
    path = asked.data or _path_of(one)
    if _read_alike(one.loaded, second, part):
        return part
    if path is None:
        raise Misuse(f"--versus {second.run.path} reads other columns: name the DATA to compare the two on")
    try:
        again = second.family.whole_part(second, replace(asked, data=path, part=None))
    except DataError:
        if not second.config.data.kind == one.loaded.config.data.kind == TEXT:
            raise
        return part  # its texts had another name where the second run learned
    assert isinstance(again, Labelled)
    lines = set(part.lines)
    return again.some(part.name, [row for row, line in enumerate(again.lines) if line in lines])


def _read_alike(first: Loaded, second: Loaded, part: Labelled) -> bool:
    """Whether what the first run reads of a row is all that the second needs."""
    mine, theirs = first.config.data, second.config.data
    same = (mine.kind, mine.text, mine.extra_columns, mine.image) == (
        theirs.kind,
        theirs.text,
        theirs.extra_columns,
        theirs.image,
    )
    return same and (part.pixels is None or _size(first) == _size(second))


def _path_of(one: EvaluatedPart) -> str | None:
    """The file that a part of the run's own comes from."""
    data = one.loaded.config.data
    given = {"validation": data.validation, "test": data.test}.get(one.part.name)
    assert isinstance(one.part, Labelled)
    return given or (data.path if one.part.origin == data.path else None)


def _size(loaded: Loaded) -> object:
    return getattr(getattr(loaded.features, "image", None) or loaded.features, "size", None)


def _refuse_unknown(part: Labelled, second: LoadedPredictor) -> None:
    """A class or label that the second run has never met."""
    answers = second.answers
    if isinstance(answers, Scale):
        return
    for label, line in zip(part.labels, part.lines, strict=True):
        for name in (label,) if isinstance(answers, Classes) else set_of(label):
            if name not in answers.names:
                raise DataError(
                    f"--versus {second.run.path}: it does not know the class '{name}' ({part.origin}, line {line:,}); "
                    f"it knows {listed(answers.names)}"
                )


def _say_if_learned(second: Loaded, part: Part | Labelled | Pairs, one: EvaluatedPart, say: Say) -> None:
    """A warning, if the second run learned from what it is now judged on."""
    try:
        corpus = own_corpus(second)
    except OwnDataGone:
        say(f"warning: the data of {second.run.path} is not there: it may have learned from these examples")
        return
    train = corpus.parts["train"]
    if isinstance(part, Part):
        assert isinstance(train, Part)
        held_out = [name for name, own in corpus.parts.items() if own.fingerprint == part.fingerprint]
        if one.corpus is not None and one.part.name != "train" and not set(held_out) - {"train"}:
            say(
                f"warning: {second.run.path} was divided in another way: it may have learned from this {part.name} "
                "part (train both with one --data.split_seed)"
            )
        return
    assert isinstance(train, Labelled | Pairs)
    seen = int(np.isin(part.digests, train.digests).sum())
    if seen and part.name != "train":
        say(
            f"warning: {second.run.path} learned from {seen:,} of these {len(part):,} examples: it has an advantage "
            "(train both with one --data.split_seed)"
        )


def _matched(one: EvaluatedPart, other: EvaluatedPart) -> tuple[Records, Records]:
    """The records of the examples that both runs were judged on, in the order of the first."""
    mine, theirs = _keys(one), _keys(other)
    places = {key: place for place, key in enumerate(theirs)}
    common = [(place, places[key]) for place, key in enumerate(mine) if key in places]
    if not common:
        raise DataError(
            f"{one.loaded.run.path} and {other.loaded.run.path} have no example in common here: give DATA that both "
            "can read"
        )
    a, b = one.evaluation.records, other.evaluation.records
    return [a[here] for here, _ in common], [b[there] for _, there in common]


def _keys(one: EvaluatedPart) -> list[Hashable]:
    """What tells an example from the others: the line it stands on; of pairs, whose number depends on how long they
    are in tokens, the texts; and which of several equal ones it is (of a refit, rows may come from two files).
    """
    if isinstance(one.part, Labelled):
        known: list[Hashable] = list(one.part.lines)
    else:
        assert isinstance(one.inputs, PairExamples)
        known = list(zip(one.inputs.sources, one.inputs.targets, strict=True))
    met: dict[Hashable, count[int]] = {}
    return [(key, next(met.setdefault(key, count()))) for key in known]


# --- what they make of them ---


def _of_examples(one: EvaluatedPart, other: EvaluatedPart, names: Names, say: Say) -> list[Found]:
    a, b = _matched(one, other)
    left = len(one.evaluation.records) - len(a)
    if left:
        say(f"left out, for {names[1]} does not read them: {some(left, 'example')}")
    task = one.loaded.config.task
    if task in (CLASSIFICATION, MULTILABEL):
        assert isinstance(one.inputs, Inputs)
        noun = one.inputs.noun if all(one.inputs.noun in record for record in (a[0], b[0])) else "example"
        a, b = ([{**record, noun: _known(record)} for record in records] for records in (a, b))
        sides = right_and_wrong(~wrong_in(a), ~wrong_in(b), names, noun)
        return [sides, Found(only_one_gets(a, b, names, noun))]
    if task == REGRESSION:
        off = [np.abs([record["error"] for record in records]) for records in (a, b)]
        rows: Rows = [[cut(_known(record)), record["number"]] for record in a]
        return _of_numbers(
            off[0], off[1], names, ["example", "true"], rows, what="error", noun="example", better="lower"
        )
    apart = -(-len(a) // MOST_LOOKED_AT)
    if apart > 1:
        say(f"every {apart}th of {len(a):,} pairs is looked at")
        a, b = a[::apart], b[::apart]
    rows = [[cut(x["source"]), cut(x["target"]), cut(x["output"]), cut(y["output"])] for x, y in zip(a, b, strict=True)]
    columns = ["source", "target", *names]
    scores = sentence_scores(a), sentence_scores(b)
    return _of_numbers(*scores, names, columns, rows, what="chrF", noun="pair", better="higher")


def _known(record: Mapping[str, Any]) -> str:
    """What an example is known by, whatever the run calls it."""
    return str(record.get("text", record.get("example", "")))


def _of_numbers(
    first: NDArray[np.float64],
    second: NDArray[np.float64],
    names: Names,
    columns: Sequence[str],
    rows: Rows,
    *,
    what: str,
    noun: str,
    better: str,
    weights: NDArray[np.float64] | None = None,
) -> list[Found]:
    sides = paired(first, second, names, what=f"mean {what}", noun=noun, better=better, weights=weights)
    largest = largest_differences(first, second, names, columns=columns, rows=rows, what=what, better=better)
    return [sides, Found(largest)]


def _of_language(one: EvaluatedPart, other: EvaluatedPart, names: Names) -> list[Found]:
    """By stretches of tokens that both have; or, of other tokens, by document."""
    mine, theirs = (side.loaded.tokenizer for side in (one, other))
    assert mine is not None
    assert theirs is not None
    assert isinstance(one.inputs, Tokens)
    if mine.hash == theirs.hash:
        return _by_stretch(one, other, names, mine, one.inputs)
    return _by_document(one, other, names, mine, theirs, one.inputs)


def _by_stretch(
    one: EvaluatedPart, other: EvaluatedPart, names: Names, tokenizer: Tokenizer, tokens: Tokens
) -> list[Found]:
    common, here, there = np.intersect1d(
        one.evaluation.arrays["place"], other.evaluation.arrays["place"], return_indices=True
    )
    if not len(common):
        raise DataError("the two runs have no token in common that both were asked for: give a shorter text")
    stretches, inverse = np.unique(common // STRETCH, return_inverse=True)
    counts = np.bincount(inverse).astype(float)
    losses = [
        np.bincount(inverse, weights=side.evaluation.arrays["loss"][at].astype(float)) / counts
        for side, at in ((one, here), (other, there))
    ]
    rows: Rows = [[beginning(tokens, tokenizer, int(number) * STRETCH)] for number in stretches]
    what = {"what": "loss (nats per token)", "noun": "passage", "better": "lower"}
    return _of_numbers(losses[0], losses[1], names, ["it begins"], rows, **what, weights=counts)


def _by_document(
    one: EvaluatedPart, other: EvaluatedPart, names: Names, mine: Tokenizer, theirs: Tokenizer, tokens: Tokens
) -> list[Found]:
    assert isinstance(one.part, Part)
    assert isinstance(other.inputs, Tokens)
    if one.part.documents < 2 or mine.start is None or theirs.start is None:
        raise DataError(
            "the two runs cut the text into other tokens, so that whole documents are compared, and there is only one: "
            "give DATA of several documents"
        )
    for side in (one, other):
        if len(side.evaluation.arrays["loss"]) < side.evaluation.metrics["tokens"]:
            raise DataError("the text is too long to compare runs with other tokens on it: give a part of it as DATA")
    sums, starts = [], document_starts(tokens.ids, mine.start)
    for side, inputs, tokenizer in ((one, tokens, mine), (other, other.inputs, theirs)):
        arrays = side.evaluation.arrays
        begins = document_starts(inputs.ids, tokenizer.start)
        number = np.searchsorted(begins, arrays["place"], side="right") - 1
        sums.append(np.bincount(number, weights=arrays["loss"].astype(float), minlength=one.part.documents))
    size = np.array(_bytes_by_document(one.part), float)
    rows: Rows = [[beginning(tokens, mine, int(start))] for start in starts]
    bits = [each / np.log(2) / size for each in sums]
    what = {"what": "bits per byte", "noun": "document", "better": "lower"}
    return _of_numbers(bits[0], bits[1], names, ["it begins"], rows, **what, weights=size)


def _bytes_by_document(part: Part) -> list[int]:
    sizes: list[int] = []
    for chunk in part.chunks():
        if chunk.starts:
            sizes.append(0)
        sizes[-1] += len(chunk.text.encode())
    return sizes
