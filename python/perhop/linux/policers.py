"""Policers: tc's `police` action, or nftables' `limit`.

The action's bucket holds what it is told, and so it is preferred where a kernel has it
(`act_police`). That of a limit holds a second of its rate at least (see `buckets`). What marks is
left to nftables in either case, because tc would have to write a packet's bytes and checksum.

By tc, rules give a packet of a policed class a mark instead of its class, which filters of the
root discipline then find: HTB uses them only for packets that are not yet assigned to a leaf.
There, sizes are what HTB itself counts, IP bytes. Where a class is divided, its policer comes
first, and filters of the class's own lead on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from perhop.linux import ets
from perhop.linux.buckets import LONGEST_S, Limit, PoliceAction
from perhop.linux.gaps import Gap
from perhop.scenario.model.cake import Framing
from perhop.scenario.resolve import walk

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from perhop.linux.tree import Htb
    from perhop.scenario import Police, PoliceChange, Scenario

__all__ = ["Means", "Numbers", "action", "by_limit", "change", "filters", "marked"]

Means = Literal["tc", "nft"]
"""Kind of policer: tc's action, or nftables' limit."""


@dataclass(slots=True)
class Numbers:
    """The indices of tc's actions in a network.

    Each is given once: the actions of a policy that is replaced may take a moment to go.

    Attributes:
        can: "tc" if there is the action.
    """

    can: Means
    _last: int = 0

    def take(self, scenario: Scenario, policy: str | None, capacity: int) -> dict[str, int]:
        """The index of each policed class, by its path; none where nftables polices.

        Args:
            scenario: Scenario with the policies.
            policy: The policy's name; None for a queue.
            capacity: Rate that it divides, in bits per second.
        """
        if policy is None or self.can == "nft":
            return {}
        polices = _polices(scenario, policy, capacity)
        if not all(_fits(*each) for each in polices.values()):
            return {}
        first = self._last + 1
        self._last += len(polices)
        return {path: first + number for number, path in enumerate(polices)}


def _polices(scenario: Scenario, policy: str, capacity: int) -> dict[str, tuple[Police, int]]:
    """Return the policers of a policy and their capacities, by the path of the class."""
    return {
        each.path: (each.class_.police, each.capacity)
        for each in walk(scenario, scenario.policies[policy], capacity)
        if each.class_.police is not None
    }


def marked(htb: Htb, policed: Collection[str]) -> list[str]:
    """Return the leaves whose packets pass a policer of theirs or of a class above."""
    return [path for path in htb.leaves if any(_inside(path, above) for above in policed)]


def filters(
    scenario: Scenario,
    policy: str | None,
    capacity: int,
    htb: Htb,
    device: str,
    policers: Mapping[str, int],
) -> list[str]:
    """Return tc's commands for a policer: a line each, without the leading `tc`.

    Args:
        scenario: Scenario with the policies.
        policy: The policy's name; None for a queue.
        capacity: Rate that it divides, in bits per second.
        htb: Its classes.
        device: The interface.
        policers: The index of the actions of each policed class, by its path.
    """
    if policy is None or not policers:
        return []
    polices = _polices(scenario, policy, capacity)
    minors = {node.path: f"{node.minor:x}" for node in htb.nodes}
    handles = {node.path: node.handle for node in htb.nodes}
    told: set[str] = set()
    lines = []
    for leaf in marked(htb, polices):
        # Policers of the classes that it is in, the outermost first, then its own.
        ways = [path for path in polices if _inside(leaf, path)]
        above = ""
        for path in [*ways, leaf] if ways[-1] != leaf else ways:
            parent = f"{ets.HANDLE}:" if htb.ets else f"1:{above}"
            line = (
                f"filter add dev {device} parent {parent} protocol all prio 1 "
                f"handle 0x{minors[leaf]} fw classid {handles[path]}"
            )
            if path in polices:
                number = policers[path]
                # Leaves of one class share its policer.
                words = "police" if path in told else action(*polices[path])
                line += f" action {words} index {number} action ok index {number}"
                told.add(path)
            lines.append(line)
            above = minors[path]
    return lines


def change(
    scenario: Scenario,
    policy: str,
    capacity: int,
    path: str,
    settings: PoliceChange,
    number: int,
    place: str,
) -> tuple[list[str], list[Gap]]:
    """Return tc's commands for a change of a policer's settings.

    Args:
        scenario: Scenario with the policies.
        policy: The policy's name.
        capacity: Rate that it divides, in bits per second.
        path: The path of the class.
        settings: All that has changed by now.
        number: The index of the actions.
        place: The place of the change in the scenario.
    """
    before, capacity = _polices(scenario, policy, capacity)[path]
    police = before.model_copy(update=settings.given)
    if not _fits(police, capacity):
        reason = f"its police action holds {LONGEST_S} s of the rate at most"
        return [], [Gap(place, reason)]
    return [f"actions change action {action(police, capacity)} index {number}"], []


def _inside(path: str, above: str) -> bool:
    return path == above or path.startswith(f"{above}/")


def _rate(police: Police, capacity: int) -> int:
    """Return whole bytes per second, as Linux takes them."""
    return max(1, round(police.rate.of(capacity) / 8))


def action(police: Police, capacity: int) -> PoliceAction:
    """A policer as an action of tc.

    Args:
        police: One that tc's action can be.
        capacity: Rate that the policy divides, in bits per second.
    """
    drops = police.effective_exceed.drops
    return PoliceAction(_rate(police, capacity), police.burst, drops)


def _fits(police: Police, capacity: int) -> bool:
    """Return whether tc's action can express a policer."""
    conform, exceed, _ = police.actions
    plain = not (police.three_colours or police.colour_aware) and police.overhead == Framing()
    marks = any(each.remark is not None for each in (conform, exceed))
    fits = action(police, capacity).fits
    return plain and not marks and not conform.drops and fits


def by_limit(
    police: Police, capacity: int, label: str, place: str, gaps: list[Gap]
) -> Iterator[str]:
    """Rules of nftables that let pass, mark or drop what a token bucket says.

    Args:
        police: The policer.
        capacity: Rate that the policy divides, in bits per second.
        label: Prefix of the names of its counters.
        place: Its place in the scenario.
        gaps: Where what they leave open is added.
    """
    if police.three_colours or police.colour_aware:
        gaps.append(Gap(place, "its limits tell two colours apart, not three"))
        return
    if police.overhead != Framing():
        gaps.append(Gap(f"{place}.overhead", "a limit where packets leave counts IP packets"))
        return
    limit = Limit.holding(_rate(police, capacity), police.burst)
    if limit.bucket > police.burst:
        gaps.append(
            Gap(
                f"{place}.burst",
                f"the bucket of its nft limit holds a second of the rate at least, {limit.bucket} "
                "B; that of tc's police action holds less, where a kernel has it and nothing marks",
            )
        )
        return
    if not limit.fits:
        gaps.append(Gap(f"{place}.burst", "the burst of its nft limit is less than 4 GiB"))
        return
    over = str(limit)
    counted = f"counter name {label}_exceed"
    conform, exceed, _ = police.actions
    done = f"{label}_conform"
    if exceed.drops:
        yield f"{over} {counted} drop"
        yield f"counter name {done}"
    else:
        # The packet's mark tells the rules after the limit that it exceeds. A rule that sets a code
        # point ends at packets of the other IP version.
        yield f"{over} {counted} meta mark set 0xffff"
        if exceed.remark is not None:
            for version in ("ip", "ip6"):
                yield f"meta mark 0xffff {version} dscp set {exceed.remark}"
        yield f"meta mark != 0xffff counter name {done}"
        yield "meta mark 0xffff meta mark set 0"
    if conform.drops:
        gaps.append(Gap(f"{place}.conform", "perhop does not write what drops all that conforms"))
    elif conform.remark is not None:
        gaps.append(Gap(f"{place}.conform", "perhop does not write marks of what conforms"))
