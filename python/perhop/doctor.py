"""Features that this host has and lacks for each engine.

>>> from perhop import doctor
>>> [each.state for each in doctor.examine(["sim"])]
['ok']
"""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from perhop import rights
from perhop.errors import PerhopError, UnsupportedError, UsageError
from perhop.hints import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from perhop.scenario import Scenario

__all__ = ["SUBJECTS", "Check", "examine", "runs"]

State = Literal["ok", "limited", "missing"]


@dataclass(frozen=True, slots=True)
class Check:
    """The result of a check.

    Attributes:
        engine: The engine, or `agent` for an agent on this host.
        need: The property of the host that was checked.
        state: ``ok``; ``limited`` if the engine runs with less accuracy, or runs some scenarios
            only; ``missing`` if the engine cannot run.
        found: Result of the examination.
        remedy: Action to take; "" if none is needed, or `found` says it.
    """

    engine: str
    need: str
    state: State
    found: str
    remedy: str = ""


def examine(engines: Iterable[str] | None = None) -> list[Check]:
    """Check this host.

    The checks create network namespaces and devices, and remove them. As a user without the right
    to do so, call it in a process with one thread (see `perhop.rights`).

    Args:
        engines: Some of `SUBJECTS`, or live, each of whose hosts has an agent; all by default.

    Raises:
        UsageError: Unknown engine.
    """
    known = [*SUBJECTS, "live"]
    chosen = list(SUBJECTS if engines is None else engines)
    for name in chosen:
        if name not in known:
            hint = did_you_mean(name, known) or f"expected one of {', '.join(known)}"
            raise UsageError(f"{name!r} is not an engine; {hint}")
    if rights.REAL_ENGINES & set(chosen):
        _enable()
    subjects = dict.fromkeys("agent" if name == "live" else name for name in chosen)
    return [each for name in subjects for each in SUBJECTS[name]()]


def runs(checks: Iterable[Check]) -> bool:
    """Return whether nothing is missing."""
    return all(each.state != "missing" for each in checks)


def _enable() -> None:
    """Gain the right to create namespaces before any module starts threads."""
    with suppress(UnsupportedError):  # `_namespaces` reports it
        rights.enable()


def _sim() -> Iterator[Check]:
    yield Check("sim", "nothing", "ok", "the simulator needs nothing of the host")


def _emu() -> Iterator[Check]:
    namespaces = _namespaces("emu")
    yield namespaces
    if namespaces.state == "ok":
        yield _trial("emu", "TUN devices and sockets", delay="1 ms")
    yield _real_time("emu")


def _kernel() -> Iterator[Check]:
    namespaces = _namespaces("kernel")
    yield namespaces
    programs = _programs()
    yield programs
    if not namespaces.state == programs.state == "ok":
        return
    from perhop.linux import probe

    kernel = probe.this_kernel()
    for kind in ("htb", "pfifo", "bfifo"):
        if not kernel.has_qdisc(kind):
            yield Check("kernel", "queues", "missing", f"this kernel has no {kind}", _MODULES)
            return
    lacking = [kind for kind in probe.QUEUES if not kernel.has_qdisc(kind)]
    if lacking:
        found = f"this kernel has no {', '.join(lacking)}: scenarios with these are refused"
        yield Check("kernel", "queues", "limited", found, _MODULES)
    else:
        yield Check("kernel", "queues", "ok", f"htb, {', '.join(probe.QUEUES)}")
    lacking = [word.strip() for word, rule in probe.RULES.items() if not kernel.has_rule(rule)]
    if lacking:
        found = f"this kernel's nftables has no {', '.join(f'`{each}`' for each in lacking)}"
        yield Check("kernel", "rules", "limited", found, _MODULES)
    else:
        yield Check("kernel", "rules", "ok", "every expression of nftables that perhop uses")
    means = "tc's action police" if probe.polices() == "tc" else "limits of nftables"
    yield Check("kernel", "policers", "ok", means)
    lacking = [kind for kind in probe.DEVICES if not kernel.has_tunnel(kind)]
    if lacking:
        found = f"this kernel has no {', '.join(lacking)}: scenarios with these are refused"
        yield Check("kernel", "tunnels", "limited", found, _MODULES)
    else:
        yield Check("kernel", "tunnels", "ok", ", ".join(probe.DEVICES))
    yield _trial("kernel", "veth devices and sockets", delay="0 s")
    yield _trial("kernel", "TUN devices", delay="1 ms")
    yield _real_time("kernel")


def _agent() -> Iterator[Check]:
    yield _raw_sockets()
    yield _congestion_controls()
    yield _real_time("agent")
    yield _clock()


_MODULES: Final = "load the module, or use a kernel that has it (Debian: linux-image-amd64)"


def _namespaces(engine: str) -> Check:
    from perhop.linux import probe

    need = "network namespaces"
    try:
        rights.enable()
        probe.this_kernel()
    except UnsupportedError as error:
        return Check(engine, need, "missing", str(error))
    own = "may create them" if os.getuid() == 0 else "may create them in a user namespace"
    return Check(engine, need, "ok", f"this user {own}")


def _programs() -> Check:
    from perhop.linux import probe

    try:
        probe.tools()
    except UnsupportedError as error:
        return Check("kernel", "programs", "missing", str(error))
    return Check("kernel", "programs", "ok", "ip, tc and nft")


def _trial(engine: str, need: str, *, delay: str) -> Check:
    """Start a small scenario in an engine, and stop it before anything is sent."""
    from perhop.engines import check

    try:
        check(_small(delay), engine)
    except PerhopError as error:
        return Check(engine, need, "missing", str(error).removeprefix("trial: "))
    return Check(engine, need, "ok", "a small network was created, and removed")


def _small(delay: str) -> Scenario:
    from perhop.scenario import Scenario

    return Scenario.model_validate(
        {
            "perhop": 1,
            "name": "trial",
            "nodes": {"a": "host", "b": "host"},
            "links": [{"ends": ["a", "b"], "rate": "10 Mbps", "delay": delay}],
            "flows": {"data": {"from": "a", "to": "b", "stop": "1 s"}},
            "pings": {"probe": {"from": "a", "to": "b"}},
        }
    )


def _real_time(engine: str) -> Check:
    """Check that threads may have the lowest real-time priority (sched(7))."""
    policy, parameters = os.sched_getscheduler(0), os.sched_getparam(0)
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    except OSError:
        return Check(
            engine,
            "real-time priority",
            "limited",
            "this user has none: on a busy host packets are late more often",
            "run as root, or allow it in /etc/security/limits.conf: `USER - rtprio 1`",
        )
    os.sched_setscheduler(0, policy, parameters)
    return Check(engine, "real-time priority", "ok", "this user may use it")


def _raw_sockets() -> Check:
    try:
        socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP).close()
        socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, 0).close()
    except OSError as error:
        return Check(
            "agent",
            "raw sockets",
            "limited",
            f"this user may not open them ({error.strerror}): no pings, and no DSCPs and marks of "
            "received TCP segments",
            "give the agent CAP_NET_RAW: see packaging/perhop-agent.service",
        )
    return Check("agent", "raw sockets", "ok", "this user may open them")


def _congestion_controls() -> Check:
    """Check which of the kernel's congestion controls this user may choose (tcp(7))."""
    need = "congestion controls"
    try:
        available = _AVAILABLE.read_text().split()
    except OSError as error:
        return Check("agent", need, "limited", f"their names are unknown: {error.strerror}")
    refused = [name for name in available if not _may_choose(name)]
    allowed = [name for name in available if name not in refused]
    if refused:
        return Check(
            "agent",
            need,
            "limited",
            f"this user may choose {', '.join(allowed)} only: flows with {', '.join(refused)} are "
            "refused",
            "as root: sysctl -w net.ipv4.tcp_allowed_congestion_control="
            f"'{' '.join(available)}', or give the agent CAP_NET_ADMIN",
        )
    return Check("agent", need, "ok", f"this user may choose {', '.join(allowed)}")


_AVAILABLE: Final = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")


def _may_choose(name: str) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as connection:
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, name.encode())
        except OSError:
            return False
    return True


def _clock() -> Check:
    from perhop.linux.clock import system_clock

    try:
        clock = system_clock()
    except OSError as error:
        return Check("agent", "clock", "limited", f"its state is unknown: {error.strerror}")
    set_by = ", ".join(f"{name} ({protocol})" for name, protocol in clock.programs.items())
    if not clock.synchronised:
        found = "the kernel counts it as not synchronised"
        if set_by:
            found += f", though {set_by} runs here"
        return Check(
            "agent",
            "clock",
            "limited",
            f"{found}: agents measure each other's offset and drift instead",
            "for smaller bounds of one-way delays run ptp4l or chronyd on all hosts",
        )
    bound = f"synchronised, with an error of at most {clock.most_error_us} µs by the kernel's count"
    return Check("agent", "clock", "ok", f"{bound}, by {set_by or 'an unknown program'}")


SUBJECTS: Final = {"sim": _sim, "emu": _emu, "kernel": _kernel, "agent": _agent}
"""The checks of each engine, and of an agent on this host."""
