"""Reading configurations of VyOS, in braces and in `set` commands."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perhop.routers.reading.configuration import Configuration, Source

__all__ = ["read"]


def read(texts: Sequence[Source]) -> Configuration:
    """Return the policies of a router with VyOS."""
    from perhop.routers.reading.vyos import reader

    collects = gc.isenabled()
    gc.disable()  # Many objects, no cycles: collections would take half of the time.
    try:
        return reader.read(texts)
    finally:
        if collects:
            gc.enable()
