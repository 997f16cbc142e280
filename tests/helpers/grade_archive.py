"""Grade an archive of hostile submissions in a process of its own, and print the result as JSON.

`python grade_archive.py FOLDER [--without-namespaces] FILE …`, where FOLDER comes from `grading.write_attacks`.
"""

import ctypes
import json
import os
import sys
from pathlib import Path

from glassformer.teaching import lesson as lessons
from glassformer.teaching.grade import grade
from helpers import tiny_lesson

NEW_USER = 0x10000000
KINDS = ("user", "mnt", "pid", "net")


def forbid_namespaces() -> None:
    """Make this process one that cannot make namespaces, as in many containers."""
    user, group = os.geteuid(), os.getegid()
    if ctypes.CDLL(None).unshare(NEW_USER) != 0:
        raise SystemExit("this system has no user namespaces, in which namespaces could be forbidden")
    for file, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
        Path("/proc/self", file).write_text(text)
    for kind in KINDS:
        Path(f"/proc/sys/user/max_{kind}_namespaces").write_text("0")


def main() -> None:
    folder, *files = (word for word in sys.argv[1:] if not word.startswith("--"))
    if "--without-namespaces" in sys.argv:
        forbid_namespaces()
    lessons.FOLDER = Path(folder) / "lessons"
    sys.modules["glassformer.teaching.exercises.tiny"] = tiny_lesson
    lesson = lessons.read_lesson(lessons.FOLDER / "tiny.md")
    grades = grade(files, lesson, hidden=Path(folder) / "hidden", seconds=10, memory=500, seed=5)
    print(json.dumps([{**one.to_dict(), "lines": one.lines} for one in grades]))


if __name__ == "__main__":
    main()
