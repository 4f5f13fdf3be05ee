"""What this process may do.

Engines with real hosts need network namespaces. A user who may not make them has a user namespace
instead, which a process can enter only while it has one thread: before Polars, which has several,
is imported. So this is a module of its own, which imports next to nothing.
"""

from __future__ import annotations

from typing import Final

from perhop._core import Namespaces
from perhop.errors import UnsupportedError

__all__ = ["REAL_ENGINES", "enable"]

REAL_ENGINES: Final = frozenset({"emu", "kernel"})
"""The engines whose hosts are network namespaces."""


def enable() -> None:
    """See to it that this process may make network namespaces.

    Raises:
        UnsupportedError: If neither its user may, nor a user namespace can be entered.
    """
    try:
        Namespaces.enable()
    except OSError as error:
        raise UnsupportedError(str(error)) from None
