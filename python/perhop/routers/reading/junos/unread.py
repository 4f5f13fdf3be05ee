"""Statements that perhop does not model, and objects that nothing refers to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perhop.routers.reading.configuration import Treatment
from perhop.routers.reading.junos.classification import NO_HEADER
from perhop.routers.reading.junos.filters import NOT_POLICED
from perhop.routers.reading.junos.syntax import FORWARDING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from perhop.routers.reading.junos.interfaces import Placed
    from perhop.routers.reading.junos.tree import Node

_NO_SETS: Final = "sets of interfaces are not modelled"
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
    "interface-set": _NO_SETS,
    "apply-macro": "has no effect on packets",
    "output-traffic-control-profile-remaining": _NO_SETS,
    "internal-node": _NO_SETS,
    "excess-bandwidth-share": _NO_SETS,
    "forwarding-class-set": "sets of classes are not modelled",
    "fragmentation-map": "fragmentation on multilinks is not modelled",
    "copy-plp-all": "multicast is not modelled",
    "translation-table": "translations of code points are not modelled",
    "policy-map": "perhop marks packets by rewrite rules and filters",
    "routing-instances": "classifiers of routing instances are not modelled",
    "virtual-channels": "virtual channels are not modelled",
    "virtual-channel-groups": "virtual channels are not modelled",
    "virtual-channel-group": "virtual channels are not modelled",
    "adaptive-shapers": "shapers that adapt to congestion are not modelled",
    "loss-priority-maps": "packets of perhop have no bits of Frame Relay",
    "loss-priority-rewrites": "packets of perhop have no bits of Frame Relay",
    "application-traffic-control": "limits by application are not modelled",
}

_UNUSED: Final = {
    ("schedulers",): "no scheduler map uses it",
    ("drop-profiles",): "no scheduler uses it",
    ("classifiers", "*"): "no interface uses it",
    ("rewrite-rules", "*"): "no interface uses it",
    ("traffic-control-profiles",): "no interface uses it",
    ("scheduler-maps",): "no interface uses it",
}
_NOT_INHERITED: Final = "nothing inherits it, or something else comes first"
_BY_LABEL: Final = {"policing": "label-switched paths are not modelled"}
_NO_POLICER: Final = "no filter or interface uses it"
_ONLY_UNREAD: Final = "only statements that are not modelled use it"
_POLICERS: Final = {
    "policer": "",
    "three-color-policer": "",
    "hierarchical-policer": "",
    "enhanced-hierarchical-policer": NOT_POLICED["enhanced-hierarchical-policer"],
}


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
        if (each := cos.get("interfaces", word)) is not None:
            each.ignored(note)
    if (sets := root.get("interfaces", "interface-set")) is not None and sets.treatment is None:
        sets.ignored(_NO_SETS)
    for top in (cos, root.get("firewall")):
        for each in top.walk() if top is not None else ():
            if "apply-macro" in each.children:
                each.children["apply-macro"].ignored(_NOT_READ["apply-macro"])
    for node in (each for fpc in root.under("chassis", "fpc") for each in fpc.walk()):
        if node.word == "q-pic-large-buffer":
            node.ignored("queues have the sizes of their schedulers")
    named = _unread_names(root, cos)
    for path, note in _UNUSED.items():
        levels = cos.under(path[0])
        if len(path) > 1:
            for kind in levels:
                if kind.word in NO_HEADER:
                    kind.ignored(NO_HEADER[kind.word])
            levels = [each for kind in levels if kind.word not in NO_HEADER for each in kind]
        for each in levels:
            if not any(node.treatment is not None for node in each.walk()):
                each.ignored(_ONLY_UNREAD if each.word in named else note)
    firewall = root.get("firewall")
    for family in firewall.under("family") if firewall is not None else ():
        if (each := family.get("prefix-action")) is not None:
            each.ignored(NOT_POLICED["prefix-action"])
        if (each := family.get("simple-filter")) is not None:
            each.ignored("simple filters are not read")
    for word, note in _POLICERS.items() if firewall is not None else ():
        for each in firewall.under(word) if firewall is not None else ():
            if note:
                each.ignored(note)
            elif not any(node.treatment is not None for node in each.walk()):
                each.ignored(_ONLY_UNREAD if each.word in named else _NO_POLICER)
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
        for part in ("class-of-service", "firewall"):
            top = group.get(part)
            for node in top.walk() if top is not None else ():
                if node.treatment is None and not node.children:
                    node.ignored(_NOT_INHERITED)
    for word, note in _BY_LABEL.items():
        if (mpls := root.get("protocols", "mpls")) is not None:
            for node in mpls.walk():
                if node.word == word:
                    node.ignored(note)


def _unread_names(root: Node, cos: Node) -> set[str]:
    """Return the names at the ends of statements that nothing models."""
    found: set[str] = set()
    tops = [cos.get("interfaces"), cos.get("routing-instances"), cos.get("multi-destination")]
    for interface in root.under("interfaces"):
        tops.append(interface.get("layer2-policer"))
        tops += [unit.get("layer2-policer") for unit in interface.under("unit")]
    for top in tops:
        for node in top.walk() if top is not None else ():
            if node.treatment is Treatment.NOT_MODELLED and not node.children:
                found.add(node.word)
    return found


def note_interfaces(root: Node, names: Collection[str]) -> None:
    """Note where filters about quality of service and policers stand that nothing reads.

    Args:
        root: The configuration.
        names: The names of filters about quality of service.
    """
    tables = root.under("forwarding-options", "family")
    for word in FORWARDING:
        tables += root.under(word)
    for table in tables:
        for node in _limits(table, names):
            node.ignored("filters of forwarding tables are not modelled")
    places = [(root.children.get("interfaces"), "")]
    groups = root.children.get("groups")
    for group in groups.children.values() if groups is not None else ():
        places.append((group.children.get("interfaces"), _NOT_INHERITED))
    for top, usual in places:
        for interface in top.children.values() if top is not None else ():
            note = usual
            if interface.word == "interface-range":
                note = "no interface is a member of the range"
            for node in _limits(interface, names):
                if node.treatment is None:
                    node.ignored(note or "inactive")


def _limits(interface: Node, names: Collection[str]) -> Iterator[Node]:
    """Yield the filters in `names`, and the policers, that an interface names."""
    for node in interface.walk():
        if node.word not in ("filter", "policer"):
            continue
        for direction in node.children.values():
            if direction.word in ("input", "output", "input-list", "output-list"):
                for each in direction.children.values():
                    if node.word == "policer" or each.word in names:
                        yield each


def note_inactive(root: Node) -> None:
    """Note the statements about quality of service that are deactivated."""
    todo = [
        root.children[word] for word in ("class-of-service", "firewall") if word in root.children
    ]
    while todo:
        node = todo.pop()
        if node.inactive:
            node.ignored("inactive")
        else:
            todo.extend(node.children.values())
