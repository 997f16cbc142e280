"""What a machine does to a program: others in the same folder, a full disk, folders that may not be written, no home, a
locale without letters, a clock that is set. One line or the right answer, and what was there before still serves.

Children are forked from this process, which has everything imported: starting up is not what is tried.
"""

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest

import glassformer as gf
from glassformer.cli.main import main
from glassformer.exchange.exporting import EXPORTS
from glassformer.runs.run import Run
from helpers.attempts import Tried
from helpers.disks import small_disk
from helpers.running import PATIENCE, flags, identical, labelled, tensors_of
from helpers.tables import opinions, write_table

pytestmark = pytest.mark.trust

TEXT = "the soup 7 was good and lovely"
SETTINGS = labelled("average", training__steps=4, training__checkpoint_every=2, training__validate_every=2)
NOBODY = 65534


# --- children ---


@dataclass(frozen=True)
class Child:
    """A process that was forked, and the pipes it writes to."""

    pid: int
    pipes: tuple[int, int]

    def end(self) -> tuple[int, str, str]:
        """Exit code, stdout, stderr."""
        said = []
        for pipe in self.pipes:
            with open(pipe, encoding="utf-8", errors="replace") as file:
                said.append(file.read())
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1]), *said


def start(*argv: object, before: Callable[[], object] = lambda: None) -> Child:
    """The command line in a child; `before` happens in it first."""
    (out, write_out), (err, write_err) = os.pipe(), os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of threads that the fork leaves behind
        pid = os.fork()
    if pid:
        os.close(write_out)
        os.close(write_err)
        return Child(pid, (out, err))
    code = 99
    try:
        signal.alarm(PATIENCE)  # a child that hangs dies
        os.dup2(write_out, 1)
        os.dup2(write_err, 2)
        sys.stdin = os.fdopen(os.open(os.devnull, os.O_RDONLY))
        sys.stdout, sys.stderr = (os.fdopen(number, "w", encoding="utf-8", buffering=1) for number in (1, 2))
        before()
        code = main([str(word) for word in argv])
    except BaseException as error:
        print(f"Traceback: {type(error).__name__}: {error}", file=sys.stderr)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def whole(ended: tuple[int, str, str]) -> str:
    code, out, err = ended
    assert code == 0, err
    assert "Traceback" not in err
    return out


def refused(ended: tuple[int, str, str]) -> str:
    """Not 0, and one line that says why."""
    code, _, err = ended
    assert code in (1, 2), (code, err)
    assert "Traceback" not in err
    lines = [line for line in err.splitlines() if line.startswith("glassformer: ")]
    assert len(lines) == 1, err
    return lines[0]


@pytest.fixture(scope="module")
def trained() -> Iterator[Path]:
    """A folder that everybody may read, with a table, and a run on it."""
    with tempfile.TemporaryDirectory(prefix="glassformer-test-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        write_table(folder / "opinions.csv", opinions(60))
        gf.train(folder / "opinions.csv", out=folder / "run", **SETTINGS)
        gf.look(folder / "run", TEXT).page()
        gf.export(
            folder / "run", to="onnx", folder=folder / "onnx"
        )  # what is imported late is so before the first fork
        shutil.rmtree(folder / "onnx")
        yield folder


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained / "run", tmp_path / "run"))


def reading(run: Path, out: Path) -> list[tuple[object, ...]]:
    """Verbs that read a run."""
    return [
        ("evaluate", run, "--json"),
        ("evaluate", run, "--errors", "--out", out / "errors.html"),
        ("predict", run, TEXT, "--json"),
        ("look", run, TEXT, "--out", out / "look.html"),
        ("embed", run, TEXT, "--out", out / "vectors.npy"),
        ("doctor", run),
        ("export", run, "--to", "onnx", out / "onnx"),
    ]


# --- several at once ---


def files_of(run: Path) -> dict[Path, bytes]:
    """All but where it was exported to, which an export writes down."""
    return {path: path.read_bytes() for path in run.rglob("*") if path.is_file() and path.name != EXPORTS}


def test_many_readers_of_one_run(trained: Path, run: Path, tmp_path: Path, tried: Tried) -> None:
    before = files_of(run)
    children = []
    for number in range(2):
        (out := tmp_path / str(number)).mkdir()
        children += [start(*argv) for argv in reading(run, out)]
    said = [whole(child.end()) for child in children]
    each = len(said) // 2
    for number in range(each - 1):  # the last names the folder it wrote
        assert said[number].replace("/0/", "/n/") == said[number + each].replace("/1/", "/n/")
    assert files_of(run) == before
    tried("several processes", "reading one run folder at once", len(said), "the same results; the run is unchanged")


def test_readers_beside_a_training(run: Path, tried: Tried) -> None:
    """Weights are replaced at every step, and every reader finds whole ones."""
    training = start("train", "--resume", "--out", run, "--steps", 100, "--training.validate_every", 1)
    reads = 0
    while Run(run).card().get("step", 0) != 100 and Run(run).card()["status"] != "failed":
        assert gf.load(run).predict(TEXT).label in ("good", "bad")
        reads += 1
        if reads > 20 and Run(run).card()["status"] == "finished":
            break
    whole(training.end())
    assert gf.load(run).predict(TEXT).label in ("good", "bad")
    tried("several processes", "reading a run while it trains", reads, "complete weights every time")


def test_two_comparisons_in_one_folder(trained: Path, tmp_path: Path, tried: Tried) -> None:
    words = (
        "compare",
        trained / "opinions.csv",
        "--models",
        "bag",
        "--seeds",
        1,
        "--epochs",
        1,
        "--out",
        tmp_path / "both",
    )
    children = [start(*words) for _ in range(2)]
    ended = [child.end() for child in children]
    codes = sorted(code for code, _, _ in ended)
    assert codes[0] == 0, ended
    if codes[1]:
        assert "another comparison is at work" in refused(next(one for one in ended if one[0]))
    assert "bag" in whole(start(*words).end())
    tried("several processes", "two comparisons in one folder", 2, "one runs and the other reports it, or both agree")


# --- disks and folders ---


def write_all(table: Path, run: Path, out: Path, before: Callable[[], object]) -> int:
    """Every verb that writes, where it cannot: one line, or all of it; and no rest lies about."""
    writers: list[tuple[object, ...]] = [
        ("train", table, "--out", out / "new", *flags(SETTINGS)),
        ("train", "--resume", "--out", run, "--steps", 6),
        *(argv for argv in reading(run, out) if str(argv[-1]).startswith(str(out))),
    ]
    for argv in writers:
        ended = start(*argv, before=before).end()
        if ended[0]:
            refused(ended)
        else:
            whole(ended)
    assert not [path for folder in (run, out) for path in folder.rglob("*.part*")]
    assert gf.load(run).predict(TEXT).label
    return len(writers)


def goes_on(run: Path) -> None:
    """With more room, a run goes on."""
    if Run(run).card().get("status") != "finished" or Run(run).card()["steps"] < 6:
        whole(start("train", "--resume", "--out", run, "--steps", 6).end())


def test_files_that_may_not_grow(trained: Path, tmp_path: Path, tried: Tried) -> None:
    """A limit on the size of files, from one that holds nothing to one that holds nearly all."""
    largest = max(path.stat().st_size for path in (trained / "run").rglob("*") if path.is_file())
    times = 0
    for limit in (0, largest // 2):
        run = Path(shutil.copytree(trained / "run", tmp_path / f"run-{limit}"))
        (out := tmp_path / f"out-{limit}").mkdir()

        def small(limit: int = limit) -> None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))

        times += write_all(trained / "opinions.csv", run, out, small)
        goes_on(run)
    tried(
        "full disk: file size limit",
        "every verb that writes",
        times,
        "a one-line error or a complete result; runs resume",
    )


def test_a_full_disk(trained: Path, tmp_path: Path, tried: Tried) -> None:
    """Room for the run, and for little, some or much of what is to be written."""
    own = sum(path.stat().st_size + 4096 for path in (trained / "run").rglob("*")) // 1024
    times = 0
    for more in (4, 100):
        with small_disk(tmp_path / f"disk-{more}", f"{own + more}k") as disk:
            run = Path(shutil.copytree(trained / "run", disk / "run"))
            (out := disk / "out").mkdir()
            times += write_all(trained / "opinions.csv", run, out, lambda: None)
            shutil.rmtree(out)
            subprocess.run(["mount", "-o", "remount,size=20m", disk], check=True)
            goes_on(run)
    tried(
        "full disk: full tmpfs", "every verb that writes", times, "a one-line error or a complete result; runs resume"
    )


# --- a plain user, without a home ---


@pytest.fixture
def common(trained: Path) -> Iterator[Path]:
    """A folder that everybody may read, with the table and the run; nobody may write to it."""
    folder = Path(tempfile.mkdtemp(prefix="glassformer-test-"))
    shutil.copytree(trained, folder / "all")
    for path in [folder, *folder.rglob("*")]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    yield folder / "all"
    for path in [folder, *(path for path in folder.rglob("*") if path.is_dir())]:
        path.chmod(0o755)
    shutil.rmtree(folder)


def as_plain_user(number: int = NOBODY, **environment: str | None) -> Callable[[], None]:
    """Give up what root may do; and change the environment."""

    def give_up() -> None:
        for name, value in environment.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value
        if os.geteuid() == 0:
            os.setgroups([])
            os.setgid(number)
            os.setuid(number)
        tempfile.tempdir = None

    return give_up


def test_a_folder_that_may_only_be_read(common: Path, tried: Tried) -> None:
    run, user = common / "run", as_plain_user()
    answers = [
        start(*argv, before=user).end() for argv in reading(run, common) if "--out" not in argv and "export" not in argv
    ]
    assert json.loads(whole(answers[0]))["accuracy"] == gf.evaluate(run).metrics["accuracy"]
    for ended in answers:
        whole(ended)
    times = len(answers) + 1
    for argv in [
        ("train", "--resume", "--out", run, "--steps", 6),
        ("train", common / "opinions.csv", "--out", run, "--overwrite", *flags(SETTINGS)),
        ("train", common / "opinions.csv", "--out", common / "new", *flags(SETTINGS)),
        *(argv for argv in reading(run, common) if str(argv[-1]).startswith(str(common)) and len(argv) > 2),
    ]:
        assert "ermi" in refused(start(*argv, before=user).end()), argv  # Permission denied, or may not be written
        times += 1
    assert gf.load(run).predict(TEXT).label
    tried("read-only folder", "every verb, as an ordinary user", times, "reading works; writing is a one-line error")


HOMELESS: dict[str, dict[str, str | None]] = {
    "no HOME": {"HOME": None},
    "a HOME that is not there": {"HOME": "/nowhere"},
    "nor TMPDIR": {"HOME": None, "TMPDIR": "/nowhere"},
    "read-only TMPDIR": {"HOME": "/proc", "TMPDIR": "/proc", "MPLCONFIGDIR": None},
}


@pytest.mark.parametrize("user", [NOBODY, 54321])
@pytest.mark.parametrize("name", HOMELESS)
def test_without_a_home(name: str, user: int, common: Path, tried: Tried) -> None:
    """A number that no file of users knows, as containers give one; tokens go to a cache that is nowhere."""
    environment = {"GLASSFORMER_CACHE": None, "XDG_CACHE_HOME": None, **HOMELESS[name]}
    home = Path(tempfile.mkdtemp(prefix="glassformer-test-"))
    home.chmod(0o777)
    words = ("train", "reverse:rows=60", "--out", home / "run", "--size", "nano", "--steps", 2)
    try:
        before = as_plain_user(user, **environment)
        whole(start(*words, "--tokenizer.kind", "char", before=before).end())
        whole(start("evaluate", home / "run", "--json", before=before).end())
        whole(start("predict", common / "run", TEXT, before=before).end())
    finally:
        shutil.rmtree(home)
    tried("no HOME, no TMPDIR", "ordinary users, with and without an account", 3, "the same results")


# --- letters and clocks ---


def test_a_locale_without_letters(tmp_path: Path, tried: Tried) -> None:
    """Files are UTF-8 whatever the machine thinks: the same run as in any other place."""
    rows = [
        (text.replace("soup", "Suppe für Zoë 🍲"), {"good": "größer", "bad": "малый"}[label])
        for text, label in opinions(60)
    ]
    table = write_table(tmp_path / "Tabelle.csv", rows)
    gf.train(table, out=tmp_path / "here", **SETTINGS)
    script = (
        "import sys; from glassformer.cli.main import main\n"
        "run, table, *flags = sys.argv[1:]\n"
        "code = main(['train', table, '--out', run, *flags]) or main(['evaluate', run, '--json'])\n"
        "sys.exit(code or main(['look', run, 'Suppe f\\u00fcr \\U0001f372', '--out', run + '.html']))"
    )
    plain = {key: value for key, value in os.environ.items() if not key.startswith(("LC_", "LANG", "PYTHONIOENCODING"))}
    ended = subprocess.run(
        [sys.executable, "-c", script, tmp_path / "there", table, *flags(SETTINGS)],
        capture_output=True,
        timeout=PATIENCE,
        env={**plain, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "utf-8"},
    )
    assert ended.returncode == 0, ended.stderr.decode(errors="replace")
    assert b"Traceback" not in ended.stderr
    identical(tensors_of(tmp_path / "here"), tensors_of(tmp_path / "there"))
    assert Run(tmp_path / "there").card()["labels"] == Run(tmp_path / "here").card()["labels"] == ["größer", "малый"]
    assert "🍲" in (tmp_path / "there.html").read_text(encoding="utf-8")
    tried("C locale", "train, evaluate and look on text beyond ASCII", 3, "the same run, bit for bit")


def test_a_clock_that_is_set(trained: Path, tmp_path: Path, tried: Tried, monkeypatch: pytest.MonkeyPatch) -> None:
    """Days back and forth at every look: what takes time is told by a clock that nobody sets."""
    jumps, began = Random(0), time.monotonic()
    monkeypatch.setattr(time, "time", lambda: 1.7e9 + jumps.uniform(-1e7, 1e7))
    gf.train(trained / "opinions.csv", out=tmp_path / "run", **SETTINGS)
    found = gf.tune(
        trained / "opinions.csv", model="bag", trials=2, minutes=60, out=tmp_path / "tune", final=False, epochs=1
    )
    assert len(found.trials) == 2
    identical(tensors_of(tmp_path / "run"), tensors_of(trained / "run"))
    lines = Run(tmp_path / "run").read_metrics()
    seconds = [line["seconds"] for line in lines if "seconds" in line]
    assert seconds == sorted(seconds)
    assert 0 <= seconds[0] <= seconds[-1] <= time.monotonic() - began
    assert 0 <= Run(tmp_path / "run").card()["seconds"] <= time.monotonic() - began
    tried("clock jumps", "days back and forth during train and tune", 2, "the same run and durations")
