"""Views of attention: where heads look, what they do, and what they are worth."""

from collections.abc import Iterable, Iterator

from glassformer.config.errors import Misuse
from glassformer.families.base import Loaded
from glassformer.families.examples import loss_on, validation_examples
from glassformer.families.model_input import ModelInput
from glassformer.inspection.attention import attention_of, sizes_of
from glassformer.inspection.attention_views import alignment_view, attention_view, patches_view
from glassformer.inspection.head_ablation import parse_heads, worth_of_heads, worth_view
from glassformer.inspection.links import link_scores, links_view, read_links
from glassformer.inspection.roles import Looked, head_roles, names_of, roles_view
from glassformer.inspection.views.request import LookRequest
from glassformer.rendering.panels import Heads, Panel
from glassformer.rendering.view import View

OF_ONE_TEXT = ("self", "source", "target")
"""Stacks in which the tokens of a text look at each other."""
OF_WHAT_IS_READ = ("self", "source")
"""Those among them whose text is the one given."""
HELD_OUT = 64
"""Texts of the validation part over which roles are measured."""


def attention(request: LookRequest) -> View:
    stacks = attention_of(request.model, request.example.inputs)
    return attention_view(stacks, request.example.sides, layer=request.layer, head=request.head, mode=request.mode)


def alignment(request: LookRequest) -> View:
    example = request.example
    weights = attention_of(request.model, example.inputs)["cross"]
    output, source = example.sides["cross"]
    how = {"layer": request.layer, "head": request.head}
    return alignment_view(weights, source, output, mode=request.mode, title=example.output, **how)


def patches(request: LookRequest) -> View:
    example = request.example
    assert example.pixels is not None
    assert example.grid is not None
    assert example.patches is not None
    some = slice(example.patches.start, example.patches.stop)
    weights = attention_of(request.model, example.inputs)["self"][:, :, some, some]
    return patches_view(example.pixels, weights, example.grid, layer=request.layer, head=request.head)


def roles(request: LookRequest) -> View:
    """Over the texts given, which are shown with what each head does, or over the validation part."""
    given = request.read_all()
    examples = given or validation_examples(request.loaded, HELD_OUT, request.say)
    stacks = [stack for stack in sizes_of(request.model) if stack in OF_ONE_TEXT]
    panels: list[Panel] = []
    notes = []
    for stack in stacks:
        found = head_roles(_looked(request.loaded, examples, stack))
        view = roles_view(found)
        notes.append(view.note if len(stacks) == 1 else f"{stack.capitalize()}: {view.note}")
        panels += view.panels
        if len(given) == 1:
            weights = attention_of(request.model, given[0].inputs)[stack]
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


def links(request: LookRequest) -> View:
    if request.links is None:
        raise Misuse("the view links needs links that somebody annotated: --links FILE")
    assert request.loaded.tokenizer is not None
    stack = next(stack for stack in sizes_of(request.model) if stack in OF_WHAT_IS_READ)
    linked = read_links(request.links)
    looked = _looked(request.loaded, (request.read(one.text) for one in linked), stack)
    return links_view(link_scores(zip(linked, looked, strict=True), request.loaded.tokenizer))


def worth(request: LookRequest) -> View:
    heads = None if request.without is None else parse_heads(request.without, sizes_of(request.model))
    loss, what = loss_on(request.loaded, request.read_all(), request.answer, request.say)
    return worth_view(worth_of_heads(loss, request.model, heads), what=what)


def _looked(loaded: Loaded, examples: Iterable[ModelInput], stack: str) -> Iterator[Looked]:
    return ((attention_of(loaded.model, example.inputs)[stack], _ids(example, stack)) for example in examples)


def _ids(example: ModelInput, stack: str) -> list[int]:
    """What tells tokens apart; those that are no words are all different."""
    if stack == "target":
        written = example.inputs[2]
        assert written is not None
        ids: list[int] = written[0].tolist()
        return ids
    others = len(example.tokens) - len(example.ids)
    return [*range(-others, 0), *example.ids]
