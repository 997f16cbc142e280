"""In a real browser: images, where their patches look, and moments one after the other."""

import numpy as np
import pytest

from glassformer.rendering.panels import Patches
from helpers.browser import PATIENCE, Open, as_table, choose, colour, pixels, read_after_click, reading, settle
from helpers.every_panel import GREY, PANELS


@pytest.mark.slow
def test_patches_show_where_one_looks(show: Open) -> None:
    sharp = np.full((2, 2, 16, 16), 0.0, np.float32)
    sharp[..., 0] = 1  # everyone looks at the first patch
    sharp[0, 0] = np.roll(np.eye(16), 1, 1)  # but here at the next one
    with show(Patches(pixels=GREY, weights=sharp, grid=(4, 4), layer=1, head=1)) as there:
        canvas = there.locator("canvas[tabindex]")
        corner, second, last = (40, 40), (160, 40), (380, 380)
        assert reading(there).startswith("All patches together look most at row 0, column 0 (1.00)")
        orange = colour(canvas, *corner)
        assert orange[0] > orange[2] + 80
        grey = colour(canvas, *last)
        assert max(grey) - min(grey) < 6
        choose(there, "layer", "0")
        choose(there, "head", "0")
        canvas.focus()
        there.keyboard.press("ArrowRight")
        assert reading(there).startswith("The patch in row 0, column 0 looks most at row 0, column 1 (1.00)")
        moved = colour(canvas, *second)
        assert moved[0] > moved[2] + 80
        there.keyboard.press("ArrowDown")
        assert reading(there).startswith("The patch in row 1, column 0 looks most at row 1, column 1")
        canvas.click(position={"x": 380, "y": 380})
        assert reading(there).startswith("The patch in row 3, column 3 looks most at row 0, column 0")
        there.get_by_role("button", name="all patches").click()
        assert reading(there).startswith("All patches together")
        plain = there.locator(".patches canvas").last
        assert [colour(plain, x, 20)[0] for x in (20, 80, 130)] == [0, 4, 8]  # enlarged, and not blurred
        as_table(there)
        cells = there.locator("details td.number")
        assert cells.all_inner_texts()[:3] == ["0.06", "0.06", "0.06"]  # each is looked at by one of sixteen
        canvas.click(position={"x": 40, "y": 40})
        assert cells.all_inner_texts()[:3] == ["0.00", "1.00", "0.00"]


def test_a_gallery_shows_its_pixels(show: Open) -> None:
    with show(PANELS["gallery"]) as there:
        first, second = there.locator(".gallery canvas").all()
        assert pixels(first)[:3].tolist() == [[0, 0, 0, 255], [4, 4, 4, 255], [8, 8, 8, 255]]
        assert colour(second, 3, 3) == (200, 30, 10)
        assert there.locator("figcaption").all_inner_texts() == ["seven", "red"]
        assert first.evaluate("one => getComputedStyle(one).imageRendering") == "pixelated"


@pytest.mark.slow
def test_frames_keep_what_was_chosen(show: Open) -> None:
    with show(PANELS["frames"]) as there:
        said = there.locator("output")
        assert said.inner_text() == "updates 0"
        choose(there, "layer", "1")
        choose(there, "head", "2")
        canvas = there.locator(".stage canvas")
        canvas.focus()
        for key in ("ArrowRight", "ArrowDown", "Enter"):
            there.keyboard.press(key)
        before = pixels(canvas)
        slider = there.get_by_role("slider")
        slider.focus()
        there.keyboard.press("ArrowRight")
        settle(there)
        assert said.inner_text() == "updates 100"
        assert slider.get_attribute("aria-valuetext") == "100"
        assert there.get_by_label("layer", exact=True).input_value() == "1"
        assert there.get_by_label("head", exact=True).input_value() == "2"
        assert reading(there).startswith("dos looks at")
        assert (pixels(canvas) != before).any()
        there.get_by_role("button", name="lines").click()
        slider.focus()
        there.keyboard.press("ArrowRight")
        settle(there)
        assert there.get_by_role("button", name="lines").get_attribute("aria-pressed") == "true"
        assert there.locator(".swatches button").nth(2).get_attribute("aria-pressed") == "true"
        assert read_after_click(there.get_by_role("button", name="play")) == "pause"
        there.wait_for_function(
            "() => document.querySelector('output').textContent === 'updates 200'", timeout=PATIENCE
        )
        there.get_by_role("button", name="play").wait_for()  # it stops at the end
