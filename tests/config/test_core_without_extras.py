"""The core imports none of the optional packages, and each optional capability names the extra that it needs."""

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from helpers import gguf_files

MODULES = {"mlflow-skinny": "mlflow", "scikit-learn": "sklearn"}
"""Modules that are not named like their distribution."""
PROJECT = tomllib.loads(Path(__file__).parents[2].joinpath("pyproject.toml").read_text())["project"]
EXTRAS: dict[str, list[str]] = {
    name: packages for name, packages in PROJECT["optional-dependencies"].items() if name not in ("all", "dev")
}
DISTRIBUTIONS = {re.split(r"[<>=\[]", package)[0] for packages in EXTRAS.values() for package in packages}
OPTIONAL = {MODULES.get(name, name.lower().replace("-", "_")) for name in DISTRIBUTIONS}

SITE_CUSTOMIZE = """
import importlib.machinery, os, sys


class WithoutExtras(importlib.machinery.PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name.partition(".")[0] not in os.environ["REFUSED"].split():
            return super().find_spec(name, path, target)
        with open(os.environ["REFUSALS"], "a") as file:
            print(name, file=file)


sys.meta_path[sys.meta_path.index(importlib.machinery.PathFinder)] = WithoutExtras
"""
"""Hides the optional packages from a process and from all Python processes that it starts."""

CORE = """
import glassformer as gf

trained = gf.train("opinions:rows=60", model="bag", steps=2, out="run")
run = gf.load(trained.run)
assert run.predict(["good food"])
assert gf.evaluate(trained.run)
assert gf.look(trained.run, "good food")
assert gf.compare("opinions:rows=60", models="bag", seeds=1, steps=2, out="compared", references=False)
"""

COMMANDS: dict[str, tuple[str, list[str]]] = {
    "serve": ("serve", ["serve", "run"]),
    "play": ("serve", ["play", "run"]),
    "tune": ("tune", ["tune", "opinions:rows=60", "--trials", "1"]),
    "a data set of the hub": ("hub", ["train", "hf:imdb"]),
    "GGUF": ("gguf", ["import", "model.gguf"]),
    "ONNX": ("onnx", ["export", "run", "exported", "--to", "onnx"]),
    "tensorboard": ("tensorboard", ["train", "opinions:rows=60", "--steps", "1", "--log-to", "tensorboard"]),
    "wandb": ("wandb", ["train", "opinions:rows=60", "--steps", "1", "--log-to", "wandb"]),
    "mlflow": ("mlflow", ["train", "opinions:rows=60", "--steps", "1", "--log-to", "mlflow"]),
    "trackio": ("trackio", ["train", "opinions:rows=60", "--steps", "1", "--log-to", "trackio"]),
    "parquet": ("parquet", ["train", "rows.parquet"]),
    "ray": ("ray", ["compare", "opinions:rows=60", "--models", "bag", "--on", "ray"]),
    "a sample": ("samples", ["train", "digits"]),
}
"""By capability: the extra, and a command that needs it. The extra `sklearn` is for classes of Python."""

RUN_COMMANDS = """
import contextlib, io, json, sys

from glassformer.cli.main import main

results = {}
for name, words in json.loads(sys.argv[1]).items():
    with contextlib.redirect_stderr(io.StringIO()) as errors:
        code = main(words)
    results[name] = [code, errors.getvalue().splitlines()]
print(json.dumps(results))
"""


def run_without_extras(folder: Path, code: str, *words: str) -> tuple[str, list[str]]:
    """Run code without the optional packages; return its output and the optional modules that were asked for."""
    (folder / "site").mkdir()
    (folder / "site" / "sitecustomize.py").write_text(SITE_CUSTOMIZE)
    refusals = folder / "refusals.txt"
    refusals.touch()
    path = os.pathsep.join([str(folder / "site"), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": path, "REFUSED": " ".join(OPTIONAL), "REFUSALS": str(refusals)}
    done = subprocess.run(
        [sys.executable, "-c", code, *words], cwd=folder, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, refusals.read_text().split()


def test_every_extra_has_a_command() -> None:
    assert {extra for extra, _ in COMMANDS.values()} | {"sklearn"} == EXTRAS.keys()
    assert {"fastapi", "optuna", "huggingface_hub", "onnxruntime", "pyarrow", "sklearn", "sqlalchemy"} < OPTIONAL


@pytest.mark.slow
def test_the_core_verbs_import_no_optional_package(tmp_path: Path) -> None:
    _, asked = run_without_extras(tmp_path, CORE)
    assert not asked


@pytest.mark.slow
def test_a_command_names_the_missing_extra_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "rows.parquet").write_bytes(b"PAR1")
    gguf_files.write(tmp_path / "model.gguf", gguf_files.tiny(), gguf_files.byte_pairs())
    train = {"train": ["train", "opinions:rows=60", "--model", "bag", "--steps", "1", "--out", "run", "-q"]}
    commands = {**train, **{name: words for name, (_, words) in COMMANDS.items()}}
    output, _ = run_without_extras(tmp_path, RUN_COMMANDS, json.dumps(commands))
    results: dict[str, Any] = json.loads(output.splitlines()[-1])
    assert results.pop("train")[0] == 0
    for name, (code, lines) in results.items():
        extra, _ = COMMANDS[name]
        assert code == 2, (name, code, lines)
        assert f"pip install 'glassformer[{extra}]'" in lines[-1], (name, lines)
        assert not any("Traceback" in line for line in lines), (name, lines)
