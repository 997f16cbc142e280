"""Lessons as pages: each is run once with its solutions, and what its cells show stands below them.

`python docs/generate/lessons.py [NAME …] [--seeds N]` runs them at full length, and says what each came to.
"""

import argparse
import ast
import hashlib
import html
import json
import os
import re
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

from glassformer.teaching.lesson import Lesson, lesson, lessons
from glassformer.teaching.notebook import page_of

ROOT = Path(__file__).parents[2]
WORK = ROOT / "build" / "lessons"
MAX_CELL_SECONDS = 1800
"""Time limit of a cell, for a slow machine."""


def executed(one: Lesson, *, share: float = 1.0, seed: int = 0, again: bool = False) -> nbformat.NotebookNode:
    """Return a lesson's notebook with its solutions and their outputs; a stored copy is used until the text changes.

    `share` is the fraction of the updates that each training run makes. `again` ignores the stored copy, for use after
    a change of glassformer. The metadata hold the values of the variables whose range the lesson states.
    """
    notebook = nbformat.reads(json.dumps(one.notebook(solution=True)), as_version=4)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.source = _reduced(cell.source, share).replace("seed=0", f"seed={seed}")
    known = hashlib.sha256(json.dumps([notebook, seed]).encode()).hexdigest()[:12]
    kept = WORK / f"{one.name}-{known}.ipynb"
    if again or not kept.exists():
        folder = WORK / f"{one.name}-{known}"
        shutil.rmtree(folder, ignore_errors=True)
        one.write(folder, solution=True, overwrite=True)
        names = list(one.expects)
        notebook.cells.append(nbformat.v4.new_code_cell(f"[float(one) for one in ({', '.join([*names, ''])})]"))
        began = time.monotonic()
        NotebookClient(
            notebook, timeout=MAX_CELL_SECONDS, kernel_name="python3", resources={"metadata": {"path": folder}}
        ).execute(env=os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"})
        last = notebook.cells.pop().outputs[0]["data"]["text/plain"]
        found = dict(zip(names, ast.literal_eval(last), strict=True))
        notebook.metadata["lesson"] = {"found": found, "seconds": round(time.monotonic() - began)}
        nbformat.write(notebook, kept)
    return nbformat.read(kept, as_version=4)


def _reduced(source: str, share: float) -> str:
    """Return the source with that fraction of the updates or epochs."""
    source = re.sub(r"\bsteps=(\d+)", lambda match: f"steps={max(2, round(int(match[1]) * share))}", source)
    return re.sub(r"\bepochs=([\d.]+)", lambda match: f"epochs={max(0.02, float(match[1]) * share):g}", source)


def page(one: Lesson, share: float) -> tuple[str, dict[str, str]]:
    """Return a lesson's Markdown with the outputs of its solution, and its panels by file name."""
    panels: dict[str, str] = {}
    parts = []
    for cell, run in zip(one.cells, executed(one, share=share).cells, strict=True):
        outputs = [shown for output in _joined(run.get("outputs", [])) if (shown := _shown(output, panels))]
        below = "\n\n".join(["<div class='output' markdown>", *outputs, "</div>"]) if outputs else ""
        parts += [page_of([cell]).strip(), below]
    return "\n\n".join(filter(None, parts)) + "\n", panels


def _joined(outputs: list[nbformat.NotebookNode]) -> list[nbformat.NotebookNode]:
    """Join consecutive outputs of the same stream."""
    joined: list[nbformat.NotebookNode] = []
    for output in outputs:
        streams = joined and joined[-1].output_type == output.output_type == "stream"
        if streams and joined[-1].name == output.name:
            joined[-1].text += output.text
        else:
            joined.append(output)
    return joined


def _shown(output: nbformat.NotebookNode, panels: dict[str, str]) -> str:
    if output.output_type == "stream":
        return f"```text\n{output.text.rstrip()}\n```" if output.name == "stdout" else ""
    data: dict[str, Any] = output["data"]
    if (found := re.search(r'srcdoc="([^"]*)" title="([^"]*)"', data.get("text/html", ""))) is not None:
        text = html.unescape(found[1])
        name = f"lesson-{hashlib.sha256(text.encode()).hexdigest()[:12]}.html"
        panels[name] = text
        return (
            f'<figure class="look"><iframe src="../panels/{name}" title="{found[2]}" loading="lazy"></iframe></figure>'
        )
    if "image/png" in data:
        return f'<img alt="" src="data:image/png;base64,{data["image/png"].strip()}">'
    if "text/html" in data:
        return data["text/html"]
    return f"```text\n{data['text/plain']}\n```"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=[one.name for one in lessons()])
    parser.add_argument("--seeds", type=int, default=1, help="number of seeds to train from")
    parser.add_argument("--share", type=float, default=1.0, help="fraction of the updates")
    parser.add_argument("--again", action="store_true", help="repeat lessons whose outputs are stored")
    options = parser.parse_args()
    failed = False
    for one in map(lesson, options.names):
        asked = {"share": options.share, "again": options.again}
        runs = [executed(one, seed=seed, **asked).metadata["lesson"] for seed in range(options.seeds)]
        print(f"{one.number} {one.name}: {', '.join(str(run['seconds']) for run in runs)} s")
        for name, (least, most) in one.expects.items():
            values = [run["found"][name] for run in runs]
            inside = all(least <= value <= most for value in values)
            failed |= not inside
            found = ", ".join(f"{value:.3g}" for value in values)
            print(f"  {name}: {found}; expected {least} to {most}{'' if inside else ' FAILED'}", flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
