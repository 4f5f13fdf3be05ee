"""A PostgreSQL server of the tests' own, on a socket in a folder; gone when they are over."""

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tools import missing


def _programs() -> Path | None:
    """The newest version's programs; Debian keeps them off the path."""
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda p: p.parts[4])
    if versions:
        return versions[-1].parent
    found = shutil.which("initdb")
    return Path(found).parent if found else None


@dataclass(frozen=True)
class Server:
    """A server that can be stopped, with all its connections, and started again."""

    url: str
    port: int
    start: Callable[[], None]
    stop: Callable[[], None]


@contextmanager
def server() -> Iterator[str]:
    """The URL of an empty database. Skips the test where there is no PostgreSQL, except in CI."""
    with restartable() as running:
        yield running.url


@contextmanager
def restartable(tls: tuple[Path, Path] | None = None) -> Iterator[Server]:
    """A server with an empty database; with a certificate and its key also on loopback."""
    programs = _programs()
    if programs is None:
        missing("postgres")
    # PostgreSQL does not run as root.
    user = "postgres" if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name
    who = pwd.getpwnam(user)
    folder = Path(tempfile.mkdtemp(prefix="perhop-postgres-"))
    os.chown(folder, who.pw_uid, who.pw_gid)
    switch = (
        {"user": who.pw_uid, "group": who.pw_gid, "extra_groups": []} if os.geteuid() == 0 else {}
    )

    def call(*arguments: str) -> None:
        subprocess.run(arguments, check=True, capture_output=True, timeout=60, cwd=folder, **switch)

    try:
        data, initdb = str(folder / "data"), str(programs / "initdb")
        call(initdb, "-D", data, "-U", "perhop", "-A", "trust", "-E", "UTF8", "--no-locale", "-N")
        options = f"-k {folder} -h '' -c shared_buffers=32MB -c max_connections=40"
        port = 5432
        if tls is not None:
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                port = free.getsockname()[1]
            for source, name in zip(tls, ("server.crt", "server.key"), strict=True):
                shutil.copy(source, folder / "data" / name)
                os.chown(folder / "data" / name, who.pw_uid, who.pw_gid)
                (folder / "data" / name).chmod(0o600)
            options = options.replace("-h ''", f"-h localhost -p {port} -c ssl=on")
        control = str(programs / "pg_ctl")
        log = str(folder / "log")

        def start() -> None:
            call(control, "-D", data, "-w", "-t", "60", "-l", log, "-o", options, "start")

        def stop() -> None:
            call(control, "-D", data, "-m", "immediate", "-w", "stop")

        start()
        try:
            url = f"postgresql://perhop@/postgres?unix_sock={folder}/.s.PGSQL.{port}"
            yield Server(url, port, start, stop)
        finally:
            with suppress(subprocess.CalledProcessError):  # a test may have stopped it
                stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
