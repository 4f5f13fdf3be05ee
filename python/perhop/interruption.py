"""Handling of SIGINT (Ctrl-C) and SIGTERM.

A program inside `listening` gets one `KeyboardInterrupt`, for the first signal. Further signals are
only counted, so that they do not disturb the reaction to the first: saving, and waiting for other
processes. Code that must not be interrupted runs inside `undisturbed`. Long code there checks
`Heard.came`, because signals do not raise anything there.
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
    "Heard",
    "disturbed",
    "exit_code",
    "ignore",
    "listen_when_disturbed",
    "listening",
    "undisturbed",
]

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
"""Signals by which users and systems end a program."""

_PATIENCE: Final = 5
"""The signal that ends the program at once, whatever it does."""

_came: list[int] = []
"""The signals so far."""

_depth = 0
"""Number of nested `undisturbed` blocks that the program is in."""

_raised = False
"""True if an exception has told the program of the signal."""

_patient = True
"""True if the program may take any time, however many signals arrive."""


class Heard:
    """The signals since the beginning of an `undisturbed` block."""

    def __init__(self) -> None:
        """None have yet."""
        self._since = len(_came)

    @property
    def came(self) -> bool:
        """True if a signal has come that has not been answered."""
        return len(_came) > self._since

    def answer(self) -> None:
        """Mark all signals as answered: they raise nothing at the end of `undisturbed`."""
        self._since = len(_came)


@contextmanager
def listening() -> Iterator[None]:
    """Let SIGINT and SIGTERM raise `KeyboardInterrupt`, once; the fifth signal ends the program."""
    global _raised, _patient
    _came.clear()
    _raised = _patient = False
    before = [(number, signal.signal(number, _hear)) for number in SIGNALS]
    hook, sys.unraisablehook = sys.unraisablehook, _swallowed
    try:
        yield
    finally:
        _patient = True
        sys.unraisablehook = hook
        for number, handler in before:
            signal.signal(number, handler)


def listen_when_disturbed() -> None:
    """Let SIGINT and SIGTERM raise `KeyboardInterrupt` inside `disturbed` only."""
    global _depth
    _depth = 1
    for number in SIGNALS:
        signal.signal(number, _hear)


def ignore() -> None:
    """Ignore SIGINT and SIGTERM from now on, because the program ends anyway."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def exit_code() -> int:
    """Return the exit code of a program that was interrupted: 128 and the first signal's number."""
    return 128 + (_came[0] if _came else signal.SIGINT)


@contextmanager
def undisturbed() -> Iterator[Heard]:
    """Defer signals until the end of the block.

    Yields:
        The signals that have come meanwhile. `KeyboardInterrupt` follows at the end, unless they
            were
        answered.
    """
    global _depth
    heard = Heard()
    if threading.current_thread() is not threading.main_thread():
        yield heard  # which gets none
        return
    _depth += 1
    own = signal.getsignal(signal.SIGINT) is _hear
    # A program that does not listen, such as a notebook, has handlers of its own.
    before = [] if own else [(number, signal.signal(number, _hear)) for number in SIGNALS]
    try:
        yield heard
    finally:
        for number, handler in before:
            signal.signal(number, handler)
        _depth -= 1
        if not _depth and heard.came:
            if own:
                _raise()
            else:
                for late in _came[heard._since :]:
                    signal.raise_signal(late)


@contextmanager
def disturbed() -> Iterator[None]:
    """Let signals raise `KeyboardInterrupt`, once, inside an `undisturbed` block."""
    global _depth, _raised
    depth, _depth, _raised = _depth, 0, False
    try:
        yield
    finally:
        _depth = depth


def _hear(number: int, _frame: object) -> None:
    _came.append(number)
    if len(_came) >= _PATIENCE and not _patient:
        os._exit(128 + number)
    if not _depth:
        _raise()


def _raise() -> None:
    global _raised
    if not _raised:
        _raised = True
        raise KeyboardInterrupt


def _swallowed(unraisable: sys.UnraisableHookArgs) -> None:
    """Send a signal again that came where nothing can be raised, as in a weakref's callback."""
    global _raised
    if not isinstance(unraisable.exc_value, KeyboardInterrupt) or not _came:
        sys.__unraisablehook__(unraisable)
        return
    _raised = False
    again = threading.Timer(0.01, os.kill, (os.getpid(), _came[0]))
    again.daemon = True
    again.start()
