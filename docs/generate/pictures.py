"""Take the pictures of the documentation in a real browser: `python docs/generate/pictures.py [NAME …]`.

Without names, it takes the missing pictures of the `look` blocks in docs/, writes a link to each picture below its
block, and removes pictures without a block. Names select pictures of README.md (`playground`, `compared` and those in
LOOKS), or pictures of panels to take again (`panels` selects all).
"""

import hashlib
import os
import re
import sys
from pathlib import Path

from pages import PICTURE, ROOT, WORK, glassformer, panel_page
from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

import glassformer as gf

SCALE = 1.5
"""Pixels of a picture per pixel of the page."""
IMAGES = ROOT / "docs" / "images"
MAX_HEIGHT = 720
"""Height in page pixels at which the picture of a view is cut off."""
LOOKS = {
    "next": 'runs/writer "Return the" --view next --temperature 0.7 --top-k 5',
    "words": 'runs/lstm "the food was good, not bad at all" --view attribution',
    "alignment": 'runs/dates "Freitag, 9. November 1989"',
    "attention": 'runs/pronouns "ruth met bruno behind the house . she dances ." --view attention --mode lines '
    "--layer 0 --head 2",
}
"""Pictures of README.md and the commands whose panels they show."""
COMPARE = "opinions:rows=3000 --models bag,average,cnn,lstm --seeds 2 --epochs 15 --size nano --out runs/compared"
LOOK_BLOCK = re.compile(rf"^```look\nglassformer look (.*)\n```(?:\n\n{PICTURE})?", re.M)


def picture_name(command: str) -> str:
    """Return the name of the picture of a `look` command: its run, its view, and a digest of the whole command."""
    run = re.search(r"runs/([\w-]+)", command)
    view = re.search(r"--view ([\w-]+)", command)
    digest = hashlib.sha256(command.encode()).hexdigest()[:6]
    return "-".join(part for part in (run and run[1], view and view[1], digest) if part)


def open_page(browser: Browser, address: str, *, width: int, height: int = 900) -> Page:
    page = browser.new_page(
        viewport={"width": width, "height": height}, device_scale_factor=SCALE, color_scheme="light"
    )
    page.goto(address)
    page.wait_for_timeout(4000)  # animations have ended
    return page


def take_panel(browser: Browser, command: str, to: Path, width: int) -> None:
    """Take the panels of the page that `glassformer look COMMAND` writes, from the first one on."""
    page = open_page(browser, panel_page(command).as_uri(), width=width)
    panels = page.locator(".panel")
    first, last = panels.first.bounding_box(), panels.last.bounding_box()
    assert first is not None
    assert last is not None
    height = min(last["y"] + last["height"] - first["y"], MAX_HEIGHT)
    page.screenshot(path=to, full_page=True, clip={**first, "height": height})
    page.close()
    with Image.open(to) as picture:
        picture.quantize(128).save(to, optimize=True)


def take_readme_picture(browser: Browser, name: str, to: Path) -> None:
    if name == "playground":
        with gf.serve(WORK / "runs" / "pronouns", port=0) as serving:
            address = f"{serving.url}/#text=ruth+met+bruno+behind+the+house+.+she"
            open_page(browser, address, width=1280, height=720).screenshot(path=to)
    elif name == "compared":
        glassformer("compare", *COMPARE.split())
        page = open_page(browser, (WORK / "runs/compared/comparison.html").as_uri(), width=900)
        page.locator(".panel", has_text="How each learned").screenshot(path=to)
    else:
        take_panel(browser, LOOKS[name], to, 980 if name == "next" else 760)


def link_pictures() -> dict[str, str]:
    """Write the link below each `look` block in docs/. Return the commands by the names of their pictures."""
    commands: dict[str, str] = {}
    for document in sorted((ROOT / "docs").rglob("*.md")):

        def link(block: re.Match[str], folder: Path = document.parent) -> str:
            name = picture_name(block[1])
            commands[name] = block[1]
            alt = re.sub(r"[\[\]\n]", "", block[1])
            address = os.path.relpath(IMAGES / "panels" / f"{name}.png", folder)
            return f"```look\nglassformer look {block[1]}\n```\n\n![{alt}]({address})"

        text = document.read_text()
        if (linked := LOOK_BLOCK.sub(link, text)) != text:
            document.write_text(linked)
    return commands


def main(names: list[str]) -> None:
    (IMAGES / "panels").mkdir(exist_ok=True)
    commands = link_pictures()
    with sync_playwright() as tool:
        browser = tool.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        for name in names:
            if name not in commands and name != "panels":
                take_readme_picture(browser, name, IMAGES / f"{name}.png")
        for name, command in commands.items():
            to = IMAGES / "panels" / f"{name}.png"
            if name in names or "panels" in names or not (names or to.exists()):
                take_panel(browser, command, to, 760)
        browser.close()
    for picture in (IMAGES / "panels").glob("*.png"):
        if picture.stem not in commands:
            picture.unlink()


if __name__ == "__main__":
    main(sys.argv[1:])
