"""The reader of IOS configurations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from perhop.routers.reading.configuration import AS_STATED, Attachment, Configuration
from perhop.routers.reading.ios.access_lists import AccessLists
from perhop.routers.reading.ios.account import Account
from perhop.routers.reading.ios.building import Builder
from perhop.routers.reading.ios.classes import ClassMaps
from perhop.routers.reading.ios.defaults import ASSUMED_RATE, platform_of
from perhop.routers.reading.ios.groups import Groups
from perhop.routers.reading.ios.ignored import global_reason, reason_anywhere
from perhop.routers.reading.ios.interfaces import Interfaces
from perhop.routers.reading.ios.policies import PolicyMaps
from perhop.routers.reading.ios.tree import CLASS_STATEMENTS, read_tree, walk

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perhop.routers.reading.configuration import Direction, Source
    from perhop.routers.reading.ios.tree import Statement


def read(texts: Sequence[Source], rates: Mapping[str, int] = AS_STATED) -> Configuration:
    """Return what configurations of IOS or IOS-XE say about quality of service.

    Args:
        texts: The configurations.
        rates: Rates of interfaces in bit/s in place of theirs, as for `detect.read`.
    """
    statements = [statement for source in texts for statement in read_tree(source)]
    account = Account()
    platform = platform_of(statements, account)
    lists = AccessLists(statements, Groups(statements, account), account)
    classes = ClassMaps(statements, lists, account)
    policies = PolicyMaps(statements, classes, account, platform)
    builder = Builder(policies, platform, account)
    interfaces = Interfaces(statements, policies, builder, lists, platform, account, rates)
    attachments = interfaces.attachments()
    _others(statements, account)
    attachments += _unused(policies, builder, account, rates.get(""))
    policies.finish()
    classes.finish()
    for statement in walk(statements):
        if not account.has(statement) and (why := reason_anywhere(statement)) is not None:
            account.not_modelled(statement, why)
    lines = sorted(account.lines, key=lambda line: line.place.line)
    if len(texts) > 1:
        order = {source.file: index for index, source in enumerate(texts)}
        lines.sort(key=lambda line: order[line.place.file])
    balance: Literal["per-packet", "per-destination"] | None = None
    if interfaces.balance is not None:
        balance = "per-packet" if interfaces.balance == "per-packet" else "per-destination"
    return Configuration(
        family="ios",
        lines=tuple(lines),
        defaults=account.defaults if lines else (),
        attachments=tuple(attachments),
        balance=balance,
        refusals=tuple(interfaces.refusals),
    )


def _unused(
    policies: PolicyMaps, builder: Builder, account: Account, rate: int | None
) -> list[Attachment]:
    """Return the policies that no interface uses; those without queues are for what arrives."""
    found: list[Attachment] = []
    for name in sorted(policies.unused, key=policies.is_inside):
        if name not in policies.unused:
            continue  # another contains it
        if policies.refused(name) is not None:
            continue
        direction: Direction = "out" if policies.has_queues(name) else "in"
        built = builder.build(name, rate or ASSUMED_RATE, direction)
        if built is not None:
            place = policies.place(name)
            if rate is None:
                source = "assumption: no interface uses the policy"
                account.default(place, "rate", "100 Mbps", source)
            found.append(
                Attachment("", direction, name, built.policy, built.places, rate, shape=built.shape)
            )
    return found


def _others(statements: Sequence[Statement], account: Account) -> None:
    """Note statements about QoS at the top level that no part reads."""
    for statement in statements:
        words = tuple(word.lower() for word in statement.words)
        if statement.kind == "control-plane":
            _control_plane(statement, account)
        elif not statement.kind:
            negated = words[:1] in (("no",), ("default",))
            reason = global_reason(words[negated:])
            if reason is None and words[:1] and words[0] in CLASS_STATEMENTS | {"match", "class"}:
                reason = "stands outside the block that it would belong to"
            if reason is not None and negated:
                account.modelled(statement)
            elif reason is not None:
                account.not_modelled(statement, reason)
                account.ignored(statement.children, reason)


def _control_plane(statement: Statement, account: Account) -> None:
    for child in statement.children:
        if child.starts("service-policy"):
            account.not_modelled(child, "packets to the router itself are not modelled")
