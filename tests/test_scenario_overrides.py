from pathlib import Path

import pytest

from perhop.errors import ScenarioError
from perhop.scenario import Scenario, parse
from perhop.units import parse_duration, parse_rate

TEXT = (Path(__file__).parent / "valid.yaml").read_text("utf-8")


def with_(*overrides: str) -> Scenario:
    return parse(TEXT, "valid.yaml", overrides=overrides)


def test_values_are_yaml() -> None:
    scenario = with_(
        "flows.bulk.streams=10", "links.1.rate=5 Mbps", "links.2={ends: [r2, b], rate: 2 Gbps}"
    )
    assert scenario.flows["bulk"].streams == 10
    assert [link.rate for link in scenario.links[1:]] == [
        parse_rate("5 Mbps"),
        parse_rate("2 Gbps"),
    ]


def test_a_mapping_is_as_good_as_texts() -> None:
    scenario = parse(TEXT, overrides={"report.interval": "2 s"})
    assert scenario.report.interval == parse_duration("2 s")


def test_later_ones_win() -> None:
    assert with_("flows.bulk.streams=10", "flows.bulk.streams=20").flows["bulk"].streams == 20


def test_keys_that_the_model_knows_may_be_new() -> None:
    scenario = with_(
        "flows.web.tcp.sack=false",
        "links.1.egress.r2=edge",
        "pings.slow={from: a, to: b, every: 1 s}",
        "title=a = b",
    )
    assert scenario.flows["web"].tcp is not None
    assert not scenario.flows["web"].tcp.sack
    assert scenario.links[1].egress == {"r1": "edge", "r2": "edge"}
    assert scenario.title == "a = b"


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("flows.bulk", "is no override; expected PATH=VALUE"),
        ("=3", "is no override"),
        ("flows..streams=3", "is no override"),
        ("a." * 30 + "b=3", "is no override"),
        ("flows.bulk.streams=", "flows.bulk.streams: has no value"),
        ("flows.bluk.streams=3", "flows.bluk: `bluk` is unknown; there are bulk, call, web; did"),
        ("flos.bulk.streams=3", "flos: `flos` is unknown; did you mean `flows`?"),
        ("<value>=1", "<value>: unknown key"),
        ("flows.bulk.stream=3", "flows.bulk.stream: unknown key"),
        ("flows.web.streams.x=3", "flows.web.streams: `2` has no parts"),
        ("nodes.a.address=10.1.1.1", "nodes.a: `host` has no parts; expected a shorter path"),
        ("links.3.rate=1 Mbps", "links: `3` is not an element; expected 0 to 2"),
        ("links.-1.rate=1 Mbps", "links: `-1` is not a link"),
        ("links.x=1", "links: `x` is not a link; there are a>r1, r1>a, r1>r2, r2>r1"),
        ("links.r1>r3.rate=1 Mbps", "links: `r1>r3` is not a link; there are"),
        ("links.r1>r2#2.rate=1 Mbps", "did you mean `r1>r2`?"),
        ("links.r1>r2.rat=1 Mbps", "links.1.rat: unknown key"),
        ("flows.bulk.streams=ten", "flows.bulk.streams: `ten` is text; expected a whole number"),
        ("links.1.rate=5", "links.1.rate: a rate needs a unit"),
        ("links.1.rate={a: [b}", "is not YAML"),
        ("links.1.rate=&a 5 Mbps", "anchors are not allowed"),
        ("links.1.rate=null", "links.1.rate: has no value; expected a rate"),
        ("flows.bulk.stop=~", "flows.bulk.stop: has no value"),
        ("flows.bulk.to=c", "flows.bulk.to: `c` cannot be reached"),
        ("links.1.rate=\x1b", "the character U+001B is not allowed"),
    ],
)
def test_problems_point_at_the_override(override: str, message: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        with_(override)
    assert len(caught.value.problems) == 1
    problem = caught.value.problems[0]
    assert problem.file.startswith("--set ")
    assert (problem.line, problem.column) == (0, 0)
    assert message in str(problem)
    assert str(problem).isprintable()


def test_problems_of_the_file_come_first() -> None:
    with pytest.raises(ScenarioError) as caught:
        with_("report.interval=0 s", "duration=15 s")
    assert [problem.file for problem in caught.value.problems] == [
        "valid.yaml",
        "valid.yaml",
        "--set report.interval=0 s",
    ]
    with pytest.raises(ScenarioError) as caught:
        with_("duration=15 s", "flows.bulk.streams=0 s", "links.0.delay=1")
    assert len(caught.value.problems) == 2
    with pytest.raises(ScenarioError) as caught:
        with_("duration=15 s", "pings.echo.to=a")
    assert [str(problem).partition(": ")[0] for problem in caught.value.problems] == [
        "valid.yaml:20:55",
        "valid.yaml:28:32",
        "--set pings.echo.to=a",
    ]


PARALLEL = """
perhop: 1
name: parallel
nodes: {a: host, b: host}
links:
  - {ends: [a, b], rate: 1 Mbps}
  - {ends: [b, a], rate: 2 Mbps, name: south}
  - {ends: [a, b], rate: {a: 3 Mbps, b: 4 Mbps}}
"""


@pytest.mark.parametrize("name", ["a>b", "b>a", "b>a#south", "a>b#south", "#south", "a>b#3", "2"])
def test_links_have_the_names_of_results(name: str) -> None:
    """Either direction names a link, as `Scenario.directions` does."""
    scenario = parse(PARALLEL, overrides=[f"links.{name}.mtu=1400 B"])
    [changed] = [number for number, link in enumerate(scenario.links) if link.mtu is not None]
    if name in scenario.directions:
        assert scenario.links[changed] is scenario.directions[name][0]
    else:
        assert changed == {"#south": 1, "2": 2}[name]


def test_a_direction_of_an_asymmetric_link_has_a_value_of_its_own() -> None:
    def rates(*overrides: str) -> list[int]:
        link = parse(PARALLEL, overrides=overrides).links[2]
        return [medium.rate // 10**6 for medium in link.media]

    assert rates("links.b>a#3.rate=9 Mbps") == [3, 9]
    assert rates("links.a>b#3.rate=9 Mbps") == [9, 4]
    assert rates("links.2.rate=9 Mbps") == [9, 9]
    assert rates("links.a>b#3.rate={a: 8 Mbps, b: 9 Mbps}") == [8, 9]
    # One value is that of both directions, whichever of them names the link.
    first = parse(PARALLEL, overrides=["links.b>a.rate=9 Mbps"]).links[0]
    assert [medium.rate for medium in first.media] == [9_000_000, 9_000_000]
