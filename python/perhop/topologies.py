"""Common topologies for scenarios that are written in Python.

Each function returns the sections `nodes` and `links` of a scenario as a mapping, with the names
that the template of the same topology has:

>>> from perhop.topologies import dumbbell
>>> from perhop.units import Mbps, ms
>>> network = dumbbell(pairs=2, rate=Mbps(20), delay=ms(10))
>>> list(network["nodes"])
['s1', 's2', 'left', 'right', 'd1', 'd2']

Rates and delays are text with units, such as ``20 Mbps``; queues are mappings, such as
``{"limit": "100 packets"}``, and None for the default. `perhop.load` checks all of them.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from perhop.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Topology", "dumbbell", "leaf_spine", "parking_lot", "star"]

Topology = dict[str, Any]
"""The sections `nodes` and `links` of a scenario."""

_EDGE: Final = "1 Gbps"


def dumbbell(
    pairs: int = 2,
    *,
    rate: str,
    delay: str = "0 s",
    queue: Mapping[str, Any] | None = None,
    edge: str = _EDGE,
) -> Topology:
    """Return pairs of hosts around one bottleneck.

    Hosts `s1`, `s2`, … are at router `left`; hosts `d1`, `d2`, … are at router `right`.

    Args:
        pairs: The number of hosts on each side.
        rate: The rate of the bottleneck, from `left` to `right` and back.
        delay: The delay of the bottleneck in one direction.
        queue: The queue of the bottleneck.
        edge: The rate of each host's link.

    Raises:
        UsageError: There is less than one pair.
    """
    _at_least(1, pairs=pairs)
    sources, destinations = _numbered("s", pairs), _numbered("d", pairs)
    links = [
        *(_link(host, "left", edge) for host in sources),
        _link("left", "right", rate, delay, queue),
        *(_link("right", host, edge) for host in destinations),
    ]
    return _topology([*sources, "left", "right", *destinations], ["left", "right"], links)


def parking_lot(
    hops: int = 3,
    *,
    rate: str,
    delay: str = "0 s",
    queue: Mapping[str, Any] | None = None,
    edge: str = _EDGE,
) -> Topology:
    """Return a chain of routers with a host at each, and a host at either end.

    A flow from `a` to `z` crosses all bottlenecks between routers `r1`, `r2`, …; one from `h1` to
    `h2` crosses the first alone.

    Args:
        hops: The number of bottlenecks.
        rate: The rate of each.
        delay: The delay of each in one direction.
        queue: The queue of each.
        edge: The rate of each host's link.

    Raises:
        UsageError: There is less than one hop.
    """
    _at_least(1, hops=hops)
    routers, hosts = _numbered("r", hops + 1), _numbered("h", hops + 1)
    links = [
        _link("a", routers[0], edge),
        *(_link(*ends, rate, delay, queue) for ends in pairwise(routers)),
        _link(routers[-1], "z", edge),
        *(_link(host, router, edge) for host, router in zip(hosts, routers, strict=True)),
    ]
    return _topology(["a", *routers, "z", *hosts], routers, links)


def star(
    hosts: int = 3,
    *,
    rate: str,
    delay: str = "0 s",
    queue: Mapping[str, Any] | None = None,
) -> Topology:
    """Return hosts `h1`, `h2`, … around the router `hub`.

    Args:
        hosts: The number of hosts.
        rate: The rate of each host's link.
        delay: The delay of each link in one direction.
        queue: The queues of each link.

    Raises:
        UsageError: There are less than two hosts.
    """
    _at_least(2, hosts=hosts)
    names = _numbered("h", hosts)
    links = [_link(host, "hub", rate, delay, queue) for host in names]
    return _topology([*names, "hub"], ["hub"], links)


def leaf_spine(
    leaves: int = 2,
    spines: int = 2,
    hosts: int = 2,
    *,
    rate: str,
    delay: str = "0 s",
    queue: Mapping[str, Any] | None = None,
    uplink: str | None = None,
) -> Topology:
    """Return a fabric in which each router `leaf1`, … has a link to each router `spine1`, ….

    Hosts `h1`, `h2`, … are at the first leaf, and so on.

    Args:
        leaves: The number of leaves.
        spines: The number of spines.
        hosts: The number of hosts at each leaf.
        rate: The rate of each host's link.
        delay: The delay of each link in one direction.
        queue: The queues of each link.
        uplink: The rate between leaves and spines; by default that of hosts.

    Raises:
        UsageError: There is less than one leaf, spine or host.
    """
    _at_least(1, leaves=leaves, spines=spines, hosts=hosts)
    ends, tops = _numbered("leaf", leaves), _numbered("spine", spines)
    names = _numbered("h", leaves * hosts)
    links = [
        *(_link(h, ends[i // hosts], rate, delay, queue) for i, h in enumerate(names)),
        *(_link(leaf, top, uplink or rate, delay, queue) for leaf in ends for top in tops),
    ]
    return _topology([*names, *ends, *tops], [*ends, *tops], links)


def _topology(nodes: list[str], routers: list[str], links: list[dict[str, Any]]) -> Topology:
    kinds = {name: "router" if name in routers else "host" for name in nodes}
    return {"nodes": kinds, "links": links}


def _link(
    a: str, b: str, rate: str, delay: str = "0 s", queue: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    link: dict[str, Any] = {"ends": [a, b], "rate": rate, "delay": delay}
    return link if queue is None else {**link, "queue": dict(queue)}


def _numbered(prefix: str, count: int) -> list[str]:
    return [f"{prefix}{number}" for number in range(1, count + 1)]


def _at_least(least: int, **counts: int) -> None:
    for name, count in counts.items():
        if count < least:
            raise UsageError(f"{name} is {count}; expected at least {least}")
