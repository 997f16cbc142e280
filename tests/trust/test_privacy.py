"""Nothing is sent anywhere, and no file is written outside the output and the cache: every verb under strace.

Each process is watched until it exits. The ONNX export, whose package would report its use some time after its import,
stays alive for another minute.
"""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from ipaddress import ip_address
from pathlib import Path

import pytest

from helpers.attempts import Tried
from helpers.running import PATIENCE
from helpers.tables import opinions, write_table

pytestmark = pytest.mark.trust

CALLS = "connect,sendto,sendmsg,sendmmsg,openat,mkdir,mkdirat,?open,?creat"
LOCAL_FAMILIES = ("AF_UNIX", "AF_NETLINK", "AF_UNSPEC")
DNS = 53
"""A resolver of this machine forwards a name to others."""
CALL = re.compile(r"^\d+ +(\w+)\((.*)$")
INTERNET = re.compile(r'sa_family=(AF_INET6?), sin6?_port=htons\((\d+)\).*?(?:inet_addr\(|AF_INET6, )"([^"]+)"')
FAMILY = re.compile(r"sa_family=(\w+)")
PATH = re.compile(r'"((?:[^"\\]|\\.)*)"')
WRITES = re.compile(r"O_WRONLY|O_RDWR|O_CREAT")
VIRTUAL = ("/dev", "/proc", "/newroot", "/submission")
"""Paths that are not on a disk; bubblewrap builds in memory what a submission sees."""
CACHES = ("home/.cache/matplotlib", "home/.config/matplotlib")
"""matplotlib's list of fonts, and its folder of settings."""
ALLOWED = ("work", "cache", "temp", *CACHES)
SHORT_TRAINING = Path(__file__).parents[1] / "helpers" / "short_training.py"
LATER = 60
"""Seconds that the process of the ONNX export stays alive."""

MARK = "/verb/"
"""The beginning of a path that is not there: opening it shows in the trace which verb follows."""
SCRIPT = f"""
import os, shlex, signal, sys, threading, time
from glassformer.cli.main import main

def stop_server():
    while all(one.name != "server" for one in threading.enumerate()):
        time.sleep(0.05)
    os.kill(os.getpid(), signal.SIGTERM)

for words in sys.argv[2:]:
    try:
        open({MARK!r} + words)
    except OSError:
        pass
    if words.startswith(("serve", "play")):
        threading.Thread(target=stop_server).start()
    code = main(shlex.split(words))
    if code:
        sys.exit(f"{{words}}: exit code {{code}}")
time.sleep(float(sys.argv[1]))
"""

TEXT = "'the soup was good'"
TINY = "--model.width 8 --model.layers 1 --model.heads 1 --model.context 32"
FAST = "--steps 1 --batch-size 8"
VERBS = [
    f"train texts.csv --model average {FAST} --out run",
    f"predict run {TEXT} --json",
    "predict run --file texts.csv --out answers.csv",
    "evaluate run",
    "evaluate run --errors --out errors.html",
    f"look run {TEXT} --out look.html",
    f"look run {TEXT} --out look.png",
    f"embed run {TEXT} --out vectors.npy",
    "doctor run",
    "check run",
    f"train copy --model transformer --tokenizer.kind char {TINY} {FAST} --out writer",
    "generate writer ab --tokens 3",
    "look writer ab --out attention.html",
    "export writer --to hf folder",
    "import folder --out imported",
    "train dates --model lstm --model.width 8 --steps 1 --out translator",
    "translate translator 'le 14 juillet 1989'",
    "data list",
    "data check texts.csv",
    "data show texts.csv",
    "tokenizer train texts.csv --vocab-size 300 --out tokens.json",
    "plan texts.csv",
    "completion bash",
    "scaling --parts start --models transformer --out growth.html",
    "lesson order --out lesson",
    *(["grade attention.py --lesson attention"] if shutil.which("bwrap") else []),
    "demo --out demo",
    "serve run writer --port 0",
    "play run --port 0 --no-browser",
    f"compare texts.csv --models bag --seeds 1 {FAST} --no-references --out comparison",
    f"tune texts.csv --model bag --trials 1 {FAST} --no-pruning --out search",
    f"train texts.csv --model bag {FAST} --log-to tensorboard,mlflow --out logged",
]


def watch(folder: Path, script: str, *words: str, trace: str = "trace") -> "subprocess.Popen[str]":
    """Start Python under strace in `folder`/work, with its own home, cache and temporary folder."""
    for name in ("work", "home", "temp", "cache"):
        (folder / name).mkdir(exist_ok=True)
    kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH", "LANG") if name in os.environ}
    env = {
        **kept,
        "HOME": str(folder / "home"),
        "TMPDIR": str(folder / "temp"),
        "GLASSFORMER_CACHE": str(folder / "cache"),
        "GLASSFORMER_PLUGINS": str(SHORT_TRAINING),
        "PYTHONDONTWRITEBYTECODE": "1",  # Python's own files are no promise of ours
        "OMP_NUM_THREADS": "1",
    }
    strace = ["strace", "-f", "--seccomp-bpf", "-s", "300", "-e", f"trace={CALLS}", "-o", str(folder / trace)]
    command = [*strace, sys.executable, "-P", "-c", script, *words]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, env=env, cwd=folder / "work", stdout=pipe, stderr=subprocess.STDOUT, text=True)


def finish(process: "subprocess.Popen[str]") -> None:
    out, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, out


def broken_promises(folder: Path, trace: str = "trace") -> list[str]:
    """The calls that sent something to another machine, or wrote a file elsewhere; each with its verb."""
    found, verb = [], ""
    for line in (folder / trace).read_text(errors="replace").splitlines():
        match = CALL.match(line)
        if match is None:
            continue
        name, arguments = match.groups()
        if name in ("connect", "sendto", "sendmsg", "sendmmsg"):
            broken = _leaves_machine(arguments)
        elif name.startswith(("mkdir", "creat")) or WRITES.search(arguments):
            broken = _is_elsewhere(name, arguments, folder)
        else:
            path = PATH.search(arguments)
            verb = path[1].removeprefix(MARK) if path and path[1].startswith(MARK) else verb
            continue
        if broken:
            found.append(f"{verb}: {line}")
    return found


def _leaves_machine(arguments: str) -> bool:
    for _, port, address in INTERNET.findall(arguments):
        if not ip_address(address).is_loopback or int(port) == DNS:
            return True
    families = FAMILY.findall(arguments)
    return any(family not in (*LOCAL_FAMILIES, "AF_INET", "AF_INET6") for family in families)


def _is_elsewhere(name: str, arguments: str, folder: Path) -> bool:
    path = PATH.search(arguments)
    if path is None or "= -1 E" in arguments:  # an error: nothing was written
        return False
    whole = Path(os.path.normpath(folder / "work" / path[1]))
    if any(whole.is_relative_to(one) for one in VIRTUAL):
        return False
    allowed = [folder / one for one in ALLOWED]
    is_parent = name.startswith("mkdir") and any(one.is_relative_to(whole) for one in allowed)
    return not is_parent and not any(whole.is_relative_to(one) for one in allowed)


@pytest.fixture(scope="module", autouse=True)
def strace() -> None:
    if shutil.which("strace") is None or subprocess.run(["strace", "-o", os.devnull, "true"]).returncode:
        pytest.skip("strace, or ptrace, is not available")


def test_every_verb_keeps_to_this_machine_and_its_folders(tmp_path: Path, tried: Tried) -> None:
    folder, later = tmp_path / "verbs", tmp_path / "later"
    for one in (folder, later):
        (one / "work").mkdir(parents=True)
        write_table(one / "work" / "texts.csv", opinions(60))
        (one / "work" / "attention.py").write_text("attention = None")
    onnx = importlib.util.find_spec("onnxruntime") is not None
    exporting = [VERBS[0], "export run --to onnx onnx"] if onnx else VERBS[:1]
    with watch(later, SCRIPT, str(LATER), *exporting) as waiting, watch(folder, SCRIPT, "0", *VERBS) as working:
        finish(working)
        finish(waiting)
    for one in (folder, later):
        assert not broken_promises(one)
        assert not [path for path in (one / "temp").iterdir() if not path.name.startswith("torchinductor_")]
    times = len(VERBS) + onnx
    tried(
        "connections to other machines, files elsewhere",
        "every verb under strace until exit; ONNX 60 s longer",
        times,
        "none",
    )


@pytest.mark.parametrize(
    "code",
    [
        "import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).connect(('192.0.2.1', 9))",
        "import socket; socket.socket(socket.AF_INET6, socket.SOCK_DGRAM).sendto(b'a', ('2001:db8::1', 9))",
        "import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).connect(('127.0.0.53', 53))",
        "open('../elsewhere', 'w')",
        "import os; os.mkdir(os.path.expanduser('~/.own'))",
    ],
    ids=["connect", "sendto", "resolver", "file", "folder"],
)
def test_the_watch_notices(code: str, tmp_path: Path) -> None:
    process = watch(tmp_path, f"try:\n    {code}\nexcept OSError: pass")
    finish(process)
    assert len(broken_promises(tmp_path)) == 1


def test_the_watch_allows_local_sockets_and_the_output(tmp_path: Path) -> None:
    code = (
        "import socket; one = socket.create_server(('127.0.0.1', 0)); socket.create_connection(one.getsockname()); "
        "open('output', 'w'); open('/dev/null', 'w')"
    )
    finish(watch(tmp_path, code))
    assert not broken_promises(tmp_path)
