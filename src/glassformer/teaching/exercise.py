"""Exercises: names that a student defines, references to compare them with, and known mistakes.

Student code runs behind the `Student` protocol, possibly in another process.
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
from typing import Any, Concatenate, NamedTuple, ParamSpec, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from glassformer.config.errors import Misuse, error_line
from glassformer.config.sentences import sentences
from glassformer.data.wording import counted

TOLERANCE = 1e-5
"""Maximum difference between numbers, relative to the largest number."""


class StudentError(Exception):
    """Raised if a student's code returns no result; the message is one line."""


class ModuleCall(NamedTuple):
    """Arguments of `Student.run_module`: call a module with given weights."""

    build: Mapping[str, Any]
    """Arguments of the class."""
    weights: Mapping[str, Tensor]
    args: tuple[Any, ...]
    learn: bool
    """Whether to compute gradients too."""


class Student(Protocol):
    """Access to a student's names. Values are tensors, numbers, strings, None, and lists, tuples and dicts of them."""

    def value(self, name: str) -> Any:
        """Return the value of a name."""

    def call(self, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Call a function and return its result."""

    def run_module(self, name: str, *call: Any) -> Any:
        """Call a module and return the result of `run_module`. `call`: the fields of a `ModuleCall`."""


@dataclass(frozen=True)
class Mistake:
    """A common mistake, recognised by computing its result."""

    hint: str
    """Hint for the student, in one sentence."""
    wrong: Callable[..., Any]
    """Function or module class that makes the mistake, with the same parameters as the reference."""


def known_mistakes(reference: Callable[..., Any]) -> list[Mistake]:
    """Return the known mistakes of a reference, with their hints from the `sentences.toml` in its package.

    A function takes the name of a mistake as `mistake=`. A class is subclassed with the attribute `mistake`.
    """

    def with_mistake(name: str) -> Callable[..., Any]:
        if isinstance(reference, type):
            return type(reference.__name__, (reference,), {"mistake": name})
        return partial(reference, mistake=name)

    prefix, hints = f"{reference.__name__}: ", sentences(reference.__module__)
    names = {key: key.removeprefix(prefix) for key in hints if key.startswith(prefix)}
    return [Mistake(hints[key], with_mistake(name)) for key, name in names.items()]


Args = Callable[[torch.Generator], tuple[Any, ...]]
P = ParamSpec("P")


def normal(*shapes: tuple[int, ...], scale: float = 1.0) -> Args:
    """Return a function that draws a normal tensor with standard deviation `scale` for each shape."""
    return lambda chance: tuple(scale * torch.randn(shape, generator=chance) for shape in shapes)


def drawn(draw: Callable[Concatenate[torch.Generator, P], tuple[Any, ...]]) -> Callable[P, Args]:
    """Decorate a function that draws arguments; a call without the generator then returns `Args`."""
    return lambda *args, **kwargs: lambda chance: draw(chance, *args, **kwargs)


@dataclass(frozen=True)
class Case:
    """A test call of a function or a module."""

    what: str
    """Title, such as `the future is hidden`."""
    args: Args
    """Function that draws the arguments; by default, each grading draws new ones."""
    points: float = 1
    visible: bool = True
    """Whether students can run the case themselves; only `grade` runs the others."""
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    build: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of the class, for a module."""
    learn: bool = False
    """Whether the gradients of a module are compared too."""


@dataclass(frozen=True)
class Item:
    """Points that a student gets for one case."""

    name: str
    points: float
    out_of: float
    line: str = ""
    """Error and its likely reason; empty if there is none."""
    visible: bool = True


@dataclass(frozen=True)
class Exercise(ABC):
    """A name that the student defines."""

    name: str

    @abstractmethod
    def items(self, student: Student, *, seed: int = 0, visible: bool = True, hidden: bool = False) -> list[Item]:
        """Return one item per visible or hidden case, as selected; `seed` determines the inputs."""

    @property
    @abstractmethod
    def points(self) -> float:
        """Return the maximum number of points."""

    @abstractmethod
    def unseen(self) -> "Exercise":
        """Return the same exercise with all cases hidden."""


@dataclass(frozen=True)
class ExerciseByCases(Exercise):
    """An exercise that compares several calls with a reference."""

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
        hints = [f"; {max(mistakes, key=explaining.count).hint}" if mistakes else "" for _, mistakes in tries]
        items = [item for item, _ in tries]
        return [replace(item, line=item.line and item.line + hint) for item, hint in zip(items, hints, strict=True)]

    def _try(self, student: Student, case: Case, seed: int) -> tuple[Item, list[Mistake]]:
        """Return the item of a case, and the mistakes with the same result as the student's code.

        These include mistakes that make no difference in this case.
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
            with contextlib.suppress(Exception):  # the mistake is impossible in this case
                wrong = self._compute(mistake.wrong, case, case_args, seed)
                if difference(wrong, given, self.tolerance) is None:
                    explaining.append(mistake)
        return replace(item, points=case.points if line is None else 0, line=line or ""), explaining

    @abstractmethod
    def _compute(self, function: Callable[..., Any], case: Case, args: tuple[Any, ...], seed: int) -> Any:
        """Return the result of the reference or of a mistake."""

    @abstractmethod
    def _ask(self, student: Student, case: Case, args: tuple[Any, ...], seed: int) -> Any: ...


@dataclass(frozen=True)
class Function(ExerciseByCases):
    """An exercise to write a function."""

    def _compute(self, function: Callable[..., Any], case: Case, args: tuple[Any, ...], seed: int) -> Any:
        return function(*args, **case.kwargs)

    def _ask(self, student: Student, case: Case, args: tuple[Any, ...], seed: int) -> Any:
        return student.call(self.name, args, case.kwargs)


@dataclass(frozen=True)
class Module(ExerciseByCases):
    """An exercise to complete a module class, whose weights have the same names as the reference's."""

    def _compute(self, function: Callable[..., Any], case: Case, args: tuple[Any, ...], seed: int) -> Any:
        module = function(**case.build)
        module.load_state_dict(self._weights(case, seed))
        return run_module(module, args, learn=case.learn)

    def _ask(self, student: Student, case: Case, args: tuple[Any, ...], seed: int) -> Any:
        return student.run_module(self.name, *ModuleCall(dict(case.build), self._weights(case, seed), args, case.learn))

    def _weights(self, case: Case, seed: int) -> dict[str, Tensor]:
        """Return random weights, because mistakes may not show with initial weights of 0 or 1."""
        drawn = torch.Generator().manual_seed(seed + 1)
        shapes = self.reference(**case.build).state_dict()
        return {name: torch.randn(weight.shape, generator=drawn) * 0.5 for name, weight in shapes.items()}


def run_module(module: nn.Module, args: tuple[Any, ...], *, learn: bool) -> Any:
    """Return the output of a module in evaluation mode, and with `learn` also gradients.

    With `learn`, the result is a dict of `output`, `input` and `weights`. The last two are gradients of the output's
    sum of squares, with respect to the first argument and to the parameters.
    """
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
    """An exercise to find a number, a word or a list."""

    right: Callable[[Any], bool]
    says: str
    """Description of the answer, such as `the head that finds the pronoun's noun, as (layer, head)`."""
    worth: float = 1
    hints: Sequence[tuple[Callable[[Any], bool], str]] = ()
    """Tests for known wrong answers, with a hint for each."""
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

    `mistakes`: known mistakes in addition to the mistakes of the reference itself.
    """
    kind = Module if isinstance(reference, type) else Function
    return kind(reference.__name__, reference, cases, [*known_mistakes(reference), *mistakes], tolerance)


def answer(module: str, name: str) -> Answer:
    """Return the exercise to answer a question of a lesson.

    `module`: name of the lesson's module; the `answers.toml` in its package has the question.
    """
    package, _, lesson = module.rpartition(".")
    questions = tomllib.loads(files(package).joinpath("answers.toml").read_text("utf-8"))
    asked = questions[lesson][name]
    hints = [(_accepts(hint["wrong"], hint.get("within")), hint["says"]) for hint in asked["hints"]]
    return Answer(name, _accepts(asked["right"], asked.get("within")), asked["says"], asked.get("worth", 1), hints)


def _accepts(expected: Any, within: float | None) -> Callable[[Any], bool]:
    return equals(expected) if within is None else near(expected, within)


def near(expected: float, within: float) -> Callable[[Any], bool]:
    """Return a test for numbers that differ from `expected` by at most `within`."""
    return lambda value: not isinstance(value, bool) and abs(float(value) - expected) <= within


def equals(expected: Any) -> Callable[[Any], bool]:
    """Return a test for values that equal `expected`; a list may replace a tuple."""
    return lambda value: difference(expected, value, TOLERANCE) is None


def _holds(test: Callable[[Any], bool], value: Any) -> bool:
    try:
        return bool(test(value))
    except Exception:  # the value has another type
        return False


# --- differences ---


def difference(expected: Any, given: Any, tolerance: float) -> str | None:
    """Return the first difference between two values in one line; None if they agree. NumPy arrays count as tensors."""
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
                return (
                    f"gives {_shape(given)}, not {_kind(expected)}"  # converted to a list, it may not fit into memory
                )
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
        same = type(given) is type(expected) and given == expected
        return None if same else f"gives {_value_text(given)}, not {_value_text(expected)}"
    if isinstance(given, bool) or not isinstance(given, int | float):
        return f"gives {_kind(given)}, not a number"
    if isinstance(given, int) and abs(given) > sys.float_info.max:
        return f"gives a whole number beyond all bounds, and {expected:.4g} is right"
    both_nan = given != given and expected != expected
    same = both_nan or math.isclose(given, expected, rel_tol=tolerance, abs_tol=tolerance)
    return None if same else f"gives {given:.4g}, and {expected:.4g} is right"


def _count_leaves(value: Any) -> int:
    return sum(map(_count_leaves, value)) if isinstance(value, list | tuple) else 1


def _tensor_difference(expected: Tensor, given: Any, tolerance: float) -> str | None:
    if isinstance(given, list | tuple | int | float):
        with contextlib.suppress(TypeError, ValueError, RuntimeError, OverflowError):
            given = torch.tensor(given)
    if not isinstance(given, Tensor):
        return f"gives {_kind(given)}, not a tensor"
    if given.shape != expected.shape:
        right = _shape(expected).removeprefix("the shape ") if given.dim() else _shape(expected)
        return f"gives {_shape(given)}, not {right}"
    place = first_apart(expected, given, tolerance)
    if place is None:
        return None
    wrong, right = (_number(one, place) for one in (given, expected))
    if wrong == right:  # equal to four digits: show the place with the largest difference
        furthest = (expected.detach().double() - given.detach().double()).abs().argmax()
        place = [int(one) for one in torch.unravel_index(furthest, expected.shape)]
        wrong, right = (_number(one, place) for one in (given, expected))
    where = f" at {place}" if place else ""
    return f"gives {wrong}{where}, and {right} is right"


def _number(tensor: Tensor, place: list[int]) -> str:
    value = tensor[tuple(place)].item()
    return str(value) if isinstance(value, bool) else f"{float(value):.4g}"


def first_apart(expected: Tensor, given: Tensor, tolerance: float) -> list[int] | None:
    """Return the first index where two tensors differ, relative to the largest number; None if they agree."""
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
