"""SSH connections to routers.

The host key must be known, as OpenSSH's client demands by default: a router that is not in
`known_hosts`, or has another key there, gets neither a password nor a policy.
"""

from __future__ import annotations

import logging
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

from perhop.errors import UnsupportedError
from perhop.routers.pushing.errors import PushError

if TYPE_CHECKING:
    import paramiko

    from perhop.routers.pushing.target import Target

SYSTEM_KNOWN_HOSTS: Final = Path("/etc/ssh/ssh_known_hosts")


def need_libraries() -> None:
    """Check that the optional libraries are installed, and keep them from printing.

    Raises:
        UnsupportedError: If one is missing.
    """
    try:
        import ncclient  # noqa: F401
        import paramiko  # noqa: F401
    except ImportError as error:
        raise UnsupportedError(
            f"--push needs {error.name or 'ncclient'}; expected: pip install 'perhop[push]'"
        ) from None
    for name in ("paramiko", "ncclient"):
        # They would print to standard error what the errors below say, with tracebacks.
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)


def connect(
    target: Target,
    *,
    key: str | None = None,
    password: str | None = None,
    known_hosts: str | None = None,
    timeout: float,
) -> paramiko.SSHClient:
    """Return a connection to a router, authenticated on both sides.

    Args:
        target: The router.
        key: A file with the private key; by default the keys of the agent and of `~/.ssh`.
        password: The password of the user, or of the key.
        known_hosts: A file with host keys instead of `~/.ssh/known_hosts`.
        timeout: The longest wait for each of its steps, in seconds.

    Raises:
        PushError: If a step fails; the message has the reason and a remedy.
    """
    import paramiko

    class Refuse(paramiko.MissingHostKeyPolicy):  # type: ignore[misc]
        """Refuses routers whose host key is unknown."""

        def missing_host_key(
            self,
            client: paramiko.SSHClient,  # noqa: ARG002
            hostname: str,  # noqa: ARG002
            key: paramiko.PKey,
        ) -> NoReturn:
            raise _UnknownKeyError(f"{key.get_name()} {key.fingerprint}")

    client = paramiko.SSHClient()
    client.set_missing_host_key_policy(Refuse())
    try:
        if SYSTEM_KNOWN_HOSTS.is_file():
            client.load_system_host_keys(str(SYSTEM_KNOWN_HOSTS))
        client.load_system_host_keys(known_hosts)
    except (OSError, paramiko.SSHException) as error:
        raise PushError(f"{target}: cannot read host keys: {error}") from None
    began = time.monotonic()
    try:
        client.connect(
            target.host,
            target.port,
            target.user,
            password=password,
            key_filename=key,
            allow_agent=key is None,
            look_for_keys=key is None,
            timeout=timeout,
            banner_timeout=timeout,
            auth_timeout=timeout,
            channel_timeout=timeout,
        )
    except _UnknownKeyError as error:
        client.close()
        raise PushError(
            f"{target}: its host key is unknown: {error}; compare it with the key that the router "
            f"shows on its console, and add it: ssh-keyscan -p {target.port} {target.host} "
            f">> {known_hosts or '~/.ssh/known_hosts'}"
        ) from None
    except paramiko.BadHostKeyException as error:
        client.close()
        raise PushError(
            f"{target}: its host key is {error.key.get_name()} {error.key.fingerprint}, but "
            f"{known_hosts or 'known_hosts'} has {error.expected_key.fingerprint}: the router has "
            "a new key, or this is another machine; nothing was sent to it"
        ) from None
    except paramiko.PasswordRequiredException:
        client.close()
        raise PushError(
            f"{target}: the private key has a passphrase; use an SSH agent or --ask-password"
        ) from None
    except paramiko.AuthenticationException:
        client.close()
        raise PushError(
            f"{target}: the router does not accept the user {target.user} with these keys; "
            "expected another --key, a key in the SSH agent, or --ask-password"
        ) from None
    except (paramiko.SSHException, OSError, EOFError, ValueError) as error:
        client.close()
        raise PushError(
            f"{target}: cannot connect: {_reason(error, time.monotonic() - began, timeout)}"
        ) from None
    return client


class _UnknownKeyError(Exception):
    """A host key that no file has."""


def _reason(error: Any, took: float, timeout: float) -> str:
    """Return the cause of a failed connection."""
    if isinstance(error, TimeoutError) or took >= timeout:
        return f"no answer within {timeout:g} s"
    for each in getattr(error, "errors", {}).values():
        return str(each.strerror or each)
    return str(getattr(error, "strerror", None) or error or type(error).__name__)
