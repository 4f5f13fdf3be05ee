"""An emulated network without an end: what it counts, and what changes in it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from perhop._core import Emulation
from perhop.engines.captures import capture_plan
from perhop.engines.emu import backpressure, mtus
from perhop.engines.plan import effects, network_plan
from perhop.errors import UnsupportedError
from perhop.lab.reserved import Reservation, reserved_plan
from perhop.scenario.changes import steps
from perhop.scenario.policies import walk

if TYPE_CHECKING:
    from collections.abc import Mapping
    from io import FileIO

    from perhop.engines.captures import Capture
    from perhop.scenario import Scenario

__all__ = ["Network"]

_AHEAD_NS: Final = 1_000_000
"""How far ahead of its making the network's time begins."""

Counted = dict[str, dict[str, dict[str, int]]]
"""What was counted, by directed link, class, and name of the counter."""


class Network:
    """The network of a scenario, in real time, until it is stopped."""

    def __init__(self, scenario: Scenario, seed: int) -> None:
        """Make the hosts and let packets move.

        Raises:
            UnsupportedError: If this machine cannot, with what it lacks.
        """
        self._scenario = scenario
        self._seed = seed
        network = {**network_plan(scenario, seed), "marks": [], "changes": []}
        try:
            plan = {
                "network": network,
                "mtus": list(mtus(scenario).values()),
                "backpressure": backpressure(scenario),
            }
            self._core = Emulation(json.dumps(plan))
            self._core.start(Emulation.monotonic_ns() + _AHEAD_NS)
        except OSError as error:
            raise UnsupportedError(str(error)) from None
        self._namespaces = self._core.namespaces()
        self._reserved: dict[str, list[str]] = {}

    @property
    def hosts(self) -> dict[str, int]:
        """By host, the file descriptor of its namespace."""
        nodes = enumerate(self._scenario.nodes.items())
        return {
            name: self._namespaces.fd(number)
            for number, (name, node) in nodes
            if node.kind == "host"
        }

    def check(self) -> None:
        """Write what was captured.

        Raises:
            OSError: If a capture cannot be written, or the network cannot go on.
        """
        self._core.check()

    def counters(self) -> tuple[Counted, Counted]:
        """What was counted since the network, or a class, began: of classes, of reservations."""
        classes: Counted = {}
        reserved: Counted = {}
        ports = zip(self._classes.items(), self._core.read(), strict=True)
        for (link, names), read in ports:
            booked = self._reserved.get(link, [])
            own = read[: len(read) - len(booked)]
            classes[link] = {name: each for name, each in zip(names, own, strict=True) if name}
            reserved[link] = dict(zip(booked, read[len(own) :], strict=True))
        return classes, reserved

    @property
    def policies(self) -> dict[str, str | None]:
        """The policy on each directed link."""
        directions = self._scenario.directions.items()
        policies = {name: link.egress.get(node) for name, (link, node) in directions}
        return policies | {str(step.change.on): step.policy for step in steps(self._scenario)}

    @property
    def _classes(self) -> dict[str, list[str]]:
        """The classes before each port, as the core visits them; "" for what is none of its own."""
        capacities = {
            name: link.capacity(node) for name, (link, node) in self._scenario.directions.items()
        }
        capacities |= {str(step.change.on): step.capacity for step in steps(self._scenario)}
        found = {}
        for link, name in self.policies.items():
            policy = self._scenario.policies.get(name or "")
            if policy is None:
                found[link] = ["all"]
            else:
                placed = walk(self._scenario, policy, capacities[link])
                found[link] = ["", *(one.path for one in placed)]
        return found

    def change(self, scenario: Scenario) -> None:
        """Make the last change of `scenario`, which has the others that were made before it.

        It is about the network as they have left it.
        """
        number = len(scenario.changes) - 1
        last = [step for step in steps(scenario) if step.loc == ("changes", number)]
        for step in last:
            for effect in effects(scenario, step):
                # A random stream of its own, so that the old one's numbers do not come again.
                self._core.apply(json.dumps(effect), self._seed + number + 1)
        self._scenario = scenario

    def reserve(self, link: str, reservations: Mapping[str, Reservation]) -> None:
        """Have a link with these reservations, and no others, from now on.

        One that was there stays, with what waits in it, its tokens and counters.
        """
        so_far = self._reserved.get(link, [])
        plan = reserved_plan(self._scenario, link, reservations, so_far)
        self._core.apply(json.dumps(plan), self._seed)
        self._reserved[link] = list(reservations)

    def capture(self, capture: Capture, file: FileIO) -> None:
        """Write what passes the capture's interfaces from now on to `file`, as pcapng."""
        self._core.capture(json.dumps(capture_plan(self._scenario, self._seed, capture)), file)

    def stop(self) -> None:
        """End it; what was captured is written."""
        self._core.stop()
