"""Why a reservation is refused."""

from __future__ import annotations

from perhop_services.common.errors import ConflictError


class RefusedError(ConflictError):
    """Too little is free. `detail` has what is in the way, and when there would be room."""
