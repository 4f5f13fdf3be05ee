"""The routers of a network, their drivers, and their rules."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from perhop_services.common.errors import BadRequestError, ConflictError
from perhop_services.reservations.devices import Device
from perhop_services.reservations.drivers import DriverError, Rule

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perhop_services.reservations.drivers import Driver
    from perhop_services.reservations.model import Reservation
    from perhop_services.reservations.network import Network


class Routers:
    """The routers that have a driver."""

    def __init__(
        self, network: Network, drivers: Mapping[str, Driver], timeout: float, identity: str
    ) -> None:
        """Start a thread for each.

        Args:
            network: Network of the routers.
            drivers: By router; ``*`` for every router that is not named.
            timeout: Time limit of a router's answer, in seconds.
            identity: By what the rules of this service are known among those of others.
        """
        self._prefix = f"perhop_{identity}_" if identity else "perhop_"
        self._network = network
        self._devices = {node: Device(node, each, timeout) for node, each in drivers.items()}

    def close(self) -> None:
        """End the threads."""
        for device in self._devices.values():
            device.close()

    @property
    def devices(self) -> list[Device]:
        """The routers with a driver; ``*`` is one, for all routers that it stands for."""
        return list(self._devices.values())

    def rules(self, reservation: Reservation) -> list[tuple[str, Rule]]:
        """Return the rules of a reservation, each with the first router of its path.

        Raises:
            DriverError: The network no longer has its hosts or links.
        """
        network, terms = self._network, reservation.terms
        for name in (terms.source, terms.destination):
            if name not in network.hosts:
                raise DriverError(f"the network has no host {name} any more")
        for name in reservation.path:
            if not network.has_link(name):
                raise DriverError(f"the network has no link {name} any more")
        path = [network.links[network.link(name)] for name in reservation.path]
        back = [network.links[link.back] for link in reversed(path)]
        found = []
        for source, destination, selector in terms.packets:
            forward = source == terms.source
            # The links that a router, and no host, sends into; the first of them polices.
            way = path if forward else back
            out = [link for link in way if link.source not in network.hosts]
            link = out[0] if out else None
            rule = Rule(
                name=f"{self._prefix}{reservation.id}" + ("" if forward else "_back"),
                source=network.addresses[source],
                destination=network.addresses[destination],
                selector=selector,
                rate=terms.rate,
                burst=terms.burst,
                class_=terms.class_,
                link_rate=link.rate if link else 0,
                links=tuple(each.name for each in out),
            )
            found.append((link.source if link else "", rule))
        return found

    def number(self, name: str) -> int | None:
        """Return the reservation of a rule; None for a rule of another service."""
        if not name.startswith(self._prefix):
            return None
        number = name.removeprefix(self._prefix).removesuffix("_back")
        return int(number) if number.isdigit() else None

    def device(self, node: str) -> Device:
        """The router of a name.

        Raises:
            DriverError: Nothing enforces there.
        """
        device = self._devices.get(node) or self._devices.get("*")
        if device is None:
            where = f"at {node}" if node else "between two hosts without a router"
            raise DriverError(f"nothing enforces {where}: the service has no driver for it")
        return device

    def needs_people(self, reservation: Reservation) -> bool:
        """Return whether a router of a reservation is configured by people.

        Raises:
            DriverError: Nothing enforces it.
        """
        return any(self.device(node).driver.needs_people for node, _ in self.rules(reservation))

    def configuration(self, reservation: Reservation, what: str) -> str:
        """Return the configuration for routers to ``set``, ``change`` or ``remove`` a reservation.

        Raises:
            BadRequestError: A change is asked for, and none is under way.
            ConflictError: Nothing enforces there.
        """
        new = reservation
        if what == "change":
            if reservation.pending is None:
                raise BadRequestError(f"reservation {reservation.id} is not being changed")
            new = replace(reservation, terms=reservation.pending)
        texts = []
        try:
            for (node, old), (_, rule) in zip(
                self.rules(reservation), self.rules(new), strict=True
            ):
                driver = self.device(node).driver
                text = driver.configuration(
                    rule, old if what == "change" else None, remove=what == "remove"
                )
                texts.append(f"! {node}\n{text}")
        except DriverError as error:
            raise ConflictError(str(error)) from None
        return "\n".join(texts)

    def put(self, reservation: Reservation) -> None:
        """Install the rules of a reservation, and verify them.

        Raises:
            DriverError: They are not.
        """
        for node, rule in self.rules(reservation):
            self.device(node).put(rule)
