"""An exercise: what a student defines, what it is held against, and the mistakes that are known.

Nothing here runs a student's code: it is asked for through a `Student`, which may live in another process.
"""

import contextlib
import math
import sys
import tomllib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.resources import files
from typing import Any, Concatenate, ParamSpec, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from glassformer.config.errors import Misuse, error_line
from glassformer.config.sentences import sentences
from glassformer.data.wording import counted

TOLERANCE = 1e-5
"""How far apart numbers may be, as a share of the largest."""


class StudentError(Exception):
    """What a student's code did instead of an answer, in one line."""


class Student(Protocol):
    """What a student has defined. Values are tensors, numbers, texts, None, and lists, tuples and dicts of them."""

    def value(self, name: str) -> Any:
        """A name's value."""

    def call(self, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """What a function gives."""

    def run_module(
        self, name: str, build: Mapping[str, Any], weights: Mapping[str, Tensor], args: tuple[Any, ...], learn: bool
    ) -> Any:
        """What a module of this class with these weights gives; to `learn`: a dict of its `output`, and of the
        gradients of the output's sum of squares by its weights (`weights`) and its first argument (`input`).
        """


@dataclass(frozen=True)
class Mistake:
    """What many get wrong, recognised by computing it."""

    hint: str
    """For the student: one sentence."""
    wrong: Callable[..., Any]
    """What one gets who makes it: takes what the reference takes; of a module, a class like the reference."""


def known_mistakes(reference: Callable[..., Any]) -> list[Mistake]:
    """Return the mistakes that a reference can make, with their hints from the `sentences.toml` beside it.

    A function takes the name of a mistake as `mistake=`; of a class, a subclass has it as its attribute `mistake`.
    """
    prefix, out = f"{reference.__name__}: ", list[Mistake]()
    for key, hint in sentences(reference.__module__).items():
        if key.startswith(prefix):
            name = key.removeprefix(prefix)
            if isinstance(reference, type):
                out.append(Mistake(hint, type(reference.__name__, (reference,), {"mistake": name})))
            else:
                out.append(Mistake(hint, partial(reference, mistake=name)))
    return out


Args = Callable[[torch.Generator], tuple[Any, ...]]
P = ParamSpec("P")


def normal(*shapes: tuple[int, ...], scale: float = 1.0) -> Args:
    """Return arguments that are drawn: for each shape a tensor of normal numbers, times `scale`."""
    return lambda chance: tuple(scale * torch.randn(shape, generator=chance) for shape in shapes)


def drawn(draw: Callable[Concatenate[torch.Generator, P], tuple[Any, ...]]) -> Callable[P, Args]:
    """Decorate a function that draws arguments with a generator: a call with its other parameters returns `Args`."""
    return lambda *args, **kwargs: lambda chance: draw(chance, *args, **kwargs)


@dataclass(frozen=True)
class Case:
    """One try of a function or a module."""

    what: str
    """What it shows, such as `the future is hidden`."""
    args: Args
    """What it is called with; each grading draws others."""
    points: float = 1
    visible: bool = True
    """Whether students can run it themselves; others are for grading alone."""
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    build: Mapping[str, Any] = field(default_factory=dict)
    """Of a module: what it is built with."""
    learn: bool = False
    """Of a module: whether its gradients are compared too."""


@dataclass(frozen=True)
class Item:
    """What a student got for one case."""

    name: str
    points: float
    out_of: float
    line: str = ""
    """What is wrong, and the likely reason."""
    visible: bool = True


@dataclass(frozen=True)
class Exercise(ABC):
    """One name that the student defines."""

    name: str

    @abstractmethod
    def items(self, student: Student, *, seed: int = 0, visible: bool = True, hidden: bool = False) -> list[Item]:
        """Return an item for each case: for the visible ones, the hidden ones, or both. `seed`: of the drawn inputs."""

    @property
    @abstractmethod
    def points(self) -> float:
        """What there is to be had."""

    @abstractmethod
    def unseen(self) -> "Exercise":
        """The same, and students see nothing of it."""


@dataclass(frozen=True)
class ExerciseByCases(Exercise):
    """An exercise by cases."""

    reference: Callable[..., Any]
    cases: Sequence[Case]
    mistakes: Sequence[Mistake] = ()
    tolerance: float = TOLERANCE

    @property
    def points(self) -> float:
        return sum(case.points for case in self.cases)

    def unseen(self) -> "ExerciseByCases":
        return replace(self, cases=[replace(case, visible=False) for case in self.cases])

    def items(self, student: Student, *, seed: int = 0, visible: bool = True, hidden: bool = False) -> list[Item]:
        tries = [self._try(student, case, seed) for case in self.cases if (visible if case.visible else hidden)]
        explaining = [mistake for _, mistakes in tries for mistake in mistakes]
        return [
            replace(item, line=f"{item.line}; {max(mistakes, key=explaining.count).hint}")
            if item.line and mistakes
            else item
            for item, mistakes in tries
        ]

    def _try(self, student: Student, case: Case, seed: int) -> tuple[Item, list[Mistake]]:
        """Return the item of a case, and the mistakes that give just what the student has. A mistake that changes
        nothing here gives what is right.
        """
        item = Item(f"{self.name}: {case.what}", 0, case.points, visible=case.visible)
        try:
            case_args = case.args(torch.Generator().manual_seed(seed))
            expected = self._compute(self.reference, case, case_args, seed)
        except Exception as error:
            raise Misuse(f'the exercise {self.name} itself fails, case "{case.what}": {error_line(error)}') from error
        try:
            given = self._ask(student, case, case_args, seed)
        except StudentError as error:
            return replace(item, line=str(error)), []
        line = difference(expected, given, self.tolerance)
        explaining = []
        for mistake in self.mistakes:
            with contextlib.suppress(Exception):  # it cannot be made here
                wrong = self._compute(mistake.wrong, case, case_args, seed)
                if difference(wrong, given, self.tolerance) is None:
                    explaining.append(mistake)
        return replace(item, points=case.points if line is None else 0, line=line or ""), explaining

    @abstractmethod
    def _compute(self, function: Callable[..., Any], case: Case, args: tuple[Any, ...], seed: int) -> Any:
        """What the reference, or a mistake, gives."""

    @abstractmethod
    def _ask(self, student: Student, case: Case, args: tuple[Any, ...], seed: int) -> Any: ...


@dataclass(frozen=True)
class Function(ExerciseByCases):
    """A function is to be written."""

    def _compute(self, function: Callable[..., Any], case: Case, args: tuple[Any, ...], seed: int) -> Any:
        return function(*args, **case.kwargs)

    def _ask(self, student: Student, case: Case, args: tuple[Any, ...], seed: int) -> Any:
        return student.call(self.name, args, case.kwargs)


@dataclass(frozen=True)
class Module(ExerciseByCases):
    """A class of modules is to be completed. Its weights have the names that the reference's have."""

    def _compute(self, function: Callable[..., Any], case: Case, args: tuple[Any, ...], seed: int) -> Any:
        module = function(**case.build)
        module.load_state_dict(self._weights(case, seed))
        return run_module(module, args, learn=case.learn)

    def _ask(self, student: Student, case: Case, args: tuple[Any, ...], seed: int) -> Any:
        return student.run_module(self.name, case.build, self._weights(case, seed), args, case.learn)

    def _weights(self, case: Case, seed: int) -> dict[str, Tensor]:
        """Drawn, none of them 0 or 1 by chance."""
        drawn = torch.Generator().manual_seed(seed + 1)
        shapes = self.reference(**case.build).state_dict()
        return {name: torch.randn(weight.shape, generator=drawn) * 0.5 for name, weight in shapes.items()}


def run_module(module: nn.Module, args: tuple[Any, ...], *, learn: bool) -> Any:
    """What a module gives without dropout, and to `learn` its gradients."""
    module.eval()
    if not learn:
        with torch.no_grad():
            return module(*args)
    first, *others = args
    if isinstance(first, Tensor) and first.is_floating_point():
        first = first.clone().requires_grad_()
    output = module(first, *others)
    output.square().sum().backward()
    by_name = {name: weight.grad for name, weight in module.named_parameters()}
    return {"output": output.detach(), "input": getattr(first, "grad", None), "weights": by_name}


@dataclass(frozen=True)
class Answer(Exercise):
    """A number, a word or a list is to be found and given a name."""

    right: Callable[[Any], bool]
    says: str
    """What is asked for, such as `the head that finds the pronoun's noun, as (layer, head)`."""
    worth: float = 1
    hints: Sequence[tuple[Callable[[Any], bool], str]] = ()
    """Wrong answers that are known, and what to say of them."""
    visible: bool = True

    @property
    def points(self) -> float:
        return self.worth

    def unseen(self) -> "Answer":
        return replace(self, visible=False)

    def items(self, student: Student, *, seed: int = 0, visible: bool = True, hidden: bool = False) -> list[Item]:
        item = Item(self.name, 0, self.worth, visible=self.visible)
        if not (visible if self.visible else hidden):
            return []
        try:
            value = student.value(self.name)
        except StudentError as error:
            return [replace(item, line=str(error))]
        if _holds(self.right, value):
            return [replace(item, points=self.worth)]
        if value is None or (isinstance(value, list | tuple) and all(part is None for part in value)):
            return [replace(item, line=f"is still to be found: {self.says}")]
        hint = next((f"; {hint}" for holds, hint in self.hints if _holds(holds, value)), "")
        return [replace(item, line=f"{_value_text(value)} is not {self.says}{hint}")]


def exercise(
    reference: Callable[..., Any], *cases: Case, mistakes: Sequence[Mistake] = (), tolerance: float = TOLERANCE
) -> ExerciseByCases:
    """Return the exercise to write a function or module like the reference, under its name.

    `mistakes`: more than those that the reference itself can make.
    """
    kind = Module if isinstance(reference, type) else Function
    return kind(reference.__name__, reference, cases, [*known_mistakes(reference), *mistakes], tolerance)


def answer(module: str, name: str) -> Answer:
    """Return the exercise to answer a question of a lesson. `module`: the one beside whose `answers.toml` it is."""
    package, _, lesson = module.rpartition(".")
    questions = tomllib.loads(files(package).joinpath("answers.toml").read_text("utf-8"))
    asked = questions[lesson][name]
    hints = [(_accepts(hint["wrong"], hint.get("within")), hint["says"]) for hint in asked["hints"]]
    return Answer(name, _accepts(asked["right"], asked.get("within")), asked["says"], asked.get("worth", 1), hints)


def _accepts(expected: Any, within: float | None) -> Callable[[Any], bool]:
    return equals(expected) if within is None else near(expected, within)


def near(expected: float, within: float) -> Callable[[Any], bool]:
    """Whether a number is so near."""
    return lambda value: not isinstance(value, bool) and abs(float(value) - expected) <= within


def equals(expected: Any) -> Callable[[Any], bool]:
    """Whether it is this; a list may stand for a tuple."""
    return lambda value: difference(expected, value, TOLERANCE) is None


def _holds(test: Callable[[Any], bool], value: Any) -> bool:
    try:
        return bool(test(value))
    except Exception:  # it is of another kind
        return False


# --- what is different ---


def difference(expected: Any, given: Any, tolerance: float) -> str | None:
    """The first place where two values differ, in one line; None: nowhere. What NumPy has made stands for tensors."""
    if isinstance(given, np.ndarray | np.generic) and given.dtype.kind in "biuf":
        given = torch.as_tensor(given)
    if isinstance(expected, Mapping):
        if not isinstance(given, Mapping):
            return f"gives {_kind(given)}, not a dict"
        for name, part in expected.items():
            if name not in given:
                return f"has no {name}"
            if (line := difference(part, given[name], tolerance)) is not None:
                return f"{name}: {line}"
        return next((f"has {_short(str(name))} too many" for name in given if name not in expected), None)
    if isinstance(expected, list | tuple):
        if isinstance(given, Tensor) and not any(isinstance(part, Tensor) for part in expected):
            if given.numel() > (numbers := _count_leaves(expected)) or max(given.shape, default=0) > numbers:
                return f"gives {_shape(given)}, not {_kind(expected)}"  # as a list it may not fit into memory
            given = given.tolist()
        if not isinstance(given, list | tuple):
            return f"gives {_kind(given)}, not {_kind(expected)}"
        for place, (part, other) in enumerate(zip(expected, given, strict=False)):
            if (line := difference(part, other, tolerance)) is not None:
                return f"at {place}: {line}"
        return None if len(expected) == len(given) else f"gives {counted(len(given), 'thing')}, not {len(expected)}"
    if isinstance(expected, Tensor):
        return _tensor_difference(expected, given, tolerance)
    if isinstance(given, Tensor) and given.numel() == 1:
        given = given.item()
    if isinstance(expected, bool | str) or expected is None:
        return (
            None
            if type(given) is type(expected) and given == expected
            else f"gives {_value_text(given)}, not {_value_text(expected)}"
        )
    if isinstance(given, bool) or not isinstance(given, int | float):
        return f"gives {_kind(given)}, not a number"
    if isinstance(given, int) and abs(given) > sys.float_info.max:
        return f"gives a whole number beyond all bounds, and {expected:.4g} is right"
    same = math.isclose(given, expected, rel_tol=tolerance, abs_tol=tolerance) or (
        given != given and expected != expected
    )
    return None if same else f"gives {given:.4g}, and {expected:.4g} is right"


def _count_leaves(value: Any) -> int:
    return sum(map(_count_leaves, value)) if isinstance(value, list | tuple) else 1


def _tensor_difference(expected: Tensor, given: Any, tolerance: float) -> str | None:
    if isinstance(given, list | tuple | int | float):
        try:
            given = torch.tensor(given)
        except (TypeError, ValueError, RuntimeError, OverflowError):
            return f"gives {_kind(given)}, not a tensor"
    if not isinstance(given, Tensor):
        return f"gives {_kind(given)}, not a tensor"
    if given.shape != expected.shape:
        right = _shape(expected).removeprefix("the shape ") if given.dim() else _shape(expected)
        return f"gives {_shape(given)}, not {right}"
    place = first_apart(expected, given, tolerance)
    if place is None:
        return None
    said, right = (_number(one, place) for one in (given, expected))
    if said == right:  # to four digits: then where they are furthest apart
        furthest = (expected.detach().double() - given.detach().double()).abs().argmax()
        place = [int(one) for one in torch.unravel_index(furthest, expected.shape)]
        said, right = (_number(one, place) for one in (given, expected))
    where = f" at {place}" if place else ""
    return f"gives {said}{where}, and {right} is right"


def _number(tensor: Tensor, place: list[int]) -> str:
    value = tensor[tuple(place)].item()
    return str(value) if isinstance(value, bool) else f"{float(value):.4g}"


def first_apart(expected: Tensor, given: Tensor, tolerance: float) -> list[int] | None:
    """The first place where two tensors of one shape differ by more than this share of the largest number."""
    expected, given = expected.detach().double(), given.detach().double()
    known = expected.isfinite()
    scale = max(1.0, float(expected[known].abs().max())) if known.any() else 1.0
    apart = (expected - given).abs() > tolerance * scale
    apart |= given.isnan() != expected.isnan()
    apart |= (given.isinf() != expected.isinf()) | (given.isinf() & (given != expected))
    return apart.nonzero()[0].tolist() if apart.any() else None


def _shape(tensor: Tensor) -> str:
    return "the shape " + "×".join(map(str, tensor.shape)) if tensor.dim() else "one number"


def _kind(value: Any) -> str:
    if value is None:
        return "nothing"
    named = {list: "a list", tuple: "a tuple", dict: "a dict", str: "a text", int: "a number", float: "a number"}
    return named.get(type(value), "a tensor" if isinstance(value, Tensor) else f"a {type(value).__name__}")


def _value_text(value: Any) -> str:
    if isinstance(value, Tensor) and value.numel() == 1:
        value = value.item()
    text = "nothing" if value is None else f"{value:.4g}" if isinstance(value, float) else repr(value)
    return _short(" ".join(text.split()) if isinstance(value, Tensor) else text)


def _short(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:59]}…"
