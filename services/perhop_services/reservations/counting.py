"""The counters of routers: reading, plausibility checks, and the stored series."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from perhop_services.reservations.drivers import DriverError, NotCountedError, PolicerCounters
from perhop_services.reservations.plausible import doubt

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perhop_services.reservations.devices import Device
    from perhop_services.reservations.drivers import Rule
    from perhop_services.reservations.model import Reservation
    from perhop_services.reservations.routers import Routers
    from perhop_services.reservations.service import ReservationService


@dataclass(slots=True)
class _Reading:
    """The counters of a rule when they were last read, by the monotonic clock."""

    at: float
    counters: PolicerCounters
    rate: int
    burst: int


class Counting:
    """Reads counters.

    Attributes:
        lock: Held while they are read; who clears them, or sets rules anew, holds it meanwhile.
    """

    def __init__(self, service: ReservationService, routers: Routers) -> None:
        """Take the reservations and the routers."""
        self.lock = threading.RLock()
        self._service = service
        self._routers = routers
        self._readings: dict[str, _Reading] = {}
        self._epochs: dict[int, int] = {}

    def begin(self, rule: Rule) -> None:
        """Begin to count a rule that is new in its router."""
        self._readings[rule.name] = _Reading(
            time.monotonic(), PolicerCounters(), rule.rate, rule.burst
        )

    def forget(self, rule: Rule) -> None:
        """Forget the last reading of a rule that is removed or cleared."""
        self._readings.pop(rule.name, None)

    def end(self, id_: int) -> None:
        """Forget a reservation that is over."""
        self._epochs.pop(id_, None)

    def renew(self, id_: int) -> None:
        """Forget the last readings of a reservation, whose counters begin at zero again."""
        self._epochs[id_] = self._epoch(id_) + 1

    def read(self, reservations: list[Reservation]) -> None:
        """Read the counters of some reservations, and keep those that can be true.

        What is wrong with the others is put on file as the trouble that there is with them.
        """
        with self.lock:
            answers: dict[int, Mapping[str, PolicerCounters] | DriverError] = {}
            rows: list[dict[str, Any]] = []
            for reservation in reservations:
                total, trouble = PolicerCounters(), ""
                try:
                    rules = self._routers.rules(reservation)
                except DriverError as error:
                    self._service.outcomes.note_trouble(reservation.id, str(error))
                    continue
                for node, rule in rules:
                    try:
                        device = self._routers.device(node)
                        if device.driver.needs_people:
                            break
                        if id(device) not in answers:
                            answers[id(device)] = _asked(device)
                        counters, doubts = self._judge(answers[id(device)], node, rule)
                        trouble = trouble or doubts
                        total = _sum(total, counters)
                    except NotCountedError:
                        break
                    except DriverError as error:
                        trouble = str(error)
                else:
                    self._service.outcomes.note_trouble(reservation.id, trouble)
                    if not trouble:
                        rows.append(self._row(reservation.id, total))
            if rows:
                self._service.outcomes.add_counters(rows).result()

    def _judge(
        self, answer: Mapping[str, PolicerCounters] | DriverError, node: str, rule: Rule
    ) -> tuple[PolicerCounters, str]:
        """Return the counters of a rule, and their problem if they are not plausible."""
        if isinstance(answer, DriverError):
            raise answer
        counters, now = answer.get(rule.name), time.monotonic()
        if counters is None:
            raise DriverError(f"{node} has no counters of {rule.name}")
        last = self._readings.get(rule.name)
        capacity = max(
            (link.rate for link in self._service.network.links if link.target == node), default=0
        )
        if last is not None:
            rate, burst = max(rule.rate, last.rate), max(rule.burst, last.burst)
            why = doubt(last.counters, counters, now - last.at, rate, burst, capacity)
            if why:
                return counters, f"{node} counts what cannot be: {why}"
        self._readings[rule.name] = _Reading(now, counters, rule.rate, rule.burst)
        return counters, ""

    def _row(self, id_: int, counters: PolicerCounters) -> dict[str, Any]:
        return {
            "reservation_id": id_,
            "at_ms": int(self._service.clock() * 1000),
            "epoch": self._epoch(id_),
            "conformed_packets": counters.conformed_packets,
            "conformed_bytes": counters.conformed_bytes,
            "exceeded_packets": counters.exceeded_packets,
            "exceeded_bytes": counters.exceeded_bytes,
        }

    def _epoch(self, id_: int) -> int:
        """Return how often the counters of a reservation have been cleared."""
        if id_ not in self._epochs:
            self._epochs[id_] = self._service.register.epoch(id_)
        return self._epochs[id_]


def _asked(device: Device) -> Mapping[str, PolicerCounters] | DriverError:
    try:
        return device.call(lambda driver: driver.counters())
    except DriverError as error:
        return error


def _sum(one: PolicerCounters, other: PolicerCounters) -> PolicerCounters:
    return PolicerCounters(
        one.conformed_packets + other.conformed_packets,
        one.conformed_bytes + other.conformed_bytes,
        one.exceeded_packets + other.exceeded_packets,
        one.exceeded_bytes + other.exceeded_bytes,
    )
