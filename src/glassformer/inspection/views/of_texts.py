"""Views of what a model makes of texts: what it expects, what decided, how words stand to each other, its states."""

from dataclasses import replace

import numpy as np

from glassformer.config.errors import Misuse
from glassformer.families.base import Loaded
from glassformer.families.embedding import LoadedEmbedder
from glassformer.families.examples import encode_example
from glassformer.families.labelling import LoadedPredictor
from glassformer.families.language import LoadedLanguageModel
from glassformer.families.model_input import Example
from glassformer.families.translation import LoadedTranslator
from glassformer.inspection.attribution import (
    gradient_times_input,
    leave_one_out,
    score_in_words,
    translation_gradients,
)
from glassformer.inspection.attribution_view import decided_translation_view, decided_view
from glassformer.inspection.left_out import left_out_in_words
from glassformer.inspection.lens import lens_of, lens_view, next_of, next_view
from glassformer.inspection.merges import merges_view, pairs_view
from glassformer.inspection.nearest import neighbours_of, neighbours_view
from glassformer.inspection.pooled import pooled_of, pooled_view
from glassformer.inspection.positions import placed, position_vectors, positions_view
from glassformer.inspection.states import states_of, states_view
from glassformer.inspection.two_texts import Side, side_of, versus_runs_view, versus_view
from glassformer.inspection.views.request import LookRequest
from glassformer.inspection.word_in_context import find_word, word_vectors, word_view
from glassformer.models.seq2seq import Seq2Seq
from glassformer.rendering.panels import Gallery
from glassformer.rendering.view import View
from glassformer.tasks.answers import Classes
from glassformer.text.merging import learned_merges, merges_of
from glassformer.text.tokenizer import Tokenizer

POSITIONS_SHOWN = 64
LIKELIEST = 5


def lens(request: LookRequest) -> View:
    example = request.example
    seen = lens_of(request.model, example.inputs, answers=example.follows, never=request.never)
    return lens_view(
        example.written or example.tokens,
        seen.layers,
        seen.words(request.tokenizer.shown),
        seen.probabilities,
        example.answers,
        chances=seen.chances,
        entropy=seen.entropy,
        at=example.stand is not None,
    )


def next_tokens(request: LookRequest) -> View:
    found = next_of(request.model, request.example.inputs, never=request.never)
    words = [request.tokenizer.shown(id) for id in found.ids]
    return next_view(words, found.probabilities, entropy=found.entropy)


def decided(request: LookRequest) -> View:
    example, model = request.example, request.model
    how = left_out_in_words(model)
    if isinstance(model, Seq2Seq):
        assert example.answer_ids is not None
        of_source, of_written = translation_gradients(model, example.inputs, example.answer_ids)
        return decided_translation_view(
            example.tokens,
            example.answers or [],
            of_source,
            leave_one_out(model, example.inputs, example.answer_ids, stay=request.marks),
            answer=example.output,
            written=example.written or [],
            prefix=of_written,
            how=how,
        )
    which, answer, probability = _answer(request)
    view = decided_view(
        example.parts,
        gradient_times_input(model, example.inputs, which),
        leave_one_out(model, example.inputs, which, stay=request.marks),
        answer=answer,
        probability=probability,
        score=score_in_words(model, which, answer, against=_other(request.loaded, which)),
        how=how,
        grid=example.square,
    )
    if example.pixels is None:
        return view
    return replace(view, panels=[Gallery(images=[example.pixels], captions=[example.text]), *view.panels])


def _answer(request: LookRequest) -> tuple[int | None, str, float | None]:
    """What is explained: the class that a model says, its number, or the token that it expects next."""
    loaded = request.loaded
    if isinstance(loaded, LoadedPredictor):
        said = loaded.predict(request.text)
        if said.labels is not None and said.probabilities is not None:  # the likeliest is explained
            name = max(said.probabilities, key=said.probabilities.__getitem__)
            return list(said.probabilities).index(name), name, said.probabilities[name]
        if said.label is None or not isinstance(loaded.answers, Classes):
            return None, f"{said.value:.4g}", None
        return loaded.answers.names.index(said.label), said.label, said.probability
    found = next_of(request.model, request.example.inputs, most=1, never=request.never)
    token = request.tokenizer.shown(found.ids[0])
    return found.ids[0], token if token.strip() else repr(token), float(found.probabilities[0])


def _other(loaded: Loaded, which: int | None) -> str:
    """Of two classes that share one score, the other."""
    answers = getattr(loaded, "answers", None)
    if which is None or not isinstance(answers, Classes) or answers.outputs > 1:
        return ""
    return answers.names[1 - which]


def versus(request: LookRequest) -> View:
    if request.versus is None:
        raise Misuse('the view versus needs a second text: look RUN "A" --versus "B"')
    runs = [request.loaded, *([] if request.beside is None else [request.beside])]
    sides = [
        (
            str(one.run.path),
            _side(request, one, request.text, request.versus),
            _side(request, one, request.versus, request.text),
        )
        for one in runs
    ]
    if len(sides) == 1:
        return versus_view(*sides[0][1:])
    return versus_runs_view(sides)


def _side(request: LookRequest, loaded: Loaded, text: Example, other: Example) -> Side:
    """A text, and what a run says of it, beside the other."""
    example = encode_example(loaded, text, beam=request.beam, say=request.say)
    answers: dict[str, float] = {}
    alike = None
    if isinstance(loaded, LoadedTranslator):
        said = example.output
    elif isinstance(loaded, LoadedEmbedder):
        one, another = (found.vector for found in loaded.embed([str(text), str(other)]))
        alike = float(one @ another) / max(float(np.linalg.norm(one) * np.linalg.norm(another)), 1e-12)
        said = f"a vector (cosine to the other {alike:.3f})"
    elif isinstance(loaded, LoadedPredictor):
        found = loaded.predict(text)
        answers = found.probabilities or {}
        if found.labels is not None:
            said = "; ".join(found.labels) or "(none)"
        else:
            said = f"{found.value:.6g}" if found.label is None else f"{found.label} ({found.probability:.3f})"
    else:
        assert isinstance(loaded, LoadedLanguageModel)
        never = loaded.tokenizer.never(loaded.model.head.out_features)
        likely = next_of(loaded.model, example.inputs, most=LIKELIEST, never=never)
        names = [loaded.tokenizer.shown(id) for id in likely.ids]
        answers = dict(zip(names, map(float, likely.probabilities), strict=True))
        said = f"{names[0]} ({likely.probabilities[0]:.3f})"
    return side_of(
        loaded.model,
        example.inputs,
        text=str(text),
        tokens=example.tokens,
        ids=example.ids,
        answers=answers,
        said=said,
        alike=alike,
    )


def word(request: LookRequest) -> View:
    if request.word is None:
        raise Misuse('the view word needs a word: --word bank "by the bank" "at the bank"')
    if not request.texts:
        raise Misuse(f"--word {request.word} compares the word in several texts, and there are none")
    tokenizer = _read_with(request)
    sentences: list[str] = []
    vectors, layers = [], [""]
    for text, example in zip(request.texts, request.read_all(), strict=True):
        spans = find_word(request.word, str(text), tokenizer, example.ids)
        places = [(start + example.words.start, end + example.words.start) for start, end in spans]
        layers, found = word_vectors(request.model, example.inputs, places)
        sentences += [str(text)] * len(spans)
        vectors.append(found)
    return word_view(request.word, sentences, np.concatenate(vectors), layers)


def nearest(request: LookRequest) -> View:
    if not request.texts:
        raise Misuse("the view nearest needs words: glassformer look RUN good bad --view nearest")
    return neighbours_view([neighbours_of(request.model, _read_with(request), str(text)) for text in request.texts])


def positions(request: LookRequest) -> View:
    told = placed(request.model)
    assert told is not None
    found = position_vectors(told, min(POSITIONS_SHOWN, told.limit or POSITIONS_SHOWN))
    return positions_view(found.kind, found.vectors)


def merges(request: LookRequest) -> View:
    text, tokenizer = str(request.text), _read_with(request)
    return merges_view(text, merges_of(tokenizer, text), learned_merges(tokenizer))


def pairs(request: LookRequest) -> View:
    return pairs_view(request.example.tokens, between=" " if request.tokenizer.kind == "word" else "")


def states(request: LookRequest) -> View:
    """Of a translator, those of both sides."""
    example = request.example
    states = states_of(request.model, example.inputs)
    if not example.written:
        return states_view(example.tokens, states["encoder"])
    sides = [("Source", example.tokens, "encoder"), ("Target", example.written, "decoder")]
    views = [states_view(tokens, states[where], side=name) for name, tokens, where in sides]
    return View("States", [panel for view in views for panel in view.panels], " ".join(view.note for view in views))


def pooling(request: LookRequest) -> View:
    weights, how = pooled_of(request.model, request.example.inputs)
    return pooled_view(request.example.tokens, weights, how)


def _read_with(request: LookRequest) -> Tokenizer:
    assert request.loaded.tokenizer is not None
    return request.loaded.tokenizer
