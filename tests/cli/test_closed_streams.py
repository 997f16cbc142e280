"""Commands work with any of the standard streams closed, with a reader that closes its pipe early, and on a terminal of
20 columns.
"""

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

GLASSFORMER = f"{sys.executable} -m glassformer"


def run_in_shell(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run(["bash", "-c", command], cwd=folder, env=environment, capture_output=True, text=True)


def test_closed_stdout_is_never_reused_for_a_file(tmp_path: Path) -> None:
    code = (
        "from glassformer.cli.terminal.show import open_closed_streams as f; f(); file = open('a', 'w'); print('text')"
    )
    done = run_in_shell(f'{sys.executable} -c "{code}; assert file.fileno() > 2" >&- 2>&- <&-', tmp_path)
    assert done.returncode == 0
    assert (tmp_path / "a").read_text() == ""


def run_in_terminal(command: str, folder: Path, columns: int) -> tuple[int, str]:
    """Return the exit code of a command on a terminal of so many columns, and what it printed there."""
    controller, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": str(columns), "TERM": "xterm"}
    process = subprocess.Popen(
        ["bash", "-c", command], cwd=folder, env=environment, stdin=terminal, stdout=terminal, stderr=terminal
    )
    os.close(terminal)
    printed = b""
    try:
        while piece := os.read(controller, 2**16):
            printed += piece
    except OSError:  # Linux's way to tell that the terminal was closed
        pass
    os.close(controller)
    return process.wait(), printed.decode(errors="replace")


MANY_VERBS = [
    "--help",
    "train opinions:rows=200 --model bag --steps 2 --out run",
    "train dates:rows=200 --model lstm --steps 2 --model.width 8 --out translator",
    "train add:rows=200 --model lstm --steps 2 --model.width 8 --out writer",
    "evaluate run",
    "predict run good bad",
    "generate writer 1+1 --tokens 4",
    "translate translator 'le 14 juillet 1989'",
    "look run good --out page.html",
    "embed run good",
    "tokenizer train opinions:rows=200 --out tokens.json",
    "tokenizer show tokens.json good",
    "compare opinions:rows=200 --models bag --steps 2 --seeds 1 --no-references --out compared",
    "tune opinions:rows=120 --model average --trials 2 --steps 2 --no-final --out tuned",
    "plan opinions:rows=200 --model bag",
    "doctor run",
    "check run --only saved",
    "scaling --models lstm --lengths 4,8",
    "export translator --to onnx exported",
    "data list",
    "data describe opinions",
    "data show opinions:rows=20",
    "data check opinions:rows=200",
    "lesson regression",
    "completion bash",
]


@pytest.mark.slow
@pytest.mark.parametrize("reader", ["| head -1", "2>&1 | head -1", "2>&1 | true"])
def test_every_verb_ends_well_if_its_reader_closes_early(reader: str, tmp_path: Path) -> None:
    for command in MANY_VERBS:
        done = run_in_shell(f"set -o pipefail; {GLASSFORMER} {command} {reader}", tmp_path)
        assert "Traceback" not in done.stdout + done.stderr
        assert done.returncode == 0, f"{command} {reader}: {done.stderr}"
    assert '"status": "finished"' in (tmp_path / "run" / "glassformer.json").read_text()


def test_an_error_that_nobody_reads_still_has_its_exit_code(tmp_path: Path) -> None:
    done = run_in_shell(f"set -o pipefail; (sleep 0.3; {GLASSFORMER} train missing.csv) 2>&1 | true", tmp_path)
    assert done.returncode == 2


@pytest.mark.slow
def test_every_verb_works_in_a_narrow_terminal(tmp_path: Path) -> None:
    for command in MANY_VERBS:
        code, printed = run_in_terminal(f"{GLASSFORMER} {command}", tmp_path, columns=20)
        assert "Traceback" not in printed
        assert code == 0, f"{command}: {printed}"


@pytest.mark.slow
@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", ">&- 2>&- <&-", "| true"])
def test_every_verb_ends_well(closed: str, tmp_path: Path) -> None:
    commands = [
        "train opinions:rows=200 --model bag --steps 2 --out run",
        "evaluate run",
        "predict run 'good'",
        "look run 'good' --view attribution --out page.html",
        "doctor run",
        "check run --only saved",
        "plan opinions:rows=200 --model bag",
        "data list",
        "export run --to huggingface --out exported",
        "compare opinions:rows=200 --models bag --steps 2 --seeds 1 --no-references --out compared",
    ]
    for command in commands:
        done = run_in_shell(f"set -o pipefail; {GLASSFORMER} {command} {closed}", tmp_path)
        assert "Traceback" not in done.stderr
        wanted = 2 if command.startswith("export") else 0  # a bag has no Hugging Face counterpart
        assert done.returncode == wanted, f"{command} {closed}: {done.stderr}"
    assert (tmp_path / "run" / "model.safetensors").is_file()
