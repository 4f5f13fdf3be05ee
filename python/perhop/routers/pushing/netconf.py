"""A NETCONF session (RFC 6241) over SSH (RFC 6242), on `ncclient`.

Replies are bounded in time and size, and have no document type. A session has a lock on the
candidate configuration from `edit` on.
"""

from __future__ import annotations

import threading
import time
import xml.etree.ElementTree as ElementTree
from contextlib import suppress
from io import BytesIO
from typing import TYPE_CHECKING, Any, Final, Self

from ncclient.capabilities import Capabilities
from ncclient.devices.default import DefaultDeviceHandler
from ncclient.manager import Manager
from ncclient.operations import OperationError, RaiseMode, RPCError
from ncclient.transport.errors import TransportError
from ncclient.transport.parser import DefaultXMLParser
from ncclient.transport.session import Session as NcclientSession

from perhop.printable import printable
from perhop.routers.pushing.errors import PushError

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from xml.etree.ElementTree import Element

    import paramiko

    from perhop.routers.pushing.target import Target

__all__ = ["MAX_REPLY", "Router"]

MAX_REPLY: Final = 2**23
"""The most that is taken from a router after each request, in bytes."""

_BLOCK: Final = 2**16
_CAPABILITY: Final = "urn:ietf:params:netconf:capability:"
_SETTLED_S: Final = 0.1


class _HostileError(TransportError):  # type: ignore[misc]
    """A message that is not taken."""


class _Session(NcclientSession):  # type: ignore[misc]
    """ncclient's session on a channel of ours, with a limit on what a router sends."""

    def __init__(self, client: paramiko.SSHClient, channel: Any, timeout: float) -> None:
        handler = DefaultDeviceHandler({"name": "default"})
        super().__init__(Capabilities(handler.get_capabilities()))
        self._client = client
        self._channel = channel
        self._buffer = BytesIO()
        self._device_handler = handler
        self._message_list: list[str] = []
        self._closing = threading.Event()
        self._taken = 0
        self._host = "router"
        self.parser = DefaultXMLParser(self)
        self._connected = True
        self._post_connect(timeout)

    def _dispatch_message(self, raw: str) -> None:
        if "<!DOCTYPE" in raw or "<!ENTITY" in raw:
            raise _HostileError("it sends a document type, which NETCONF forbids")
        super()._dispatch_message(raw)

    def _transport_read(self) -> bytes:
        data: bytes = self._channel.recv(_BLOCK)
        self._taken += len(data)
        if self._taken > MAX_REPLY:
            raise _HostileError(f"it sends more than {MAX_REPLY:,} bytes for one request")
        return data

    def _transport_write(self, data: bytes) -> int:
        self._taken = 0
        sent: int = self._channel.send(data)
        return sent

    def _transport_register(self, selector: Any, event: int) -> None:
        selector.register(self._channel, event)

    def _send_ready(self) -> bool:
        ready: bool = self._channel.send_ready()
        return ready

    def close(self) -> None:
        """End the session and its connection; its thread ends with them."""
        self._closing.set()
        self._connected = False
        self._client.close()
        if self.is_alive() and self is not threading.current_thread():
            self.join(10)


class Router:
    """A router in a NETCONF session. Every method raises `PushError` if the router refuses.

    Attributes:
        target: The router.
        timeout: The longest wait for a reply, in seconds.
    """

    def __init__(self, client: paramiko.SSHClient, target: Target, timeout: float) -> None:
        """Begin a session on a connection, which ends with it."""
        self.target = target
        self.timeout = timeout
        try:
            transport = client.get_transport()
            assert transport is not None
            channel = transport.open_session(timeout=timeout)
            channel.settimeout(timeout)
            channel.invoke_subsystem("netconf")
            self._session = _Session(client, channel, timeout)
        except Exception as error:
            client.close()
            raise PushError(
                f"{target}: no NETCONF session: {_said(error)}; expected a router with NETCONF "
                "over SSH enabled"
            ) from None
        self._manager = Manager(
            self._session, DefaultDeviceHandler({"name": "default"}), timeout=timeout
        )
        self._manager.raise_mode = RaiseMode.ERRORS

    def __enter__(self) -> Self:
        """Return the router."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End the session and the connection."""
        with suppress(Exception):
            if self._manager.connected:
                self._manager.timeout = min(self.timeout, 5)
                self._manager.close_session()
        self.drop()

    def drop(self) -> None:
        """End the connection without a word."""
        self._session.close()

    def has(self, name: str, *versions: str) -> bool:
        """Return whether the router has a capability, in one of some versions."""
        return any(
            uri.partition("?")[0] == f"{_CAPABILITY}{name}:{version}"
            for uri in self._manager.server_capabilities
            for version in versions
        )

    def configuration(self, datastore: str, wanted: str) -> Element | None:
        """Return a part of a configuration without namespaces; None if there is nothing.

        Args:
            datastore: ``running`` or ``candidate``.
            wanted: The part, as the XML of a subtree filter (RFC 6241, 6); its root is that of the
                configuration.
        """
        root = ElementTree.fromstring(wanted).tag.rpartition("}")[2]
        reply = self._ask(
            f"does not tell its {datastore} configuration",
            lambda: self._manager.get_config(datastore, ("subtree", wanted)),
        )
        try:
            data = ElementTree.fromstring(str(reply.data_xml))
        except ElementTree.ParseError as error:
            raise PushError(f"{self.target}: sends malformed XML: {error}") from None
        inside = _plain(data).find(root)
        return inside if inside is not None and len(inside) else None

    def lock(self) -> None:
        """Lock the candidate configuration, which must equal the running one."""
        self._ask(
            "does not lock its candidate configuration", lambda: self._manager.lock("candidate")
        )

    def unlock(self) -> None:
        """Release the lock."""
        self._ask("does not unlock", lambda: self._manager.unlock("candidate"))

    def edit(self, edited: str) -> None:
        """Change the candidate configuration."""
        config = f'<config xmlns="urn:ietf:params:xml:ns:netconf:base:1.0">{edited}</config>'
        self._ask(
            "refuses the policy",
            lambda: self._manager.edit_config(
                config, target="candidate", default_operation="merge"
            ),
        )

    def validate(self) -> None:
        """Have the router check the candidate configuration, if it can."""
        if self.has("validate", "1.0", "1.1"):
            self._ask("finds the policy not valid", lambda: self._manager.validate("candidate"))

    def discard(self) -> None:
        """Drop the changes of the candidate configuration."""
        self._ask("keeps the candidate", self._manager.discard_changes)

    def commit(self, seconds: int) -> None:
        """Apply the candidate; the router undoes this unless `confirm` follows in time."""
        self._ask(
            "does not commit the policy",
            lambda: self._manager.commit(confirmed=True, timeout=str(seconds)),
        )

    def confirm(self) -> None:
        """Keep what was committed."""
        self._ask("does not confirm the commit", self._manager.commit)

    def cancel(self) -> bool:
        """Undo an unconfirmed commit; return False if the router can only do so by itself."""
        if not self.has("confirmed-commit", "1.1"):
            return False
        self._ask("does not cancel the commit", self._manager.cancel_commit)
        return True

    def _ask(self, failed: str, call: Callable[[], Any]) -> Any:
        began = time.monotonic()
        try:
            return call()
        except RPCError as error:
            raise PushError(f"{self.target}: {failed}: {_of_rpc(error)}") from None
        except (OperationError, TransportError, OSError, EOFError) as error:
            reason = _said(error)
            if time.monotonic() - began >= self.timeout - _SETTLED_S:
                reason = f"no reply within {self.timeout:g} s"
            raise PushError(f"{self.target}: {failed}: {reason}") from None


def _of_rpc(error: Any) -> str:
    """Return what an `rpc-error` says (RFC 6241, 4.3): the first one, if there are several."""
    first = (error.errlist or [error])[0]
    tag, path = first.tag or "", " ".join((first.path or "").split())[:300]
    said = " ".join((first.message or tag or "no reason").split())
    text = said if len(said) <= 500 else f"{said[:499]}…"
    text += f" ({tag})" if tag not in ("", said) else ""
    if tag == "lock-denied":
        text += (
            "; another session changes this router, or has changes that are not committed: "
            "try again after it"
        )
    elif path:
        text += f" at {path}"
    return printable(text)


def _said(error: BaseException) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return printable(text if len(text) <= 300 else f"{text[:299]}…")


def _plain(element: Element) -> Element:
    """Return an element without namespaces, attributes, and what the router has deactivated."""
    copied = ElementTree.Element(element.tag.rpartition("}")[2])
    copied.text = element.text
    for each in element:
        if isinstance(each.tag, str) and each.get("inactive") != "inactive":
            copied.append(_plain(each))
    return copied
