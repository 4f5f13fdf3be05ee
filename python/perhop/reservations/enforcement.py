"""Makes routers do what was booked, when it was booked, and says when they do not.

A thread looks several times a second what starts, ends or expires. A reservation becomes active
only when its rules were set and the router, asked again, says that they are in place. What has
ended is removed until the router says that it is gone. On a schedule the routers are compared with
what is on file, and their counters are read, and doubted.
"""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from perhop.reservations.counting import Counting
from perhop.reservations.devices import PATIENCE, Device
from perhop.reservations.drivers import DriverError
from perhop.reservations.errors import ConflictError, ReservationError, UnavailableError
from perhop.reservations.model import Reservation, State
from perhop.reservations.routers import Routers

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perhop.reservations.drivers import Driver, Rule
    from perhop.reservations.model import User
    from perhop.reservations.service import Service

BEAT: Final = 0.2
"""Seconds between two looks at what is due."""

EVERY: Final = 10.0
"""Seconds between two readings of counters."""


class Enforcer:
    """Drives the routers of a service.

    Attributes:
        service: Whose reservations.
        routers: What drives each router, and what it is to have.
    """

    def __init__(
        self,
        service: Service,
        drivers: Mapping[str, Driver],
        *,
        beat: float = BEAT,
        every: float = EVERY,
        patience: float = PATIENCE,
    ) -> None:
        """Start.

        Args:
            service: Whose reservations.
            drivers: By router; ``*`` for every router that is not named.
            beat: Seconds between two looks at what is due.
            every: Seconds between two readings of counters.
            patience: For how many seconds a router is waited for.
        """
        self.service = service
        self._patience = patience
        self._beat, self._every = beat, every
        self.routers = Routers(service.network, drivers, patience)
        self._counting = Counting(service, self.routers)
        self._busy: set[int] = set()
        self._lock = threading.Lock()
        self._ending = threading.Event()
        self._pool = ThreadPoolExecutor(8, "perhop-enforcement")
        self._reading: Future[None] | None = None
        self._thread = threading.Thread(target=self._run, name="perhop-enforcer", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop; rules stay in place."""
        self._ending.set()
        self._thread.join()
        self._pool.shutdown(wait=True, cancel_futures=True)
        self.routers.close()

    # What people ask for

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
                return self.service.settle(id_, author).result()
            except ConflictError as error:
                self._fall_back(reservation, str(error))
                raise

    def _fall_back(self, reservation: Reservation, reason: str) -> None:
        self.service.take_back(reservation.id, f"not changed: {reason}").result()
        try:
            self.routers.put(reservation)
        except DriverError as error:
            # Now nobody knows what is in place.
            self._fail(reservation, State.ACTIVE, f"{reason}; and back: {error}")

    def confirm(self, user: User, reservation: Reservation) -> Reservation:
        """People have configured the routers: for the start, or for a change.

        Raises:
            ConflictError: There is nothing to confirm, or no room for the change any more; the
                reservation keeps its old terms then.
        """
        if not self.routers.needs_people(reservation):
            raise ConflictError(f"perhop itself configures the routers of {reservation.id}")
        if reservation.pending is not None:
            try:
                return self.service.settle(reservation.id, user.name).result()
            except ConflictError as error:
                reason = f"not changed: {error}; configure the old terms again"
                self.service.take_back(reservation.id, reason).result()
                raise
        if reservation.state is State.PLANNED and reservation.terms.start <= self.service.now:
            text = f"configured by {user.name}"
            moved = self.service.move(
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
        self.service.note(reservation.id, user.name, "clear", "counters cleared").result()

    def read(self) -> None:
        """Compare the routers with what is on file and read all counters, now.

        A reservation for which something is being done at the moment is left for the next time.
        """
        with self._counting.lock:
            self._reconcile()

    # The thread

    def _run(self) -> None:
        self._recover()
        next_reading = time.monotonic()
        while not self._ending.is_set():
            began = time.monotonic()
            try:
                self._look()
                idle = self._reading is None or self._reading.done()
                if began >= next_reading and idle:
                    next_reading = began + self._every
                    self._reading = self._pool.submit(self.read)
            except ReservationError:
                pass  # the database is away; nothing starts or ends before it is back
            self._ending.wait(max(0.0, self._beat - (time.monotonic() - began)))

    def _recover(self) -> None:
        """What was being changed when the service ended keeps its old terms."""
        for reservation in self._active():
            if reservation.pending is not None and not self._by_people(reservation):
                reason = "not changed: perhop was interrupted"
                self.service.take_back(reservation.id, reason).result()

    def _look(self) -> None:
        service, now = self.service, self.service.now
        service.expire().result()
        for reservation in service.due(State.ACTIVE, now, ending=True):
            self._spawn(reservation, self._finish)
        for reservation in service.due(State.PLANNED, now):
            if reservation.terms.end <= now:
                why = "nobody configured it" if self._by_people(reservation) else "perhop was away"
                service.move(reservation.id, State.PLANNED, State.FAILED, "fail", why).result()
            elif not self._by_people(reservation):
                self._spawn(reservation, self._start)
            elif not reservation.trouble:
                service.note_trouble(reservation.id, "waits for people to configure it").result()

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
        self._pool.submit(self._guarded, reservation, work)

    def _guarded(self, reservation: Reservation, work: Any) -> None:
        try:
            work(reservation)
        except ReservationError:
            pass  # the database is away; the next look finds it again
        finally:
            with self._lock:
                self._busy.discard(reservation.id)

    def _only(self, id_: int) -> _Only:
        return _Only(self._busy, self._lock, id_, self._patience * 3)

    def _start(self, reservation: Reservation) -> None:
        try:
            self.routers.put(reservation)
        except DriverError as error:
            self._fail(reservation, State.PLANNED, str(error))
            return
        for _, rule in self.routers.rules(reservation):
            self._counting.begin(rule)
        moved = self.service.move(
            reservation.id, State.PLANNED, State.ACTIVE, "start", "in place", reservation.version
        ).result()
        if moved is None:
            # It was cancelled or changed meanwhile; a changed one is found again.
            self._remove(reservation)

    def _fail(self, reservation: Reservation, expected: State, reason: str) -> None:
        self.service.move(reservation.id, expected, State.FAILED, "fail", reason).result()
        self._remove(reservation)

    def _finish(self, reservation: Reservation) -> None:
        self._counting.read([reservation])
        self._remove(reservation)
        self.service.move(reservation.id, State.ACTIVE, State.FINISHED, "finish", "over").result()

    def _remove(self, reservation: Reservation) -> None:
        for node, rule in self.routers.rules(reservation):
            try:
                device = self.routers.device(node)
                if not device.driver.needs_people:
                    device.remove(rule.name)
            except DriverError as error:
                # What is left is found when the routers are compared with what is on file.
                self.service.note_trouble(reservation.id, f"not removed: {error}").result()
            self._counting.forget(rule)

    def _active(self) -> list[Reservation]:
        found: list[Reservation] = []
        while True:
            after = found[-1].id if found else 0
            page = self.service.listed(states=[State.ACTIVE], after=after, limit=500)
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
                self.service.note_trouble(reservation.id, str(error)).result()
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
                reason = f"{device.node} had lost it, or something else in its place; set again"
                self.service.note(reservation.id, "perhop", "repair", reason).result()
            except DriverError as error:
                self._fail(reservation, State.ACTIVE, f"no longer in place: {error}")
        for id_ in renewed:
            self._counting.renew(id_)
        for name in found.keys() - wanted.keys():
            if _number(name) in busy or self._is_live(_number(name)):
                continue
            try:
                device.remove(name)
            except DriverError:
                continue  # the next look finds it again

    def _is_live(self, id_: int) -> bool:
        """Whether a reservation is active, or may be by now."""
        try:
            return self.service.reservation(id_).state.is_live
        except ReservationError:
            return False


class _Only:
    """Nothing else is done for a reservation meanwhile."""

    def __init__(self, busy: set[int], lock: threading.Lock, id_: int, patience: float) -> None:
        self._busy, self._lock, self._id, self._patience = busy, lock, id_, patience

    def __enter__(self) -> None:
        until = time.monotonic() + self._patience
        while time.monotonic() < until:
            with self._lock:
                if self._id not in self._busy:
                    self._busy.add(self._id)
                    return
            time.sleep(0.01)
        raise UnavailableError(f"reservation {self._id} is busy; try again")

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._busy.discard(self._id)


def _number(name: str) -> int:
    """The reservation that a rule is of; 0 for a name that is none."""
    number = name.removeprefix("perhop_").removesuffix("_back")
    return int(number) if number.isdigit() else 0
