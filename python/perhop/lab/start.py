"""Starting a lab."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from perhop.errors import OutputError, PerhopError, UnsupportedError, UsageError
from perhop.lab.client import Lab
from perhop.lab.outside import connect_scenario
from perhop.lab.record import folder

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perhop.scenario import Scenario

__all__ = ["up"]

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


def up(
    scenario: Scenario,
    name: str | None = None,
    *,
    seed: int = 1,
    congestion_control: str | None = None,
    namespaces: Mapping[str, int | str] | None = None,
    nat: str | None = None,
    attach: Mapping[str, str] | None = None,
) -> Lab:
    """Start a lab, and return once it is up. It stays until it is taken down.

    Args:
        scenario: Its network; flows, pings and the timeline are left to who uses it.
        name: Name of the lab; by default that of the scenario.
        seed: The seed of all random numbers, such as those that decide losses.
        congestion_control: What hosts' TCP uses where a program asks for none, as Linux calls it;
            by default CUBIC, whatever this machine's is.
        namespaces: By host, a process or the path of a network namespace, such as a container's,
            which becomes the host's.
        nat: A node behind which the internet is, by NAT.
        attach: By node, an interface of this machine and the node's address there, as
            "eth1,192.168.7.1/24".

    Raises:
        UsageError: If a lab of that name is up or being started, or that is no name; or if a
            router is to clamp segment sizes.
        UnsupportedError: If this machine cannot emulate the network, with what it lacks.
    """
    # Who finds a lab, or enters a host of it, needs no scenarios, which take long to import.
    from perhop.scenario import to_mapping

    called = name or scenario.name
    if not _NAME.fullmatch(called):
        raise UsageError(f"{called!r} is not a name for a lab; expected letters, digits, - _ .")
    mapping = to_mapping(scenario)
    outside = connect_scenario(mapping, namespaces or {}, nat, attach or {})
    asked = {
        "scenario": mapping,
        "outside": outside.dump(),
        "seed": seed,
        "congestion_control": congestion_control,
    }
    for node, values in scenario.nodes.items():
        if values.mss_clamp:
            raise UsageError(
                f"nodes.{node}.mss_clamp: a lab does not change the SYNs of programs; expected a "
                "network without it"
            )
    place = folder()  # here: a user namespace would have another
    process = subprocess.Popen(
        [sys.executable, "-m", "perhop.lab.process", called, str(place)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd="/",
        start_new_session=True,
    )
    assert process.stdin is not None and process.stdout is not None
    with process.stdout:
        with suppress(BrokenPipeError), process.stdin:
            process.stdin.write(json.dumps(asked).encode())
        said = process.stdout.read()
    process.wait()
    try:
        answer = json.loads(said)
    except ValueError:
        raise OutputError("the lab did not start: its process was killed") from None
    if "error" in answer:
        kinds: dict[str, type[PerhopError]] = {
            kind.__name__: kind for kind in (UsageError, UnsupportedError, OutputError)
        }
        raise kinds.get(answer["kind"], UsageError)(answer["error"])
    return Lab.find(called)
