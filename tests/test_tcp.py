"""Congestion controls and congestion notification, from the file to the tables."""

from typing import Any, get_args

import pytest

import perhop
from perhop import analysis
from perhop.scenario import Scenario
from perhop.scenario.model.tcp import FEEDBACK, PACED, Tcp, TcpSettings

CONTROLS: tuple[str, ...] = get_args(TcpSettings.model_fields["congestion_control"].annotation)


def _run(queue: dict[str, Any], **flows: dict[str, Any]) -> perhop.Dataset:
    """Twelve seconds over 20 Mb/s and 20 ms."""
    scenario = Scenario.model_validate(
        {
            "perhop": 1,
            "name": "controls",
            "nodes": {"a": "host", "r": "router", "b": "host"},
            "links": [
                {"ends": ["a", "r"], "rate": "1 Gbps"},
                {"ends": ["r", "b"], "rate": "20 Mbps", "delay": "10 ms", "queue": queue},
            ],
            "flows": {
                name: {"from": "a", "to": "b", "tcp": tcp, "stop": "12 s"}
                for name, tcp in flows.items()
            },
            "report": {"interval": "1 s"},
        }
    )
    return perhop.run(scenario)


def test_an_autotuned_window_grows_to_its_largest() -> None:
    """At 1 Gb/s and 100 ms a flow gets the largest window a round trip, 315 Mb/s."""
    found = {}
    for name, settings in (("tuned", {}), ("fixed", {"window": "3840 KiB"})):
        queue = {"limit": "5000 packets"}
        path = {"ends": ["a", "b"], "rate": "1 Gbps", "delay": "50 ms", "queue": queue}
        tcp = {"stack": "linux-6", "hystart": False, **settings}
        bulk = {"from": "a", "to": "b", "tcp": tcp, "stop": "3 s"}
        dataset = perhop.run(
            Scenario.model_validate(
                {
                    "perhop": 1,
                    "name": name,
                    "nodes": {"a": "host", "b": "host"},
                    "links": [path],
                    "flows": {"bulk": bulk},
                    "report": {"interval": "100 ms"},
                }
            )
        )
        found[name] = [
            analysis.throughput(dataset, "bulk", span) for span in ((0.0, 1.0), (2.0, 3.0))
        ]
    largest = 3.75 * 2**20 * 8 / 0.1
    assert found["fixed"][1] == pytest.approx(largest, rel=0.01)
    assert found["tuned"][1] == pytest.approx(largest, rel=0.01)
    # While the congestion window grows the receive window is ahead of it.
    assert 0.9 * found["fixed"][0] < found["tuned"][0] <= found["fixed"][0]


@pytest.mark.parametrize("control", CONTROLS)
def test_every_congestion_control_fills_a_link(control: str) -> None:
    dataset = _run({"limit": "60 packets"}, bulk={"congestion_control": control})
    share = analysis.throughput(dataset, "bulk", (4.0, 12.0)) / (20e6 * 1460 / 1500)
    # LEDBAT++ slows down on purpose, a tenth of the time.
    assert 0.8 < share <= 1.0001


@pytest.mark.parametrize("control", CONTROLS)
def test_what_a_congestion_control_needs_is_its_default(control: str) -> None:
    tcp = Tcp.model_validate({"congestion_control": control})
    assert tcp.effective_ecn == FEEDBACK.get(control, ("off",))[0]
    assert tcp.effective_pacing == (control in PACED)
    assert Tcp.model_validate({"congestion_control": control, "pacing": True}).effective_pacing


def test_marks_take_the_place_of_losses() -> None:
    dataset = _run({"codel": {"ecn": True}}, bulk={"ecn": "accurate"})
    flow = analysis.summary(dataset)["flows"]["bulk"]
    (queue,) = analysis.summary(dataset)["links"]["r>b"]["classes"].values()
    assert flow["loss"] == 0
    assert 0 < flow["marked"] <= queue["marked_packets"] <= flow["marked"] + 2
    assert dataset.intervals["echoed"].sum() <= flow["marked"]


def test_l4s_has_its_low_delay_beside_classic_traffic() -> None:
    dataset = _run({"dualpi2": {}}, l4s={"congestion_control": "prague"}, classic={})
    flows = analysis.summary(dataset)["flows"]
    assert flows["l4s"]["rtt_s"]["median"] < 0.023
    assert flows["classic"]["rtt_s"]["median"] > 0.025
    assert flows["l4s"]["marked"] > 100
    assert 0.3 < flows["l4s"]["bytes"] / flows["classic"]["bytes"] < 3.3
