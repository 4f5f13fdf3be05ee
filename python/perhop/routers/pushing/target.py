"""The address of a router."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal
from urllib.parse import urlsplit

from perhop.errors import UsageError
from perhop.units import quote

Scheme = Literal["netconf", "ssh"]

_PORTS: Final[dict[str, int]] = {"netconf": 830, "ssh": 22}
_HOST: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,252}[A-Za-z0-9])?|[0-9A-Fa-f:.]{2,45}")
_USER: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@+-]{0,63}")


@dataclass(frozen=True, slots=True)
class Target:
    """A router, and the user to log in as.

    Attributes:
        scheme: The protocol.
        user: The name of the user.
        host: A name or an address.
        port: The TCP port.
    """

    scheme: Scheme
    user: str
    host: str
    port: int

    def __str__(self) -> str:
        """Return ``SCHEME://USER@HOST:PORT``."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{self.user}@{host}:{self.port}"


def target(text: str) -> Target:
    """Return the router of a URL such as ``netconf://admin@r1.example.net:830``.

    Raises:
        UsageError: If it is malformed, or contains a password.
    """
    expected = "expected netconf://USER@HOST[:PORT] or ssh://USER@HOST[:PORT]"
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise UsageError(f"--push: {_without_password(text)} is no address; {expected}") from None
    shown = _without_password(text)
    if parts.password is not None:
        raise UsageError(
            f"--push: {shown} contains a password, which other users of this machine can see in "
            "the list of processes; use a key, an SSH agent or --ask-password"
        )
    if parts.scheme not in _PORTS or parts.path.strip("/") or parts.query or parts.fragment:
        raise UsageError(f"--push: {shown} is no address; {expected}")
    user, host = parts.username or "", parts.hostname or ""
    if not _USER.fullmatch(user):
        raise UsageError(f"--push: {shown} has no valid user; {expected}")
    if not _HOST.fullmatch(host) or port == 0:
        raise UsageError(f"--push: {shown} has no valid host and port; {expected}")
    scheme: Scheme = "netconf" if parts.scheme == "netconf" else "ssh"
    return Target(scheme, user, host, port or _PORTS[scheme])


def _without_password(text: str) -> str:
    return quote(re.sub(r":[^/@]*@", ":…@", text), 80)
