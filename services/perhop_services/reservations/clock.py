"""The last time on file, with which the clock of a start is compared.

A service that believed a clock years ahead would end all reservations for good.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa

from perhop_services.common.errors import when
from perhop_services.common.schema import SERVICE
from perhop_services.common.steady import FURTHEST
from perhop_services.reservations.schema import LOG

if TYPE_CHECKING:
    from perhop_services.common.database import Database

_KEY = "clock"


def doubt(database: Database, now: int) -> str:
    """Return why the clock is not believed, and what to do; "" if it is."""
    with database.reading() as connection:
        noted = connection.scalar(sa.select(SERVICE.c.value).where(SERVICE.c.key == _KEY))
        entry = connection.scalar(sa.select(LOG.c.at).order_by(LOG.c.id.desc()).limit(1))
    last = int(noted) if noted is not None else entry
    if last is None or abs(now - last) <= FURTHEST:
        return ""
    return (
        f"the clock says {_when(now)}, and the last time on file is {_when(last)}: nothing is "
        "changed until the service is started again with the clock put right, or, if it is right, "
        "with --accept-clock"
    )


def remember(connection: sa.Connection, now: int) -> None:
    """Put the present time on file."""
    connection.execute(SERVICE.delete().where(SERVICE.c.key == _KEY))
    connection.execute(SERVICE.insert().values(key=_KEY, value=str(now)))


def _when(second: int) -> str:
    try:
        return when(second)
    except (ValueError, OverflowError, OSError):
        return f"{second} s since 1970"
