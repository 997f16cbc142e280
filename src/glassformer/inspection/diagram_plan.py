"""A diagram before it has numbers: bricks one after the other, each with the module and the weights it stands for."""

import inspect
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from torch import Tensor, nn

from glassformer.rendering.panels import Arrow, Brick, Group

Axes = tuple[tuple[str, int | None], ...]
"""Letter and length of each axis; None: as long as the text."""


@dataclass
class Part:
    """A brick, where its weights lie, and by which names `capture` records what it gives."""

    brick: Brick
    axes: Axes
    module: nn.Module | None = None
    weights: dict[str, Tensor] = field(default_factory=dict)
    """Its parameters, by their names; those that belong to a brick before it too."""
    recorded: tuple[str, ...] = ()
    """Several stand side by side; if `capture` has none of them: what the module itself gives."""
    guessed: bool = False
    """Its shape is known only when a text passes."""


class Plan:
    """Parts, arrows and groups, as the modules of a model add them."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.parts: dict[str, Part] = {}
        self.arrows: list[Arrow] = []
        self.groups: dict[str, Group] = {}
        self.lanes: list[str] = []
        self.last = ""
        """The brick that the next one follows."""
        self._group = ""
        self._owners: dict[Tensor, str] = {}
        self._holders: dict[Tensor, str] = {}
        """The first brick that has a weight, and the latest."""

    @property
    def axes(self) -> Axes:
        """The shape of what comes next."""
        return self.parts[self.last].axes

    @property
    def width(self) -> int:
        return self.axes[-1][1] or 1

    def start_lane(self, name: str, title: str, axes: Axes, detail: str = "", lane: str = "") -> None:
        """A new lane, and what goes into it."""
        self.lanes.append(lane)
        self.last = ""
        self.add(name, title, "data", axes=axes, detail=detail)

    def add(
        self,
        name: str,
        title: str,
        kind: str,
        module: nn.Module | None = None,
        detail: str = "",
        *,
        width: int | None = None,
        axes: Axes | None = None,
        weights: Iterable[tuple[str, Tensor]] | None = None,
        recorded: str | Sequence[str] = "",
        hidden: int = 0,
        guessed: bool = False,
    ) -> None:
        """One more brick beneath the last. Its shape: that of the last, with another width, or other axes.

        `recorded`: the names by which `capture` has its output, `NAME.output` unless another is given.
        """
        if axes is None:
            before = self.axes
            counted = len(before) == 1 and before[0][1] is None  # nothing but tokens so far
            letter = "d" if counted else before[-1][0]
            axes = before if width is None else (*(before if counted else before[:-1]), (letter, width))
        if weights is None:
            weights = () if module is None else module.named_parameters()
        own = dict(weights)
        brick = Brick(
            name=name,
            title=title,
            kind=kind,
            width=axes[-1][1] or 1 if axes else 1,
            hidden=hidden,
            parameters=sum(one.numel() for one in own.values() if self._owners.setdefault(one, name) == name),
            detail=detail,
            lane=len(self.lanes) - 1,
            group=self._group,
            code=code_of(module),
        )
        names = (recorded or f"{name}.output",) if isinstance(recorded, str) else tuple(recorded)
        self.parts[name] = Part(brick, axes, module, own, names, guessed)
        if self.last:
            self.arrow(self.last, name)
        for other in dict.fromkeys(self._holders[weight] for weight in own.values() if weight in self._holders):
            self.arrow(other, name, "tied")
        self._holders.update(dict.fromkeys(own.values(), name))
        self.last = name

    def add_vectors(
        self, name: str, title: str, module: nn.Module, detail: str, *, kind: str = "embedding", **facts: Any
    ) -> None:
        """Add a brick that makes vectors of what goes in."""
        self.add(name, title, kind, module, detail, recorded=f"{name}.vectors", **facts)

    def arrow(self, start: str, end: str, role: str = "flow") -> None:
        self.arrows.append(Arrow(start=start, end=end, role=role))

    def start_group(self, name: str, title: str) -> None:
        self._group = name
        self.groups[name] = Group(name=name, title=title)

    def end_group(self) -> None:
        """If all its bricks are as those of the group before it, they are drawn once."""
        name, self._group = self._group, ""
        before = next((other for other in reversed(self.groups) if other != name), "")
        if before and self._looks(before) == self._looks(name):
            self.groups[name] = replace(self.groups[name], like=self.groups[before].like or before)

    def _looks(self, group: str) -> list[Brick]:
        inside = [part.brick for part in self.parts.values() if part.brick.group == group]
        return [replace(brick, name="", group="") for brick in inside]

    def unclaimed(self, module: nn.Module) -> list[tuple[str, Tensor]]:
        """Weights of a module that belong to no brick yet."""
        return [(name, weight) for name, weight in module.named_parameters() if weight not in self._owners]


def code_of(module: nn.Module | None) -> str:
    """The lines of its `forward`."""
    if module is None:
        return ""
    try:
        return textwrap.dedent(inspect.getsource(inspect.unwrap(type(module).forward)))
    except (OSError, TypeError):  # a class that was typed in has no file
        return ""
