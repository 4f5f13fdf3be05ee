"""Makes routers do what was booked, when it was booked, and says when they do not.

A thread looks several times a second what starts, ends or expires. A reservation becomes active
only when its rules were set and the router, asked again, says that they are in place. What has
ended is removed until the router says that it is gone. On a schedule the routers are compared with
what is on file, and their counters are read, and doubted.
"""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from perhop_services.common.errors import ConflictError, ServiceError, UnavailableError
from perhop_services.common.supervised import Pool, Supervised
from perhop_services.reservations.counting import Counting
from perhop_services.reservations.devices import TIMEOUT, Device
from perhop_services.reservations.drivers import DriverError, RefusedError
from perhop_services.reservations.model import Reservation, State
from perhop_services.reservations.routers import Routers
from perhop_services.reservations.tries import Exclusive, Tries

if TYPE_CHECKING:
    from collections.abc import Mapping
    from concurrent.futures import Future

    from perhop_services.common.supervised import Watched
    from perhop_services.common.users import User
    from perhop_services.reservations.drivers import Driver, Rule
    from perhop_services.reservations.service import ReservationService

BEAT: Final = 0.2
"""Seconds between two looks at what is due."""

EVERY: Final = 10.0
"""Seconds between two readings of counters."""

PERSISTENCE: Final = 300.0
"""For how many seconds a router that fails is tried again, before a reservation fails."""

WAITS: Final = "waits for people to configure it"
"""The trouble of a reservation that is to be configured by people."""

_TIDY: Final = 3600.0
"""Seconds between two times that what is long over is forgotten."""

_AT_ONCE: Final = 2
"""Number of reservations that wait for the same router at once."""


class Enforcer:
    """Drives the routers of a service.

    Attributes:
        service: Service with the reservations.
        routers: Drivers of routers, and their configurations.
    """

    def __init__(
        self,
        service: ReservationService,
        drivers: Mapping[str, Driver],
        *,
        beat: float = BEAT,
        every: float = EVERY,
        timeout: float = TIMEOUT,
        persistence: float = PERSISTENCE,
    ) -> None:
        """Start.

        Args:
            service: Service with the reservations.
            drivers: By router; ``*`` for every router that is not named.
            beat: Seconds between two looks at what is due.
            every: Seconds between two readings of counters.
            timeout: Time limit of a router's answer, in seconds.
            persistence: For how many seconds a router that fails is tried again.
        """
        self.service = service
        self._timeout, self._persistence = timeout, persistence
        self._every = every
        self.routers = Routers(service.network, drivers, timeout, service.database.identity)
        self._counting = Counting(service, self.routers)
        self._busy: set[int] = set()
        self._lock = threading.Lock()
        # A slow router must not delay reservations at other routers.
        self._pools = {
            device: Pool(f"perhop-enforce-{device.node}", _AT_ONCE)
            for device in self.routers.devices
        }
        self._pool = Pool("perhop-enforce", 2)
        self._tries = Tries(persistence)
        self._unsettled: set[int] = set()
        self._reading: Future[None] | None = None
        self._next_reading = time.monotonic()
        self._next_tidying = time.monotonic() + _TIDY
        self._recovered = False
        self.thread = Supervised("perhop-enforcer", self._step, beat)

    @property
    def threads(self) -> list[Watched]:
        """All threads of it, for `/healthz`."""
        devices = [device.thread for device in self.routers.devices]
        return [self.thread, self._pool, *self._pools.values(), *devices]

    def close(self) -> None:
        """Stop; rules stay in place."""
        self.thread.close()
        for pool in (*self._pools.values(), self._pool):
            pool.close()
        self.routers.close()

    # Requests of users

    def apply_change(self, reservation: Reservation, author: str) -> Reservation:
        """Put the pending terms of an active reservation in place, or leave the old ones there.

        Raises:
            UnavailableError: A router did not take them; the old terms are in place.
            ConflictError: There is no room for them any more; the old terms are in place.
        """
        if reservation.pending is None:
            return reservation
        id_ = reservation.id
        new = replace(reservation, terms=reservation.pending)
        with self._only(id_):
            try:
                if self.routers.needs_people(reservation):
                    return reservation  # until it is confirmed
                self.routers.put(new)
            except DriverError as error:
                self._fall_back(reservation, str(error))
                raise UnavailableError(f"reservation {id_} keeps its old terms: {error}") from None
            try:
                return self.service.outcomes.settle(id_, author).result()
            except ConflictError as error:
                self._fall_back(reservation, str(error))
                raise

    def _fall_back(self, reservation: Reservation, reason: str) -> None:
        self.service.outcomes.take_back(reservation.id, f"not changed: {reason}").result()
        try:
            self.routers.put(reservation)
        except DriverError as error:
            # It is unknown now what is in place.
            self._fail_or_wait(reservation, error, f"{reason}; and back: ")

    def confirm(self, user: User, reservation: Reservation) -> Reservation:
        """People have configured the routers: for the start, or for a change.

        Raises:
            ConflictError: There is nothing to confirm, or no room for the change any more; the
                reservation keeps its old terms then.
        """
        try:
            by_people = self.routers.needs_people(reservation)
        except DriverError as error:
            raise ConflictError(f"reservation {reservation.id}: {error}") from None
        if not by_people:
            raise ConflictError(f"perhop itself configures the routers of {reservation.id}")
        if reservation.pending is not None:
            try:
                return self.service.outcomes.settle(reservation.id, user.name).result()
            except ConflictError as error:
                reason = f"not changed: {error}; configure the old terms again"
                self.service.outcomes.take_back(reservation.id, reason).result()
                raise
        if reservation.state is State.PLANNED and reservation.terms.start <= self.service.now:
            text = f"configured by {user.name}"
            moved = self.service.outcomes.move(
                reservation.id, State.PLANNED, State.ACTIVE, "start", text, reservation.version
            ).result()
            if moved is not None:
                return moved
        raise ConflictError(f"nothing of reservation {reservation.id} is to be confirmed now")

    def cancelled(self, reservation: Reservation) -> None:
        """A reservation is no more: remove what is in place of it, soon."""
        self._spawn(reservation, self._remove)

    def clear(self, user: User, reservation: Reservation) -> None:
        """Set the counters of a reservation's rules to zero.

        Raises:
            ConflictError: It is not active.
            UnavailableError: A router did not do it.
        """
        self.service.writer.check()
        if reservation.state is not State.ACTIVE:
            raise ConflictError(f"reservation {reservation.id} is {reservation.state}, not active")
        with self._only(reservation.id), self._counting.lock:
            self._counting.read([reservation])
            try:
                for node, rule in self.routers.rules(reservation):
                    self.routers.device(node).clear(rule.name)
                    self._counting.forget(rule)
            except DriverError as error:
                raise UnavailableError(str(error)) from None
            self._counting.renew(reservation.id)
            self._counting.read([reservation])
        self.service.outcomes.note(reservation.id, user.name, "clear", "counters cleared").result()

    def read(self) -> None:
        """Compare the routers with what is on file and read all counters, now.

        A reservation for which something is being done at the moment is left for the next time.
        """
        with self._counting.lock:
            self._reconcile()

    # The thread

    def _step(self) -> None:
        self.service.writer.check()  # routers stay as they are, too
        if not self._recovered:
            self._recover()
            self._recovered = True
        self._look()
        now = time.monotonic()
        if now >= self._next_tidying:
            self.service.outcomes.tidy().result()
            self._next_tidying = now + _TIDY
        if now >= self._next_reading and (self._reading is None or self._reading.done()):
            self._next_reading = now + self._every
            self._reading = self._pool.submit({}, self._read_all)

    def _read_all(self) -> None:
        self._resume()
        self.read()

    def _recover(self) -> None:
        """Restore the old terms of reservations that were being changed when the service ended."""
        for reservation in self.service.register.changing():
            if not self._by_people(reservation):
                reason = "not changed: perhop was interrupted"
                self.service.outcomes.take_back(reservation.id, reason).result()
        # A reservation that waited for people may have another driver by now.
        for reservation in self.service.register.due(State.PLANNED, self.service.now):
            if reservation.trouble == WAITS and not self._by_people(reservation):
                self.service.outcomes.note_trouble(reservation.id, "").result()

    def _resume(self) -> None:
        """Withdraw changes that are not being applied, because the database was away meanwhile."""
        changing = [each for each in self.service.register.changing() if not self._by_people(each)]
        with self._lock:
            idle = {each.id for each in changing} - self._busy
        # One that has only just begun is not marked as busy yet.
        for reservation in changing:
            if reservation.id in idle & self._unsettled:
                self._spawn(reservation, self._take_back)
        self._unsettled = idle

    def _take_back(self, reservation: Reservation) -> None:
        self._fall_back(reservation, "perhop was interrupted")

    def _look(self) -> None:
        wrong = None
        # Ends come first, even if the database refuses writes: a disk may be full.
        for what in (self._end, self._begin, lambda: self.service.outcomes.expire().result()):
            try:
                what()
            except ServiceError as error:
                wrong = wrong or error
        if wrong is not None:
            raise wrong

    def _end(self) -> None:
        now = self.service.now
        for reservation in self.service.register.due(State.ACTIVE, now, ending=True):
            self._spawn(reservation, self._finish)
        for reservation in self.service.register.due(State.PLANNED, now, ending=True):
            why = "it was not configured" if self._by_people(reservation) else "perhop was away"
            why = reservation.trouble if reservation.trouble not in ("", WAITS) else why
            self.service.outcomes.move(
                reservation.id, State.PLANNED, State.FAILED, "fail", why
            ).result()

    def _begin(self) -> None:
        now = self.service.now
        for reservation in self.service.register.due(State.PLANNED, now, but=WAITS):
            if reservation.terms.end <= now:
                continue
            if self._by_people(reservation):
                self.service.outcomes.note_trouble(reservation.id, WAITS).result()
            elif self._tries.may(reservation.id):
                self._spawn(reservation, self._start)

    def _by_people(self, reservation: Reservation) -> bool:
        try:
            return self.routers.needs_people(reservation)
        except DriverError:
            return False

    def _spawn(self, reservation: Reservation, work: Any) -> None:
        """Have something done for a reservation, unless something is."""
        with self._lock:
            if reservation.id in self._busy:
                return
            self._busy.add(reservation.id)
        try:
            device = self.routers.device(self.routers.rules(reservation)[0][0])
        except DriverError:
            device = None
        pool = self._pools[device] if device is not None else self._pool
        pool.submit({"reservation": reservation.id}, self._do, reservation, work)

    def _do(self, reservation: Reservation, work: Any) -> None:
        """Do something for a reservation; if it fails, the next look finds it again."""
        try:
            work(reservation)
        finally:
            with self._lock:
                self._busy.discard(reservation.id)

    def _only(self, id_: int) -> Exclusive:
        return Exclusive(self._busy, self._lock, id_, self._timeout * 3)

    def _start(self, reservation: Reservation) -> None:
        try:
            rules = self.routers.rules(reservation)
            for node, _ in rules:
                self.routers.device(node)
        except DriverError as error:
            self._fail(reservation, State.PLANNED, str(error))
            return
        try:
            self.routers.put(reservation)
        except DriverError as error:
            if isinstance(error, RefusedError) or self._tries.failed(reservation.id):
                self._fail(reservation, State.PLANNED, str(error))
            else:
                trouble = f"not in place yet: {error}"
                self.service.outcomes.note_trouble(reservation.id, trouble).result()
            return
        self._tries.succeeded(reservation.id)
        for _, rule in rules:
            self._counting.begin(rule)
        moved = self.service.outcomes.move(
            reservation.id, State.PLANNED, State.ACTIVE, "start", "in place", reservation.version
        ).result()
        if moved is None:
            # It was cancelled or changed meanwhile; a changed one is found again.
            self._remove(reservation)
        elif reservation.trouble:
            self.service.outcomes.note_trouble(reservation.id, "").result()

    def _fail(self, reservation: Reservation, expected: State, reason: str) -> None:
        self._tries.succeeded(reservation.id)
        self.service.outcomes.move(reservation.id, expected, State.FAILED, "fail", reason).result()
        self._remove(reservation)

    def _fail_or_wait(self, reservation: Reservation, error: DriverError, before: str = "") -> None:
        """Try again for an active reservation that is not in place, and let it fail in the end.

        A router that refuses for good is not asked again.
        """
        reason = f"{before}{error}"
        if isinstance(error, RefusedError) or self._tries.failed(reservation.id):
            self._fail(reservation, State.ACTIVE, reason)
        else:
            self.service.outcomes.note_trouble(reservation.id, f"not in place: {reason}").result()

    def _finish(self, reservation: Reservation) -> None:
        with suppress(ServiceError):
            self._counting.read([reservation])
        self._remove(reservation)
        self.service.outcomes.move(
            reservation.id, State.ACTIVE, State.FINISHED, "finish", "over"
        ).result()
        self._counting.end(reservation.id)

    def _remove(self, reservation: Reservation) -> None:
        try:
            rules = self.routers.rules(reservation)
        except DriverError:
            return  # what is left is found when the routers are compared with what is on file
        for node, rule in rules:
            try:
                device = self.routers.device(node)
                if not device.driver.needs_people:
                    device.remove(rule.name)
            except DriverError as error:
                # The rest is found when the routers are compared with the stored reservations.
                self.service.outcomes.note_trouble(reservation.id, f"not removed: {error}").result()
            self._counting.forget(rule)

    def _active(self) -> list[Reservation]:
        found: list[Reservation] = []
        while True:
            after = found[-1].id if found else 0
            page = self.service.register.listed(states=[State.ACTIVE], after=after, limit=500)
            found += page
            if len(page) < 500:
                return found

    # Routers beside what is on file

    def _reconcile(self) -> None:
        """Set what is missing, remove what should not be there, read the counters."""
        active = self._active()
        with self._lock:
            busy = set(self._busy)
        wanted: dict[Device, dict[str, tuple[Reservation, Rule]]] = {
            device: {} for device in self.routers.devices
        }
        for reservation in active:
            try:
                rules = self.routers.rules(reservation)
                devices = [self.routers.device(node) for node, _ in rules]
            except DriverError as error:
                self._fail(reservation, State.ACTIVE, str(error))
                continue
            for device, (_, rule) in zip(devices, rules, strict=True):
                wanted[device][rule.name] = (reservation, rule)
        for device, own in wanted.items():
            if not device.driver.needs_people:
                self._reconcile_device(device, own, busy)
        self._counting.read([each for each in active if each.id not in busy])

    def _reconcile_device(
        self, device: Device, wanted: dict[str, tuple[Reservation, Rule]], busy: set[int]
    ) -> None:
        try:
            found = device.call(lambda driver: driver.installed())
        except DriverError as error:
            for reservation, _ in wanted.values():
                self.service.outcomes.note_trouble(reservation.id, str(error)).result()
            return
        renewed: set[int] = set()
        for name, (reservation, rule) in wanted.items():
            if reservation.id in busy or found.get(name) == device.driver.expected(rule):
                continue
            try:
                device.put(rule)
                if name not in found:
                    # A new policer, whose counters begin at nothing.
                    self._counting.begin(rule)
                    renewed.add(reservation.id)
                self._tries.succeeded(reservation.id)
                reason = f"{device.node} had lost it, or something else in its place; set again"
                self.service.outcomes.note(reservation.id, "perhop", "repair", reason).result()
            except DriverError as error:
                self._fail_or_wait(reservation, error)
        for id_ in renewed:
            self._counting.renew(id_)
        for name in found.keys() - wanted.keys():
            number = self.routers.number(name)
            if number is None or number in busy or self._is_live(number):
                continue  # another service's, or of a reservation that is there by now
            try:
                device.remove(name)
            except DriverError:
                continue  # the next look finds it again

    def _is_live(self, id_: int) -> bool:
        """Return whether a reservation is active, or may be by now."""
        try:
            return self.service.register.reservation(id_).state.is_live
        except ServiceError:
            return False
