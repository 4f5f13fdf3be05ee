"""The guarantees of the classes of a policy, as a scenario needs them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from perhop.routers.reading.ios.defaults import COMMANDS
from perhop.routers.reading.ios.numbers import share_text
from perhop.scenario.model.quantities import QUANTA
from perhop.units import WHOLE, format_rate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perhop.routers.reading.ios.account import Account
    from perhop.routers.reading.ios.actions import Settings
    from perhop.routers.reading.ios.defaults import Platform

KEPT: Final = WHOLE // 100
"""The share that the classes without a guarantee keep together: IOS keeps it for `class-default`
(Cisco 10000 Series Router Quality of Service Configuration Guide, Class-Default Bandwidth
Guarantee)."""


NO_GUARANTEE: Final = WHOLE
"""The amount, 1 bit/s, that stands for no guarantee beside an excess weight: a scenario has no
class without one."""

_TURN: Final = 1500
"""The bytes of a turn of each class that shares what exceeds the guarantees: a full packet."""


@dataclass(slots=True)
class _Guarantee:
    """A guarantee in parts per billion of a bit/s, so that shares stay exact."""

    settings: Settings
    amount: int | None = None
    share: int | None = None


@dataclass(frozen=True, slots=True)
class Share:
    """What a class gets of the rate that its policy divides.

    Attributes:
        bandwidth: Its `bandwidth` as a scenario states it, or None.
        rate: Its guarantee in bit/s, or for a class without one its part of what is left.
        quantum: The weight by which it shares what exceeds the guarantees, in bytes of a turn; None
            for classes that borrow in proportion to their guarantees.
    """

    bandwidth: str | None
    rate: int
    quantum: int | None = None


def guarantees(
    classes: Sequence[Settings],
    ceilings: Sequence[int | None],
    capacity: int,
    own: int,
    platform: Platform,
    account: Account,
) -> list[Share]:
    """Return what each class of a policy gets.

    IOS-XE has a scheduler with three parameters: what exceeds the guarantees is divided equally
    (Cisco, QoS Modular QoS Command-Line Interface Configuration Guide, IOS XE, 3-level user-defined
    queuing policy support). `bandwidth remaining` would say otherwise, but not beside `bandwidth`.

    Args:
        classes: The classes of a policy.
        ceilings: The rate in bit/s to which each class is shaped, or None.
        capacity: The rate in bit/s that the policy divides.
        own: The rate that is guaranteed to it, which may be less.
        platform: The platform.
        account: Where approximations and defaults are listed.
    """
    strict = strict_total(classes, capacity)
    fixed = [_fixed(each, capacity) for each in classes]
    pool = max(capacity * WHOLE - strict - sum(amount or 0 for amount in fixed), 0)
    ratios = any(each.ratio is not None for each in classes)
    weights = [_ratio(each) if ratios and not each.level else 0 for each in classes]
    found: list[_Guarantee] = []
    for each, amount, weight in zip(classes, fixed, weights, strict=True):
        guarantee = _Guarantee(each)
        if amount is not None:
            guarantee.amount = amount
            guarantee.share = (each.bandwidth.share or None) if each.bandwidth else None
        if not each.level and (each.remaining is not None or weight):
            part = pool * (each.remaining or 0) // WHOLE
            part = pool * weight // sum(weights) if each.remaining is None else part
            guarantee.amount = part
        found.append(guarantee)
    several = sum(not each.level and each.drop is None for each in classes) > 1
    if platform.xe and several and any(amount is not None for amount in fixed):
        if not any(each.child is not None and each.bandwidth is None for each in classes):
            return _three_parameters(found, fixed, ceilings, strict, capacity, own, account)
        for each in classes:
            if each.bandwidth is not None and not each.level:
                account.approximated(
                    each.statements["bandwidth"],
                    "classes borrow in proportion to their guarantees, as the policy inside one "
                    "divides a guarantee; IOS-XE divides what is left equally",
                )
    _leave_some(found, strict, capacity, account)
    _respect_ceilings(found, ceilings, strict, capacity, account)
    if own < capacity:
        _fit(found, strict, capacity, own)
    rest = own * WHOLE - strict - sum(each.amount or 0 for each in found)
    takers = sum(each.amount is None and not each.settings.level for each in found)
    left = max(rest // takers // WHOLE, 1) if takers else own
    return [
        Share(None, _priority(each.settings, capacity) // WHOLE or own)
        if each.settings.level
        else Share(_text(each, own), max(each.amount // WHOLE, 1))
        if each.amount is not None
        else Share(None, left)
        for each in found
    ]


def _three_parameters(
    found: Sequence[_Guarantee],
    fixed: Sequence[int | None],
    ceilings: Sequence[int | None],
    strict: int,
    capacity: int,
    own: int,
    account: Account,
) -> list[Share]:
    """Return guarantees and weights for what exceeds them.

    Args:
        found: The classes; amounts that are not those of `bandwidth` are taken back.
        fixed: The amount of each class's `bandwidth`, or None.
        ceilings: As for `guarantees`.
        strict: The guarantees of strict classes, as amounts.
        capacity: As for `guarantees`.
        own: As for `guarantees`.
        account: As for `guarantees`.
    """
    for each, amount in zip(found, fixed, strict=True):
        each.amount = amount
        each.share = each.settings.bandwidth.share or None if each.settings.bandwidth else None
    given = sum(amount or 0 for amount in fixed)
    takers = sum(each.amount is None and not each.settings.level for each in found)
    _leave_some(found, strict, capacity, account)
    reduced = sum(each.amount or 0 for each in found) < given
    for each, ceiling in zip(found, ceilings, strict=True):
        if each.settings.level:
            continue
        if each.amount is None:
            each.amount = max(capacity * KEPT // takers if reduced else 0, NO_GUARANTEE)
        if ceiling is not None and each.amount > ceiling * WHOLE:
            each.amount, each.share = ceiling * WHOLE, None
            if "bandwidth" in each.settings.statements:
                statement = each.settings.statements["bandwidth"]
                account.approximated(statement, "reduced to the rate of the shaper")
    if own < capacity:
        _fit(found, strict, capacity, own)
    sharing = sum(not each.settings.level and each.settings.drop is None for each in found)
    rest = max(own * WHOLE - strict - sum(each.amount or 0 for each in found), 0)
    shares: list[Share] = []
    for each, amount in zip(found, fixed, strict=True):
        if each.settings.level or each.amount is None:
            shares.append(Share(None, _priority(each.settings, capacity) // WHOLE or own))
            continue
        rate = each.amount if amount is not None else rest // max(sharing, 1)
        turn = QUANTA[0] if each.settings.drop is not None else _TURN
        shares.append(Share(_text(each, own), max(rate // WHOLE, 1), turn))
    return shares


def strict_total(classes: Sequence[Settings], capacity: int) -> int:
    """Return the guarantees of the strict classes, in parts per billion of a bit/s."""
    return sum(_priority(each, capacity) for each in classes)


def _fit(found: Sequence[_Guarantee], strict: int, capacity: int, own: int) -> None:
    """Reduce guarantees that are parts of a shaper's rate to what its class is guaranteed."""
    room, whole = own * WHOLE - strict, capacity * WHOLE - strict
    for each in found:
        if each.amount is not None and 0 < room < whole:
            each.amount, each.share = each.amount * room // whole, None


def _priority(each: Settings, capacity: int) -> int:
    """Return the guarantee of a strict class, in parts per billion of a bit/s."""
    policed = each.police.rate if each.police is not None else None
    if each.limits_priority(capacity):
        policed = each.priority
    if not each.level or policed is None:
        return 0
    return capacity * policed.share if policed.share else policed.bits * WHOLE


def _fixed(each: Settings, capacity: int) -> int | None:
    if each.bandwidth is None or each.level:
        return None
    share, bits = each.bandwidth.share, each.bandwidth.bits
    return capacity * share if share else bits * WHOLE


def _ratio(each: Settings) -> int:
    """Return the weight in what is left: 1 for a class that states nothing."""
    if each.ratio is not None or each.drop is not None:
        return each.ratio or 0
    return 1 if each.bandwidth is None and each.remaining is None else 0


def _leave_some(found: Sequence[_Guarantee], strict: int, capacity: int, account: Account) -> None:
    """Reduce guarantees that leave nothing for classes without one."""
    takers = [each for each in found if each.amount is None and not each.settings.level]
    given = sum(each.amount or 0 for each in found)
    whole = capacity * WHOLE
    least = capacity * KEPT
    if not takers or not given or strict + given + least <= whole or strict + given > whole:
        return
    room = max(whole - strict - least, given // 2)
    if room + strict > whole:
        return
    for each in found:
        if each.amount:
            each.amount, each.share = each.amount * room // given, None
            for key in ("bandwidth", "remaining"):
                if key in each.settings.statements:
                    account.approximated(
                        each.settings.statements[key],
                        "reduced, as classes without a guarantee keep 1%",
                    )
    for each in takers:
        place = each.settings.header.place
        account.default(place, "bandwidth", "1%", f"{COMMANDS}, bandwidth, from 12.4(20)T")


def _respect_ceilings(
    found: Sequence[_Guarantee],
    ceilings: Sequence[int | None],
    strict: int,
    capacity: int,
    account: Account,
) -> None:
    """Give shaped classes no more than their rate."""
    for each, ceiling in zip(found, ceilings, strict=True):
        if ceiling is not None and each.amount is not None and each.amount > ceiling * WHOLE:
            each.amount, each.share = ceiling * WHOLE, None
            statement = each.settings.statements.get("bandwidth")
            if statement is not None:
                account.approximated(statement, "reduced to the rate of the shaper")
    left = capacity * WHOLE - strict - sum(each.amount or 0 for each in found)
    takers = [
        (capacity if ceiling is None else ceiling, index)
        for index, (each, ceiling) in enumerate(zip(found, ceilings, strict=True))
        if each.amount is None and not each.settings.level
    ]
    # The lowest ceiling first: what a class cannot use, the others divide.
    for done, (ceiling, index) in enumerate(sorted(takers)):
        part = left // (len(takers) - done)
        # Rates are rounded down, which leaves up to 1 bit/s of each class to divide.
        if ceilings[index] is None or ceiling * WHOLE >= part + len(found) * WHOLE:
            break
        amount = min(ceiling * WHOLE, max(part, WHOLE))
        found[index].amount = amount
        left -= amount


def _text(each: _Guarantee, capacity: int) -> str:
    amount = each.amount or 0
    if each.share is not None:
        return share_text(each.share)
    share, rest = divmod(amount, capacity)
    if not rest and share % 10**6 == 0 and each.settings.bandwidth is None:
        return share_text(share)
    return format_rate(max(amount // WHOLE, 1))
