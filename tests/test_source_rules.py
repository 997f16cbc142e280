"""What holds of the source itself: no circle of imports, no crowded folder, and one home for each kind of task."""

import ast
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from torch import nn

import glassformer
from glassformer.bricks import attention, tap
from glassformer.bricks.capabilities import Capability
from glassformer.config import presets
from glassformer.encoders import base as encoders_base
from glassformer.families import capabilities as run_capabilities
from glassformer.families.base import Loaded
from glassformer.models import capabilities as model_capabilities
from glassformer.models import modules

SOURCE = Path(glassformer.__file__).parent
MODULES = {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(SOURCE.rglob("*.py"))}
MOST_FILES = 20
PRESETS = "glassformer.config.presets"
MAY_ASK = ("config", "families", "exchange")
"""Rooms that may ask which kind of task they have; to all others a family says what differs."""
MAY_SET_FROZEN = ("config", "teaching")
"""Packages whose frozen dataclasses complete their own fields."""
KINDS_OF_DATA = {"Labelled", "Pairs", "PicturePart", "TextPart"}
TASK_NAMES = {
    name
    for name, value in vars(presets).items()
    if name.isupper() and (value in presets.TASKS or value in (presets.PACKED, presets.LABELLING, presets.TASKS))
}


def name_of(path: Path) -> str:
    return ".".join(("glassformer", *path.relative_to(SOURCE).with_suffix("").parts)).removesuffix(".__init__")


def imported(tree: ast.AST, known: set[str]) -> set[str]:
    """The modules of ours that one imports, those inside functions too."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("glassformer"):
            inner = {f"{node.module}.{alias.name}" for alias in node.names} & known
            found |= inner or {node.module}
    return found & known


def circle_from(start: str, imports: dict[str, set[str]]) -> list[str] | None:
    """The shortest way back to where it started."""
    ways, seen = [[start]], {start}
    while ways:
        way = ways.pop(0)
        for other in sorted(imports[way[-1]]):
            if other == start:
                return [*way, other]
            if other not in seen:
                seen.add(other)
                ways.append([*way, other])
    return None


def test_no_circle_of_imports() -> None:
    known = {name_of(path) for path in MODULES}
    imports = {name_of(path): imported(tree, known) - {name_of(path)} for path, tree in MODULES.items()}
    circles = [circle for name in imports if (circle := circle_from(name, imports)) is not None]
    assert not circles, " → ".join(min(circles, key=len))


def test_no_folder_is_crowded() -> None:
    counts = {folder: len(list(folder.glob("*.py"))) for folder in {path.parent for path in MODULES}}
    crowded = {str(folder.relative_to(SOURCE)): count for folder, count in counts.items() if count > MOST_FILES + 1}
    assert not crowded


def names_in(node: ast.AST) -> set[str]:
    return {one.id for one in ast.walk(node) if isinstance(one, ast.Name)} | {
        one.attr for one in ast.walk(node) if isinstance(one, ast.Attribute)
    }


def is_kind(name: str) -> bool:
    return (name.startswith("Loaded") and name != "Loaded") or name.endswith("Corpus") or name in KINDS_OF_DATA


def task_names(tree: ast.AST) -> set[str]:
    """The names of tasks that a module imports."""
    presets_of = (node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module == PRESETS)
    return {alias.name for node in presets_of for alias in node.names} & TASK_NAMES


def questions(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Where a module asks which kind of run, of data or of task it has."""
    tasks = task_names(tree)
    for node in ast.walk(tree):
        called = node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else None
        if called in ("isinstance", "hasattr") and any(map(is_kind, names_in(node))):
            yield node.lineno, ast.unparse(node)
        elif isinstance(node, ast.match_case) and any(map(is_kind, names_in(node.pattern))):
            yield node.pattern.lineno, ast.unparse(node.pattern)
        elif isinstance(node, ast.Compare):
            spelled = any(isinstance(one, ast.Constant) and one.value in presets.TASKS for one in ast.walk(node))
            if names_in(node) & tasks or (spelled and "task" in names_in(node)):
                yield node.lineno, ast.unparse(node)
        elif isinstance(node, ast.Dict) and any(isinstance(key, ast.Name) and key.id in tasks for key in node.keys):
            yield node.lineno, ast.unparse(node)[:80]


def nameless_functions(tree: ast.AST) -> list[int]:
    """Return the lines of functions that grep cannot find."""
    return [node.lineno for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == "_"]


def test_every_function_has_a_name() -> None:
    found = {str(path): lines for path, tree in MODULES.items() if (lines := nameless_functions(tree))}
    assert not found
    assert nameless_functions(ast.parse("def _(): pass")) == [1]


def test_frozen_objects_are_not_changed() -> None:
    found = {path.relative_to(SOURCE).parts[0] for path in MODULES if "object.__setattr__" in path.read_text()}
    assert found <= set(MAY_SET_FROZEN)


def test_only_families_know_which_kind_of_task_it_is() -> None:
    found = [
        f"{path.relative_to(SOURCE)}:{line}: {asked}"
        for path, tree in MODULES.items()
        if path.relative_to(SOURCE).parts[0] not in MAY_ASK
        for line, asked in questions(tree)
    ]
    assert not found, "\n".join(found)


def test_a_question_would_be_seen() -> None:
    asked = (
        "isinstance(x, LoadedPredictor)",
        "config.task == LANGUAGE_MODEL",
        "{PACKED: 1}[x]",
        "task == 'translation'",
    )
    imports = f"from {PRESETS} import LANGUAGE_MODEL, PACKED\n"
    assert all(list(questions(ast.parse(imports + one))) for one in asked)
    assert not list(questions(ast.parse("isinstance(run, Loaded)")))


def unselected_sentences(templates: Iterable[str], code: str) -> list[str]:
    """Return the names that the code does not contain. It selects `REFERENCE: …` by passing REFERENCE to `exercise`."""
    exercises = tuple(f"{reference}: " for reference in re.findall(r"exercise\(\s*(\w+)", code))
    return [name for name in templates if f'"{name}"' not in code and not name.startswith(exercises)]


def test_every_stored_sentence_is_selected_by_the_code_of_its_package() -> None:
    files = list(SOURCE.rglob("sentences.toml"))
    assert files
    for file in files:
        package = SOURCE / file.relative_to(SOURCE).parts[0]
        code = "".join(module.read_text() for module in package.rglob("*.py"))
        assert unselected_sentences(tomllib.loads(file.read_text()), code) == [], file
    assert unselected_sentences(["used", "unused"], 'sentence("used")') == ["unused"]
    assert unselected_sentences(["mean: sum", "sum: mean"], "exercise(mean)") == ["sum: mean"]


# --- what runs, models and their parts can do: asked by capability ---

MAY_ASK_FOR_CLASSES = ("bricks", "encoders", "models", "families", "config")
"""Packages that define runs, models and parts, and the one below them; all others ask `capability(part, kind)`."""
PART_PACKAGES = ("glassformer.encoders.", "glassformer.models.")


def is_part(kind: type) -> bool:
    """Return whether a class is that of a model, an encoder or a part of one, or a kind of loaded run."""
    bases = set(kind.__mro__)
    if kind is Loaded:  # which tells a loaded run from the path of one
        return False
    return bool({Loaded, Capability} & bases) or (nn.Module in bases and kind.__module__.startswith(PART_PACKAGES))


CAPABILITY_NAMES = {
    name
    for module in (encoders_base, attention, tap, model_capabilities, run_capabilities)
    for kind in vars(module).values()
    if isinstance(kind, type) and Capability in kind.__mro__
    for name in (*vars(kind), *vars(kind).get("__annotations__", ()))
    if not name.startswith("_")
}


def classes_in(node: ast.AST, names: Mapping[str, Any]) -> set[type]:
    """Return the classes that an expression names, inside tuples and unions too."""
    found: set[type] = set()
    for one in ast.walk(node):
        if isinstance(one, ast.Name | ast.Attribute):
            with suppress(NameError, AttributeError):
                value = eval(ast.unparse(one), dict(names))  # names of our own modules
                found |= {kind for kind in (value if isinstance(value, tuple) else (value,)) if isinstance(kind, type)}
    return found


def class_questions(tree: ast.AST, names: Mapping[str, Any]) -> Iterator[tuple[int, str]]:
    """Yield where a module asks for the class of a run, a model or a part, or whether it has one of their methods.

    `names` are those of the module. An `assert` asks nothing: it tells the type checker what is known.
    """
    asserted = {id(one) for node in ast.walk(tree) if isinstance(node, ast.Assert) for one in ast.walk(node.test)}
    for node in ast.walk(tree):
        if isinstance(node, ast.MatchClass) and any(map(is_part, classes_in(node.cls, names))):
            yield node.lineno, ast.unparse(node)
        called = node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else None
        if not isinstance(node, ast.Call) or called not in ("isinstance", "hasattr") or id(node) in asserted:
            continue
        tested = node.args[1]
        if (called == "isinstance" and any(map(is_part, classes_in(tested, names)))) or (
            called == "hasattr" and (not isinstance(tested, ast.Constant) or tested.value in CAPABILITY_NAMES)
        ):
            yield node.lineno, ast.unparse(node)


def test_other_packages_ask_for_capabilities_not_for_classes() -> None:
    """The class that is tested counts, not the name of the variable: constants and aliases are looked up."""
    found = [
        f"{path.relative_to(SOURCE)}:{line}: {asked}"
        for path, tree in MODULES.items()
        if path.relative_to(SOURCE).parts[0] not in MAY_ASK_FOR_CLASSES and names_in(tree) & {"isinstance", "hasattr"}
        for line, asked in class_questions(tree, vars(import_module(name_of(path))))
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("code", "asks"),
    [
        ("isinstance(x, Seq2Seq)", True),
        ("isinstance(x, int | modules.BagPredictor)", True),
        ("isinstance(x, WHOLE)", True),
        ("hasattr(x, 'generate')", True),
        ("hasattr(x, method)", True),
        ("match x:\n case Seq2Seq(): pass", True),
        ("assert isinstance(x, Seq2Seq)", False),
        ("isinstance(x, nn.Linear | Loaded | str)", False),
        ("hasattr(x, '__len__')", False),
    ],
)
def test_a_question_for_a_class_would_be_seen(code: str, asks: bool) -> None:
    names = {"Seq2Seq": modules.Seq2Seq, "modules": modules, "WHOLE": (modules.TokenModel,), "nn": nn, "Loaded": Loaded}
    assert bool(list(class_questions(ast.parse(code), names))) == asks
