"""Reading configurations of VyOS, in braces and in `set` commands."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

from perhop.routers.reading.configuration import AS_STATED

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perhop.routers.reading.configuration import Configuration, Source

__all__ = ["read"]


def read(texts: Sequence[Source], rates: Mapping[str, int] = AS_STATED) -> Configuration:
    """Return the policies of a router with VyOS.

    Args:
        texts: The configuration.
        rates: Rates of interfaces in bit/s in place of its own, as for `detect.read`.
    """
    from perhop.routers.reading.vyos import reader

    collects = gc.isenabled()
    gc.disable()  # Many objects, no cycles: collections would take half of the time.
    try:
        return reader.read(texts, rates)
    finally:
        if collects:
            gc.enable()
