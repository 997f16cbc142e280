"""The views of a run, by name: which it has, and how each is made of what was asked."""

from collections.abc import Callable, Sequence

import numpy as np
import torch

from glassformer.bricks.recurrent import Recurrent
from glassformer.config.errors import Misuse
from glassformer.config.views import VIEWS
from glassformer.encoders.convolutional import CnnEncoder
from glassformer.inside.attention import attention_of, sizes_of
from glassformer.inside.attention_views import alignment_view, attention_view, patches_view
from glassformer.inside.attribution import gradient_times_input, leave_one_out, score_in_words, translation_gradients
from glassformer.inside.capture import capture
from glassformer.inside.decided import decided_translation_view, decided_view
from glassformer.inside.left_out import left_out_in_words
from glassformer.inside.lens import lens_of, lens_view, next_of, next_view
from glassformer.inside.links import link_scores, links_view, read_links
from glassformer.inside.merges import merges_view, pairs_view
from glassformer.inside.nearest import neighbours_of, neighbours_view
from glassformer.inside.pooled import pooled_of, pooled_view
from glassformer.inside.positions import placed, position_vectors, positions_view
from glassformer.inside.roles import Looked, head_roles, roles_view
from glassformer.inside.states import SEEN, states_of, states_view
from glassformer.inside.versus import Side, side_of, versus_runs_view, versus_view
from glassformer.inside.view import View
from glassformer.inside.word_in_context import find_word, word_vectors, word_view
from glassformer.inside.worth import parse_heads, worth_of_heads, worth_view
from glassformer.models.reader import BagReader, Reader
from glassformer.models.seq2seq import Seq2Seq
from glassformer.runs import history
from glassformer.tasks.answers import Classes
from glassformer.text.merging import merges_of
from glassformer.verbs.asked import Asked
from glassformer.verbs.given import Given, given
from glassformer.verbs.learning import learning
from glassformer.verbs.load import AnyLoaded, LoadedPredictor, LoadedTranslator, LoadedWriter
from glassformer.verbs.own_part import examples_of, loss_on
from glassformer.verbs.predict import Example
from glassformer.verbs.report import report
from glassformer.verbs.walk import step, walk_through

OF_ONE_TEXT = ("self", "source", "target")
"""Stacks in which the tokens of a text look at each other."""
POSITIONS_SHOWN = 64
HELD_OUT = 64
"""Texts of the validation part over which roles are measured."""


# --- attention ---


def attention(asked: Asked) -> View:
    stacks = attention_of(asked.model, asked.given.inputs)
    return attention_view(stacks, asked.given.sides, layer=asked.layer, head=asked.head, mode=asked.mode or "heat")


def alignment(asked: Asked) -> View:
    example = asked.given
    weights = attention_of(asked.model, example.inputs)["cross"]
    source, output = example.tokens, example.answers or []
    return alignment_view(weights, source, output, layer=asked.layer, head=asked.head, title=example.output)


def patches(asked: Asked) -> View:
    example = asked.given
    assert example.pixels is not None
    assert example.grid is not None
    assert example.patches is not None
    some = slice(example.patches.start, example.patches.stop)
    weights = attention_of(asked.model, example.inputs)["self"][:, :, some, some]
    return patches_view(example.pixels, weights, example.grid, layer=asked.layer, head=asked.head)


def _has_patches(loaded: AnyLoaded) -> bool:
    embed = getattr(loaded.model, "embed", None)
    return bool(sizes_of(loaded.model)) and getattr(getattr(embed, "image", embed), "cut", None) is not None


def _has_attention(loaded: AnyLoaded) -> bool:
    return bool(sizes_of(loaded.model))


# --- what heads do ---


def _looked(loaded: AnyLoaded, examples: Sequence[Given], stack: str) -> list[Looked]:
    return [(attention_of(loaded.model, example.inputs)[stack], _ids(example, stack)) for example in examples]


def _ids(example: Given, stack: str) -> list[int]:
    """What tells tokens apart; those that are no words are all different."""
    if stack == "target":
        written = example.inputs[2]
        assert written is not None
        ids: list[int] = written[0].tolist()
        return ids
    others = len(example.tokens) - len(example.ids)
    return [*range(-others, 0), *example.ids]


def roles(asked: Asked) -> View:
    examples = asked.read_all() or examples_of(asked.loaded, HELD_OUT, asked.say)
    stacks = [stack for stack in sizes_of(asked.model) if stack in OF_ONE_TEXT]
    views = [roles_view(head_roles(_looked(asked.loaded, examples, stack))) for stack in stacks]
    if len(views) == 1:
        return views[0]
    panels = [panel for view in views for panel in view.panels]
    return View(
        views[0].title, panels, " ".join(f"{name}: {one.note}" for name, one in zip(stacks, views, strict=True))
    )


def _has_roles(loaded: AnyLoaded) -> bool:
    return any(stack in OF_ONE_TEXT for stack in sizes_of(loaded.model))


def links(asked: Asked) -> View:
    if asked.links is None:
        raise Misuse("the view links needs links that somebody annotated: --links FILE")
    assert asked.loaded.tokenizer is not None
    stack = next(stack for stack in sizes_of(asked.model) if stack in OF_ONE_TEXT)
    linked = read_links(asked.links)
    examples = [asked.read(one.text) for one in linked]
    looked = _looked(asked.loaded, examples, stack)
    return links_view(link_scores(zip(linked, looked, strict=True), asked.loaded.tokenizer))


def worth(asked: Asked) -> View:
    heads = None if asked.without is None else parse_heads(asked.without, sizes_of(asked.model))
    loss, what = loss_on(asked.loaded, asked.read_all(), asked.say)
    return worth_view(worth_of_heads(loss, asked.model, heads), what=what)


# --- what it expects ---


def lens(asked: Asked) -> View:
    example = asked.given
    follows = [*(example.answer_ids or []), *([] if example.written else [None])]
    seen = lens_of(asked.model, example.inputs, answers=follows)
    return lens_view(
        example.written or example.tokens,
        seen.layers,
        seen.words(asked.tokenizer.shown),
        seen.probabilities,
        example.answers,
        chances=seen.chances,
        entropy=seen.entropy,
    )


def next_tokens(asked: Asked) -> View:
    found = next_of(asked.model, asked.given.inputs)
    words = [asked.tokenizer.shown(id) for id in found.ids]
    return next_view(words, found.probabilities, entropy=found.entropy)


# --- words ---


def word(asked: Asked) -> View:
    if asked.word is None:
        raise Misuse('the view word needs a word: --word bank "by the bank" "at the bank"')
    if isinstance(asked.model, BagReader):
        raise Misuse("a bag of words has one vector for a word, whatever stands around it")
    if len(asked.texts) < 2:
        raise Misuse(f"--word compares a word in several texts, and there {'is one' if asked.texts else 'are none'}")
    assert asked.loaded.tokenizer is not None
    sentences, vectors, layers = [], [], []
    for text, example in zip(asked.texts, asked.read_all(), strict=True):
        spans = find_word(asked.word, str(text), asked.loaded.tokenizer, example.ids)
        places = [(start + example.words.start, end + example.words.start) for start, end in spans]
        names, found = word_vectors(asked.model, example.inputs, places)
        layers = names
        sentences += [str(text)] * len(spans)
        vectors.append(found)
    return word_view(asked.word, sentences, np.concatenate(vectors), layers)


def _has_words(loaded: AnyLoaded) -> bool:
    return loaded.tokenizer is not None


def nearest(asked: Asked) -> View:
    if not asked.texts:
        raise Misuse("the view nearest needs words: glassformer look RUN good bad --view nearest")
    assert asked.loaded.tokenizer is not None
    tokenizer = asked.loaded.tokenizer
    return neighbours_view([neighbours_of(asked.model, tokenizer, str(text)) for text in asked.texts])


def positions(asked: Asked) -> View:
    told = placed(asked.model)
    assert told is not None
    found = position_vectors(told, min(POSITIONS_SHOWN, told.limit or POSITIONS_SHOWN))
    return positions_view(found.kind, found.vectors)


def merges(asked: Asked) -> View:
    assert asked.loaded.tokenizer is not None
    text = str(asked.text)
    return merges_view(text, merges_of(asked.loaded.tokenizer, text), asked.loaded.tokenizer.merges)


def pairs(asked: Asked) -> View:
    return pairs_view(asked.given.tokens, between=" " if asked.tokenizer.kind == "word" else "")


# --- why ---


def decided(asked: Asked) -> View:
    example, model, loaded = asked.given, asked.model, asked.loaded
    how = left_out_in_words(model)
    if isinstance(loaded, LoadedTranslator):
        assert isinstance(model, Seq2Seq)
        assert example.answer_ids is not None
        given, written = translation_gradients(model, example.inputs, example.answer_ids)
        lost = leave_one_out(model, example.inputs, example.answer_ids, stay=asked.stay)
        return decided_translation_view(
            example.tokens,
            example.answers or [],
            given,
            lost,
            answer=example.output,
            written=example.written or [],
            prefix=written,
            how=how,
        )
    which, answer, probability = _answer(asked)
    return decided_view(
        example.parts,
        gradient_times_input(model, example.inputs, which),
        leave_one_out(model, example.inputs, which, stay=asked.stay),
        answer=answer,
        probability=probability,
        score=score_in_words(model, which, answer),
        how=how,
        grid=example.square,
    )


def _answer(asked: Asked) -> tuple[int | None, str, float | None]:
    """What is explained: the class that a model says, its number, or the token that it expects next."""
    loaded = asked.loaded
    if isinstance(loaded, LoadedPredictor):
        said = loaded.predict(asked.text)
        if said.label is None or not isinstance(loaded.answers, Classes):
            return None, f"{said.value:.4g}", None
        return loaded.answers.names.index(said.label), said.label, said.probability
    found = next_of(asked.model, asked.given.inputs, most=1)
    return found.ids[0], asked.tokenizer.shown(found.ids[0]), float(found.probabilities[0])


def versus(asked: Asked) -> View:
    if asked.versus is None:
        raise Misuse('the view versus needs a second text: look RUN "A" --versus "B"')
    runs = [asked.loaded, *([] if asked.beside is None else [asked.beside])]
    sides = [(str(one.run.path), _side(asked, one, asked.text), _side(asked, one, asked.versus)) for one in runs]
    if len(sides) == 1:
        return versus_view(*sides[0][1:])
    return versus_runs_view(sides)


def _side(asked: Asked, loaded: AnyLoaded, text: Example) -> Side:
    example = given(loaded, text, beam=asked.beam, say=asked.say)
    answers: dict[str, float]
    if isinstance(loaded, LoadedPredictor):
        said = loaded.predict(text)
        answers = said.probabilities or {"number": said.value or 0.0}
    elif isinstance(loaded, LoadedTranslator):
        best = loaded.translate(str(text), beam=asked.beam).best[0]
        answers = {best.text: float(torch.tensor(best.score).exp())}
    else:
        found = next_of(loaded.model, example.inputs, most=5)
        answers = dict(zip(map(loaded.tokenizer.shown, found.ids), map(float, found.probabilities), strict=True))
    return side_of(loaded.model, example.inputs, text=str(text), tokens=example.tokens, answers=answers)


# --- inside ---


def states(asked: Asked) -> View:
    example = asked.given
    with torch.inference_mode(), capture(asked.model, SEEN) as seen:
        asked.model(*example.inputs)
    layers = [(example.tokens, states_of(seen, "encoder"))]
    if example.written:
        layers.append((example.written, states_of(seen, "decoder")))
    views = [states_view(tokens, found) for tokens, found in layers if found]
    return View(views[0].title, [panel for view in views for panel in view.panels], views[0].note)


def _has_states(loaded: AnyLoaded) -> bool:
    return any(isinstance(module, Recurrent | CnnEncoder) for module in loaded.model.modules())


def pooling(asked: Asked) -> View:
    weights, how = pooled_of(asked.model, asked.given.inputs)
    return pooled_view(asked.given.tokens, weights, how)


MAKERS: dict[str, Callable[[Asked], View]] = {
    "attention": attention,
    "alignment": alignment,
    "patches": patches,
    "lens": lens,
    "next": next_tokens,
    "decided": decided,
    "states": states,
    "pooling": pooling,
    "numbers": walk_through,
    "step": step,
    "roles": roles,
    "links": links,
    "worth": worth,
    "word": word,
    "nearest": nearest,
    "versus": versus,
    "positions": positions,
    "merges": merges,
    "pairs": pairs,
    "learning": lambda asked: learning(asked.loaded, asked.text, say=asked.say),
    "report": lambda asked: report(asked.loaded.run, say=asked.say),
}

NEEDS: dict[str, Callable[[AnyLoaded], bool]] = {
    "attention": _has_attention,
    "alignment": lambda loaded: "cross" in sizes_of(loaded.model),
    "patches": _has_patches,
    "lens": lambda loaded: not isinstance(loaded, LoadedPredictor),
    "next": lambda loaded: isinstance(loaded, LoadedWriter),
    "states": _has_states,
    "pooling": lambda loaded: isinstance(loaded.model, Reader),
    "roles": _has_roles,
    "links": _has_roles,
    "worth": _has_attention,
    "word": _has_words,
    "nearest": _has_words,
    "positions": lambda loaded: placed(loaded.model) is not None,
    "merges": lambda loaded: loaded.tokenizer is not None and loaded.tokenizer.kind == "bpe",
    "pairs": lambda loaded: isinstance(loaded, LoadedWriter),
    "learning": lambda loaded: bool(history.steps_of(loaded.run)),
}
"""What a run must be, for a view that not every run has."""


def views_of(loaded: AnyLoaded) -> list[str]:
    """Those that a run has."""
    return [name for name in VIEWS if name not in NEEDS or NEEDS[name](loaded)]
