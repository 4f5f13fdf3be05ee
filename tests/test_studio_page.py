"""The studio in a browser: a text is edited, sliders are moved, results follow."""

import re
import statistics
from collections.abc import Iterator
from importlib.resources import files as resources
from pathlib import Path

import pytest
import yaml
from playwright.sync_api import Browser, Locator, Page, expect, sync_playwright

from conftest import SLOW
from perhop import gallery, studio, topologies
from perhop.scenario import parse
from perhop.scenario.reading.document import read_yaml
from test_report_browser import ARGUMENTS, CHROMIUM
from tools import missing, need

pytestmark = SLOW

ROOT = Path(__file__).parent.parent
AXE = resources("axe_playwright_python").joinpath("axe.min.js").read_text("utf-8")

OFFICE = re.findall(r"```yaml\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL)[0]
"""The scenario of the README."""

SAID: list[str] = []
"""What pages said on their consoles, which is nothing."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    need("chromium")
    if not (Path(studio.__file__).parent / "page" / "studio.js").exists():
        missing("the page of the studio, which `make studio` builds")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def page(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """The page of the README's scenario, whose results are there; the tests change it in turn."""
    file = tmp_path_factory.mktemp("studio") / "office.yaml"
    file.write_text(OFFICE)
    with studio.Studio(str(file)) as served:
        page = browser.new_page(viewport={"width": 1400, "height": 900})
        page.on("console", lambda message: SAID.append(message.text))
        page.on("pageerror", lambda error: SAID.append(str(error)))
        page.goto(served.address)
        page.wait_for_selector(".verdicts li")
        yield page
        page.close()


@pytest.fixture(autouse=True)
def silent() -> Iterator[None]:
    """Pages say nothing on their consoles."""
    yield
    said = SAID.copy()
    SAID.clear()
    assert said == []


def slider(page: Page, name: str) -> Locator:
    return page.locator("#sliders li").get_by_label(name, exact=True)


def move(hand: Locator, to: int) -> None:
    """Moves a slider, of 400 steps, as a hand does."""
    hand.focus()
    hand.evaluate(
        "(input, to) => {input.value = to; input.dispatchEvent(new Event('input'))}", str(to)
    )


def lines(page: Page) -> str:
    return "\n".join(page.locator(".cm-line").all_inner_texts())


def accessible(page: Page, *rules: str) -> list[str]:
    """What axe-core finds against some of its rules, or against all: WCAG's, and good practice."""
    page.evaluate(AXE)
    found = page.evaluate("only => axe.run(only.length ? {runOnly: only} : {})", rules)[
        "violations"
    ]
    return [f"{each['id']}: {[node['target'] for node in each['nodes']]}" for each in found]


def test_the_scenario_is_run_and_drawn(page: Page) -> None:
    verdicts = page.locator(".verdicts li")
    assert verdicts.count() == len(parse(OFFICE).expect)
    expect(page.locator(".status").first).to_contain_text("All 3 expectations hold")
    assert page.locator(".network .node").count() == 4
    assert page.locator(".network .class").count() == 3
    assert page.locator(".chart:visible").count() == 3
    assert accessible(page) == []


def test_a_slider_changes_the_text_and_the_charts(page: Page) -> None:
    delay = slider(page, "edge-isp delay")
    assert delay.get_attribute("aria-valuetext") == "8 ms"
    area = page.locator(".chart .line").first.get_attribute("d")
    move(delay, 250)  # of a scale from 0.08 to 800 ms
    expect(page.locator(".verdicts .fails")).to_have_count(1)
    assert "rate: 20 Mbps, delay: 25 ms" in lines(page)
    expect(page.locator(".network svg")).to_contain_text("20 Mbps, 25 ms")
    assert page.locator(".chart .line").first.get_attribute("d") != area
    move(delay, 200)
    expect(page.locator(".verdicts .fails")).to_have_count(0)
    assert "rate: 20 Mbps, delay: 8 ms" in lines(page)
    delay.press("ArrowRight")
    expect(delay).to_have_attribute("aria-valuetext", "8.2 ms")
    times = page.evaluate("performance.getEntriesByName('slider to chart').map(e => e.duration)")
    assert statistics.median(times) < 2000
    print(f"slider to chart: {', '.join(f'{time:.0f}' for time in times)} ms")


TWO = """\
perhop: 1
name: two
nodes: {a: host, r: router, s: router, b: host}
links:
  - {ends: [a, r], rate: 100 Mbps, egress: {a: shared}}
  - {ends: [r, s], rate: 5 Mbps, egress: {r: shared}}
  - {ends: [s, b], rate: 100 Mbps, egress: {s: shared}}
policies:
  shared: {classes: {low: {match: {dscp: cs1}, bandwidth: 20%}, rest: {match: any}}}
flows:
  bulk: {from: a, to: b, dscp: cs1, stop: 4 s}
  web: {from: a, to: b, start: 1 s, stop: 3 s}
"""
"""Of three links with the same classes the second one is the busiest, not the first."""


def test_the_first_chart_of_classes_is_that_of_the_link_beside_it(
    browser: Browser, tmp_path: Path
) -> None:
    (tmp_path / "two.yaml").write_text(TWO)
    with studio.Studio(str(tmp_path / "two.yaml")) as served:
        page = browser.new_page(viewport={"width": 1400, "height": 900})
        page.goto(served.address)
        page.wait_for_selector(".verdicts", state="attached")
        expect(page.locator(".network svg")).to_contain_text("%")
        chosen = page.get_by_label("link")
        areas = page.locator(".chart .area")
        expect(chosen).to_have_value("r>s")
        first = [areas.nth(number).get_attribute("d") for number in range(areas.count())]
        assert first
        chosen.select_option("a>r")
        assert areas.first.get_attribute("d") != first[0]
        chosen.select_option("r>s")
        again = [areas.nth(number).get_attribute("d") for number in range(areas.count())]
        assert again == first
        page.close()


def test_errors_are_shown_in_place(page: Page) -> None:
    page.locator(".quantity", has_text="10 kB").dblclick(position={"x": 2, "y": 5})
    expect(page.locator("#sliders li.chosen")).to_contain_text("uplink voice police burst")
    page.keyboard.type("many")
    wrong = page.locator(".cm-lintRange-error")
    expect(wrong).to_have_text("many kB")
    expect(page.locator(".status").first).to_contain_text("1 error in the text")
    assert page.locator(".chart .line").count() > 0, "what was drawn stays"
    page.keyboard.press("Control+z")
    expect(wrong).to_have_count(0)
    expect(page.locator(".status").first).to_contain_text("All 3 expectations hold")


def write(page: Page, text: str) -> None:
    """Pastes a text in place of all, with the cursor at its end."""
    content = page.locator(".cm-content:visible")
    content.press("Control+a")
    content.evaluate(
        """(content, text) => {
            const clipboardData = new DataTransfer();
            clipboardData.setData("text/plain", text);
            const event = {clipboardData, bubbles: true, cancelable: true};
            content.dispatchEvent(new ClipboardEvent("paste", event));
        }""",
        text,
    )


BEGUN = """\
nodes: {a: host, r: router, b: host}
links:
  - {ends: [a, r], rate: 10 Mbps}
policies: {wan: {}, lan: {}}
flows: {web: {}, call: {}}
pings: {voice: {}}
"""


def test_completion_knows_what_is_due_at_the_cursor(page: Page) -> None:
    for text, due, other in (
        ("links:\n  - {ends: [a, r], rate: 1 Mbps, ", {"delay", "loss"}, {"rate", "ends"}),
        ("links:\n  - ends: [a, r]\n    del", {"delay"}, {"ends", "classes"}),
        ("links:\n  - ends: [", {"a", "r", "b"}, {"wan"}),
        ("links:\n  - {ends: [a, r], egress: {a: ", {"wan", "lan"}, {"a", "web"}),
        ("flows:\n  new:\n    tcp:\n      congestion_control: ", {"cubic", "bbr"}, {"a"}),
        ("flows:\n  new: {from: ", {"a", "b"}, {"wan", "web"}),
        ("flows:\n  new: {from: a, to: b}\n  next:\n    fr", {"from"}, {"match"}),
        ("expect:\n  - {throughput: ", {"web", "call", "total"}, {"voice"}),
        ("expect:\n  - {rtt_p99: ", {"voice"}, {"web"}),
        ("changes:\n  - at: 1 s\n    on: ", {"a>r", "r>a"}, {"a"}),
        ("dur", {"duration"}, {"name"} - {"name"}),
    ):
        write(page, BEGUN + text)
        page.keyboard.press("Control+Space")
        page.wait_for_selector(".cm-tooltip-autocomplete li")
        offered = set(page.locator(".cm-completionLabel").all_inner_texts())
        assert due <= offered, text
        assert not other & offered, text
        page.keyboard.press("Escape")
    page.keyboard.press("Control+Space")
    page.wait_for_selector(".cm-tooltip-autocomplete li")
    page.wait_for_timeout(100)  # a list that has just opened takes no key
    page.keyboard.press("Enter")
    assert lines(page).endswith("duration: ")


def quantities(text: str) -> set[str]:
    """The paths of all values of a text that have units, one or two."""
    unit = r"(bps|[kMG]bps|b/s|[kMG]b/s|ps|ns|us|ms|s|min|h|[kMG]?B|[KMG]iB|%)"
    one = rf"[0-9]+(\.[0-9]+)? *{unit}"
    found = set()
    document = read_yaml(text, "x.yaml")
    todo: list[tuple[str, object]] = [("", document.data)]
    while todo:
        path, value = todo.pop()
        inner = value.items() if isinstance(value, dict) else ()
        inner = enumerate(value) if isinstance(value, list) else inner
        todo += [(f"{path}.{key}".lstrip("."), each) for key, each in inner]
        if isinstance(value, str) and re.fullmatch(rf"{one}(\.\.{one})?", value):
            found |= {f"{path}#0", f"{path}#1"} if ".." in value else {path}
    return found


def test_every_quantity_of_the_gallery_has_a_slider(page: Page) -> None:
    for name in ("qbss-1-70", "altq-cbq", "oscars-burst"):
        page.locator("#from").select_option(name)
        expect(page.locator("#said")).to_contain_text(name)
        titles = page.locator("#sliders .name").evaluate_all("all => all.map(e => e.title)")
        with_units = {title.partition(": ")[0] for title in titles}
        assert quantities(gallery.text(name)) <= with_units, name


def test_variants_are_side_by_side(page: Page) -> None:
    write(page, OFFICE)
    expect(page.locator(".status")).to_contain_text("All 3 expectations hold")
    page.get_by_role("button", name="Compare").click()
    expect(page.get_by_role("tab", name="B")).to_have_attribute("aria-selected", "true")
    expect(page.locator(".view .verdicts .holds")).to_have_count(6)
    move(slider(page, "edge-isp delay"), 250)
    one, two = page.locator(".view").all()
    expect(two.locator(".fails")).to_have_count(1)
    assert one.locator(".fails").count() == 0
    first, second = (view.locator("svg .tick").all_inner_texts() for view in (one, two))
    assert first == second, "the charts have the same scales"
    page.get_by_role("tab", name="B").press("ArrowLeft")
    assert "rate: 20 Mbps, delay" in lines(page)
    page.get_by_role("button", name="Close B").click()
    expect(page.locator(".view")).to_have_count(1)


def test_scenarios_and_reports_are_saved(page: Page) -> None:
    with page.expect_download() as saved:
        page.get_by_role("button", name="Download").click()
    assert saved.value.path().read_text("utf-8") == OFFICE
    page.get_by_role("button", name="Save office.yaml").click()
    expect(page.locator("#said")).to_have_text("office.yaml is saved")
    with page.expect_download() as saved:
        page.get_by_role("button", name="Report").click()
    assert "All 3 expectations hold." in saved.value.path().read_text("utf-8")
    name, text = "mine.yaml", OFFICE.replace("name: office", "name: mine")
    page.locator("#file").set_input_files([{"name": name, "mimeType": "", "buffer": text.encode()}])
    expect(page.locator("#said")).to_contain_text("mine.yaml")
    assert "name: mine" in lines(page)


def test_another_text_is_seen_from_its_beginning(page: Page) -> None:
    write(page, OFFICE)
    page.locator(".cm-content").press("Control+End")
    scrolled = page.locator(".cm-scroller")
    page.wait_for_function("document.querySelector('.cm-scroller').scrollTop > 0")
    page.locator("#from").select_option("rfc4594")
    expect(page.locator(".cm-line").first).to_contain_text("The service classes of RFC 4594")
    assert scrolled.evaluate("element => element.scrollTop") == 0


def test_two_pages_of_one_studio_do_not_mix(browser: Browser, page: Page) -> None:
    other = browser.new_page()
    other.goto(page.url)
    other.wait_for_selector(".verdicts li")
    write(page, OFFICE.replace("stop: 30 s", "stop: 10 h"))
    expect(page.locator(".running")).to_be_visible()
    write(other, "# two\n" + OFFICE)
    expect(other.locator(".status")).to_contain_text("All 3 expectations hold")
    expect(page.locator(".running")).to_be_visible()
    page.get_by_role("button", name="Stop").click()
    write(page, "# one\n" + OFFICE)
    page.get_by_role("button", name="Save office.yaml").click()
    expect(page.locator("#said")).to_have_text("office.yaml is saved")
    other.get_by_role("button", name="Save office.yaml").click()
    expect(other.locator("#said")).to_contain_text("was changed elsewhere")
    asked = []
    other.on("dialog", lambda dialog: (asked.append(dialog.type), dialog.accept()))
    other.reload()
    other.wait_for_selector(".verdicts li")
    other.reload()  # without a change
    other.wait_for_selector(".verdicts li")
    assert asked == ["beforeunload"]
    assert lines(other).startswith("# one")
    other.close()


def test_seeds_are_whole_numbers(page: Page) -> None:
    seed = page.get_by_label("Seed")
    for given, used in (("-1.5", "0"), ("1e30", str(2**53 - 1)), ("", "0"), ("1", "1")):
        seed.fill(given)
        seed.press("Tab")
        expect(seed).to_have_value(used)


def test_networks_of_many_nodes_are_dots(page: Page) -> None:
    star = topologies.star(70, rate="1 Gbps")
    write(page, yaml.safe_dump({"perhop": 1, "name": "x", **star, "duration": "1 s"}))
    expect(page.locator(".status")).to_contain_text("nothing to run")
    assert page.locator(".network .dot").count() == 71
    assert page.locator(".network .dot title").first.text_content() == "h1"


def test_a_long_run_shows_its_progress_and_stops(page: Page) -> None:
    write(page, "")
    expect(page.locator(".status")).to_contain_text("line 1: the text is empty")
    write(page, re.sub("stop: 30 s", "stop: 10 h", OFFICE))
    expect(page.locator(".status")).to_have_text("Running …")
    page.get_by_role("button", name="Stop").click()
    expect(page.locator(".status")).to_contain_text("stopped")
    expect(page.locator(".verdicts .missed, .verdicts .holds, .verdicts .fails")).to_have_count(3)
    write(page, OFFICE)
    expect(page.locator(".status")).to_contain_text("All 3 expectations hold")


def test_dark_and_narrow_pages_are_accessible(page: Page) -> None:
    page.emulate_media(color_scheme="dark")
    assert accessible(page, "color-contrast") == []
    page.set_viewport_size({"width": 390, "height": 800})
    assert accessible(page, "color-contrast", "scrollable-region-focusable") == []
    assert page.evaluate("document.documentElement.scrollWidth") == 390
