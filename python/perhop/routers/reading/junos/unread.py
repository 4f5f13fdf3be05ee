"""Statements that perhop does not model, and objects that nothing refers to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perhop.routers.reading.junos.classification import NO_HEADER

if TYPE_CHECKING:
    from perhop.routers.reading.junos.interfaces import Placed
    from perhop.routers.reading.junos.tree import Node

_NOT_READ: Final = {
    "host-outbound-traffic": "packets of the router itself are not modelled",
    "fragmentation-maps": "fragmentation on multilinks is not modelled",
    "forwarding-policy": "the next hop by class is not modelled",
    "congestion-notification-profile": "priority flow control is not modelled",
    "forwarding-class-sets": "sets of classes are not modelled",
    "shared-buffer": "each queue of perhop has its own buffer",
    "multi-destination": "multicast is not modelled",
    "tri-color": "the colours of packets are always kept",
    "traceoptions": "has no effect on packets",
    "restricted-queues": "has no effect on packets",
    "system-defaults": "has no effect on packets that routers forward",
    "scheduler-map-chassis": "queues to the fabric are not modelled",
    "input-scheduler-map": "queues at inputs are not modelled",
    "input-shaping-rate": "shapers at inputs are not modelled",
    "input-traffic-control-profile": "shapers at inputs are not modelled",
    "interface-set": "sets of interfaces are not modelled",
    "apply-macro": "has no effect on packets",
}

_UNUSED: Final = {
    ("schedulers",): "no scheduler map uses it",
    ("drop-profiles",): "no scheduler uses it",
    ("classifiers", "*"): "no interface uses it",
    ("rewrite-rules", "*"): "no interface uses it",
    ("traffic-control-profiles",): "no interface uses it",
    ("scheduler-maps",): "no interface uses it",
}
_POLICERS: Final = ("policer", "three-color-policer", "hierarchical-policer")


def note_unread(placed: Placed) -> None:
    """Note what stands at an interface or unit and is not modelled."""
    for node in placed.nodes:
        for word, note in _NOT_READ.items():
            if (each := node.children.get(word)) is not None:
                each.ignored(note)
        for kind in node.under("rewrite-rules"):
            if kind.word in NO_HEADER:
                kind.ignored(NO_HEADER[kind.word])


def note_unused(root: Node, cos: Node) -> None:
    """Note what nothing refers to, in a configuration of which everything else was read."""
    for word, note in _NOT_READ.items():
        if (each := cos.get(word)) is not None:
            each.ignored(note)
    for path, note in _UNUSED.items():
        levels = cos.under(path[0])
        if len(path) > 1:
            for kind in levels:
                if kind.word in NO_HEADER:
                    kind.ignored(NO_HEADER[kind.word])
            levels = [each for kind in levels if kind.word not in NO_HEADER for each in kind]
        for each in levels:
            if not any(node.treatment is not None for node in each.walk()):
                each.ignored(note)
    firewall = root.get("firewall")
    for word in _POLICERS if firewall is not None else ():
        for each in firewall.under(word) if firewall is not None else ():
            if not any(node.treatment is not None for node in each.walk()):
                each.ignored("no filter or interface uses it")
    for word in ("logical-systems", "tenants", "dynamic-profiles"):
        if (top := root.get(word)) is not None:
            for name in top:
                for part in ("class-of-service", "firewall"):
                    if (each_part := name.get(part)) is not None:
                        each_part.ignored(
                            "the values of dynamic profiles come with each subscriber"
                            if word == "dynamic-profiles"
                            else "parts of a router are not read"
                        )
    for group in root.under("groups"):
        for node in group.walk():
            if node.treatment is None and not node.children:
                node.ignored("nothing inherits it, or something else comes first")


def note_inactive(root: Node) -> None:
    """Note the statements that are deactivated."""
    todo = [root]
    while todo:
        node = todo.pop()
        if node.inactive:
            node.ignored("inactive")
        else:
            todo.extend(node.children.values())
