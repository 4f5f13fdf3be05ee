"""Statements of Junos that perhop writes, as elements of XML.

The text of a configuration leaves out names that its XML has: in ``input EDGE;`` of an interface's
filter, the word is the element `filter-name`. Names and structure are those of the YANG modules
of Juniper Networks for Junos 18.2 (`junos-conf-class-of-service`, `junos-conf-firewall`,
`junos-conf-interfaces`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["CLASSIFIERS", "CONFIGURATION", "NAMESPACE", "REWRITES", "Block", "Kind"]

NAMESPACE: Final = "http://xml.juniper.net/xnm/1.1/xnm"
"""The XML namespace of a configuration."""


class Kind(Enum):
    """An element without elements inside."""

    FLAG = auto()
    """A word, such as ``accept``."""

    VALUE = auto()
    """A word and its value."""

    VALUES = auto()
    """A word with one or several values; an element for each."""


@dataclass(frozen=True, slots=True)
class Block:
    """An element with elements inside.

    Attributes:
        inside: These elements by name.
        keyed: True if the next word is its element `name`: there is one such block for each name.
        unnamed: The element that a word stands for which names none.
    """

    inside: Mapping[str, Block | Kind] = field(default_factory=dict)
    keyed: bool = False
    unnamed: str = ""


_FLAG, _VALUE, _VALUES = Kind.FLAG, Kind.VALUE, Kind.VALUES


def _list(**inside: Block | Kind) -> Block:
    return Block(_named(inside), keyed=True)


def _block(**inside: Block | Kind) -> Block:
    return Block(_named(inside))


def _named(inside: Mapping[str, Block | Kind]) -> dict[str, Block | Kind]:
    """Return elements with hyphens for underscores; a final one avoids a word of Python."""
    return {name.rstrip("_").replace("_", "-"): each for name, each in inside.items()}


_SHAPER = Block({"rate": _VALUE, "burst-size": _VALUE}, unnamed="rate")
_PROFILE = Block({"profile-name": _VALUE}, unnamed="profile-name")
_FILTER_NAME = Block({"filter-name": _VALUE}, unnamed="filter-name")

_COLOURS = {
    "color-aware": _FLAG,
    "color-blind": _FLAG,
    "committed-information-rate": _VALUE,
    "committed-burst-size": _VALUE,
}

REWRITES: Final = ("dscp", "dscp-ipv6", "ieee-802.1", "exp")
"""The kinds of rewrite rules."""

CLASSIFIERS: Final = ("ieee-802.1", "exp")
"""The kinds of classifiers."""


def _points(leaf: str, kind: Kind) -> Block:
    """Return a classifier or rewrite rule, with the word for its code points."""
    return _list(forwarding_class=_list(loss_priority=Block({leaf: kind}, keyed=True)))


_CLASSIFIER_NAME = Block({"classifier-name": _VALUE}, unnamed="classifier-name")
_REWRITE_NAME = Block({"rewrite-rule-name": _VALUE}, unnamed="rewrite-rule-name")

_TERM = _list(
    from_=_block(
        forwarding_class=_VALUES,
        dscp=_VALUES,
        traffic_class=_VALUES,
        protocol=_VALUES,
        next_header=_VALUES,
        source_address=Block(keyed=True),
        destination_address=Block(keyed=True),
        port=_VALUES,
        source_port=_VALUES,
        destination_port=_VALUES,
    ),
    then=_block(
        policer=_VALUE,
        three_color_policer=_block(two_rate=_VALUE, single_rate=_VALUE),
        forwarding_class=_VALUE,
        dscp=_VALUE,
        traffic_class=_VALUE,
        count=_VALUE,
        accept=_FLAG,
    ),
)

_FILTERS = _block(filter=_block(input=_FILTER_NAME, output=_FILTER_NAME))

_INTERFACES = Block(
    {
        "interface": _list(
            unit=_list(
                bandwidth=_VALUE,
                family=_block(inet=_FILTERS, inet6=_FILTERS),
            )
        )
    },
    unnamed="interface",
)

_CLASS_OF_SERVICE = _block(
    forwarding_classes=Block({"class": _list(queue_num=_VALUE)}),
    schedulers=_list(
        transmit_rate=Block(
            {"rate": _VALUE, "percent": _VALUE, "remainder": _block(), "exact": _FLAG},
            unnamed="rate",
        ),
        shaping_rate=_SHAPER,
        buffer_size=_block(temporal=_VALUE),
        priority=_VALUE,
    ),
    scheduler_maps=_list(forwarding_class=_list(scheduler=_VALUE)),
    traffic_control_profiles=_list(scheduler_map=_VALUE, shaping_rate=_SHAPER),
    classifiers=Block({kind: _points("code-points", _VALUES) for kind in CLASSIFIERS}),
    rewrite_rules=Block({kind: _points("code-point", _VALUE) for kind in REWRITES}),
    interfaces=Block(
        {
            "interface": _list(
                scheduler_map=_VALUE,
                shaping_rate=_SHAPER,
                output_traffic_control_profile=_PROFILE,
                unit=_list(
                    shaping_rate=_SHAPER,
                    output_traffic_control_profile=_PROFILE,
                    classifiers=Block(dict.fromkeys(CLASSIFIERS, _CLASSIFIER_NAME)),
                    rewrite_rules=Block(
                        dict.fromkeys(REWRITES, _list()) | {"ieee-802.1": _REWRITE_NAME}
                    ),
                ),
            )
        },
        unnamed="interface",
    ),
)

_FIREWALL = _block(
    policer=_list(
        filter_specific=_FLAG,
        if_exceeding=_block(bandwidth_limit=_VALUE, burst_size_limit=_VALUE),
        then=_block(discard=_FLAG, loss_priority=_VALUE),
    ),
    three_color_policer=_list(
        filter_specific=_FLAG,
        two_rate=Block({**_COLOURS, "peak-information-rate": _VALUE, "peak-burst-size": _VALUE}),
        single_rate=Block({**_COLOURS, "excess-burst-size": _VALUE}),
        action=_block(loss_priority=_list(then=_block(discard=_FLAG))),
    ),
    family=_block(inet=_block(filter=_list(term=_TERM)), inet6=_block(filter=_list(term=_TERM))),
)

CONFIGURATION: Final = Block(
    {
        "interfaces": _INTERFACES,
        "class-of-service": _CLASS_OF_SERVICE,
        "firewall": _FIREWALL,
    }
)
"""The whole of it."""
