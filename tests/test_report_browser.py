"""The page in a browser: drawn whole, silent, and without a request."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from conftest import SLOW
from datasets import scavenger
from perhop import report
from test_report import hostile
from tools import need

pytestmark = SLOW

CHROMIUM = Path("/usr/bin/chromium")
ARGUMENTS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
DRAWN = "[...document.querySelectorAll('figure')].every((f) => f.dataset.drawn)"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    need("chromium")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages with spaces")
    pages = {"plain": scavenger(), "hostile": hostile()}
    for name, run in pages.items():
        (folder / f"{name}.html").write_text(report.page(run), encoding="utf-8")
    return {name: folder / f"{name}.html" for name in pages}


@pytest.fixture
def page(browser: Browser, files: dict[str, Path]) -> Iterator[Page]:
    """The plain page, drawn; its console and its requests are checked when the test is over."""
    yield from opened(browser, files["plain"], 1100)


def opened(browser: Browser, file: Path, width: int) -> Iterator[Page]:
    page = browser.new_page(viewport={"width": width, "height": 900})
    said: list[str] = []
    requested: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("dialog", lambda dialog: said.append(dialog.message))
    page.on("request", lambda request: requested.append(request.url))
    page.goto(file.as_uri())
    page.wait_for_function(DRAWN)
    yield page
    page.close()
    assert said == []
    assert requested == [file.as_uri()]


def test_every_chart_is_drawn(page: Page) -> None:
    assert page.locator("figure").count() == 3
    for chart in page.locator("figure svg").all():
        box = chart.bounding_box()
        assert box is not None
        assert box["width"] > 600
        assert box["height"] > 200


@pytest.mark.parametrize("chart", ["throughput-linear", "throughput-log"])
def test_every_flow_is_drawn_and_named(page: Page, chart: str) -> None:
    lines = page.locator(f"#{chart} .mark-line path")
    sizes = [line.bounding_box() for line in lines.all()]
    assert len(sizes) == 4
    assert all(size and size["width"] > 100 for size in sizes)
    names = page.locator(f"#{chart} svg text").all_text_contents()
    for name in ("scavenger", "best_effort", "priority"):
        assert names.count(name) >= 2, "in the legend and beside the line"
        assert f"{name} starts" in names
        assert f"{name} stops" in names
    assert "throughput (Mb/s)" in names
    assert "time (s)" in names


def test_words_in_a_chart_do_not_overlap(page: Page) -> None:
    for chart in page.locator("figure").all():
        boxes = [
            box
            for words in chart.locator("svg .mark-text text").all()
            if words.text_content() and (box := words.bounding_box())
        ]
        for i, one in enumerate(boxes):
            for other in boxes[:i]:
                apart = (
                    one["x"] >= other["x"] + other["width"] - 1
                    or other["x"] >= one["x"] + one["width"] - 1
                    or one["y"] >= other["y"] + other["height"] - 1
                    or other["y"] >= one["y"] + one["height"] - 1
                )
                assert apart, (one, other)


def test_a_phone_scrolls_charts_and_tables_but_not_the_page(
    browser: Browser, files: dict[str, Path]
) -> None:
    for page in opened(browser, files["plain"], 360):
        width = page.evaluate("document.documentElement.scrollWidth")
        assert width == 360


def test_hostile_text_runs_nothing(browser: Browser, files: dict[str, Path]) -> None:
    for page in opened(browser, files["hostile"], 1100):
        assert page.locator("img").count() == 0
        assert "<script>alert(1)" in page.locator("h1").inner_text()


def test_the_page_prints(page: Page) -> None:
    assert page.pdf(format="A4").startswith(b"%PDF")
