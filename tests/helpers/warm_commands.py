"""A `glassformer` that starts at once: a process that has imported everything is copied for each command.

Half of the time of a short command is its imports, and the documents have hundreds of them.
"""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CLIENT = """#!{python} -IS
import json, os, socket, sys

if sys.argv[1:2] in (["serve"], ["play"]):  # they are stopped by signals, which would not reach the copy
    os.execv({real!r}, [{real!r}, *sys.argv[1:]])
with socket.socket(socket.AF_UNIX) as door:
    door.connect({address!r})
    socket.send_fds(door, [b"!"], [0, 1, 2])
    door.sendall(json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)]).encode())
    door.shutdown(socket.SHUT_WR)
    sys.exit(int(door.recv(16)))
"""


@contextmanager
def warm_commands(folder: Path) -> Iterator[Path]:
    """A folder for the PATH, with the program `glassformer` in it, for as long as this is open."""
    address, real = str(folder / "door"), str(Path(sys.executable).parent / "glassformer")
    program = folder / "glassformer"
    program.write_text(CLIENT.format(python=sys.executable, real=real, address=address))
    program.chmod(0o755)
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(address)
        door.listen(16)
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        command = [sys.executable, __file__, str(door.fileno())]
        server = subprocess.Popen(command, pass_fds=[door.fileno()], env=environment)
        try:
            yield folder
        finally:
            server.kill()
            server.wait()


def answer(door: socket.socket) -> list[str] | None:
    """Copies this process for each command that comes; gives a copy its words."""
    while True:
        asked, _ = door.accept()
        if os.fork():
            asked.close()
            continue
        _, streams, _, _ = socket.recv_fds(asked, 1, 3)
        argv, folder, environment = json.loads(asked.makefile("rb").read())
        if (worker := os.fork()) == 0:
            for number, stream in enumerate(streams):
                os.dup2(stream, number)
            os.chdir(folder)
            os.environ.clear()
            os.environ.update(environment)
            return argv
        _, status = os.waitpid(worker, 0)
        asked.sendall(str(os.waitstatus_to_exitcode(status) & 255).encode())
        os._exit(0)


if __name__ == "__main__":
    import glassformer.reporting.report
    import glassformer.trials.compare
    import glassformer.trials.tune
    import glassformer.verbs.look  # noqa: F401
    from glassformer.cli.main import main

    sys.exit(main(answer(socket.socket(fileno=int(sys.argv[1])))))
