"""Coroutines in functions that wait for them."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine

__all__ = ["result_of"]

_R = TypeVar("_R")


def result_of(coroutine: Coroutine[Any, Any, _R]) -> _R:
    """Return the result of a coroutine, or raise its error."""
    with ThreadPoolExecutor(1) as other:  # because notebooks have a loop in this thread
        return other.submit(asyncio.run, coroutine).result()
