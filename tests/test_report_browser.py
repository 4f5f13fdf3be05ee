"""The page in a browser: drawn whole, silent, and without a request."""

import re
from collections.abc import Iterator
from importlib.resources import files as resources
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from conftest import SLOW
from datasets import dataset, scavenger
from perhop import analysis, ensembles, load, report, topologies
from perhop.advice import PolicerAdvice, PolicerPoint, rules_of_thumb
from perhop.report.advice import save_advice
from perhop.report.document import comparison_page
from perhop.report.ensemble_page import ensemble_page
from perhop.report.index import index_page
from perhop.report.sweep_page import sweep_page
from perhop.runs import ListedRun
from test_advice import question
from test_report import hostile
from test_run_seeds import SMALL
from test_sweep_page import table
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
WAITING = "figure[data-chart]:not([data-drawn])"


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
    star = {"perhop": 1, "name": "x", **topologies.star(70, rate="1 Gbps"), "duration": "1 s"}
    pages = {"plain": scavenger(), "hostile": hostile(), "star": dataset(load(star))}
    content = {name: report.page(run) for name, run in pages.items()}
    runs = ensembles.run(load(SMALL), 6, jobs=1)
    content["ensemble"] = ensemble_page(runs, ["report.html", *5 * [None]], "runs")
    both = [pages["plain"], scavenger(until=70)]
    content["comparison"] = comparison_page(analysis.compare(both, ["a", "b"]), "two", both)
    content["sweep"] = sweep_page(table(), "throughput", "total", "x", 11 * [None] + ["a"], "runs")
    listed = [
        ListedRun("a", fails=1, page="a/report.html"),
        ListedRun("b", "damaged", problem="x"),
        ListedRun("c", "sweep", pages=("c/1/report.html",)),
    ]
    content["index"] = index_page(listed, "x")
    for name, text in content.items():
        (folder / f"{name}.html").write_text(text, encoding="utf-8")
    asked = question()
    rules = rules_of_thumb(asked)
    bursts = sorted({1500, *(rule.burst for rule in rules)})
    points = [PolicerPoint("reno", burst, 0.9, 0.9, 0.9, 0.01) for burst in bursts]
    save_advice(PolicerAdvice(asked, points, rules, 30, 1), folder)
    return {name: folder / f"{name}.html" for name in (*content, "policer")}


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
    expect(page.locator(WAITING)).to_have_count(0, timeout=30_000)
    yield page
    page.close()
    assert said == []
    assert requested == [file.as_uri()]


def test_every_chart_is_drawn(page: Page) -> None:
    assert page.locator("figure").count() == 5
    assert page.locator("figure .legend").count() == 4
    for chart in page.locator("figure[data-chart] .drawing > svg").all():
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
    legend = page.locator(f"#{chart} .legend button").all_text_contents()
    assert legend == ["scavenger", "best_effort", "priority", "total"]
    for name in ("scavenger", "best_effort", "priority"):
        assert name in names, "beside the line"
        assert f"{name} starts" in names
        assert f"{name} stops" in names
    assert "throughput (Mb/s)" in names
    assert "time (s)" in names


def test_words_in_a_chart_do_not_overlap(page: Page) -> None:
    words_are_apart(page)


def test_names_of_rules_stand_upright_in_a_chart(browser: Browser, files: dict[str, Path]) -> None:
    for page in opened(browser, files["policer"], 1100):
        words_are_apart(page)
        named = page.locator("#policer svg .mark-text text", has_text="sawtooth of Reno")
        box = named.bounding_box()
        assert box is not None
        assert box["height"] > 4 * box["width"]


def words_are_apart(page: Page) -> None:
    for chart in page.locator("figure").all():
        words = chart.locator("svg .mark-text text").evaluate_all(
            "all => all.map((e) => [e.textContent, e.getBoundingClientRect()])"
        )
        boxes = [box for text, box in words if text and box["width"]]
        for i, one in enumerate(boxes):
            for other in boxes[:i]:
                apart = (
                    one["x"] >= other["right"] - 1
                    or other["x"] >= one["right"] - 1
                    or one["y"] >= other["bottom"] - 1
                    or other["y"] >= one["bottom"] - 1
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


def test_the_pointer_shows_the_values_of_all_lines(page: Page) -> None:
    chart = page.locator("#throughput-linear")
    box = chart.locator(".face").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 20)  # at 75 of 150 s
    shown = chart.locator(".tip div").all_text_contents()
    assert re.fullmatch(r"time 7[45]\S* s", shown[0])
    values = dict(row.replace("\N{NO-BREAK SPACE}Mb/s", "").split() for row in shown[1:])
    assert float(values["priority"]) == pytest.approx(7.1, rel=0.05)
    assert float(values["scavenger"]) == pytest.approx(0.11, rel=0.1)
    assert page.locator("#throughput-log .cross").get_attribute("visibility") == "visible"


def test_dragging_zooms_all_charts_over_time(page: Page) -> None:
    page.locator("#throughput-linear").scroll_into_view_if_needed()
    face = page.locator("#throughput-linear .face").bounding_box()
    assert face is not None
    y = face["y"] + 30
    page.mouse.move(face["x"] + 0.4 * face["width"], y)
    page.mouse.down()
    page.mouse.move(face["x"] + 0.6 * face["width"], y, steps=3)
    page.mouse.up()
    # The pointer is at six tenths of 60 to 90 s now.
    shown = page.locator("#throughput-linear .tip div").first.inner_text()
    assert 77 <= float(shown.split()[1]) <= 79
    for name in ("throughput-linear", "throughput-log"):
        ticks = page.locator(f"#{name} [data-label^=X-axis] .role-axis-label text")
        seen = [float(tick) for tick in ticks.all_text_contents()]
        assert 60 <= min(seen) <= 65
        assert 85 <= max(seen) <= 90
    page.locator("#throughput-log button[aria-label='Show all']").press("Enter")
    labels = page.locator("#throughput-linear [data-label^=X-axis] .role-axis-label text")
    assert (labels.all_text_contents()[0], labels.all_text_contents()[-1]) == ("0", "140")


def test_a_line_can_be_switched_off_by_the_keyboard(page: Page) -> None:
    chart = page.locator("#throughput-linear")
    line = chart.locator(".mark-line path[data-label$='flow: priority']")
    button = chart.locator(".legend button", has_text="priority")
    assert line.is_visible()
    button.press("Space")
    assert not line.is_visible()
    assert button.get_attribute("aria-pressed") == "false"
    assert chart.locator(".mark-line path[data-label$='flow: scavenger']").is_visible()


def test_points_are_zoomed_and_say_their_values(browser: Browser, files: dict[str, Path]) -> None:
    for page in opened(browser, files["ensemble"], 1000):
        chart = page.locator("#seeds")
        points = chart.locator(".mark-symbol.role-mark path:visible")
        assert points.count() == 12
        face = chart.locator(".face").bounding_box()
        assert face is not None
        point = points.nth(2).bounding_box()  # of seed 3
        assert point is not None
        page.mouse.move(point["x"] + 6, point["y"] + 3)
        assert chart.locator(".tip div").all_text_contents()[0] == "seed: 3"
        y = face["y"] + 20
        page.mouse.move(face["x"] + 1.5 / 7 * face["width"], y)
        page.mouse.down()
        page.mouse.move(face["x"] + 4.5 / 7 * face["width"], y, steps=3)
        page.mouse.up()
        ticks = chart.locator("[data-label^=X-axis] .role-axis-label text")
        assert ticks.all_text_contents() == ["2", "3", "4"]
        assert points.count() == 6
        chart.get_by_role("button", name="late").click()
        assert points.count() == 3
        chart.get_by_role("button", name="Show all").click()
        assert points.count() == 6


def test_a_network_says_its_nodes_and_links_to_pointer_and_keys(
    browser: Browser, files: dict[str, Path]
) -> None:
    for page in opened(browser, files["star"], 1000):
        tip, drawing = page.locator("#network .tip"), page.locator("#network .drawing")
        page.locator("#network path[d$=z]").nth(4).hover()
        expect(tip).to_have_text("h5")
        page.mouse.move(0, 0)
        expect(tip).to_be_hidden()
        for key, said in (("ArrowRight", "hub"), ("ArrowRight", "h1"), ("ArrowLeft", "hub")):
            drawing.press(key)
            expect(tip).to_have_text(said)
        drawing.press("ArrowLeft")
        expect(tip).to_contain_text("h70>hub")
        drawing.press("Escape")
        expect(tip).to_be_hidden()


def test_marks_without_lines_say_their_values_to_pointer_and_keys(
    browser: Browser, files: dict[str, Path]
) -> None:
    for page in opened(browser, files["sweep"], 1000):
        heat = page.locator("figure:not([data-chart])").first
        tip, cells = heat.locator(".tip"), heat.locator(".role-mark > path[data-label]")
        said = [str(cell.get_attribute("data-label")).split("; ") for cell in cells.all()]
        assert len(said) == 6
        cells.nth(2).hover()
        expect(tip.locator("div")).to_have_text(said[2])
        page.mouse.move(0, 0)
        expect(tip).to_be_hidden()
        for key, cell in (("ArrowRight", 0), ("ArrowRight", 1), ("ArrowLeft", 0)):
            heat.locator(".drawing").press(key)
            expect(tip.locator("div")).to_have_text(said[cell])
    for page in opened(browser, files["index"], 390):
        assert page.locator("th").all_inner_texts()[:2] == ["folder", "verdict"]


def test_axe_finds_no_violation(browser: Browser, files: dict[str, Path]) -> None:
    page = browser.new_page(bypass_csp=True)
    axe = resources("axe_playwright_python").joinpath("axe.min.js").read_text("utf-8")
    found = []
    for name in ("plain", "ensemble", "comparison", "sweep", "index"):
        page.set_viewport_size({"width": 1100, "height": 900})
        page.emulate_media(color_scheme="light")
        page.goto(files[name].as_uri())
        expect(page.locator(WAITING)).to_have_count(0, timeout=30_000)
        page.evaluate(axe)
        # The charts of one page are enough, and so is one page in light colours.
        asked = "axe.run({exclude: [['svg']]})"
        if name == "plain":
            found += [(name, each) for each in page.evaluate("axe.run()")["violations"]]
            asked = "axe.run({runOnly: ['color-contrast', 'scrollable-region-focusable']})"
        page.emulate_media(color_scheme="dark")
        page.set_viewport_size({"width": 390, "height": 900})
        found += [(name, each) for each in page.evaluate(asked)["violations"]]
        assert page.evaluate("document.documentElement.scrollWidth") == 390, name
    assert [(name, each["id"], each["nodes"][0]["html"]) for name, each in found] == []
    page.close()


def test_words_in_charts_have_contrast_in_light_and_dark(page: Page) -> None:
    """WCAG's ratio of luminances of small words: 4.5, which axe does not check in drawings."""
    words = "[...document.querySelectorAll('figure .mark-text text')]"
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
        colours = set(page.evaluate(f"{words}.map(each => getComputedStyle(each).fill)"))
        assert len(colours) > 3
        for colour in colours:
            one, two = sorted(map(luminance, (paper, colour)))
            assert (two + 0.05) / (one + 0.05) >= 4.5, (scheme, colour)


def luminance(colour: str) -> float:
    """The relative luminance of `rgb(r, g, b)`, as WCAG 2.2 defines it."""
    parts = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_without_a_script_charts_are_whole(browser: Browser, files: dict[str, Path]) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(files["plain"].as_uri())
    assert page.locator("#throughput-linear .mark-line path").count() == 4
    assert page.locator("#throughput-linear .role-legend text").count() == 4
    context.close()


def test_the_page_prints(page: Page) -> None:
    assert page.pdf(format="A4").startswith(b"%PDF")
