"""Background traffic as flows between hosts at the two ends of a link.

A router does not send, so that each router at an end gets a host of its own for the traffic, behind
a fast link. A shortest path between the two hosts has no other link between the ends than the one
that they load. A host at an end of the link sends or receives itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Final

from perhop.scenario.model.background import PAUSES, Background
from perhop.scenario.model.topology import Link, Node
from perhop.scenario.model.traffic import IMIX, Bursts, Flow, Udp, imix_mean
from perhop.units import WHOLE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perhop.scenario.model.base import Loc
    from perhop.scenario.model.network import Overhead
    from perhop.scenario.resolve.scenario import ResolvedScenario

_ACCESS: Final = 10
"""Rate of the links to the hosts, in rates of the loaded link: above the sum of all sources' peaks,
which is four times the load."""


@dataclass(frozen=True, slots=True)
class Added:
    """What a background adds to a scenario: hosts and their links, and a flow."""

    nodes: dict[str, Node]
    links: tuple[Link, ...]
    flow: Flow


def added(scenario: ResolvedScenario, name: str, background: Background) -> Added:
    """Return what a background stands for, of which the link is known."""
    link, sender = scenario.directions[background.link]
    receiver = link.other(sender)
    source, from_links = _host(scenario, link, sender, f"{name}-from")
    sink, to_links = _host(scenario, link, receiver, f"{name}-to")
    flow = Flow.model_construct(
        source=source,
        destination=sink,
        udp=_datagrams(scenario, background),
        ip=background.ip,
        dscp=background.dscp,
        start=background.start,
        stop=background.stop,
        streams=background.effective_sources,
    )
    hosts = {host: Node(kind="host") for host in (source, sink) if host not in link.ends}
    return Added(hosts, (*from_links, *to_links), flow)


def _host(
    scenario: ResolvedScenario, link: Link, end: str, name: str
) -> tuple[str, tuple[Link, ...]]:
    """Return the host that sends or receives at an end of a link, and its link."""
    if scenario.nodes[end].kind == "host":
        return end, ()
    rate = _ACCESS * max(medium.rate for medium in link.media)
    return name, (Link.model_construct(ends=(name, end), rate=rate, shape={}),)


def peak_rate(scenario: ResolvedScenario, background: Background) -> int:
    """Return the rate at which a source sends while it does, in bits of IP packets per second."""
    link, sender = scenario.directions[background.link]
    medium = link.medium(sender)
    ip = scenario.ip_of(background)
    weights = sum(weight for _, weight in IMIX[ip])
    framed = sum(weight * _framed(size, medium.overhead) for size, weight in IMIX[ip])
    packets = Fraction(background.load * medium.rate * weights, WHOLE * 8 * framed)
    peak = packets * 8 * imix_mean(ip) / background.effective_sources
    return round(peak if background.like == "poisson" else peak * (1 + PAUSES))


def _framed(size: int, overhead: Overhead) -> int:
    """Return the bytes that a packet takes on a link."""
    framed = size + overhead.size
    return -(-framed // 48) * 53 if overhead.cells else framed


def _datagrams(scenario: ResolvedScenario, background: Background) -> Udp:
    bursts = None
    if background.like == "internet":
        bursts = Bursts.model_construct(
            on=background.effective_burst,
            off=PAUSES * background.effective_burst,
            lengths="pareto",
            shape=background.effective_shape,
            begin="stationary",
        )
    return Udp.model_construct(
        rate=peak_rate(scenario, background),
        sizes="imix",
        layer="ip",
        pattern="poisson" if background.like == "poisson" else "constant",
        bursts=bursts,
        when_full="drop",
    )


def expand(scenario: ResolvedScenario) -> None:
    """Add what each background stands for to a scenario that has just been made.

    The serialised scenario has the backgrounds only.
    """
    found = {
        name: added(scenario, name, background) for name, background in scenario.backgrounds.items()
    }
    if not found:
        return
    hosts = {host: node for each in found.values() for host, node in each.nodes.items()}
    links = tuple(link for each in found.values() for link in each.links)
    flows = {name: each.flow for name, each in found.items()}
    fields = {
        "nodes": {**scenario.nodes, **hosts},
        "links": (*scenario.links, *links),
        "flows": {**scenario.flows, **flows},
    }
    # The model is frozen for its users. Values that follow from its fields are dropped.
    for key in scenario.__dict__.keys() - type(scenario).model_fields.keys():
        del scenario.__dict__[key]
    for key, value in fields.items():
        object.__setattr__(scenario, key, value)


def place_of(scenario: ResolvedScenario, name: str) -> Loc:
    """Return the place of a background in the scenario as it is written."""
    single = isinstance(scenario.background, Background)
    return ("background",) if single else ("background", name)


def background_path(scenario: ResolvedScenario, name: str) -> str:
    """Return the dotted path of a background in the scenario."""
    return ".".join(map(str, place_of(scenario, name)))


def added_hosts(name: str) -> Iterator[str]:
    """Yield the names of the hosts that a background may add."""
    yield f"{name}-from"
    yield f"{name}-to"
