"""A policy as a tree of HTB classes.

HTB gives every class what it is guaranteed (`rate`), lends what is left to those that may have more
(`ceil`), lower numbers of `prio` first, and in turns among equals, `quantum` bytes at a time. So it
has what `link-sharing` asks for; of `wfq` and `drr` it has the shares, not the order of packets.

A strict class has no counterpart: HTB serves guarantees first. Where a policy has one, all together
are guaranteed no more than a thousandth of the link and everything is lent, strictly by `prio`.

Service curves are classes of HFSC instead, below one with the link's rate as its upper limit.

Quanta of `drr` are bands of ETS, which serves strict ones first and the others by deficit round
robin, in one class of HTB that has the link's rate.

The policy, or without one the shaper, says which bytes of layer 2 count: HTB adds them to each
packet, and for HFSC and ETS a size table does.

A link's rate is a token bucket as well. It must hold more than a packet, because tokens that come
while the kernel sleeps too long are lost otherwise: `htb.SLACK_S` at the link's rate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from perhop.linux import ets, hfsc, htb
from perhop.linux.gaps import Gap
from perhop.linux.qdiscs import Qdisc, qdisc
from perhop.scenario.model.cake import Framing
from perhop.scenario.model.cbq import ALTQ_CBQ
from perhop.scenario.model.classes import CEILING_BURST, MOST_SHARED
from perhop.scenario.model.hfsc import HFSC
from perhop.scenario.model.htb import HTB, default_quantum, slack
from perhop.scenario.model.htb import Htb as HtbSettings
from perhop.scenario.model.network import Overhead
from perhop.scenario.resolve import ServiceCurves, linear, rates, service_curves
from perhop.scenario.resolve.elements import polices

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perhop.scenario import Class, Link, Policy, Scenario
    from perhop.scenario.model.topology import Medium

__all__ = ["ETHERNET", "Htb", "HtbClass", "commands", "fills", "tree"]

ETHERNET: Final = 14
"""The bytes of an Ethernet header, which Linux counts with a packet that an Ethernet sends."""

_LEAST_RATE: Final = 64
_MOST_PRIO: Final = 7
_MOST_DEPTH: Final = 7
_COUNT_BYTES: Final = frozenset({"bfifo", "cake", "red"})
_STRICT_SHARE: Final = 1000
_FIRST: Final = 0x10
_PACKET: Final = 1500
_LEAST_PACKET: Final = 40


@dataclass(frozen=True, slots=True)
class HtbClass:
    """A class of HTB, or of HFSC, in its place.

    Attributes:
        minor: Its number; its queue's is the same.
        parent: That of the class that lends to it; 0 for the root.
        path: Name of the class in results; "" for the whole link.
        settings: Its rates, or its curves; None for a band of ETS.
        leaf: Its queue; None for a class that is divided.
        band: Its band of ETS, from 1; 0 without.
    """

    minor: int
    parent: int
    path: str
    settings: htb.Class | hfsc.Class | None
    leaf: Qdisc | None
    band: int = 0

    @property
    def handle(self) -> str:
        """The class to which packets belong, in tc's words."""
        return f"{ets.HANDLE}:{self.band:x}" if self.band else f"1:{self.minor:x}"


@dataclass(frozen=True, slots=True)
class Htb:
    """The tree of HTB, or of HFSC, before a transmitter.

    Attributes:
        nodes: Its classes, each after the one that lends to it.
        kind: The qdisc: `htb` or `hfsc`.
        default: The number of the class for what none matches.
        overhead: Layer-2 overhead of a packet, in bytes, …
        cells: … or before it is cut into ATM cells.
        header: Bytes that Linux counts beyond the IP packet.
        table: Bytes of layer 2 in the size table (`stab`), which everything counts.
        ets: ETS in the root class, in tc's words; "" without.
        faster: True if it sends packets of some sizes faster than the link.
        gaps: Features that it lacks.
    """

    nodes: tuple[HtbClass, ...]
    kind: str
    default: int
    overhead: int
    cells: bool
    header: int
    gaps: tuple[Gap, ...]
    table: Framing
    ets: str = ""
    faster: bool = False

    @property
    def counted(self) -> int | None:
        """The bytes of layer 2 in counters of a packet; None if they depend on its length."""
        plain = self.table == Framing(overhead=self.table.overhead)
        return self.table.overhead if plain else None

    @property
    def leaves(self) -> dict[str, HtbClass]:
        """The classes with a queue, by their names in results."""
        return {node.path: node for node in self.nodes if node.leaf is not None}


@dataclass(frozen=True, slots=True)
class _PlacedClass:
    """A class of the scenario with its place, number, guarantee and ceiling."""

    minor: int
    parent: int
    path: str
    place: str
    class_: Class
    rate: int
    capacity: int
    ceiling: tuple[int, int] | None
    prio: int
    divided: bool


def tree(
    scenario: Scenario,
    link: Link,
    node: str,
    policy: str | None,
    *,
    header: int = ETHERNET,
    place: str,
    capacity: int | None = None,
) -> Htb:
    """Return the tree by which `node` sends into `link`.

    Args:
        scenario: Scenario with the policies.
        link: The link, with the rate that it has.
        node: The end.
        policy: The policy's name; None for the link's queue.
        header: Bytes of a packet that Linux counts beyond IP.
        place: The place of the link in the scenario.
        capacity: Rate that the policy divides, if it is not the link's.
    """
    shape = link.shape.get(node)
    medium = link.medium(node)
    rate, burst = medium.rate, slack(medium.rate)
    buckets = policy is not None and scenario.policies[policy].scheduler == HTB
    if shape is not None and link.capacity(node) < medium.rate:
        rate = link.capacity(node)
        burst = _bucket(shape.burst, rate)
    divided = link.capacity(node) if capacity is None else capacity
    settings = scenario.policies[policy].htb if buckets and policy is not None else None
    settings = settings or HtbSettings()
    if buckets and policy is not None:
        divided = scenario.policies[policy].root(divided)
        rate, burst = divided, max(settings.burst, slack(divided))
    classes: list[_PlacedClass] = []
    gaps: list[Gap] = []
    if policy is not None:
        found = scenario.policies[policy]
        classes = list(
            _placed_classes(scenario, found, divided, f"policies.{policy}.classes", gaps)
        )
    strict = any(placed.class_.priority == "strict" for placed in classes) or (
        policy is not None and scenario.policies[policy].scheduler == "priority"
    )
    curves = policy is not None and scenario.policies[policy].scheduler == HFSC
    turns = policy is not None and scenario.policies[policy].has_quanta
    shaped = buckets or rate < medium.rate
    ceilings = any(placed.ceiling is not None for placed in classes)
    limited: Literal["", "shaper", "ceiling"] = (
        "shaper" if shaped else "ceiling" if ceilings else ""
    )
    framing = _framing(scenario, link, node, policy, place, gaps, limited=limited)
    if buckets and shape is not None and rate > link.capacity(node):
        reason = "its HTB has the rate of the policy, which is greater"
        gaps.append(Gap(f"{place}.shape.{node}.rate", reason))
    tabled = framing if curves or turns else Framing()
    if curves and medium.overhead not in (Overhead(0), _overhead(tabled)):
        gaps.append(Gap(f"{place}.overhead", "its HFSC counts no bytes of layer 2"))
    # A link that has become slower is shared in the same proportions.
    scale = min(1.0, rate / divided)
    # Behind the shaper of a tunnel's device nothing has a rate.
    alone = buckets or medium.rate == MOST_SHARED
    most = rate if alone else medium.rate
    whole = htb.Class(rate, burst, most, burst if alone else slack(most))
    limit = hfsc.Class(ServiceCurves(None, linear(rate), linear(rate)))
    root = HtbClass(1, 0, "", limit if curves else whole, None)
    leaves = [placed for placed in classes if not placed.divided]
    least = min((placed.rate for placed in leaves if placed.rate), default=1)
    tiny = max(rate // (_STRICT_SHARE * max(len(leaves), 1)), _LEAST_RATE)
    nodes = [root]
    bands = ets.bands(scenario.policies[policy]) if turns and policy is not None else {}
    for placed in classes:
        own = tiny if strict else max(int(placed.rate * scale), _LEAST_RATE)
        most, most_at_once = placed.ceiling or (rate, burst)
        most = max(min(most, rate), _LEAST_RATE)
        leaf = None
        if not placed.divided:
            leaf = qdisc(
                placed.class_.effective_queue,
                placed.rate or divided,
                f"{placed.place}.queue",
                in_class=True,
            )
            gaps += leaf.gaps
            if tabled != Framing() and leaf.kind in _COUNT_BYTES:
                reason = f"its {leaf.kind} counts the bytes of layer 2, too, below a table of sizes"
                gaps.append(Gap(f"{placed.place}.queue", reason))
        nodes.append(
            HtbClass(
                minor=placed.minor,
                parent=placed.parent,
                path=placed.path,
                settings=hfsc.Class(service_curves(placed.class_, placed.rate, placed.capacity))
                if curves
                else None
                if turns
                else htb.Class(
                    rate=min(own, most),
                    burst=max(htb.PACKET, int(min(own, most) / 8 * htb.SLACK_S)),
                    ceil=most,
                    cburst=most_at_once,
                    prio=placed.prio,
                    quantum=_quantum(placed, least, buckets=buckets),
                ),
                leaf=leaf,
                band=bands.get(placed.path, 0),
            )
        )
    if policy is None:
        leaf = qdisc(link.queue_of(node), divided, f"{place}.queue", in_class=False)
        gaps += leaf.gaps
        nodes.append(HtbClass(_FIRST, 1, "all", whole, leaf))
    layer2 = medium.overhead
    if tabled != Framing():
        layer2 = Overhead(0)
    elif shaped or framing != Framing():
        layer2 = _overhead(framing)
    return Htb(
        nodes=tuple(nodes),
        kind="hfsc" if curves else "htb",
        default=1 if turns else nodes[-1].minor,
        overhead=layer2.size,
        cells=layer2.cells,
        header=header,
        gaps=tuple(gaps),
        table=tabled,
        ets=ets.words(scenario.policies[policy]) if turns and policy is not None else "",
        faster=(buckets or shape is not None) and fills(medium, rate, framing),
    )


def _framing(
    scenario: Scenario,
    link: Link,
    node: str,
    name: str | None,
    place: str,
    gaps: list[Gap],
    *,
    limited: Literal["", "shaper", "ceiling"],
) -> Framing:
    """Return what rates and quanta count of layer 2, beside what they count for the link.

    `limited` is what has a rate below that of the link.
    """
    shape, policy = link.shape.get(node), None if name is None else scenario.policies[name]
    of_shape = Framing() if shape is None else shape.overhead
    if policy is None:
        framing, at = of_shape, f"{place}.shape.{node}.overhead"
    else:
        key = "htb.overhead" if policy.scheduler == HTB else "overhead"
        framing, at = _counted(policy), f"policies.{name}.{key}"
        if framing == Framing() and _counts_nothing(scenario, policy):
            framing = of_shape
    table = policy is not None and (policy.scheduler == HFSC or policy.has_quanta)
    if framing.coding == "ptm" or (framing.mpu and not table):
        gaps.append(Gap(at, "its HTB knows bytes and ATM only"))
    wire = link.medium(node).overhead
    if shape is not None and (limited == "shaper" or of_shape != Framing()):
        if of_shape != framing:
            reason = "its HTB counts the same bytes for a shaper and for classes"
            gaps.append(Gap(f"{place}.shape.{node}.overhead", reason))
    elif (policy is None or policy.scheduler != HTB) and not (
        (wire == _overhead(framing) and not framing.mpu) or (framing == Framing() and not limited)
    ):
        gaps.append(Gap(at, "its HTB counts the same bytes for the link's rate"))
    if framing != Framing() and table and any(loc[1] == name for loc, *_ in polices(scenario)):
        gaps.append(Gap(at, "its policers count these bytes, too"))
    return framing


def _counts_nothing(scenario: Scenario, policy: Policy) -> bool:
    """Return whether a policy has a single class, which is not limited or divided."""
    only, *others = policy.classes.values()
    limited = only.limit is not None or only.shape is not None or not only.borrow
    whole = not others and scenario.divided(policy, only) is None
    return whole and not limited and policy.scheduler not in (HTB, HFSC)


def _counted(policy: Policy) -> Framing:
    """Return what the rates and quanta of a policy count for a packet."""
    return (policy.htb or HtbSettings()).overhead if policy.scheduler == HTB else policy.overhead


def fills(medium: Medium, rate: int, framing: Framing) -> bool:
    """Return whether packets of any size at `rate`, which counts `framing`, are more than a link's.

    Between the least and the full ones, which are tried, what layer 2 adds matters less, or not.
    """
    layer2 = Framing(medium.overhead.size, coding="atm" if medium.overhead.cells else "none")
    sizes = (_LEAST_PACKET, _PACKET)
    return any(rate * layer2.charge(n) > medium.rate * framing.charge(n) for n in sizes)


def _overhead(framing: Framing) -> Overhead:
    return Overhead(framing.overhead, cells=framing.coding == "atm")


def _quantum(placed: _PlacedClass, least: int, *, buckets: bool) -> int:
    """Return the bytes that a class borrows in its turn: its quantum, or as its guarantee."""
    if placed.class_.quantum is not None:
        return placed.class_.quantum
    if buckets:
        return default_quantum(placed.rate)
    return max(htb.PACKET, htb.PACKET * placed.rate // least)


def _placed_classes(
    scenario: Scenario,
    policy: Policy,
    capacity: int,
    place: str,
    gaps: list[Gap],
    parent: _PlacedClass | None = None,
    counter: list[int] | None = None,
    counted: Framing | None = None,
) -> Iterator[_PlacedClass]:
    """Yield the classes of a policy, each before the nested ones."""
    count = [_FIRST] if counter is None else counter
    if policy.scheduler == ALTQ_CBQ:
        key = place.removesuffix(".classes")
        gaps.append(Gap(f"{key}.scheduler", "ALTQ's class-based queueing is not its HTB"))
        return
    depth = 0 if parent is None else parent.path.count("/") + 1
    if policy.has_quanta:
        gaps += ets.gaps(policy, place)
        if parent is not None:
            gaps.append(Gap(place, "perhop writes quanta as its ETS for whole links only"))
    if depth >= _MOST_DEPTH and policy.scheduler != HFSC:
        gaps.append(Gap(place, f"its HTB nests {_MOST_DEPTH} deep at most"))
        return
    counted = _counted(policy) if counted is None else counted
    guaranteed = rates(policy, capacity)
    stricts = [name for name, class_ in policy.classes.items() if policy.strict(class_)]
    for name, class_ in policy.classes.items():
        at = f"{place}.{name}"
        nested = scenario.divided(policy, class_)
        if class_.policy is not None and nested is not None and _counted(nested) != counted:
            gaps.append(Gap(f"{at}.policy", "its HTB counts the same bytes for all classes"))
        rate = guaranteed[name]
        if policy.strict(class_):
            prio = stricts.index(name)
        else:
            prio = len(stricts) + (int(class_.priority) if class_.borrows_late else 0)  # type: ignore[arg-type]
        if policy.scheduler == HTB and stricts:
            gaps.append(Gap(f"{at}.priority", "perhop writes no packets that pass its HTB"))
        elif stricts and not policy.has_quanta:
            gaps += _beside_strict(class_, at, prio, nested=nested, inner=parent is not None)
        if class_.beside_strict:
            gaps.append(Gap(f"{at}.beside_strict", "its HTB has no turns with strict classes"))
        found = _PlacedClass(
            minor=count[0],
            parent=1 if parent is None else parent.minor,
            path=name if parent is None else f"{parent.path}/{name}",
            place=at,
            class_=class_,
            rate=rate or 0,
            capacity=capacity,
            ceiling=_ceiling(class_, rate, capacity),
            prio=prio,
            divided=nested is not None,
        )
        count[0] += 1
        yield found
        if nested is not None:
            inside = f"policies.{class_.policy}.classes" if class_.policy else f"{at}.classes"
            yield from _placed_classes(
                scenario, nested, rate or capacity, inside, gaps, found, count, counted
            )


def _beside_strict(
    class_: Class, place: str, prio: int, *, nested: Policy | None, inner: bool
) -> Iterator[Gap]:
    """Return the gaps of a class in a policy with a strict class."""
    if nested is not None or inner:
        yield Gap(place, "its HTB has no strict priority where classes are divided further")
    if class_.borrows_late:
        yield Gap(f"{place}.priority", "its HTB has no numbered priorities beside strict ones")
    if prio > _MOST_PRIO:
        yield Gap(place, f"its HTB has {_MOST_PRIO + 1} priorities")


def _ceiling(class_: Class, rate: int | None, capacity: int) -> tuple[int, int] | None:
    """Return the ceiling of a class and its burst."""
    if class_.limit is not None:
        most = class_.limit.of(capacity)
        return most, _bucket(CEILING_BURST, most)
    if not class_.borrow and rate is not None:
        return rate, _bucket(CEILING_BURST, rate)
    if class_.shape is not None:
        most = class_.shape.rate.of(capacity)
        return most, _bucket(class_.shape.burst, most)
    return None


def _bucket(burst: int, rate: int) -> int:
    """Return the bytes that a bucket holds so that `burst` leaves at once, and never less than due.

    HTB sends while a bucket is not empty, so a packet less is enough. What comes while the kernel
    sleeps must fit, or the class gets less than its rate.
    """
    return max(burst - _PACKET, slack(rate))


def commands(made: Htb, device: str, *, change: bool = False) -> list[str]:
    """Return tc's commands: a line each, without the leading `tc`.

    Args:
        made: The tree before the transmitter.
        device: The interface.
        change: True if its classes exist already, and only their rates change.
    """
    # Everything counts IP packets: HTB adds what layer 2 does to what it charges, queues do not.
    more = made.table.overhead - made.header
    table = f" overhead {more}" if more else ""
    table += f" mpu {made.table.mpu}" if made.table.mpu else ""
    table += " linklayer atm" if made.table.coding == "atm" else ""
    table = f" stab{table}" if table else ""
    lines = []
    if not change:
        lines.append(
            f"qdisc add dev {device} root handle 1:{table} {made.kind} default {made.default:x}"
        )
    layer = f" overhead {made.overhead}" if made.overhead else ""
    layer += " linklayer atm" if made.cells else ""
    layer = layer if made.kind == "htb" else ""
    verb = "change" if change else "add"
    for node in made.nodes:
        above = f"1:{node.parent:x}" if node.parent else "1:"
        if node.settings is not None:
            lines.append(
                f"class {verb} dev {device} parent {above} classid 1:{node.minor:x} "
                f"{node.settings}{layer}"
            )
        if made.ets and not node.parent and not change:
            lines.append(f"qdisc add dev {device} parent 1:1 handle {ets.HANDLE}: {made.ets}")
        if node.leaf is not None and not change:
            lines.append(
                f"qdisc add dev {device} parent {node.handle} handle {node.minor:x}: "
                f"{node.leaf.kind} {node.leaf.settings}"
            )
    return lines
