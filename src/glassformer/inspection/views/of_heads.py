"""Views of attention: where heads look, what they do, and what they are worth."""

from collections.abc import Iterable, Iterator

from glassformer.config.errors import Misuse
from glassformer.families.held_out import examples_of, loss_on
from glassformer.families.load import AnyLoaded
from glassformer.families.model_input import Given
from glassformer.inspection.attention import attention_of, sizes_of
from glassformer.inspection.attention_views import alignment_view, attention_view, patches_view
from glassformer.inspection.head_ablation import parse_heads, worth_of_heads, worth_view
from glassformer.inspection.links import link_scores, links_view, read_links
from glassformer.inspection.roles import Looked, head_roles, names_of, roles_view
from glassformer.inspection.views.request import Asked
from glassformer.rendering.panels import Heads, Panel
from glassformer.rendering.view import View

OF_ONE_TEXT = ("self", "source", "target")
"""Stacks in which the tokens of a text look at each other."""
OF_WHAT_IS_READ = ("self", "source")
"""Those among them whose text is the one given."""
HELD_OUT = 64
"""Texts of the validation part over which roles are measured."""


def attention(asked: Asked) -> View:
    stacks = attention_of(asked.model, asked.given.inputs)
    return attention_view(stacks, asked.given.sides, layer=asked.layer, head=asked.head, mode=asked.mode)


def alignment(asked: Asked) -> View:
    example = asked.given
    weights = attention_of(asked.model, example.inputs)["cross"]
    output, source = example.sides["cross"]
    how = {"layer": asked.layer, "head": asked.head}
    return alignment_view(weights, source, output, mode=asked.mode, title=example.output, **how)


def patches(asked: Asked) -> View:
    example = asked.given
    assert example.pixels is not None
    assert example.grid is not None
    assert example.patches is not None
    some = slice(example.patches.start, example.patches.stop)
    weights = attention_of(asked.model, example.inputs)["self"][:, :, some, some]
    return patches_view(example.pixels, weights, example.grid, layer=asked.layer, head=asked.head)


def roles(asked: Asked) -> View:
    """Over the texts given, which are shown with what each head does, or over the validation part."""
    given = asked.read_all()
    examples = given or examples_of(asked.loaded, HELD_OUT, asked.say)
    stacks = [stack for stack in sizes_of(asked.model) if stack in OF_ONE_TEXT]
    panels: list[Panel] = []
    notes = []
    for stack in stacks:
        found = head_roles(_looked(asked.loaded, examples, stack))
        view = roles_view(found)
        notes.append(view.note if len(stacks) == 1 else f"{stack.capitalize()}: {view.note}")
        panels += view.panels
        if len(given) == 1:
            weights = attention_of(asked.model, given[0].inputs)[stack]
            rows, columns = given[0].sides[stack]
            panels.append(
                Heads(
                    title="In this text",
                    weights=weights,
                    rows=rows,
                    columns=columns,
                    names=names_of(found),
                    mode="all",
                )
            )
    return View("What each head does", panels, " ".join(notes))


def links(asked: Asked) -> View:
    if asked.links is None:
        raise Misuse("the view links needs links that somebody annotated: --links FILE")
    assert asked.loaded.tokenizer is not None
    stack = next(stack for stack in sizes_of(asked.model) if stack in OF_WHAT_IS_READ)
    linked = read_links(asked.links)
    looked = _looked(asked.loaded, (asked.read(one.text) for one in linked), stack)
    return links_view(link_scores(zip(linked, looked, strict=True), asked.loaded.tokenizer))


def worth(asked: Asked) -> View:
    heads = None if asked.without is None else parse_heads(asked.without, sizes_of(asked.model))
    loss, what = loss_on(asked.loaded, asked.read_all(), asked.answer, asked.say)
    return worth_view(worth_of_heads(loss, asked.model, heads), what=what)


def _looked(loaded: AnyLoaded, examples: Iterable[Given], stack: str) -> Iterator[Looked]:
    return ((attention_of(loaded.model, example.inputs)[stack], _ids(example, stack)) for example in examples)


def _ids(example: Given, stack: str) -> list[int]:
    """What tells tokens apart; those that are no words are all different."""
    if stack == "target":
        written = example.inputs[2]
        assert written is not None
        ids: list[int] = written[0].tolist()
        return ids
    others = len(example.tokens) - len(example.ids)
    return [*range(-others, 0), *example.ids]
