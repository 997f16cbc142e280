"""How submissions are isolated: as root, as an ordinary user, without namespaces, and where nothing works."""

import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import glassformer as gf
from glassformer.cli.main import main
from glassformer.config.errors import Misuse
from glassformer.teaching import isolation, nursery
from glassformer.teaching.isolation import probe
from glassformer.teaching.view import bubblewrap, find_bubblewrap, view_for
from helpers.grading import GOOD, POINTS, SECRET, attacks, write_attacks

ARCHIVE = Path(__file__).with_name("hostile")
ATTACKS = {name: one for name, one in attacks(ARCHIVE).items() if "takes more" not in one.says}
"""Without those that only wait for their end."""
NOBODY = 65534
TESTS = Path(__file__).parents[1]
CLOSED = ["hidden files closed", "/etc/shadow closed", "no sockets", "no new processes", "no files outside its folder",
          "no changed modes of hidden files", "no changed priorities"]  # fmt: skip


def closed_to_others(path: str) -> str:
    """Return the first folder above a path that other users cannot enter, or ""."""
    above = [*reversed(Path(path).resolve().parents)]
    return next((str(one) for one in above if not one.stat().st_mode & stat.S_IXOTH), "")


def as_ordinary_user() -> list[str]:
    """Return the beginning of a command that runs as a user without any rights."""
    if os.geteuid() != 0:
        return []
    if shutil.which("setpriv") is None:
        pytest.skip("setpriv is not installed")
    command = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    private = closed_to_others(sys.base_prefix)
    if closed_to_others(str(TESTS)) or closed_to_others(sys.prefix) not in ("", private):
        pytest.skip("other users cannot read this repository")
    if not private:
        return command
    if find_bubblewrap() is None:
        pytest.skip("other users cannot read the interpreter")
    between = [str(one) for one in reversed(Path(sys.base_prefix).parents) if str(one).startswith(f"{private}/")]
    folders = [word for one in between for word in ("--dir", one)]
    return ["bwrap", "--dev-bind", "/", "/", "--perms", "0755", "--tmpfs", private, *folders, "--ro-bind",
            sys.base_prefix, sys.base_prefix, "--", *command]  # fmt: skip


@pytest.fixture
def archive() -> Iterator[tuple[Path, dict[str, Path]]]:
    """The hostile submissions in a folder that every user can read and none but this one can change."""
    folder = Path(tempfile.mkdtemp(prefix="glassformer-test-"))
    folder.chmod(0o755)
    yield folder, write_attacks(ARCHIVE, folder)
    shutil.rmtree(folder)


def graded(command: list[str], folder: Path, files: list[Path], *options: str) -> list[dict[str, Any]]:
    script = [sys.executable, "-B", str(TESTS / "helpers" / "grade_archive.py"), str(folder), *options]
    paths = os.pathsep.join([str(TESTS), str(Path(gf.__file__).parents[1])])
    environment = {**os.environ, "PYTHONPATH": paths, "HOME": "/tmp", "GLASSFORMER_CACHE": "/tmp"}
    done = subprocess.run(
        [*command, *script, *map(str, files)], capture_output=True, text=True, env=environment, cwd="/"
    )
    if done.returncode and "no user namespaces" in done.stderr:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stderr
    told: list[dict[str, Any]] = json.loads(done.stdout)
    return told


def with_right_ones(folder: Path, files: dict[str, Path]) -> list[Path]:
    right = folder / "handed-in" / "0.py"
    return [file for place, name in enumerate(ATTACKS) for file in [files[name], *[right] * (place % 10 == 9)]] + [
        right
    ]


def sorted_out(told: list[dict[str, Any]]) -> tuple[dict[str, dict[str, Any]], list[dict[str, Any]]]:
    """Return the results of the attacks by name, and those of the right submission among them."""
    by_name = {Path(one["file"]).name: one for one in told}
    del by_name["0.py"]
    return by_name, [one for one in told if one["file"].endswith("/0.py")]


@pytest.mark.slow
def test_as_an_ordinary_user(archive: tuple[Path, dict[str, Path]]) -> None:
    folder, files = archive
    told = graded(as_ordinary_user(), folder, with_right_ones(folder, files))
    if "bubblewrap" not in told[0]["isolation"]:
        pytest.skip(f"bubblewrap cannot run here: {told[0]['isolation']}")
    by_name, right_ones = sorted_out(told)
    assert {one["points"] for one in right_ones} == {POINTS["nothing"]}
    assert {*CLOSED, "bubblewrap", "at most 64 threads"} <= {*right_ones[-1]["isolation"]}
    for name, got in by_name.items():
        assert got["points"] == ATTACKS[name].points, got
        assert not [item for item in got["items"] if item["visible"] and SECRET in item["line"]], got
        assert not [note for note in got["notes"] if SECRET in note], got


@pytest.mark.slow
def test_without_namespaces(archive: tuple[Path, dict[str, Path]]) -> None:
    folder, files = archive
    told = graded(as_ordinary_user(), folder, with_right_ones(folder, files), "--without-namespaces")
    by_name, right_ones = sorted_out(told)
    assert {one["points"] for one in right_ones} == {POINTS["nothing"]}
    assert any(line.startswith("without bubblewrap (") for line in right_ones[-1]["isolation"])
    assert {"landlock", "no sockets", "no new processes"} <= {*right_ones[-1]["isolation"]}
    for name, got in by_name.items():
        stolen = got["points"] > ATTACKS[name].points or any(SECRET in line for line in got["lines"])
        if stolen:
            assert "weak: hidden files can be read" in got["isolation"], (name, got)
        else:
            assert got["points"] == ATTACKS[name].points, (name, got)


@pytest.mark.slow
def test_everything_ends_with_a_killed_grader(archive: tuple[Path, dict[str, Path]]) -> None:
    folder, _ = archive
    loop = folder / "handed-in" / "loop.py"
    loop.write_text(f"{GOOD}sys.modules['ctypes'].CDLL(None).prctl(1, 0, 0, 0, 0)\nwhile True:\n    pass\n")
    script = [sys.executable, str(TESTS / "helpers" / "grade_archive.py"), str(folder), str(loop)]
    paths = os.pathsep.join([str(TESTS), str(Path(gf.__file__).parents[1])])
    with subprocess.Popen(script, env={**os.environ, "PYTHONPATH": paths}, stdout=subprocess.DEVNULL) as grader:
        began = time.monotonic()
        while not (loops := [pid for pid in descendants(grader.pid) if cpu_seconds(pid) > 0 and is_fork(pid)]):
            assert grader.poll() is None
            assert time.monotonic() - began < 300
            time.sleep(0.05)
        known = [*descendants(grader.pid), *loops]
        grader.send_signal(signal.SIGKILL)
    until = time.monotonic() + 60
    while left := [pid for pid in known if is_running(pid)]:
        assert time.monotonic() < until, left
        time.sleep(0.05)


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def descendants(root: int) -> list[int]:
    """Return the processes that this one started, and those that they started."""
    parents = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            parents[int(name)] = parent_of(int(name))
        except OSError:
            continue
    found = {root}
    while more := {pid for pid, parent in parents.items() if parent in found and pid not in found}:
        found |= more
    return sorted(found - {root})


def cpu_seconds(pid: int) -> float:
    try:
        return float(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11])
    except OSError:
        return 0.0


def is_fork(pid: int) -> bool:
    """Whether a process has the command line of its parent, as a submission has the nursery's."""
    try:
        own, above = (Path(f"/proc/{one}/cmdline").read_bytes() for one in (pid, parent_of(pid)))
    except OSError:
        return False
    return own == above != b""


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_root_without_bubblewrap_and_with_a_private_interpreter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if os.geteuid() != 0 or not closed_to_others(os.__file__):
        pytest.skip("this is not root, or other users can read the interpreter")
    (tmp_path / "a.py").write_text(GOOD)
    monkeypatch.setattr(nursery, "find_bubblewrap", lambda: None)
    with pytest.raises(Misuse, match=r"must not run as root: install bubblewrap, or start grade as another user"):
        gf.grade(tmp_path / "a.py", "attention")


@pytest.mark.parametrize(
    "words",
    [["-m", "glassformer", "grade", "csv.py", "--lesson", "attention"], ["-m", "glassformer", "-q", "grade", "csv.py"],
     ["-m", "glassformer", "lesson", "attention", "--check", "csv.py"],
     ["-m", "glassformer", "lesson", "attention", "--check=csv.py"]],
)  # fmt: skip
def test_python_m_does_not_grade_beside_submissions(words: list[str], tmp_path: Path) -> None:
    done = run_beside_submissions(words, tmp_path, "")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "Use the command `glassformer grade`" in done.stderr


@pytest.mark.parametrize("program", ["glassformer", "gf"])
@pytest.mark.parametrize("verb", [["grade"], ["lesson", "attention", "--check"]])
@pytest.mark.parametrize("entry", ["", "FOLDER", "LINK"])
def test_submissions_in_a_folder_of_the_commands_path(
    entry: str, verb: list[str], program: str, tmp_path: Path
) -> None:
    script, folder, link = tmp_path / "bin" / program, tmp_path / "handed-in", tmp_path / "link"
    for one in (script.parent, folder):
        one.mkdir()
    link.symlink_to(folder)
    script.write_text("import sys\nfrom glassformer.cli.main import main\nsys.exit(main())\n")
    places = {"FOLDER": str(folder), "LINK": str(link)}
    beside = folder if entry == "" else tmp_path
    file = "csv.py" if entry == "" else str(folder / "csv.py")
    done = run_beside_submissions([str(script), *verb, file], folder, places.get(entry, entry), beside)
    assert done.returncode == 2
    assert "outside the sandbox" in done.stderr
    done = run_beside_submissions([str(script), "grade", "--help"], folder, "/nowhere", folder)
    assert done.returncode == 0


def run_beside_submissions(
    words: list[str], folder: Path, entry: str, start: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run Python where modules of the standard library have submissions of the same name; none of these may run."""
    for name in ("csv", "secrets", "typing", "json", "dataclasses", "re", "glob"):
        (folder / f"{name}.py").write_text(f"open({str(folder / 'ran')!r}, 'w').close()\nraise SystemExit")
    paths = os.pathsep.join([*([entry] if start else []), str(Path(gf.__file__).parents[1])])
    environment = {**os.environ, "PYTHONPATH": paths}
    done = subprocess.run(
        [sys.executable, *words], cwd=start or folder, capture_output=True, text=True, env=environment
    )
    assert not (folder / "ran").exists()
    return done


def test_python_m_grades_with_a_safe_path(tmp_path: Path) -> None:
    done = run_beside_submissions(["-P", "-m", "glassformer", "grade", "--help"], tmp_path, "")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("file", ["a.py", "csv/__init__.py", "csv/a.py"])
def test_submissions_in_a_folder_of_pythons_path(file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "csv").mkdir()
    (tmp_path / "csv" / "__init__.py").write_text(GOOD)
    (tmp_path / file).write_text(GOOD)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    with pytest.raises(Misuse, match="is on Python's path"):
        gf.grade(file, "attention")


def test_files_that_are_not_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo(tmp_path / "pipe.py")
    (tmp_path / "folder.py").mkdir()
    (tmp_path / "link.py").symlink_to("/etc/shadow")
    (tmp_path / "large.py").write_bytes(b"x = 1\n" * 200_000)
    names = ("pipe.py", "folder.py", "link.py", "large.py", "gone.py")
    files = [str(tmp_path / name) for name in names]
    problems = [one.problem for one in gf.grade(files, "attention")]
    for problem, said in zip(
        problems, ("is not a file", "is not a file", "is a link", "more than the limit", "cannot"), strict=True
    ):
        assert said in problem
    assert main(["grade", *files[3:4], "--lesson", "attention", "--limit", "submission_bytes=1000"]) == 1
    assert "--limit submission_bytes=" in capsys.readouterr().out


def test_what_is_open_is_reported(tmp_path: Path) -> None:
    (tmp_path / "hidden").write_text("x")
    lines = probe([str(tmp_path / "hidden")])
    assert "weak: hidden files can be read" in lines
    assert "weak: sockets can be opened" in lines
    assert "weak: new processes can be started" in lines
    assert "weak: files outside its folder can be written" in lines
    assert "weak: modes of hidden files can be changed" in lines
    assert "weak: priorities can be changed" in lines
    assert os.listdir(tmp_path) == ["hidden"]


def test_the_view_has_no_solutions(tmp_path: Path) -> None:
    (tmp_path / "hidden").mkdir()
    view = view_for([], [tmp_path / "hidden"])
    assert not [path for path in view.readable if str(tmp_path).startswith(path)]
    package = Path(gf.__file__).parent
    assert {str(package / "teaching" / name) for name in ("lessons", "exercises")} <= {*view.covered}
    inside = view_for([], [package / "data"])
    assert str(package / "data") in inside.covered
    command = bubblewrap("bwrap", inside, ["python"])
    assert command[command.index(str(package / "data")) - 1] == "--tmpfs"


def test_system_calls_have_numbers_on_every_machine() -> None:
    for table in isolation.SYSTEM_CALLS.values():
        assert {*isolation.CHECKED} <= {*table["calls"]}
        assert table["attributes"]


FILTERED = """
import ctypes, os, sys
from glassformer.teaching.isolation import _filter_system_calls

file, attributes = sys.argv[1], sys.argv[2] == "True"
opened = os.open(file, os.O_RDONLY)
vmsplice = {"x86_64": 278, "aarch64": 75}[os.uname().machine]
calls = {
    "chmod": lambda: os.chmod(file, 0o600), "fchmod": lambda: os.fchmod(opened, 0o600),
    "chown": lambda: os.chown(file, -1, -1), "utime": lambda: os.utime(file),
    "setxattr": lambda: os.setxattr(file, "user.x", b""), "priority": lambda: os.setpriority(os.PRIO_PROCESS, 0, 5),
    "scheduler": lambda: os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0)),
    "affinity": lambda: os.sched_setaffinity(0, os.sched_getaffinity(0)),
}
if not _filter_system_calls(attributes=attributes):
    sys.exit("no filter")
for name, call in calls.items():
    try:
        call()
        print(name)
    except PermissionError:
        pass
    except OSError:
        print(name)
libc = ctypes.CDLL(None, use_errno=True)
if libc.syscall(vmsplice, -1, None, 0, 0) != -1 or ctypes.get_errno() != 1:
    print("vmsplice")
"""


@pytest.mark.parametrize(("attributes", "allowed"), [(True, "chmod fchmod chown utime setxattr"), (False, "")])
def test_calls_that_reach_other_files_and_processes(attributes: bool, allowed: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    command = [sys.executable, "-c", FILTERED, str(tmp_path / "file"), str(attributes)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.stderr == "no filter\n":
        pytest.skip("no numbers of system calls are known for this machine")
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == allowed.split()


def test_threads_of_other_users_do_not_count() -> None:
    nobody_has = 1_999_999_999
    assert isolation._threads_of(nobody_has) == 0
    assert 1 <= isolation._threads_of(os.getuid()) < 100_000
