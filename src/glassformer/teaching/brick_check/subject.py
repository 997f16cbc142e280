"""A student's brick: build it, give it weights and call it."""

import contextlib
import inspect
import re
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MethodType
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.config.errors import with_article
from glassformer.teaching.answering import what_happened
from glassformer.teaching.brick_check.contract import Contract, Facts
from glassformer.teaching.brick_check.names import ESSENTIAL, Bridge, Offer, Role, bind, key_of, read_by_name
from glassformer.teaching.brick_check.steps import Case, with_x
from glassformer.teaching.brick_check.watch import Watch, tapped
from glassformer.teaching.exercise import StudentError

WEIGHT_SPREAD = 0.4
"""Standard deviation of the random weights."""

MASKS: dict[str, Callable[[Tensor], Tensor]] = {
    "B×T": lambda seen: seen[:, -1],
    "B×1×1×T": lambda seen: seen[:, None, -1:],
    "B×T×T": lambda seen: seen,
    "B×1×T×T": lambda seen: seen[:, None],
}
"""Conversion of the pairwise mask (B×T×T, True: visible) to each form that bricks take; the first is the default."""
PAIRWISE = ("B×T×T", "B×1×T×T")
"""Mask forms that can also hide the future."""


@dataclass(frozen=True)
class Ran:
    """Result of calling a brick."""

    output: Tensor
    watch: Watch
    """Recorder of the call; empty if gradients were computed."""
    seen: Mapping[str, Tensor]
    """Outputs of taps, and attention weights that the brick returned with its output."""
    inputs: Mapping[str, Any]


@dataclass
class Subject:
    """Class or function of a student, and the contract to compare it with."""

    brick: Callable[..., Any]
    contract: Contract
    mask_form: str = "B×T"
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Facts of the current variant."""
    settled: Mapping[str, Any] = field(default_factory=dict)
    """Facts that `settle` found."""

    @cached_property
    def takes(self) -> frozenset[str]:
        """Return the inputs that the brick has a parameter for."""
        return frozenset(bind(self._called, self._offers({}), self.contract.arguments).named)

    @cached_property
    def built_with(self) -> frozenset[str]:
        """Return the sizes that the brick's `__init__` has a parameter for."""
        named = set() if self.contract.is_function else bind(self.brick, self.contract.sizes, ESSENTIAL).named
        return frozenset(named)

    @property
    def options(self) -> dict[str, Any]:
        """Return the sizes and facts for the formulas. `Contract.unnamed` sets sizes without a parameter."""
        contract = self.contract
        known = self.takes if contract.is_function else self.built_with
        given = {name: offer.value for name, offer in contract.sizes.items()}
        return {**given, **{name: value for name, value in contract.unnamed.items() if name not in known}, **self.facts}

    @property
    def _called(self) -> Callable[..., Any]:
        brick: Any = self.brick
        return self.brick if self.contract.is_function else MethodType(brick.forward, self)

    def _offers(self, inputs: Mapping[str, Any]) -> dict[str, Offer]:
        return {  # an initial state, which is a tuple, is passed only to a brick that requires it
            name: Offer(inputs.get(name), names, always=not isinstance(inputs.get(name), tuple | None))
            for name, names in self.contract.arguments.items()
        }

    def build(self, options: Mapping[str, Any] = {}) -> nn.Module:
        sizes = self.contract.sizes
        offers = {name: replace(offer, value=options.get(name, offer.value)) for name, offer in sizes.items()}
        torch.manual_seed(0)
        module: nn.Module = self.safely(self.brick, **bind(self.brick, offers, ESSENTIAL).keywords)
        return module.eval()

    def cases(self) -> list[Case]:
        """Return the contract's cases, with the student's weights under the names of the reference."""
        cases = self._cases_without_weights()
        if self.contract.is_function:
            return cases
        modules = (self.with_weights(case.options) for case in cases)
        weights = ({name: one.detach() for name, one in module.named_parameters()} for module in modules)
        return [replace(case, weights=self.bridge.read(each)) for case, each in zip(cases, weights, strict=True)]

    def _cases_without_weights(self) -> list[Case]:
        facts = Facts(self.options, self.takes, self.built_with, None if self.contract.is_function else self.build())
        return self.contract.inputs(facts, torch.Generator().manual_seed(0))

    def plain_cases(self, *, padded: bool = False) -> list[Case]:
        """Return the contract's cases without weights: either the padded cases or all others."""
        cases = self._cases_without_weights()
        masked = [one for one in cases if isinstance(one.inputs.get("mask"), Tensor)]
        return masked if padded else [one for one in cases if one not in masked] or cases

    def variants(self) -> list[dict[str, Any]]:
        """Return the distinct variants of the contract, without facts that the brick has a parameter for."""
        told = self.built_with | self.takes
        left = [{name: value for name, value in one.items() if name not in told} for one in self.contract.variants]
        return [one for place, one in enumerate(left) if one not in left[:place]]

    def settle_on(self, facts: Mapping[str, Any]) -> None:
        self.facts = facts
        self.__dict__.pop("bridge", None)

    def settle(self) -> None:
        """Find the form of the brick's inputs. If it has no argument `causal`, also find whether it is causal."""
        for facts in self.variants():
            self.settle_on(facts)
            try:
                case = self.plain_cases()[0]
                if self.run(case).output.shape == self.contract.shape(case):
                    break
            except StudentError:
                continue
        else:
            self.settle_on(self.variants()[0])
        hides_future = self.contract.causal == "option"
        if not hides_future and self.contract.masked == "x":
            return
        for form in MASKS if "mask" in self.takes else ():
            self.mask_form = form
            try:
                self.run(self.plain_cases(padded=True)[0])
            except StudentError:
                continue
            break
        else:
            self.mask_form = "B×T"
        if "causal" in self.built_with or not hides_future:
            return
        if self.mask_form in PAIRWISE:
            self.settled = self.facts = {**self.facts, "causal": None}
        elif re.search("causal|masked", self.brick.__name__.lower()) or self._hides(self.plain_cases()[0]):
            self.settled = self.facts = {**self.facts, "causal": True}

    def _hides(self, case: Case) -> bool:
        """Return whether at least one output is independent of another token."""
        x = case.inputs["x"]
        module = self.with_weights(case.options)
        before = self.call(case, module).output
        if before.shape != x.shape:
            return False
        for t in range(x.shape[1]):
            other = x.clone()
            other[:, t] = -other[:, t] + 1
            moved = (self.call(with_x(case, other), module).output - before).abs()
            others = torch.arange(x.shape[1]) != t
            if (moved.amax((0, 2))[others] == 0).any():
                return True
        return False

    def with_weights(self, options: Mapping[str, Any] = {}, *, spread: float = WEIGHT_SPREAD) -> nn.Module:
        """Return the brick with random weights."""
        module, drawn = self.build(options), torch.Generator().manual_seed(1)
        with torch.no_grad():
            for weight in module.parameters():
                weight.copy_(torch.randn(weight.shape, generator=drawn) * spread)
        return module

    @cached_property
    def bridge(self) -> Bridge:
        """Return the map from the student's weights to those of the reference."""
        module, contract = self.with_weights(), self.contract
        names = {id(weight): name for name, weight in module.named_parameters()}
        watch = self.call(self._cases_without_weights()[0], module).watch
        turned = {name for weight, name in names.items() if watch.turned.get(weight)}
        if contract.read_weights is not None:
            return contract.read_weights(module, self.options, turned)
        return read_by_name(module, contract.weights, self.options, turned)

    def run(self, case: Case) -> Ran:
        """Call a new instance with the random weights, so that no state of earlier calls remains."""
        if self.contract.is_function:
            return self.call(case, None)
        return self.call(case, self.with_weights(case.options))

    def call(self, case: Case, module: nn.Module | None, *, learn: bool = False) -> Ran:
        inputs = {name: value.clone() if isinstance(value, Tensor) else value for name, value in case.inputs.items()}
        passed = inputs
        if learn:
            leaves = [name for name, value in inputs.items() if isinstance(value, Tensor) and value.is_floating_point()]
            passed = {**inputs, **{name: inputs[name].requires_grad_().clone() for name in leaves}}
        keywords = bind(self._called, self._offers(self._shaped(passed, case)), self.contract.arguments).keywords
        for name in keywords:
            if name.endswith("key_padding_mask") and isinstance(keywords[name], Tensor):
                keywords[name] = ~keywords[name]  # PyTorch's convention: True marks padding
        roles = {id(one): Role((name,)) for name, one in passed.items() if self.contract.is_function and name != "x"}
        if module is not None and "bridge" in self.__dict__:
            parameters = dict(module.named_parameters())
            roles = {id(parameters[name]): role for name, role in self.bridge.roles.items()}
        seen: dict[str, Tensor] = {}
        hooks = [] if module is None else tapped(module, seen)
        watch = Watch(roles)
        watching: Any = contextlib.nullcontext() if learn else watch
        try:
            with torch.set_grad_enabled(learn), watching:
                out = self.safely(module or self.brick, **keywords)
        finally:
            for hook in hooks:
                hook.remove()
        return Ran(self._output(out, seen), watch, seen, inputs)

    def _shaped(self, inputs: Mapping[str, Any], case: Case) -> dict[str, Any]:
        """Return the inputs, with the mask in the brick's form. Without padding, a required mask is all True."""
        inputs = {name: one(inputs["x"]) if callable(one) else one for name, one in inputs.items()}
        if "mask" not in self.contract.arguments or self.contract.is_function:
            return inputs
        x, by_mask = inputs["x"], bool(case.options.get("causal")) and self.mask_form in PAIRWISE
        mask = inputs.get("mask")
        if mask is None and not by_mask and not self._must_have_mask:
            return inputs
        masked = inputs[self.contract.masked]
        seen = torch.ones(masked.shape[:2], dtype=torch.bool) if mask is None else mask
        pairs = seen[:, None, :].expand(-1, x.shape[1], -1)
        if by_mask and "causal" not in self.built_with:
            pairs = pairs & torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril()
        return {**inputs, "mask": MASKS[self.mask_form](pairs)}

    @cached_property
    def _must_have_mask(self) -> bool:
        offers = self._offers({})
        return any(
            key_of(one.name, offers) == "mask" and one.default is inspect.Parameter.empty
            for one in inspect.signature(self._called).parameters.values()
        )

    def _output(self, out: Any, seen: dict[str, Tensor]) -> Tensor:
        if isinstance(out, list | tuple) and out and isinstance(out[0], Tensor):
            first, *rest = out
            if rest and isinstance(rest[0], Tensor) and "weights" in self.contract.steps:
                seen.setdefault("weights", rest[0].detach().clone())
            out = first
        if not isinstance(out, Tensor):
            raise StudentError(f"gives {with_article(out)}, not a tensor")
        return out

    def safely(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call a student's code; raise `StudentError` with a one-line description of any exception."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return function(*args, **kwargs)
        except StudentError:
            raise
        except Exception as error:
            raise StudentError(what_happened(error)) from error
