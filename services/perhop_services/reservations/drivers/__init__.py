"""Drivers, which enforce reservations on routers: a protocol, and a driver per kind of router."""

from perhop_services.reservations.drivers.protocol import (
    Driver,
    DriverError,
    NotCountedError,
    PolicerCounters,
    RefusedError,
    Rule,
    Setting,
)
from perhop_services.reservations.drivers.registry import driver

__all__ = [
    "Driver",
    "DriverError",
    "NotCountedError",
    "PolicerCounters",
    "RefusedError",
    "Rule",
    "Setting",
    "driver",
]
