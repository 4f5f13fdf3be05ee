"""The studio's server: who gets answers, what they hold, and which runs go on."""

import json
import socket
import subprocess
import threading
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from conftest import DEADLINES, PERHOP, SLOW
from perhop import analysis, engines, gallery, load, scenario, studio, templates, topologies
from perhop.engines.sim import SimRun
from perhop.errors import OutputError, ScenarioError, UnsupportedError
from perhop.report import text
from perhop.studio import saving, server
from perhop.studio.lines import lines
from perhop.studio.network import network
from perhop.studio.results import results
from perhop.studio.runs import Answer, Runs
from test_cli import SMALL

ENDLESS = SMALL.replace("udp: {rate: 1 Mbps}, stop: 2 s", "stop: 10 h")
"""A scenario that no run here ends."""

DIVIDED = """\
perhop: 1
name: divided
nodes: {b: host, r: router, a: host}
links:
  - {ends: [b, r], rate: 10 Mbps}
  - {ends: [r, a], rate: {r: 2 Mbps, a: 4 Mbps}, delay: 1 ms, egress: {a: wan}}
policies:
  wan:
    classes:
      bulk: {match: {dscp: af11}, bandwidth: 50%, policy: inner}
      rest: {match: any}
  inner:
    classes:
      web: {match: {destination_port: 80}, bandwidth: 50%}
      rest: {match: any}
flows:
  web: {from: a, to: b, dscp: af11, port: 80, udp: {rate: 1 Mbps}, stop: 2 s}
  late: {from: a, to: b, udp: {rate: 1 Mbps}, start: 1 s, stop: 2 s}
pings:
  probe: {from: a, to: b, every: 100 ms}
background: {link: r>b, load: 5%}
duration: 2 s
report: {interval: 500 ms}
"""


LINKS = ["b>r", "r>b", "r>a", "a>r"]
"""Its directed links, without those of background traffic."""


@pytest.fixture(autouse=True)
def built(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page, built or not: what is in it, `test_studio_page` looks at."""
    content = {"index.html": b"<meta content=NONCE>", "studio.js": b"", "studio.css": b""}
    monkeypatch.setattr(server, "_files", lambda: content)


@pytest.fixture
def page(tmp_path: Path) -> Iterator[studio.Studio]:
    (tmp_path / "small.yaml").write_text(SMALL)
    with studio.Studio(str(tmp_path / "small.yaml"), limit_s=0.5) as page:
        yield page


def asked(
    page: studio.Studio,
    path: str,
    body: object = None,
    token: str | None = None,
    **headers: str,
) -> tuple[int, str]:
    """The status and the content that a request gets."""
    parts = urlsplit(page.address)
    connection = HTTPConnection(parts.netloc, timeout=20)
    whole = (parts.path if token is None else f"/{token}/") + path
    sent = None if body is None else json.dumps(body)
    given = {"Content-Type": "application/json"} if sent else {}
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request("POST" if sent else "GET", whole, sent, {**given, **named})
    with connection.getresponse() as response:
        content = response.status, response.read().decode()
    connection.close()
    return content


def wanted(text: str, **changes: object) -> dict[str, object]:
    return {"variant": "A", "text": text, "seed": 1, **changes}


def ran(page: studio.Studio, text: str) -> list[dict[str, Any]]:
    status, content = asked(page, "run", wanted(text))
    assert status == 200
    return [json.loads(line) for line in content.splitlines()]


# Who gets answers


@SLOW
def test_only_who_has_the_address_gets_answers(page: studio.Studio) -> None:
    assert asked(page, "")[0] == asked(page, "start")[0] == 200
    other = page.host.replace("127.0.0.1", "example.com")
    for path, body in (("", None), ("start", None), ("run", wanted(SMALL))):
        assert asked(page, path, body, token="x" * 32)[0] == 404
        # A name of another site that resolves to this machine, and a page of another site.
        assert asked(page, path, body, Host=other)[0] == 404
        assert asked(page, path, body, Host="127.0.0.1")[0] == 404
        assert asked(page, path, body, Origin="http://example.com")[0] == 404
        assert asked(page, path, body, Origin="null")[0] == 404
    assert asked(page, "run", wanted(SMALL), Origin=f"http://{page.host}")[0] == 200
    for path in ("../", "text/../small", "text//etc/passwd", "index.html", "small.yaml", "run"):
        assert asked(page, path)[0] == 404, path
    assert page.server_address[0] == "127.0.0.1"


def test_malformed_requests_are_refused(page: studio.Studio) -> None:
    for body in (
        [],
        {},
        wanted(SMALL, seed=-1),
        wanted(SMALL, seed=2**64),
        wanted(SMALL, seed=1.5),
        {**wanted(SMALL), "text": 1},
        wanted(SMALL, variant="A" * 9),
        wanted(SMALL, more=1),
    ):
        assert asked(page, "run", body)[0] == 400
    for headers in (
        {"Content_Type": "text/plain"},
        {"Content_Length": "5000000"},
        {"Content_Length": "9" * 30},
    ):
        assert asked(page, "run", wanted(SMALL), **headers)[0] == 400
    with socket.create_connection(page.server_address[:2], timeout=10) as raw:
        raw.sendall(b"\xff\x00 nonsense\r\n\r\n")
        raw.makefile("rb").read()
    assert asked(page, "")[0] == 200


def test_the_page_may_load_nothing_from_elsewhere(page: studio.Studio) -> None:
    connection = HTTPConnection(page.host, timeout=10)
    found = []
    for _ in range(2):
        connection.request("GET", urlsplit(page.address).path)
        with connection.getresponse() as response:
            policy = response.headers["Content-Security-Policy"]
            nonce = response.read().decode().split("content=")[1].rstrip(">")
            assert policy.startswith("default-src 'none'; connect-src 'self'; script-src 'self'")
            assert f"'nonce-{nonce}'" in policy
            found.append(nonce)
    connection.close()
    assert found[0] != found[1]


# What answers hold


@SLOW
def test_the_page_begins_with_a_file_or_a_template(page: studio.Studio) -> None:
    found = json.loads(asked(page, "start")[1])
    assert (found["name"], found["text"]) == ("small.yaml", SMALL)
    assert found["schema"] == scenario.json_schema()
    assert found["targets"]["rtt_p99"] == ["ping"]
    assert [*found["templates"]] == list(templates.names())
    for name in (*templates.names(), *gallery.names()):
        text = templates.text(name) if name in templates.names() else gallery.text(name)
        assert json.loads(asked(page, f"text/{name}")[1])["text"] == text
    with studio.Studio() as other:
        assert other.start()["text"] == templates.text("dsl")
    with pytest.raises(ScenarioError):
        studio.Studio("absent.yaml")


def test_a_run_has_the_numbers_of_analysis() -> None:
    divided = scenario.parse(DIVIDED)
    drawn = []

    def draw(ended: engines.Run) -> None:
        assert isinstance(ended, SimRun)
        drawn.append(lines(divided, ended))

    run = engines.run(divided, ended=draw)
    found = json.loads(json.dumps(drawn[0], allow_nan=False))
    said = json.loads(json.dumps(results(run), allow_nan=False))
    assert (found["step_s"], found["cells"]) == (0.5, 4)
    flows = {flow["name"]: flow for flow in found["flows"]}
    window = analysis.active(run, "late")
    assert said["flows"]["late"] == text.rate(analysis.throughput(run, "late", window))
    used = dict(analysis.link_loads(run).select("link", "utilisation").iter_rows())
    assert said["utilisation"] == pytest.approx({name: used[name] for name in LINKS}, abs=1e-4)
    assert [*flows] == [*run.scenario.flows]
    for name, flow in flows.items():
        series = analysis.series(run).filter(flow=name)["throughput_bps"].to_list()
        assert flow["rate_bps"] == pytest.approx(series, abs=1)
    assert flows["late"]["rate_bps"][:2] == [0, 0]
    assert flows["web"]["rate_bps"][1] == pytest.approx(1e6, rel=0.02)
    (probe,) = found["pings"]
    rtts = run.pings["rtt_s"].to_list()
    assert probe["rtt_s"] == pytest.approx(
        [max(rtts[at : at + 5]) for at in (0, 5, 10, 15)], abs=1e-6
    )
    links = {link["name"]: link for link in found["links"]}
    assert [*links] == LINKS
    assert [links[name]["rate_bps"] for name in ("r>a", "a>r")] == [2e6, 4e6]
    assert [each["name"] for each in links["a>r"]["classes"]] == ["bulk/web", "bulk/rest", "rest"]
    (web, inner, rest) = links["a>r"]["classes"]
    assert web["sent_bytes"] == pytest.approx(2 * rest["sent_bytes"], rel=0.1)
    assert inner["sent_bytes"] == 0
    sent = sum(rate * 0.5 / 8 for rate in web["rate_bps"])
    assert sent == pytest.approx(web["sent_bytes"], abs=4)


def test_long_runs_have_few_points(page: studio.Studio) -> None:
    text = SMALL.replace("expect:", "report: {interval: 1 ms}\nexpect:")
    found = ran(page, text)[-2]["lines"]
    assert (found["step_s"], found["cells"]) == (0.005, 400)
    rates = found["flows"][0]["rate_bps"]
    assert len(rates) == 400
    assert sum(rates) / 400 == pytest.approx(1e6, rel=0.02)


def test_the_network_is_drawn_from_left_to_right() -> None:
    found = network(scenario.parse(DIVIDED))
    assert {node["name"]: node["column"] for node in found["nodes"]} == {"a": 0, "r": 1, "b": 2}
    assert [link["directions"] for link in found["links"]] == [["b>r", "r>b"], ["r>a", "a>r"]]
    assert found["links"][1]["label"] == "2 Mbps/4 Mbps, 1 ms"
    assert found["links"][1]["policies"] == {"a": {"policy": "wan", "classes": ["bulk", "rest"]}}


def test_networks_of_many_nodes_are_dots() -> None:
    def drawn(hosts: int) -> dict[str, Any]:
        star = topologies.star(hosts, rate="1 Gbps")
        return network(load({"perhop": 1, "name": "x", **star, "duration": "1 s"}))

    found = drawn(299)
    width, height = found["size"]
    assert height < 1000
    assert len({(node["column"], node["row"]) for node in found["nodes"]}) == 300
    assert all(0 < n["column"] < width and 0 < n["row"] < height for n in found["nodes"])
    assert drawn(300) == {"nodes": [], "links": [], "size": None, "omitted": 301}


def test_errors_have_their_places(page: studio.Studio) -> None:
    (found,) = ran(page, SMALL.replace("rate: 1 Mbps", "rat: 1 Mbps"))
    (problem,) = [each for each in found["problems"] if "unknown key" in each["message"]]
    line = SMALL.splitlines().index(next(each for each in SMALL.splitlines() if "data:" in each))
    assert (problem["line"], problem["path"]) == (line + 1, "flows.data.udp.rat")
    assert "did you mean `rate`?" in problem["message"]
    (found,) = ran(page, SMALL.split("flows:")[0])
    assert "nothing to run" in found["error"]
    assert found["network"]["nodes"][0]["name"] == "a"


def test_texts_without_a_file_read_no_files(page: studio.Studio, tmp_path: Path) -> None:
    (tmp_path / "up.csv").write_text("time_s,rate_bps\n0,1000000\n")
    link = "{ends: [a, r], rate: 10 Mbps"
    traced = SMALL.replace(link, f"{link}, trace: up.csv")
    assert "result" in ran(page, traced)[-1]
    outside = traced.replace("up.csv", str(tmp_path / "up.csv"))
    assert "outside the scenario's folder" in ran(page, outside)[-1]["problems"][0]["message"]
    with studio.Studio() as other:
        assert "up.csv" in ran(other, traced)[-1]["problems"][0]["message"]


@SLOW
def test_a_report_is_the_page_of_the_run(page: studio.Studio) -> None:
    status, content = asked(page, "report", wanted(SMALL))
    assert status == 200
    assert json.loads(content)["page"].startswith("<!doctype html>")
    status, content = asked(page, "report", wanted("perhop: 2"))
    assert status == 422
    assert "perhop" in json.loads(content)["error"]


# The file


def test_the_file_is_written_whole_and_only_when_asked(
    page: studio.Studio, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "small.yaml"
    begun = json.loads(asked(page, "start")[1])
    assert begun["file"] == "small.yaml"
    version = begun["version"]

    def save(text: str, **headers: str) -> tuple[int, str]:
        return asked(page, "save", {"text": text, "version": version}, **headers)

    ran(page, SMALL + "# one\n")
    assert file.read_text() == SMALL
    for refused in ({"Origin": "http://example.com"}, {"Host": "example.com"}):
        assert save("# one", **refused)[0] == 404
    assert save("# one", token="x" * 32)[0] == 404
    assert asked(page, "save", wanted("# one"))[0] == 400
    assert file.read_text() == SMALL
    file.chmod(0o640)
    for written in (SMALL + "# one\n", "perhop: 2 # \N{EURO SIGN}"):  # also one with errors
        status, content = save(written)
        assert status == 200
        version = json.loads(content)["version"]
        assert file.read_text("utf-8") == written
    assert file.stat().st_mode & 0o777 == 0o640
    for other in ("of another program", 10_000 * "# longer\n"):
        file.write_text(other)
        status, content = save(SMALL)
        assert status == 409
        assert "was changed elsewhere meanwhile" in json.loads(content)["error"]
        assert file.read_text() == other
    file.write_text(written, "utf-8")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(saving.os, "fsync", full)
        assert "No space left on device" in save(SMALL)[1]
    assert "surrogates" in save("\ud800")[1]
    assert file.read_text("utf-8") == written
    assert [*tmp_path.iterdir()] == [file]
    file.unlink()
    assert "cannot be read" in save(SMALL)[1]
    assert [*tmp_path.iterdir()] == []


def test_a_page_saves_only_what_follows_from_the_text_that_it_read(
    page: studio.Studio, tmp_path: Path
) -> None:
    one, two = (json.loads(asked(page, "start")[1]) for _ in range(2))
    assert asked(page, "save", {"text": "# one\n", "version": one["version"]})[0] == 200
    assert asked(page, "save", {"text": "# two\n", "version": two["version"]})[0] == 409
    again = json.loads(asked(page, "start")[1])
    assert again["text"] == "# one\n"
    assert asked(page, "save", {"text": "# two\n", "version": again["version"]})[0] == 200
    assert (tmp_path / "small.yaml").read_text() == "# two\n"


def test_a_link_and_ends_of_lines_stay(tmp_path: Path) -> None:
    file, link = tmp_path / "file.yaml", tmp_path / "link.yaml"
    file.write_bytes(b"perhop: 1\r\n")
    link.symlink_to(file.name)
    known = saving.ScenarioFile(str(link))
    known.save("perhop: 1\nname: x\n", known.read()[1])
    assert link.is_symlink()
    assert file.read_bytes() == b"perhop: 1\r\nname: x\r\n"
    file.write_bytes(b"\xff")
    with pytest.raises(OutputError, match="not UTF-8"):
        known.save("", known.read()[1])


def test_without_a_file_nothing_is_saved() -> None:
    with studio.Studio("qbss-1-70") as page:
        assert page.start()["file"] is None
        assert asked(page, "save", {"text": SMALL, "version": ""})[0] == 409


# Which runs go on


def begun(runs: Runs, variant: str, text: str) -> tuple[threading.Thread, list[Answer | None]]:
    """A run that has told of its progress, and the list of its answer."""
    told, found = threading.Event(), []
    thread = threading.Thread(
        target=lambda: found.append(runs.answer(variant, text, 1, lambda _: told.set()))
    )
    thread.start()
    assert told.wait(20)
    return thread, found


@SLOW
@DEADLINES
def test_the_latest_run_of_a_variant_wins() -> None:
    runs = Runs("x.yaml")
    thread, found = begun(runs, "A", ENDLESS)
    other, others = begun(runs, "B", ENDLESS)
    last = runs.answer("A", SMALL, 1, lambda _: None)
    thread.join(10)
    assert found == [None]
    assert last is not None
    assert last["result"]["complete"] is True
    assert other.is_alive()
    runs.stop("A")  # which has no run
    runs.stop("B")
    other.join(10)
    (answer,) = others
    assert answer is not None
    assert answer["ended"] == "stopped"
    assert answer["result"]["complete"] is False
    assert answer["result"]["verdicts"][0]["ok"] is None


@SLOW
@DEADLINES
def test_a_run_is_limited_in_time(page: studio.Studio) -> None:
    *progress, drawn, last = ran(page, ENDLESS)
    assert all(0 < each["now_s"] < each["end_s"] == 36_000 for each in progress)
    assert last["ended"] == "ended after 0.5 s"
    assert last["result"]["complete"] is False
    assert drawn["lines"]["flows"][0]["rate_bps"][0] > 0


@DEADLINES
def test_a_run_ends_when_the_page_has_gone() -> None:
    def gone(_: Answer) -> None:
        raise BrokenPipeError

    assert Runs("x.yaml").answer("A", ENDLESS, 1, gone) is None


def test_a_page_that_was_not_built_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(server, "files", lambda _: Path("/nonexistent"))
    server._files.cache_clear()
    with pytest.raises(UnsupportedError, match="`make studio`"):
        studio.Studio()


@SLOW
@DEADLINES
def test_the_command_prints_its_address_and_ends_by_a_signal(tmp_path: Path) -> None:
    if not (Path(server.__file__).parent / "page" / "studio.js").exists():
        pytest.skip("the page was not built")
    (tmp_path / "small.yaml").write_text(SMALL)
    command = [PERHOP, "studio", tmp_path / "small.yaml", "--no-browser"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        address = urlsplit(process.stdout.readline().strip())
        assert len(address.path) > 30
        connection = HTTPConnection(address.netloc, timeout=10)
        connection.request("GET", address.path)
        assert connection.getresponse().status == 200
        process.terminate()
        assert process.wait(10) == 143
        assert process.stderr.read() == ""
        connection.close()
