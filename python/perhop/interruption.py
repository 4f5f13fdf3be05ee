"""Handling of SIGINT (Ctrl-C) and SIGTERM.

A program inside `listening` gets one `KeyboardInterrupt`, for the first signal. Further signals are
only counted, so that they do not disturb the reaction to the first: saving, and waiting for other
processes. Code that must not be interrupted runs inside `uninterruptible`. Long code there checks
`DeferredSignals.came`, because signals do not raise anything there.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "SIGNALS",
    "DeferredSignals",
    "exit_code",
    "ignore",
    "interruptible",
    "listen_when_interruptible",
    "listening",
    "uninterruptible",
]

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
"""Signals by which users and systems end a program."""

_MAX_SIGNALS: Final = 5
"""The signal that ends the program at once, whatever it does."""

_received: list[int] = []
"""The signals so far."""

_depth = 0
"""Number of nested `uninterruptible` blocks that the program is in."""

_raised = False
"""True if an exception has told the program of the signal."""

_unlimited = True
"""True if the program may take any time, however many signals arrive."""


class DeferredSignals:
    """The signals since the beginning of an `uninterruptible` block."""

    def __init__(self) -> None:
        """Begin without signals."""
        self._since = len(_received)

    @property
    def came(self) -> bool:
        """True if a signal has arrived and was not answered."""
        return len(_received) > self._since

    def answer(self) -> None:
        """Mark all signals as answered: they raise nothing at the end of `uninterruptible`."""
        self._since = len(_received)


@contextmanager
def listening() -> Iterator[None]:
    """Let SIGINT and SIGTERM raise `KeyboardInterrupt`, once; the fifth signal ends the program."""
    global _raised, _unlimited
    _received.clear()
    _raised = _unlimited = False
    before = [(number, signal.signal(number, _on_signal)) for number in SIGNALS]
    hook, sys.unraisablehook = sys.unraisablehook, _on_unraisable
    try:
        yield
    finally:
        _unlimited = True
        sys.unraisablehook = hook
        for number, handler in before:
            signal.signal(number, handler)


def listen_when_interruptible() -> None:
    """Let SIGINT and SIGTERM raise `KeyboardInterrupt` inside `interruptible` only."""
    global _depth
    _depth = 1
    for number in SIGNALS:
        signal.signal(number, _on_signal)


def ignore() -> None:
    """Ignore SIGINT and SIGTERM from now on, because the program ends anyway."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def exit_code() -> int:
    """Return the exit code of a program that was interrupted: 128 and the first signal's number."""
    return 128 + (_received[0] if _received else signal.SIGINT)


@contextmanager
def uninterruptible() -> Iterator[DeferredSignals]:
    """Defer signals until the end of the block.

    Yields:
        The signals that arrive in the block. `KeyboardInterrupt` follows at its end, unless they
            were answered.
    """
    global _depth
    signals = DeferredSignals()
    if threading.current_thread() is not threading.main_thread():
        yield signals  # which gets none
        return
    _depth += 1
    own = signal.getsignal(signal.SIGINT) is _on_signal
    # A program that does not listen, such as a notebook, has handlers of its own.
    before = [] if own else [(number, signal.signal(number, _on_signal)) for number in SIGNALS]
    try:
        yield signals
    finally:
        for number, handler in before:
            signal.signal(number, handler)
        _depth -= 1
        if not _depth and signals.came:
            if own:
                _raise()
            else:
                for late in _received[signals._since :]:
                    signal.raise_signal(late)


@contextmanager
def interruptible() -> Iterator[None]:
    """Let signals raise `KeyboardInterrupt`, once, inside an `uninterruptible` block."""
    global _depth, _raised
    depth, _depth, _raised = _depth, 0, False
    try:
        yield
    finally:
        _depth = depth


def _on_signal(number: int, _frame: object) -> None:
    _received.append(number)
    if len(_received) >= _MAX_SIGNALS and not _unlimited:
        os._exit(128 + number)
    if not _depth:
        _raise()


def _raise() -> None:
    global _raised
    if not _raised:
        _raised = True
        raise KeyboardInterrupt


def _on_unraisable(unraisable: sys.UnraisableHookArgs) -> None:
    """Send a signal again that arrived where none can be raised, as in a weakref's callback."""
    global _raised, _depth
    if not isinstance(unraisable.exc_value, KeyboardInterrupt) or not _received:
        sys.__unraisablehook__(unraisable)
        return
    _raised = False
    delay = 0.01
    while True:
        received = len(_received)
        again = threading.Timer(delay, os.kill, (os.getpid(), _received[0]))
        again.daemon = True
        # On a busy machine the signal may arrive before `start` returns, where it cannot be raised
        # either.
        _depth += 1
        try:
            again.start()
        finally:
            _depth -= 1
        if len(_received) == received:
            return
        delay *= 4
