"""The page of a lab: who gets it, what it has, and where nodes are drawn."""

import json
import re
import signal
import subprocess
from http.client import HTTPConnection
from itertools import pairwise
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from playwright.sync_api import sync_playwright

from conftest import PERHOP, REAL_HOSTS
from perhop.errors import UnsupportedError
from perhop.lab import Lab, up
from perhop.layout import places
from perhop.scenario import parse
from test_lab import SCENARIO, output
from test_report_browser import ARGUMENTS, CHROMIUM
from tools import need, unable


@pytest.fixture
def lab(lab_folder: Path) -> Lab:
    assert lab_folder.is_dir()
    try:
        return up(parse(SCENARIO, "office.yaml"))
    except UnsupportedError as error:
        unable(error)


def asked(address: str, path: str | None = None, host: str | None = None) -> tuple[int, str]:
    """The status and the content of a path at an address."""
    parts = urlsplit(address)
    connection = HTTPConnection(parts.netloc, timeout=10)
    headers = {"Host": host} if host else {}
    connection.request("GET", path if path is not None else parts.path, headers=headers)
    with connection.getresponse() as response:
        return response.status, response.read().decode()


@REAL_HOSTS
def test_the_page_of_a_lab_is_for_who_has_its_address_and_ends_with_the_lab(lab: Lab) -> None:
    need("chromium", "ping")
    server = subprocess.Popen([PERHOP, "lab", "page"], stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    try:
        address = server.stdout.readline().strip()
        port = urlsplit(address).netloc
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/[\w-]{32}/", address)
        content = asked(address)[1]
        assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", content)
        for path in ("/", "/status", "/x/status", f"{urlsplit(address).path}etc/passwd", "//"):
            assert asked(address, path) == (404, "not found\n"), path
        # The name of another site that resolves to this machine.
        assert asked(address, host=f"example.com:{port.rpartition(':')[2]}")[0] == 404
        status = json.loads(asked(f"{address}status")[1])
        assert status["places"] == {"a": [0, 0], "r": [1, 0], "b": [2, 0]} or status["places"] == {
            "b": [0, 0],
            "r": [1, 0],
            "a": [2, 0],
        }
        assert status["links"]["r>b"]["ends"] == ["r", "b"]
        assert status["links"]["r>b"]["capacity_bps"] == 20_000_000

        lab.change({"on": "a>r", "state": "down"})
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
            page = browser.new_page()
            said: list[str] = []
            page.on("console", lambda message: said.append(message.text))
            page.on("pageerror", lambda error: said.append(str(error)))
            page.goto(address)
            page.wait_for_selector("svg .down", state="attached")
            assert page.locator("svg .wire").count() == 4
            assert page.locator("svg .node").count() == 3
            rows = page.locator("#rows tr").all_inner_texts()
            assert [row.split()[:2] for row in rows] == [
                ["a>r", "all"],
                ["r>a", "all"],
                ["r>b", "reserved"],
                ["r>b", "rest"],
                ["b>r", "all"],
            ]
            lab.change({"on": "a>r", "state": "up"})
            output(lab, "a", "ping", "-q", "-c", "60", "-i", "0.01", "-s", "1400", "b")
            page.wait_for_selector("svg .wire.busy", state="attached")
            lab.down()
            page.get_by_text("The lab is over: it was taken down").wait_for()
            browser.close()
        assert said == []
        assert server.wait(timeout=20) == 0
    finally:
        server.send_signal(signal.SIGKILL)
        server.communicate()


@st.composite
def networks(draw: st.DrawFn) -> tuple[list[str], list[tuple[str, str]]]:
    nodes = [f"n{number}" for number in range(draw(st.integers(1, 12)))]
    pairs = [(one, two) for one in nodes for two in nodes if one < two]
    return nodes, draw(st.lists(st.sampled_from(pairs), max_size=16)) if pairs else []


@given(networks())
def test_nodes_have_places_of_their_own_in_columns_of_equal_distance(
    network: tuple[list[str], list[tuple[str, str]]],
) -> None:
    nodes, links = network
    found = places(nodes, links)
    assert [*found] == nodes
    assert len({*found.values()}) == len(nodes)
    # No link crosses a column, so that none is drawn through a node of another one.
    assert all(abs(found[one][0] - found[two][0]) <= 1 for one, two in links)
    for column in {x for x, _ in found.values()}:
        rows = sorted(row for x, row in found.values() if x == column)
        assert sum(rows) == pytest.approx(0)
        assert all(two - one == 1 for one, two in pairwise(rows))


def test_a_tree_is_drawn_without_crossings() -> None:
    links = [("core", "r1"), ("core", "r2"), ("r1", "a"), ("r2", "b"), ("r1", "c"), ("r2", "d")]
    found = places(["a", "b", "c", "d", "core", "r1", "r2"], links)
    drawn = [(found[one], found[two]) for one, two in links]
    for (ax, ay), (bx, by) in drawn:
        for (cx, cy), (dx, dy) in drawn:
            if {ax, bx} == {cx, dx} and (ax, ay) != (cx, cy) and (bx, by) != (dx, dy):
                left, right = ((ay, by), (cy, dy)) if ax == cx else ((ay, by), (dy, cy))
                assert (left[0] - right[0]) * (left[1] - right[1]) >= 0
