"""Kinds of clusters, by the texts that users give."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import ssl
from contextlib import ExitStack, closing, contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from perhop.cluster import kubernetes, ssh
from perhop.cluster.coroutines import result_of
from perhop.cluster.pool import Cluster, lost
from perhop.errors import ClusterError, UnsupportedError, UsageError
from perhop.hints import did_you_mean
from perhop.interruption import uninterruptible
from perhop.workers import cores, signals_blocked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType

__all__ = ["connect"]

_FORMS: Final = {
    "local": "local or local:WORKERS",
    "ssh": "ssh:HOST,HOST",
    "slurm": "slurm:WORKERS",
    "kubernetes": "kubernetes:WORKERS",
}
"""The kinds of clusters that are started, and end with the command."""

_SCHEMES: Final = ("tcp", "tls", "ws", "wss")
"""The protocols of existing schedulers."""

_CONNECT_S: Final = 5.0
"""The seconds within which a scheduler is to answer."""


def _quiet(_: object) -> None:
    """Ignore a message, or how to say one."""


@contextmanager
def connect(where: str, *, say: Callable[[str], None] = _quiet) -> Iterator[Cluster]:
    """Connect to a cluster, or start one that ends with the block.

    Whoever can talk to a scheduler of Dask can run any program on its workers and, by results, on
    this machine: connect to trusted ones only.

    Args:
        where: The address of a scheduler, such as ``tcp://10.0.0.1:8786``; or ``local``, processes
            of this machine, one for each core, or ``local:4``; ``ssh:HOST,HOST``, with the
            scheduler on the first; ``slurm:20`` or ``kubernetes:20``, so many workers as configured
            for Dask.
        say: A function for messages: the dashboard, and workers that come and go.

    Raises:
        UsageError: Unknown kind, or one without its hosts or its number of workers.
        UnsupportedError: A package is not installed; the message names it.
        ClusterError: The scheduler does not answer, or the cluster does not start.
    """
    kind, _, rest = where.partition(":")
    existing = kind in _SCHEMES and rest.startswith("//")
    start = None if existing else _starter(where)
    distributed = _package("distributed", "perhop[cluster]")
    with _silent(), ExitStack() as opened:
        # Signals are for this thread, never for those of Dask or for workers.
        with uninterruptible(), signals_blocked():
            if start is None:
                _find(where)
            cluster = where if start is None else opened.enter_context(_started(where, start))
            try:
                client = distributed.Client(cluster, timeout=_CONNECT_S, set_as_default=False)
            except (OSError, RuntimeError, ValueError) as error:
                raise lost(where) from error
            opened.enter_context(closing(client))
        address = client.scheduler.address
        if dashboard := client.dashboard_link:
            say(f"runs on {address}, dashboard: {dashboard}")
        yield Cluster(client, address, say, getattr(cluster, "look", _quiet))


def _find(where: str) -> None:
    """Check that a scheduler answers at an address.

    A `distributed.Client` would wait without end for some servers that are no scheduler, and print
    a traceback about those that do not answer.
    """
    secured = _secured(where)
    try:
        kind = result_of(asyncio.wait_for(_kind(where, secured), _CONNECT_S))
    except Exception as error:  # each server that is none makes another one
        if isinstance(error, ValueError) and "IOStream" not in str(error):
            raise UsageError(f"--cluster {where}: {error}; expected tcp://HOST:PORT") from error
        raise ClusterError(f"--cluster {where}: no scheduler of Dask: {_reason(error)}") from error
    if kind != "Scheduler":
        raise ClusterError(f"--cluster {where} is a {kind.lower()}; give its scheduler's address")


def _reason(error: BaseException) -> str:
    """Return why a server is no scheduler, and what to do."""
    root = error
    while root.__cause__ is not None:
        root = root.__cause__
    if isinstance(root, ssl.SSLCertVerificationError):
        return f"its certificate is not accepted: {root.verify_message}; {_TLS}"
    if isinstance(root, ssl.SSLEOFError) or "ALERT" in str(getattr(root, "reason", "")):
        return f"it does not accept the certificate of this command; {_TLS}"
    if isinstance(root, ConnectionResetError):
        return "it closes the connection; if it uses TLS, give tls://HOST:PORT"
    if isinstance(root, (ssl.SSLError, ValueError)):  # of what a server without TLS says first
        return "it does not use TLS; give tcp://HOST:PORT"
    waited = isinstance(error, TimeoutError)
    known = str(error) if isinstance(error, (OSError, TypeError)) else "an unknown answer"
    said = "no answer" if waited else known
    return f"{said}; start one with `dask scheduler`, or give the address of another"


_TLS: Final = "set distributed.comm.tls of Dask's configuration as for the scheduler"


def _secured(where: str) -> dict[str, Any]:
    """Return the options of connections by Dask's configuration.

    Raises:
        ClusterError: It has no usable certificates, or does not allow the protocol.
    """
    distributed: Any = import_module("distributed")  # which has no types
    security = distributed.Security()
    if where.partition(":")[0] in ("tls", "wss"):
        names = security.get_tls_config_for_role("client")
        for key, name in (("ca-file", "ca_file"), ("client.cert", "cert"), ("client.key", "key")):
            value = names[name]
            if value is None and name != "key":  # which the file of the certificate may have
                reason = f"Dask's configuration has no distributed.comm.tls.{key}"
                raise ClusterError(f"--cluster {where}: {reason}; {_TLS}")
            if value is not None and "\n" not in value and not os.access(value, os.R_OK):
                reason = f"distributed.comm.tls.{key}: cannot read {value}"
                raise ClusterError(f"--cluster {where}: {reason}; {_TLS}")
    elif security.require_encryption:
        reason = "Dask's configuration has distributed.comm.require-encryption"
        raise ClusterError(f"--cluster {where}: {reason}; give tls://HOST:PORT")
    try:
        secured: dict[str, Any] = security.get_connection_args("client")
    except OSError as error:
        reason = error.strerror or str(error)
        raise ClusterError(f"--cluster {where}: distributed.comm.tls: {reason}; {_TLS}") from error
    return secured


async def _kind(where: str, secured: dict[str, Any]) -> str:
    """Return what a process of Dask is."""
    distributed: Any = import_module("distributed")  # which has no types
    connected = distributed.core.rpc(where, timeout=_CONNECT_S, connection_args=secured)
    async with connected as asked:
        return str((await asked.identity())["type"])


def _started(where: str, start: Callable[[], Any]) -> closing[Any]:
    """Start a cluster, which the block closes."""
    try:
        return closing(start())
    except Exception as error:  # each kind has errors of its own
        reason = str(error) or type(error).__name__
        raise ClusterError(f"--cluster {where}: does not start: {reason}") from error


@contextmanager
def _silent() -> Iterator[None]:
    """Keep Dask from logging each connection that breaks: `Cluster` tells users once."""
    named = (name for name in logging.root.manager.loggerDict if name.startswith("distributed"))
    loggers = [logging.getLogger(name) for name in named]
    levels = [each.level for each in loggers]
    for each in loggers:
        each.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for each, level in zip(loggers, levels, strict=True):
            each.setLevel(level)


def _starter(where: str) -> Callable[[], Any]:
    """Return a function that starts a cluster."""
    kind, colon, rest = where.partition(":")
    number = int(rest) if rest.isascii() and rest.isdigit() else 0
    hosts = rest.split(",")
    if kind == "local" and (not colon or number):
        return lambda: _package("distributed", "perhop[cluster]").LocalCluster(
            n_workers=number or cores(),
            threads_per_worker=1,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
            silence_logs=logging.CRITICAL,
        )
    if kind == "ssh" and all(hosts):
        asyncssh = _package("asyncssh", "asyncssh")
        return lambda: ssh.start(hosts, asyncssh)
    if kind == "slurm" and number:
        before = signal.getsignal(signal.SIGINT)
        _package("dask_jobqueue", "dask-jobqueue")
        if signal.getsignal(signal.SIGINT) is not before:
            signal.signal(signal.SIGINT, before)  # dask_jobqueue would exit with code 0
        slurm = import_module("perhop.cluster.slurm")
        return lambda: slurm.start(number)
    if kind == "kubernetes" and number:
        operator = _package("dask_kubernetes.operator", "dask-kubernetes")
        return lambda: kubernetes.start(number, operator)
    hint = "" if kind in _FORMS else did_you_mean(kind, _FORMS)
    expected = _FORMS.get(kind, "tcp://HOST:PORT, " + ", ".join(_FORMS.values()))
    raise UsageError(f"--cluster {where}: {hint or f'expected {expected}'}")


def _package(module: str, package: str) -> ModuleType:
    """Return a module of a package that perhop does not need otherwise."""
    try:
        return import_module(module)
    except ImportError as error:
        raise UnsupportedError(f"--cluster needs {package}: pip install '{package}'") from error
