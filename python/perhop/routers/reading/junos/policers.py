"""Policers of `firewall` as policers of scenarios."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from perhop.routers.reading.junos.values import number, percent
from perhop.units import format_rate, format_share, format_size

if TYPE_CHECKING:
    from perhop.routers.reading.configuration import Place
    from perhop.routers.reading.junos.tree import Node

ONE_BUCKET = "packets of all terms and interfaces that name it have one bucket in Junos"

ONE_INSTANCE = "one bucket for all interfaces of the filter in Junos without `interface-specific`"


@dataclass(frozen=True, slots=True)
class Policer:
    """A policer.

    Attributes:
        name: Its name in the configuration.
        police: The policer as a scenario states it, without the actions that set a loss priority.
        place: Its line.
        loss: The loss priority that packets above the rate get, by action (``exceed``,
            ``violate``); such packets are sent.
        shared: True if all terms that name it have one bucket.
        of_unit: True if all terms and families of a unit that name it have one bucket.
        places: The lines of its settings.
    """

    name: str
    police: dict[str, Any]
    place: Place
    loss: dict[str, str] = field(default_factory=dict)
    shared: bool = False
    of_unit: bool = False
    places: dict[str, Place] = field(default_factory=dict)


def read_policer(node: Node) -> Policer | None:
    """Return a two-colour policer; None if it has no rate or burst, which is noted."""
    police: dict[str, Any] = {}
    places: dict[str, Place] = {}
    rate = node.value("if-exceeding", "bandwidth-limit")
    if rate is not None:
        value = number(rate.word)
        if value:
            police["rate"] = format_rate(value)
            places["rate"] = rate.place
            rate.modelled()
        else:
            rate.ignored("expected a rate in bit/s such as 10m")
    share = node.value("if-exceeding", "bandwidth-percent")
    if share is not None and not police:
        part = percent(share.word)
        if part:
            police["rate"] = format_share(int(part * 10**7))
            places["rate"] = share.place
            share.modelled()
        else:
            share.ignored("expected a percentage from 1 to 100")
    _burst(node, ("if-exceeding", "burst-size-limit"), "burst", police, places)
    if packets := node.get("if-exceeding-pps"):
        packets.ignored("perhop polices bits, not packets, in a second")
    loss = _two_colours(node, police)
    shared = False
    for key in ("filter-specific", "shared-bandwidth-policer", "physical-interface-policer"):
        if (setting := node.get(key)) is not None:
            shared = shared or key != "shared-bandwidth-policer"
            if key == "filter-specific":
                setting.modelled()
                continue
            setting.approximated(
                ONE_BUCKET
                if key != "shared-bandwidth-policer"
                else "perhop does not divide the rate among the links of a bundle"
            )
    if (of_unit := node.get("logical-interface-policer")) is not None:
        of_unit.modelled()
    if (setting := node.get("logical-bandwidth-policer")) is not None:
        setting.approximated("percentages are of the rate of the interface, not of the unit")
    if "rate" not in police or "burst" not in police:
        node.ignored("expected a rate and `burst-size-limit`")
        return None
    node.modelled(whole=False)
    return Policer(node.word, police, node.place, loss, shared, of_unit is not None, places)


def _burst(
    node: Node, path: tuple[str, ...], key: str, police: dict[str, Any], places: dict[str, Place]
) -> None:
    found = node.value(*path)
    if found is None:
        return
    value = number(found.word)
    if value:
        police[key] = format_size(value)
        places[key] = found.place
        found.modelled()
    else:
        found.ignored("expected a size in bytes such as 15k")


def _two_colours(node: Node, police: dict[str, Any]) -> dict[str, str]:
    """Read the action on packets above the rate; return the loss priority that they get."""
    then = node.get("then")
    loss: dict[str, str] = {}
    if then is None:
        return loss
    if (discard := then.get("discard")) is not None:
        discard.modelled()
        for each in then:
            if each is not discard:
                each.ignored("the packets are discarded")
        return loss
    for each in then:
        match each.word:
            case "loss-priority":
                level = then.value("loss-priority")
                police["exceed"] = "send"
                if level is not None:
                    loss["exceed"] = level.word
                    level.approximated(
                        "packets above the rate are sent; a rewrite rule at the output can mark "
                        "them, and drop profiles do not tell them apart"
                    )
            case "forwarding-class":
                police["exceed"] = "send"
                each.approximated("packets above the rate are sent, and keep their class")
            case _:
                pass
    return loss


def read_colours(node: Node) -> Policer | None:
    """Return a three-colour policer; None if its rates or bursts are missing, which is noted."""
    police: dict[str, Any] = {}
    places: dict[str, Place] = {}
    kind = "single-rate" if node.get("single-rate") is not None else "two-rate"
    settings = node.get(kind)
    if settings is None:
        node.ignored("expected `single-rate` or `two-rate`", whole=False)
        return None
    for word, key in (
        ("committed-information-rate", "rate"),
        ("peak-information-rate", "peak_rate"),
    ):
        found = settings.value(word)
        if found is None:
            continue
        value = number(found.word)
        if value and (key == "rate" or kind == "two-rate"):
            police[key] = format_rate(value)
            places[key] = found.place
            found.modelled()
        else:
            found.ignored("expected a rate in bit/s such as 10m")
    bursts = {"committed-burst-size": "burst"}
    bursts |= (
        {"excess-burst-size": "excess_burst"}
        if kind == "single-rate"
        else {"peak-burst-size": "peak_burst"}
    )
    for word, key in bursts.items():
        _burst(settings, (word,), key, police, places)
    if (aware := settings.get("color-aware")) is not None:
        police["colour_aware"] = True
        aware.approximated("the colour of a packet is read from its DSCP, not its loss priority")
    if (blind := settings.get("color-blind")) is not None:
        blind.modelled()
    loss = {"exceed": "medium-high"}
    police["exceed"] = "send"
    action = node.get("action", "loss-priority", "high", "then", "discard")
    if action is not None:
        action.modelled()
    else:
        police["violate"] = "send"
        loss["violate"] = "high"
    shared = False
    for key in ("filter-specific", "shared-bandwidth-policer", "physical-interface-policer"):
        if (setting := node.get(key)) is not None:
            setting.approximated(ONE_BUCKET)
            shared = shared or key == "filter-specific"
    if (of_unit := node.get("logical-interface-policer")) is not None:
        of_unit.modelled()
    needed = {"rate", *bursts.values()} | ({"peak_rate"} if kind == "two-rate" else set())
    if not needed <= police.keys():
        node.ignored("expected a rate and a burst of both colours")
        return None
    node.modelled(whole=False)
    return Policer(node.word, police, node.place, loss, shared, of_unit is not None, places)


def read_hierarchical(node: Node) -> Policer | None:
    """Return the aggregate policer of a hierarchical one; None if it has none."""
    aggregate = node.get("aggregate")
    if (premium := node.get("premium")) is not None:
        premium.ignored("premium packets have no policer of their own in perhop")
    if aggregate is None:
        node.ignored("expected an `aggregate` policer")
        return None
    found = read_policer(aggregate)
    if found is None:
        return None
    node.mark_name()
    aggregate.approximated("all packets share the aggregate policer, premium ones first in Junos")
    return Policer(node.word, found.police, node.place, found.loss, True, places=found.places)
