"""Files of one's own: how they are told to a command, what a run keeps of them, and what is refused in one line."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import glassformer as gf
from glassformer.cli.main import main
from glassformer.config import plugins
from glassformer.config.errors import Misuse, RunError
from glassformer.runs.run import Run

NORM = """\
import glassformer as gf
from torch import nn

@gf.register_brick("norm", "NAME")
class Half(nn.Module):
    def forward(self, x):
        return x / 2
"""
SMALL: dict[str, Any] = {"size": "hand", "steps": 2, "model.context": 16}


def write(folder: Path, name: str = "half", more: str = "") -> Path:
    file = folder / f"{name}.py"
    file.write_text(NORM.replace("NAME", name) + more, encoding="utf-8")
    return file


@pytest.fixture
def half(tmp_path: Path) -> Path:
    """A run with a norm of a file of its own."""
    gf.use(write(tmp_path))
    return Path(gf.train("reverse:rows=60", out=tmp_path / "run", **SMALL, **{"model.norm": "half"}))


def forget(name: str) -> None:
    """As in a process that was told nothing."""
    plugins._parts.pop(("norm", name))
    plugins._digests.clear()
    sys.modules.pop(name)
    os.environ.pop(plugins.VARIABLE)


def said(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().err.strip()


def test_a_run_keeps_the_file_by_name_and_digest(half: Path) -> None:
    (entry,) = Run.open(half).card()["bricks"]
    digest = subprocess.run(["sha256sum", half.parent / "half.py"], capture_output=True, text=True, check=True).stdout
    assert entry == {"kind": "norm", "name": "half", "file": "half.py", "sha256": digest.split()[0]}


@pytest.mark.parametrize("verb", ["generate", "evaluate", "look", "doctor", "check", "embed", "train"])
def test_without_its_file_a_run_says_what_is_missing(half: Path, verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    forget("half")
    arguments = [verb, str(half)] if verb != "train" else [verb, "--resume", "--steps", "4", "--out", str(half)]
    assert main([*arguments, *(["abc"] if verb in ("generate", "look", "embed") else [])]) != 0
    assert said(capsys).endswith(
        f'{half} was trained with norm "half" of half.py: say --brick half.py (from Python: gf.use("half.py"))'
    )
    with pytest.raises(RunError, match=r"say --brick half\.py"):
        gf.load(half)


def test_a_file_that_has_changed_is_told_once(half: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gf.load(half, "cpu")
    write(half.parent, more="# not as it was\n")
    gf.use(half.parent / "half.py")
    with pytest.warns(UserWarning, match=r"half\.py has changed since .*run was trained"):
        gf.load(half, "cpu")
    gf.load(half, "cpu")  # warnings are errors here
    plugins._warned.clear()
    assert main(["generate", str(half), "abc", "--tokens", "2", "--brick", str(half.parent / "half.py")]) == 0
    assert said(capsys).count("half.py has changed since") == 1


def test_a_notebook_is_no_file(tmp_path: Path) -> None:
    class Third(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x / 3

    Third.__module__ = "__main__"
    gf.register_brick("norm", "third")(Third)
    gf.register_brick("norm", "third")(Third)  # the cell is run again
    run = gf.train("reverse:rows=60", out=tmp_path / "run", **SMALL, **{"model.norm": "third"})
    assert Run.open(run).card()["bricks"][0]["file"] is None
    plugins._parts.pop(("norm", "third"))
    with pytest.raises(RunError, match=r'with norm "third", which is not known here: register it first'):
        gf.load(run)


def test_names_are_taken_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gf.use(write(tmp_path))
    gf.use(write(tmp_path))
    (other := tmp_path / "other.py").write_text(NORM.replace("NAME", "half"), encoding="utf-8")
    with pytest.raises(Misuse, match=r'other\.py cannot be imported: line 4: there is norm "half" of half\.py already'):
        gf.use(other)
    with pytest.raises(Misuse, match='there is norm "rms" among ours: choose another name'):
        gf.register_brick("norm", "rms")
    with pytest.raises(Misuse, match="there is a model lstm already"):
        gf.register_model("lstm")
    with pytest.raises(Misuse, match="unknown kind of brick 'norms'; did you mean norm"):
        gf.register_brick("norms", "mine")
    assert main(["train", "reverse", "--model.norm", "haf"]) == 2
    assert "did you mean half? (one of: rms, layer, batch, none, mean-size, half)" in said(capsys)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (None, "cannot read {file}: No such file or directory"),
        ("x = (", "{file} cannot be imported: line 1: SyntaxError: '(' was never closed"),
        ("x = 1\n1 / 0", "{file} cannot be imported: line 2: ZeroDivisionError: division by zero"),
        ("raise SystemExit(3)", "{file} cannot be imported: line 1: SystemExit: 3"),
        ("x = 1", "{file} registers nothing: use gf.register_brick, or name a class, as in {file}:Attention"),
    ],
)
def test_a_bad_file_is_one_line(
    text: str | None, line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "bad.py"
    if text is not None:
        file.write_text(text, encoding="utf-8")
    assert main(["train", "reverse:rows=60", "--brick", str(file)]) == 2
    assert said(capsys) == f"glassformer: {line.format(file=file)}"
    assert "bad" not in sys.modules or text == "x = 1"


def test_a_name_in_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "plain.py"
    file.write_text("class Mine:\n    pass\n", encoding="utf-8")
    gf.use(f"{file}:Mine")  # it need not be registered
    assert main(["data", "--brick", f"{file}:Mine"]) == 0
    assert main(["data", "--brick", f"{file}:Yours"]) == 2
    assert "unknown name 'Yours'" in said(capsys)
    with pytest.raises(Misuse, match=r"gf\.use takes names of files, not an int"):
        gf.use(3)  # type: ignore[arg-type]
    for word in (str(tmp_path), "mine.txt"):
        with pytest.raises(Misuse, match="is no Python file"):
            gf.use(word)


BAD = {
    "class N(nn.Module):\n    def __init__(self, width, depth): ...": "wants depth, which its place does not offer: "
    "that is width, bias, eps",
    "class N(nn.Module):\n    def forward(self, x, gamma): ...": "its forward wants gamma, and there is only x, mask",
    "class N(nn.Module):\n    def forward(self, x): return x[..., 1:]": "returned 1×16×3, but must return 1×16×4",
    "class N(nn.Module):\n    def forward(self, x): return 3": "must return a tensor, not an int",
    "class N(nn.Module):\n    def forward(self, x):\n        return x @ x": "fails: line 8: RuntimeError",
    "def make(width): return width": "must be an nn.Module, or make one, not an int",
    "def make(width): return nn.Linear(width, 'two')": "fails: line 6: TypeError",
}


@pytest.mark.parametrize(("code", "line"), BAD.items(), ids=range(len(BAD)))
def test_a_bad_brick_is_one_line_and_leaves_no_run(code: str, line: str, tmp_path: Path) -> None:
    file = tmp_path / "bad_brick.py"
    file.write_text(f"import glassformer as gf\nfrom torch import nn\n\n\n@gf.register_brick('norm', 'bad')\n{code}\n")
    gf.use(file)
    with pytest.raises(Misuse) as error:
        gf.train("reverse:rows=60", out=tmp_path / "run", **SMALL, **{"model.norm": "bad"})
    assert line in str(error.value)
    assert 'norm "bad" of bad_brick.py' in str(error.value)
    assert not (tmp_path / "run").exists()


def test_a_file_called_like_a_module_of_others(tmp_path: Path) -> None:
    file = write(tmp_path, "wave")  # the standard library has one
    gf.use(file)
    assert plugins.own_part("norm", "wave") is not None
    import wave

    assert hasattr(wave, "open")


@pytest.mark.slow
def test_other_processes_know_it(half: Path) -> None:
    code = "import glassformer.config.plugins as p; p.load_plugins(); print(p.own_part('norm', 'half'))"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    found = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == 'norm "half" of half.py'


def test_an_encoder_of_ones_own_is_told_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from glassformer.config.encoders import ENCODERS
    from glassformer.encoders.convolutional import IdentityEncoder
    from glassformer.encoders.registry import BUILDERS

    for table in (BUILDERS, ENCODERS):  # and gone afterwards
        monkeypatch.setitem(table, "nothing", None)  # type: ignore[misc, arg-type]
        del table["nothing"]

    @gf.register_encoder("nothing", gf.EncoderInfo("nothing"))
    def build(settings: Any, place: Any) -> gf.Encoder:
        return IdentityEncoder(width=place.input_width, causal=place.causal)

    settings = {"model.width": 8, "model.context": 16, "steps": 2}
    run = gf.train("reverse:rows=60", out=tmp_path / "run", model="nothing", **settings)
    assert [part["kind"] for part in Run.open(run).card()["bricks"]] == ["encoder"]
    assert torch.is_tensor(gf.load(run, "cpu").model(torch.tensor([[1, 2]])))
    plugins._parts.pop(("encoder", "nothing"))
    with pytest.raises(RunError, match=r'encoder "nothing" of test_files\.py: say --brick test_files\.py'):
        gf.load(run)
