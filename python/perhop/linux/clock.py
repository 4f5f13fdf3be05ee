"""The system clock: whether the kernel counts it as synchronised, and the program that sets it."""

from __future__ import annotations

import ctypes
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

__all__ = ["Clock", "system_clock"]

_STA_UNSYNC: Final = 0x0040
_TIME_ERROR: Final = 5

_PROGRAMS: Final = {
    "ptp4l": "PTP",
    "phc2sys": "PTP",
    "ptpd": "PTP",
    "timemaster": "PTP",
    "chronyd": "NTP",
    "ntpd": "NTP",
    "ntpsec": "NTP",
    "openntpd": "NTP",
    "systemd-timesyn": "NTP",  # the kernel keeps 15 characters of a name
}
"""The programs that set a clock, with the protocol by which they do."""


class _Timex(ctypes.Structure):
    """`struct timex` of adjtimex(2)."""

    _fields_ = (
        ("modes", ctypes.c_uint),
        ("offset", ctypes.c_long),
        ("freq", ctypes.c_long),
        ("maxerror", ctypes.c_long),
        ("esterror", ctypes.c_long),
        ("status", ctypes.c_int),
        ("constant", ctypes.c_long),
        ("precision", ctypes.c_long),
        ("tolerance", ctypes.c_long),
        ("time", ctypes.c_long * 2),
        ("tick", ctypes.c_long),
        ("ppsfreq", ctypes.c_long),
        ("jitter", ctypes.c_long),
        ("shift", ctypes.c_int),
        ("stabil", ctypes.c_long),
        ("jitcnt", ctypes.c_long),
        ("calcnt", ctypes.c_long),
        ("errcnt", ctypes.c_long),
        ("stbcnt", ctypes.c_long),
        ("tai", ctypes.c_int),
        ("reserved", ctypes.c_int * 11),
    )


@dataclass(frozen=True, slots=True)
class Clock:
    """The state of the system clock (adjtimex(2), ntp_adjtime(3)).

    Attributes:
        synchronised: True if the kernel counts the clock as synchronised.
        most_error_us: The kernel's bound of the clock's error, in microseconds; it grows between
            two corrections. None without synchronisation.
        frequency_ppm: The present correction of the clock's frequency, in parts per million.
        programs: The running programs that set clocks, each with its protocol, by name.
    """

    synchronised: bool
    most_error_us: int | None
    frequency_ppm: float
    programs: dict[str, str]


def system_clock(proc: Path = Path("/proc")) -> Clock:
    """Return the state of the system clock.

    Args:
        proc: Where the processes are listed.

    Raises:
        OSError: The kernel does not tell.
    """
    read = _Timex()
    state = ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.byref(read))
    if state < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    synchronised = state != _TIME_ERROR and not read.status & _STA_UNSYNC
    return Clock(
        synchronised=synchronised,
        most_error_us=read.maxerror if synchronised else None,
        frequency_ppm=read.freq / 65536,
        programs=_programs(proc),
    )


def _programs(proc: Path) -> dict[str, str]:
    found: dict[str, str] = {}
    for process in proc.glob("[0-9]*/comm"):
        try:
            name = process.read_text(encoding="utf-8", errors="replace").strip()
        except OSError:  # it has just ended
            continue
        if name in _PROGRAMS:
            found[name] = _PROGRAMS[name]
    return dict(sorted(found.items()))
