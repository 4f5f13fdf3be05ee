"""What makes routers do what was booked: a small protocol, and a driver for each kind of router."""

from perhop_services.reservations.drivers.protocol import (
    Counters,
    Driver,
    DriverError,
    RefusedError,
    Rule,
    Setting,
)
from perhop_services.reservations.drivers.registry import driver

__all__ = ["Counters", "Driver", "DriverError", "RefusedError", "Rule", "Setting", "driver"]
