"""Background traffic: its mean load, its self-similarity, and the hosts that send it."""

import json
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

import perhop
from conftest import SLOW, Outcome
from perhop.engines.live import gaps
from perhop.report import tables
from perhop.routers.writing import write
from perhop.scenario import Scenario, dump, json_schema, load, parse, to_mapping
from perhop.scenario.model.background import Background
from perhop.scenario.resolve.background import added_hosts, background_path
from perhop.units import SECOND

LINE = """
perhop: 1
name: line
nodes: {a: host, r1: router, r2: router, b: host}
links:
  - {ends: [a, r1], rate: 100 Mbps}
  - {ends: [r1, r2], rate: {r1: 10 Mbps, r2: 2 Mbps}, overhead: OVERHEAD, queue: {limit: 1 GB}}
  - {ends: [r2, b], rate: 100 Mbps}
background: {BACKGROUND}
flows:
  web: {from: a, to: b, volume: 100 kB}
duration: 256 s
report: {interval: 250 ms}
"""


def line(background: str, overhead: str = "none") -> Scenario:
    return parse(LINE.replace("BACKGROUND", background).replace("OVERHEAD", overhead))


def sent(scenario: Scenario, seeds: range) -> pl.DataFrame:
    """Return the bytes that r1 sends to r2 in each interval, a column for each seed."""
    alone = scenario.model_copy(update={"flows": {"background": scenario.flows["background"]}})
    runs = (perhop.run(alone, seed=seed).links.filter(link="r1>r2") for seed in seeds)
    return pl.DataFrame(
        {str(seed): run.sort("start_s")["sent_bytes"] for seed, run in enumerate(runs)}
    ).cast(pl.Float64)


def jackknife(columns: list[str], estimate: Callable[[list[str]], float]) -> tuple[float, float]:
    """Return an estimate from all runs, and its standard error by leaving one out at a time."""
    parts = [estimate([name for name in columns if name != left]) for left in columns]
    mean = sum(parts) / len(parts)
    spread = sum((part - mean) ** 2 for part in parts)
    return estimate(columns), (spread * (len(parts) - 1) / len(parts)) ** 0.5


def hurst(found: pl.DataFrame) -> tuple[float, float]:
    """Return the Hurst parameter by a variance-time plot from 2 s to 32 s, and its error.

    The variance of sums over n intervals grows as n to the power of 2H. It is that around the mean
    of all runs: the mean of a single run of self-similar traffic would hide a part of it.
    """
    mean = sum(found.mean().row(0)) / found.width
    numbers = [8, 16, 32, 64, 128]
    variances = {
        name: [_squares(found[name], number, mean) for number in numbers] for name in found.columns
    }

    def slope(columns: list[str]) -> float:
        points = pl.DataFrame(
            {
                "x": numbers,
                "y": [sum(variances[c][i] for c in columns) for i in range(len(numbers))],
            }
        ).select(pl.all().cast(pl.Float64).log())
        return float(points.select(pl.cov("x", "y") / pl.var("x")).item()) / 2

    return jackknife(found.columns, slope)


def _squares(counts: pl.Series, number: int, mean: float) -> float:
    """Return the mean squared deviation of sums over `number` intervals from their mean."""
    groups = pl.DataFrame({"n": counts}).with_row_index()
    sums = groups.group_by(pl.col("index") // number).agg(pl.sum("n"), pl.len())
    whole = sums.filter(pl.col("len") == number)["n"] - number * mean
    return float((whole * whole).mean())  # type: ignore[arg-type]


@SLOW
@pytest.mark.parametrize("shape", [1.2, 1.5])
def test_the_sum_of_sources_is_self_similar(shape: float) -> None:
    """H = (3 - shape) / 2 (Willinger et al., 1997), in times far above the length of bursts."""
    source = f"sources: 32, shape: {shape}, burst: 20 ms"
    found = sent(line(f"link: r1>r2, load: 20%, {source}"), range(12))
    estimated, error = hurst(found)
    assert error < 0.04
    assert estimated == pytest.approx((3 - shape) / 2, abs=3 * error)

    def load_of(columns: list[str]) -> float:
        return 8 * sum(found.select(columns).sum().row(0)) / (len(columns) * 256 * 10e6)

    measured, error = jackknife(found.columns, load_of)
    assert measured == pytest.approx(0.2, abs=3 * error)
    assert error < {1.2: 0.04, 1.5: 0.01}[shape] * 0.2


def test_poisson_traffic_is_not_self_similar() -> None:
    estimated, error = hurst(sent(line("link: r1>r2, load: 10%, like: poisson"), range(6)))
    assert error < 0.05
    assert estimated == pytest.approx(0.5, abs=3 * error)


@pytest.mark.parametrize(
    ("overhead", "framed"),
    [
        ("none", (40, 576, 1500)),
        ("ethernet", (78, 614, 1538)),
        ("atm", (2 * 53, 13 * 53, 32 * 53)),
    ],
)
@pytest.mark.parametrize("like", ["internet", "poisson"])
def test_the_load_counts_layer_2(overhead: str, framed: tuple[int, ...], like: str) -> None:
    scenario = line(f"link: r1>r2, load: 40%, like: {like}", overhead)
    flow = scenario.flows["background"]
    assert flow.udp is not None
    peak = flow.udp.rate or 0
    assert (flow.udp.pattern, flow.udp.bursts is None) == (
        ("poisson", True) if like == "poisson" else ("constant", False)
    )
    share = 1.0 if like == "poisson" else 1 / 4
    # Packets per second, of which the rate counts 340 B each.
    packets = flow.streams * peak * share / (8 * 340)
    mean = sum(size * weight for size, weight in zip(framed, (7, 4, 1), strict=True)) / 12
    assert 8 * packets * mean == pytest.approx(0.4 * 10e6, rel=1e-5)


def test_a_background_is_a_flow_of_sources_with_bursts() -> None:
    scenario = line("link: r1>r2, load: 40%, ip: 6, dscp: cs1, start: 5 s, stop: 50 s")
    flow = scenario.flows["background"]
    assert (flow.ip, flow.dscp, flow.start, flow.stop) == (6, 8, 5 * SECOND, 50 * SECOND)
    assert (flow.source, flow.destination) == ("background-from", "background-to")
    assert flow.udp is not None and flow.udp.bursts is not None
    assert (flow.udp.sizes, flow.udp.layer, flow.udp.when_full) == ("imix", "ip", "drop")
    # Bursts of 500 ms, pauses of 1.5 s, a shape of 1.4 (in thousandths), 32 sources.
    bursts = flow.udp.bursts
    assert (bursts.on, bursts.off, bursts.shape) == (SECOND // 2, 3 * SECOND // 2, 1400)
    assert (bursts.lengths, bursts.begin, flow.streams) == ("pareto", "stationary", 32)
    # The mix of IPv6 has 60, 596 and 1500 B, of which the rate counts 359 B each.
    packets = 32 * (flow.udp.rate or 0) / 4 / (8 * 359)
    assert 8 * packets * (7 * 60 + 4 * 596 + 1500) / 12 == pytest.approx(0.4 * 10e6, rel=1e-5)


def test_the_mean_utilisation_of_poisson_traffic_is_the_load() -> None:
    scenario = line("link: r2>r1, load: 30%, like: poisson", "ethernet")
    alone = scenario.model_copy(update={"flows": {"background": scenario.flows["background"]}})
    found = perhop.run(alone).links.filter(link="r2>r1")["utilisation"].mean()
    # A compound Poisson process: five standard deviations of its mean.
    weights = zip((78, 614, 1538), (7, 4, 1), strict=True)
    moments = [0.0, 0.0]
    for size, weight in weights:
        moments = [moments[0] + weight * size / 12, moments[1] + weight * size**2 / 12]
    packets = 0.3 * 2e6 / 8 / moments[0] * 256
    deviation = (packets * moments[1]) ** 0.5 / (packets * moments[0])
    assert found == pytest.approx(0.3, rel=5 * deviation)
    assert deviation < 0.01


def test_routers_get_hosts_and_hosts_send_themselves() -> None:
    text = LINE.replace("OVERHEAD", "none").replace("{BACKGROUND}", SEVERAL)
    without = parse(text.replace(f"background: {SEVERAL}\n", ""))
    scenario = parse(text)
    assert [*scenario.flows] == ["web", "in", "out"]
    assert [*scenario.nodes] == ["a", "r1", "r2", "b", "in-to", "out-from", "out-to"]
    assert scenario.flows["in"].source == "a"
    assert scenario.background_hosts == {"in-to", "out-from", "out-to"}
    # Ten times the rate of the faster direction.
    assert [link.rate for link in scenario.links[3:]] == [10 * 100e6, 10 * 10e6, 10 * 10e6]
    assert [link.ends for link in scenario.links[3:]] == [
        ("in-to", "r1"),
        ("out-from", "r2"),
        ("out-to", "r1"),
    ]
    assert [background_path(scenario, name) for name in scenario.backgrounds] == [
        "background.in",
        "background.out",
    ]
    assert background_path(line("link: r1>r2, load: 10%"), "background") == "background"
    assert [*added_hosts("x")] == ["x-from", "x-to"]
    # Others keep their addresses and ports.
    assert {name: scenario.addresses[name] for name in without.nodes} == without.addresses
    assert scenario.port_of("web") == without.port_of("web")
    assert parse(dump(scenario)) == scenario
    assert "out-from" not in dump(scenario)
    assert scenario.without_background() == without
    assert Scenario.model_validate(to_mapping(scenario)) == scenario


SEVERAL = "{in: {link: a>r1, load: 5%}, out: {link: r2>r1, load: 1%, like: poisson, dscp: cs1}}"


def test_backgrounds_are_made_in_python_and_changed_by_paths(tmp_path: Path) -> None:
    scenario = line("link: r1>r2, load: 40%, start: 5 s, stop: 50 s")
    data = to_mapping(scenario)
    data["background"] = Background(link="r1>r2", load="40%", start="5 s", stop="50 s")  # type: ignore[arg-type]
    assert Scenario(**data) == scenario
    assert Scenario.model_validate(scenario) == scenario
    file = tmp_path / "line.yaml"
    file.write_text(dump(scenario))
    changed = load(file, overrides=["background.load=20%", "background.like=poisson"])
    assert changed.backgrounds["background"].load == 200_000_000
    assert changed.flows["background"].streams == 1


def test_results_name_the_background_once(perhop: Callable[..., Outcome], tmp_path: Path) -> None:
    text = LINE.replace("OVERHEAD", "none").replace("duration: 256 s", "duration: 5 s")
    file = tmp_path / "line.yaml"
    file.write_text(
        text.replace("BACKGROUND", "link: r1>r2, load: 40%")
        + "expect: [{loss: background, at_most: 1%}, {utilisation: r1>r2, at_least: 10%}]\n"
    )
    outcome = perhop("run", str(file), "--out", str(tmp_path / "run"))
    assert "background is background traffic: 40% of r1>r2 on average, self-similar." in outcome.out
    # The mean of few bursts is uncertain: the warning has the place of the background.
    assert "warning: background: 80 bursts with a Pareto shape of 1.4" in outcome.out + outcome.err
    said = json.loads(perhop("run", str(file), "--json").out)
    assert [*said["flows"]] == ["web", "background"]
    assert all(verdict["ok"] for verdict in said["expect"])


def test_tables_leave_out_the_links_of_its_hosts() -> None:
    scenario = line("link: r1>r2, load: 10%").model_copy(update={"duration": 10**12})
    found = tables.link_table(perhop.run(scenario))
    assert found is not None
    assert [row[0] for row in found.rows] == ["a>r1", "r1>a", "r1>r2", "r2>r1", "r2>b", "b>r2"]


def test_agents_and_configurations_go_without_it() -> None:
    key = "perhop-ed25519 AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
    agents = {name: f"{{address: {name}.example.net, key: {key}}}" for name in "ab"}
    section = "\n".join(["agents:", *(f"  {name}: {each}" for name, each in agents.items())])
    text = LINE.replace("OVERHEAD", "none").replace("BACKGROUND", "link: r1>r2, load: 10%")
    with_agents = parse(f"{text}{section}\n")
    assert [(gap.path, gap.reason.split(";")[0]) for gap in gaps(with_agents)] == [
        ("background", "a live network has no host background-from"),
        ("background", "a live network has no host background-to"),
    ]
    without = parse(text.replace("background: {link: r1>r2, load: 10%}\n", ""))
    assert write(parse(text), "tc") == write(without, "tc")


def test_the_schema_has_both_forms() -> None:
    found = json_schema()["properties"]["background"]
    assert [form.get("$ref", form.get("type")) for form in found["anyOf"]] == [
        "#/$defs/Background",
        "object",
    ]
