"""Registry of the views of a run: the request, the requirements of each view and the function that makes it."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property, partial, wraps
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

from numpy.typing import ArrayLike
from torch import nn

from glassformer.config.errors import GlassformerError, Misuse, unknown
from glassformer.config.plugins import note_part
from glassformer.config.presets import IMAGE
from glassformer.config.sentences import sentence as read_sentence
from glassformer.config.sentences import sentences
from glassformer.config.views import ALL, OPTIONS, OWN_VIEWS, VIEWS, LookOptions
from glassformer.decoding.options import Sampling, Search
from glassformer.families.base import Loaded
from glassformer.families.evaluate import encode_example
from glassformer.families.requests import Example, ModelInput
from glassformer.models.capabilities import ScoresTokens
from glassformer.rendering.takeaways import leading
from glassformer.rendering.view import View
from glassformer.text.tokenizer import Tokenizer

OTHER_MODULES = ("inspection.numbers.training", "inspection.numbers.walk", "reporting.report")
"""Modules outside this folder that register views."""

sentence = partial(read_sentence, __name__)
"""Return a sentence from `sentences.toml`, with facts filled in."""


def wording(name: str) -> Any:
    """Return a table of `sentences.toml`."""
    return sentences(__name__)[name]


def leader(name: str, names: Sequence[str], values: ArrayLike, **facts: object) -> str:
    """Return a sentence about the largest of several values; `name` is its wording in `sentences.toml`."""
    return leading(names, values, wording(name), **facts)


HEADS = ("layer", "head", "mode")
"""Options of views that show attention."""
DECODING = ("translation", "beam")
"""Options of views that show a translation: the given translation, or the beam of the search for one."""


@dataclass(frozen=True, kw_only=True)
class LookRequest(LookOptions):
    """A request for a view: a run, some texts, and options."""

    loaded: Loaded
    texts: Sequence[Example]
    second_run: Loaded | None = None

    @property
    def model(self) -> nn.Module:
        return self.loaded.model

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer of the output, or of the input if the model has only one."""
        return self.loaded.output_tokenizer

    @property
    def source_tokenizer(self) -> Tokenizer:
        """The tokenizer of the input."""
        assert self.loaded.tokenizer is not None
        return self.loaded.tokenizer

    @property
    def text(self) -> Example:
        """The text of a view that takes exactly one; raises `Misuse` if there are none or several."""
        if not self.texts:
            if self.loaded.config.data.kind == IMAGE:
                raise Misuse("there is no image to look at: glassformer look RUN IMAGE.png")
            raise Misuse('there is no text to look at: glassformer look RUN "a text"')
        if len(self.texts) > 1:
            raise Misuse(f"this view is of one text, and there are {len(self.texts)}: put quotes around it")
        return self.texts[0]

    @property
    def search(self) -> Search:
        """The beam search for a translation."""
        return Search(Search.beam if self.beam is None else self.beam, self.length_penalty)

    @property
    def sampling(self) -> Sampling:
        return Sampling(1.0 if self.temperature is None else self.temperature, self.top_k, self.top_p)

    @property
    def asks_for_sampling(self) -> bool:
        return any(value is not None for value in (self.temperature, self.top_k, self.top_p, self.samples))

    @cached_property
    def example(self) -> ModelInput:
        return self.encode(self.text)

    def encode(self, text: Example) -> ModelInput:
        return encode_example(self.loaded, text, target=self.translation, beam=self.search.beam)

    def encode_all(self) -> list[ModelInput]:
        return [self.encode(text) for text in self.texts]

    @property
    def marks(self) -> set[int]:
        """The ids of START and END; empty without a tokenizer."""
        tokenizer = self.loaded.tokenizer
        return set() if tokenizer is None else set(tokenizer.roles.marks)

    @property
    def never(self) -> set[int]:
        """Ids that are not an answer: special tokens except END, and rows of the head without a token."""
        model = self.loaded.capability(ScoresTokens)
        assert model is not None
        return set(self.tokenizer.never(model.head.out_features))


MakeView = Callable[[LookRequest], View]


@dataclass(frozen=True, kw_only=True)
class ViewKind:
    """A kind of view: its description, options and requirements, and the function that makes it."""

    make: MakeView
    shows: str
    """Short description of the view."""
    options: tuple[str, ...] = ()
    """Fields of `LookOptions` that the view uses."""
    texts: str = "one"
    """Number of texts: `one`, `several`, `none`, or `any` (without a text, some views use the validation set)."""
    quick: bool = False
    """Whether the view takes one text and little time; the page of all views includes it then."""
    needs: Callable[[Loaded], bool] = lambda loaded: True
    """Function that returns whether a run has the view."""
    otherwise: str = ""
    """Message for a run without the view; if it is empty, the message lists the views that the run has."""


_REGISTERED: dict[str, ViewKind] = {}


def register_view(name: str, **facts: Any) -> Callable[[MakeView], MakeView]:
    """Return a decorator that registers a function as a view: `gf.look(run, view=name)` calls the function.

    `facts` are fields of `ViewKind`. Views of users need at least `shows`, a short description. The descriptions of the
    views of this package are in `config.views`.
    """
    own = "shows" in facts
    if own or name not in VIEWS:
        _check_own(name, facts)

    def register(make: MakeView) -> MakeView:
        if name in _REGISTERED and _origin(_REGISTERED[name].make) != _origin(make):
            raise ValueError(f"there is a view {name} already: choose another name")
        kind = ViewKind(make=make, **{"shows": VIEWS.get(name), **facts})
        if own:
            OWN_VIEWS[name] = kind.shows
            kind = replace(kind, make=_guarded(name, make), needs=_guarded(name, kind.needs))
        _REGISTERED[name] = kind
        note_part("view", name, make)
        return make

    return register


def _origin(function: Callable[..., Any]) -> tuple[str, str]:
    """Return the module and the qualified name of a function.

    A notebook cell or a file that runs again defines the same function, which may replace the earlier one.
    """
    return function.__module__, getattr(function, "__qualname__", type(function).__qualname__)


def _check_own(name: str, facts: Mapping[str, Any]) -> None:
    """Raise `ValueError` if the name or the facts of a user's own view are invalid."""
    if not isinstance(name, str) or not re.fullmatch(r"[\w-]+", name):
        raise ValueError(f"a view's name is letters, digits, - and _, not {name!r}")
    if "shows" not in facts:
        raise ValueError(f"register_view('{name}') needs shows=…: what does one see?")
    known = [field.name for field in fields(ViewKind) if field.name != "make"]
    for fact in facts:
        if fact not in known:
            raise ValueError(f"register_view('{name}'): {unknown('fact', fact, known)}")
    for option in facts.get("options", ()):
        if option not in OPTIONS:
            raise ValueError(f"look has no option {option} (it has {', '.join(OPTIONS)})")
    if name in (ALL, *VIEWS):
        raise ValueError(f"there is a view {name} already: choose another name")


def _guarded(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of a user's own view that turns its errors into a line that names the view."""

    @wraps(function)
    def guarded(argument: Any) -> Any:
        try:
            return function(argument)
        except GlassformerError:
            raise
        except Exception as error:
            message = " ".join(str(error).split())
            raise GlassformerError(f"the view {name} failed: {type(error).__name__}: {message}") from error

    return guarded


def all_views() -> dict[str, ViewKind]:
    """Return the views of the package in the order of `config.views`, then views that users registered."""
    folder = __name__.rpartition(".")[0]
    for module in iter_modules([str(Path(__file__).parent)], f"{folder}."):
        import_module(module.name)
    for name in OTHER_MODULES:
        import_module(f"glassformer.{name}")
    return {name: _REGISTERED[name] for name in dict.fromkeys([*VIEWS, *_REGISTERED])}


def views_of(loaded: Loaded) -> list[str]:
    """Return the names of the views that a run has."""
    return [name for name, view in all_views().items() if view.needs(loaded)]
