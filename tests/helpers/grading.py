"""Archives of submissions to the tiny lesson: hostile ones, and what their first lines say of them."""

import json
import re
from dataclasses import dataclass
from pathlib import Path

from helpers import tiny_lesson

GOOD = """
import os, sys
import torch
from torch import nn

def mean(x):
    return x.mean(-1)

class Layer(nn.Module):
    def __init__(self, *, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return x * self.weight

largest = (1, 2)
"""
POINTS = {"nothing": 6, "mean": 2, "Layer": 5, "largest": 5, "all": 0}
"""Points that are left to a submission that loses this."""
REPEATED = re.compile(r"@@(\d+)\*(.*?)@@", re.S)
"""`@@1000*x@@` in an archive stands for 1000 times x."""
SECRET = "SECRET"
"""A word that hidden files hold, and that an attack which succeeds raises."""


@dataclass(frozen=True)
class Attack:
    """A hostile submission."""

    tries: str
    points: float
    """The points that it should get."""
    says: str
    """A pattern that one of the lines of its result matches."""
    text: str


def attacks(folder: Path) -> dict[str, Attack]:
    """Return the hostile submissions by their file's name. Python is appended to a right submission."""
    return {file.name: _attack(file) for file in sorted(folder.iterdir()) if file.suffix in (".py", ".ipynb")}


def _attack(file: Path) -> Attack:
    text = file.read_text()
    if file.suffix == ".py":
        tries, loses, says = (line.partition(" ")[2] for line in text.splitlines()[:3])
        loses, says = loses.removeprefix("loses: "), says.removeprefix("says:").strip()
    else:
        said = json.loads(text.splitlines()[0].removesuffix(",") + "}")
        tries, loses, says = said["tries"], said["loses"], said["says"]
    return Attack(tries, POINTS[loses], says, REPEATED.sub(lambda found: int(found[1]) * found[2], text))


def write_attacks(archive: Path, folder: Path) -> dict[str, Path]:
    """Write the hostile submissions of an archive, the lesson and the hidden files; each attack knows their paths."""
    for name in ("lessons", "hidden", "handed-in"):
        (folder / name).mkdir(parents=True)
    (folder / "lessons" / "tiny.md").write_text(tiny_lesson.TEXT)
    (folder / "hidden" / "tiny.py").write_text(
        f"# {SECRET}\nfrom helpers.tiny_lesson import EXERCISES\n\nEXERCISES = EXERCISES[2:]"
    )
    (folder / "roster.csv").write_text(SECRET)
    places = {"hidden": folder / "hidden", "lessons": folder / "lessons", "others": folder / "handed-in" / "0.py"}
    names = "".join(f"{name} = {str(place)!r}\n" for name, place in places.items())
    (folder / "handed-in" / "0.py").write_text(f"# {SECRET}\n{GOOD}")
    (folder / "handed-in" / "tiny-solution.ipynb").write_text(f"# {SECRET}\n{GOOD}")
    files = {}
    for name, attack in attacks(archive).items():
        files[name] = folder / "handed-in" / name
        files[name].write_text(f"{GOOD}{names}{attack.text}" if name.endswith(".py") else attack.text)
    return files
