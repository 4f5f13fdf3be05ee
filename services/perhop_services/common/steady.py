"""A clock that a jump of the system's does not lead astray."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Final

from perhop_services.common.logs import LOG

if TYPE_CHECKING:
    from collections.abc import Callable

LEEWAY: Final = 10.0
"""Seconds by which the system's clock may be put at once, and be followed."""

TRIAL: Final = 60.0
"""Seconds after which a clock that has jumped further is believed."""


FURTHEST: Final = 86_400.0
"""Seconds by which a clock may jump and be believed without a human."""


class SteadyClock:
    """Seconds since 1970 by the system's clock, which is followed where it does not jump.

    A clock that jumps goes on meanwhile as it was, by the time since the machine was started. So
    what is planned neither fails nor ends when the clock is wrong for a moment.
    """

    def __init__(
        self,
        wall: Callable[[], float] = time.time,
        since_boot: Callable[[], float] = lambda: time.clock_gettime(time.CLOCK_BOOTTIME),
    ) -> None:
        """Take the system's clock, and one that only ever goes on."""
        self._wall, self._since_boot = wall, since_boot
        self._offset = wall() - since_boot()
        self._jumped: tuple[float, float] | None = None
        """Time of the last jump of the clock, and its offset since."""
        self._lock = threading.Lock()

    def __call__(self) -> float:
        """The time in seconds since 1970."""
        with self._lock:
            now = self._since_boot()
            offset = self._wall() - now
            if abs(offset - self._offset) <= LEEWAY:
                self._offset, self._jumped = offset, None
            elif self._jumped is None or abs(offset - self._jumped[1]) > LEEWAY:
                self._jumped = (now, offset)
                LOG.error("the clock jumped by %.0f s; perhop waits", offset - self._offset)
            elif abs(offset - self._offset) <= FURTHEST and now - self._jumped[0] >= TRIAL:
                LOG.error("the clock stays %.0f s off; followed", offset - self._offset)
                self._offset, self._jumped = offset, None
            return now + self._offset
