"""Errors that refuse a reservation."""

from __future__ import annotations

from perhop_services.common.errors import ConflictError


class RefusedError(ConflictError):
    """Not enough bandwidth. `detail` has the bottleneck, and the earliest possible start."""
