"""The page in a browser: by mouse, by keyboard, on a phone, and silent."""

import re
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import pairwise

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from conftest import SLOW
from perhop_services.common.people import People
from perhop_services.reservations import messages as m
from perhop_services.reservations.schema import COUNTERS, LOG
from reserving import MBPS, PASSWORD
from reserving_http import booking, client, served
from test_report_browser import ARGUMENTS, CHROMIUM
from tools import need

pytestmark = SLOW


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    need("chromium")
    expect.set_options(timeout=60_000)  # machines may be busy
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def it(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, People]]:
    folder = tmp_path_factory.mktemp("page")
    with served(str(folder / "b.db"), folder) as made:
        yield made


def opened(
    browser: Browser,
    url: str,
    width: int = 1100,
    *,
    touch: bool = False,
    now: datetime | None = None,
) -> Iterator[Page]:
    page = browser.new_page(viewport={"width": width, "height": 800}, has_touch=touch)
    if now is not None:
        page.clock.set_fixed_time(now)
    said: list[str] = []
    # A browser says of every answer that it is a refusal; the page says it to people.
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(url)
    page.get_by_label("Name").fill("les")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_label("Password").press("Enter")
    expect(page.get_by_role("link", name="Timeline")).to_be_visible(timeout=20_000)
    yield page
    page.close()
    assert [each for each in said if "Failed to load resource" not in each] == []
    assert all(each.startswith((url, "data:,")) for each in asked)


def later(page: Page) -> None:
    """Go a day on, and wait until that is drawn."""
    links = page.locator("#links")
    expect(links).to_have_attribute("data-start", re.compile("[0-9]+"))
    before = links.get_attribute("data-start")
    assert before is not None
    page.get_by_label("Later").focus()
    page.keyboard.press("Enter")
    expect(links).not_to_have_attribute("data-start", before)


@pytest.fixture
def page(browser: Browser, it: tuple[str, People]) -> Iterator[Page]:
    yield from opened(browser, it[0])


def test_a_stretch_is_booked_by_dragging(page: Page) -> None:
    expect(page.locator("#links svg")).to_have_count(12)
    later(page)
    row = page.locator('[data-link="r1>r2"]')
    expect(row).to_be_visible()
    box = row.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] * 0.25, box["y"] + 10)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + 10, steps=5)
    # What is free there is told before it is booked.
    told = page.get_by_label("What is free")
    expect(told).to_contain_text("r1>r2, 20")
    expect(told).to_contain_text("800 Mb/s of 800 Mb/s free")
    page.mouse.up()
    dialog = page.get_by_role("dialog")
    assert dialog.get_by_label("Rate").input_value() == "800"
    start = dialog.get_by_label("Start").input_value()
    end = dialog.get_by_label("End").input_value()
    assert start[11:13] != end[11:13]
    dialog.locator("[name=source]").select_option("slac")
    dialog.locator("[name=destination]").select_option("cern")
    dialog.get_by_label("Protocol").select_option("tcp")
    dialog.get_by_label("Port").fill("5011")
    dialog.get_by_label("Purpose").fill("<b>dragged</b>")
    dialog.get_by_role("button", name="Book").click()
    expect(page.get_by_role("heading", name="Reservation 1: planned")).to_be_visible()
    expect(page.get_by_text("<b>dragged</b>").first).to_be_visible()
    # What was done stays on the page that came.
    expect(page.get_by_text("Reservation 1 is planned.")).to_be_visible()
    expect(page.locator("table caption")).to_have_text("Log")
    # The timeline has it, and what is more is refused with what is in the way.
    page.get_by_role("link", name="Timeline").click()
    expect(page.locator('[data-link="r1>r2"] .booked')).to_have_count(1)
    page.get_by_role("button", name="Book…").click()
    dialog.get_by_label("Rate").fill("900")
    dialog.get_by_label("Start").fill(start)
    dialog.get_by_label("End").fill(end)
    dialog.get_by_label("Port").fill("5012")
    dialog.get_by_role("button", name="Book").click()
    expect(dialog.get_by_role("alert")).to_contain_text("900 Mbps is not free on r1>r2: 0 bps is")
    dialog.get_by_label("Rate").fill("500")
    dialog.get_by_role("button", name="Book").click()
    expect(dialog.get_by_role("alert")).to_contain_text("it would be free from")
    dialog.get_by_role("button", name="Take").click()
    assert dialog.get_by_label("Start").input_value()[:16] == end[:16]
    dialog.get_by_role("button", name="Book").click()
    expect(page.get_by_role("heading", name="Reservation 2: planned")).to_be_visible()


def test_everything_is_done_by_keyboard(page: Page) -> None:
    later(page)
    later(page)
    page.locator('[data-link="slac>r1"]').focus()
    for key in ("ArrowRight", "ArrowRight", "Shift+ArrowRight", "Shift+ArrowRight", "Enter"):
        page.keyboard.press(key)
    dialog = page.get_by_role("dialog")
    expect(dialog).to_be_visible()
    assert dialog.get_by_label("Rate").evaluate("e => e === document.activeElement")
    page.keyboard.press("Control+a")
    page.keyboard.type("7")
    page.keyboard.press("Enter")
    expect(page.locator("#reservation h2").first).to_contain_text("planned")
    expect(page.locator("#reservation dl")).to_contain_text("7 Mb/s")
    rate = page.locator("#reservation").get_by_label("Rate")
    rate.focus()
    page.keyboard.press("Control+a")
    page.keyboard.type("8")
    page.keyboard.press("Enter")
    expect(page.locator("#reservation dl")).to_contain_text("8 Mb/s")
    expect(page.locator("#reservation table")).to_contain_text("rate: 7 Mb/s to 8 Mb/s")
    page.get_by_role("button", name="Cancel it…").focus()
    page.keyboard.press("Enter")
    # A slip does nothing: it is asked again, and Escape keeps it.
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()
    expect(page.locator("#reservation h2").first).to_contain_text("planned")
    page.get_by_role("button", name="Cancel it…").focus()
    page.keyboard.press("Enter")
    page.keyboard.type("no longer needed")
    page.keyboard.press("Enter")
    expect(page.locator("#reservation h2").first).to_contain_text("cancelled")
    page.get_by_role("link", name="Reservations").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_label("those that are over")).to_be_visible()
    page.get_by_label("those that are over").focus()
    page.keyboard.press("Space")
    expect(page.locator("#all tbody")).to_contain_text("cancelled")
    page.get_by_role("button", name="Log out").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_label("Password")).to_be_visible()


def test_what_was_counted_is_charted(page: Page, it: tuple[str, People]) -> None:
    with client(it, "les") as les:
        made = les.book(booking(purpose="counted", start=int(time.time()) + 9 * 10**6))
    rows = [
        {
            "reservation_id": made.id,
            "at_ms": 1_800_000_000_000 + 10_000 * n,
            "epoch": n // 3,
            "conformed_packets": n,
            "conformed_bytes": 1_187_500 * (n % 3),
            "exceeded_packets": n,
            "exceeded_bytes": 125_000 * (n % 3),
        }
        for n in range(6)
    ]
    with it[1]._database.writing() as connection:
        connection.execute(COUNTERS.insert(), rows)
    page.evaluate(f"location.hash = '#reservation/{made.id}'")
    chart = page.get_by_role("img")
    expect(chart).to_have_attribute(
        "aria-label", "Conformed 950 kb/s and exceeded 100 kb/s on average, of 1 Mb/s reserved"
    )
    assert chart.locator("path").count() == 3
    box = chart.locator(".conformed").bounding_box()
    assert box is not None
    assert box["width"] > 500
    # Its axes say which rates, and when.
    assert page.locator(".rates span").all_text_contents()[:2] == ["0 b/s", "200 kb/s"]
    assert page.locator(".chart .axis span").first.text_content() == "08:00:0001-15"
    # WCAG 2.2, 1.4.3: 4.5 to 1, for what is said in a colour; by day and by night.
    page.evaluate("document.querySelector('#said').className = 'error'")
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        for name in (".key.conformed", ".key.exceeded", ".key.reserved", "#said"):
            assert contrast(page, name) >= 4.5, (scheme, name)
    # A long log comes in pages, and is shown to its end.
    with it[1]._database.writing() as connection:
        row = dict(connection.execute(LOG.select().limit(1)).mappings().one())
        row |= {"reservation_id": made.id, "action": "trouble"}
        connection.execute(LOG.insert(), [row | {"id": 10**6 + n} for n in range(1100)])
    page.reload()
    expect(page.locator("#reservation tbody tr")).to_have_count(1101)


def contrast(page: Page, selector: str) -> float:
    """The contrast of an element's words with the page (WCAG 2.2)."""
    colour, ground = page.evaluate(
        """selector => {
          document.body.style.background = "Canvas";
          const look = element => getComputedStyle(element);
          const found = [look(document.querySelector(selector)).color,
            look(document.body).backgroundColor];
          document.body.style.background = "";
          return found.map(text => text.match(/[0-9]+/g).map(Number));
        }""",
        selector,
    )
    one, other = sorted((luminance(colour), luminance(ground)))
    return (other + 0.05) / (one + 0.05)


def luminance(colour: list[int]) -> float:
    """Relative luminance (WCAG 2.2)."""
    parts = [part / 255 for part in colour]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return sum(weight * c for weight, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


@pytest.mark.parametrize("hour", [0, 5, 6, 7, 23])
def test_a_time_axis_keeps_its_labels_inside(
    browser: Browser, it: tuple[str, People], hour: int
) -> None:
    """Marks at both ends of the axis occur at some hours only: every sixth, for a day."""
    now = datetime(2028, 12, 31, hour, 30, tzinfo=UTC)
    axis, labels = "#links .axis", "#links .axis span"
    for page in opened(browser, it[0], 360, now=now):
        for seconds in (3600, 21_600, 86_400, 604_800, 2_592_000):
            page.get_by_label("How long").select_option(str(seconds))
            expect(page.locator("#links")).to_have_attribute("data-seconds", str(seconds))
            boxes = page.locator(labels).evaluate_all(
                "all => all.map(each => each.getBoundingClientRect()).map(b => [b.left, b.right])"
            )
            assert len(boxes) >= 2
            room = page.locator(axis).bounding_box()
            assert room is not None
            assert all(room["x"] - 0.5 <= left for left, _ in boxes)
            assert all(right <= room["x"] + room["width"] + 0.5 for _, right in boxes)
            assert all(right < left for (_, right), (left, _) in pairwise(boxes))
            assert page.evaluate("document.documentElement.scrollWidth") == 360


def test_a_phone_has_room_for_it(browser: Browser, it: tuple[str, People]) -> None:
    for page in opened(browser, it[0], 360):
        wide = "document.documentElement.scrollWidth"
        assert page.evaluate(wide) == 360
        # What is told of a row does not move it from under the pointer.
        row = page.locator('[data-link="r1>r2"]')
        later(page)
        row.scroll_into_view_if_needed()
        before = row.bounding_box()
        row.hover()
        expect(page.get_by_label("What is free")).to_contain_text("r1>r2, 20")
        assert row.bounding_box() == before
        page.get_by_role("button", name="Book…").click()
        assert page.evaluate(wide) == 360
        page.keyboard.press("Escape")
        page.get_by_role("link", name="Reservations").click()
        expect(page.locator("#all")).not_to_be_empty()
        assert page.evaluate(wide) == 360
        with client(it, "les") as les:
            own = les.book(booking(selector=m.SelectorMessage(dscp=7)))
        page.evaluate(f"location.hash = '#reservation/{own.id}'")
        expect(page.locator("#reservation h2").first).to_contain_text(f"Reservation {own.id}")
        assert page.evaluate(wide) == 360


def test_a_finger_books(browser: Browser, it: tuple[str, People]) -> None:
    for page in opened(browser, it[0], 360, touch=True):
        later(page)
        row = page.locator('[data-link="r2>cern"]')
        expect(row).to_be_visible()
        row.scroll_into_view_if_needed()
        box = row.bounding_box()
        assert box is not None
        fingers = page.context.new_cdp_session(page)
        y = box["y"] + box["height"] / 2
        for kind, part in (("touchStart", 0.3), ("touchMove", 0.4), ("touchMove", 0.6)):
            points = [{"x": box["x"] + box["width"] * part, "y": y}]
            fingers.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
        fingers.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
        dialog = page.get_by_role("dialog")
        expect(dialog).to_be_visible()
        # Two hosts whose path takes the link, and the stretch that was chosen.
        assert dialog.locator("[name=destination]").input_value() == "cern"
        times = [dialog.get_by_label(name).input_value() for name in ("Start", "End")]
        start, end = (datetime.fromisoformat(f"{time}+00:00").timestamp() for time in times)
        assert abs((end - start) / 86_400 - 0.3) < 0.03


def test_what_others_do_is_shown_without_asking(page: Page, it: tuple[str, People]) -> None:
    with client(it, "les") as les:
        own = les.book(booking(selector=m.SelectorMessage(protocol="tcp", source_ports=(7, 9))))
        page.evaluate(f"location.hash = '#reservation/{own.id}'")
        heading = page.locator("#reservation h2").first
        expect(heading).to_have_text(f"Reservation {own.id}: planned")
        # Selectors change in place, too; what has no field stays.
        own_page = page.locator("#reservation")
        own_page.get_by_label("Port").fill("5011-5012")
        own_page.get_by_label("DSCP").fill("46")
        page.get_by_role("button", name="Change").click()
        facts = page.locator("#reservation dl")
        expect(facts).to_contain_text("tcp, from port 7-9, to port 5011-5012, DSCP 46")
        expect(page.locator("#reservation table")).to_contain_text("to port 5011-5012, DSCP 46")
        page.locator("h1").click()
        les.cancel(own.id, "from elsewhere")
        expect(heading).to_have_text(f"Reservation {own.id}: cancelled", timeout=60_000)
        expect(page.locator("#reservation table")).to_contain_text("from elsewhere")
        expect(page.get_by_role("button", name="Cancel it…")).to_have_count(0)


def test_a_wrong_password_is_told(browser: Browser, it: tuple[str, People]) -> None:
    page = browser.new_page()
    page.goto(it[0])
    page.get_by_label("Name").fill("nobody")
    page.get_by_label("Password").fill("wrong password")
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("status")).to_have_text("the name or the password is wrong")
    page.close()


def test_after_logging_in_the_focus_is_on_the_page(
    browser: Browser, it: tuple[str, People]
) -> None:
    page = browser.new_page()
    page.goto(it[0])
    page.get_by_label("Name").fill("les")
    page.get_by_label("Password").fill(PASSWORD)
    page.keyboard.press("Enter")
    expect(page.locator("#timeline")).to_be_visible()
    expect(page.locator("#title")).to_be_focused()
    page.close()


def test_targets_are_large_and_tables_have_captions(
    browser: Browser, it: tuple[str, People]
) -> None:
    """Targets of 24 px (WCAG 2.2, 2.5.8) and captions (1.3.1) wherever one comes."""
    with client(it, "op") as op:
        own = op.book(booking(start=int(time.time()) + 600, selector=m.SelectorMessage(dscp=9)))

    def look(page: Page) -> None:
        targets = page.locator("a:visible, button:visible, input:visible, select:visible, summary")
        assert targets.count()
        for target in targets.all():
            box = target.bounding_box()
            assert box is not None
            assert min(box["width"], box["height"]) >= 24, target.evaluate("it => it.outerHTML")
        expect(page.locator("table:not(:has(caption:not(:empty)))")).to_have_count(0)

    page = browser.new_page()
    page.goto(it[0])
    page.get_by_label("Name").fill("op")
    page.get_by_label("Password").fill(PASSWORD)
    look(page)
    page.keyboard.press("Enter")
    expect(page.locator("#within table")).to_be_visible()
    look(page)
    page.get_by_role("button", name="Book…").click()
    look(page)
    page.keyboard.press("Escape")
    page.get_by_role("link", name="Reservations").click()
    expect(page.locator("#all table")).to_be_visible()
    look(page)
    page.evaluate(f"location.hash = '#reservation/{own.id}'")
    expect(page.locator("#reservation table")).to_be_visible()
    look(page)
    page.close()


def test_messages_have_their_units() -> None:
    assert m.default_burst(10 * MBPS) == 125_000
    assert m.default_burst(1) == 15_000
