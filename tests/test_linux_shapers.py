"""HTB and TBF as Linux has them: throughputs that a kernel measured, and those of the simulator.

`linux_shapers.json` has, for each case, commands of tc, the class of each flow and the bytes of its
IP packets, and its Mb/s, in these bytes, through Linux 6.18 between two ends of a `veth`. A process
kept all queues full by packets with the class as their priority (`SO_PRIORITY`), and counted those
that arrived within 3 s, after 1 s. `python -m validation.linux_shapers` measures them again.
"""

import json
from pathlib import Path
from typing import Any

import pytest

import perhop
from perhop.routers.reading.configuration import Source
from perhop.routers.reading.linux import read
from perhop.scenario import parse

CASES = json.loads((Path(__file__).parent / "linux_shapers.json").read_text("utf-8"))
PORT = 50_000


def script(case: dict[str, Any]) -> str:
    """Return a case's commands, and filters by destination port."""
    commands = list(case["commands"])
    for number, (classid, _) in enumerate(case["flows"]):
        if classid != "0:0":
            commands.append(
                f"filter add dev eth0 parent 1: protocol ip prio {number + 1} u32 "
                f"match ip dport {PORT + number} 0xffff flowid {classid}"
            )
    return "".join(f"tc {command}\n" for command in commands)


def simulated(case: dict[str, Any]) -> list[float]:
    """Return the Mb/s of each flow in IP bytes."""
    (found,) = read([Source("wan.sh", script(case))]).attachments
    link: dict[str, Any] = {"ends": ["r", "b"], "rate": "1 Gbps", "egress": {"r": "p"}}
    if found.shape is not None:
        link["shape"] = {"r": found.shape}
    for class_ in found.policy["classes"].values():
        class_["unused"] = True
    flows = {
        f"f{number}": {
            "from": "a",
            "to": "b",
            "port": PORT + number,
            "udp": {"rate": f"{4000 * mbps + 2000:.0f} kbps", "size": f"{size} B", "layer": "ip"},
        }
        for number, ((_, size), mbps) in enumerate(zip(case["flows"], case["mbps"], strict=True))
    }
    scenario = {
        "perhop": 1,
        "name": "shaper",
        "duration": "4 s",
        "report": {"interval": "1 s"},
        "nodes": {"a": "host", "r": "router", "b": "host"},
        "links": [{"ends": ["a", "r"], "rate": "10 Gbps"}, link],
        "policies": {"p": found.policy},
        "flows": flows,
    }
    dataset = perhop.run(parse(json.dumps(scenario), case["name"]))
    sums = dict.fromkeys(flows, 0)
    for row in dataset.intervals.iter_rows(named=True):
        if row["start_s"] >= 1:
            sums[row["flow"]] += row["bytes"]
    sizes = (size for _, size in case["flows"])
    return [
        sum_ * 8e-6 / 3 * size / (size - 28)
        for sum_, size in zip(sums.values(), sizes, strict=True)
    ]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_throughputs_are_those_of_linux(case: dict[str, Any]) -> None:
    assert simulated(case) == pytest.approx(case["mbps"], rel=0.04, abs=0.02)
