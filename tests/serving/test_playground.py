"""In a real browser, beside a real server: what is typed, turned and moved is seen at once, and nobody else asked."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Error, Page, Route

import glassformer as gf
from helpers.browser import PATIENCE, pixels, settle
from helpers.look_runs import train_kind
from helpers.playing import OTHER, TEXT, play, train_player

KEY = "a key for the playground"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("playground")


@pytest.fixture(scope="module")
def url(place: Path) -> Iterator[str]:
    others = [train_kind(name, place)[0] for name in ("gru-classifier", "lstm-translator", "columns", "patches")]
    with gf.play(train_player(place), browser=False, port=0) as one, gf.serve(*others, port=0) as two:
        OTHERS.append(two.url)
        yield one.url


OTHERS: list[str] = []


@pytest.fixture(scope="module")
def docstrings(place: Path) -> str:
    """A language model of words, whose first example is the page's own."""
    settings = {"tokenizer.vocab_size": 2000, "model.context": 64, "training.samples": False}
    size = {"model.width": 24, "model.layers": 3, "model.heads": 3, "steps": 2}
    return str(gf.train("docstrings", out=place / "words", model="transformer", **size, **settings).run)


@contextmanager
def visited(
    browser: Browser, url: str, address: str = "", width: int = 1280, height: int = 720, wait: bool = True
) -> Iterator[Page]:
    """The playground in a window; when it closes, it must have asked nobody else, and complained of nothing."""
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme="light")
    context.set_default_timeout(PATIENCE)
    wrong: list[str] = []
    page = context.new_page()
    page.on("console", lambda message: wrong.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("request", lambda one: None if one.url.startswith((url, "data:", "blob:")) else wrong.append(one.url))
    page.goto(f"{url}/{address}")
    if wait:
        answered(page)
    yield page
    context.close()
    assert not [one for one in wrong if "401" not in one and "404" not in one], wrong


def answered(page: Page, after: str | None = None) -> str:
    """Until an answer is shown, another than that; gives its number."""
    page.wait_for_function("after => (document.body.dataset.answer ?? null) !== after", arg=after)
    return page.evaluate("document.body.dataset.answer")


def number(page: Page) -> str:
    return page.evaluate("document.body.dataset.answer")


def chips(page: Page) -> list[str]:
    return page.locator(".one-prompt").first.locator(".chip").all_inner_texts()


def rows(page: Page) -> dict[int, str]:
    """What stands in each row of the next token, by its id."""
    found = page.locator("button.token-row").evaluate_all("all => all.map(one => [one.dataset.id, one.ariaLabel])")
    return {int(id): label for id, label in found}


def shares(rows: list[dict[str, Any]]) -> dict[int, str]:
    """The same from the server's answer."""
    return {row["id"]: share(row["drawn"]) for row in rows}


def share(probability: float) -> str:
    return "<0.01" if 0 < probability < 0.005 else f"{probability:.2f}"


@pytest.mark.slow
def test_typing_moves_everything(browser: Browser, url: str) -> None:
    with visited(browser, url, f"#text={TEXT.replace('>', '%3E')}") as page:
        assert chips(page) == ["<start>", *TEXT]
        before, heads = number(page), pixels(page.locator(".thumb canvas").first)
        field = page.locator("textarea").first
        field.press("End")
        field.press_sequentially("cd")
        page.wait_for_function("() => document.querySelectorAll('.chip').length === 10")
        assert answered(page, before) > before
        assert chips(page) == ["<start>", *TEXT, "c", "d"]
        assert field.evaluate("one => [one === document.activeElement, one.selectionStart]") == [True, len(TEXT) + 2]
        assert pixels(page.locator(".thumb canvas").first).shape != heads.shape
        wanted = shares(play(url, f"{TEXT}cd")["prediction"]["groups"][0]["rows"])
        for id, label in rows(page).items():
            assert f"probability {wanted[id]}" in label
        assert page.locator("#heard").inner_text().startswith("The next token: ")


@pytest.mark.slow
def test_a_dial_moves_the_prediction(browser: Browser, url: str) -> None:
    with visited(browser, url, f"#text={TEXT.replace('>', '%3E')}") as page:
        before = number(page)
        assert page.locator(".track .before").count() == 0
        page.locator("[data-head='self:1.0']").fill("0")
        answered(page, before)
        answer = play(url, changes=[{"stack": "self", "layer": 1, "head": 0, "scale": 0}])
        wanted, old = (shares(answer[side]["groups"][0]["rows"]) for side in ("prediction", "before"))
        for id, label in rows(page).items():
            assert f"probability {wanted[id]}" in label
            assert (
                f"before {old[id]}" in label or abs(float(old[id].strip("<")) - float(wanted[id].strip("<"))) <= 0.011
            )
        assert "head 1.0 × 0" in page.locator(".changed").inner_text()
        assert page.locator("[data-switch='self:1.0']").get_attribute("aria-checked") == "false"
        assert "self%3A1.0%3D0" in page.url
        before = number(page)
        page.get_by_role("button", name="undo").click()
        answered(page, before)
        assert page.locator(".track .before").count() == 0


@pytest.mark.slow
def test_the_address_restores_everything_and_back_goes_back(browser: Browser, url: str) -> None:
    address = "#text=dcba%3Ed&dials=self%3A0.1%3D0.5&temperature=0.5&topK=3&show=logit-lens&head=self%3A0.1&mode=lines"
    with visited(browser, url, address) as page:
        assert page.locator("textarea").first.input_value() == "dcba>d"
        assert page.get_by_role("tab", selected=True).first.inner_text() == "Layers"
        assert page.get_by_label("temperature").input_value() == "0.5"
        assert page.locator("button.token-row.cut").count() > 0
        page.wait_for_timeout(1300)  # steps of back are as far apart
        before = number(page)
        page.get_by_role("tab", name="Attention").first.click()
        answered(page, before)
        assert page.locator("[data-head='self:0.1']").input_value() == "0.5"
        assert page.get_by_role("button", name="lines").first.get_attribute("aria-pressed") == "true"
        before = number(page)
        page.go_back()
        answered(page, before)
        assert page.get_by_role("tab", selected=True).first.inner_text() == "Layers"
        page.reload()
        answered(page)
        assert page.locator("textarea").first.input_value() == "dcba>d"


@pytest.mark.slow
def test_an_older_answer_never_replaces_a_newer_one(browser: Browser, url: str) -> None:
    held, let = threading.Event(), []

    def late(route: Route) -> None:
        if '"abc"' in (route.request.post_data or "") and not held.is_set():
            held.set()
            let.append(route)
        else:
            route.continue_()

    with visited(browser, url, "#text=ab") as page:
        page.route("**/api/play", late)
        field = page.locator("textarea").first
        field.fill("abc")
        while not held.is_set():
            page.wait_for_timeout(20)
        field.fill("abcd")
        page.wait_for_function("() => document.querySelectorAll('.chip').length === 5")
        for route in let:
            with suppress(Error):  # the page has given it up
                route.continue_()
        page.wait_for_timeout(500)
        assert chips(page) == ["<start>", *"abcd"]


@pytest.mark.slow
def test_a_state_is_put_in_from_the_second_prompt(browser: Browser, url: str) -> None:
    address = f"#text={TEXT.replace('>', '%3E')}&other={OTHER.replace('>', '%3E')}&show=logit-lens"
    with visited(browser, url, address) as page:
        assert page.locator(".chips").nth(1).locator(".chip").count() == len(OTHER) + 1
        before = number(page)
        page.locator(".side-a td[data-layer='1'][data-token='3']").click()
        answered(page, before)
        wanted = shares(play(url, other=OTHER, patch={"layer": 1, "position": 3})["prediction"]["groups"][0]["rows"])
        assert {id: f"probability {wanted[id]}" in label for id, label in rows(page).items()} == dict.fromkeys(
            wanted, True
        )
        assert page.locator(".side-a td.patched").count() == 1


@pytest.mark.slow
def test_a_token_that_is_pointed_at_is_lit_everywhere(browser: Browser, url: str) -> None:
    with visited(browser, url, f"#text={TEXT.replace('>', '%3E')}&show=logit-lens") as page:
        page.locator(".chip").nth(2).hover()
        assert page.locator("#tip").inner_text().startswith("id ")
        assert page.locator(".side-a th.lit").inner_text() == "b"
        page.locator(".side-a td[data-token='4']").first.hover()
        assert page.locator(".chip.lit").inner_text() == TEXT[3]


@pytest.mark.slow
def test_a_choice_is_appended_and_a_tree_grows(browser: Browser, url: str) -> None:
    with visited(browser, url, "#text=abc%3E&show=tree") as page:
        chosen = page.locator("button.token-row[title*='append']").first
        name, before = chosen.locator("bdi").inner_text(), number(page)
        chosen.click()
        answered(page, before)
        assert page.locator("textarea").first.input_value() == f"abc>{name}"
        page.wait_for_function("() => !document.querySelector('.coming')")
        count = page.locator(".tree .chip").count()
        page.locator(".tree .chip.pruned").first.click()
        page.wait_for_function("count => document.querySelectorAll('.tree .chip').length > count", arg=count)


@pytest.mark.slow
def test_chips_of_a_tree_hold_their_words(browser: Browser, docstrings: str) -> None:
    with gf.serve(docstrings, port=0) as serving, visited(browser, serving.url, "#show=tree") as page:
        page.wait_for_function("() => !document.querySelector('.coming')")
        boxes = page.locator(".tree .chip:not(.root)").evaluate_all(
            "all => all.map(one => ['rect', 'text:not(.chance, .why)', '.chance']"
            ".map(part => one.querySelector(part).getBoundingClientRect()).flatMap(box => [box.left, box.right]))"
        )
        assert boxes
        for left, right, word, word_end, share, share_end in boxes:
            assert left < word < word_end < share < share_end < right


@pytest.mark.slow
def test_time_moves_every_panel(browser: Browser, url: str) -> None:
    with visited(browser, url, "#text=abc%3E") as page:
        before = number(page)
        page.get_by_label("update of the training").fill("0")
        answered(page, before)
        assert page.locator("#time output").inner_text().startswith("update 0")
        wanted = shares(play(url, "abc>", update=0)["prediction"]["groups"][0]["rows"])
        assert {id: f"probability {wanted[id]}" in label for id, label in rows(page).items()} == dict.fromkeys(
            wanted, True
        )


@pytest.mark.slow
@pytest.mark.parametrize("run", ["gru-classifier", "lstm-translator", "columns"])
def test_every_tab_of_other_runs(browser: Browser, url: str, run: str) -> None:
    examples = {"gru-classifier": "good", "lstm-translator": "abc"}
    row = '{"height":"11","weight":"-180","city":"Oslo","size":"L"}'
    with visited(browser, OTHERS[0], f"#run={run}&text={examples.get(run, row)}") as page:
        for name in page.get_by_role("tab").all_inner_texts():
            tab = page.get_by_role("tab", name=name, exact=True).first
            if tab.get_attribute("aria-selected") != "true":
                before = number(page)
                tab.click()
                answered(page, before)
            assert page.locator("#first .stand").first.inner_text().strip()
        assert page.locator("#prediction .said").inner_text().strip()


@pytest.mark.slow
def test_a_translators_beam_width(browser: Browser, url: str) -> None:
    with visited(browser, OTHERS[0], "#run=lstm-translator&text=abc&show=tree") as page:
        assert page.get_by_label("temperature").is_hidden()
        slider, before = page.get_by_label("beam width"), number(page)
        assert slider.input_value() == "5"
        slider.fill("1")
        answered(page, before)
        assert slider.get_attribute("aria-valuetext") == "1: greedy"
        answer = play(OTHERS[0], "abc", run="lstm-translator", beam=1, views=["tree"])
        assert page.locator("#prediction .written").inner_text() == answer["prediction"]["text"]
        assert len(answer["views"]["tree"]["panels"][1]["rows"]) == 1
        assert page.locator("#first table tbody tr").count() == 1
        assert "beam=1" in page.url
    with visited(browser, url) as page:
        assert page.get_by_label("beam width").is_hidden()


def bottom(page: Page, place: str) -> float:
    box: Any = page.locator(place).first.bounding_box()
    return box["y"] + box["height"]


@pytest.mark.slow
def test_all_is_in_sight_on_a_projector(browser: Browser, url: str, docstrings: str) -> None:
    with gf.serve(docstrings, port=0) as serving:
        for one, address in ((url, "#text=abcd%3Eab"), (serving.url, "")):
            with visited(browser, one, address) as page:
                settle(page)
                assert page.evaluate("document.documentElement.scrollHeight <= innerHeight")
                for place in (".chips", ".large .stage", ".large .scale", "button.token-row:last-child", ".sampling"):
                    assert bottom(page, place) <= 720 - 14, place
                stage = page.locator(".large .stage").evaluate("one => [one.scrollHeight, one.clientHeight]")
                assert stage[0] <= stage[1] + 1


@pytest.mark.sample(5)
@pytest.mark.parametrize("address", ["player", "player&other=dcba", "gru-classifier", "lstm-translator", "patches"])
def test_nothing_is_wider_than_a_phone(browser: Browser, url: str, address: str, place: Path) -> None:
    url = url if address.startswith("player") else OTHERS[0]
    with visited(browser, url, "#run=" + address, width=390, height=844, wait=address != "patches") as page:
        if address == "patches":  # pictures of one's own have no examples
            before = page.evaluate("document.body.dataset.answer ?? null")
            page.locator("input[type=file]").first.set_input_files(next((place / "pictures" / "lying").iterdir()))
            answered(page, before)
        for name in page.get_by_role("tab").all_inner_texts():
            if name in ("Attention", "Patches", "Layers", "Attribution", "Tree", "States"):
                tab, before = page.get_by_role("tab", name=name, exact=True).first, number(page)
                if tab.get_attribute("aria-selected") != "true":
                    tab.click()
                    answered(page, before)
            assert page.evaluate("document.documentElement.scrollWidth") <= 390, name


@pytest.mark.slow
def test_a_run_that_is_not_served_gives_way_to_the_first(browser: Browser, url: str) -> None:
    with visited(browser, url, "#run=nope&dials=self%3A7.1%3D0.5") as page:
        assert page.get_by_label("run", exact=True).input_value() == "player"
        assert page.locator("#prompt > .remark").inner_text() == "nope is not served: this is player"
        assert chips(page)[0] == "<start>"
        assert "nope" not in page.url
    with visited(browser, OTHERS[0], "#run=gru-classifier&text=good&second=nope") as page:
        assert "nope is not served" in page.locator("#prompt > .remark").inner_text()
        assert page.locator(".pairs").count() == 0


@pytest.mark.slow
def test_two_sides_have_one_scale_and_stand_beside_each_other(browser: Browser, url: str) -> None:
    address = f"#text={TEXT.replace('>', '%3E')}&other=dcb&show="
    with visited(browser, url, address + "attention") as page:
        settle(page)
        first, second = (page.locator(f".side-{side} .stage").bounding_box() for side in "ab")
        assert first is not None
        assert second is not None
        assert first["y"] == second["y"]
        assert second["x"] > first["x"] + first["width"]
        ours, theirs = ({row["name"]: row["drawn"] for row in play(url, text)["prediction"]["groups"][0]["rows"]}
                        for text in (TEXT, "dcb"))  # fmt: skip
        for row in page.locator("button.token-row").all():
            name, a, b, more = row.locator("> *").all_inner_texts()
            if name in ours and name in theirs:
                assert a == share(ours[name])
                assert b == share(theirs[name])
                assert float(more.replace("−", "-")) == pytest.approx(theirs[name] - ours[name], abs=6e-4)
        assert page.locator("button.token-row").first.locator("bdi").inner_text() in (
            max(ours, key=ours.__getitem__), max(theirs, key=theirs.__getitem__)
        )  # fmt: skip
    with visited(browser, url, address + "attribution") as page:
        scales = [page.locator(f".side-{side} .scale").all_inner_texts() for side in "ab"]
        assert scales[0] == scales[1]


@pytest.mark.slow
def test_keys_alone(browser: Browser, url: str) -> None:
    with visited(browser, url, "#text=abcd%3Eab") as page:
        page.locator(".thumb").first.focus()
        page.keyboard.press("ArrowRight")
        assert page.evaluate("document.activeElement.dataset.name") == "self:0.1"
        assert page.locator(".thumb[aria-pressed=true]").get_attribute("data-name") == "self:0.1"
        page.locator(".chip").first.focus()
        page.keyboard.press("ArrowRight")
        assert page.evaluate("document.activeElement.textContent") == "a"
        before = number(page)
        page.get_by_role("tab", selected=True).first.focus()
        page.keyboard.press("ArrowRight")
        answered(page, before)
        assert page.get_by_role("tab", selected=True).first.inner_text() == "Layers"


@pytest.mark.slow
def test_the_key_is_asked_for_once(browser: Browser, place: Path, url: str) -> None:
    with gf.serve(place / "player", port=0, api_key=KEY) as serving:
        context = browser.new_context(viewport={"width": 1280, "height": 720})
        context.set_default_timeout(PATIENCE)
        page = context.new_page()
        page.goto(f"{serving.url}/#text=abc")
        page.locator("dialog.key input").fill("not the key")
        page.keyboard.press("Enter")
        page.get_by_text("That key was not right").wait_for()
        page.locator("dialog.key input").last.fill(KEY)
        page.keyboard.press("Enter")
        answered(page)
        assert chips(page) == ["<start>", *"abc"]
        page.reload()
        answered(page)
        assert page.locator("dialog.key").count() == 0
        context.close()
