"""Flows that reach each class of two policies, and packets that change their class."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perhop.routers.difference.results import Moved
from perhop.routers.headers import (
    DESTINATION,
    DSCP,
    PORT,
    PROTOCOLS,
    SOURCE,
    SOURCE_PORT,
    Shared,
    number_of,
    shared,
    unreachable,
)
from perhop.routers.reading import scenario_name
from perhop.routers.traffic import FIRST_PORT, RECEIVERS, SENDERS
from perhop.scenario import EPHEMERAL_PORTS, format_dscp

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from perhop.routers.headers import ClassPath


def flows(
    old: dict[str, Any], new: dict[str, Any], names: tuple[str, str], remarks: list[str]
) -> tuple[dict[str, Shared], list[Moved]]:
    """Return a flow for each class of both policies, and other packets that change their class.

    A class has a flow of packets that belong to its partner, too, if there are such packets; or
    else to the last class of the other policy that has some of them.
    """
    common: dict[tuple[ClassPath, ClassPath], Shared] = {
        (each.old, each.new): each for each in shared(old, new)
    }
    partners = _partners(old, new, common)
    kept: dict[tuple[ClassPath, ClassPath], Shared] = {}
    for side, policy in enumerate((old, new)):
        for path in _paths(policy, ()):
            if any(pair[side] == path for pair in kept):
                continue
            pairs = [pair for pair in common if pair[side] == path]
            best = next((pair for pair in pairs if pair in partners), pairs[-1] if pairs else None)
            if best is None:
                reason = unreachable(policy, path)
                remarks.append(f"{names[side]}: class {'/'.join(path)} has no flow: {reason}")
            else:
                kept[best] = common[best]
    chosen: dict[str, Shared] = {}
    for (first, second), each in kept.items():
        taken = {*chosen, "total"}
        path = first if "-".join(first) not in taken else second
        chosen[scenario_name("-".join(path), taken)] = each
    moved = [
        Moved(_packets(each), "/".join(each.old), "/".join(each.new))
        for pair, each in common.items()
        if pair not in kept
    ]
    return chosen, moved


def _partners(
    old: dict[str, Any],
    new: dict[str, Any],
    common: Iterable[tuple[ClassPath, ClassPath]],
) -> set[tuple[ClassPath, ClassPath]]:
    """Pair classes: by name, or else by their match, or else if they have packets in common."""
    found: set[tuple[ClassPath, ClassPath]] = set()
    rules: Sequence[Callable[[ClassPath, ClassPath], bool]] = (
        lambda a, b: a == b,
        lambda a, b: _plain(a) == _plain(b),
        lambda a, b: _match(old, a) == _match(new, b),
        lambda *_: True,
    )
    common = list(common)
    for same in rules:
        firsts, seconds = {a for a, _ in found}, {b for _, b in found}
        free = [pair for pair in common if pair[0] not in firsts and pair[1] not in seconds]
        for a, b in free:
            if a not in firsts and b not in seconds and same(a, b):
                found.add((a, b))
                firsts.add(a)
                seconds.add(b)
    return found


def _plain(path: ClassPath) -> str:
    """Return the name of a class without what differs between families: case, `_`, `class`."""
    return path[-1].lower().replace("_", "-").removeprefix("class-")


def _paths(policy: Mapping[str, Any], above: ClassPath) -> Iterator[ClassPath]:
    """Yield the classes of a policy that have no classes inside."""
    for name, class_ in policy["classes"].items():
        if "classes" in class_:
            yield from _paths(class_, (*above, name))
        else:
            yield (*above, name)


def _match(policy: Mapping[str, Any], path: ClassPath) -> list[Any]:
    """Return the matches of a class and of those that contain it."""
    found, inside = [], policy
    for name in path:
        inside = inside["classes"][name]
        found.append(inside.get("match"))
    return found


def _packets(each: Shared) -> str:
    """Return an example of packets in words."""
    box = each.headers
    words = [f"DSCP {format_dscp(box.first(DSCP, [0]))}"]
    if len(box.protocols) < len(PROTOCOLS):
        words.append("/".join(box.protocols))
    if not box.allows(PORT, FIRST_PORT):
        words.append(f"port {box.first(PORT)}")
    if not box.allows(SOURCE_PORT, EPHEMERAL_PORTS[0]):
        words.append(f"source port {box.first(SOURCE_PORT)}")
    if box.version == 6:
        words.append("IPv6")
    for index, kind, usual in ((SOURCE, "from", SENDERS), (DESTINATION, "to", RECEIVERS)):
        if not any(box.allows(index, number_of(each)) for each in usual):
            words.append(f"{kind} {box.address(index, [])}")
    return ", ".join(words)
