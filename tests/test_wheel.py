"""The wheel, installed alone in a bare environment: it trains, predicts, looks, and has the files of its pages."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.slow
def test_a_wheel_works_without_its_source(tmp_path: Path) -> None:
    outside = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "GLASSFORMER"))}

    def run(*words: str | Path) -> str:
        done = subprocess.run(list(map(str, words)), cwd=tmp_path, env=outside, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", tmp_path / "dist", ROOT)
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    run(sys.executable, "-m", "venv", "bare")
    python = tmp_path / "bare" / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", "--no-compile", "-c", ROOT / "constraints.txt", wheel)
    assert str(tmp_path) in run(python, "-c", "import glassformer; print(glassformer.__file__)")
    run(python, "-m", "glassformer", "train", "opinions", "--size", "hand", "--steps", "2", "--out", "run")
    assert "positive" in run(python, "-m", "glassformer", "predict", "run", "lovely soup", "--json")
    run(python.with_name("glassformer"), "look", "run", "lovely soup", "--out", "page.html")
    assert "ResizeObserver" in (tmp_path / "page.html").read_text()  # the viewer is in the wheel
    assert (tmp_path / "run" / "README.md").exists()
