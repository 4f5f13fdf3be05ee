"""The right to create network namespaces.

Engines with real hosts need network namespaces. A user without that right creates a user namespace
first, which a process can do only while it has one thread: before importing Polars, which starts
several. Therefore this is a module that imports next to nothing.
"""

from __future__ import annotations

from typing import Final

from perhop._core import Namespaces
from perhop.errors import UnsupportedError

__all__ = ["REAL_ENGINES", "enable"]

REAL_ENGINES: Final = frozenset({"emu", "kernel"})
"""The engines whose hosts are network namespaces."""


def enable() -> None:
    """Enable this process to create network namespaces.

    Raises:
        UnsupportedError: The user may neither do so nor create a user namespace.
    """
    try:
        Namespaces.enable()
    except OSError as error:
        raise UnsupportedError(str(error)) from None
