"""Commands: what they print, what they write, and how they end."""

import json
import re
import shutil
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import broken
import perhop as library
from conftest import SLOW, Outcome, Start, ended, tree
from perhop import cli, gallery, report
from perhop.dataset import TABLES, Dataset
from perhop.errors import UnsupportedError

Perhop = Callable[..., Outcome]

SMALL = """\
perhop: 1
name: small
nodes: {a: host, r: router, b: host}
links:
  - {ends: [a, r], rate: 10 Mbps}
  - {ends: [r, b], rate: 10 Mbps}
flows:
  data: {from: a, to: b, udp: {rate: 1 Mbps}, stop: 2 s}
expect:
  - {throughput: data, about: 1 Mbps, within: 2%}
"""
"""A scenario of which little is to be simulated."""

OPTIMUM = 10e6 * 1460 / 1538
"""Of a link of 10 Mb/s, what Ethernet, IP and TCP leave to the payload of full segments."""

PHASES = [
    (0, 30, {"scavenger": 1}),
    (30, 60, {"scavenger": 1, "best_effort": 29}),
    (60, 90, {"scavenger": 1, "best_effort": 29, "priority": 70}),
    (90, 120, {"scavenger": 1, "best_effort": 29}),
    (120, 150, {"scavenger": 1}),
]
"""Start, end, and the guarantees of those who send, in `qbss-1-70`."""


@pytest.fixture
def small(place: Path) -> Path:
    path = place / "small.yaml"
    path.write_text(SMALL)
    return path


# Results


@pytest.mark.parametrize(
    "command",
    [
        ("compare", "a", "b"),
        ("diff", "a", "b"),
        ("advise", "policer", "--rate", "10 Mbps", "--rtt", "20 ms"),
        ("counters", "a"),
        ("import", "a"),
        ("path", "127.0.0.1"),
    ],
)
def test_a_url_is_no_folder(perhop: Perhop, place: Path, command: tuple[str, ...]) -> None:
    code, _, err = perhop(*command, "--out", "s3://bucket/name")
    assert (code, "s3://bucket/name is a URL" in err) == (2, True)
    assert not [*place.iterdir()]


@SLOW
def test_json_is_one_object_with_everything_that_is_promised(start: Start, place: Path) -> None:
    code, out, err = ended(start("run", "qbss-1-70", "--json"))
    assert (code, err) == (0, "")
    result = json.loads(out)
    assert list(place.iterdir()) == [place / "runs"]
    assert result["dataset"] == str(place / "runs" / "qbss-1-70-1")
    assert {key: result[key] for key in ("scenario", "engine", "seed", "duration_s")} == {
        "scenario": "qbss-1-70",
        "engine": "sim",
        "seed": 1,
        "duration_s": 150,
    }
    assert result["version"] == library.__version__
    assert 0 < result["wall_s"] < 60
    assert result["events"] > result["packet_hops"] > 100_000

    assert list(result["flows"]) == ["scavenger", "best_effort", "priority"]
    for flow in result["flows"].values():
        assert flow["bytes"] > 0
        assert flow["throughput_bps"] > 0
        assert (flow["retransmits"], flow["loss"], flow["reordered"]) == (0, 0, 0)
        times = ("min", "mean", "median", "p95", "p99", "max", "iqr", "stdev")
        assert all(flow["rtt_s"][name] >= 0 for name in times)
        assert flow["rtt_s"]["min"] <= flow["srtt_s"]["min"]
        assert flow["srtt_s"]["max"] <= flow["rtt_s"]["max"]
        assert flow["rtt_s"]["min"] <= flow["rtt_s"]["median"] <= flow["rtt_s"]["max"]
    counters = result["links"]["testbed>slac"]["classes"]
    assert list(counters) == ["scavenger", "priority", "best_effort"]
    for count in ("sent_bytes", "sent_packets"):
        assert all(of[count] > 0 for of in counters.values())
    for count in ("dropped", "marked", "conformed", "exceeded"):
        assert all(of[f"{count}_packets"] == 0 for of in counters.values())
    assert result["pings"] == {}
    assert [set(verdict) for verdict in result["expect"]] == [
        {"text", "ok", "measured", "unit"}
    ] * 10
    assert all(verdict["ok"] for verdict in result["expect"])

    phases = json.loads(jq(".phases", out)) if shutil.which("jq") else result["phases"]
    assert len(phases) == len(PHASES)
    for phase, (begin, end, guarantees) in zip(phases, PHASES, strict=True):
        assert (phase["start_s"], phase["end_s"]) == (begin, end)
        assert phase["total_bps"] == pytest.approx(OPTIMUM, rel=0.002)
        for flow, measured in phase["throughput_bps"].items():
            ideal = OPTIMUM * guarantees.get(flow, 0) / sum(guarantees.values())
            assert measured == pytest.approx(ideal, rel=0.01, abs=0.001 * OPTIMUM)


def jq(program: str, text: str) -> str:
    return subprocess.run(["jq", program], input=text, capture_output=True, text=True).stdout


def test_tables_are_for_people(perhop: Perhop) -> None:
    code, out, err = perhop("run", "qbss-1-70")
    assert (code, err) == (0, "")
    for line in (
        r"60.90 s +95\.\d kb/s \(0\.9\d*%\) +2\.75 Mb/s \(27\.5%\) +6\.6\d Mb/s \(66\.\d%\)",
        r"best effort beside priority +62.90 s +about 1\.9 Mb/s +2\.75 Mb/s +\+4\d\.\d%",
        r"holds +throughput of priority during 62 s\.\.90 s is within 5% of 6\.64 Mbps",
        r"150 s in \d+\.\d\d s of wall time",
        r"charts:  perhop report runs/qbss-1-70-1",
    ):
        assert re.search(line, out), line
    assert "\x1b" not in out


def test_markup_in_a_scenario_is_text(perhop: Perhop, small: Path) -> None:
    small.write_text(SMALL.replace("name: small", "name: small\ntitle: '[red]x[/] :smile:'"))
    assert "[red]x[/] :smile:" in perhop("run", "small.yaml").out


def test_numbers_are_whole_on_a_narrow_terminal(
    perhop: Perhop, monkeypatch: pytest.MonkeyPatch
) -> None:
    def phases() -> str:
        out = perhop("run", "qbss-1-70").out
        return out[out.index("phase ") : out.index("Shares")].replace(
            "\N{BOX DRAWINGS LIGHT HORIZONTAL}", ""
        )

    wide = phases()
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "60")
    narrow = phases()
    assert max(map(len, wide.splitlines())) > 60 >= max(map(len, narrow.splitlines()))
    # The rows come once more, with the first column and the others that did not fit.
    assert len(narrow.splitlines()) == 2 * len(wide.splitlines()) + 1
    assert set(narrow.split()) == set(wide.split())


@SLOW
@pytest.mark.usefixtures("small")
def test_pings_alone_are_a_scenario(perhop: Perhop, place: Path) -> None:
    head, _, _ = SMALL.partition("flows:")
    (place / "small.yaml").write_text(
        f"{head}flows: {{}}\npings: {{echo: {{from: a, to: b}}}}\nduration: 3 s\n"
    )
    code, out, _ = perhop("run", "small.yaml", "--out", "run")
    assert code == 0
    assert out.startswith("small\n\nPings: round-trip times\n")
    assert "Throughput" not in report.page(Dataset.read(place / "run"))


@pytest.mark.usefixtures("small")
def test_each_run_gets_a_folder_unless_told(perhop: Perhop, place: Path) -> None:
    (place / "runs" / "small-2").mkdir(parents=True)
    (place / "runs" / "small-2" / "mine").write_text("")
    for _ in range(2):
        assert perhop("run", "small.yaml").code == 0
    assert sorted(path.name for path in (place / "runs").iterdir()) == [
        "small-1",
        "small-2",
        "small-3",
    ]
    assert perhop("run", "small.yaml", "--out", "deep/er", "--seed", "7").code == 0
    assert Dataset.read(place / "deep" / "er").manifest.seed == 7


def test_a_failed_expectation_is_exit_code_1(perhop: Perhop, small: Path) -> None:
    code, out, _ = perhop("run", "small.yaml", "--set", "expect.0.about=2 Mbps", "--json")
    assert code == 1
    assert [verdict["ok"] for verdict in json.loads(out)["expect"]] == [False]
    small.write_text(SMALL.replace("about: 1 Mbps, within: 2%", "at_most: 1 kbps"))
    code, out, _ = perhop("run", "small.yaml")
    assert code == 1
    assert re.search(r"FAILS +throughput of data is at most 1 kbps +1\.00 Mb/s", out)


# Bad input


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("run qbss-1-7", "did you mean `qbss-1-70`?"),
        ("run missing.yaml", "missing.yaml: cannot be read: No such file or directory"),
        ("run .", ".: is a folder; expected a file"),
        ("run broken.yaml", "broken.yaml:5:26: links.0.rate: a rate needs a unit"),
        ("run small.yaml --set flows.dat.stop=3", "did you mean `data`?"),
        ("run small.yaml --set stop", "expected PATH=VALUE"),
        ("run small.yaml --engine simm", "did you mean `sim`?"),
        ("run small.yaml --seed 18446744073709551616", "--seed"),
        ("run small.yaml --sede 1", "No such option '--sede'"),
        ("run", "Missing argument 'SCENARIO'"),
        ("run small.yaml --out file", "file exists and is not a folder; give another folder"),
        ("run small.yaml --out home", "home is not a dataset: it has no manifest.json"),
        ("run small.yaml --out file/below/it", "cannot write "),
        ("run small.yaml --out /proc/nowhere/at/all", "cannot write /proc/nowhere/at/all"),
        ("run small.yaml --out home/" + 300 * "x", "File name too long"),
        ("report home", "home is not a dataset: it has no manifest.json"),
        ("report missing", "there is no folder missing; `perhop run SCENARIO` makes one"),
        ("report small.yaml", "is a scenario; `perhop run small.yaml` runs it and names the"),
        ("compare small.yaml small.yaml", "`perhop run small.yaml` runs it and names the dataset"),
        ("report small", "there is no folder small; did you mean `small.yaml`?"),
        ("report file", "file is a file; expected the folder of a run"),
        ("run small", "did you mean `small.yaml`?"),
        ("run ./small", "did you mean `./small.yaml`?"),
        ("run smal.yaml", "did you mean `small.yaml`?"),
        ("check small", "did you mean `small.yaml`?"),
        ("lint small", "did you mean `small.yaml`?"),
        ("run dsl", "`perhop new dsl` writes the template of this name to dsl.yaml"),
        ("new", "name a template, as in `perhop new dsl`; there are branch, cable, dsl,"),
        ("new dsll.yaml", "did you mean `dsl`?"),
        ("new office.yaml", "`perhop new dsl --out office.yaml` writes the template `dsl`"),
        ("rnu small.yaml", "No such command 'rnu'"),
        ("", "Usage: perhop"),
    ],
)
def test_bad_input_is_exit_code_2_and_nothing_is_written(
    perhop: Perhop, small: Path, place: Path, arguments: str, said: str
) -> None:
    (place / "broken.yaml").write_text(small.read_text().replace("10 Mbps", "10", 1))
    (place / "file").write_text("a file")
    (place / "home").mkdir()
    (place / "home" / "thesis.tex").write_text("years of work")
    before = tree(place)
    code, out, err = perhop(*arguments.split())
    assert (code, out) == (2, "")
    assert said in err
    assert "Traceback" not in err
    assert tree(place) == before


@SLOW
@pytest.mark.usefixtures("small")
def test_a_dataset_is_named_where_something_else_was_given(perhop: Perhop) -> None:
    for _ in range(10):
        assert perhop("run", "small.yaml").code == 0
    said = "did you mean `runs/small-10`?"
    assert said in perhop("report", "small").err
    assert said in perhop("report", "small.yml").err
    assert said in perhop("compare", "runs/small", "runs/small-1").err
    assert "but datasets such as runs/small-9" in perhop("report", "runs").err
    code, _, err = perhop("run", "runs/small-1")
    assert code == 2
    assert "is the dataset of a run" in err
    assert "`perhop report runs/small-1` draws it" in err


def test_each_problem_is_a_line_that_begins_with_its_place(perhop: Perhop, small: Path) -> None:
    small.write_text(SMALL.replace("10 Mbps", "10").replace("to: b", "to: c"))
    code, _, err = perhop("run", "small.yaml")
    assert code == 2
    places = [line.split(" ")[0] for line in err.splitlines()]
    assert places == ["small.yaml:5:26:", "small.yaml:6:26:"]


def test_every_broken_scenario_is_exit_code_2(perhop: Perhop, place: Path, tmp_path: Path) -> None:
    path = tmp_path / "negative.yaml"
    path.write_text(broken.cases()["rate-negative"].text)
    code, out, err = perhop("run", str(path), "--json")
    assert (code, out) == (2, "")
    assert f"{path}:" in err
    assert tree(place) == {}


@pytest.mark.usefixtures("small")
def test_a_bug_is_exit_code_70(
    perhop: Perhop, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(*_: object, **__: object) -> None:
        raise ZeroDivisionError("of all things")

    monkeypatch.setattr("perhop.engines.run", crash)
    code, out, err = perhop("run", "small.yaml")
    assert (code, out) == (70, "")
    assert "ZeroDivisionError: of all things" in err
    assert "this is a bug in perhop" in err
    assert tree(place) == {"small.yaml": SMALL.encode()}


@pytest.mark.usefixtures("small")
def test_a_warning_of_a_run_is_a_line(perhop: Perhop, monkeypatch: pytest.MonkeyPatch) -> None:
    def lose(*_: object, **__: object) -> None:
        warnings.simplefilter("default")
        warnings.warn("up: the connection was lost", RuntimeWarning, stacklevel=2)
        raise UnsupportedError("small: agent b is gone")

    monkeypatch.setattr("perhop.engines.run", lose)
    code, _, err = perhop("run", "small.yaml")
    assert code == 3
    lost = "perhop: warning: up: the connection was lost\n"
    assert err == f"{lost}perhop: small: agent b is gone\n"


# Where output goes


@SLOW
@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("arguments", ["schema", "run small.yaml", "run small.yaml --json"])
def test_a_reader_that_goes_away_ends_a_command_quietly(
    start: Start, place: Path, arguments: str
) -> None:
    process = start(*arguments.split())
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    assert (process.stderr.read(), process.wait()) == ("", 141)
    assert arguments == "schema" or Dataset.read(place / "runs" / "small-1").manifest.complete


@SLOW
@pytest.mark.usefixtures("small")
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_stdout_is_said(start: Start, place: Path) -> None:
    with Path("/dev/full").open("w") as full:
        code, _, err = ended(start("run", "small.yaml", "--json", stdout=full))
    assert (code, err) == (2, "perhop: standard output: No space left on device\n")
    assert Dataset.read(place / "runs" / "small-1").manifest.complete


# The other commands


def test_list_names_the_gallery(perhop: Perhop) -> None:
    code, out, err = perhop("list")
    assert (code, err) == (0, "")
    assert [line.split()[0] for line in out.splitlines()] == list(gallery.names())
    listed = json.loads(perhop("list", "--json").out)
    assert listed["qbss-1-70"] == {
        "title": "A scavenger, a best-effort and a priority copy share 10 Mb/s",
        "source": "SLAC, QBSS Measurements, revised August 9, 2001",
    }


@SLOW
def test_schema_is_a_json_schema(perhop: Perhop) -> None:
    code, out, err = perhop("schema")
    assert (code, err) == (0, "")
    schema = json.loads(out)
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"


@SLOW
@pytest.mark.usefixtures("small")
def test_report_writes_a_page_and_pictures(perhop: Perhop, place: Path) -> None:
    assert perhop("run", "small.yaml", "--out", "run").code == 0
    before = tree(place / "run")
    code, out, err = perhop("report", "run", "--out", "elsewhere/page")
    assert (code, err) == (0, "")
    names = [
        "report.html",
        "throughput.png",
        "throughput.svg",
        "throughput-log.png",
        "throughput-log.svg",
    ]
    assert out.splitlines() == [str(place / "elsewhere" / "page" / name) for name in names]
    assert all(Path(line).stat().st_size > 1000 for line in out.splitlines())
    assert perhop("report", "run").code == 0
    assert set(tree(place / "run")) == {*before, *names}
    # A run with its reports is still a run, and a run may take its place.
    assert perhop("run", "small.yaml", "--out", "run").code == 0
    assert set(tree(place / "run")) == set(before)


def test_help_imports_nothing_heavy() -> None:
    program = f"""
import sys
from perhop.cli import main
for command in {["", *cli.perhop.commands]}:
    try:
        main([command, "--help"][not command:])
    except SystemExit as end:
        assert end.code == 0, command
heavy = {{"pydantic", "polars", "numpy", "rich", "vl_convert", "yaml", "perhop._core"}}
assert not heavy & set(sys.modules), heavy & set(sys.modules)
"""
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (shown.returncode, shown.stderr) == (0, "")
    for command in cli.perhop.commands:
        assert f"Usage: perhop {command} " in shown.stdout


def test_labs_import_no_more_than_they_need() -> None:
    # For each program in a host, and each lab, it would take a quarter of a second.
    program = """
import sys
import perhop.lab.enter
assert not {"pydantic", "polars", "perhop.scenario", "yaml"} & set(sys.modules)
import perhop.lab.server
assert "polars" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize("group", ["", "lab", "reserve", "reserve token", "reserve user"])
def test_summaries_of_commands_are_not_cut(group: str, perhop: Perhop) -> None:
    assert "..." not in perhop(*group.split(), "--help").out.split("Commands:")[1]


def test_version(perhop: Perhop) -> None:
    code, out, err = perhop("--version")
    assert (code, err) == (0, "")
    first, second = out.splitlines()
    assert first == f"perhop {library.__version__}"
    core = rf"core {re.escape(library.__version__)} \((release|development) build\), Python 3\."
    assert re.match(core, second)


@pytest.mark.usefixtures("small")
def test_the_dataset_of_a_run_has_every_table(perhop: Perhop) -> None:
    result: dict[str, Any] = json.loads(perhop("run", "small.yaml", "--json").out)
    names = {"manifest.json", *(f"{name}.parquet" for name in TABLES)}
    assert set(tree(Path(result["dataset"]))) == names
