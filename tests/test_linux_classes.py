"""Classes and throughputs of Linux's disciplines, and those of the simulator after the same script.

`linux_classes.json` has, for each case, a script, and the class that counts packets with certain
headers, or the throughputs of flows, as `python -m validation.linux_classes` measures them: in User
Mode Linux 6.1, or in Linux 6.18 where a case is about nftables. Its `words` are those of
statements that the case compares with Linux; `statements.linux` counts them.
"""

import json
from pathlib import Path
from typing import Any, Final

import pytest

from statements.statement import Statement, found, read
from test_linux_shapers import simulated

CASES: Final = json.loads((Path(__file__).parent / "linux_classes.json").read_text("utf-8"))
CLASSES: Final = [each for each in CASES if "packets" in each]
FLOWS: Final = [each for each in CASES if "flows" in each]


def script(case: dict[str, Any]) -> str:
    """The commands of a case as a script of a shell."""
    lines = []
    for line in case["script"]:
        program, _, rest = line.partition(" ")
        whole = {"nft": "nft -f -", "iptables-restore": program}.get(program)
        lines.append(f"{whole} <<'END'\n{rest}\nEND\n" if whole else f"{line}\n")
    return "".join(lines)


def name_of(class_: str, case: dict[str, Any]) -> str:
    """The name that perhop gives to a class of Linux, without the classes around it."""
    if class_ == "direct":
        return "unclassified"
    minor = int(class_.partition(":")[2], 16)
    return f"band{minor - 1}" if " prio" in case["script"][0] else f"c{minor:x}"


@pytest.mark.parametrize("case", CLASSES, ids=lambda case: case["name"])
def test_packets_reach_the_classes_of_linux(case: dict[str, Any]) -> None:
    text = script(case)
    if "noted" in case:
        # Where perhop differs, or reads nothing, a line says so.
        notes = [line.note for line in read("linux", text, 10_000_000).lines]
        assert any(case["noted"] in note for note in notes)
        return
    flows = {f"p{n}": {"mbps": 0.1, **packet} for n, packet in enumerate(case["packets"])}
    wanted: dict[str, str | float] = {
        name: 0.0 if class_ == "dropped" else name_of(class_, case)
        for name, class_ in zip(flows, case["classes"], strict=True)
    }
    statement = Statement(case["name"], text, "", "Linux", {}, flows, wanted, rate=10_000_000)
    seen = found("linux", statement, text)
    assert {
        name: each.rpartition("/")[2] if isinstance(each, str) else each
        for name, each in seen.items()
        if name in wanted and isinstance(each, str) == isinstance(wanted[name], str)
    } == wanted


@pytest.mark.parametrize("case", FLOWS, ids=lambda case: case["name"])
def test_throughputs_are_those_of_linux(case: dict[str, Any]) -> None:
    commands = [line.removeprefix("tc ") for line in case["script"]]
    told = simulated({**case, "commands": commands})
    assert told == pytest.approx(case["mbps"], rel=0.04, abs=0.02)
