"""Calls that a worker of a cluster makes, one after the other."""

from __future__ import annotations

import pickle
import signal
import socket
import time
from functools import cache
from importlib.metadata import version

from perhop.errors import ClusterError, PerhopError

__all__ = ["here", "make"]


@cache
def here() -> str:
    """Return the version of perhop of this process."""
    return version("perhop")


def make(expected: str, pickled: bytes) -> bytes:
    """Make calls, and return their results.

    Args:
        expected: The version of perhop of the command that asks.
        pickled: A function, and the arguments of each call.

    Returns:
        The seconds that the calls took, and the result of each. The last is an error if a call
        raised one: no further call was made then.

    Raises:
        ClusterError: This worker has another version of perhop.
    """
    if here() != expected:
        raise ClusterError(
            f"the worker on {socket.gethostname()} has perhop {here()}, and this command "
            f"{expected}: install the same version on both"
        )
    # A local cluster is started with signals blocked; programs that runs start are ended by this.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    function, arguments = pickle.loads(pickled)
    began = time.perf_counter()
    results: list[object] = []
    for each in arguments:
        try:
            results.append(function(*each))
        except PerhopError as error:
            results.append(Failed(error))
            break
    return pickle.dumps((time.perf_counter() - began, results), pickle.HIGHEST_PROTOCOL)


class Failed:
    """The error that a call raised, in the place of its result."""

    def __init__(self, error: PerhopError) -> None:
        """Keep the error."""
        self.error = error
