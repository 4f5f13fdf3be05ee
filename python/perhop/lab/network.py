"""The network of a lab: its counters and its changes."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from perhop._core import Emulation
from perhop.engines.captures import capture_plan
from perhop.engines.emu import addresses_v6, hosts_plan
from perhop.engines.plan import network_plan
from perhop.errors import UnsupportedError
from perhop.lab.present import Present
from perhop.lab.reserved import Reservation, reserved_plan
from perhop.units import quote

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from _typeshed import SupportsWrite

    from perhop.engines import plans
    from perhop.engines.captures import Capture
    from perhop.lab.outside import Outside
    from perhop.scenario import Scenario

__all__ = ["Network"]

_CONTROL: Final = "cubic"
"""The congestion control of hosts, whatever this machine's is."""

_AVAILABLE: Final = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")

_AHEAD_NS: Final = 1_000_000
"""Time between the making of the network and its time zero."""

Counted = dict[str, dict[str, dict[str, int]]]
"""Counters, by directed link, class, and name of the counter."""


class Network:
    """The network of a scenario, in real time, until it is stopped."""

    def __init__(
        self, scenario: Scenario, seed: int, control: str | None, outside: Outside
    ) -> None:
        """Create the hosts and start the network.

        Args:
            scenario: The network.
            seed: The seed of all random numbers.
            control: The default congestion control of TCP; CUBIC unless set.
            outside: Connections of the hosts.

        Raises:
            UnsupportedError: This machine lacks a feature, which the message names.
        """
        self.present = Present(scenario)
        self._seed = seed
        self._changes = 0
        self.control = control or _default_control()
        hosts = hosts_plan(scenario)
        own = scenario.addresses.items()
        v6 = addresses_v6(scenario)
        outside.complete(
            hosts,
            {name: tuple(map(str, filter(None, (each, v6.get(name))))) for name, each in own},
        )
        plan: plans.EmulationPlan = {
            "network": {**network_plan(scenario, seed), "marks": [], "changes": []},
            "hosts": hosts,
            "congestion_control": self.control,
            "flows": [],
            "stall_threshold": None,
        }
        try:
            self._core = Emulation(json.dumps(plan))
            self._core.start(Emulation.monotonic_ns() + _AHEAD_NS)
        except OSError as error:
            known = _available()
            if control is not None and known and control not in known:
                raise UnsupportedError(
                    f"this kernel has no congestion control {quote(control)}; there are "
                    f"{', '.join(known)}"
                ) from None
            raise UnsupportedError(str(error)) from None
        self._namespaces = self._core.namespaces()
        outside.connect(self._namespaces, self._numbers)

    @property
    def hosts(self) -> dict[str, int]:
        """The file descriptor of each host's namespace."""
        return {name: self._namespaces.fd(number) for name, number in self._numbers.items()}

    def datagrams(self, address: str, port: int) -> list[int]:
        """Open a socket for datagrams to a port of this address in every host."""
        found = []
        for number in self._numbers.values():
            # In a namespace of others the port may be in use.
            with suppress(OSError):
                found.append(self._namespaces.datagrams(number, address, port))
        return found

    @property
    def _numbers(self) -> dict[str, int]:
        """The number of each host among the nodes."""
        nodes = enumerate(self.present.scenario.nodes.items())
        return {name: number for number, (name, node) in nodes if node.kind == "host"}

    def check(self) -> None:
        """Write captured packets to their files."""
        # That a host's device was taken away ends nothing; `without_device` says which.
        with suppress(OSError):
            self._core.check()

    def without_device(self) -> list[str]:
        """The hosts whose device was deleted."""
        return self._core.without_device()

    def totals(self) -> dict[str, int]:
        """The counters of the network as a whole; see docs/engines.md."""
        return self._core.counters()

    def links(self) -> dict[str, dict[str, int]]:
        """The counters of each directed link."""
        return self._core.links()

    def counters(self) -> tuple[Counted, Counted]:
        """The counters of classes and reservations since they began."""
        return self._core.read()

    def change(self, present: Present, effects: Iterable[plans.EffectPlan]) -> None:
        """Apply the effects of a change, which leaves `present`."""
        for effect in effects:
            self._changes += 1
            # A random stream of its own, so that the old one's numbers do not come again.
            self._core.apply(json.dumps(effect), (self._seed + self._changes) % 2**64)
        self.present = present

    def reserve(self, link: str, reservations: Mapping[str, Reservation]) -> None:
        """Set the reservations of a link.

        A reservation that exists keeps its packets, its tokens and its counters.
        """
        self._core.apply(json.dumps(reserved_plan(link, reservations)), self._seed)

    def capture(self, capture: Capture, file: SupportsWrite[bytes]) -> int:
        """Capture the packets at the capture's interfaces to `file`, as pcapng, from now on.

        Returns:
            The number of the capture.
        """
        return self._core.capture(
            json.dumps(capture_plan(self.present.scenario, self._seed, capture)), file
        )

    def end_capture(self, number: int) -> None:
        """End a capture, after writing everything to its file."""
        self._core.end_capture(number)

    def stop(self) -> None:
        """Stop the network; captured packets are written."""
        self._core.stop()


def _default_control() -> str:
    """Return CUBIC, or Reno, which every kernel has, if CUBIC is not available."""
    known = _available()
    return _CONTROL if not known or _CONTROL in known else "reno"


def _available() -> list[str]:
    """Return the congestion controls that are loaded; none if unknown."""
    with suppress(OSError):
        return _AVAILABLE.read_text(encoding="ascii").split()
    return []
