"""A TCP forwarder on loopback whose connections turn into black holes."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress


class Forwarder:
    """Forwards to PostgreSQL's Unix socket, until it forgets what is connected.

    A forgotten connection stays open at both ends, and nothing passes: as behind a firewall that
    lost its state and drops silently. New connections work.
    """

    def __init__(self, unix: str) -> None:
        self._unix = unix
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._sockets: list[socket.socket] = []
        self._forgotten: set[socket.socket] = set()
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def forget(self) -> None:
        """Turn all present connections into black holes."""
        self._forgotten.update(self._sockets)

    def cut(self) -> None:
        """End all present connections."""
        for each in self._sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()
        self.cut()
        for each in self._sockets:
            each.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.socket(socket.AF_UNIX)
                self._sockets += [client, server]
                try:
                    server.connect(self._unix)
                except OSError:
                    client.shutdown(socket.SHUT_RDWR)
                    continue
                for pair in ((client, server), (server, client)):
                    threading.Thread(target=self._forward, args=pair, daemon=True).start()

    def _forward(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                if source not in self._forgotten:
                    sink.sendall(data)
        if source not in self._forgotten:
            with suppress(OSError):
                sink.shutdown(socket.SHUT_WR)


@contextmanager
def forwarder(url: str) -> Iterator[tuple[Forwarder, str]]:
    """A forwarder to the server of a URL with `unix_sock`, and the URL through it."""
    running = Forwarder(url.partition("unix_sock=")[2])
    try:
        yield running, f"postgresql://perhop@127.0.0.1:{running.port}/postgres"
    finally:
        running.close()
