"""A server: an application at an address, within limits."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

import uvicorn

from perhop_services.common.http.connections import MOST, limited
from perhop_services.common.logs import LOG
from perhop_services.common.supervised import Supervised

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable
    from pathlib import Path
    from types import FrameType

    from fastapi import FastAPI


ENDING: Final = 9.0
"""Seconds after a signal within which a service has ended, whatever it waits for."""


@dataclass(frozen=True)
class Listening:
    """Addresses that a server listens on, and proxies that it trusts.

    Attributes:
        host: The address to listen at.
        port: The port; 0 for any.
        names: Names by which browsers may call it.
        certificate: The file of a certificate for TLS.
        key: The file of its private key.
        proxies: Addresses of proxies whose header `X-Forwarded-For` is believed.
    """

    host: str = "127.0.0.1"
    port: int = 8471
    names: frozenset[str] = field(default_factory=frozenset)
    certificate: Path | None = None
    key: Path | None = None
    proxies: tuple[str, ...] = ()


def server(app: FastAPI, at: Listening) -> uvicorn.Server:
    """Make a server that is ready to run."""
    config = uvicorn.Config(
        app,
        host=at.host,
        port=at.port,
        ssl_certfile=at.certificate,
        ssl_keyfile=at.key,
        access_log=False,
        log_config=None,
        log_level="warning",
        server_header=False,
        proxy_headers=bool(at.proxies),
        forwarded_allow_ips=list(at.proxies),
        http=limited(at.proxies),
        ws="none",
        backlog=MOST,
        timeout_graceful_shutdown=5,
    )
    return uvicorn.Server(config)


def run(server: uvicorn.Server, listening: Callable[[int], None]) -> None:
    """Run a server until a signal asks it to end; the process is gone `ENDING` seconds later.

    Args:
        server: The server.
        listening: Called with the port when the address takes connections.
    """
    startup = server.startup

    async def start(sockets: list[socket.socket] | None = None) -> None:
        await startup(sockets)
        if server.started:
            listening(server.servers[0].sockets[0].getsockname()[1])

    handle_exit, ending = server.handle_exit, list[Supervised]()

    def end(sig: int, frame: FrameType | None) -> None:
        ending.append(Supervised("perhop-ending", partial(_give_up, sig, time.monotonic()), 0.2))
        handle_exit(sig, frame)

    server.startup = start  # type: ignore[method-assign]
    server.handle_exit = end  # type: ignore[method-assign]
    server.run()


def _give_up(number: int, since: float) -> None:
    """End the process when its time is over. What is committed is on file, as without power."""
    if time.monotonic() - since < ENDING:
        return
    LOG.critical("parts of the service still wait %.0f s after signal %d; ended", ENDING, number)
    os._exit(128 + number)
