"""The pictures of README.md, taken of real pages in a real browser: `python docs/generate/pictures.py [NAME …]`.

Each is a panel of a page that a command writes, or of the playground the whole page.
"""

import sys

from pages import ROOT, WORK, glassformer, panel_page
from playwright.sync_api import Browser, Page, sync_playwright

import glassformer as gf

SHARP = 1.5
"""Pixels of a picture for one of the page."""
LOOKS = {
    "next": 'runs/writer "Return the" --view next --temperature 0.7 --top-k 5',
    "words": 'runs/lstm "the food was good, not bad at all" --view attribution',
    "alignment": 'runs/dates "Freitag, 9. November 1989"',
    "attention": 'runs/pronouns "ruth met bruno behind the house . she dances ." --view attention --mode lines '
    "--layer 0 --head 2",
}
COMPARE = "opinions:rows=3000 --models bag,average,cnn,lstm --seeds 2 --epochs 15 --size nano --out runs/compared"


def opened(browser: Browser, address: str, *, width: int, height: int = 900) -> Page:
    page = browser.new_page(
        viewport={"width": width, "height": height}, device_scale_factor=SHARP, color_scheme="light"
    )
    page.goto(address)
    page.wait_for_timeout(4000)  # what is drawn in steps has come to rest
    return page


def main(names: list[str]) -> None:
    wanted = names or ["playground", "compared", *LOOKS]
    with sync_playwright() as tool:
        browser = tool.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        for name in wanted:
            to = ROOT / "docs" / "images" / f"{name}.png"
            if name == "playground":
                with gf.serve(WORK / "runs" / "pronouns", port=0) as serving:
                    address = f"{serving.url}/#text=ruth+met+bruno+behind+the+house+.+she"
                    opened(browser, address, width=1280, height=720).screenshot(path=to)
            elif name == "compared":
                glassformer("compare", *COMPARE.split())
                page = opened(browser, (WORK / "runs/compared/comparison.html").as_uri(), width=900)
                page.locator(".panel", has_text="How each learned").screenshot(path=to)
            else:
                page = opened(browser, panel_page(LOOKS[name]).as_uri(), width=980 if name == "next" else 760)
                page.locator(".panel").first.screenshot(path=to)
        browser.close()


if __name__ == "__main__":
    main(sys.argv[1:])
