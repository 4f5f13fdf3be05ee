"""A server: an application at an address, within limits."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import uvicorn

from perhop_services.common.http.connections import MOST, limited

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable
    from pathlib import Path

    from fastapi import FastAPI


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
    """Run a server until it is asked to end.

    Args:
        server: The server.
        listening: Called with the port when the address takes connections.
    """
    startup = server.startup

    async def start(sockets: list[socket.socket] | None = None) -> None:
        await startup(sockets)
        if server.started:
            listening(server.servers[0].sockets[0].getsockname()[1])

    server.startup = start  # type: ignore[method-assign]
    server.run()
