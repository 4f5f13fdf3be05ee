"""Linux's HTB, by which the packets of a reservation get their rate however much others send.

A device that a reservation's packets leave by has HTB as its root, with the link's rate. In it
every reservation has a class that is guaranteed its rate and may borrow before all others (what
layer 2 adds comes from there), and everybody else has one that lives on what is left. nftables
says which packets are of which class: by their priority, which HTB takes as it is, or by a mark,
which a filter of the root takes through tc's policer to the class. Policers count IP bytes, because
the root takes the Ethernet header off a packet's size, and classes add it again.

A device with another root discipline is left alone, with an error. HTB is removed with the last
reservation, as soon as nothing waits in it.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from perhop.linux import htb
from perhop.linux.buckets import Limit, PoliceAction
from perhop.scenario.model.htb import slack
from perhop_services.reservations.drivers.protocol import DriverError, PolicerCounters, RefusedError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from perhop.linux.commands import Run

HANDLE: Final = "7065"
"""The root's major number, in hexadecimal: perhop's own are known by it."""

_KIND: Final = "htb"

_WHOLE, _OTHERS, _FIRST, _LAST = 1, 2, 0x10, 0xFFFE
"""The numbers of the whole link's class, of everybody else's, and of reservations'."""

_OTHERS_RATE: Final = 8000
"""Guarantee of all other traffic, in bits per second: HTB's minimum is a byte per second."""

_ETHERNET: Final = 14
"""The bytes of an Ethernet header."""

_UNITS: Final = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_SIZES: Final = {"b": 1, "Kb": 2**10, "Mb": 2**20}
_CLASS: Final = re.compile(rf"class htb {HANDLE}:([0-9a-f]+) .* rate (\d+)([KMGT]?)bit ")
_FILTER: Final = re.compile(
    rf"handle 0x{HANDLE}[0-9a-f]+ classid {HANDLE}:(?P<minor>[0-9a-f]+).*?"
    r"police 0x(?P<index>[0-9a-f]+) rate (?P<rate>\d+)(?P<unit>[KMGT]?)bit "
    r"burst (?P<burst>\d+)(?P<size>[KM]?b).*?"
    r"Sent (?P<bytes>\d+) bytes (?P<packets>\d+) pkt.*?"
    r"gact action pass.*?Sent (?P<conformed_bytes>\d+) bytes (?P<conformed_packets>\d+) pkt",
    re.DOTALL,
)
"""A filter of the root and its actions, as ``tc -s filter show`` prints them."""


@dataclass(frozen=True, slots=True)
class Policer:
    """The policer of tc's before a class.

    Attributes:
        index: The number of its actions.
        rate: Bits per second, to three digits at least, as tc says it.
        burst: Bytes, to a kilobyte.
        counters: Its counters.
    """

    index: int
    rate: int
    burst: int
    counters: PolicerCounters

    def is_like(self, action: PoliceAction) -> bool:
        """Return whether this may be what tc says of an action."""
        rate, burst = 8 * action.rate, action.burst
        near = abs(burst - self.burst) <= max(1024, burst / 1000)
        return 0 <= rate - self.rate <= rate / 1000 and near


@dataclass(frozen=True, slots=True)
class Share:
    """The class of a reservation.

    Attributes:
        device: The device that has it.
        minor: Its number there; no two devices have the same one.
        rate: What it is guaranteed, in bits per second, to three digits at least, as tc says it.
        policer: Policer of its packets; None where nftables polices.
    """

    device: str
    minor: int
    rate: int
    policer: Policer | None = None

    @property
    def classid(self) -> str:
        """Its name in nftables."""
        return f"{HANDLE}:{self.minor:x}"

    @property
    def mark(self) -> str:
        """The mark by which its packets find the policer of tc's."""
        return f"0x{HANDLE}{self.minor:04x}"

    def about(self, rate: int) -> int:
        """The rate that a class was given, if this may be what tc says of it; else what it says."""
        return rate if 0 <= rate - self.rate <= rate / 1000 else self.rate


class Shares:
    """The classes of one router."""

    def __init__(self, run: Run) -> None:
        """Take what runs commands on the router."""
        self._run = run
        self._roots: dict[str, str] = {}

    def devices(self, destinations: Iterable[str]) -> dict[str, str]:
        """Return the devices for some addresses; those without a route are left out."""
        lines = [f"route get {each}\n" for each in dict.fromkeys(destinations)]
        if not lines:
            return {}
        # Without a way to one, the rest is answered, and the exit code says that one failed.
        said = self._run(["ip", "-force", "-json", "-batch", "-"], "".join(lines), check=False)
        found = [route for line in said.splitlines() if line for route in json.loads(line)]
        return {route["dst"]: route["dev"] for route in found if "dev" in route}

    def there(self) -> dict[int, Share]:
        """The classes of reservations, by number; a root that none needs any more is removed."""
        found: dict[int, Share] = {}
        self._roots = {}
        for root in json.loads(self._run(["tc", "-s", "-json", "qdisc", "show"]) or "[]"):
            device, handle, before = root["dev"], root["handle"], len(found)
            # A qdisc that the kernel chose by itself has no number.
            if not root.get("root") or handle == "0:":
                continue
            if handle == f"{HANDLE}:" and root["kind"] == _KIND:
                policers = self._policers(device)
                for line in self._run(["tc", "class", "show", "dev", device]).splitlines():
                    match = _CLASS.match(line)
                    if match is not None and (minor := int(match[1], 16)) >= _FIRST:
                        rate = int(match[2]) * _UNITS[match[3]]
                        found[minor] = Share(device, minor, rate, policers.get(minor))
                if len(found) == before and not root["qlen"]:
                    self._tc(f"qdisc del dev {device} root")
                    continue
            self._roots[device] = f"{root['kind']} {handle}"
        return found

    def _header(self, device: str) -> int:
        """The bytes beyond the IP packet that Linux counts where a device sends it."""
        (link,) = json.loads(self._run(["ip", "-json", "link", "show", "dev", device]))
        return _ETHERNET if link["link_type"] in ("ether", "loopback") else 0

    def _policers(self, device: str) -> dict[int, Policer]:
        """The policers before the classes of a device, by the class's number."""
        show = ["tc", "-s", "filter", "show", "dev", device, "parent", f"{HANDLE}:"]
        found = {}
        for match in _FILTER.finditer(self._run(show)):
            came = int(match["packets"]), int(match["bytes"])
            conformed = int(match["conformed_packets"]), int(match["conformed_bytes"])
            found[int(match["minor"], 16)] = Policer(
                int(match["index"], 16),
                int(match["rate"]) * _UNITS[match["unit"]],
                int(match["burst"]) * _SIZES[match["size"]],
                # The counter of arrivals may have been read a packet later.
                PolicerCounters(
                    *conformed, *(max(a - b, 0) for a, b in zip(came, conformed, strict=True))
                ),
            )
        return found

    def put(
        self,
        device: str,
        number: int | None,
        rate: int,
        burst: int,
        policer: Limit | PoliceAction,
        link_rate: int,
    ) -> tuple[Share, Share | None]:
        """Make a class, or change it where it is; what waits in it goes on waiting.

        Args:
            device: The device that the packets leave by.
            number: The class that they have by now; one on another device is left there.
            rate: Guaranteed rate, in bits per second.
            burst: Bytes of that which may leave at once, whatever the link has sent.
            policer: Policer of its packets; an action of tc's is made here.
            link_rate: Rate of the device, in bits per second.

        Returns:
            The class, and the one that they had.

        Raises:
            DriverError: It is not there: the kernel has no HTB, or the device another root.
        """
        there = self.there()
        root = self._roots.get(device, "")
        if root not in ("", f"{_KIND} {HANDLE}:"):
            raise RefusedError(
                f"{device} has a queueing discipline of its own, {root}, where reservations need "
                "theirs; remove it, or have them only policed: linux:guarantee=no"
            )
        old = there.get(number) if number is not None else None
        if old is not None and old.device == device:
            minor = old.minor
        else:
            unused = (each for each in range(_FIRST, _LAST + 1) if each not in there)
            minor = next(unused, 0)
            if not minor:
                raise DriverError(f"{device} has {_LAST - _FIRST + 1} reservations already")
        share = Share(device, minor, rate)
        header = self._header(device)
        lines = []
        if not root:
            size = f"stab overhead -{header} " if header else ""
            root = f"root handle {HANDLE}: {size}{_KIND} default {_OTHERS}"
            lines.append(f"qdisc replace dev {device} {root}")
        room = slack(link_rate)
        whole = htb.Class(link_rate, room, link_rate, room)
        others = htb.Class(_OTHERS_RATE, htb.PACKET, link_rate, room, prio=7)
        own = htb.Class(rate, burst, link_rate, room)
        above = f"{HANDLE}:{_WHOLE}"
        lines += [
            _class(device, f"{HANDLE}:", _WHOLE, whole, header),
            _class(device, above, _OTHERS, others, header),
            _class(device, above, minor, own, header),
            f"qdisc replace dev {device} parent {HANDLE}:{minor:x} handle {minor:x}: "
            f"bfifo limit {min(policer.bucket + 2 * htb.PACKET, 2**31 - 1)}",
        ]
        if isinstance(policer, PoliceAction):
            lines += _police(share, old, policer, there.values())
        try:
            self._tc(*lines)
        except DriverError as error:
            if minor not in there and minor in self.there():
                self.remove(share)
            raise DriverError(f"no HTB class at {device}: {error}") from None
        return share, old

    def remove(self, share: Share) -> None:
        """Remove a class and its policer, and the root with the last one."""
        self.let_through(share)
        self._tc(f"class del dev {share.device} classid {share.classid}")
        self.there()

    def let_through(self, share: Share) -> None:
        """Remove the policer of tc's from before a class, if it has one."""
        here = self.there().get(share.minor)
        if here is not None and here.policer is not None:
            self._tc(f"filter del dev {share.device} {_filter(share)}")

    def renew(self, share: Share, action: PoliceAction) -> None:
        """Put a policer that has counted nothing in the place of a class's."""
        index = _unused(self.there().values())
        self._tc(_filters(share, action, index))

    def _tc(self, *lines: str) -> None:
        self._run(["tc", "-batch", "-"], "".join(f"{line}\n" for line in lines))


def _class(device: str, parent: str, minor: int, own: htb.Class, header: int) -> str:
    classid = f"{HANDLE}:{minor:x}"
    return f"class replace dev {device} parent {parent} classid {classid} {own} overhead {header}"


def _police(
    share: Share, old: Share | None, action: PoliceAction, there: Iterable[Share]
) -> list[str]:
    """Return the lines for tc that police the packets of a class and keep its counters."""
    if old is None or old.policer is None:
        return [_filters(share, action, _unused(there))]
    index = old.policer.index
    lines = [f"actions change action {action} index {index}"]
    if old.device != share.device:
        lines.append(_filters(share, "police", index))
    return lines


def _filters(share: Share, action: PoliceAction | str, index: int) -> str:
    """A filter that takes a class's packets through an action, and counts those that conform."""
    return (
        f"filter replace dev {share.device} {_filter(share)} classid {share.classid} "
        f"action {action} index {index} action ok index {index}"
    )


def _filter(share: Share) -> str:
    return f"parent {HANDLE}: protocol all prio 1 handle {share.mark} fw"


def _unused(there: Iterable[Share]) -> int:
    """An index that no policer has."""
    used = {share.policer.index for share in there if share.policer is not None}
    first = int(HANDLE, 16) << 16
    return next(index for index in range(first, first + len(used) + 1) if index not in used)
